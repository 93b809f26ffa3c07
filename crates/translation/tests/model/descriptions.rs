// SPDX-License-Identifier: GPL-2.0-or-later
//! The built-in descriptions, and what is wrong with bad ones.

use crate::os::{COHORT, Os, RO, context};
use translation::description::{Side, Tag, TlbPart};
use translation::{AccessKind, Context, Identity, Machine, Model, Sink, SparseMemory};

fn tlbs(model: &Model) -> Vec<(usize, Side, u32, usize, usize, u64)> {
    let row = |part: &TlbPart| {
        (
            part.level,
            part.side,
            part.pages[0].0,
            part.entries,
            part.ways,
            part.cycles,
        )
    };
    model.tlb.iter().map(row).collect()
}

#[test]
fn every_built_in_description_makes_a_machine() {
    for name in Model::builtin_names() {
        let model = Model::builtin(name).unwrap();
        assert_eq!(model.name, name);
        Machine::new(&model, 8, SparseMemory::new()).unwrap();
        for format in translation::format::Format::builtin_names() {
            let other = model.clone().with_page_tables(format).unwrap();
            Machine::new(&other, 1, SparseMemory::new()).unwrap();
        }
    }
}

#[test]
fn a_guest_of_another_architecture_runs_under_every_machine() {
    // Four pages that two address spaces have at the same addresses, from frames of their own.
    // An x86 guest gives no hardware tags.
    let mut memory = SparseMemory::new();
    let roots = [0x10000u64, 0x20000];
    for (number, root) in roots.into_iter().enumerate() {
        for level in 0..3 {
            memory.write_u64(root + 0x1000 * level, (root + 0x1000 * (level + 1)) | 7);
        }
        for page in 0..4 {
            let frame = 0x100 + 0x10 * number as u64 + page;
            memory.write_u64(root + 0x3000 + 8 * page, frame << 12 | 7);
        }
    }
    for name in Model::builtin_names() {
        let model = Model::builtin(name).unwrap();
        let model = model.with_page_tables("x86-64").unwrap();
        let mut machine = Machine::new(&model, 1, &memory).unwrap();
        for _ in 0..3 {
            for (number, root) in roots.into_iter().enumerate() {
                let context = Context {
                    paging: true,
                    root,
                    ..Context::default()
                };
                machine.set_context(0, context);
                for page in 0..4u64 {
                    let paddr = (0x100 + 0x10 * number as u64 + page) << 12;
                    machine.access(0, AccessKind::Read, page << 12, Some(paddr), 8);
                }
            }
        }
        let counters = machine.counters(0);
        assert_eq!((counters.unexplained, counters.stale), (0, 0), "{name}");
        // Only a machine without tags loses its entries at each of the six switches.
        let walks = if model.tag == Tag::None { 24 } else { 8 };
        assert_eq!(counters.walk.walks, walks, "{name}");
    }
}

#[test]
fn babelfish_isca20_is_table_1() {
    let model = Model::builtin("babelfish-isca20").unwrap();
    let core = &model.core;
    assert_eq!((core.clock_mhz, core.issue_width, core.rob), (2000, 2, 128));
    assert_eq!(
        tlbs(&model),
        [
            (1, Side::Fetch, 12, 64, 4, 1),
            (1, Side::Data, 12, 64, 4, 1),
            (1, Side::Data, 21, 32, 4, 1),
            (1, Side::Data, 30, 4, 0, 1),
            (2, Side::Both, 12, 1536, 12, 10),
            (2, Side::Both, 21, 1536, 12, 10),
            (2, Side::Both, 30, 16, 4, 10),
        ]
    );
    let caches: Vec<_> = model
        .cache
        .parts()
        .map(|(name, part)| (name, part.kb, part.ways, part.cycles, part.mshrs))
        .collect();
    assert_eq!(
        caches,
        [
            ("l1i", 32, 8, 2, 16),
            ("l1d", 32, 8, 2, 16),
            ("l2", 256, 8, 8, 16),
            ("last", 8192, 16, 32, 128),
        ]
    );
    assert_eq!(model.cache.line_bytes, 64);
    let walk = model.walk_cache.as_ref().unwrap();
    assert_eq!((walk.entries, walk.ways, walk.cycles), (16, 4, 1));
    let memory = &model.memory;
    assert_eq!(
        (
            memory.channels,
            memory.ranks,
            memory.banks,
            memory.clock_mhz
        ),
        (2, 8, 8, 1000)
    );
    let fish = model.mechanisms.babelfish.as_ref().unwrap();
    assert_eq!(
        (fish.transform_cycles, fish.long_cycles, fish.pc_bits),
        (2, 12, 32)
    );
    assert_eq!(
        fish.aslr,
        translation::mechanism::babelfish::Aslr::Hw,
        "modeled by default"
    );
}

/// "PCID; CCID: 12 bits; 12 bits": the model's for whatever description.
#[test]
fn pcids_and_ccids_have_12_bits() {
    const VADDR: u64 = 0x40_0000_0000;
    let mut os = Os::new();
    let roots: Vec<u64> = (0..4).map(|_| os.table()).collect();
    for pair in [0, 2] {
        os.map(roots[pair], VADDR, 0x7000_0000, RO);
        os.share(roots[pair], roots[pair + 1], VADDR, COHORT);
    }
    let fish = Model::builtin("babelfish-isca20").unwrap();
    let mut machine = Machine::new(&fish, 1, os.memory.clone()).unwrap();
    let walks = |machine: &mut Machine<SparseMemory>, root: u64| {
        machine.set_context(0, context(root));
        let before = machine.counters(0).walk.walks;
        machine.attempt(0, AccessKind::Read, VADDR).unwrap();
        machine.counters(0).walk.walks - before
    };
    // The last CCID is shared like any other; a cohort after it has none.
    for cohort in 1..=4096 {
        let process = cohort;
        let two = match cohort {
            4095 => [roots[0], roots[1]],
            4096 => [roots[2], roots[3]],
            _ => [0x1000; 2],
        };
        for root in two {
            machine.set_identity(root, Identity { process, cohort });
        }
    }
    assert_eq!([0, 1].map(|n| walks(&mut machine, roots[n])), [1, 0]);
    assert_eq!([2, 3].map(|n| walks(&mut machine, roots[n])), [1, 1]);
    // 4096 numbers, one of them root 0's, which is given again first.
    let baseline = Model::builtin("baseline").unwrap();
    let mut machine = Machine::new(&baseline, 1, os.memory.clone()).unwrap();
    assert_eq!(walks(&mut machine, roots[0]), 1);
    for other in 0..4094 {
        machine.set_context(0, context(0x1_0000_0000 + other * 0x1000));
    }
    assert_eq!(walks(&mut machine, roots[0]), 0);
    // The number of the space that runs is not given away.
    for other in [0, 4094, 4095] {
        machine.set_context(0, context(0x1_0000_0000 + other * 0x1000));
    }
    assert_eq!(walks(&mut machine, roots[0]), 1);
}

#[test]
fn the_variants_differ_only_where_they_say() {
    let fish = Model::builtin("babelfish-isca20").unwrap();
    let baseline = Model::builtin("baseline").unwrap();
    assert!(baseline.mechanisms.babelfish.is_none());
    assert_eq!((&baseline.tlb, &baseline.cache), (&fish.tlb, &fish.cache));
    let larger = Model::builtin("larger-tlb").unwrap();
    assert_eq!(tlbs(&larger)[..4], tlbs(&baseline)[..4]);
    // Half as many bits again: 46 to 93, in the same sets.
    for (more, less) in tlbs(&larger)[4..].iter().zip(&tlbs(&baseline)[4..]) {
        assert_eq!((more.3 * 2, more.4 * 2), (less.3 * 3, less.4 * 3));
    }
}

#[test]
fn the_kernels_word_is_taken_by_a_model_that_says_what_it_needs() {
    use translation::mechanism::babelfish::Source;
    let inferred = Model::builtin("babelfish-isca20").unwrap();
    let kernel = Model::builtin("babelfish-kernel").unwrap();
    assert_eq!(
        (&kernel.tlb, &kernel.cache),
        (&inferred.tlb, &inferred.cache)
    );
    let [inferred, kernel] = [inferred, kernel].map(|model| model.mechanisms.babelfish.unwrap());
    assert_eq!(inferred.source, Source::Inferred);
    assert_eq!(kernel.source, Source::Kernel);
    assert_eq!(kernel.long_cycles, inferred.long_cycles);
    for (base, change, says) in [
        (
            "babelfish-isca20",
            "source = \"kernel\"",
            "babelfish.or_pc must name",
        ),
        (
            "babelfish-kernel",
            "pc_bits = 16",
            "babelfish.pc_bits must be 32",
        ),
        (
            "babelfish-kernel",
            "source = \"guessed\"",
            "babelfish.source",
        ),
        ("babelfish-kernel", "owned = [\"64=0\"]", "babelfish.owned"),
    ] {
        let text = format!(
            "name = \"a\"\nabout = \"\"\nbase = \"{base}\"\nsources = \"a test\"\n\
             [babelfish]\n{change}\n"
        );
        let error = Model::parse("a", &text).unwrap_err().to_string();
        assert!(error.contains(says), "{change}: {error}");
    }
}

#[test]
fn the_older_platforms_are_their_papers() {
    let a9 = Model::builtin("cortex-a9").unwrap();
    assert_eq!(a9.core.clock_mhz, 1200);
    assert!(
        a9.tlb
            .iter()
            .all(|part| part.flushed_on_switch == (part.level == 1))
    );
    assert_eq!(tlbs(&a9)[2].3, 128);
    let caches = &a9.cache;
    assert_eq!(
        (
            caches.l1i.kb,
            caches.l1d.kb,
            caches.last.as_ref().unwrap().kb
        ),
        (32, 32, 1024)
    );
    let p4 = Model::builtin("pentium4").unwrap();
    assert_eq!(
        tlbs(&p4),
        [
            (1, Side::Fetch, 12, 128, 4, 1),
            (1, Side::Data, 12, 64, 0, 1)
        ]
    );
    assert_eq!((p4.cache.l1d.kb, p4.cache.l1d.ways), (8, 4));
    assert_eq!(
        (
            p4.cache.l2.as_ref().unwrap().kb,
            p4.cache.l2.as_ref().unwrap().ways
        ),
        (256, 8)
    );
}

#[test]
fn the_example_in_the_documentation_works_as_it_stands() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/model.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let (_, section) = docs.split_once("\n## Add a TLB design\n").unwrap();
    let indented = |line: &&str| line.is_empty() || line.starts_with("    ");
    let lines = section.lines().skip_while(|line| !line.starts_with("    "));
    let example: Vec<&str> = lines.take_while(indented).collect();
    let half = Model::parse("half-l2", &example.join("\n")).unwrap();
    let baseline = Model::builtin("baseline").unwrap();
    assert_eq!(half.name, "half-l2");
    // What it says of itself: half the second level, the rest as it was.
    assert_eq!(tlbs(&half)[..4], tlbs(&baseline)[..4]);
    for (less, more) in tlbs(&half)[4..].iter().zip(&tlbs(&baseline)[4..]) {
        assert_eq!((less.3 * 2, less.4), (more.3, more.4));
    }
    assert_eq!((half.tlb.len(), &half.cache), (7, &baseline.cache));
}

#[test]
fn a_bad_description_is_refused_with_its_reason() {
    let good = Model::builtin_text("babelfish-isca20").unwrap();
    for (from, to, says) in [
        ("rob = 128", "rob = 128\nrobb = 1", "robb"),
        ("rob = 128", "", "rob"),
        (
            "entries = 1536",
            "entries = 1500",
            "tlb[4].ways: 1500 entries in 12 ways do not make a power",
        ),
        ("ways = 12", "ways = 0", "tlb[4].ways: ways must be"),
        ("ways = 12", "ways = \"all\"", "ways must be"),
        ("\"4K\"", "\"5K\"", "not a page size"),
        ("level = 2", "level = 0", "tlb[4].level: 0 is not a level"),
        (
            "level = 2",
            "level = 900000000000",
            "tlb: level 2 has no array",
        ),
        (
            "pages = [\"2M\"]",
            "pages = [\"4K\"]",
            "tlb[2].pages: 4K pages are in tlb[1]",
        ),
        ("pages = [\"4K\"]", "pages = [\"2M\"]", "smallest page size"),
        (
            "cycles = 10",
            "cycles = 11",
            "tlb[5].cycles: 10, but the arrays of a side and level have the same time, and tlb[4]",
        ),
        ("pc_bits = 32", "pc_bits = 33", "pc_bits"),
        (
            "owned = [\"9=0\"]",
            "owned = [\"nine\"]",
            "not a test of bits",
        ),
        ("owned = [\"9=0\"]", "owned = []", "owned"),
        ("channels = 2", "channels = 3", "power of two"),
        ("line_bytes = 64", "line_bytes = 60", "power of two"),
        ("issue_width = 2", "issue_width = 0", "issue_width"),
        (
            "page_tables = \"x86-64\"",
            "page_tables = \"vax\"",
            "armv8-4k",
        ),
        (
            "tag = \"address-space\"",
            "tag = \"hardware\"",
            "address-space",
        ),
        ("name = \"babelfish-isca20\"", "", "name"),
        ("[core]", "[core", "core"),
        (
            "clock_mhz = 2000",
            "clock_mhz = 9223372036854775807",
            "core.clock_mhz must be at most 100000",
        ),
        (
            "clock_mhz = 2000",
            "clock_mhz = 0",
            "core.clock_mhz must be above 0",
        ),
        (
            "clock_mhz = 1000",
            "clock_mhz = 100001",
            "memory.clock_mhz must be at most 100000",
        ),
        ("rob = 128", "rob = 4097", "core.rob at most 4096"),
        (
            "entries = 1536",
            "entries = 4611686018427387904",
            "tlb[4].entries: 4611686018427387904 is more than 16384",
        ),
        (
            "tag = \"physical\"\nentries = 16",
            "tag = \"physical\"\nentries = 1152921504606846976",
            "walk_cache.entries: 1152921504606846976 is more than 16384",
        ),
        (
            "tag = \"physical\"\nentries = 16",
            "tag = \"physical\"\nentries = 0",
            "walk_cache.ways: 0 entries",
        ),
        (
            "l1d = { kb = 32, ways = 8",
            "l1d = { kb = 32, ways = 0",
            "cache.l1d.ways must be above 0",
        ),
        (
            "l1d = { kb = 32, ways = 8",
            "l1d = { kb = 32, ways = 1024",
            "cache.l1d.ways must be at most 512",
        ),
        (
            "l1d = { kb = 32",
            "l1d = { kb = 0",
            "cache.l1d.kb must be above 0",
        ),
        (
            "l2 = { kb = 256",
            "l2 = { kb = 32768",
            "cache.l2.kb must be at most 16384",
        ),
        (
            "last = { kb = 8192",
            "last = { kb = 1099511627776",
            "cache.last.kb must be at most 1048576",
        ),
        (
            "last = { kb = 8192",
            "last = { kb = 9223372036854775807",
            "cache.last.kb must be at most 1048576",
        ),
        (
            "mshrs = 128",
            "mshrs = 9223372036854775807",
            "cache.last.mshrs must be at most 4096",
        ),
        ("mshrs = 16", "mshrs = 0", "mshrs must be above 0"),
        ("line_bytes = 64", "line_bytes = 0", "power of two"),
        ("line_bytes = 64", "line_bytes = 512", "from 16 to 256"),
        ("channels = 2", "channels = 0", "power of two"),
        ("channels = 2", "channels = 2048", "power of two up to 1024"),
        ("channels = 2", "channels = 1024", "at most 16384 banks"),
        ("issue_width = 2", "issue_width = 17", "issue_width"),
        ("walkers = 1", "walkers = 0", "core.walkers must be 1 to 64"),
        (
            "walkers = 1",
            "walkers = 65",
            "core.walkers must be 1 to 64",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let error = Model::parse("bad", &text).expect_err(to).to_string();
        assert!(error.contains(says), "{from} -> {to}: {error}");
    }
}

#[test]
fn no_time_is_above_100000_clocks() {
    for (base, table, field) in [
        ("babelfish-isca20", "walk_cache", "cycles"),
        ("babelfish-isca20", "babelfish", "transform_cycles"),
        ("babelfish-isca20", "babelfish", "long_cycles"),
        ("cortex-a9", "domains", "handler_cycles"),
        ("zen4", "cache", "snoop_cycles"),
        ("zen4", "cache.l2", "cycles"),
        ("zen4", "memory", "burst"),
    ] {
        let with = |time: u64| {
            let text = format!(
                "name = \"slow\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"{base}\"\n[{table}]\n{field} = {time}\n"
            );
            Model::parse("slow", &text)
        };
        with(100_000).unwrap();
        let error = with(100_001).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{table}.{field} must be at most 100000")),
            "{error}"
        );
    }
    let good = Model::builtin_text("babelfish-isca20").unwrap();
    for (from, says) in [("cycles = 1\n", "tlb[0].cycles"), ("cycles = 10", "cycles")] {
        let text = good.replace(from, "cycles = 9223372036854775807\n");
        let error = Model::parse("slow", &text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_largest_machine_that_a_description_may_ask_for_is_made() {
    let text = "name = \"large\"\nabout = \"\"\nsources = \"assumed: a test\"\nbase = \"babelfish-isca20\"\n\
                [core]\nclock_mhz = 100000\nissue_width = 16\n\
                [walk_cache]\nentries = 16384\nways = \"full\"\ncycles = 100000\n\
                [cache]\nlast = { kb = 65536, ways = 16, cycles = 100000, mshrs = 4096 }\n\
                [memory]\nclock_mhz = 1\nchannels = 64\ncas = 100000\nrcd = 100000\nrp = 100000\n";
    let model = Model::parse("large", text).unwrap();
    let mut machine = Machine::new(&model, 1, SparseMemory::new()).unwrap();
    for line in 0..64 {
        machine.access(0, AccessKind::Read, line << 14, Some(line << 14), 8);
    }
    machine.instructions(0, 1_000);
    assert!(machine.counters(0).dcache_stall > 0);
}

#[test]
fn bases_are_found_and_circles_are_not_followed() {
    let child =
        |extra: &str| format!("name = \"c\"\nabout = \"\"\nsources = \"assumed: a test\"\n{extra}");
    let based = child("base = \"baseline\"\n[core]\nrob = 64\n");
    let model = Model::parse("c", &based).unwrap();
    assert_eq!((model.core.rob, model.core.clock_mhz), (64, 2000));
    let unknown = Model::parse("c", &child("base = \"nothing\"\n"))
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("nothing") && unknown.contains("zen4"),
        "{unknown}"
    );
    let without = child("base = \"baseline\"\nwithout = [\"babelfish\"]\n");
    assert!(
        Model::parse("c", &without)
            .unwrap_err()
            .to_string()
            .contains("no \"babelfish\"")
    );
    let folder = std::env::temp_dir().join(format!("translation-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("circle.toml");
    std::fs::write(&file, child("base = \"circle.toml\"\n")).unwrap();
    let circle = Model::read(&file).unwrap_err().to_string();
    std::fs::write(&file, based).unwrap();
    let read = Model::load(file.to_str().unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(circle.contains("circle"), "{circle}");
    assert_eq!(read.unwrap().core.rob, 64);
    let missing = Model::load("./no/such.toml").unwrap_err().to_string();
    assert!(missing.contains("./no/such.toml"), "{missing}");
}

#[test]
fn a_machine_has_1_to_64_cores() {
    let model = Model::builtin("baseline").unwrap();
    for cores in [0, 65] {
        let error = Machine::new(&model, cores, SparseMemory::new()).unwrap_err();
        assert!(error.to_string().contains(&format!("{cores} cores")));
    }
}

/// What `Model::parse` makes of a change of the baseline.
fn changed(text: &str) -> Result<Model, String> {
    let head = "name = \"c\"\nabout = \"\"\nbase = \"baseline\"\n";
    Model::parse("c", &format!("{head}{text}")).map_err(|error| error.to_string())
}

#[test]
fn every_constant_of_every_built_in_machine_has_a_source() {
    for name in Model::builtin_names() {
        let model = Model::builtin(name).unwrap();
        assert!(model.constants.len() > 40, "{name}");
        let mut names: Vec<_> = model.constants.iter().map(|c| c.name.as_str()).collect();
        for constant in &model.constants {
            let source = &constant.source;
            assert!(
                source.assumed || !source.text.is_empty(),
                "{name}: {constant:?}"
            );
            // A range holds the value that is assumed.
            if let [least, most] = source.range.as_slice() {
                if let (Ok(least), Ok(most)) = (least.parse::<i64>(), most.parse::<i64>()) {
                    let value: i64 = constant.value.parse().unwrap();
                    assert!((least..=most).contains(&value), "{name}: {constant:?}");
                    continue;
                }
            }
            let range = &source.range;
            assert!(
                range.is_empty() || range.contains(&constant.value),
                "{name}: {constant:?}"
            );
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), model.constants.len(), "{name}");
    }
}

#[test]
fn a_description_gives_the_source_of_what_it_says_itself() {
    // What comes from the base keeps its source, what is changed needs one.
    let error = changed("[core]\nrob = 64\n").unwrap_err();
    assert!(error.contains("core.rob has no source"), "{error}");
    let model = changed("sources = \"a test\"\n[core]\nrob = 64\n").unwrap();
    let of = |name: &str| {
        let mut all = model.constants.iter();
        all.find(|constant| constant.name == name)
            .unwrap()
            .source
            .clone()
    };
    assert_eq!(of("core.rob").text, "a test");
    assert!(of("core.issue_width").text.contains("Table I"));
    // An array takes the place of the base's, and so do its sources.
    let tlb = "tlb = [\
        { level = 1, side = \"fetch\", pages = [\"4K\"], entries = 64, ways = 4, cycles = 1 },\
        { level = 1, side = \"data\", pages = [\"4K\"], entries = 64, ways = 4, cycles = 1 },\
        ]\n";
    let error = changed(tlb).unwrap_err();
    assert!(error.contains("tlb[0].cycles has no source"), "{error}");
    let model = changed(&format!("{tlb}[sources]\ntlb = \"a test\"\n")).unwrap();
    assert!(
        model
            .constants
            .iter()
            .all(|constant| !constant.name.starts_with("tlb[2]"))
    );
    let error = changed("[sources]\n\"core.rob\" = \"a test\"\n").unwrap_err();
    assert!(error.contains("core.rob"), "{error}");
}

#[test]
fn an_l1d_alone_writes_through_and_needs_a_cache_behind_it() {
    let through = |place: &str| {
        changed(&format!(
            "sources = \"a test\"\n[cache.{place}]\nwrites = \"through\"\n"
        ))
    };
    through("l1d").unwrap();
    for place in ["l1i", "l2", "last"] {
        let error = through(place).unwrap_err();
        assert!(error.contains(&format!("cache.{place}.writes")), "{error}");
    }
}

#[test]
fn page_tables_are_read_from_a_file_beside_the_description() {
    let folder = std::env::temp_dir().join(format!("translation-format-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let x86 = include_str!("../../formats/x86-64.toml").replace("\"x86-64\"", "\"mine\"");
    std::fs::write(folder.join("mine.toml"), &x86).unwrap();
    let text = "name = \"m\"\nabout = \"\"\nbase = \"baseline\"\npage_tables = \"mine.toml\"\n\
                sources = \"a test\"\n";
    let file = folder.join("m.toml");
    std::fs::write(&file, text).unwrap();
    let model = Model::read(&file).unwrap();
    assert_eq!(
        (model.format().name.as_str(), model.format().levels()),
        ("mine", 5)
    );
    std::fs::write(
        folder.join("mine.toml"),
        x86.replace("root_address = \"51:12\"", "root_address = \"51-12\""),
    )
    .unwrap();
    let error = Model::read(&file).unwrap_err().to_string();
    assert!(
        error.contains("mine.toml") && error.contains("root_address"),
        "{error}"
    );
    std::fs::remove_file(folder.join("mine.toml")).unwrap();
    let error = Model::read(&file).unwrap_err().to_string();
    assert!(error.contains("mine.toml"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
