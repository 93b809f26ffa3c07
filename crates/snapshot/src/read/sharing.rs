// SPDX-License-Identifier: GPL-2.0-or-later
//! What a kernel with Cohort says about sharing: `/proc/PID/cohort`, and its events in
//! `/proc/vmstat`.

use super::paths::Paths;
use super::process::read;
use crate::model::process::Reason;
use crate::model::sharing::Sharing;
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Reads what `pid` shares; `None` for a process without memory, such as a kernel thread.
pub fn sharing(paths: &Paths, pid: i32) -> Result<Option<Sharing>, Reason> {
    parse(&String::from_utf8_lossy(&read(paths, pid, "cohort")?)).map_err(Reason::Unreadable)
}

/// Parses `/proc/PID/cohort`. Lines of kernels to come are skipped.
pub fn parse(text: &str) -> Result<Option<Sharing>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let lines: HashMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key, value.trim()))
        .collect();
    let maybe = |key: &str| -> Result<Option<u64>, String> {
        let Some(&value) = lines.get(key) else {
            return Ok(None);
        };
        let digits = value.strip_suffix(" kB").unwrap_or(value);
        let number = digits.parse();
        let number = number.map_err(|_| format!("cohort has {value:?} for {key}"))?;
        Ok(Some(number))
    };
    let number = |key: &str| maybe(key)?.ok_or_else(|| format!("cohort has no line {key}"));
    let bytes = |key: &str| number(key).map(|kilobytes| kilobytes.saturating_mul(1024));
    Ok(Some(Sharing {
        cohort: number("Cohort")?,
        zygote: number("Zygote")? != 0,
        group: maybe("Group")?,
        group_name: lines.get("GroupName").copied().unwrap_or("").into(),
        shared_tables: number("SharedTables")?,
        owned_tables: number("OwnedTables")?,
        open_tables: maybe("OpenTables")?,
        shared_pmd_tables: number("SharedPmdTables")?,
        borrowed: bytes("BorrowedAnon")?
            .saturating_add(bytes("BorrowedFile")?)
            .saturating_add(bytes("BorrowedShmem")?),
        borrowed_swap: bytes("BorrowedSwap")?,
    }))
}

/// Events since boot by their names in `/proc/vmstat`; none on a kernel without Cohort.
pub fn events(paths: &Paths) -> io::Result<BTreeMap<String, u64>> {
    let text = std::fs::read_to_string(paths.proc().join("vmstat"))?;
    Ok(text
        .lines()
        .filter(|line| line.starts_with("cohort_"))
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, count)| Some((name.to_string(), count.trim().parse().ok()?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "Cohort:\t12\nZygote:\t1\nKeepExec:\t0\nKeepIds:\t0\nSharedTables:\t9\n\
        OwnedTables:\t4\nSharedPmdTables:\t1\nBorrowedAnon:\t8 kB\nBorrowedFile:\t100 kB\n\
        BorrowedShmem:\t20 kB\nBorrowedSwap:\t4 kB\n";

    fn old() -> Sharing {
        Sharing {
            cohort: 12,
            zygote: true,
            shared_tables: 9,
            owned_tables: 4,
            shared_pmd_tables: 1,
            borrowed: 128 << 10,
            borrowed_swap: 4 << 10,
            ..Sharing::default()
        }
    }

    #[test]
    fn a_kernel_without_groups_has_none() {
        let sharing = parse(OLD).unwrap().unwrap();
        assert_eq!(sharing, old());
        assert_eq!(sharing.saved_tables(), 5);
    }

    #[test]
    fn groups_have_a_number_and_may_have_a_name() {
        for (name, number) in [("web", 3), ("", 3), ("", 0)] {
            let lines = format!("Group:\t{number}\nGroupName:\t{name}\nSharedTables");
            let open = "OpenTables:\t7\nSharedPmdTables";
            let text = OLD.replace("SharedTables", &lines);
            let text = text.replace("SharedPmdTables", open) + "FromTheFuture:\tyes\n";
            let wanted = Sharing {
                group: Some(number),
                group_name: name.into(),
                open_tables: Some(7),
                ..old()
            };
            assert_eq!(parse(&text), Ok(Some(wanted)));
        }
    }

    #[test]
    fn a_process_without_memory_has_no_lines() {
        assert_eq!(parse(""), Ok(None));
        assert!(Sharing::default().is_none());
    }

    #[test]
    fn a_line_that_lacks_or_is_no_number_is_named() {
        let error = parse(&OLD.replace("OwnedTables", "Owned")).unwrap_err();
        assert_eq!(error, "cohort has no line OwnedTables");
        let error = parse(&OLD.replace("100 kB", "-1 kB")).unwrap_err();
        assert_eq!(error, "cohort has \"-1 kB\" for BorrowedFile");
    }

    #[test]
    fn only_events_of_cohort_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        assert!(events(&paths).is_err());
        let text = "pgfault 9\ncohort_ptp_shared 40\ncohort_fault_filled 7\nthp_migration 1\n";
        std::fs::write(dir.path().join("vmstat"), text).unwrap();
        let found: Vec<(String, u64)> = events(&paths).unwrap().into_iter().collect();
        let wanted = [("cohort_fault_filled", 7), ("cohort_ptp_shared", 40)];
        assert_eq!(found, wanted.map(|(name, count)| (name.to_string(), count)));
    }

    #[test]
    fn who_is_gone_has_vanished_and_odd_files_are_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        assert_eq!(sharing(&paths, 5), Err(Reason::Vanished));
        std::fs::create_dir(paths.pid(5)).unwrap();
        std::fs::write(paths.pid(5).join("cohort"), "Cohort:\t1\n").unwrap();
        assert!(matches!(sharing(&paths, 5), Err(Reason::Unreadable(_))));
        std::fs::write(paths.pid(5).join("cohort"), OLD).unwrap();
        assert_eq!(sharing(&paths, 5), Ok(Some(old())));
    }
}
