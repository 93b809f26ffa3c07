// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts what is duplicated in a snapshot.

/// Adds counts field by field.
macro_rules! add_fields {
    ($type:ty: $($field:ident),+ $(,)?) => {
        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

pub mod active;
pub mod code;
mod columns;
pub mod content;
pub mod entries;
pub mod group;
pub mod joins;
pub mod kin;
mod parts;
