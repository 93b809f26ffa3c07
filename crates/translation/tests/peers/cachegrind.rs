// SPDX-License-Identifier: GPL-2.0-or-later
//! Valgrind's cachegrind: a program runs under it, and the model sees the addresses that lackey,
//! another of Valgrind's tools, prints of the same program. Skipped, with a message, where there is
//! no Valgrind or C compiler; `cohort lab setup` installs both.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use translation::{AccessKind, Machine, Model, Sink, SparseMemory};

/// Loads and stores all over 1 MB, and code of a few lines. No access crosses a line, since
/// cachegrind counts one that does as one.
const PROGRAM: &str = r#"
static volatile unsigned long heap[1 << 17];

void _start(void)
{
    unsigned long state = 20251125, sum = 0;

    for (int i = 0; i < 40000; i++) {
        unsigned long at, to;

        state = state * 6364136223846793005ul + 1442695040888963407ul;
        at = state >> 47;
        to = at * at >> (i & 3) & 0x1ffff;
        sum += heap[at & (i & 1 ? 0x1ffff : 0x1ff)];
        if (i % 3 == 0)
            heap[to] = sum;
    }
    __asm__ volatile("syscall" : : "a"(60), "D"(0));
    __builtin_unreachable();
}
"#;

/// The geometry, as cachegrind's options have it: bytes, ways, bytes of a line.
const L1: (usize, usize) = (8192, 2);
const LAST: (usize, usize) = (65_536, 4);

fn run(command: &mut Command) -> Option<Output> {
    let output = command.output().ok()?;
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output)
}

fn built(folder: &Path) -> Option<PathBuf> {
    let source = folder.join("program.c");
    let program = folder.join("program");
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args([
        "-O1",
        "-static",
        "-nostdlib",
        "-ffreestanding",
        "-fno-pie",
        "-no-pie",
    ]);
    compiler.args(["-fno-stack-protector", "-fcf-protection=none", "-o"]);
    run(compiler.arg(&program).arg(&source))?;
    Some(program)
}

fn valgrind(folder: &Path, options: &[String], program: &Path) -> Option<Output> {
    // The program's stack begins below its environment, which must be the same in both runs.
    let mut command = Command::new("valgrind");
    command.env_clear().env("PATH", "/usr/bin:/bin");
    run(command.current_dir(folder).args(options).arg(program))
}

/// Cachegrind's sums: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw.
fn counted_by_cachegrind(folder: &Path, program: &Path) -> Option<Vec<u64>> {
    let out = folder.join("cachegrind.out");
    let cache = |name: &str, (bytes, ways): (usize, usize)| format!("--{name}={bytes},{ways},64");
    let options = [
        "--tool=cachegrind".to_owned(),
        "--cache-sim=yes".to_owned(),
        cache("I1", L1),
        cache("D1", L1),
        cache("LL", LAST),
        format!("--cachegrind-out-file={}", out.display()),
    ];
    valgrind(folder, &options, program)?;
    let text = std::fs::read_to_string(out).unwrap();
    let events = text
        .lines()
        .find(|line| line.starts_with("events:"))
        .unwrap();
    assert_eq!(
        events.trim_end(),
        "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw"
    );
    let summary = text.lines().find_map(|line| line.strip_prefix("summary:"));
    let numbers = summary.unwrap().split_whitespace();
    Some(numbers.map(|number| number.parse().unwrap()).collect())
}

/// The same sums, of the model.
fn counted_by_the_model(folder: &Path, program: &Path) -> Option<Vec<u64>> {
    let options = ["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"].map(str::to_owned);
    let output = valgrind(folder, &options, program)?;
    let (kb, ways) = (L1.0 / 1024, L1.1);
    let l1 = format!("{{ kb = {kb}, ways = {ways}, cycles = 2, mshrs = 16 }}");
    let (kb, ways) = (LAST.0 / 1024, LAST.1);
    let l2 = format!("{{ kb = {kb}, ways = {ways}, cycles = 8, mshrs = 16 }}");
    let text = format!(
        "name = \"peer\"\nabout = \"\"\nbase = \"baseline\"\nsources = \"a test\"\n\
         [cache]\nl1i = {l1}\nl1d = {l1}\nl2 = {l2}\nlast = {{ kb = 65536 }}\n"
    );
    let model = Model::parse("peer", &text).unwrap();
    let mut machine = Machine::new(&model, 1, SparseMemory::new()).unwrap();
    let mut sums = vec![0u64; 9];
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let mut words = line.split_whitespace();
        let (Some(what), Some(place)) = (words.next(), words.next()) else {
            continue;
        };
        // A modification counts as a load, as it does there.
        let (kind, first) = match what {
            "I" => (AccessKind::Fetch, 0),
            "L" | "M" => (AccessKind::Read, 3),
            "S" => (AccessKind::Write, 6),
            _ => continue,
        };
        let Some((address, size)) = place.split_once(',') else {
            continue;
        };
        let address = u64::from_str_radix(address, 16).unwrap();
        let size: u32 = size.parse().unwrap();
        let misses = |machine: &Machine<SparseMemory>| {
            let caches = machine.counters(0).cache;
            (caches[0].misses + caches[1].misses, caches[2].misses)
        };
        let before = misses(&machine);
        machine.access(0, kind, address, Some(address), size);
        let after = misses(&machine);
        sums[first] += 1;
        // However many lines an access has, it counts once.
        sums[first + 1] += u64::from(after.0 > before.0);
        sums[first + 2] += u64::from(after.1 > before.1);
    }
    Some(sums)
}

#[test]
fn caches_count_what_cachegrind_counts() {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the program is of x86-64");
        return;
    }
    let folder = std::env::temp_dir().join(format!("translation-peer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let counted = built(&folder).and_then(|program| {
        let theirs = counted_by_cachegrind(&folder, &program)?;
        Some((theirs, counted_by_the_model(&folder, &program)?))
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let Some((theirs, ours)) = counted else {
        eprintln!("skipped: needs valgrind and a C compiler; `cohort lab setup` installs them");
        return;
    };
    assert_eq!(ours, theirs, "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw");
    // It says something only where both hits and misses are many.
    let (loads, load_misses, last_misses) = (theirs[3], theirs[4], theirs[5]);
    assert!(
        loads > 30_000 && load_misses > 3_000 && last_misses > 1_000,
        "{theirs:?}"
    );
}
