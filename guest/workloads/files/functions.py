#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions in containers, three to a core (ISCA'20, section VI): see experiments/functions.toml.

    functions.py dense|sparse BYTES [--cores N] [--label LABEL]

Each core gets a parse, a hash and a marshal in another order, each in a container of its own by crun. All
containers are created first. The first function of every core runs and leads; then the second ones run,
then the third ones, which are requests of the model. All stay until the last has ended, as warm
containers do. All results of a function must be the same.

Metrics: containers; faults, of the functions that do not lead, each; table-pages, pages of page tables
that all containers need; joined, opened."""

import argparse
import os
import shutil
import subprocess
import sys

import bundle

FUNCTIONS = ("parse", "hash", "marshal")
BIN = "/usr/local/lib/functions"
INPUT = "/var/lib/functions.txt"
PAGE = 4096


def vmstat(name):
    """A counter of /proc/vmstat, or None."""
    with open("/proc/vmstat") as file:
        for line in file:
            if line.startswith(name + " "):
                return int(line.split()[1])
    return None


def mark(*what):
    subprocess.run(["lab-mark", *what], check=True)


def prepare(pages):
    """Programs and input, where all containers have them from the lowest layer."""
    for function in FUNCTIONS:
        # One name, so that the model takes them for one application; three files.
        os.makedirs(f"{BIN}/{function}", exist_ok=True)
        shutil.copy("/lab/bin/faas-function", f"{BIN}/{function}/faas-function")
    shutil.copy("/lab/bin/lab-mark", f"{BIN}/lab-mark")
    words = "".join(f"{n * 7919 % 100003} word " for n in range(800)).encode()
    with open(INPUT, "wb") as file:
        for _ in range(pages):
            file.write(words[:PAGE])
    # In memory, and on the disk: pages that are written back later would be another's work.
    os.sync()


class Container:
    """One function, created and not yet started."""

    def __init__(self, core, turn, args, request):
        self.name = f"f-{core}-{turn}"
        self.function = FUNCTIONS[(core + turn) % len(FUNCTIONS)]
        program = ["taskset", "-c", str(core)]
        if turn:
            program += [f"{BIN}/lab-mark", "begin", str(request), "--"]
        program += [f"{BIN}/{self.function}/faas-function", self.function, args.kind, INPUT, str(args.bytes),
                    str(request)]
        bundle.make(self.name, bundle.config(program, args.label))
        pid_file = f"/run/bundle/{self.name}/pid"
        # Its standard input must stay open: the function waits there.
        hold, self.hold = os.pipe()
        self.out, out = os.pipe()
        subprocess.run(["crun", "create", "--bundle", f"/run/bundle/{self.name}", "--pid-file", pid_file,
                        self.name], stdin=hold, stdout=out, stderr=out, check=True)
        os.close(hold)
        os.close(out)
        with open(pid_file) as file:
            self.pid = int(file.read())

    def start(self):
        subprocess.run(["crun", "start", self.name], check=True)

    def wait(self):
        """Its result."""
        with os.fdopen(os.dup(self.out)) as out:
            line = out.readline().split()
        if len(line) != 2 or line[0] != "ready":
            sys.exit(f"{self.name} ({self.function}) says: {' '.join(line) or 'nothing'}")
        return line[1]

    def faults(self):
        with open(f"/proc/{self.pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[7])

    def end(self):
        os.close(self.hold)
        os.close(self.out)
        subprocess.run(["crun", "delete", "--force", self.name], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["dense", "sparse"])
    parser.add_argument("bytes", type=int)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--label", default="")
    args = parser.parse_args()

    piece = PAGE if args.kind == "dense" else PAGE // 10
    prepare(-(-args.bytes // piece))
    tables, counts = vmstat("nr_page_table_pages"), {}
    for name in ("joined", "opened"):
        counts[name] = vmstat(f"cohort_ptp_{name}")
    turns = [[Container(core, turn, args, 1 + core * len(FUNCTIONS) + turn) for core in range(args.cores)]
             for turn in range(len(FUNCTIONS))]
    results = {}
    mark("warm")
    for number, turn in enumerate(turns):
        if number == 1:
            mark("start")
        for container in turn:
            container.start()
        for container in turn:
            found = container.wait()
            if results.setdefault(container.function, found) != found:
                sys.exit(f"{container.name}: {container.function} is {found}, and was "
                         f"{results[container.function]}")
    mark("stop")
    print(f"metric containers {sum(map(len, turns))} containers")
    print(f"metric table-pages {vmstat('nr_page_table_pages') - tables} pages")
    for name, before in counts.items():
        if before is not None:
            print(f"metric {name} {vmstat(f'cohort_ptp_{name}') - before} tables")
    for container in sum(turns[1:], []):
        print(f"metric faults {container.faults()} faults")
    for container in sum(turns, []):
        container.end()


main()
