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
import sys

from crun_containers import Container, Tables, mark
from page_tables import metric

FUNCTIONS = ("parse", "hash", "marshal")
BIN = "/usr/local/lib/functions"
INPUT = "/var/lib/functions.txt"
PAGE = 4096
# A file of 1 MB and more lies alike in all members of a group.
INPUT_PAGES = 2048


def prepare():
    """Programs and input, where all containers have them from the lowest layer."""
    for function in FUNCTIONS:
        # One name, so that the model takes them for one application; three files.
        os.makedirs(f"{BIN}/{function}", exist_ok=True)
        shutil.copy("/lab/bin/faas-function", f"{BIN}/{function}/faas-function")
    shutil.copy("/lab/bin/lab-mark", f"{BIN}/lab-mark")
    words = "".join(f"{n * 7919 % 100003} word " for n in range(800)).encode()
    with open(INPUT, "wb") as file:
        for _ in range(INPUT_PAGES):
            file.write(words[:PAGE])
    # In memory, and on the disk: pages that are written back later would be another's work.
    os.sync()


def program(function, args, request, leads):
    """The command of one function."""
    begin = [] if leads else [f"{BIN}/lab-mark", "begin", str(request), "--"]
    return [*begin, f"{BIN}/{function}/faas-function", function, args.kind, INPUT, str(args.bytes), str(request)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["dense", "sparse"])
    parser.add_argument("bytes", type=int)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--label", default="")
    args = parser.parse_args()

    piece = PAGE if args.kind == "dense" else PAGE // 10
    if -(-args.bytes // piece) > INPUT_PAGES:
        sys.exit(f"the input has {INPUT_PAGES} pages: too few for {args.bytes} bytes")
    prepare()
    tables = Tables()
    turns, names = [], {}
    for turn in range(len(FUNCTIONS)):
        turns.append([])
        for core in range(args.cores):
            function = FUNCTIONS[(core + turn) % len(FUNCTIONS)]
            request = 1 + core * len(FUNCTIONS) + turn
            one = Container(f"f-{core}-{turn}", program(function, args, request, turn == 0), args.label, core)
            turns[turn].append(one)
            names[one] = function
    results = {}
    mark("warm")
    for number, turn in enumerate(turns):
        if number == 1:
            mark("start")
        for container in turn:
            container.start()
        for container in turn:
            found, function = container.wait("ready"), names[container]
            if results.setdefault(function, found) != found:
                sys.exit(f"{container.name}: {function} is {found}, and was {results[function]}")
    mark("stop")
    metric("containers", sum(map(len, turns)), "containers")
    tables.print()
    for container in sum(turns[1:], []):
        metric("faults", container.faults(), "faults")
    for container in sum(turns, []):
        container.end()


if __name__ == "__main__":
    main()
