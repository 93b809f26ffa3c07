#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What merging does to the starts of applications while memory is short.

    ksm_launch.py none|stock|smart|hash|dormant|application|global [--zygote] [--nice N]
                  [--launches N] [--dwell S] [--share PERCENT]

Twenty applications of ksm_apps.py, forked from one zygote under `cohort run --merge`. A
user, the same one each time, goes from one to the next. Whoever was left is kept frozen, and is
thawed when it is wanted again. There is memory for PERCENT of what all twenty take without
KSM: when more is used, the one that was left longest ago is killed, until it is not. Whoever
has been killed is forked and loaded anew.

A launch lasts from the request until the application has done a first piece of work. Its
instructions are all that the one processor did in that time, ksmd's too, as with the lab's
`icount` one nanosecond is one instruction. Kills are in none of them: room is made when
a launch is done.
"""

import argparse
import glob
import os
import random
import signal
import subprocess
import tempfile
import time

import ksm_apps
import ksm_cost
from ksm_cost import KSM, LEARNS, SETTINGS, Hashed, Ksm, Zygote, metric, numbers, work, write

# The sixteen of ksm_cost.py and four more; the share of uses falls with the rank (Zipf).
RANKS = ["chat", *ksm_cost.RANKS[:6], "dictionary", *ksm_cost.RANKS[6:11], "spreadsheet",
         *ksm_cost.RANKS[11:], "archive"]
assert sorted(RANKS) == sorted(ksm_apps.APPS)


def used():
    """The machine's pages that a kill may give back: tables, stacks and KSM's own count too."""
    # Counters of the processors are added up first.
    write("/proc/sys/vm/stat_refresh", 1)
    stat = numbers("/proc/vmstat")
    return (stat["nr_anon_pages"] + stat["nr_page_table_pages"] + stat["nr_slab_unreclaimable"]
            + stat["nr_kernel_stack"] // 4)


def sequence(launches):
    """What the user wants next; never what is in the foreground."""
    rng = random.Random(200)
    weights = [1 / (rank + 1) for rank in range(len(RANKS))]
    steps = []
    while len(steps) < launches:
        name = rng.choices(RANKS, weights)[0]
        if steps[-1:] != [name]:
            steps.append(name)
    return steps


class Phone:
    """The applications in memory, and who of them goes when it is short."""

    def __init__(self, zygote, limit):
        self.zygote, self.limit = zygote, limit
        # Of those that are kept, in the order in which they were left.
        self.kept, self.kills = [], 0
        self.shown = self.left = None

    def launch(self, name, n):
        """Returns whether it was kept."""
        kept = name in self.kept
        if kept:
            self.kept.remove(name)
            app = self.zygote.apps[name]
            # The answer says that it is thawed.
            write(f"{app.cgroup}/cgroup.freeze", 0)
        else:
            app = self.zygote.start(name)
        app.use(n)
        self.left, self.shown = self.shown, name
        return kept

    def leave(self):
        """The one that was in the foreground before is not seen any more."""
        if self.left:
            self.zygote.apps[self.left].freeze(True)
            self.kept.append(self.left)
            self.left = None

    def make_room(self):
        while self.kept and used() > self.limit:
            app = self.zygote.apps.pop(self.kept.pop(0))
            os.kill(app.pid, signal.SIGKILL)
            ksm_cost.wait_for("a kill", lambda: not os.path.exists(f"/proc/{app.pid}"))
            # Or its next process would freeze as it comes.
            write(f"{app.cgroup}/cgroup.freeze", 0)
            app.lines.close()
            app.connection.close()
            self.kills += 1


def rehearse(zygote, ksm, variant):
    """Each application once: files are read, and profiles learned where there are any.

    Returns what was used with all of them in memory, before anything was merged.
    """
    # Without this, a launch that opens one of them for the first time waits for the disk.
    for path in glob.glob(f"{ksm_apps.STDLIB}/*.py") + glob.glob(f"{ksm_apps.LICENCES}/*"):
        ksm_apps.text_of(path)
    for number, name in enumerate(RANKS):
        app = zygote.start(name)
        app.use(1000 + number)
        app.freeze(True)
    everybody = used()
    if variant in LEARNS:
        ksm_cost.learn(ksm, variant)
    zygote.end_apps()
    return everybody


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", choices=SETTINGS)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--dwell", type=float, default=2)
    parser.add_argument("--share", type=int, default=50, help="how many per cent of all there is room for")
    parser.add_argument("--nice", type=int, help="ksmd's priority")
    parser.add_argument("--zygote", action="store_true", help="the zygote is dormant too")
    options = parser.parse_args()
    variant = options.variant

    ksm = Ksm()
    os.makedirs(ksm_cost.CGROUPS, exist_ok=True)
    # favordynmods: without it, entering a cgroup waits for RCU and adds two ticks to a launch.
    subprocess.run(["mount", "-o", "remount,favordynmods", "/sys/fs/cgroup"], check=True)
    zygote = Zygote(tempfile.mkdtemp(), always_dormant=variant == "hash")
    alone = used()
    if options.zygote:
        zygote.make_dormant()
    limit = alone + (rehearse(zygote, ksm, variant) - alone) * options.share // 100
    metric("alone", alone, "pages")
    metric("limit", limit, "pages")

    if variant != "none":
        ksm.set(SETTINGS[variant])
        if options.nice is not None:
            write(f"{KSM}/ksmd_nice", options.nice)
        ksm.run(True)
    hashed = Hashed() if variant == "hash" else None
    if hashed:
        hashed.start()
    time.sleep(1)

    phone = Phone(zygote, limit)
    start = time.monotonic_ns(), ksm.instructions(), work()
    breaks = numbers("/proc/vmstat").get("cow_ksm", 0)
    for number, name in enumerate(sequence(options.launches)):
        before = time.monotonic_ns(), ksm.instructions(), work()
        kept = phone.launch(name, number)
        after = time.monotonic_ns(), ksm.instructions(), work()
        lasted, ksmd, apps = (b - a for a, b in zip(before, after))
        metric("launch", lasted, "instructions")
        metric("launch-kept" if kept else "launch-new", lasted, "instructions")
        metric("launch-ksmd", ksmd, "instructions")
        metric("launch-apps", apps, "instructions")
        phone.leave()
        phone.make_room()
        app = zygote.apps[name]
        for more in (1, 2):
            time.sleep(options.dwell / 2)
            app.use(1000 * more + number)
        phone.make_room()
        metric("kept", len(phone.kept), "applications")
        metric("used", used(), "pages")
        if (number + 1) % 10 == 0:
            metric(f"kills-{number + 1}", phone.kills, "applications")

    seconds, spent, worked = (b - a for a, b in zip(start, (time.monotonic_ns(), ksm.instructions(), work())))
    metric("kills", phone.kills, "applications")
    metric("elapsed", seconds, "instructions")
    metric("ksmd-instructions", spent, "instructions")
    metric("app-instructions", worked, "instructions")
    metric("cow-breaks", numbers("/proc/vmstat").get("cow_ksm", 0) - breaks, "faults")
    metric("sharing", ksm.counts()["pages_sharing"], "pages")
    if hashed:
        hashed.end()
    ksm.run(False)
    zygote.end()


if __name__ == "__main__":
    main()
