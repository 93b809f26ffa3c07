#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Two containers per core that compute on one mapped file (ISCA'20, section VI): see
experiments/latency-compute.toml.

    latency_compute.py fio|page-rank [--cores N] [--label LABEL] [--scale BITS] [--size BYTES] [--share PERCENT]

page-rank: every container begins with another interval of a graph of 2^BITS vertices and four
times as many edges; the first interval warms up, the next four are measured. All that compute an interval must
get the same ranks. fio: every container reads blocks of 1 KB at random from a file of BYTES, PERCENT of
its size altogether, with a seed of its own; all begin together, and all of it is measured.

Metrics: containers; faults, of each container's program; table-pages, pages of page tables that all
containers need; joined, opened."""

import argparse
import os
import shutil
import subprocess
import sys

from crun_containers import Container, Tables, mark, memory_at
from page_tables import metric

CONTAINERS = 2	# per core
DATA = "/srv/data"
BIN = "/usr/local/lib/compute"
SHARDS = 16


def prepare():
    """Memory for the data that all containers map, and programs in their lowest layer."""
    memory_at(DATA)
    os.makedirs(BIN)
    shutil.copy("/lab/bin/page-rank", BIN)
    os.sync()


class PageRank:
    """One container of it."""

    sums = {}
    intervals = 4

    @staticmethod
    def prepare(args):
        subprocess.run([f"{BIN}/page-rank", "make", DATA, str(args.scale), str(SHARDS), str(4 << args.scale), "1"],
                       check=True)

    def __init__(self, number, core, args):
        program = [f"{BIN}/page-rank", "run", DATA, str(number % SHARDS), "1", str(self.intervals),
                   str(number + 1)]
        self.container = Container(f"rank-{number}", program, args.label, core, data=[DATA])

    def begin(self):
        self.container.start()

    def wait_ready(self):
        self.container.wait("ready")

    def go(self):
        self.container.tell("go")

    def wait_done(self):
        for result in self.container.wait("done").split():
            interval, value = result.split(":")
            if self.sums.setdefault(interval, value) != value:
                sys.exit(f"{self.container.name}: interval {interval} is {value}, and was {self.sums[interval]}")
        metric("faults", self.container.faults(), "faults")


class Fio:
    """One container of it. It takes no line on its standard input; two pipes that have names do instead."""

    @staticmethod
    def prepare(args):
        with open(f"{DATA}/file", "wb") as file:
            for _ in range(args.size >> 20):
                file.write(os.urandom(1 << 20))
        with open(f"{DATA}/wait.sh", "w") as file:
            file.write("echo ready >$1.ready\nread -r line <$1.go\n")

    def __init__(self, number, core, args):
        self.pipes = f"{DATA}/{number}"
        for name in ("ready", "go"):
            os.mkfifo(f"{self.pipes}.{name}")
        size = args.size * args.share // 100
        program = ["fio", "--name=job", f"--filename={DATA}/file", f"--size={args.size}", f"--io_size={size}",
                   "--ioengine=mmap", "--rw=randread", "--bs=1k", "--norandommap", f"--randseed={number + 1}",
                   "--thread", "--gtod_reduce=1", "--disk_util=0", "--minimal",
                   f"--exec_prerun=sh {DATA}/wait.sh {self.pipes}"]
        self.container = Container(f"fio-{number}", program, args.label, core, data=[DATA])

    def begin(self):
        self.container.start()

    def wait_ready(self):
        with open(f"{self.pipes}.ready") as file:
            file.read()

    def go(self):
        with open(f"{self.pipes}.go", "w") as file:
            file.write("go\n")

    def wait_done(self):
        said = self.container.wait_end()
        # The fifth field of its terse report is the job's error.
        fields = said.split(";")
        if len(fields) < 6 or fields[4] != "0":
            sys.exit(f"{self.container.name}: {said}")


PROGRAMS = {"page-rank": PageRank, "fio": Fio}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=sorted(PROGRAMS))
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--label", default="")
    parser.add_argument("--scale", type=int, default=21)
    parser.add_argument("--size", type=int, default=64 << 20)
    parser.add_argument("--share", type=int, default=12)
    args = parser.parse_args()

    program = PROGRAMS[args.program]
    prepare()
    program.prepare(args)
    tables = Tables()
    running = [program(number, number % args.cores, args) for number in range(CONTAINERS * args.cores)]
    # page-rank's first interval warms up the model's caches; fio has none.
    if program is PageRank:
        mark("warm")
    for one in running:
        one.begin()
    for one in running:
        one.wait_ready()
    if program is Fio:
        mark("warm")
    mark("start")
    for one in running:
        one.go()
    for one in running:
        one.wait_done()
    mark("stop")
    metric("containers", len(running), "containers")
    tables.print()
    for one in running:
        one.container.end()


if __name__ == "__main__":
    main()
