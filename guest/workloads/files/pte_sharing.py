#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of page tables of containers that run one application (ISCA'20, Figure 9): see
experiments/pte-sharing.toml.

    pte_sharing.py apache|fio|functions|lmdb|page-rank|rocksdb SECONDS

Starts the containers of one core, and lets them work while `cohort scan` watches for SECONDS which of
their pages are used. Two containers of one server or program; of functions three, which do their work, on
sparse input, again and again. Metrics, of all their processes together: shareable, unshareable, huge,
all entries by class; active, active-shareable, those used; active-once, those used if equal ones are kept once;
unknown, those used of which no more is known than that they may be shareable; rounds, how often the driver gave
work meanwhile."""

import argparse
import json
import subprocess
import time

import functions
import latency_compute
import latency_serving
from crun_containers import Container
from page_tables import family, metric

COHORT = "/lab/bin/cohort"


def numbers(**given):
    """The arguments of the other experiments' programs."""
    return argparse.Namespace(label="", cores=1, **given)


def compute(name):
    args = numbers(scale=21, size=64 << 20, share=100000)
    program = latency_compute.PROGRAMS[name]
    program.intervals = 100000
    latency_compute.prepare()
    program.prepare(args)
    running = [program(number, 0, args) for number in range(2)]
    for one in running:
        one.begin()
    for one in running:
        one.wait_ready()
        one.go()
    return [one.container for one in running], lambda: time.sleep(0.1)


def serving(name):
    args = numbers(warm=0, requests=20000, records=0)
    server = latency_serving.SERVERS[name]
    latency_serving.prepare(server, args)
    servers = [server(number, 0, args) for number in range(2)]
    for one in servers:
        one.start()
    return [one.container for one in servers], lambda: latency_serving.all_ask(servers, 100)


def three_functions(_):
    args = numbers(kind="sparse", bytes=262144)
    functions.prepare()
    running = [Container(name, functions.program(name, args, 0, True), core=0) for name in functions.FUNCTIONS]

    def work():
        for one in running:
            one.tell("again")
        for one in running:
            one.wait("ready")

    for one in running:
        one.start()
    for one in running:
        one.wait("ready")
    return running, work


APPLICATIONS = {"page-rank": compute, "fio": compute, "lmdb": serving, "rocksdb": serving, "apache": serving,
                "functions": three_functions}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("application", choices=sorted(APPLICATIONS))
    parser.add_argument("seconds", type=int)
    args = parser.parse_args()

    containers, work = APPLICATIONS[args.application](args.application)
    # In its steady state.
    deadline = time.monotonic() + args.seconds
    while time.monotonic() < deadline:
        work()
    pids = sorted(pid for one in containers for pid in family(one.pid))
    scan = subprocess.Popen([COHORT, "scan", "--json", "--by", "machine", "--pid", ",".join(map(str, pids)),
                             "--interval", str(args.seconds)], stdout=subprocess.PIPE, text=True)
    rounds = 0
    while scan.poll() is None:
        work()
        rounds += 1
    total = json.loads(scan.stdout.read())["total"]
    entries = total["entries"]
    active = entries["active"]
    metric("processes", total["processes"], "processes")
    for name in ("shareable", "unshareable", "huge"):
        metric(name, entries[name], "PTEs")
    metric("active", active["total"], "PTEs")
    metric("active-shareable", active["shareable_low"], "PTEs")
    metric("active-once", active["once"], "PTEs")
    metric("unknown", active["shareable_high"] - active["shareable_low"], "PTEs")
    metric("rounds", rounds, "rounds")
    for one in containers:
        one.end()


if __name__ == "__main__":
    main()
