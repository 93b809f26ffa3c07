// SPDX-License-Identifier: GPL-2.0-or-later
//! Sums and differences of counters, and the macro that declares a struct of them.

/// Sums and differences of counters, field by field.
pub trait Tally {
    /// Adds what was counted between `old` and `new`.
    fn add_since(&mut self, new: &Self, old: &Self);
}

impl Tally for u64 {
    fn add_since(&mut self, new: &Self, old: &Self) {
        *self += new - old;
    }
}

impl<T: Tally, const N: usize> Tally for [T; N] {
    fn add_since(&mut self, new: &Self, old: &Self) {
        for (sum, (new, old)) in self.iter_mut().zip(new.iter().zip(old)) {
            sum.add_since(new, old);
        }
    }
}

/// Declares a struct of counters that can be added up, and copied unless it has values by level.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($fields:tt)+ }) => {
        $crate::tally::counters! {
            by level: #[derive(Copy)] $(#[$about])* $name { $($fields)+ }
        }
    };
    (
        by level: $(#[$about:meta])* $name:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)+ }

        impl $crate::tally::Tally for $name {
            fn add_since(&mut self, new: &Self, old: &Self) {
                $($crate::tally::Tally::add_since(&mut self.$field, &new.$field, &old.$field);)+
            }
        }
    };
}

pub(crate) use counters;
