# SPDX-License-Identifier: GPL-2.0-or-later
"""Cohort's counters, and the page tables of processes."""

import contextlib
import glob
import threading

COUNTERS = {
    "ptp_alloc": "PTPs", "ptp_shared": "PTPs", "ptp_unshared_fault": "PTPs",
    "ptp_unshared_map": "PTPs", "ptp_unshared_unmap": "PTPs", "ptp_unshared_change": "PTPs",
    "ptp_left": "PTPs", "ptp_adopted": "PTPs", "pte_copied_fork": "PTEs",
    "pte_copied_unshare": "PTEs", "fault_file": "faults", "fault_filled": "PTEs",
}


def metric(name, value, unit):
    print(f"metric {name} {value} {unit}", flush=True)


def vmstat():
    """The counters of Cohort in /proc/vmstat: {name: value}, empty without Cohort.

    Some of them count only from the first call on.
    """
    values = {}
    # Stock kernels, and Cohort's before, have no such file.
    with contextlib.suppress(FileNotFoundError), open("/sys/kernel/mm/cohort/count", "r+") as file:
        if "[on]" not in file.read():
            file.write("on")
            file.flush()
    with open("/proc/vmstat") as file:
        for line in file:
            name, value = line.split()
            if name.startswith("cohort_"):
                values[name.removeprefix("cohort_")] = int(value)
    return values


def fields(path):
    """The `Key: value` lines of a file under /proc, numbers only."""
    found = {}
    with open(path) as file:
        for line in file:
            key, _, value = line.partition(":")
            words = value.split()
            if words and words[0].isdigit():
                found[key] = int(words[0])
    return found


def upper_tables(pid):
    """An estimate of a process's tables above the last level, from its regions."""
    gigabytes = set()
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            span, perms = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            # Reservations have no tables until they are used, and then are split.
            if perms.startswith("---") or end - start >= 1 << 30:
                continue
            gigabytes.update(range(start >> 30, ((end - 1) >> 30) + 1))
    return len(gigabytes) + len({gb >> 9 for gb in gigabytes})


def tables(pid):
    """(last-level tables that a process uses, those that it shares)"""
    # VmPTE counts each shared table once, for the process that it is charged to.
    charged = fields(f"/proc/{pid}/status").get("VmPTE", 0) // 4 - upper_tables(pid)
    try:
        cohort = fields(f"/proc/{pid}/cohort")
    except FileNotFoundError:
        cohort = {}
    shared = cohort.get("SharedTables", 0)
    owned = cohort.get("OwnedTables", 0)
    return max(charged, 0) + shared - owned, shared


def family(root):
    """The process and all its descendants."""
    children = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            with open(stat) as file:
                text = file.read()
            pid, parent = int(text.split()[0]), int(text.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


class Sampler:
    """Looks at a program's tables now and then; keeps the fullest moment."""

    def __init__(self, root):
        self.root = root
        self.best = (0, 0, 0)  # processes, tables, shared
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def look(self):
        count = used = shared = 0
        for pid in family(self.root):
            # It may end meanwhile.
            with contextlib.suppress(OSError, ProcessLookupError):
                mine = tables(pid)
                used += mine[0]
                shared += mine[1]
                count += 1
        # If several moments are equally full, take the last: most of the work has been done.
        if count >= self.best[0]:
            self.best = (count, used, shared)

    def watch(self):
        while not self.stop.wait(2):
            self.look()

    def finish(self):
        self.stop.set()
        self.thread.join()
        self.look()
        return self.best
