// SPDX-License-Identifier: GPL-2.0-or-later
//! Which processes are wanted.

use super::args::Select;
use anyhow::{Context, Result, bail};
use cohort_snapshot::model::process::Identity;
use std::collections::HashMap;
use std::ffi::{CStr, CString};

impl Select {
    /// Whether everything is wanted.
    pub fn all(&self) -> bool {
        self.pid.is_empty()
            && self.tree.is_empty()
            && self.user.is_empty()
            && self.exe.is_none()
            && self.cgroup.is_none()
            && self.pattern.is_none()
    }

    /// Numbers of the users that are wanted; fails for one that is not known.
    pub fn uids(&self) -> Result<Vec<u32>> {
        self.user.iter().map(|user| uid(user)).collect()
    }

    /// Which of `identities` are wanted.
    pub fn wanted(&self, identities: &[Identity], uids: &[u32]) -> Vec<bool> {
        let parents: HashMap<i32, i32> = identities
            .iter()
            .map(|identity| (identity.pid, identity.ppid))
            .collect();
        identities
            .iter()
            .map(|identity| {
                let listed = self.pid.is_empty() && self.tree.is_empty()
                    || self.pid.contains(&identity.pid)
                    || descends(identity.pid, &self.tree, &parents);
                listed
                    && (uids.is_empty() || uids.contains(&identity.uid))
                    && self
                        .exe
                        .as_ref()
                        .is_none_or(|exe| exe.is_match(&identity.exe))
                    && self
                        .cgroup
                        .as_ref()
                        .is_none_or(|group| group.is_match(&identity.cgroup))
                    && self.pattern.as_ref().is_none_or(|pattern| {
                        pattern.is_match(&identity.name) || pattern.is_match(&identity.command)
                    })
            })
            .collect()
    }
}

fn descends(pid: i32, roots: &[i32], parents: &HashMap<i32, i32>) -> bool {
    let mut at = pid;
    // A circle cannot be, unless numbers were used again while they were read.
    for _ in 0..=parents.len() {
        if roots.contains(&at) {
            return true;
        }
        match parents.get(&at) {
            Some(parent) => at = *parent,
            None => return false,
        }
    }
    false
}

fn uid(user: &str) -> Result<u32> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    if user.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!("{user} is not a user's number: those go up to {}", u32::MAX);
    }
    let name = CString::new(user).context("a user's name holds a zero byte")?;
    // SAFETY: the name ends with a zero; the result is read before the next call, and no other
    // thread asks at this time.
    let found = unsafe {
        libc::getpwnam(name.as_ptr())
            .as_ref()
            .map(|entry| entry.pw_uid)
    };
    match found {
        Some(uid) => Ok(uid),
        None => bail!("there is no user {user} on this machine: give the number instead"),
    }
}

/// A user's name, or the number where there is none.
pub fn user_name(uid: u32) -> String {
    // SAFETY: the entry is copied before the next call; called from one thread only.
    let name = unsafe {
        libc::getpwuid(uid)
            .as_ref()
            .map(|entry| CStr::from_ptr(entry.pw_name).to_string_lossy().into_owned())
    };
    name.unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(pid: i32, ppid: i32, uid: u32, name: &str) -> Identity {
        Identity {
            pid,
            ppid,
            uid,
            name: name.into(),
            exe: format!("/bin/{name}"),
            command: format!("{name} -x"),
            cgroup: format!("/c/{name}"),
            ..Identity::default()
        }
    }

    #[test]
    fn filters_hold_together_and_trees_include_descendants() {
        let all = [
            identity(1, 0, 0, "init"),
            identity(5, 1, 3, "pg"),
            identity(6, 5, 3, "pg"),
            identity(7, 6, 4, "sh"),
        ];
        let pick = |select: Select| select.wanted(&all, &select.uids().unwrap());
        assert_eq!(pick(Select::default()), [true; 4]);
        let tree = Select {
            tree: vec![5],
            ..Select::default()
        };
        assert_eq!(pick(tree), [false, true, true, true]);
        let both = Select {
            tree: vec![5],
            user: vec!["3".into()],
            pattern: Some("pg -x".parse().unwrap()),
            ..Select::default()
        };
        assert_eq!(pick(both), [false, true, true, false]);
        let listed = Select {
            pid: vec![1],
            tree: vec![6],
            ..Select::default()
        };
        assert_eq!(pick(listed), [true, false, true, true]);
    }

    #[test]
    fn an_unknown_user_is_named() {
        let select = Select {
            user: vec!["no such".into()],
            ..Select::default()
        };
        assert!(select.uids().unwrap_err().to_string().contains("no such"));
        let select = Select {
            user: vec!["99999999999".into()],
            ..Select::default()
        };
        let error = select.uids().unwrap_err().to_string();
        assert!(error.contains("is not a user's number"), "{error}");
    }
}
