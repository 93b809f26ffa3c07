// SPDX-License-Identifier: GPL-2.0-or-later
//! The standard output, of which a reader such as `head` may have had enough, and the standard error.

use anyhow::{Result, anyhow};
use std::io::{self, ErrorKind, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// The program was started without a standard output.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Looks before Rust's start-up code opens /dev/null in the place of a closed standard output:
/// writes to that succeed.
// SAFETY: the section holds addresses of functions of C's calling convention.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: no memory is involved.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        CLOSED.store(flags == -1, Ordering::Relaxed);
    }
    look
};

/// The standard output, if there is one.
pub fn open() -> Result<Stdout> {
    match CLOSED.load(Ordering::Relaxed) {
        false => Ok(io::stdout()),
        true => Err(failed(&io::Error::from_raw_os_error(libc::EBADF))),
    }
}

/// Without its cause as such: that a file is full is another matter to whoever looks for causes.
fn failed(error: &io::Error) -> anyhow::Error {
    anyhow!("cannot write to the standard output: {error}")
}

/// Writes to the standard output; whoever closes it early has had enough.
pub fn print(text: impl AsRef<[u8]>) -> Result<()> {
    offer(text).map(|_| ())
}

/// Writes to the standard output, and returns whether somebody still reads it.
pub fn offer(text: impl AsRef<[u8]>) -> Result<bool> {
    let mut output = open()?;
    read_on(
        output
            .write_all(text.as_ref())
            .and_then(|()| output.flush()),
    )
}

/// Whether somebody still reads the standard output, from what became of a write to it.
pub fn read_on(written: io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(failed(&error)),
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
