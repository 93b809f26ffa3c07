#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which code applications run, and how much of it they have in common (EuroSys'16, section 2.3).

    code_footprint.py zygote|programs SECONDS

`zygote` starts twelve applications, forked from one zygote of libraries, and `programs` eight
programs, each by exec. All do their work once and stay. The kernel maps one page at a file fault,
so that a process's tables hold the pages of code that it ran: `cohort scan` counts them by where
they come from, and this program reads them once more, for the pairs of applications. Then the work
is repeated for so many seconds (`programs`: for each program) while `cohort scan --samples` finds
out which code runs.
"""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import struct
import subprocess
import sys
import time

from page_tables import family, metric
from programs.run import PATIENCE, Failed, connected, scratch, wait_for

COHORT = "/lab/bin/cohort"
FILES = "/lab/files"
PAGE = 4096
# Pages in 64 KB.
WINDOW = 16
# What a scan ends with: everything is known, or there was nothing to compare, as processes that
# were not forked from one another share nothing.
SCANNED = (0, 77)


# --- applications and programs that do their work once, and then again and again --------------


@contextlib.contextmanager
def applications():
    """Of the zygote: ({name: pid}, the zygote's pid, a function that has all of them go on)."""
    with subprocess.Popen(["/lab/bin/zygote", "footprint"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as zygote:
        found = {}
        for line in zygote.stdout:
            words = line.split()
            if words[:1] == ["ready"]:
                break
            if words[:1] == ["application"]:
                found[words[1]] = int(words[2])
            else:
                print(line, end="", flush=True)
        else:
            raise Failed("the zygote ended before its applications were ready")

        def go():
            zygote.stdin.write("\n")
            zygote.stdin.flush()

        try:
            yield found, zygote.pid, go
        finally:
            zygote.stdin.close()


class Talker:
    """A program that is told on its standard input to do its work, and says when it has."""

    def __init__(self, command, work, done="done", **options):
        self.work, self.done, self.name = work, done, command[0]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, **options)
        self.pid = self.process.pid

    def run(self):
        try:
            self.process.stdin.write(self.work)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        for line in self.process.stdout:
            if line.strip() == self.done:
                return
        raise Failed(f"{self.name} ended with status {self.process.wait()}")

    def stop(self):
        self.process.kill()
        self.process.communicate()


def server(name):
    """Start a server of instance.sh in a session of its own: it signals its group when it ends."""
    return subprocess.Popen(["sh", f"{FILES}/instance.sh", name], env={**os.environ, "INSTANCE": "1"},
                            stderr=subprocess.DEVNULL, start_new_session=True)


class Redis:
    """redis-server, asked by redis-cli."""

    def __init__(self):
        path = f"{scratch('redis')}/sock"
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", ""],
                                        stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        wait_for("redis-server", lambda: connected(path), self.process)
        keys = range(200)
        work = [f"SET key:{k} {'v' * k}" for k in keys] + [f"GET key:{k}" for k in keys]
        work += [f"RPUSH list {k * 7919 % 200}" for k in keys] + ["SORT list"] * 40 + ["LRANGE list 0 -1"] * 40
        work += [f"ZADD set {k * 7919 % 200} m{k}" for k in keys] + ["ZRANGE set 0 -1 WITHSCORES"] * 40
        work += [f"HSET hash f{k} {k}" for k in keys] + ["HGETALL hash"] * 40 + ["EVAL 'return #KEYS' 1 a"] * 20
        work += ["DEL list set hash", "ECHO done", ""]
        self.client = Talker(["redis-cli", "-s", path], "\n".join(work))
        self.run = self.client.run

    def stop(self):
        self.client.stop()
        self.process.kill()
        self.process.wait()


class Apache:
    """apache2 prefork, and its children, of which any answers."""

    def __init__(self):
        self.root = server("apache2")
        wait_for("apache2", lambda: connected(("127.0.0.1", 8001)), self.root)
        self.run()
        self.pids = family(self.root.pid)[1:]
        # The one that has answered most.
        self.pid = max(self.pids, key=lambda pid: len(code(pid)))

    def run(self):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", 8001, timeout=PATIENCE)) as connection:
            for path in ["/", "/nothing-here", "/index.html"] * 20:
                connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
                connection.getresponse().read()

    def stop(self):
        self.root.terminate()
        self.root.wait()


class Postgresql:
    """A backend of PostgreSQL, asked by psql."""

    WORK = """
DROP TABLE IF EXISTS t;
CREATE TABLE t AS SELECT i AS id, md5(i::text) AS word, i * 7919 % 1000 AS n FROM generate_series(1, 2000) i;
CREATE INDEX ON t (n);
SELECT n % 10, count(*), max(word) FROM t GROUP BY 1 ORDER BY 2 DESC;
SELECT count(*) FROM t a JOIN t b USING (n) WHERE a.word LIKE 'a%';
UPDATE t SET n = n + 1 WHERE id % 5 = 0;
SELECT 'done';
"""

    def __init__(self):
        subprocess.run(["sh", f"{FILES}/instance.sh", "clusters", "1"], check=True)
        path = "/run/cluster/1/data"
        self.root = server("postgresql")
        wait_for("postgresql", lambda: connected(f"{path}/.s.PGSQL.5432"), self.root)
        before = set(family(self.root.pid))
        self.client = Talker(["psql", "-h", path, "-U", "postgres", "-qAtX", "postgres"], self.WORK)
        self.run = self.client.run
        self.run()
        new = set(family(self.root.pid)) - before
        self.pid = max(new, key=lambda pid: len(code(pid)))

    def stop(self):
        self.client.stop()
        self.root.terminate()
        self.root.wait()


def interpreter(*command):
    """An interpreter that reads lines and does its script's work at each."""
    return lambda: Talker(list(command), "\n")


PROGRAMS = {
    "bash": interpreter("bash", f"{FILES}/footprint/in_bash.bash"),
    "perl": interpreter("perl", f"{FILES}/footprint/in_perl.pl"),
    "python3": interpreter("python3", f"{FILES}/footprint/in_python.py"),
    "node": interpreter("node", f"{FILES}/footprint/in_node.js"),
    "java": interpreter("java", "-cp", "/usr/share/java/js.jar", "org.mozilla.javascript.tools.shell.Main",
                        f"{FILES}/footprint/in_rhino.js"),
    "redis": Redis,
    "apache2": Apache,
    "postgresql": Postgresql,
}


# --- pages of code ---------------------------------------------------------------------------


def regions(pid):
    """Those that hold code of a file: (first page, behind the last, page of the file, file, path)."""
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            words = line.split(maxsplit=5)
            if words[1][2:] != "xp" or words[4] == "0":
                continue
            start, end = (int(word, 16) // PAGE for word in words[0].split("-"))
            yield start, end, int(words[2], 16) // PAGE, (words[3], words[4]), words[5].strip()


def code(pid):
    """The pages of code in a process's tables: {page of its addresses: (file, page of the file)}."""
    found = {}
    with open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        for start, end, offset, file, _ in regions(pid):
            pagemap.seek(start * 8)
            entries = struct.unpack(f"{end - start}Q", pagemap.read((end - start) * 8))
            found |= {start + at: (file, offset + at) for at, entry in enumerate(entries) if entry >> 63}
    return found


def scan(pids, *options):
    """What a scan finds of each of these processes: {pid: group}."""
    command = [COHORT, "scan", "--json", "--by", "process", "--pid", ",".join(map(str, pids)), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in SCANNED:
        raise Failed(f"cohort scan ended with status {done.returncode}: {done.stderr}")
    return {group["pids"][0]: group for group in json.loads(done.stdout)["groups"]}


def watch(program, seconds):
    """Samples of a program's processes while it does its work."""
    pids = getattr(program, "pids", [program.pid])
    command = [COHORT, "scan", "--json", "--by", "machine", "--pid", ",".join(map(str, pids)), "--samples", seconds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watcher:
        # Its output is larger than a pipe and comes at its end.
        reader = concurrent.futures.ThreadPoolExecutor(1)
        output = reader.submit(watcher.stdout.read)
        while not output.done():
            program.run()
    if watcher.returncode not in SCANNED:
        raise Failed(f"cohort scan of samples ended with status {watcher.returncode}")
    return json.loads(output.result())["total"]["code"]["sampled"]


def percent(part, whole):
    return round(100 * part / whole, 3) if whole else 0


def print_each(what, name, value, unit):
    metric(what, value, unit)
    metric(f"{what}-{name}", value, unit)


def print_pages(names, found, first):
    """Figure 2 and what is counted beside it; `found` is the scan's, `first` the zygote's process."""
    pages = {pid: code(pid) for pid in names}
    differ = 0
    for pid, name in names.items():
        origins = found[pid]["code"]["pages"]
        total = sum(origins.values())
        differ += abs(total - origins["generated"] - len(pages[pid]))
        print_each("pages", name, len(pages[pid]), "pages")
        for origin, count in origins.items():
            print_each(f"pages-{origin}", name, percent(count, total), "%")
        own = os.readlink(f"/proc/{pid}/exe")
        mapped = {file: path for *_, file, path in regions(pid) if path != own}
        run = {file for file, _ in pages[pid].values()}
        print_each("libraries-linked", name, len(mapped), "libraries")
        print_each("libraries-invoked", name, len(run & mapped.keys()), "libraries")
    metric("pages-counted-otherwise", differ, "pages")
    print_overlap(names, pages, first)
    return pages


def print_overlap(names, pages, first):
    """Table 2: of the first one's pages of code, the per cent that the second one has as well."""
    inherited = {file for *_, file, _ in regions(first)} if first else set()
    shared = {}
    for pid in names:
        own = os.readlink(f"/proc/{pid}/exe")
        program = {file for *_, file, path in regions(pid) if path == own}
        shared[pid] = {page for page in pages[pid].values() if page[0] not in program}
    for one, other in itertools.permutations(names, 2):
        both = shared[one] & shared[other]
        preloaded = [page for page in both if page[0] in inherited]
        metric("overlap", percent(len(both), len(pages[one])), "%")
        metric("overlap-preloaded", percent(len(preloaded), len(pages[one])), "%")
        metric(f"overlap-{names[one]}-with-{names[other]}", percent(len(both), len(pages[one])), "%")


def print_windows(names, found):
    """Figure 4: pages of libraries that were not run, in windows of 64 KB with one that was."""
    counts = [0] * (WINDOW + 1)
    for pid, name in names.items():
        small = [kind["small"] for kind in found[pid]["larger_pages"] if kind["kind"] == "library"]
        windows, pages = (sum(part[key] for part in small) for key in ("windows", "pages"))
        for part in small:
            counts = [a + b for a, b in zip(counts, part["sixteenths"])]
        print_each("memory-4k", name, pages * PAGE / 1e6, "MB")
        print_each("memory-64k", name, windows * WINDOW * PAGE / 1e6, "MB")
    for untouched in range(WINDOW):
        most = sum(counts[WINDOW - untouched:])
        metric(f"untouched-at-most-{untouched}", percent(most, sum(counts)), "%")


def print_union(pages, first):
    """The same of all applications at once: preloaded code lies at the same addresses in each."""
    run = set()
    own = os.readlink(f"/proc/{first}/exe")
    for start, end, _, _, path in regions(first):
        if path != own:
            for process in pages.values():
                run |= {page for page in process if start <= page < end}
    windows = {}
    for page in run:
        windows[page // WINDOW] = windows.get(page // WINDOW, 0) + 1
    for count in windows.values():
        metric("union-untouched", WINDOW - count, "pages")
    metric("union-memory-4k", len(run) * PAGE / 1e6, "MB")
    metric("union-memory-64k", len(windows) * WINDOW * PAGE / 1e6, "MB")


def print_objects(first):
    """Sizes of the code of preloaded objects."""
    sizes = {}
    for start, end, _, file, _ in regions(first):
        sizes[file] = sizes.get(file, 0) + (end - start) * PAGE // 1024
    for size in sizes.values():
        metric("object-size", size, "KB")


def print_samples(name, sampled):
    """Table 1 and Figure 3."""
    origins = sampled["instructions"]
    user = sum(origins.values()) + sampled["elsewhere"]
    print_each("samples", name, user + sampled["kernel"], "samples")
    print_each("instructions-user", name, percent(user, user + sampled["kernel"]), "%")
    for origin, count in (*origins.items(), ("elsewhere", sampled["elsewhere"])):
        print_each(f"instructions-{origin}", name, percent(count, user), "%")


# --- the two ---------------------------------------------------------------------------------


def zygote(seconds):
    with applications() as (found, first, go):
        names = {pid: name for name, pid in found.items()}
        everything = scan([first, *names])
        pages = print_pages(names, everything, first)
        print_windows(names, everything)
        print_union(pages, first)
        print_objects(first)
        go()
        sampled = scan([first, *names], "--samples", seconds)
        for pid, name in names.items():
            print_samples(name, sampled[pid]["code"]["sampled"])


def programs(seconds):
    running = {}
    try:
        for name, start in PROGRAMS.items():
            running[name] = start()
            running[name].run()
        names = {program.pid: name for name, program in running.items()}
        everything = scan(list(names))
        print_pages(names, everything, None)
        print_windows(names, everything)
        for name, program in running.items():
            print_samples(name, watch(program, seconds))
    finally:
        for program in running.values():
            program.stop()


def main():
    began = time.monotonic()
    if len(sys.argv) != 3 or sys.argv[1] not in ("zygote", "programs"):
        sys.exit("usage: code_footprint.py zygote|programs SECONDS")
    try:
        {"zygote": zygote, "programs": programs}[sys.argv[1]](sys.argv[2])
    except (Failed, OSError, subprocess.SubprocessError) as problem:
        sys.exit(f"code_footprint.py: {problem}")
    metric("seconds", round(time.monotonic() - began, 1), "s")


if __name__ == "__main__":
    main()
