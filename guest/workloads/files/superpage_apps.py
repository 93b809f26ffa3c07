#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""One program of Debian at work on memory of its own, measured as it is.

    superpage_apps.py [--modelled | --native N] PROGRAM [HEAP...]

The program runs alone, and its instructions and faults are printed; before it, if it has
not in this boot, once for nothing, so that it and its input are in memory. Of programs on
the Java machine each HEAP is a size of its heap in MB, and there is a run for each. What
pages its memory is in is decided by who starts this: the program inherits it.

Each run is a region of interest of the translation model. With --modelled there is a
quarter of the work (but on the Java machine, which has mostly itself to do). With --native the
program runs on a machine as it is, with N times the work, and its processor time is printed in
place of instructions. Exit status 4 says that the machine does not have the program.
"""

import argparse
import glob
import os
import shutil
import sys
import time

JAVA = "/usr/share/java"
NOT_THERE = 4

# Where inputs are, and how much there is to do, in quarters.
directory = "/tmp/superpage"
quarters = 4


def share(amount):
    """Of an amount of work, what is done."""
    return amount * quarters // 4


def metric(name, value, unit):
    print(f"metric {name} {value} {unit}", flush=True)


# --- inputs -------------------------------------------------------------------------


def path(name):
    return os.path.join(directory, name)


def write(name, text):
    with open(path(name), "w") as file:
        file.write(text)
    return path(name)


def prose(size):
    """Text of this size: the beginning of Python's own library."""
    text = bytearray()
    for source in sorted(glob.glob("/usr/lib/python3.*/*.py")):
        with open(source, "rb") as file:
            text += file.read()
        if len(text) >= size:
            break
    if len(text) < size:
        sys.exit(f"superpage_apps.py: Python's library has no {size} bytes")
    with open(path("prose"), "wb") as file:
        file.write(text[:size])
    return path("prose")


def c_source(functions):
    """A program in C: each function differs, calls the one before it and has loops to move."""
    parts = ["struct node { struct node *next; long key[8]; };"]
    for n in range(functions):
        parts.append(
            f"long f{n}(struct node *at, long x)\n{{\n"
            f"\tlong sum = x * {n + 3};\n"
            f"\tfor (int i = 0; i < {n % 7 + 2}; i++)\n"
            f"\t\tfor (struct node *p = at; p; p = p->next)\n"
            f"\t\t\tif (p->key[i & 7] % {n + 2} == (x ^ {n * 5 + 1}))\n"
            f"\t\t\t\tsum += p->key[(i + {n}) & 7] * x;\n"
            f"\t\t\telse\n\t\t\t\tp->key[i & 7] -= sum / {n % 5 + 1};\n"
            f"\tswitch (sum & 7) {{\n\tcase 1: return sum + x;\n\tcase 2: sum ^= {n};\n"
            f"\tcase 5: sum *= x + {n}; break;\n\tcase 6: return at ? at->key[{n % 8}] : x;\n\t}}\n"
            + (f"\treturn f{n - 1}(at, sum);\n}}\n" if n else "\treturn sum;\n}\n"))
    return write("source.c", "\n".join(parts))


def java_source(classes):
    """Classes that javac and ecj take: generic containers, inner classes, string switches."""
    parts = ["import java.util.*;\n"]
    for n in range(classes):
        parts.append(
            f"class C{n}<T extends Comparable<T>> {{\n"
            f"  private final Map<String, List<T>> all = new TreeMap<>();\n"
            f"  class Inner {{ int depth = {n}; T held; Inner(T held) {{ this.held = held; }} }}\n"
            f"  List<Inner> wrap(Collection<? extends T> from) {{\n"
            f"    List<Inner> made = new ArrayList<>();\n"
            f"    for (T one : from) if (one != null) made.add(new Inner(one));\n"
            f"    made.sort((a, b) -> a.held.compareTo(b.held));\n    return made;\n  }}\n"
            f"  int kind(String name) {{\n    switch (name) {{\n"
            f"    case \"a{n}\": return {n}; case \"b\": return all.size();\n"
            f"    default: return name.length() * {n + 1};\n    }}\n  }}\n"
            f"  void put(String key, T value) {{\n"
            f"    all.computeIfAbsent(key, k -> new ArrayList<>()).add(value);\n  }}\n}}\n")
    return write("Classes.java", "".join(parts))


PERL = r"""
while (<>) { for my $word (split /\W+/) { $count{$word}++; push @{$at{$word}}, $.; } }
for my $word (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count) {
    $sum += $count{$word} * scalar(grep { $_ & 1 } @{$at{$word}});
}
print "$sum\n";
"""

# Breadth first from a few nodes of a graph whose edges lead anywhere.
GRAPH = """
import sys
from collections import deque
nodes, seed, edges = int(sys.argv[1]), 1, []
for n in range(nodes):
    out = []
    for _ in range(4):
        seed = (seed * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        out.append((seed >> 33) % nodes)
    edges.append(out)
reached = 0
for start in (0, 1):
    far, todo = {start: 0}, deque([start])
    while todo:
        at = todo.popleft()
        for to in edges[at]:
            if to not in far:
                far[to] = far[at] + 1
                todo.append(to)
    reached += len(far) + max(far.values())
print(reached)
"""

SQL = """
CREATE TABLE item (id INTEGER PRIMARY KEY, owner INTEGER, name TEXT, price INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ROWS)
  INSERT INTO item SELECT i, i * 7919 % 10007, 'item ' || i * 104729 % 1000003, i * 31 % 977 FROM n;
CREATE INDEX by_owner ON item (owner);
CREATE INDEX by_name ON item (name);
SELECT count(*), sum(a.price) FROM item a JOIN item b ON b.owner = a.id WHERE a.id % 3 = 0;
SELECT sum(length(name)) FROM (SELECT name FROM item ORDER BY name DESC LIMIT 5000);
"""

# Trees, maps and strings of many small objects.
JAVASCRIPT = """
function tree(depth, n) {
    return depth ? { l: tree(depth - 1, n * 2), n: n, r: tree(depth - 1, n * 2 + 1) } : null;
}
function sum(t) { return t ? t.n % 7 + sum(t.l) + sum(t.r) : 0; }
var total = 0, kept = tree(12, 1), names = {};
for (var round = 0; round < 2; round++) total += sum(tree(11, round));
for (var i = 0; i < 5000; i++) names['k' + i * 7919 % 10007] = { at: i, text: 'v' + i };
for (var key in names) total += names[key].text.length;
print(total + sum(kept));
"""

# The same work for H2, whose generator of rows is a function.
H2 = """
CREATE TABLE item AS SELECT x AS id, MOD(x * 7919, 10007) AS owner,
  'item ' || MOD(x * 104729, 1000003) AS name, MOD(x * 31, 977) AS price
  FROM SYSTEM_RANGE(1, 2000);
CREATE INDEX by_owner ON item (owner);
CREATE INDEX by_name ON item (name);
SELECT count(*), sum(a.price) FROM item a JOIN item b ON b.owner = a.id WHERE MOD(a.id, 3) = 0;
SELECT sum(length(name)) FROM (SELECT name FROM item ORDER BY name DESC LIMIT 1000);
"""


# --- programs -----------------------------------------------------------------------


def java(heap, *rest):
    """The Java machine with a heap of one size, one thread to collect it, and one compiler."""
    return ["java", f"-Xms{heap}m", f"-Xmx{heap}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData", *rest]


# A command, and the file that is its input.
PROGRAMS = {
    "gzip": lambda: (["gzip", "-c"], prose(share(1 << 20))),
    "bzip2": lambda: (["bzip2", "-c"], prose(share(700 << 10))),
    "xz": lambda: (["xz", "-c"], prose(share(512 << 10))),
    "perl": lambda: (["perl", write("words.pl", PERL)], prose(share(512 << 10))),
    "gcc": lambda: (["gcc", "-O2", "-S", "-o", "/dev/null", c_source(share(12))], "/dev/null"),
    "python": lambda: (["python3", "-S", write("graph.py", GRAPH), str(share(200000))], "/dev/null"),
    "sqlite": lambda: (["sqlite3", ":memory:"], write("load.sql", SQL.replace("ROWS", str(share(30000))))),
}
JAVA_PROGRAMS = {
    "ecj": lambda heap: (java(heap, "-cp", f"{JAVA}/eclipse-jdt-core.jar",
                              "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn",
                              "-proc:none", "-d", "none", java_source(8)), "/dev/null"),
    "rhino": lambda heap: (java(heap, "-cp", f"{JAVA}/js.jar", "org.mozilla.javascript.tools.shell.Main",
                                "-opt", "-1", write("trees.js", JAVASCRIPT)), "/dev/null"),
    "h2": lambda heap: (java(heap, "-cp", f"{JAVA}/h2.jar", "org.h2.tools.RunScript", "-url",
                             "jdbc:h2:mem:", "-script", write("load.h2", H2)), "/dev/null"),
}


def run(command, source):
    """Runs a command; returns what it took: nanoseconds, and its resources."""
    null = os.open("/dev/null", os.O_WRONLY)
    opened = os.open(source, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, opened, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.close(opened)
    os.close(null)
    if status:
        sys.exit(f"superpage_apps.py: {' '.join(command)} ended with wait status {status:#x}")
    return end - start, usage


def measure(command, source):
    """Runs a command between marks, and prints what it took."""
    # The mark is the last thing before the program, in the process that becomes it.
    instructions, usage = run(["lab-mark", "start", "--", *command], source)
    os.waitpid(os.posix_spawnp("lab-mark", ["lab-mark", "stop"], os.environ), 0)
    metric("instructions", instructions, "instructions")
    metric("faults", usage.ru_minflt + usage.ru_majflt, "faults")


def measure_natively(command, source):
    """Runs a command on the machine as it is, and prints its processor time."""
    _, usage = run(command, source)
    metric("seconds", usage.ru_utime + usage.ru_stime, "s")
    metric("faults", usage.ru_minflt + usage.ru_majflt, "faults")


def main():
    global directory, quarters
    parser = argparse.ArgumentParser()
    parser.add_argument("--modelled", action="store_true")
    parser.add_argument("--native", type=int, metavar="N")
    parser.add_argument("--dir", default=directory)
    parser.add_argument("program")
    parser.add_argument("heaps", type=int, nargs="*")
    options = parser.parse_args()
    name, directory = options.program, options.dir
    if options.modelled:
        quarters = 1
    elif options.native:
        quarters = 4 * options.native
    os.makedirs(directory, exist_ok=True)
    if name in PROGRAMS and not options.heaps:
        runs = [PROGRAMS[name]()]
    elif name in JAVA_PROGRAMS and options.heaps:
        runs = [JAVA_PROGRAMS[name](heap) for heap in options.heaps]
    else:
        parser.error(f"{name} is none of {', '.join(PROGRAMS)}, or, with sizes of the heap, "
                     f"{', '.join(JAVA_PROGRAMS)}")
    if not shutil.which(runs[0][0][0]):
        print(f"superpage_apps.py: {runs[0][0][0]} is not there", file=sys.stderr)
        sys.exit(NOT_THERE)
    # Run once without measuring: afterwards all files are in memory, and nothing waits for the disk.
    if not os.path.exists(path(f"{name}.warm")):
        run(*runs[0])
        write(f"{name}.warm", "")
    for command, source in runs:
        if options.native:
            measure_natively(command, source)
        else:
            measure(command, source)


if __name__ == "__main__":
    main()
