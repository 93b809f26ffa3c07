// SPDX-License-Identifier: GPL-2.0-or-later
//! `cohort run`: mark this process as a zygote, as a member of a group, as one whose pages may be
//! merged, or as one whose memory is to have pages of a size, then become the program.

use crate::output::note;
use std::ffi::{CString, OsString};
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::str::FromStr;

/// The kernel has no Cohort, or cannot merge (EX_UNAVAILABLE of sysexits.h).
pub const EXIT_NO_COHORT: u8 = 69;
/// The program is there but cannot be started, as shells say it.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The program is not there, as shells say it.
pub const EXIT_NOT_FOUND: u8 = 127;

const PR_SET_COHORT: libc::c_int = 0x434f_4801;
const PR_COHORT_ZYGOTE: libc::c_ulong = 1;
const PR_COHORT_KEEP_EXEC: libc::c_ulong = 2;
const PR_COHORT_KEEP_IDS: libc::c_ulong = 4;
const PR_COHORT_GROUP: libc::c_ulong = 8;
/// Bytes of a group's name (COHORT_NAME of the kernel, without the 0 at its end).
const GROUP_NAME: usize = 31;

// Since Linux 6.4; libc has no name for it yet.
const PR_SET_MEMORY_MERGE: libc::c_int = 67;

// include/uapi/linux/region_order.h
const MADV_ORDER: libc::c_ulong = 0x4f00;
const MADV_ORDER_SHIFT: u32 = 16;
const MADV_ORDER_WAIT: libc::c_ulong = 0x01;
const MADV_ORDER_COPY: libc::c_ulong = 0x02;
const MADV_ORDER_NONE: libc::c_ulong = 0x80;
const PR_SET_REGION_ORDER: libc::c_int = 0x434f_4803;
const PR_ORDER_HEAP: libc::c_ulong = 1;
const PR_ORDER_ANON: libc::c_ulong = 2;
const PR_ORDER_FILE: libc::c_ulong = 4;
const PR_ORDER_STACK: libc::c_ulong = 8;

/// The page size that is asked for memory of a kind: `64K`, `2M,wait`, `64K,copy`, `4K`, `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pages {
    /// Bytes of a page; none takes the order back.
    size: Option<u64>,
    /// Wait for a page of that size rather than take smaller ones.
    wait: bool,
    /// Copy whole large pages on write.
    copy: bool,
}

impl FromStr for Pages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let size = parts.next().unwrap_or_default();
        let mut pages = Pages {
            size: if size == "no" {
                None
            } else {
                Some(bytes(size)?)
            },
            wait: false,
            copy: false,
        };
        for policy in parts {
            match policy {
                "wait" => pages.wait = true,
                "copy" => pages.copy = true,
                _ => return Err(format!("`{policy}` is no policy: there are wait and copy")),
            }
        }
        if pages.size.is_none() && (pages.wait || pages.copy) {
            return Err("`no` has no policy".into());
        }
        Ok(pages)
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Some(size) if size % (1 << 20) == 0 => write!(f, "{} MB", size >> 20),
            Some(size) if size % (1 << 10) == 0 => write!(f, "{} kB", size >> 10),
            Some(size) => write!(f, "{size} bytes"),
            None => write!(f, "no size"),
        }
    }
}

impl Pages {
    /// The advice that asks for it on a machine with base pages of `base` bytes.
    fn advice(self, base: u64) -> Result<libc::c_ulong, String> {
        let Some(size) = self.size else {
            return Ok(MADV_ORDER | MADV_ORDER_NONE);
        };
        if size < base {
            return Err(format!(
                "{self} is less than the {} kB of a base page here",
                base >> 10
            ));
        }
        if size == base && (self.wait || self.copy) {
            return Err(format!(
                "{self} is a base page, which has no policy: it is there, or no memory is"
            ));
        }
        let order = (size / base).trailing_zeros();
        let mut advice = MADV_ORDER | libc::c_ulong::from(order) << MADV_ORDER_SHIFT;
        if self.wait {
            advice |= MADV_ORDER_WAIT;
        }
        if self.copy {
            advice |= MADV_ORDER_COPY;
        }
        Ok(advice)
    }
}

/// A size such as `64K` or `2M`: a power of two.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no page size, such as 64K or 2M: a power of two");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1 << shift)
        .filter(|size| size.is_power_of_two())
        .ok_or_else(wrong)
}

/// A group's name, as the kernel takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group(CString);

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > GROUP_NAME {
            return Err(format!("a group's name has 1 to {GROUP_NAME} letters"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a group's name is a word of ASCII, without spaces".into());
        }
        Ok(Group(CString::new(text).expect("no graphic byte is 0")))
    }
}

/// Arguments of `cohort run`.
#[derive(clap::Args)]
pub struct Args {
    /// Make the program a zygote: its children share its page tables (the default without
    /// --merge, --group or a page size).
    #[arg(long)]
    zygote: bool,
    /// Keep the role when the program itself executes another one (the default: the
    /// program is itself started by an exec).
    #[arg(long)]
    keep_exec: bool,
    /// Children go on sharing when they become another user's, as the workers of a server that
    /// root starts (apache2, php-fpm) do at once, or enter a namespace. Without it they take
    /// tables of their own then: it is for programs whose users trust each other.
    #[arg(long)]
    keep_ids: bool,
    /// Put the program, and programs that it executes, into a group: they share page tables of
    /// the files that they map with others of that group, from which they were not forked, if all
    /// are of one user. Comes before the label of a cgroup (memory.cohort).
    #[arg(long, value_name = "NAME")]
    group: Option<Group>,
    /// Let the kernel merge equal pages (KSM) of the program and its children, also after they
    /// execute other programs. Needs no Cohort in the kernel; with --zygote it does both.
    #[arg(long)]
    merge: bool,
    /// The page size of the program's heap and of what it maps without a file, for instance 64K;
    /// `2M,wait` waits for such pages rather than taking smaller ones, which takes CAP_SYS_NICE;
    /// `64K,copy` copies whole pages on write. Kept by its children and by programs that they execute.
    #[arg(long, value_name = "SIZE[,POLICY]")]
    order: Option<Pages>,
    /// That of the heap alone; `no` for the machine's own rules.
    #[arg(long, value_name = "SIZE[,POLICY]")]
    heap: Option<Pages>,
    /// That of mapped anonymous memory alone.
    #[arg(long, value_name = "SIZE[,POLICY]")]
    anon: Option<Pages>,
    /// That of mapped files and shared memory, which --order leaves alone; copies on write of
    /// files are base pages, so that `copy` is no policy of theirs.
    #[arg(long, value_name = "SIZE[,POLICY]")]
    file: Option<Pages>,
    /// That of stacks, which --order leaves alone.
    #[arg(long, value_name = "SIZE[,POLICY]")]
    stack: Option<Pages>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Sets the role and becomes the program; returns only when that failed.
pub fn main(args: &Args) -> ExitCode {
    // SAFETY: no memory is involved.
    let base = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let orders = match args.orders(u64::try_from(base).unwrap_or(4096)) {
        Ok(orders) => orders,
        Err(text) => {
            let kind = clap::error::ErrorKind::ValueValidation;
            clap::Error::raw(kind, format!("{text}\n")).exit()
        }
    };
    let asked = args.zygote || args.keep_exec || args.keep_ids;
    if let Some(group) = &args.group {
        if let Err(error) = set_group(group) {
            note!("cohort: {}", no_groups(&error));
            return ExitCode::from(EXIT_NO_COHORT);
        }
        if let Some(hint) = groups_off(Path::new("/")) {
            note!("cohort: {hint}");
        }
    }
    if asked || (!args.merge && args.group.is_none() && orders.is_empty()) {
        // Both flags are always set: the exec below would drop a role that is not kept.
        let mut role = PR_COHORT_ZYGOTE | PR_COHORT_KEEP_EXEC;
        if args.keep_ids {
            role |= PR_COHORT_KEEP_IDS;
        }
        if let Err(error) = set_role(role) {
            note!("cohort: {}", no_cohort(&error));
            return ExitCode::from(EXIT_NO_COHORT);
        }
        if mode(Path::new("/")).as_deref() == Some("never") {
            note!(
                "cohort: sharing is switched off on this machine, so the program runs unshared; \
                 `echo optin > /sys/kernel/mm/cohort/enabled` as root switches it on"
            );
        }
    }
    if args.merge {
        if let Err(error) = set_merge() {
            note!("cohort: {}", no_merging(&error));
            return ExitCode::from(EXIT_NO_COHORT);
        }
        if let Some(hint) = ksmd_idle(Path::new("/")) {
            note!("cohort: {hint}");
        }
    }
    for order in orders {
        if let Err(text) = set_order(&order) {
            note!("cohort: {text}");
            return ExitCode::from(EXIT_NO_COHORT);
        }
    }
    let program = &args.command[0];
    let error = Command::new(program).args(&args.command[1..]).exec();
    note!(
        "cohort: cannot start {}: {}",
        Path::new(program).display(),
        plain(&error)
    );
    ExitCode::from(exit_code(&error))
}

/// What to ask for some kinds of memory.
struct Order {
    kinds: libc::c_ulong,
    pages: Pages,
    advice: libc::c_ulong,
}

impl Args {
    /// The more precise option comes last and counts. Base pages have `base` bytes.
    fn orders(&self, base: u64) -> Result<Vec<Order>, String> {
        if self.file.is_some_and(|pages| pages.copy) {
            return Err(
                "private writes to files copy base pages: --file has no policy `copy`".into(),
            );
        }
        [
            (PR_ORDER_HEAP | PR_ORDER_ANON, self.order),
            (PR_ORDER_HEAP, self.heap),
            (PR_ORDER_ANON, self.anon),
            (PR_ORDER_FILE, self.file),
            (PR_ORDER_STACK, self.stack),
        ]
        .into_iter()
        .filter_map(|(kinds, pages)| Some((kinds, pages?)))
        .map(|(kinds, pages)| {
            Ok(Order {
                kinds,
                pages,
                advice: pages.advice(base)?,
            })
        })
        .collect()
    }
}

/// Asks for a page size for regions to come; it is kept over fork and exec.
fn set_order(order: &Order) -> Result<(), String> {
    let (kinds, pages, advice) = (order.kinds, order.pages, order.advice);
    let zero: libc::c_ulong = 0;
    // SAFETY: prctl with this option takes integers and touches no memory of ours.
    if unsafe { libc::prctl(PR_SET_REGION_ORDER, kinds, advice, zero, zero) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // Taking back is never refused by a kernel that has orders at all.
    let none = MADV_ORDER | MADV_ORDER_NONE;
    // SAFETY: as above.
    let known = unsafe { libc::prctl(PR_SET_REGION_ORDER, kinds, none, zero, zero) } == 0;
    Err(no_order(&error, pages, known))
}

fn no_order(error: &io::Error, pages: Pages, known: bool) -> String {
    match error.raw_os_error() {
        Some(libc::EINVAL) if known => format!(
            "this machine has no pages of {pages}; those that it has are named in \
             /sys/kernel/mm/transparent_hugepage"
        ),
        Some(libc::EINVAL) => {
            "this kernel has no page size for each region; build one with `cohort lab build` and \
             try the program in `cohort lab shell`"
                .into()
        }
        Some(libc::EPERM) if pages.wait => {
            "to wait for pages takes the privilege CAP_SYS_NICE, which root has; the other \
             policies take none"
                .into()
        }
        _ => format!("the kernel refused pages of {pages}: {}", plain(error)),
    }
}

fn set_role(flags: libc::c_ulong) -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: prctl with this option takes four integers and touches no memory of ours.
    if unsafe { libc::prctl(PR_SET_COHORT, flags, zero, zero, zero) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Chooses the group of the program that this process becomes; it is kept over fork and exec.
fn set_group(group: &Group) -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: the kernel reads the name, which ends with 0, and nothing else of ours.
    if unsafe { libc::prctl(PR_SET_COHORT, PR_COHORT_GROUP, group.0.as_ptr(), zero, zero) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn no_groups(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::EINVAL) {
        "this kernel has no groups: it has no Cohort, or was built without CONFIG_COHORT_GROUPS; \
         build one with `cohort lab build`"
            .into()
    } else {
        format!("the kernel refused the group: {}", plain(error))
    }
}

/// What to do for programs of a group to share at all, if that is switched off.
fn groups_off(root: &Path) -> Option<&'static str> {
    let of = |file: &str| {
        let text = std::fs::read_to_string(root.join("sys/kernel/mm/cohort").join(file)).ok()?;
        chosen(&text).map(String::from)
    };
    let off = |file: &str| of(file).as_deref() == Some("never");
    if off("join") {
        return Some(
            "joining tables is switched off on this machine, so the program runs unshared; \
             `echo group > /sys/kernel/mm/cohort/join` as root switches it on",
        );
    }
    off("enabled").then_some(
        "sharing is switched off on this machine, so the program runs unshared; \
         `echo optin > /sys/kernel/mm/cohort/enabled` as root switches it on",
    )
}

/// Turns merging on for this process; it is kept over fork and exec.
fn set_merge() -> io::Result<()> {
    let (on, zero): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: prctl with this option takes four integers and touches no memory of ours.
    if unsafe { libc::prctl(PR_SET_MEMORY_MERGE, on, zero, zero, zero) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn no_merging(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::EINVAL) {
        "this kernel cannot merge the pages of whole programs: it is older than 6.4, or was \
         built without CONFIG_KSM"
            .into()
    } else {
        format!("the kernel refused to merge: {}", plain(error))
    }
}

/// What to do for pages to be merged at all, if ksmd has not been started.
fn ksmd_idle(root: &Path) -> Option<&'static str> {
    let run = std::fs::read_to_string(root.join("sys/kernel/mm/ksm/run")).ok()?;
    (run.trim() != "1").then_some(
        "nothing is merged on this machine, so the program runs as it would without; \
         `echo 1 > /sys/kernel/mm/ksm/run` as root starts it",
    )
}

fn no_cohort(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::EINVAL) {
        "this kernel has no Cohort; build one with `cohort lab build` and try the program in \
         `cohort lab shell`, or install the kernel package as README.md describes"
            .into()
    } else {
        format!(
            "the kernel refused to start a cohort: {}; see `dmesg`",
            plain(error)
        )
    }
}

/// The machine's sharing mode, if the kernel has Cohort.
fn mode(root: &Path) -> Option<String> {
    setting(root, "enabled")
}

/// The bracketed word of a file of `/sys/kernel/mm/cohort`, if the kernel has it.
pub(crate) fn setting(root: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join("sys/kernel/mm/cohort").join(name)).ok()?;
    chosen(&text).map(String::from)
}

/// The word in brackets: which of its settings a file of sysfs has.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

fn exit_code(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound {
        EXIT_NOT_FOUND
    } else {
        EXIT_NOT_EXECUTABLE
    }
}

/// An error's words without the number that Rust appends.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_the_bracketed_word() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(mode(root.path()), None);
        let dir = root.path().join("sys/kernel/mm/cohort");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("enabled"), "always optin [never]\n").unwrap();
        assert_eq!(mode(root.path()).as_deref(), Some("never"));
    }

    #[test]
    fn a_kernel_without_cohort_is_told_apart_from_a_refusal() {
        let missing = no_cohort(&io::Error::from_raw_os_error(libc::EINVAL));
        assert!(missing.contains("has no Cohort"), "{missing}");
        assert!(missing.contains("cohort lab build"), "{missing}");
        let refused = no_cohort(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(refused.contains("Operation not permitted"), "{refused}");
    }

    #[test]
    fn a_group_has_a_name_that_the_kernel_takes() {
        assert_eq!("web-1".parse(), Ok(Group(CString::from(c"web-1"))));
        assert!("a".repeat(GROUP_NAME).parse::<Group>().is_ok());
        for wrong in [
            "",
            "two words",
            "line\n",
            "gr\u{fc}n",
            &"a".repeat(GROUP_NAME + 1),
        ] {
            assert!(wrong.parse::<Group>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn switched_off_groups_are_told_of() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(groups_off(root.path()), None);
        let dir = root.path().join("sys/kernel/mm/cohort");
        std::fs::create_dir_all(&dir).unwrap();
        for (join, enabled, told) in [
            ("never [group] user\n", "always [optin] never\n", None),
            (
                "[never] group user\n",
                "always [optin] never\n",
                Some("/join`"),
            ),
            (
                "never [group] user\n",
                "always optin [never]\n",
                Some("/enabled`"),
            ),
        ] {
            std::fs::write(dir.join("join"), join).unwrap();
            std::fs::write(dir.join("enabled"), enabled).unwrap();
            let hint = groups_off(root.path());
            assert_eq!(hint.is_some(), told.is_some(), "{join}{enabled}");
            assert!(hint.unwrap_or_default().contains(told.unwrap_or_default()));
        }
    }

    #[test]
    fn an_idle_ksmd_is_told_of_and_a_running_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(ksmd_idle(root.path()), None);
        let dir = root.path().join("sys/kernel/mm/ksm");
        std::fs::create_dir_all(&dir).unwrap();
        for (run, told) in [("0\n", true), ("1\n", false), ("2\n", true)] {
            std::fs::write(dir.join("run"), run).unwrap();
            assert_eq!(ksmd_idle(root.path()).is_some(), told, "{run}");
        }
    }

    #[test]
    fn a_kernel_that_cannot_merge_is_told_apart_from_a_refusal() {
        let old = no_merging(&io::Error::from_raw_os_error(libc::EINVAL));
        assert!(old.contains("older than 6.4"), "{old}");
        let refused = no_merging(&io::Error::from_raw_os_error(libc::EPERM));
        assert!(refused.contains("Operation not permitted"), "{refused}");
    }

    #[test]
    fn page_sizes_are_read_and_become_advice() {
        let advice = |text: &str| text.parse::<Pages>().and_then(|pages| pages.advice(4096));
        assert_eq!(advice("64K"), Ok(0x4_4f00));
        assert_eq!(advice("2M,wait"), Ok(0x9_4f01));
        assert_eq!(advice("16K,copy,wait"), Ok(0x2_4f03));
        assert_eq!(advice("65536"), Ok(0x4_4f00));
        assert_eq!(advice("64k"), advice("64K"));
        assert_eq!(advice("2mb"), advice("2M"));
        assert_eq!(advice("4K"), Ok(0x4f00));
        assert_eq!(advice("no"), Ok(0x4f80));
        assert_eq!("64K".parse::<Pages>().unwrap().advice(65536), Ok(0x4f00));
        for wrong in [
            "",
            "K",
            "64",
            "48K",
            "64Q",
            "0K",
            "-4K",
            "64K,soon",
            "no,wait",
            "4K,wait",
            "64K,",
            "99999999999999999999G",
        ] {
            assert!(advice(wrong).is_err(), "{wrong}");
        }
        assert!("4K".parse::<Pages>().unwrap().advice(65536).is_err());
        assert!(advice("1").unwrap_err().starts_with("1 bytes is less"));
    }

    /// On a machine with base pages of 4 KB.
    fn orders(options: &str) -> Result<Vec<Order>, String> {
        #[derive(clap::Parser)]
        struct Run {
            #[command(flatten)]
            args: Args,
        }
        let words = ["run"].into_iter().chain(options.split(' '));
        let run = <Run as clap::Parser>::parse_from(words.chain(["--", "true"]));
        run.args.orders(4096)
    }

    #[test]
    fn a_size_for_a_kind_counts_more_than_one_for_all() {
        let orders = orders("--heap 2M --order 64K,wait --stack no --file 64K").unwrap();
        let orders: Vec<_> = orders
            .iter()
            .map(|order| (order.kinds, order.pages))
            .collect();
        let size = |size, wait| Pages {
            size,
            wait,
            copy: false,
        };
        assert_eq!(
            orders,
            [
                (PR_ORDER_HEAP | PR_ORDER_ANON, size(Some(1 << 16), true)),
                (PR_ORDER_HEAP, size(Some(1 << 21), false)),
                (PR_ORDER_FILE, size(Some(1 << 16), false)),
                (PR_ORDER_STACK, size(None, false)),
            ]
        );
    }

    #[test]
    fn files_are_not_copied_by_large_pages() {
        let text = orders("--file 64K,copy").err().unwrap();
        assert!(text.contains("--file has no policy `copy`"), "{text}");
    }

    #[test]
    fn a_size_that_the_machine_lacks_is_told_apart_from_an_old_kernel() {
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        let pages: Pages = "8K".parse().unwrap();
        let lacking = no_order(&error, pages, true);
        assert!(lacking.contains("no pages of 8 kB"), "{lacking}");
        let old = no_order(&error, pages, false);
        assert!(old.contains("no page size for each region"), "{old}");
    }

    #[test]
    fn a_wait_without_the_privilege_is_told_apart() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let refused = |pages: &str| no_order(&error, pages.parse().unwrap(), true);
        assert!(refused("2M,wait").contains("CAP_SYS_NICE"));
        assert!(!refused("2M,copy").contains("CAP_SYS_NICE"));
    }

    #[test]
    fn failing_to_start_has_the_shells_exit_codes() {
        let gone = io::Error::from_raw_os_error(libc::ENOENT);
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(exit_code(&gone), 127);
        assert_eq!(exit_code(&denied), 126);
    }
}
