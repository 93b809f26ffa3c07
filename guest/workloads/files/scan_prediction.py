#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What `cohort scan` foretells of a program on a stock kernel, or what Cohort's kernel made of it.

    scan_prediction.py apache|postgresql|chromium

Starts the program, as a zygote where the kernel knows Cohort, gives it a fixed amount of work and,
with all its processes alive and idle, prints what the kernel counts of them: memory of page tables
and faults. On a kernel without Cohort then the scan's foretelling for the same processes.
"""

import contextlib
import json
import os
import random
import struct
import subprocess
import sys
import threading
import time

from page_tables import family, fields, metric
from programs.apache import apache
from programs.chromium import chromium
from programs.postgresql import POSTGRESQL_ROWS, postgresql_server
from programs.run import PATIENCE, Failed, connect

COHORT = "/lab/bin/cohort"
BACKENDS = 100


# --- PostgreSQL with connections that stay ------------------------------------------------


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


class Connection:
    """A client of PostgreSQL that knows simple queries only (protocol 3.0, chapter 53)."""

    def __init__(self, path):
        self.sock = connect(path)
        self.file = self.sock.makefile("rb")
        start = struct.pack("!I", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.sock.sendall(struct.pack("!I", len(start) + 4) + start)
        self.ready()

    def ready(self):
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                raise Failed("postgresql: closed a connection")
            body = self.file.read(struct.unpack("!I", head[1:])[0] - 4)
            if head[:1] == b"E":
                raise Failed(f"postgresql: {body!r}")
            if head[:1] == b"Z":
                return

    def query(self, text):
        self.sock.sendall(message(b"Q", text.encode() + b"\0"))
        self.ready()


def postgresql():
    """100 backends, each with ten reads of ranges of the table, single rows and one update."""
    with postgresql_server(BACKENDS) as (process, root, _, _):
        yield process
        rows = POSTGRESQL_ROWS
        clients = []
        for number in range(BACKENDS):
            client = Connection(f"{root}/.s.PGSQL.5432")
            clients.append(client)
            rng = random.Random(number)
            for _ in range(10):
                first = rng.randrange(rows - 400)
                client.query("SELECT count(*), sum(octet_length(pad)) FROM rows "
                             f"WHERE id BETWEEN {first} AND {first + 400}")
                client.query(f"SELECT pad FROM rows WHERE id = {rng.randrange(rows)}")
            client.query(f"UPDATE counters SET n = n + 1 WHERE id = {number + 1}")
        yield
        for client in clients:
            client.sock.close()


PROGRAMS = {
    "apache": apache,
    "postgresql": postgresql,
    "chromium": chromium,
}


# --- what the kernel counts ----------------------------------------------------------------


def stat(pid):
    """(minor faults, processor time in ticks) of a process and of its children that are gone."""
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return int(words[7]) + int(words[8]), int(words[11]) + int(words[12])


def each(pids, look):
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found.append(look(pid))
    return found


def settle(root):
    """Waits until the program's processes do nothing any more."""
    before, deadline = None, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pids = sorted(family(root))
        now = pids, sum(time for _, time in each(pids, stat))
        # A tick or two in three seconds are timers of an idle program.
        if before and before[0] == pids and now[1] - before[1] <= 3:
            return pids
        before = now
        time.sleep(3)
    raise Failed("the program does not come to rest")


def foretell(pids):
    """The scan of these processes, as JSON."""
    done = subprocess.run([COHORT, "scan", "--json", "--check", "--pid", ",".join(map(str, pids))],
                          capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"cohort scan ended with status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in PROGRAMS:
        sys.exit(f"usage: scan_prediction.py {'|'.join(PROGRAMS)}")
    # Stacks of the default size would each take tables of their own.
    threading.stack_size(256 * 1024)
    run = PROGRAMS[sys.argv[1]]()
    try:
        process = next(run)
        next(run)
        pids = settle(process.pid)
        table_kb = sum(each(pids, lambda pid: fields(f"/proc/{pid}/status").get("VmPTE", 0)))
        faults = sum(faults for faults, _ in each(pids, stat))
        metric("processes", len(pids), "processes")
        metric("table-memory", table_kb, "KB")
        metric("faults", faults, "faults")
        if not os.path.exists("/proc/self/cohort"):
            scan = foretell(pids)
            total = scan["total"]
            ptps = total["ptps"]
            metric("scan-processes", total["processes"], "processes")
            metric("scan-tables", ptps["tables"], "PTPs")
            metric("scan-kept", ptps["kept"], "PTPs")
            metric("scan-saved", ptps["saved_bytes"] // 1024, "KB")
            metric("scan-touched-saved", ptps["touched_bytes"] // 1024, "KB")
            metric("scan-faults-saved", total["fork"]["faults_saved"], "faults")
            metric("scan-pss", round(100 * scan["consistency"]["pss_over_kernel"], 2), "%")
            metric("scan-cpu", scan["cost"]["cpu_seconds"], "s")
            print(scan["answer"])
        if next(run, None) is not None:
            raise Failed("the run has more steps than two")
    except (Failed, OSError, subprocess.SubprocessError) as problem:
        run.close()
        sys.exit(f"scan_prediction.py: {problem}")


if __name__ == "__main__":
    main()
