// SPDX-License-Identifier: GPL-2.0-or-later
//! The guest: a QEMU machine that boots a kernel, runs a job, reports and ends.
//!
//! Its verdict comes over a virtio port. The console is only a log, read for the kernel's own
//! complaints. A guest that does not end by itself is ended at its time limit.

use crate::lab::Lab;
use crate::lab::arch::{self, Arch, Board};
use crate::lab::guest::cpio::Cpio;
use crate::lab::guest::job::{self, Step};
use crate::lab::guest::plugin::Plugin;
use crate::lab::guest::programs::Program;
use crate::lab::guest::protocol::Report;
use crate::lab::guest::stdio;
use crate::lab::host::files;
use crate::lab::host::process::{end_with_us, spawn};
use crate::lab::host::progress::{Progress, duration};
use anyhow::{Context, Result, bail};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The interval between two reads of the report.
const POLL: Duration = Duration::from_millis(100);
/// A guest that has printed `done` powers off within this time.
const POWER_OFF: Duration = Duration::from_secs(20);
/// Before this version, QEMU's plugin interface cannot read registers.
pub const QEMU_MAJOR: u32 = 10;

/// Words in the kernel's log that mean something is wrong, whatever the tests say.
const COMPLAINTS: &[&str] = &[
    "BUG:",
    "WARNING:",
    "KASAN",
    "KCSAN",
    "UBSAN",
    "possible recursive locking",
    "circular locking",
    "bad pmd",
    "Bad rss",
    "Bad page",
    "Kernel panic",
    "Oops:",
    "general protection fault",
    "rcu_sched detected stalls",
    "blocked for more than",
];

/// The emulated machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    arch: Arch,
    board: &'static Board,
    cpu: &'a str,
}

impl<'a> Machine<'a> {
    /// The smallest one, for the lab's own kernels.
    pub fn lab() -> Machine<'static> {
        Self::of(arch::LAB).expect("the lab's architecture has a machine of its own")
    }

    /// The smallest one of an architecture.
    pub fn of(arch: Arch) -> Result<Machine<'static>> {
        let facts = arch.facts();
        let Some(board) = facts.lab.as_ref() else {
            bail!("the lab has no machine for its own kernels for {arch}");
        };
        Ok(Machine {
            arch,
            board,
            cpu: board.cpu,
        })
    }

    /// One with PCI, for Debian's own kernels, and a processor by QEMU's name.
    pub fn pci(arch: Arch, cpu: &'a str) -> Self {
        Machine {
            arch,
            board: arch.board(),
            cpu,
        }
    }

    /// The most memory that it takes, in MB.
    pub fn most_memory(&self) -> u64 {
        self.board.most_memory.unwrap_or(u64::MAX)
    }

    /// An error if it does not take so many MB of memory.
    fn holds(&self, memory: u64) -> Result<()> {
        let most = self.most_memory();
        if memory > most {
            let board = self.board.machine;
            bail!("the machine {board} takes at most {most} MB of memory, not {memory}");
        }
        Ok(())
    }
}

/// The machine to boot and what to do in it.
pub struct Spec<'a> {
    pub machine: Machine<'a>,
    /// Name of the run: its files are in `out/run/NAME`.
    pub name: String,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// Memory in MB.
    pub memory: u64,
    /// Processors.
    pub cpus: u32,
    /// Count instructions: guest time is one nanosecond an instruction.
    pub icount: bool,
    /// The root file system's image.
    pub rootfs: Option<&'a Path>,
    /// MB that can be read from its disk in a second; None for no limit.
    pub read_limit: Option<u64>,
    /// More words for the kernel's command line.
    pub cmdline: String,
    /// The guest's init.
    pub init: &'a Path,
    /// Files for the initramfs.
    pub programs: &'a [Program],
    /// The job.
    pub steps: Vec<Step>,
    /// The translation model's plugin, if it is to see what the guest does. It needs `icount`.
    pub plugin: Option<&'a Plugin>,
    /// Host seconds after which the guest is ended.
    pub limit: u64,
}

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It ran all steps and powered off.
    Done,
    /// It panicked, with the kernel's words.
    Panic(String),
    /// It ended without saying why.
    Died(String),
    /// It was ended at its time limit, in the step named.
    Hung(String),
}

/// A guest's result.
#[derive(Debug)]
pub struct Outcome {
    /// Its report.
    pub report: Report,
    /// How it ended.
    pub end: End,
    /// The kernel's complaints on the console.
    pub complaints: Vec<String>,
    /// The console's log.
    pub console: PathBuf,
}

impl Outcome {
    /// One sentence when the guest did not get to its end; nothing when it did.
    pub fn problem(&self) -> Option<String> {
        let log = self.console.display();
        match &self.end {
            End::Done => None,
            End::Panic(words) => Some(format!(
                "the guest's kernel panicked ({words}); its console is in {log}"
            )),
            End::Died(words) => Some(format!(
                "the guest ended before its job did ({words}); its console is in {log}"
            )),
            End::Hung(step) => Some(format!(
                "the guest was ended at its time limit {step}; its console is in {log}"
            )),
        }
    }
}

impl Spec<'_> {
    /// Boots the guest, runs the job and waits for its end.
    pub fn run(&self, lab: &Lab) -> Result<Outcome> {
        self.run_with(lab, None)
    }

    /// As [`Spec::run`], with this program's input and outputs on the virtio ports `in`, `out` and
    /// `err`, and without progress.
    pub fn run_here(&self, lab: &Lab) -> Result<Outcome> {
        let (ports, guest) = stdio::ports()?;
        let outcome = self.run_with(lab, Some(guest))?;
        ports.finish();
        Ok(outcome)
    }

    fn run_with(&self, lab: &Lab, ports: Option<stdio::Guest>) -> Result<Outcome> {
        let dir = self.prepare(lab)?;
        let console = dir.join("console.log");
        let report_file = dir.join("report");
        let errors = dir.join("qemu.log");
        for file in [&console, &report_file] {
            files::write(file, b"")?;
        }
        let log = std::fs::File::create(&errors)
            .with_context(|| format!("cannot create {}", errors.display()))?;
        let mut command = self.qemu(&dir, ports.as_ref());
        command
            .arg("-display")
            .arg("none")
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share a log")?)
            .stderr(log);
        end_with_us(&mut command, libc::SIGKILL);
        let mut child = spawn(&mut command)?;
        // What the command prints is all there is to see.
        let mut progress = ports.is_none().then(|| {
            let steps = Some(self.steps.len() as u64 + 1);
            Progress::new(&format!("guest {}", self.name), "steps", steps)
        });
        // Only QEMU has them now: they end with it.
        drop(ports);

        let start = Instant::now();
        let limit = Duration::from_secs(self.limit);
        let power_off = POWER_OFF * self.plugin.map_or(1, |plugin| plugin.slower() as u32);
        let mut tail = Tail::new(&report_file)?;
        let mut report = Report::default();
        let mut done_at = None;
        let mut hung = None;
        loop {
            let ended = child.try_wait().context("cannot wait for QEMU")?;
            for line in tail.lines()? {
                report.line(&line);
            }
            let running = report
                .steps
                .last()
                .map_or("before its first step".into(), |step| {
                    format!("in the step {}", step.name)
                });
            if let Some(status) = ended {
                if !report.ready && !status.success() {
                    let words = std::fs::read_to_string(&errors).unwrap_or_default();
                    bail!(
                        "QEMU did not start ({status}): {}; the full log is {}",
                        words.lines().next().unwrap_or("it printed nothing"),
                        errors.display()
                    );
                }
                break;
            }
            if report.done && done_at.is_none() {
                done_at = Some(Instant::now());
            }
            let stuck = done_at.is_some_and(|at| at.elapsed() > power_off);
            if stuck || start.elapsed() > limit {
                child.kill().context("cannot end QEMU")?;
                child.wait().context("cannot wait for QEMU")?;
                for line in tail.lines()? {
                    report.line(&line);
                }
                hung = Some(format!(
                    "of {} {}",
                    duration(self.limit),
                    if stuck {
                        "while powering off".into()
                    } else {
                        running
                    }
                ));
                break;
            }
            let ended = report
                .steps
                .iter()
                .filter(|step| step.ending != crate::lab::guest::protocol::Ending::Unfinished)
                .count();
            if let Some(progress) = &mut progress {
                let step = report.steps.last();
                progress.note(step.map_or("boots", |step| step.name.as_str()));
                progress.set(ended as u64 + u64::from(report.ready));
            }
            std::thread::sleep(POLL);
        }
        let log = std::fs::read(&console).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let outcome = Outcome {
            end: end(&report, &log, hung),
            complaints: complaints(&log),
            report,
            console,
        };
        if let Some(progress) = progress {
            progress.finish(&format!("guest {} ended", self.name));
        }
        Ok(outcome)
    }

    /// Boots the guest with its console on this terminal, until it powers off.
    pub fn shell(&self, lab: &Lab) -> Result<()> {
        let dir = self.prepare(lab)?;
        files::write(&dir.join("report"), b"")?;
        let mut command = self.qemu(&dir, None);
        command
            .args(["-display", "none"])
            // ^C belongs to the guest's shell here; ^A x ends QEMU.
            .args(["-chardev", "stdio,id=console,mux=on,signal=off"])
            .args(["-serial", "chardev:console", "-mon", "chardev=console"]);
        end_with_us(&mut command, libc::SIGKILL);
        let status = spawn(&mut command)?
            .wait()
            .context("cannot wait for QEMU")?;
        if !status.success() {
            bail!("QEMU ended with {status}");
        }
        Ok(())
    }

    fn prepare(&self, lab: &Lab) -> Result<PathBuf> {
        self.machine.holds(self.memory)?;
        let dir = lab.out(&format!("run/{}", self.name));
        files::remove(&dir)?;
        files::make_dir(&dir)?;
        files::write(&dir.join("initramfs.cpio"), &self.initramfs()?)?;
        if let Some(plugin) = self.plugin {
            plugin.prepare(&dir)?;
        }
        Ok(dir)
    }

    fn initramfs(&self) -> Result<Vec<u8>> {
        let read = |path: &Path| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let mut cpio = Cpio::new();
        // The kernel opens the console for init before devtmpfs is mounted.
        cpio.device("/dev/console", 0o600, 5, 1);
        for dir in ["/proc", "/sys", "/tmp", "/run", "/root", "/lab/bin"] {
            cpio.dir(dir);
        }
        cpio.file("/init", 0o755, &read(self.init)?);
        for program in self.programs {
            cpio.file(&program.guest_path, program.mode, &read(&program.file)?);
        }
        cpio.file("/lab/job", 0o644, job::write(&self.steps)?.as_bytes());
        Ok(cpio.finish())
    }

    fn qemu(&self, dir: &Path, ports: Option<&stdio::Guest>) -> Command {
        let board = self.machine.board;
        let mut qemu = Command::new(self.machine.arch.qemu);
        let mut cmdline = String::from(board.cmdline);
        if self.icount {
            cmdline.push_str(" norandmaps nokaslr ");
            cmdline.push_str(self.machine.arch.icount);
        } else if let (true, Some(khz)) = (board.host_tsc, host_tsc_khz()) {
            // On a busy host the kernel's own calibration fails, and its clock then has steps of
            // 10 ms. HZ is 100.
            cmdline.push_str(&format!(" tsc_early_khz={khz} lpj={}", khz * 10));
        }
        if self.rootfs.is_some() {
            cmdline.push_str(" lab.root=vda");
        }
        for word in self.cmdline.split_whitespace() {
            cmdline.push(' ');
            cmdline.push_str(word);
        }
        qemu.args(["-no-user-config", "-nodefaults", "-no-reboot"])
            // The sound device of a real board needs some driver.
            .args(["-audio", "driver=none"])
            .arg("-M")
            .arg(match self.plugin {
                Some(_) => format!("{},memory-backend=ram", board.machine),
                None => board.machine.to_string(),
            })
            .arg("-cpu")
            .arg(self.machine.cpu)
            .arg("-m")
            .arg(format!("{}M", self.memory))
            .arg("-smp")
            .arg(self.cpus.to_string())
            .arg("-kernel")
            .arg(self.kernel)
            .arg("-initrd")
            .arg(dir.join("initramfs.cpio"))
            .arg("-append")
            .arg(cmdline)
            .arg("-device")
            .arg(format!("virtio-serial-{}", board.bus));
        let build = self.machine.arch.facts().kernel.as_ref();
        if let Some(tree) = build.and_then(|build| build.tree) {
            qemu.arg("-dtb").arg(self.kernel.with_file_name(tree));
        }
        if let Some(ports) = ports {
            ports.add_to(&mut qemu);
        }
        // The last port: when a guest has found it, it has the others.
        qemu.arg("-chardev")
            .arg(format!("file,id=lab,path={}", dir.join("report").display()))
            .args(["-device", "virtserialport,chardev=lab,name=lab"]);
        if let Some(plugin) = self.plugin {
            plugin.add_to(&mut qemu, self.memory, board.ram, dir);
        }
        if self.icount {
            qemu.args([
                "-accel",
                // One processor after the other: the same order every run.
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
                "-seed",
                "1",
            ])
            .args(["-rtc", "base=2026-01-01,clock=vm"])
            // Otherwise another thread of QEMU handles what the guest gives to a device, and the
            // answer comes at a different instruction in each run.
            .args(["-global", "virtio-mmio.ioeventfd=off"])
            .args(["-global", "virtio-serial-pci-base.ioeventfd=off"]);
        } else {
            qemu.args(["-accel", "tcg,thread=multi"]);
        }
        if let Some(rootfs) = self.rootfs {
            let limit = self.read_limit.map(|mb| {
                // MB as memory has them, as all sizes here.
                format!(",throttling.bps-read={}", mb << 20)
            });
            qemu.arg("-drive")
                .arg(format!(
                    "if=none,id=root,format=raw,snapshot=on,file={}{}",
                    rootfs.display(),
                    limit.unwrap_or_default()
                ))
                .arg("-device")
                .arg(format!("virtio-blk-{},drive=root", board.bus));
        }
        qemu
    }
}

/// The rate of this machine's time stamp counter, which QEMU hands to the guest as it is.
#[cfg(target_arch = "x86_64")]
fn host_tsc_khz() -> Option<u64> {
    let ticks = || {
        // SAFETY: reading the counter has no other effect, and every x86-64 processor has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    };
    let rate = |_| {
        let (start, from) = (Instant::now(), ticks());
        std::thread::sleep(Duration::from_millis(20));
        let (to, micros) = (ticks(), start.elapsed().as_micros() as u64);
        (micros > 0 && to > from).then(|| (to - from) * 1_000 / micros)
    };
    // Take the greatest: an interrupt between the two clocks makes a rate too small.
    (0..3).filter_map(rate).max()
}

/// On other processors the guest finds the rate itself.
#[cfg(not(target_arch = "x86_64"))]
fn host_tsc_khz() -> Option<u64> {
    None
}

/// The emulator's version, for instance 10.0.2.
pub fn qemu_version() -> Result<String> {
    version_of(arch::LAB.qemu)
}

/// The version of one of the emulators.
pub fn version_of(qemu: &str) -> Result<String> {
    let text = crate::lab::host::process::output(Command::new(qemu).arg("--version"))
        .with_context(|| format!("no {qemu}: `cohort lab setup` installs it"))?;
    text.split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .map(|word| word.split('(').next().unwrap_or(word).to_string())
        .with_context(|| format!("{qemu} --version prints no version"))
}

fn end(report: &Report, console: &str, hung: Option<String>) -> End {
    let panic = console
        .lines()
        .find_map(|line| line.split_once("Kernel panic - not syncing: "))
        .map(|(_, words)| words.trim().to_string());
    match (hung, panic) {
        (Some(step), _) => End::Hung(step),
        (None, Some(words)) => End::Panic(words),
        (None, None) if report.done => End::Done,
        (None, None) => End::Died(
            console
                .lines()
                .rfind(|line| !line.trim().is_empty())
                .unwrap_or("it printed nothing")
                .trim()
                .to_string(),
        ),
    }
}

/// The console's lines on which the kernel complains.
fn complaints(console: &str) -> Vec<String> {
    console
        .lines()
        .filter(|line| COMPLAINTS.iter().any(|word| line.contains(word)))
        .map(|line| line.trim().to_string())
        .collect()
}

/// Reads whole lines of a file that grows.
struct Tail {
    file: std::fs::File,
    rest: Vec<u8>,
}

impl Tail {
    fn new(path: &Path) -> Result<Self> {
        let file =
            std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Tail {
            file,
            rest: Vec::new(),
        })
    }

    fn lines(&mut self) -> Result<Vec<String>> {
        // A writer that opens the file anew may have cut it; reading goes on where it was.
        let at = self
            .file
            .stream_position()
            .context("cannot read the report")?;
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.read_to_end(&mut self.rest))
            .context("cannot read the guest's report")?;
        let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, rest);
        Ok(String::from_utf8_lossy(&whole)
            .lines()
            .map(String::from)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_complaint_is_found_and_a_greeting_is_none() {
        let log = "[ 0.1] kasan: KernelAddressSanitizer initialized\n[ 1.0] all is well\n\
                   [ 2.0] WARNING: CPU: 0 PID: 1 at mm/rmap.c:1\n[ 3.0] BUG: Bad rss-counter state\n";
        let found = complaints(log);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("mm/rmap.c:1"));
    }

    #[test]
    fn a_board_refuses_more_memory_than_it_takes() {
        let board = Machine::of("armv7-a9".parse().unwrap()).unwrap();
        assert!(board.holds(board.most_memory()).is_ok());
        let error = board.holds(2_048).unwrap_err().to_string();
        assert!(
            error.contains("vexpress-a9 takes at most 1024 MB"),
            "{error}"
        );
        assert!(Machine::lab().holds(1 << 20).is_ok());
    }

    #[test]
    fn the_end_is_told_from_report_and_console() {
        let done = Report {
            done: true,
            ..Report::default()
        };
        let begun = Report::default();
        let panic = "[1] Kernel panic - not syncing: sysrq\n[1] ---[ end\n";
        assert_eq!(end(&done, "", None), End::Done);
        assert_eq!(end(&begun, panic, None), End::Panic("sysrq".into()));
        // A panic while powering off is one, though all steps ran.
        assert_eq!(end(&done, panic, None), End::Panic("sysrq".into()));
        assert_eq!(end(&begun, "a\nlast\n\n", None), End::Died("last".into()));
        assert!(matches!(end(&begun, panic, Some("x".into())), End::Hung(_)));
    }

    #[test]
    fn a_report_is_read_line_by_line_as_it_grows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut tail = Tail::new(&path).unwrap();
        file.write_all(b"ready\nbeg").unwrap();
        assert_eq!(tail.lines().unwrap(), ["ready"]);
        assert!(tail.lines().unwrap().is_empty());
        file.write_all(b"in a\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["begin a"]);
    }

    #[test]
    fn the_problem_names_the_log_and_what_happened() {
        let outcome = Outcome {
            report: Report::default(),
            end: End::Hung("of 10 s in the step swap".into()),
            complaints: Vec::new(),
            console: PathBuf::from("out/run/x/console.log"),
        };
        let text = outcome.problem().unwrap();
        assert!(
            text.contains("step swap") && text.contains("console.log"),
            "{text}"
        );
    }
}
