// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's Debian release and its package sources.
//!
//! The lab names no server: backports and the guest's packages come from the servers in this
//! machine's /etc/apt.

use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use deb822_fast::{Deb822, Paragraph};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// 12 or 13.
    pub number: u32,
    /// bookworm or trixie.
    pub codename: String,
}

/// Reads `etc/os-release` below `root`.
pub fn release(root: &Path) -> Result<Release> {
    let text = std::fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| value.trim_matches('"').to_string())
            .unwrap_or_default()
    };
    let (id, number) = (field("ID"), field("VERSION_ID"));
    match (id.as_str(), number.parse()) {
        ("debian", Ok(number @ 12..=13)) => Ok(Release {
            number,
            codename: field("VERSION_CODENAME"),
        }),
        _ => bail!(
            "the lab needs Debian 12 or 13, and this machine runs {}: run the lab in a container \
             or a virtual machine with one of them",
            match field("PRETTY_NAME") {
                name if name.is_empty() => "another system".into(),
                name => name,
            }
        ),
    }
}

/// A package source: one suite on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub uri: String,
    /// For instance bookworm-security.
    pub suite: String,
    /// main, contrib and others.
    pub components: Vec<String>,
    /// The value of Signed-By; may be several lines.
    pub signed_by: Option<String>,
}

/// All sources of binary packages in `etc/apt` below `root`.
pub fn entries(root: &Path) -> Result<Vec<Entry>> {
    let apt = root.join("etc/apt");
    let mut found = Vec::new();
    let main = apt.join("sources.list");
    if main.is_file() {
        found.extend(one_line(&files::read(&main)?));
    }
    let parts = apt.join("sources.list.d");
    for file in files::with_suffix(&parts, ".list")? {
        found.extend(one_line(&files::read(&file)?));
    }
    for file in files::with_suffix(&parts, ".sources")? {
        let entries = deb822(&files::read(&file)?);
        found.extend(entries.with_context(|| format!("{} is not right", file.display()))?);
    }
    Ok(found)
}

fn one_line(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(rest) = line.strip_prefix("deb ") else {
            continue;
        };
        let rest = rest.trim_start();
        let (options, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, rest)) => (options, rest),
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (Some(uri), Some(suite)) = (words.next(), words.next()) else {
            continue;
        };
        found.push(Entry {
            uri: uri.to_string(),
            suite: suite.to_string(),
            components: words.map(String::from).collect(),
            signed_by: options
                .split_whitespace()
                .find_map(|option| option.strip_prefix("signed-by="))
                .map(String::from),
        });
    }
    found
}

fn deb822(text: &str) -> Result<Vec<Entry>> {
    let mut found = Vec::new();
    for stanza in text.parse::<Deb822>()? {
        let words = |name| {
            let value = stanza.get(name).unwrap_or_default();
            value.split_whitespace().map(String::from)
        };
        let off = stanza.get("Enabled").unwrap_or_default();
        if off.eq_ignore_ascii_case("no") || !words("Types").any(|kind| kind == "deb") {
            continue;
        }
        for uri in words("URIs") {
            found.extend(words("Suites").map(|suite| Entry {
                uri: uri.clone(),
                suite,
                components: words("Components").collect(),
                signed_by: stanza.get("Signed-By").map(String::from),
            }));
        }
    }
    Ok(found)
}

/// The text of a sources file for backports, derived from the machine's entry for its release;
/// None if /etc/apt has backports already.
pub fn backports(entries: &[Entry], codename: &str) -> Result<Option<String>> {
    let wanted = format!("{codename}-backports");
    if entries.iter().any(|entry| entry.suite == wanted) {
        return Ok(None);
    }
    let Some(own) = entries.iter().find(|entry| entry.suite == codename) else {
        bail!(
            "cannot derive a package source for {wanted}: /etc/apt has none for {codename}; add \
             {wanted} by hand"
        );
    };
    let mut stanza = Paragraph { fields: Vec::new() };
    let key = own.signed_by.as_deref();
    for (name, value) in [
        ("Types", Some("deb")),
        ("URIs", Some(own.uri.as_str())),
        ("Suites", Some(wanted.as_str())),
        ("Components", Some("main")),
        ("Signed-By", key),
    ] {
        value
            .into_iter()
            .for_each(|value| stanza.insert(name, value));
    }
    Ok(Some(format!(
        "# Written by `cohort lab setup`: a newer QEMU than that of {codename}.\n{stanza}"
    )))
}

/// Package sources for a guest of the suite `guest`: the machine's entries for its own release
/// `host`, its updates and, with `security`, its security updates, with the name replaced.
pub fn guest_sources(entries: &[Entry], host: &str, guest: &str, security: bool) -> Vec<String> {
    let mut wanted = vec![host.to_string(), format!("{host}-updates")];
    if security {
        wanted.push(format!("{host}-security"));
    }
    let mut lines = Vec::new();
    for entry in entries.iter().filter(|entry| wanted.contains(&entry.suite)) {
        let suite = entry.suite.replacen(host, guest, 1);
        let line = format!("deb {} {suite} main", entry.uri);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "Types: deb deb-src\n# a comment\nURIs: http://one.example/debian\n\
        Suites: bookworm bookworm-updates\nComponents: main contrib\n\
        Signed-By: /usr/share/keyrings/debian.gpg\n\n\
        Types: deb\nURIs: http://one.example/security\nSuites: bookworm-security\n\
        Components: main\n\nEnabled: no\nTypes: deb\nURIs: http://off.example\nSuites: off\n";

    fn root() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let etc = dir.path().join("etc");
        files::write(
            &etc.join("apt/sources.list.d/debian.sources"),
            DEB822.as_bytes(),
        )
        .unwrap();
        files::write(
            &etc.join("apt/sources.list"),
            b"# deb http://no.example x main\n\
              deb [arch=amd64 signed-by=/key.gpg] http://two.example/debian trixie main # why\n",
        )
        .unwrap();
        files::write(
            &etc.join("os-release"),
            b"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\n\
              VERSION_CODENAME=bookworm\n",
        )
        .unwrap();
        dir
    }

    #[test]
    fn both_formats_of_sources_are_read() {
        let root = root();
        let found = entries(root.path()).unwrap();
        let suites: Vec<_> = found.iter().map(|entry| entry.suite.as_str()).collect();
        assert_eq!(
            suites,
            [
                "trixie",
                "bookworm",
                "bookworm-updates",
                "bookworm-security"
            ]
        );
        assert_eq!(found[0].signed_by.as_deref(), Some("/key.gpg"));
        assert_eq!(found[1].components, ["main", "contrib"]);
    }

    #[test]
    fn backports_come_from_where_the_release_comes_from() {
        let found = entries(root().path()).unwrap();
        let text = backports(&found, "bookworm").unwrap().unwrap();
        assert!(text.contains("URIs: http://one.example/debian\nSuites: bookworm-backports\n"));
        assert!(text.contains("Signed-By: /usr/share/keyrings/debian.gpg"));
        let mut there = found.clone();
        there.extend(deb822(&text).unwrap());
        assert_eq!(backports(&there, "bookworm").unwrap(), None);
        let error = backports(&found, "sid").unwrap_err().to_string();
        assert!(error.contains("sid-backports"), "{error}");
    }

    #[test]
    fn a_key_of_several_lines_is_kept_whole() {
        let text = "Types: deb\nURIs: u\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN\n .\n line\n";
        let found = deb822(text).unwrap();
        let made = backports(&found, "bookworm").unwrap().unwrap();
        assert!(made.contains("\n -----BEGIN\n .\n line\n"), "{made}");
        assert_eq!(deb822(&made).unwrap()[0].signed_by, found[0].signed_by);
        let error = deb822("Types deb\n").unwrap_err().to_string();
        assert!(error.contains("Types deb"), "{error}");
    }

    #[test]
    fn a_guest_gets_its_own_suite_from_the_same_place() {
        let found = entries(root().path()).unwrap();
        assert_eq!(
            guest_sources(&found, "bookworm", "sid", true),
            [
                "deb http://one.example/debian sid main",
                "deb http://one.example/debian sid-updates main",
                "deb http://one.example/security sid-security main"
            ]
        );
        assert_eq!(
            guest_sources(&found, "bookworm", "bookworm", false).len(),
            2
        );
    }

    #[test]
    fn another_system_is_refused_by_name() {
        let root = root();
        assert_eq!(release(root.path()).unwrap().number, 12);
        files::write(
            &root.path().join("etc/os-release"),
            b"PRETTY_NAME=\"Other 9\"\nID=other\nVERSION_ID=9\n",
        )
        .unwrap();
        let error = release(root.path()).unwrap_err().to_string();
        assert!(
            error.contains("Other 9") && error.contains("Debian 12"),
            "{error}"
        );
    }
}
