// SPDX-License-Identifier: GPL-2.0-or-later
//! `--watch`: one scan after another, on a terminal in one screen that is drawn over.

use super::args::{Args, Output};
use super::render::{Before, render};
use super::take::NoneRead;
use super::{once, verdict_of};
use crate::output::{note, offer};
use anyhow::Result;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Scans every so many seconds until it has been done as often as asked, or nobody reads on.
pub fn watch(args: &Args, every: f64) -> Result<ExitCode> {
    let show = &args.show;
    let table = !show.json && show.output == Output::Table;
    let screen = table && std::io::stdout().is_terminal();
    let mut before = Before::default();
    let mut fork = None;
    for round in 1.. {
        let due = Instant::now() + Duration::from_secs_f64(every);
        let scanned = match once(args, fork) {
            // They may begin or come back.
            Err(error) if error.is::<NoneRead>() => Err(error),
            scanned => Ok(scanned?),
        };
        let text = match &scanned {
            Ok(report) => {
                fork = report.verdict.fork.or(fork);
                render(report, show, Some(&before))?
            }
            Err(error) if table => format!("Now {error}.\n"),
            Err(error) => {
                note!("cohort: now {error}");
                String::new()
            }
        };
        let again = offer(match (screen, table && round > 1) {
            (true, _) => drawn_over(&text, round),
            (false, true) => format!("\n{text}"),
            (false, false) => text,
        })?;
        if !again || args.looking.count.is_some_and(|count| round >= count) {
            return scanned.map(|report| verdict_of(&report, &args.select));
        }
        before = scanned.as_ref().map_or(before, Before::new);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    unreachable!("the rounds end by themselves or not at all")
}

/// The text from the upper left corner on; the rest of each line and of the screen is erased. The
/// cursor stays behind it, where the shell goes on after ^C.
pub fn drawn_over(text: &str, round: u64) -> String {
    let begin = if round == 1 {
        "\x1b[H\x1b[2J"
    } else {
        "\x1b[H"
    };
    format!("{begin}{}\x1b[J", text.replace('\n', "\x1b[K\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_cleared_once_and_then_drawn_over() {
        assert_eq!(
            drawn_over("a\nb\n", 1),
            "\x1b[H\x1b[2Ja\x1b[K\nb\x1b[K\n\x1b[J"
        );
        assert_eq!(drawn_over("a\n", 2), "\x1b[Ha\x1b[K\n\x1b[J");
    }
}
