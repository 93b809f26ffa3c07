# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers by crun that experiments start, talk to and end; their bundles are bundle.py's."""

import os
import subprocess
import sys

import bundle
from page_tables import metric

BUNDLES = "/run/bundle"


def mark(*what):
    """A mark for the translation model."""
    subprocess.run(["lab-mark", *what], check=True)


def memory_at(path):
    """A new directory in memory, for data that containers have in common."""
    os.makedirs(path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=75%", "data", path], check=True)


class Container:
    """One container, created and not yet started, with pipes as its standard input and outputs.

    core: the processor that it runs on, all by default. data: directories of this system that it has
    at the same path. host: namespaces that it has in common with this system."""

    def __init__(self, name, program, label="", core=None, data=(), host=(), user=0):
        self.name = name
        if core is not None:
            program = ["taskset", "-c", str(core), *program]
        bundle.make(name, bundle.config(program, label, data, host, user))
        pid_file = f"{BUNDLES}/{name}/pid"
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        subprocess.run(["crun", "create", "--bundle", f"{BUNDLES}/{name}", "--pid-file", pid_file, name],
                       stdin=theirs_in, stdout=theirs_out, stderr=theirs_out, check=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self.input = os.fdopen(ours_in, "w")
        self.output = os.fdopen(ours_out)
        with open(pid_file) as file:
            self.pid = int(file.read())

    def start(self):
        subprocess.run(["crun", "start", self.name], check=True)

    def tell(self, line):
        """Gives it a line on its standard input."""
        print(line, file=self.input, flush=True)

    def wait(self, word):
        """What it says behind this word, which must be the first of its next line."""
        line = self.output.readline()
        first, _, rest = line.strip().partition(" ")
        if first != word:
            said = (line + self.output.readline()).strip()
            sys.exit(f"{self.name} does not say {word}: {said or 'nothing'}")
        return rest

    def wait_end(self):
        """Waits until its program and all that have its outputs have ended. What they said."""
        return self.output.read()

    def faults(self):
        """How many faults its program has taken that needed no disk."""
        with open(f"/proc/{self.pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[7])

    def end(self):
        self.input.close()
        self.output.close()
        subprocess.run(["crun", "delete", "--force", self.name], check=True)


class Tables:
    """Counts page tables from its making on."""

    COUNTS = {
        "nr_page_table_pages": ("table-pages", "pages"),
        "cohort_ptp_joined": ("joined", "tables"),
        "cohort_ptp_opened": ("opened", "tables"),
    }

    def __init__(self):
        self.before = self.read()

    def read(self):
        """Those that this kernel has."""
        with open("/proc/vmstat") as file:
            values = dict(line.split() for line in file)
        return {name: int(values[name]) for name in self.COUNTS if name in values}

    def print(self):
        """table-pages: of all processes, more than before; joined, opened: on Cohort's kernel."""
        for name, value in self.read().items():
            metric(self.COUNTS[name][0], value - self.before[name], self.COUNTS[name][1])
