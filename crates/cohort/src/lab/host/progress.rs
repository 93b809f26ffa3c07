// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress of long steps: a bar with the time left on a terminal, plain lines elsewhere.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often a plain line is printed when there is no terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(20);

/// All bars of this terminal, drawn together: guests that run at the same time each have one.
fn bars() -> &'static MultiProgress {
    static BARS: OnceLock<MultiProgress> = OnceLock::new();
    BARS.get_or_init(MultiProgress::new)
}

/// One long step, measured in whatever can be counted: files, seconds, steps.
pub struct Progress {
    label: String,
    unit: &'static str,
    total: Option<u64>,
    at: u64,
    note: String,
    start: Instant,
    printed: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts a step of `total` units; `None` if the total is not known.
    pub fn new(label: &str, unit: &'static str, total: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = bars().add(match total {
                Some(total) => ProgressBar::new(total),
                None => ProgressBar::new_spinner(),
            });
            let shape = if total.is_some() {
                "{prefix} {bar:24} {pos}/{len} {msg} {elapsed} gone, about {eta} left"
            } else {
                "{prefix} {spinner} {pos} {msg} {elapsed} gone"
            };
            bar.set_style(ProgressStyle::with_template(shape).expect("a fixed template is valid"));
            bar.set_prefix(label.to_string());
            bar.set_message(unit);
            bar
        });
        if bar.is_none() {
            eprintln!("{label} ...");
        }
        let now = Instant::now();
        Progress {
            label: label.to_string(),
            unit,
            total,
            at: 0,
            note: String::new(),
            start: now,
            printed: now,
            bar,
        }
    }

    pub fn step(&mut self) {
        self.set(self.at + 1);
    }

    /// Sets the units done, at most one less than the total: the total may be an estimate.
    pub fn set(&mut self, at: u64) {
        self.at = at;
        if let Some(total) = self.total {
            self.at = at.min(total.saturating_sub(1));
        }
        self.tick();
    }

    /// Sets the text behind the count: what is done right now.
    pub fn note(&mut self, note: &str) {
        self.note = note.to_string();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {note}", self.unit));
        }
    }

    /// Redraws the bar; without a terminal, prints a line if one is due.
    pub fn tick(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.at);
            bar.tick();
        } else if self.printed.elapsed() >= PLAIN_EVERY {
            self.printed = Instant::now();
            eprintln!("{}", self.line());
        }
    }

    /// Sets the position to the seconds gone, for steps of which only the time is known. The
    /// estimate grows on a machine slower than the one it was made on.
    pub fn tick_seconds(&mut self) {
        let gone = self.start.elapsed().as_secs();
        if let Some(total) = self.total {
            let total = at_least_a_fifth_left(gone, total);
            self.total = Some(total);
            if let Some(bar) = &self.bar {
                bar.set_length(total);
            }
        }
        self.set(gone);
    }

    /// Ends the step with one line that stays.
    pub fn finish(self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let line = format!("{text} ({})", duration(self.start.elapsed().as_secs()));
        bars().suspend(|| eprintln!("{line}"));
    }

    fn line(&self) -> String {
        let gone = self.start.elapsed().as_secs();
        let mut line = match self.total {
            Some(total) => format!(
                "{}: {} of {total} {}, {} gone",
                self.label,
                self.at,
                self.unit,
                duration(gone)
            ),
            None => format!(
                "{}: {} {}, {} gone",
                self.label,
                self.at,
                self.unit,
                duration(gone)
            ),
        };
        if let Some(left) = self.total.and_then(|total| left(self.at, total, gone)) {
            line.push_str(&format!(", about {} left", duration(left)));
        }
        if !self.note.is_empty() {
            line.push_str(&format!(" ({})", self.note));
        }
        line
    }
}

/// The estimate `total` in seconds, raised so that a fifth of it is left after `gone` seconds.
fn at_least_a_fifth_left(gone: u64, total: u64) -> u64 {
    total.max(gone + gone / 4)
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Clear the bar before an error message is printed on its line.
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Seconds left when `at` of `total` took `gone` seconds; None while `at` is 0.
fn left(at: u64, total: u64, gone: u64) -> Option<u64> {
    (at > 0).then(|| gone * total.saturating_sub(at) / at)
}

/// Seconds as text, for instance `1 min 1 s`.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_rate_so_far() {
        assert_eq!(left(0, 100, 10), None);
        assert_eq!(left(25, 100, 10), Some(30));
        assert_eq!(left(120, 100, 10), Some(0));
    }

    #[test]
    fn durations_read_like_speech() {
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(3720), "1 h 2 min");
    }

    #[test]
    fn an_estimate_of_seconds_grows_when_it_is_nearly_over() {
        assert_eq!(at_least_a_fifth_left(10, 60), 60);
        assert_eq!(at_least_a_fifth_left(60, 60), 75);
        assert_eq!(at_least_a_fifth_left(960, 60), 1_200);
        assert_eq!(left(960, 1_200, 960), Some(240));
    }

    #[test]
    fn an_estimate_that_was_too_low_never_shows_more_than_all() {
        let mut progress = Progress::new("test", "files", Some(2));
        for _ in 0..5 {
            progress.step();
        }
        assert_eq!(progress.at, 1);
    }
}
