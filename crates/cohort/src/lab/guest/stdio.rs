// SPDX-License-Identifier: GPL-2.0-or-later
//! This program's standard input and outputs as virtio ports of a guest.
//!
//! QEMU has one end of a socket for each; threads copy between the other ends and what this program
//! was started with, which may be a terminal, a pipe or a file.

use anyhow::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread::JoinHandle;

/// The names of the ports, in the order of the descriptors that they stand for.
const NAMES: [&str; 3] = ["in", "out", "err"];

/// As if SIGPIPE had ended this program, which Rust ignores.
const EXIT_BROKEN_PIPE: i32 = 128 + libc::SIGPIPE;

/// The guest's ends, for QEMU to inherit.
pub struct Guest([UnixStream; 3]);

/// This program's ends.
pub struct Host {
    outputs: [JoinHandle<()>; 2],
}

/// Connected ends, with the copying begun.
pub fn ports() -> Result<(Host, Guest)> {
    let pair = || UnixStream::pair().context("cannot make a socket for the guest");
    let ((input, guest_in), (out, guest_out), (err, guest_err)) = (pair()?, pair()?, pair()?);
    let guest = Guest([guest_in, guest_out, guest_err]);
    for end in &guest.0 {
        fcntl_setfd(end, FdFlags::empty()).context("cannot let QEMU inherit a socket")?;
    }
    // Nobody waits for this one: it may sit in a read of a terminal for ever.
    std::thread::spawn(move || {
        let mut to = &input;
        copy(io::stdin().lock(), &mut to).ok();
        // Only this half: a socket that is closed as a whole loses what the guest has not read.
        input.shutdown(Shutdown::Write).ok();
        let mut rest = [0];
        (&input).read_exact(&mut rest).ok();
    });
    let host = Host {
        outputs: [
            std::thread::spawn(move || output(copy(out, &mut io::stdout()))),
            std::thread::spawn(move || output(copy(err, &mut io::stderr()))),
        ],
    };
    Ok((host, guest))
}

impl Guest {
    /// Adds the ports to a machine that has a virtio-serial bus.
    pub fn add_to(&self, qemu: &mut Command) {
        for (name, end) in NAMES.iter().zip(&self.0) {
            qemu.arg("-chardev")
                .arg(format!("socket,id={name},fd={}", end.as_raw_fd()))
                .arg("-device")
                .arg(format!("virtserialport,chardev={name},name={name}"));
        }
    }
}

impl Host {
    /// Waits until all that the guest wrote is written here. QEMU has ended.
    pub fn finish(self) {
        for thread in self.outputs {
            thread.join().ok();
        }
    }
}

/// Ends this program, and with it the guest, if nobody takes its output: the command in the guest
/// would wait for ever to write more.
fn output(copied: io::Result<()>) {
    match copied {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            std::process::exit(EXIT_BROKEN_PIPE)
        }
        Err(error) => {
            eprintln!("cohort: cannot write the output: {error}");
            std::process::exit(1)
        }
    }
}

/// Copies until the end, each piece at once; an error is one of `to`.
fn copy(mut from: impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = [0; 1 << 16];
    loop {
        let count = match from.read(&mut piece) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        if count == 0 {
            return Ok(());
        }
        to.write_all(&piece[..count])?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_copied_also_without_a_line_end() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let mut found = Vec::new();
        copy(&bytes[..], &mut found).unwrap();
        assert!(found == bytes);
    }
}
