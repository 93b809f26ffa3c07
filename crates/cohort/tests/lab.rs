// SPDX-License-Identifier: GPL-2.0-or-later
//! The lab's command line in a checkout of its own: ^C, and a disk that is full or too small.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A root file system that takes no time.
const TINY: &str =
    "name = \"tiny\"\nsuite = \"host\"\npackages = []\nreason = \"a test\"\nsize = 8\n";

struct Checkout {
    dir: tempfile::TempDir,
}

impl Checkout {
    fn new() -> Self {
        let checkout = Checkout {
            dir: tempfile::tempdir().unwrap(),
        };
        checkout.write("Cargo.toml", "");
        checkout.write("kernel/config/base.config", "");
        checkout
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program that is found before the machine's own.
    fn program(&self, name: &str, script: &str) {
        let path = format!("bin/{name}");
        self.write(&path, script);
        fs::set_permissions(self.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn cohort(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cohort"));
        command
            .args(["lab", "--root"])
            .arg(self.dir.path())
            .args(args)
            .env(
                "PATH",
                format!(
                    "{}:/usr/sbin:/usr/bin:/sbin:/bin",
                    self.path("bin").display()
                ),
            )
            .env("AT", self.dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// Only root makes root file systems; others learn that from the lab, and nothing here.
fn root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("not root: not tried");
    }
    root
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn images(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.extension().is_some_and(|end| end == "ext4"))
        .collect()
}

#[test]
fn an_interrupted_command_ends_its_children_and_the_next_one_goes_on() {
    if !root() {
        return;
    }
    let checkout = Checkout::new();
    checkout.write("guest/rootfs/tiny.toml", TINY);
    // In the place of mmdebstrap in its namespace: slow at first, quick when asked again.
    checkout.program(
        "unshare",
        r#"#!/bin/sh
case "$*" in *mmdebstrap*) ;; *) exit 0 ;; esac
while [ $# -gt 2 ]; do shift; done
mkdir -p "$1/etc"
echo $$ >"$AT/pid.new" && mv "$AT/pid.new" "$AT/pid"
[ -e "$AT/quick" ] || exec sleep 600
echo whole >"$1/etc/state"
"#,
    );
    let first = checkout.cohort(&["rootfs", "tiny"]).spawn().unwrap();
    wait_for("the first step", || checkout.path("pid").exists());
    let step = fs::read_to_string(checkout.path("pid")).unwrap();
    // SAFETY: signals the process that was just started and not waited for.
    let sent = unsafe { libc::kill(first.id() as libc::pid_t, libc::SIGINT) };
    assert_eq!(sent, 0);
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("run the same command again"));
    // Accept a zombie: in some containers nobody waits for orphans.
    let stat = format!("/proc/{}/stat", step.trim());
    wait_for("the end of the step's program", || {
        fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
    assert_eq!(images(&checkout.path("out/rootfs")), [] as [PathBuf; 0]);

    fs::write(checkout.path("quick"), "").unwrap();
    let output = checkout.cohort(&["rootfs", "tiny"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let image = String::from_utf8_lossy(&output.stdout).trim().to_string();
    assert_eq!(images(&checkout.path("out/rootfs")), [PathBuf::from(image)]);
    assert!(!checkout.path("out/rootfs/tiny.tree").exists());
}

#[test]
fn a_full_disk_is_named_with_the_file_and_what_to_do_and_the_old_file_stays() {
    if !root() {
        return;
    }
    let checkout = Checkout::new();
    checkout.write("guest/rootfs/tiny.toml", TINY);
    checkout.write("out/rootfs/tiny.list", "of yesterday");
    // The half-written file's name leads to a device that takes nothing.
    std::os::unix::fs::symlink("/dev/full", checkout.path("out/rootfs/tiny.list.new")).unwrap();
    let output = checkout.cohort(&["rootfs", "tiny"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let text = text(&output);
    assert!(
        text.contains("tiny.list") && text.contains("free some disk space"),
        "{text}"
    );
    let kept = fs::read_to_string(checkout.path("out/rootfs/tiny.list")).unwrap();
    assert_eq!(kept, "of yesterday");
    assert_eq!(images(&checkout.path("out/rootfs")), [] as [PathBuf; 0]);
}

#[test]
fn a_disk_too_small_for_the_lab_is_refused_before_a_package_is_installed() {
    let checkout = Checkout::new();
    // A file system that has no room at all.
    std::os::unix::fs::symlink("/proc", checkout.path("out")).unwrap();
    for name in ["apt-get", "dpkg", "dpkg-query"] {
        checkout.program(name, "#!/bin/sh\necho ran >\"$AT/ran\"\nexit 1\n");
    }
    let output = checkout.cohort(&["setup"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let text = text(&output);
    assert!(
        text.contains("needs 10 GB of disk") && text.contains("has 0 GB free"),
        "{text}"
    );
    assert!(!checkout.path("ran").exists());
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_made() {
    let checkout = Checkout::new();
    checkout.write(
        "guest/kernel-tests/tests.toml",
        include_str!("../../../guest/kernel-tests/tests.toml"),
    );
    checkout.write(
        "guest/scan-kernels.toml",
        include_str!("../../../guest/scan-kernels.toml"),
    );
    checkout.write(
        "papers/figures.toml",
        include_str!("../../../papers/figures.toml"),
    );
    checkout.write(
        "experiments/zygote-fork.toml",
        include_str!("../../../experiments/zygote-fork.toml"),
    );
    checkout.write(
        "experiments/tlb-sharing-potential.toml",
        &include_str!("../../../experiments/tlb-sharing-potential.toml")
            .replace("\"baseline\"", "\"baselime\""),
    );
    checkout.write(
        "wide.toml",
        "name = \"wide\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"baseline\"\n[cache.l1d]\nways = 0\n",
    );
    let wide = checkout.path("wide.toml");
    for name in ["base", "debug"] {
        checkout.write(&format!("kernel/config/{name}.config"), "");
    }
    checkout.write(
        "kernel/config/cohort.config",
        include_str!("../../../kernel/config/cohort.config"),
    );
    checkout.write(
        "kernel/config/x86_64.config",
        include_str!("../../../kernel/config/x86_64.config"),
    );
    let refusals: &[(&[&str], &str)] = &[
        (
            &["soak", "--config", "pristine"],
            "use --config debug or bench",
        ),
        (&["soak", "--minutes", "0"], "0 is not in 1..="),
        (&["check-native", "--rounds", "0"], "0 is not in 1..="),
        (&["soak", "--minutes", "long"], "invalid digit"),
        (
            &["fuzz", "--config", "pristine"],
            "use --config debug or bench",
        ),
        (
            &["scan-kernels", "--filter", "nosuch"],
            "no such kernel; there are: 5.10-amd64",
        ),
        (
            &["check-model", "nosuch"],
            "there is no kernel nosuch; there are: 5.10-amd64",
        ),
        (
            &["check-model", "6.12-arm64-16k"],
            "only pages of 4 KB can be checked",
        ),
        (&["fuzz", "--minutes", "0"], "must be 1 at least"),
        (&["fuzz", "--arch", "arm64-16k"], "needs pages of 4 KB"),
        (&["fuzz", "--arch", "m68k"], "unknown architecture m68k"),
        (&["fuzz", "--shorten"], "--replay <FILE>"),
        (&["fuzz", "--replay", "/no/such/file"], "/no/such/file"),
        (
            &["test", "--config", "pristine"],
            "use --config debug or bench",
        ),
        (&["test", "--tlb-group"], "cannot share TLB entries"),
        (
            &["mmtests", "--config", "pristine"],
            "compared with the pristine one",
        ),
        (
            &["mmtests", "--filter", "nosuch"],
            "no test's name holds `nosuch`",
        ),
        (
            &["run", "zygote-fork", "--model", "nosuch"],
            "no model is called \"nosuch\"; there are: babelfish-isca20",
        ),
        (
            &["run", "zygote-fork", "--model", wide.to_str().unwrap()],
            "cache.l1d.ways must be above 0",
        ),
        (
            &["run", "tlb-sharing-potential"],
            "no model is called \"baselime\"",
        ),
        (
            &["shell", "--kernel", "/no/such", "--", "true"],
            "there is no kernel image /no/such",
        ),
        (&["shell", "--arch", "vax", "--", "true"], "arm64"),
        (
            &[
                "shell", "--arch", "arm64", "--kernel", "/no/such", "--", "true",
            ],
            "'--arch <NAME>' cannot be used with '--kernel <IMAGE>'",
        ),
        (
            &["shell", "--copy", "/no/such", "--", "true"],
            "/no/such is not a file to copy",
        ),
        (
            &["deb", "--kernel-config", "/no/such"],
            "cannot read /no/such",
        ),
        (
            &["deb", "--kernel-config", "/etc/passwd"],
            "/etc/passwd has no line CONFIG_",
        ),
        (
            &["bench-model", "--model", "nosuch"],
            "no model is called \"nosuch\"",
        ),
        (
            &["bench-model", "--model", "./no.toml"],
            "cannot read the description ./no.toml: No such file or directory (os error 2)\n",
        ),
    ];
    for (args, reason) in refusals {
        let output = checkout.cohort(args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output));
        assert!(
            text(&output).contains(reason),
            "{args:?}: {}",
            text(&output)
        );
        for made in ["out/build", "out/deb", "out/guest", "out/rootfs", "out/run"] {
            assert!(!checkout.path(made).exists(), "{args:?}: {made}");
        }
        assert!(!checkout.path("out/linux").exists(), "{args:?}");
    }
}
