// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort lab audit`: boots a kernel under the plugin, which keeps what a processor's TLBs could
//! hold, runs a workload, and fails if the kernel left out a TLB flush. `docs/flush-audit.md` says what
//! it finds and what it cannot find. With `--babelfish` the plugin has BabelFish's TLBs instead, and
//! fails if a process hits an entry of others that is not its own.

use super::mutate::bootable::Bootable;
use super::soak;
use crate::lab::Lab;
use crate::lab::arch::{Arch, LAB};
use crate::lab::experiment::results;
use crate::lab::guest::job::Step;
use crate::lab::guest::plugin::{Audit, Output, Plugin, Task};
use crate::lab::guest::programs;
use crate::lab::guest::run::{Machine, Outcome, Spec};
use crate::lab::kernel::build::{self, Config, Kernel};
use crate::output::{self, say};
use crate::show;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Guest seconds for a step.
const STEP_LIMIT: u64 = 600;
/// Of a phase of soak's load.
const LOAD_SECONDS: u64 = 1;
/// Fewer comparisons than this are not an audit.
const ENOUGH: u64 = 10;
/// The beginning of a complaint of the audit.
const COMPLAINT: &str = "flush audit";
/// The factor on the host time of a guest that is audited.
const SLOWER: u64 = 12;
/// Changes when a field of the results changes its meaning.
const SCHEMA_VERSION: u32 = 1;
/// The workload if none is named: forks and memory operations that any kernel has.
const STOCK: &[(&str, &str)] = &[
    (
        "forks",
        "fork-cost --zygote --sizes 1m --rounds 3 --child-writes 8",
    ),
    ("fuzz", "fuzz --seed 1 --seconds 600 --ops 1500"),
    (
        "fuzz-race",
        "fuzz --seed 2 --seconds 600 --ops 1500 --race 50",
    ),
];
/// What our own kernels run besides, with `-q`. Not `tlb` and the races: their processes wait for each
/// other on several processors, which the plugin lets take turns of many thousand instructions.
const SELFTESTS: &[&str] = &[
    "share",
    "unshare_map",
    "unshare_advice",
    "reclaim_page",
    "upper",
    "tlb_group",
];

/// The model of BabelFish's TLBs that does what the kernel says.
const BABELFISH: &str = "babelfish-kernel";
/// Words that have the kernel say it, of all processes.
const ALL_SHARE: &str = "cohort_join=user cohort_babelfish=on";
/// Fewer hits on entries of others than this say nothing of them.
const ENOUGH_SHARED: u64 = 1_000;
/// The word that has a kernel run where its symbols say, whatever its configuration.
const IN_PLACE: &str = "nokaslr";
/// The workload of BabelFish: programs that join each other's tables, change and leave them.
const SHARING: &[(&str, &str)] = &[
    (
        "fuzz-fork",
        "fuzz --seed 1 --seconds 600 --ops 3000 --mode always",
    ),
    (
        "fuzz-exec",
        "fuzz --seed 2 --seconds 600 --ops 3000 --mode always --exec equal --join user",
    ),
    (
        "fuzz-race",
        "fuzz --seed 3 --seconds 600 --ops 3000 --mode always --race 50 --exec random --join user",
    ),
    ("babelfish", "babelfish -q -m always"),
    ("unshare_map", "unshare_map -q -m always"),
    ("reclaim_page", "reclaim_page -q -m always"),
];

/// The option of other commands that have their guests audited.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Watch {
    /// Audit the TLB flushes of the guests' kernels, and fail if one is missing. Guests are many times
    /// slower: choose a kernel with --config bench.
    #[arg(long)]
    audit: bool,
}

impl Watch {
    /// Watches in a test.
    #[cfg(test)]
    pub fn on() -> Self {
        Self { audit: true }
    }

    /// It was asked for.
    pub fn is_on(self) -> bool {
        self.audit
    }

    /// Asks, before a kernel is built, whether guests of `arch` can be audited.
    ///
    /// # Errors
    /// It was asked for, and the audit does not know the tables of `arch`.
    pub fn check(self, arch: Arch) -> Result<()> {
        match self.audit {
            true => known(arch),
            false => Ok(()),
        }
    }

    /// The plugin for guests with this kernel; None if it was not asked for. [`Watch::check`] comes
    /// first.
    ///
    /// # Errors
    /// There is no plugin, or no kernel.
    pub fn plugin(self, symbols: &Path) -> Result<Option<Plugin>> {
        if !self.audit {
            return Ok(None);
        }
        let symbols = symbols
            .canonicalize()
            .with_context(|| format!("cannot read {}", symbols.display()))?;
        let mut plugin = Plugin::new(&symbols, Task::Count)?;
        plugin.audit = true;
        plugin.whole = true;
        Ok(Some(plugin))
    }

    /// Host seconds for a guest that may take so many without the plugin.
    pub fn limit(self, seconds: u64) -> u64 {
        match self.audit {
            true => SLOWER * seconds,
            false => seconds,
        }
    }

    /// Reads what the audit has found in the guest of the run `name`. What is missing is added to the
    /// complaints of its kernel.
    pub fn judge(self, lab: &Lab, name: &str, outcome: &mut Outcome) {
        if !self.audit {
            return;
        }
        let file = lab.out(&format!("run/{name}"));
        // A guest that was ended at its time limit has written nothing.
        match Output::read(&file).map(|output| output.audit) {
            Ok(Some(audit)) => {
                // Not for the results, which may be JSON.
                eprintln!("{name}: {}", audit.sentence());
                outcome.complaints.extend(complaints(&audit));
            }
            _ => outcome.complaints.push(format!(
                "{COMPLAINT}: it wrote nothing into {}",
                file.display()
            )),
        }
    }
}

/// What an audit has against a kernel.
fn complaints(audit: &Audit) -> Vec<String> {
    let mut all: Vec<String> = audit
        .findings
        .iter()
        .map(|finding| {
            format!(
                "{COMPLAINT}: {}: {} ({} times): {}",
                finding.function, finding.kind, finding.count, finding.first
            )
        })
        .collect();
    if audit.compared == 0 {
        all.push(format!("{COMPLAINT}: nothing was compared"));
    }
    all
}

/// Refuses architectures whose tables the plugin does not know.
fn known(arch: Arch) -> Result<()> {
    if !arch.walked {
        bail!(
            "the audit does not know the page tables of {arch}: it would take their entries for others"
        );
    }
    Ok(())
}

/// What to boot and to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The kernel.
    #[arg(long, value_enum, default_value_t = Config::Bench)]
    config: Config,
    /// The architecture of the kernel and its guest.
    #[arg(long, value_name = "NAME", default_value = LAB.name)]
    arch: Arch,
    /// Your own kernel: vmlinux, with its symbols and with virtio over MMIO. For arm64 and armv7 it must
    /// be in the directory that it was built in, with the image that they boot.
    #[arg(long, value_name = "VMLINUX", conflicts_with = "config")]
    kernel: Option<PathBuf>,
    /// Let this function of the kernel do nothing, in a copy, and fail if the audit reports nothing.
    #[arg(long, value_name = "FUNCTION")]
    without: Option<String>,
    /// What the function of `--without` returns.
    #[arg(long, value_name = "VALUE", requires = "without")]
    returns: Option<i32>,
    /// Have BabelFish's TLBs, and fail if a process finds another's translation in one. With
    /// `--without`: if none does.
    #[arg(long, conflicts_with = "kernel")]
    babelfish: bool,
    /// Run soak's load besides, a guest second of each phase: some ten minutes.
    #[arg(long, conflicts_with = "command")]
    load: bool,
    /// Words for the kernel's command line.
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "cohort=always",
        allow_hyphen_values = true
    )]
    append: String,
    /// Processors.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// Memory in MB.
    #[arg(long, default_value_t = 1024)]
    memory: u64,
    /// End the guest after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    timeout: u64,
    /// Print the results as JSON.
    #[arg(long, conflicts_with = "babelfish")]
    json: bool,
    /// Run this line in the guest instead of the built-in workload.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The results, as `--json` prints them.
#[derive(Debug, Serialize)]
struct Results<'a> {
    schema_version: u32,
    arch: Arch,
    /// The kernel, with its symbols.
    image: &'a Path,
    kernel: Option<&'a Kernel>,
    /// The function that did nothing.
    without: Option<&'a str>,
    pass: bool,
    /// Of the guest.
    problems: &'a [String],
    audit: &'a Audit,
}

impl Options {
    fn steps(&self) -> Vec<Step> {
        let step = |name: &str, command: &str| Step::new(name, STEP_LIMIT, command);
        if !self.command.is_empty() {
            return vec![step("command", &self.command.join(" "))];
        }
        if self.babelfish {
            return SHARING
                .iter()
                .map(|(name, line)| step(name, line))
                .collect();
        }
        let mut steps: Vec<Step> = STOCK.iter().map(|(name, line)| step(name, line)).collect();
        if self.own() {
            let line = |name: &&str| step(name, &format!("{name} -q -m always"));
            steps.extend(SELFTESTS.iter().map(line));
        }
        steps
    }

    /// Refuses a kernel that says nothing to BabelFish's TLBs, before it is built and booted.
    fn check(&self) -> Result<()> {
        if self.babelfish && !self.own() {
            bail!("--babelfish needs a kernel that shares: leave out --config pristine");
        }
        if self.arch != LAB && self.babelfish {
            bail!(
                "--babelfish is for {LAB} only: no other kernel says what BabelFish's TLBs share"
            );
        }
        known(self.arch)
    }

    /// Words for the kernel's command line.
    fn cmdline(&self) -> String {
        let mut line = self.append.clone();
        if self.babelfish {
            line.push_str(&format!(" {ALL_SHARE}"));
        }
        if self.kernel.is_some() {
            line.push_str(&format!(" {IN_PLACE}"));
        }
        line
    }

    /// It is a kernel of this checkout that shares page tables.
    fn own(&self) -> bool {
        self.kernel.is_none() && self.config != Config::Pristine
    }
}

/// Boots the guest; true if no flush is missing, or if one is where one was left out.
pub fn audit(lab: &Lab, options: &Options) -> Result<bool> {
    options.check()?;
    let arch = options.arch;
    let (mut kernel, built) = match &options.kernel {
        Some(own) => (Bootable::given(arch, own)?, None),
        None => {
            let built = build::build_for(lab, arch, options.config)?;
            (Bootable::built(&built), Some(built))
        }
    };
    if let Some(function) = &options.without {
        kernel = kernel.without(arch, function, options.returns, &lab.out("audit"))?;
    }
    let image = kernel.symbols;
    let image = image
        .canonicalize()
        .with_context(|| format!("cannot read {}", image.display()))?;
    let task = match options.babelfish {
        true => Task::Model(BABELFISH.into()),
        false => Task::Count,
    };
    let mut plugin = Plugin::new(&image, task)?;
    plugin.audit = !options.babelfish;
    plugin.whole = true;
    let mut steps = options.steps();
    let mut programs = match arch == LAB {
        true => programs::workloads(lab)?,
        false => {
            let lines = steps
                .iter()
                .flat_map(|step| step.command.split_whitespace());
            programs::workloads_for(lab, arch, &lines.collect::<BTreeSet<_>>())?
        }
    };
    let mut rootfs = None;
    if options.load {
        let round = soak::round(lab, arch, LOAD_SECONDS)?;
        // First: it makes a disk for swap, which the selftests would have made otherwise.
        steps.splice(0..0, round.steps);
        programs.extend(round.programs);
        rootfs = Some(round.rootfs);
    }
    if arch.fuzzes {
        programs.push(programs::fuzz(lab, arch)?);
    }
    if options.own() {
        programs.extend(programs::selftests(lab, arch, options.config)?);
    }
    let outcome = Spec {
        machine: Machine::of(arch)?,
        name: "audit".into(),
        kernel: &kernel.image,
        memory: options.memory,
        cpus: options.cpus,
        icount: true,
        rootfs: rootfs.as_deref(),
        read_limit: None,
        cmdline: options.cmdline(),
        init: &programs::init_for(lab, arch)?,
        programs: &programs,
        steps,
        plugin: Some(&plugin),
        limit: options.timeout,
    }
    .run(lab)?;
    // A kernel that lacks a flush may well crash. What the plugin has seen until then counts.
    let problems = problems(&outcome);
    if !options.json {
        match (&built, &options.without) {
            (Some(kernel), None) => say!("Linux {}", kernel.describe())?,
            (_, Some(function)) => say!("{}, where {function} does nothing", image.display())?,
            (None, None) => say!("{}", image.display())?,
        }
        for problem in &problems {
            say!("  {problem}")?;
        }
    }
    let output = Output::read(&lab.out("run/audit"))?;
    if options.babelfish {
        let fish = output.babelfish()?;
        say!("{}", fish.sentence())?;
        if fish.violations > 0 {
            say!("  the first: {}", lab.out("run/audit/qemu.log").display())?;
        }
        return Ok(match options.without {
            Some(_) => fish.violations > 0,
            None => problems.is_empty() && fish.is_right(ENOUGH_SHARED),
        });
    }
    let Some(audit) = output.audit else {
        bail!("the plugin has audited nothing");
    };
    let pass = match options.without {
        Some(_) => audit.missing > 0,
        None => problems.is_empty() && audit.missing + audit.unseen == 0 && audit.audits >= ENOUGH,
    };
    match options.json {
        true => output::print(results::json(&Results {
            schema_version: SCHEMA_VERSION,
            arch,
            image: &image,
            kernel: built.as_ref(),
            without: options.without.as_deref(),
            pass,
            problems: &problems,
            audit: &audit,
        })?)?,
        false => print(&audit)?,
    }
    Ok(pass)
}

/// The guest's problems. A selftest that skips all its cases is not one.
fn problems(outcome: &Outcome) -> Vec<String> {
    let mut problems: Vec<String> = outcome.problem().into_iter().collect();
    problems.extend(outcome.complaints.iter().cloned());
    for step in &outcome.report.steps {
        if !step.ending.success() && !step.ending.skipped() {
            problems.push(format!("{}: {}", step.name, step.ending));
        }
    }
    problems
}

fn print(audit: &Audit) -> Result<()> {
    for finding in &audit.findings {
        say!(
            "  {}: {} ({} times)\n    {}",
            finding.function,
            finding.kind,
            finding.count,
            finding.first
        )?;
    }
    say!(
        "  {} entries filled, {} of them for all, {} changes of tables below them; {} faults that only a \
         processor would take, {} of them for a closed domain; {} uses of an old page while a flush was \
         due",
        audit.filled,
        audit.global,
        audit.changes,
        audit.spurious + audit.domain_faults,
        audit.domain_faults,
        audit.diverged
    )?;
    if !audit.spurious_places.is_empty() {
        output::print(places(audit))?;
    }
    if audit.unseen > 0 {
        say!(
            "  {} entries are wrong though no store to their tables was seen: a device wrote them, or \
             the audit is at fault",
            audit.unseen
        )?;
    }
    if let Some(unknown) = audit.unknown() {
        say!("  {unknown}")?;
    }
    if audit.audits < ENOUGH {
        say!("  that is too little to be an audit")?;
    }
    say!("{}", audit.sentence())
}

/// The places with most faults that only a processor would take.
fn places(audit: &Audit) -> String {
    let heading = ["right given in", "task", "faults"].map(String::from);
    let rows = audit.spurious_places.iter().map(|place| {
        let count = place.count.to_string();
        vec![place.function.clone(), place.task.clone(), count]
    });
    show::plain(heading.to_vec(), rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::guest::protocol::Report;
    use crate::lab::guest::run::End;
    use crate::lab::host::files;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &[&str]) -> Options {
        let words = ["audit"].iter().chain(line);
        <Line as clap::Parser>::try_parse_from(words)
            .unwrap()
            .options
    }

    #[test]
    fn a_selftest_that_is_skipped_is_no_problem_and_one_that_fails_is() {
        let found = |ending: &str, complaints: &[&str]| {
            let mut report = Report::default();
            for line in [
                "begin upper",
                &format!("end upper {ending}"),
                "taint 0",
                "done",
            ] {
                report.line(line);
            }
            problems(&Outcome {
                end: End::Done,
                report,
                complaints: complaints.iter().map(|line| line.to_string()).collect(),
                console: "console.log".into(),
            })
        };
        assert!(found("exit=0", &[]).is_empty());
        assert!(found("exit=4", &[]).is_empty());
        assert_eq!(found("exit=1", &[]).len(), 1);
        assert!(found("exit=1", &[])[0].starts_with("upper: "));
        assert_eq!(found("exit=4", &["WARNING: x"]), ["WARNING: x"]);
    }

    #[test]
    fn a_finding_is_a_complaint_and_so_is_an_audit_of_nothing() {
        let (_dir, lab) = Lab::fake();
        let judged = |text: Option<&str>| {
            let dir = lab.out("run/test");
            files::remove(&dir.join("model.json")).unwrap();
            if let Some(audit) = text {
                let text = format!(
                    r#"{{"instructions": 1, "regions": [], "requests": [], "audit": {{"audits": 1,
                        "filled": 1, "changes": 1, "unseen": 0, "spurious": 0, "diverged": 0,
                        "global": 0, "domain_faults": 0, "spurious_places": [], {audit}}}}}"#
                );
                files::write(&dir.join("model.json"), text.as_bytes()).unwrap();
            }
            let mut outcome = Outcome {
                end: End::Done,
                report: Report::default(),
                complaints: Vec::new(),
                console: "console.log".into(),
            };
            Watch::on().judge(&lab, "test", &mut outcome);
            outcome.complaints
        };
        let clean = r#""compared": 9, "missing": 0, "findings": []"#;
        assert!(judged(Some(clean)).is_empty());
        let nothing = judged(Some(&clean.replace("9", "0")));
        assert!(nothing[0].contains("nothing was compared"), "{nothing:?}");
        let missing = r#""compared": 9, "missing": 2, "findings": [{"function": "zap", "kind":
            "page that is gone", "count": 2, "first": "core 0"}]"#;
        let missing = judged(Some(missing));
        assert_eq!(
            missing,
            ["flush audit: zap: page that is gone (2 times): core 0"]
        );
        assert!(judged(None)[0].contains("wrote nothing"));
        assert!(
            Watch::default()
                .plugin(Path::new("none"))
                .unwrap()
                .is_none()
        );
        let refused = Watch::on().check("armv7-lpae".parse().unwrap());
        assert!(refused.unwrap_err().to_string().contains("armv7-lpae"));
    }

    #[test]
    fn places_of_spurious_faults_are_in_the_table_and_in_the_json() {
        let audit = r#"{"audits": 9, "compared": 8, "filled": 7, "changes": 6, "missing": 0, "unseen": 0,
            "spurious": 5, "diverged": 0, "global": 0, "domain_faults": 0, "findings": [],
            "spurious_places": [{"function": "wp_page_reuse", "task": "fuzz", "count": 4}]}"#;
        let audit: Audit = serde_json::from_str(audit).unwrap();
        let table = places(&audit);
        for word in ["right given in", "wp_page_reuse", "fuzz", "4"] {
            assert!(table.contains(word), "{table}");
        }
        let json = results::json(&Results {
            schema_version: SCHEMA_VERSION,
            arch: LAB,
            image: Path::new("vmlinux"),
            kernel: None,
            without: None,
            pass: true,
            problems: &[],
            audit: &audit,
        });
        let json: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
        let place = &json["audit"]["spurious_places"][0];
        assert_eq!(
            (&place["task"], &place["count"]),
            (&"fuzz".into(), &4.into())
        );
        assert_eq!(json["schema_version"], 1);
        let line = ["audit", "--json", "--babelfish"];
        assert!(<Line as clap::Parser>::try_parse_from(line).is_err());
    }

    #[test]
    fn our_kernels_run_their_selftests_and_others_what_any_kernel_has() {
        let names = |line: &[&str]| -> Vec<String> {
            let steps = options(line).steps();
            steps.into_iter().map(|step| step.name).collect()
        };
        assert_eq!(names(&[]).len(), STOCK.len() + SELFTESTS.len());
        assert_eq!(names(&["--config", "pristine"]).len(), STOCK.len());
        assert_eq!(names(&["--kernel", "vmlinux"]).len(), STOCK.len());
        assert_eq!(names(&["--babelfish"]).len(), SHARING.len());
        assert!(options(&["--babelfish"]).check().is_ok());
        let refused = options(&["--babelfish", "--config", "pristine"]).check();
        assert!(refused.unwrap_err().to_string().contains("pristine"));
        let line = ["audit", "--babelfish", "--kernel", "vmlinux"];
        assert!(<Line as clap::Parser>::try_parse_from(line).is_err());
        let armv7 = names(&["--arch", "armv7"]);
        assert_eq!(armv7.len(), STOCK.len() + SELFTESTS.len());
        assert!(armv7.contains(&"tlb_group".to_string()));
        for arch in ["arm64-16k", "armv7-lpae"] {
            let refused = options(&["--arch", arch]).check().unwrap_err();
            assert!(refused.to_string().contains(arch), "{refused}");
        }
        for arch in ["arm64", "armv7"] {
            let refused = options(&["--arch", arch, "--babelfish"]).check();
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("amd64 only"), "{refused}");
            assert!(options(&["--arch", arch, "--load"]).check().is_ok());
            let own = options(&["--arch", arch, "--kernel", "vmlinux"]);
            assert!(own.check().is_ok() && own.cmdline().ends_with(" nokaslr"));
        }
        assert_eq!(options(&[]).cmdline(), "cohort=always");
        // A command of one's own is all that runs.
        let line = ["audit", "--load", "--", "fork-cost"];
        assert!(<Line as clap::Parser>::try_parse_from(line).is_err());
        let own = options(&["--", "fork-cost", "--rounds", "1"]).steps();
        assert_eq!(own[0].command, "fork-cost --rounds 1");
        assert_eq!(own.len(), 1);
    }
}
