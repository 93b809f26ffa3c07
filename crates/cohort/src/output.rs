// SPDX-License-Identifier: GPL-2.0-or-later
//! The standard output, of which a reader such as `head` may have had enough, and the standard error.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Writes to the standard output; whoever closes it early has had enough.
pub fn print(text: impl AsRef<[u8]>) -> Result<()> {
    offer(text).map(|_| ())
}

/// Writes to the standard output, and returns whether somebody still reads it.
pub fn offer(text: impl AsRef<[u8]>) -> Result<bool> {
    let mut output = std::io::stdout();
    match output
        .write_all(text.as_ref())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other
            .map(|()| true)
            .context("cannot write to the standard output"),
    }
}

/// `println!` that does not panic: [`print()`] of a line.
macro_rules! say {
    ($($word:tt)+) => {
        $crate::output::print(format!("{}\n", format_args!($($word)+)))
    };
}
pub(crate) use say;

/// `eprintln!` that does not panic: a message that cannot be written stops nothing.
macro_rules! note {
    ($($word:tt)+) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($word)+);
    }};
}
pub(crate) use note;
