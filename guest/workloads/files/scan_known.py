#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that hold a known number of pages of every kind, and `cohort scan` that must find them.

Three processes forked from one another and one that is not related to them map /dev/zero, which
makes memory without a file that the scan can pick out by its name. Each class of entries and each
kind of content is compared with what was made; prints how many differ. As root, with zram for swap.
"""

import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import time

COHORT = "/lab/bin/cohort"
PAGE = mmap.PAGESIZE
HUGE = PAGE * PAGE // 8            # what a last-level table maps
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_PAGEOUT = 14, 15, 21

EXPECTED = {
    "contents": {
        "private": 30 + 7,          # the child's copies and new pages; the other's
        "cow": 100 + 90 + 100,      # the parent's, but for those that one child has copied
        "ksm": 0,
        "file": 0,
        "shared": 40 + 25,
        "zero": 3 * 15 + 5,
        "special": 0,
        "swapped": 64,
        "huge": 1,
    },
    "entries": {
        "total": 37 + 290 + 65 + 50 + 64 + 1,
        "shareable": 290 + 2 * 25 + 3 * 15,
        "unshareable": 37 + 15 + 5,
        "huge": 1,
        "swapped": 64,
        "unknown": 0,
        "distinct": 100 + 25 + 15,
        "once": 37 + 15 + 5 + 1 + 64 + 100 + 25 + 15,
    },
    # Of user(), in half a second: known frame by frame, as the lab's kernels track idle pages.
    "active": {"by": "frames", "total": 40, "shareable_low": 30, "shareable_high": 30, "once": 40},
}
# Where the kernel does not, as Debian's: 40 of a region's 150 pages, of which 100 are its sibling's
# too. What is left once is then an estimate, here with 20 that are shareable and two of each.
BY_REGIONS = {"by": "regions", "total": 40, "shareable_low": 0, "shareable_high": 40, "once": 30}


def mapping(pages, flags=mmap.MAP_PRIVATE, advice=MADV_NOHUGEPAGE):
    with open("/dev/zero", "r+b") as file:
        memory = mmap.mmap(file.fileno(), pages * PAGE, flags=flags)
    memory.madvise(advice)
    return memory


def write(memory, pages):
    for page in pages:
        memory[page * PAGE] = 1


def read(memory, pages):
    return sum(memory[page * PAGE] for page in pages)


def wait_forever():
    print("ready", flush=True)
    while True:
        signal.pause()


def parent():
    private, shared = mapping(300), mapping(100, mmap.MAP_SHARED)
    write(private, range(100))
    read(private, range(200, 215))
    write(shared, range(40))
    for change in (True, False):
        ends = os.pipe()
        if not os.fork():
            if change:
                write(private, range(10))
                write(private, range(100, 120))
                write(shared, range(25))
            os.write(ends[1], b"x")
            while True:
                signal.pause()
        os.read(ends[0], 1)
    wait_forever()


def other():
    private, swapped = mapping(300), mapping(64)
    write(private, range(7))
    read(private, range(250, 255))
    large = mapping(2 * HUGE // PAGE, advice=MADV_HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(large))
    large[-start % HUGE] = 1
    write(swapped, range(64))
    deadline = time.monotonic() + 100
    while swapped_kb() < 64 * PAGE // 1024:
        if time.monotonic() > deadline:
            sys.exit("scan_known.py: the kernel does not swap 64 pages out")
        swapped.madvise(MADV_PAGEOUT)
        time.sleep(0.1)
    wait_forever()


def user():
    """One child goes on to read 30 pages that its sibling has too, and 10 of its own."""
    memory = mapping(200)
    write(memory, range(100))
    for own, used in ((range(100, 150), (*range(30), *range(100, 110))), (range(150, 170), ())):
        ends = os.pipe()
        if not os.fork():
            write(memory, own)
            os.write(ends[1], b"x")
            while True:
                read(memory, used)
                time.sleep(0.01)
        os.read(ends[0], 1)
    memory.close()
    wait_forever()


def swapped_kb():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Swap:"))


def scan(processes, *options):
    pids = ",".join(str(process.pid) for process in processes)
    done = subprocess.run([COHORT, "scan", "--json", "--tree", pids, "--mapping", "^/dev/zero",
                           *options], capture_output=True, text=True)
    # 77: without the parent of these processes the scan compares nothing. It counts all the same.
    if done.returncode not in (0, 77):
        sys.exit(f"scan_known.py: cohort scan ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["total"]


def main():
    with open("/sys/block/zram0/disksize", "w") as file:
        file.write("64M")
    subprocess.run("mkswap /dev/zram0 && swapon /dev/zram0", shell=True, check=True,
                   stdout=subprocess.DEVNULL)
    started = [subprocess.Popen([sys.executable, __file__, part], stdout=subprocess.PIPE, text=True,
                                start_new_session=True) for part in ("parent", "other", "user")]
    try:
        for process in started:
            if process.stdout.readline() != "ready\n":
                sys.exit(f"scan_known.py: a part ended with status {process.wait()}")
        total = scan(started[:2], "--check")
        active = scan(started[2:], "--interval", "0.5")["entries"]["active"]
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not os.path.exists("/sys/kernel/mm/page_idle/bitmap"):
        EXPECTED["active"] = BY_REGIONS
    different = 0
    for part, counts in EXPECTED.items():
        for name, expected in counts.items():
            found = (active if part == "active" else total[part])[name]
            if part != "active" or name != "by":
                print(f"metric {part}-{name} {found} entries")
            if found != expected:
                different += 1
                print(f"{part}: {name} is {found} and should be {expected}")
    print(f"metric processes {total['processes']} processes")
    print(f"metric different {different} counts")


if __name__ == "__main__":
    {"parent": parent, "other": other, "user": user}.get(sys.argv[1] if len(sys.argv) > 1 else "", main)()
