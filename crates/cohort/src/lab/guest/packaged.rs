// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel's Debian package, unpacked: its image, its configuration, and the modules that a guest
//! needs.

use crate::lab::guest::programs::Program;
use crate::lab::host::files;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Drivers that the job needs and that may be modules.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "crc32c_generic",
    "ext4",
    "lzo_rle",
    "zram",
];
/// The one file whose name begins so.
pub fn only(files: &[PathBuf], begin: &str) -> Result<PathBuf> {
    let begins = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begin)
    };
    match files.iter().filter(begins).collect::<Vec<_>>()[..] {
        [path] => Ok(path.clone()),
        _ => bail!("there is not one {begin}… among the package's files"),
    }
}

/// The modules of an unpacked kernel that the job needs, and the list of them for init, written to
/// `dir`.
pub fn modules(tree: &Path, dir: &Path) -> Result<Vec<Program>> {
    // Debian 13 has them below /usr. A kernel may have none.
    let root = ["lib/modules", "usr/lib/modules"]
        .iter()
        .map(|dir| tree.join(dir))
        .find(|dir| dir.is_dir());
    let Some(root) = root else {
        return Ok(Vec::new());
    };
    let (mut files_of, mut builtin) = (BTreeMap::new(), BTreeSet::new());
    for path in files::walk(&root)? {
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if let Some((name, _)) = file.split_once(".ko") {
            files_of.insert(name.replace('-', "_"), path);
        } else if file == "modules.builtin" {
            let text = files::read(&path)?;
            builtin.extend(text.lines().map(module_of));
        }
    }
    files::remove(dir)?;
    let mut order = Vec::new();
    let mut todo: Vec<(String, bool)> = Vec::new();
    for name in MODULES.iter().rev() {
        // What is in neither, another kernel needs.
        if files_of.contains_key(*name) {
            todo.push((name.to_string(), false));
        }
    }
    while let Some((name, ready)) = todo.pop() {
        if order.contains(&name) || builtin.contains(&name) {
            continue;
        }
        let target = dir.join(format!("{name}.ko"));
        if ready {
            order.push(name);
            continue;
        }
        let path = files_of
            .get(&name)
            .with_context(|| format!("the kernel's package has no module {name}"))?;
        let bytes = match path.extension().and_then(|end| end.to_str()) {
            Some("xz") => unpack("xz", path)?,
            Some("zst") => unpack("zstd", path)?,
            _ => std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?,
        };
        files::write(&target, &bytes)?;
        todo.push((name, true));
        todo.extend(depends(&bytes).into_iter().map(|name| (name, false)));
    }
    let list: String = order
        .iter()
        .map(|name| format!("/lab/modules.d/{name}.ko\n"))
        .collect();
    files::write(&dir.join("list"), list.as_bytes())?;
    let mut programs = vec![Program {
        guest_path: "/lab/modules".into(),
        file: dir.join("list"),
        mode: 0o644,
    }];
    programs.extend(order.iter().map(|name| Program {
        guest_path: format!("/lab/modules.d/{name}.ko"),
        file: dir.join(format!("{name}.ko")),
        mode: 0o644,
    }));
    Ok(programs)
}

fn unpack(program: &str, path: &Path) -> Result<Vec<u8>> {
    let done = Command::new(program)
        .args(["--decompress", "--stdout"])
        .arg(path)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !done.status.success() {
        bail!("{program} cannot unpack {}", path.display());
    }
    Ok(done.stdout)
}

/// A module's name, of its file's path.
fn module_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// The modules that a module says it needs: `depends=a,b` in its section .modinfo.
fn depends(module: &[u8]) -> Vec<String> {
    module
        .split(|&byte| byte == 0)
        .filter_map(|field| std::str::from_utf8(field).ok()?.strip_prefix("depends="))
        .flat_map(|names| names.split(','))
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_behind_those_that_it_needs() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        let write = |name: &str, needs: &str| {
            let path = tree.join(format!("lib/modules/1/kernel/{name}.ko"));
            let bytes = format!("ELF\0license=GPL\0depends={needs}\0name={name}\0");
            files::write(&path, bytes.as_bytes()).unwrap();
        };
        write("ext4", "mbcache,crc-x");
        write("mbcache", "");
        write("crc-x", "mbcache,in-core");
        write("zram", "mbcache");
        write("unused", "");
        let builtin = tree.join("lib/modules/1/modules.builtin");
        files::write(&builtin, b"kernel/lib/in-core.ko\n").unwrap();
        let programs = modules(&tree, &dir.path().join("modules")).unwrap();
        let list = files::read(&programs[0].file).unwrap();
        let names: Vec<_> = list.lines().map(module_of).collect();
        assert_eq!(names, ["mbcache", "crc_x", "ext4", "zram"]);
        assert_eq!(programs.len(), 5);
    }
}
