#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What ksmd saves and what it costs, while applications come and go.

    ksm_cost.py none|stock|smart|advisor|hash|dormant|application|global [--zygote]
                [--uses N] [--dwell S] [--until N]

The zygote of ksm_apps.py is started with `cohort run --merge`, its applications are
forked from it, each in a cgroup of its own. First each is started, used once and frozen;
`application` and `global` learn from them then, as the paper does on the charger; and
all are ended. Then a user, the same one each time, goes from one application to the
next: it is started or thawed, used, stays in the foreground for S seconds and is frozen.
At the end nobody touches anything for IDLE seconds. With --zygote the zygote is marked as
dormant once it has loaded its modules: it does nothing but fork.

`hash` is the paper's hash-based KSM, as near as it comes without another kernel: all are dormant
all the time and one full scan follows another (see Hashed).

ksmd's instructions are its CPU time, as one nanosecond is one instruction with the
lab's `icount`. What is saved is said by KSM's own numbers, and by the anonymous pages of the
machine: those of the run without KSM less these.
"""

import argparse
import collections
import glob
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

import ksm_apps

KSM = "/sys/kernel/mm/ksm"
CGROUPS = "/sys/fs/cgroup/apps"
PATIENCE = 600
# Seconds at the end in which nothing happens.
IDLE = 10
# Some are used often, some hardly ever: the share falls with the rank (Zipf).
RANKS = ["browser", "timeline", "mail", "phone", "news", "packages", "map", "gallery", "fourinarow",
         "market", "calendar", "radio", "editor", "life", "movie", "alarm"]

# The settings that each variant writes, in this order.
SETTINGS = {
    "none": {},
    "stock": {"smart_scan": 0, "advisor_mode": "none"},
    "smart": {"smart_scan": 1, "advisor_mode": "none"},
    "advisor": {"smart_scan": 1, "advisor_mode": "scan-time"},
    "hash": {"scan_policy": "dormant", "scan_scope": "all"},
    "dormant": {"scan_policy": "dormant", "scan_scope": "all"},
    "application": {"scan_policy": "dormant", "scan_scope": "application"},
    "global": {"scan_policy": "dormant", "scan_scope": "global"},
}
LEARNS = ("application", "global")


def metric(name, value, unit):
    print(f"metric {name} {value} {unit}", flush=True)


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def read(path):
    with open(path) as file:
        return file.read().strip()


def numbers(path):
    """The `name value` lines of a file: {name: value}."""
    found = {}
    with open(path) as file:
        for line in file:
            words = line.split()
            if len(words) > 1 and words[1].isdigit():
                found[words[0].rstrip(":")] = int(words[1])
    return found


def wait_for(what, question):
    deadline = time.monotonic() + PATIENCE
    while not question():
        if time.monotonic() > deadline:
            sys.exit(f"ksm_cost: {what} did not happen in {PATIENCE} seconds")
        time.sleep(0.05)


# --- ksmd -----------------------------------------------------------------------------


def ksmd():
    for path in glob.glob("/proc/[0-9]*/comm"):
        if read(path) == "ksmd":
            return int(path.split("/")[2])
    sys.exit("ksm_cost: no ksmd: a kernel without CONFIG_KSM?")


class Ksm:
    COUNTS = ("pages_scanned", "pages_shared", "pages_sharing", "pages_unshared", "pages_skipped",
              "general_profit", "full_scans")

    def __init__(self):
        # The CPU clock of another process, MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED).
        self.clock = ~ksmd() << 3 | 2

    def instructions(self):
        return time.clock_gettime_ns(self.clock)

    def counts(self):
        return {name: int(read(f"{KSM}/{name}")) for name in self.COUNTS}

    def set(self, settings):
        for name, value in settings.items():
            write(f"{KSM}/{name}", value)

    def run(self, on):
        write(f"{KSM}/run", int(on))

    def settle(self):
        """Wait until nobody waits for ksmd any more (with scan_policy dormant only)."""
        before = None
        while before != (now := (self.instructions(), read(f"{KSM}/dormant_scans"))):
            before = now
            time.sleep(1)


class Hashed(threading.Thread):
    """Lets ksmd scan all who are dormant, whole, again and again.

    While it learns it does so, with an index by checksum where stock has the unstable tree; like
    that one it starts empty with each scan, as what was found in a process that is to be
    scanned again does not count. Pages that have merged are in stock's stable tree.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.scans = 0

    def run(self):
        while not self.over.wait(0.1):
            if read(f"{KSM}/learn") == "0":
                write(f"{KSM}/learn", 1)
                self.scans += 1

    def end(self):
        # A thread that fails only writes to its standard error.
        if not self.is_alive() or self.scans < 2:
            sys.exit(f"ksm_cost: ksmd was told to scan {self.scans} times and no more")
        self.over.set()
        self.join()


# --- the applications ------------------------------------------------------------------


class Zygote:
    def __init__(self, directory, always_dormant=False):
        # Each started application is marked, frozen or not.
        self.always_dormant = always_dormant
        address = f"{directory}/socket"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address)
        self.listener.listen(32)
        # Hashes differ in each process otherwise, and with them the order of sets.
        environment = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen(
            ["/lab/bin/cohort", "run", "--merge", "--", sys.executable, ksm_apps.__file__, address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        if self.process.stdout.readline().split()[:1] != ["zygote"]:
            sys.exit("ksm_cost: the zygote did not start")
        # An application's work before it has a cgroup of its own counts too.
        os.makedirs(f"{CGROUPS}/zygote", exist_ok=True)
        write(f"{CGROUPS}/zygote/cgroup.procs", self.process.pid)
        self.apps = {}

    def make_dormant(self):
        """It does nothing but fork."""
        write(f"/proc/{self.process.pid}/ksm_dormant", 1)

    def start(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        connection, _ = self.listener.accept()
        app = App(name, connection)
        if self.always_dormant:
            write(f"/proc/{app.pid}/ksm_dormant", 1)
        self.apps[name] = app
        return app

    def end_apps(self):
        for app in self.apps.values():
            app.end()
        self.apps = {}

    def end(self):
        self.end_apps()
        self.process.stdin.close()
        if self.process.wait(PATIENCE):
            sys.exit("ksm_cost: the zygote failed")


class App:
    def __init__(self, name, connection):
        self.connection = connection
        self.lines = connection.makefile("rw")
        said, pid = self.answer().split()
        if said != name:
            sys.exit(f"ksm_cost: {name} was started, {said} came")
        self.pid = int(pid)
        self.cgroup = f"{CGROUPS}/{name}"
        os.makedirs(self.cgroup, exist_ok=True)
        write(f"{self.cgroup}/cgroup.procs", self.pid)

    def answer(self):
        line = self.lines.readline()
        if not line:
            sys.exit("ksm_cost: an application has failed")
        return line.strip()

    def use(self, n):
        print(f"use {n}", file=self.lines, flush=True)
        self.answer()

    def freeze(self, on):
        write(f"{self.cgroup}/cgroup.freeze", int(on))
        wait_for("freezing", lambda: numbers(f"{self.cgroup}/cgroup.events")["frozen"] == on)

    def end(self):
        self.freeze(False)
        print("quit", file=self.lines, flush=True)
        wait_for("an exit", lambda: not os.path.exists(f"/proc/{self.pid}"))
        self.lines.close()
        self.connection.close()


# --- the run ------------------------------------------------------------------------------


def sequence(uses):
    """What the user does: each application once, in between those used often."""
    rng = random.Random(2014)
    often = rng.choices(RANKS, [1 / (rank + 1) for rank in range(len(RANKS))], k=uses - len(RANKS))
    first = RANKS[:]
    rng.shuffle(first)
    # All have been started after the first half.
    at = sorted(rng.sample(range(uses // 2), len(first)))
    steps = collections.deque(often)
    return [first[at.index(i)] if i in at else steps.popleft() for i in range(uses)]


def anonymous_pages():
    # Counters of the processors are added up first.
    write("/proc/sys/vm/stat_refresh", 1)
    return numbers("/proc/vmstat")["nr_anon_pages"]


def work():
    """Instructions of the applications and their zygote, until now."""
    return numbers(f"{CGROUPS}/cpu.stat")["usage_usec"] * 1000


def learn(ksm, variant):
    before = ksm.instructions()
    ksm.set(SETTINGS[variant])
    ksm.run(True)
    ksm.settle()
    write(f"{KSM}/learn", 1)
    wait_for("learning", lambda: read(f"{KSM}/learn") == "0")
    ksm.settle()
    metric("learning-instructions", ksm.instructions() - before, "instructions")
    metric("profile-bytes", read(f"{KSM}/profile_bytes"), "bytes")
    metric("profile-refused", read(f"{KSM}/profile_refused"), "pages")


class Samples:
    def __init__(self, ksm):
        self.ksm, self.start, self.work = ksm, ksm.counts(), work()
        self.instructions, self.clock = ksm.instructions(), time.monotonic()

    def take(self, number):
        pages, spent = anonymous_pages(), self.ksm.instructions() - self.instructions
        metric("anonymous", pages, "pages")
        metric("sharing", self.ksm.counts()["pages_sharing"], "pages")
        metric("spent", spent, "instructions")
        if number % 4 == 0:
            metric(f"anonymous-{number}", pages, "pages")
            metric(f"spent-{number}", spent, "instructions")
            metric(f"scanned-{number}", self.since("pages_scanned"), "pages")
            metric(f"work-{number}", work() - self.work, "instructions")

    def since(self, name):
        return self.ksm.counts()[name] - self.start[name]


def at_the_end(ksm, zygote, samples, breaks):
    spent, scanned = ksm.instructions(), samples.since("pages_scanned")
    metric("app-instructions", work() - samples.work, "instructions")
    metric("cow-breaks", numbers("/proc/vmstat").get("cow_ksm", 0) - breaks, "faults")
    metric("ksmd-instructions", spent - samples.instructions, "instructions")
    metric("scanned", scanned, "pages")

    time.sleep(IDLE)
    counts = ksm.counts()
    metric("idle-instructions", ksm.instructions() - spent, "instructions")
    metric("idle-scanned", samples.since("pages_scanned") - scanned, "pages")
    metric("idle-seconds", IDLE, "s")
    metric("final-anonymous", anonymous_pages(), "pages")
    metric("final-sharing", counts["pages_sharing"], "pages")
    metric("final-shared", counts["pages_shared"], "pages")
    metric("final-unshared", counts["pages_unshared"], "pages")
    metric("final-profit", counts["general_profit"], "bytes")
    metric("full-scans", samples.since("full_scans"), "scans")
    metric("skipped", samples.since("pages_skipped"), "pages")
    metric("seconds", round(time.monotonic() - samples.clock, 3), "s")
    for app in zygote.apps.values():
        stat = numbers(f"/proc/{app.pid}/ksm_stat")
        metric("items", stat["ksm_rmap_items"], "pages")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("variant", choices=SETTINGS)
    parser.add_argument("--uses", type=int, default=32)
    parser.add_argument("--dwell", type=float, default=5)
    parser.add_argument("--until", type=int, help="end at once after so many uses")
    parser.add_argument("--zygote", action="store_true", help="the zygote is dormant too")
    options = parser.parse_args()
    if options.uses < 2 * len(RANKS):
        parser.error(f"--uses: {2 * len(RANKS)} at least")
    variant = options.variant

    ksm = Ksm()
    os.makedirs(CGROUPS, exist_ok=True)
    zygote = Zygote(tempfile.mkdtemp(), always_dormant=variant == "hash")
    if options.zygote:
        zygote.make_dormant()
    for number, name in enumerate(RANKS):
        app = zygote.start(name)
        app.use(1000 + number)
        app.freeze(True)
    if variant in LEARNS:
        learn(ksm, variant)
    zygote.end_apps()

    if variant != "none":
        ksm.set(SETTINGS[variant])
        ksm.run(True)
    hashed = Hashed() if variant == "hash" else None
    if hashed:
        hashed.start()
    time.sleep(1)
    breaks = numbers("/proc/vmstat").get("cow_ksm", 0)
    samples = Samples(ksm)
    for number, name in enumerate(sequence(options.uses)):
        if name in zygote.apps:
            app = zygote.apps[name]
            app.freeze(False)
        else:
            app = zygote.start(name)
        app.use(number)
        time.sleep(options.dwell)
        # Those who were frozen before have had the time that this one was in the foreground.
        samples.take(number + 1)
        app.freeze(True)
        if number + 1 == options.until:
            break

    if not options.until:
        # The last one's turn.
        time.sleep(options.dwell)
        at_the_end(ksm, zygote, samples, breaks)
    if hashed:
        hashed.end()
    ksm.run(False)
    zygote.end()


if __name__ == "__main__":
    main()
