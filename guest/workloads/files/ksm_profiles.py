#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which virtual pages of applications merge, and whether the same ones do so again.

    ksm_profiles.py

The applications of ksm_apps.py are each started, used and frozen, and ksmd scans them
whole. Which pages have merged is then recorded: P1. Three times they are thawed, used,
frozen and scanned: P2 to P4. At last all are ended, started anew, used as at first, and
scanned: L. Printed is how alike these sets are, how alike those of different applications
are, what a profile would have left out and let in, and where the merged pages lie.

/proc/kpageflags does not tell merged pages in 6.12: it has KPF_KSM for each anonymous page,
as stable_page_flags() looks whether one of PAGE_MAPPING_KSM's two bits is set, not both. So
that is asked of ksmd's profile, which is emptied before each scan: a page is merged if it has
merged since, or had before and is still in the same frame, and if its frame is mapped
elsewhere too. smaps, which does tell but only how many in a region, is compared with.
"""

import array
import collections
import itertools
import os
import random
import statistics
import tempfile

import ksm_cost
from ksm_cost import KSM, RANKS, Ksm, Zygote, metric, write

PAGE = 4096
PFN = (1 << 55) - 1
# Documentation/admin-guide/mm/pagemap.rst
EXCLUSIVE, OF_FILE, SWAPPED, PRESENT = 1 << 56, 1 << 61, 1 << 62, 1 << 63
KPF_ZERO_PAGE = 1 << 24


def words(path, first, count):
    """64-bit words of one of the tables below /proc."""
    found = array.array("Q")
    with open(path, "rb", buffering=0) as file:
        file.seek(first * 8)
        while count and (data := file.read(min(count * 8, 1 << 20))):
            found.frombytes(data)
            count -= len(data) // 8
    return found


def regions(pid):
    """(start, end, mapped from a file?) of the private regions, in pages."""
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            parts = line.split()
            path = parts[5] if len(parts) > 5 else ""
            if parts[1][3] == "p" and path not in ("[vdso]", "[vvar]", "[vsyscall]"):
                start, end = (int(x, 16) // PAGE for x in parts[0].split("-"))
                yield start, end, path.startswith("/")


def zero_page():
    """The frame of zeros that is mapped where memory has only been read."""
    return next(frame for frame, flags in enumerate(words("/proc/kpageflags", 0, 1 << 40)) if flags & KPF_ZERO_PAGE)


def profiles():
    """{application: the pages of it that have merged since the profile was emptied}"""
    found = collections.defaultdict(set)
    # Made anew for each read, but ksmd has nothing to do.
    with open(f"{KSM}/profile") as file:
        for line in file:
            kind, *rest = line.split()
            if kind == "app":
                start, end = (int(x, 16) // PAGE for x in rest[0].split("-"))
                found[rest[1]].update(range(start, end))
    return found


class Pages:
    """The anonymous pages of a process, and which of them are merged."""

    def __init__(self, pid, merged_since, before, zeros):
        self.mergeable, self.merged = set(), {}
        for start, end, of_file in regions(pid):
            entries = words(f"/proc/{pid}/pagemap", start, end - start)
            for page, entry in enumerate(entries, start):
                if entry & (PRESENT | SWAPPED | OF_FILE) != PRESENT or entry & PFN == zeros:
                    continue
                self.mergeable.add(page)
                frame = entry & PFN
                kept = before and before.merged.get(page, (None,))[0] == frame
                if (kept or page in merged_since) and not entry & EXCLUSIVE:
                    self.merged[page] = frame, of_file
        with open(f"/proc/{pid}/smaps_rollup") as file:
            self.counted = next(int(line.split()[1]) * 1024 // PAGE for line in file if line.startswith("KSM:"))

    @property
    def profile(self):
        return self.merged.keys()


def record(zygote, before=None):
    """{application: its pages}"""
    merged, zeros = profiles(), zero_page()
    pages = {name: Pages(app.pid, merged[name], before and before[name], zeros)
             for name, app in zygote.apps.items()}
    for app in pages.values():
        metric("found", len(app.merged), "pages")
        metric("counted", app.counted, "pages")
    return pages


def jaccard(a, b):
    return round(len(a & b) / len(a | b), 4) if a | b else 1


def launch(zygote):
    for number, name in enumerate(RANKS):
        app = zygote.start(name)
        app.use(number)
        app.freeze(True)


def use(zygote, phase):
    rng = random.Random(phase)
    for app in zygote.apps.values():
        app.freeze(False)
        for _ in range(3):
            app.use(rng.randrange(1000))
        app.freeze(True)


def print_stability(phases, again):
    for (i, a), (j, b) in itertools.pairwise(enumerate(phases, 1)):
        for name in RANKS:
            value = jaccard(a[name].profile, b[name].profile)
            metric(f"jaccard-{name}-{i}-{j}", value, "Jaccard index")
            metric("jaccard", value, "Jaccard index")
    for name in RANKS:
        value = jaccard(phases[0][name].profile, again[name].profile)
        metric(f"launches-{name}", value, "Jaccard index")
        metric("launches", value, "Jaccard index")


def print_similarity(pages):
    for a, b in itertools.combinations(RANKS, 2):
        metric("similarity", jaccard(pages[a].profile, pages[b].profile), "Jaccard index")
    for a in RANKS:
        others = [jaccard(pages[a].profile, pages[b].profile) for b in RANKS if a != b]
        metric(f"similarity-{a}", round(statistics.mean(others), 4), "Jaccard index")


def print_false_positives(learned, pages):
    """How a profile learned before fits what merges now."""
    everything = set().union(*(app.profile for app in learned.values()))
    for name in RANKS:
        mergeable, merged = pages[name].mergeable, pages[name].profile
        for what, count in {
                "mergeable": len(mergeable), "merged": len(merged),
                "in-profile": len(learned[name].profile & mergeable),
                "in-global": len(everything & mergeable),
                "false": len((everything & mergeable) - merged),
                "missed": len(merged - learned[name].profile),
                "missed-global": len(merged - everything)}.items():
            metric(f"{what}-{name}", count, "pages")
            metric(what, count, "pages")
        metric("profile-share", round(100 * len(learned[name].profile & mergeable) / len(mergeable), 2), "%")
        metric("false-share", round(100 * len((everything & mergeable) - merged) / len(mergeable), 2), "%")


def print_places(pages):
    """Table III: regions of files or not, at the same address as another or not."""
    where = {}
    for app in pages.values():
        for page, (frame, _) in app.merged.items():
            at = where.setdefault(frame, {})
            at[page] = at.get(page, 0) + 1
    count = {(of_file, same): 0 for of_file in (False, True) for same in (False, True)}
    for app in pages.values():
        for page, (frame, of_file) in app.merged.items():
            count[of_file, where[frame][page] > 1] += 1
    for (of_file, same), n in count.items():
        metric(f"{'library' if of_file else 'anonymous'}-{'same' if same else 'different'}", n, "pages")


def main():
    ksm = Ksm()
    os.makedirs(ksm_cost.CGROUPS, exist_ok=True)
    ksm.set(ksm_cost.SETTINGS["dormant"])
    ksm.run(True)
    zygote = Zygote(tempfile.mkdtemp())
    zygote.make_dormant()
    launch(zygote)
    ksm.settle()
    phases = [record(zygote)]
    for phase in range(2, 5):
        write(f"{KSM}/profile", "clear")
        use(zygote, phase)
        ksm.settle()
        phases.append(record(zygote, phases[-1]))
    zygote.end_apps()
    write(f"{KSM}/profile", "clear")
    launch(zygote)
    ksm.settle()
    again = record(zygote)

    print_stability(phases, again)
    print_similarity(phases[-1])
    # Learned at the first launch, looked at in the second, as the profiles are used.
    print_false_positives(phases[0], again)
    print_places(phases[-1])
    ksm.run(False)
    zygote.end()


if __name__ == "__main__":
    main()
