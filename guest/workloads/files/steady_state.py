#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of a real program whose processes come from one parent, and its page tables.

    steady_state.py apache|php-fpm|postgresql|redis|forkserver|chromium [--apart] [--tlb] [--modelled]

Each starts the program as a zygote (cohort-exec; without effect where the kernel's
mode is `never`), gives it a fixed amount of work, and prints what the kernel's
counters gained from its start (of the databases: from when their data is in place)
to the end of that work, and from the moment at which most of its processes were
alive, how many last-level page tables they used and shared. The work comes from
this process, so that no other client's faults are counted; only PostgreSQL has its
own, pgbench.

With --apart code and data of each library lie in different tables (apart.c).

With --tlb the program and its children share TLB entries of its libraries' code (ARM).

With --modelled the counted part is marked as the translation model's region of interest,
and there is a tenth of the work (of chromium all: it is its start).
"""

import subprocess
import sys
import threading
import time

from page_tables import COUNTERS, Sampler, metric
from programs import apache, chromium, forkserver, php_fpm, postgresql, redis, run
from programs.run import Failed, Window

PROGRAMS = {
    "apache": apache.apache,
    "php-fpm": php_fpm.php_fpm,
    "postgresql": postgresql.postgresql,
    "redis": redis.redis,
    "forkserver": forkserver.forkserver,
    "chromium": chromium.chromium,
}


def main():
    options = sys.argv[2:]
    if sys.argv[1:2] == [] or sys.argv[1] not in PROGRAMS or set(options) - {"--apart", "--tlb", "--modelled"}:
        sys.exit(f"usage: steady_state.py {'|'.join(PROGRAMS)} [--apart] [--tlb] [--modelled]")
    run.modelled = "--modelled" in options
    run.apart = "--apart" in options
    run.tlb = "--tlb" in options
    # Stacks of the default size would each take tables of their own.
    threading.stack_size(256 * 1024)
    began = time.monotonic()
    steps = PROGRAMS[sys.argv[1]]()
    try:
        process = next(steps)
        sampler = Sampler(process.pid)
        next(steps)
        count, used, shared = sampler.finish()
        gained = Window.gained()
        if next(steps, None) is not None:
            raise Failed("the run has more steps than two")
    except (Failed, OSError, subprocess.SubprocessError) as problem:
        steps.close()
        sys.exit(f"steady_state.py: {problem}")
    for name, unit in COUNTERS.items():
        if name in gained:
            metric(name.replace("_", "-"), gained[name], unit)
    if gained:
        metric("pte-copied", gained["pte_copied_fork"] + gained["pte_copied_unshare"], "PTEs")
        metric("tables-shared", shared, "PTPs")
        metric("tables-shared-share", round(100 * shared / used, 2) if used else 0, "%")
    metric("processes", count, "processes")
    metric("tables", used, "PTPs")
    metric("seconds", round(time.monotonic() - began, 1), "s")


if __name__ == "__main__":
    main()
