// SPDX-License-Identifier: GPL-2.0-or-later
//! Manual pages: what clap knows of a command, and the sections that it does not know, EXIT STATUS
//! and EXAMPLES.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// The exit status of a command unless [`of`] has another list.
const USUAL: &[(&str, &str)] = &[
    ("0", "The command did what it was asked for."),
    ("1", "It failed; the message says why and what to do."),
    ("2", "The command line is wrong."),
];
/// Of commands that run tests.
const TESTS: &[(&str, &str)] = &[
    ("0", "Every test passed."),
    ("1", "A test failed, or the tests could not be run."),
    ("2", "The command line is wrong."),
];

/// Exit statuses with their meaning, and examples: a command and what it does.
struct Extra {
    statuses: &'static [(&'static str, &'static str)],
    examples: &'static [(&'static str, &'static str)],
}

/// The sections of a command, which is named as it is typed.
fn of(command: &str) -> Option<Extra> {
    let mut statuses = USUAL;
    let examples: &[(&str, &str)] = match command {
        "cohort" => &[
            ("cohort scan", "Show what sharing would save here."),
            (
                "cohort run -- /usr/sbin/apache2 -DFOREGROUND",
                "Start a server whose processes share page tables.",
            ),
        ],
        "cohort run" => {
            statuses = &[
                ("2", "The command line is wrong."),
                (
                    "69",
                    "The kernel has no Cohort, or cannot do what was asked for; CMD was not started.",
                ),
                ("126", "CMD cannot be executed."),
                ("127", "There is no CMD."),
                ("others", "The exit status of CMD."),
            ];
            &[
                (
                    "cohort run --keep-ids -- /usr/sbin/apache2 -DFOREGROUND",
                    "Share with workers that change to another user.",
                ),
                (
                    "cohort run --order 64K -- CMD",
                    "Give heap and anonymous memory pages of 64 KB.",
                ),
                (
                    "cohort run --merge -- CMD",
                    "Let KSM merge equal pages of the program.",
                ),
            ]
        }
        "cohort scan" => {
            statuses = &[
                ("0", "Everything that was asked for is known."),
                ("1", "Nothing could be read; the message says why."),
                ("2", "The command line is wrong."),
                (
                    "77",
                    "Something could not be seen, such as page frames, or a process was not read \
                     that was asked for by its number; the message says what is missing.",
                ),
            ];
            &[
                ("cohort scan", "Show groups of processes and the answer."),
                (
                    "cohort scan -d -e postgres",
                    "Show everything about the processes of one program.",
                ),
                (
                    "cohort scan -o openmetrics",
                    "Print gauges for Prometheus' textfile collector.",
                ),
                ("cohort scan --from FILE", "Analyse a capture."),
            ]
        }
        "cohort scan capture" => {
            statuses = &[
                ("0", "The capture is whole."),
                ("1", "It could not be written."),
                ("2", "The command line is wrong."),
                (
                    "77",
                    "Page frames could not be seen, or a process was not read that was asked for \
                     by its number; the capture is without them.",
                ),
            ];
            &[(
                "cohort scan capture FILE",
                "Record here, to be shown with `cohort scan --from FILE`.",
            )]
        }
        "cohort scan diff" => &[(
            "cohort scan diff BEFORE AFTER",
            "Show what changed between two captures.",
        )],
        "cohort scan benchmark" => &[(
            "cohort scan benchmark",
            "Measure what a scan of 200 processes costs.",
        )],
        "cohort top" => {
            statuses = &[
                ("0", "All frames were shown, or their reader wants no more."),
                ("1", "Nothing could be read; the message says why."),
                ("2", "The command line is wrong."),
                ("69", "The kernel has no Cohort."),
            ];
            &[
                (
                    "cohort top",
                    "Show every two seconds what is shared, until ^C.",
                ),
                (
                    "cohort top --by group --interval 10",
                    "Show groups and cohorts alone, every ten seconds.",
                ),
                (
                    "cohort top --json --count 60 --interval 1",
                    "Print a minute as JSON, an object per second.",
                ),
            ]
        }
        "cohort lab" => &[
            ("cohort lab setup", "Install the packages that are missing."),
            ("cohort lab run zygote-fork", "Build, boot and measure."),
        ],
        "cohort lab setup" => &[
            (
                "cohort lab setup",
                "Install what the lab needs (as root, once).",
            ),
            (
                "cohort lab setup --arch arm64",
                "Install also what guests of arm64 need.",
            ),
            (
                "cohort lab setup --arch armv7",
                "Install also what guests of armv7 need.",
            ),
        ],
        "cohort lab build" => &[
            (
                "cohort lab build",
                "Build the kernel that experiments measure.",
            ),
            (
                "cohort lab build --config debug",
                "Build the one that tests run on.",
            ),
        ],
        "cohort lab rootfs" => &[(
            "cohort lab rootfs base",
            "Make the root file system that most guests have.",
        )],
        "cohort lab shell" => {
            statuses = &[
                ("0", "Without CMD: the guest was left."),
                ("1", "The guest could not be started; the message says why."),
                ("2", "The command line is wrong."),
                ("124", "CMD took longer than --timeout."),
                ("125", "The guest ended before CMD did."),
                ("128+N", "Signal N ended CMD."),
                ("others", "The exit status of CMD."),
            ];
            &[
                ("cohort lab shell", "Boot a guest with a shell."),
                (
                    "cohort lab shell -- cohort run -- true",
                    "Run a command on the kernel of this checkout.",
                ),
                (
                    "cohort lab shell --kernel arch/x86/boot/bzImage -- uname -r",
                    "Run a command on your own kernel.",
                ),
                (
                    "cohort lab shell --copy ./test -- test --quick",
                    "Run your own program, built for Debian.",
                ),
            ]
        }
        "cohort lab deb" => &[
            (
                "cohort lab deb",
                "Build the packages, the kernel configured as the running one.",
            ),
            (
                "cohort lab deb --kernel-config FILE",
                "Configure the kernel as a file says.",
            ),
        ],
        "cohort lab test" => {
            statuses = TESTS;
            &[
                ("cohort lab test", "Run the short run of all selftests."),
                ("cohort lab test --filter fork --full", "All cases of some."),
            ]
        }
        "cohort lab fuzz" => {
            statuses = TESTS;
            &[
                ("cohort lab fuzz --minutes 60", "Fuzz for an hour."),
                (
                    "cohort lab fuzz --replay FILE --shorten",
                    "Shorten what failed before.",
                ),
            ]
        }
        "cohort lab mmtests" => {
            statuses = TESTS;
            &[(
                "cohort lab mmtests --short",
                "Run a short choice of the kernel's own tests.",
            )]
        }
        "cohort lab mutate" => {
            statuses = TESTS;
            &[(
                "cohort lab mutate --filter unshare",
                "Let functions of that name do nothing, one by one.",
            )]
        }
        "cohort lab scan-kernels" => {
            statuses = TESTS;
            &[(
                "cohort lab scan-kernels --filter 5.10",
                "Scan on Debian's Linux 5.10.",
            )]
        }
        "cohort lab stages" => {
            statuses = TESTS;
            &[("cohort lab stages", "Run what `make test` runs.")]
        }
        "cohort lab soak" => {
            statuses = TESTS;
            &[(
                "cohort lab soak --minutes 60",
                "Load the debug kernel for an hour.",
            )]
        }
        "cohort lab run" => {
            statuses = &[
                (
                    "0",
                    "The experiments ran, whether or not they met their aims.",
                ),
                (
                    "1",
                    "A guest did not get to its end, or a result could not be kept.",
                ),
                ("2", "The command line is wrong."),
            ];
            &[
                (
                    "cohort lab run zygote-fork",
                    "Print the experiment's tables.",
                ),
                (
                    "cohort lab run zygote-fork --keep",
                    "Write results/zygote-fork.json too.",
                ),
                (
                    "cohort lab run app-launch --model cortex-a9 --bounds assumed",
                    "Bound its cycles over all that the model assumes.",
                ),
            ]
        }
        "cohort lab profile" => &[(
            "cohort lab profile zygote-fork",
            "Show which kernel functions its guests spend instructions in.",
        )],
        "cohort lab series" => &[
            (
                "cohort lab series out/series",
                "Write the patches with their cover letters.",
            ),
            (
                "cohort lab series out/series --only groups --sparse --test",
                "Check one series as it is before the later ones.",
            ),
        ],
        "cohort lab record" => &[(
            "cohort lab record zygote-fork",
            "Write the memory accesses of its guests to out/traces.",
        )],
        "cohort lab replay" => &[(
            "cohort lab replay FILE --model zen4",
            "Print the counters of a trace under a model.",
        )],
        "cohort lab sweep" => &[
            (
                "cohort lab sweep FILE --model baseline --model zen4",
                "Compare two models on one trace.",
            ),
            (
                "cohort lab sweep FILE --model zen4 --assumed",
                "Print the bounds of each figure over what the model assumes.",
            ),
        ],
        "cohort lab check-model" => {
            statuses = TESTS;
            &[(
                "cohort lab check-model 6.12-arm64",
                "Compare the model's translations with QEMU's.",
            )]
        }
        "cohort lab audit" => {
            statuses = TESTS;
            &[
                (
                    "cohort lab audit --config pristine",
                    "Look for missing TLB flushes in a stock kernel.",
                ),
                (
                    "cohort lab audit --without flush_tlb_mm_range -- fork-cost --rounds 1",
                    "Leave a flush out, and see it reported.",
                ),
            ]
        }
        "cohort lab check-native" => &[(
            "cohort lab check-native --rounds 3",
            "Compare the model's ratios with those of this machine.",
        )],
        "cohort lab check-groups" => {
            statuses = TESTS;
            &[(
                "cohort lab check-groups --config bench --filter crun",
                "Check containers that crun starts, on the kernel for measuring.",
            )]
        }
        "cohort lab check-packages" => {
            statuses = TESTS;
            &[(
                "cohort lab check-packages --no-kernel",
                "Check the package of the host tools alone.",
            )]
        }
        "cohort lab check-objects" => {
            statuses = TESTS;
            &[(
                "cohort lab check-objects --arch riscv --arch m68k",
                "Compare the objects of two architectures that the series does not know.",
            )]
        }
        "cohort lab bench-model" => &[(
            "cohort lab bench-model",
            "Print the model's speed beside QEMU's.",
        )],
        "cohort lab list" => &[
            ("cohort lab list", "List experiments and results."),
            (
                "cohort lab list --papers",
                "List what the papers print beside what was measured here.",
            ),
        ],
        "cohort lab report" => &[
            (
                "cohort lab report",
                "Write the tables and the page of plots.",
            ),
            (
                "cohort lab report --check",
                "Fail if the tables differ from the kept results.",
            ),
        ],
        "cohort lab clean" => &[("cohort lab clean", "Remove all but the results.")],
        "cohort model" | "cohort model list" => {
            &[("cohort model list", "List the built-in models.")]
        }
        "cohort model describe" => &[
            (
                "cohort model describe pentium4",
                "Print a model's constants with their sources.",
            ),
            (
                "cohort model describe --assumed --json zen4",
                "Print what is assumed, and its ranges, as JSON.",
            ),
        ],
        "cohort man" => &[
            ("cohort man lab build", "Print one page."),
            ("cohort man --dir /tmp/man1", "Write all pages."),
        ],
        "cohort completions" => &[(
            "cohort completions bash",
            "Print completions; bash reads them by `source <(cohort completions bash)`.",
        )],
        _ => return None,
    };
    Some(Extra { statuses, examples })
}

/// The manual page of the command that `words` name below `root`.
pub fn page(root: clap::Command, words: &[String]) -> Result<Vec<u8>> {
    let root = built(root);
    let mut command = &root;
    // `man "lab build"` is as good as `man lab build`.
    for word in words.iter().flat_map(|word| word.split_whitespace()) {
        command = match command.find_subcommand(word) {
            Some(found) => found,
            None => bail!("{} has no subcommand {word}", name(command)),
        };
    }
    render(command)
}

/// Writes the pages of all commands into `dir`.
pub fn pages(root: clap::Command, dir: &Path) -> Result<()> {
    let write = |command: &clap::Command| {
        let file = dir.join(clap_mangen::Man::new(command.clone()).get_filename());
        std::fs::write(&file, render(command)?)
            .inspect_err(|_| drop(std::fs::remove_file(&file)))
            .with_context(|| format!("cannot write {}", file.display()))
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    all(&built(root)).into_iter().try_for_each(write)
}

/// With the whole names of all subcommands.
fn built(root: clap::Command) -> clap::Command {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    root
}

/// A command and all below it that are not hidden.
fn all(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    std::iter::once(command)
        .chain(below.flat_map(all))
        .collect()
}

/// A command as it is typed.
fn name(command: &clap::Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

fn render(command: &clap::Command) -> Result<Vec<u8>> {
    use clap_mangen::roff::{Roff, bold, roman};
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .manual("Cohort")
        .render(&mut text)?;
    if let Some(extra) = of(name(command)) {
        let mut roff = Roff::new();
        roff.control("SH", ["EXIT STATUS"]);
        for (status, meaning) in extra.statuses {
            roff.control("TP", []);
            roff.text([bold(*status)]);
            roff.text([roman(*meaning)]);
        }
        roff.control("SH", ["EXAMPLES"]);
        for (example, meaning) in extra.examples {
            roff.control("TP", []);
            roff.text([bold(*example)]);
            roff.text([roman(*meaning)]);
        }
        roff.to_writer(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_command_has_examples_that_the_command_line_takes() {
        let root = built(Cli::command());
        for command in all(&root) {
            let name = name(command);
            let extra = of(name).unwrap_or_else(|| panic!("no examples of {name}"));
            assert!(!extra.examples.is_empty() && !extra.statuses.is_empty());
            for (example, _) in extra.examples {
                let begins = name == "cohort" || example.starts_with(name);
                assert!(begins, "{example} is no example of {name}");
                if let Err(error) = Cli::try_parse_from(example.split_whitespace()) {
                    panic!("{example}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_page_of_every_command_is_written_with_all_sections() {
        let dir = tempfile::tempdir().unwrap();
        pages(Cli::command(), dir.path()).unwrap();
        for page in [
            "cohort",
            "cohort-run",
            "cohort-scan-diff",
            "cohort-top",
            "cohort-lab-build",
        ] {
            let text = std::fs::read_to_string(dir.path().join(format!("{page}.1"))).unwrap();
            for section in ["NAME", "SYNOPSIS", "\"EXIT STATUS\"", "EXAMPLES"] {
                assert!(
                    text.contains(&format!(".SH {section}")),
                    "{page}: {section}"
                );
            }
        }
        assert!(!dir.path().join("cohort-help.1").exists());
        let none = page(Cli::command(), &["lab".into(), "nosuch".into()]);
        let error = none.unwrap_err().to_string();
        assert_eq!(error, "cohort lab has no subcommand nosuch");
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            page(Cli::command(), &words(&["lab build"])).unwrap(),
            page(Cli::command(), &words(&["lab", "build"])).unwrap()
        );
    }
}
