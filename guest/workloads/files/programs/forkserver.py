# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's forkserver."""

import os
import signal
import subprocess

from programs.run import PATIENCE, Failed, scratch, share, start


FORKSERVER = """
import multiprocessing, sys

PRELOAD = ("argparse asyncio base64 collections concurrent.futures configparser csv ctypes datetime "
           "decimal difflib email.message fractions hashlib html.parser http.client http.server inspect "
           "json logging lzma pickle random sqlite3 ssl statistics tarfile unittest urllib.request uuid "
           "xml.etree.ElementTree zipfile zlib").split()

def work(number):
    import csv, decimal, hashlib, io, json, re, sqlite3, zlib
    import xml.etree.ElementTree as tree
    rows = [{"id": i, "name": f"page{i * number}", "n": i % 17} for i in range(1, 300)]
    text = json.dumps(rows)
    assert json.loads(text) == rows
    assert zlib.decompress(zlib.compress(text.encode())) == text.encode()
    db = sqlite3.connect(":memory:")
    db.execute("create table t(id, name, n)")
    db.executemany("insert into t values(:id, :name, :n)", rows)
    groups = db.execute("select n, count(*) from t group by n").fetchall()
    out = io.StringIO()
    csv.writer(out).writerows(groups)
    root = tree.fromstring("<a>" + "".join(f"<b i='{g[0]}'>{g[1]}</b>" for g in groups) + "</a>")
    total = sum(decimal.Decimal(b.text) for b in root)
    assert total == len(rows)
    return hashlib.sha256((out.getvalue() + "".join(re.findall("[0-9]+", text))).encode()).hexdigest()

def member(number, barrier, queue):
    result = [work(number) for _ in range(ROUNDS)]
    queue.put(len(set(result)))
    # All are alive until all have worked.
    barrier.wait()

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    count = 16
    barrier, queue = context.Barrier(count + 1), context.Queue()
    members = [context.Process(target=member, args=(i + 1, barrier, queue)) for i in range(count)]
    for m in members:
        m.start()
    done = sum(queue.get() for _ in members)
    print("worked", flush=True)
    sys.stdin.readline()
    barrier.wait()
    for m in members:
        m.join()
    sys.exit(done != count)
"""


def forkserver():
    """Python's forkserver with 30 modules preloaded, 16 workers."""
    root = scratch("forkserver")
    path = f"{root}/forkserver_work.py"
    with open(path, "w") as file:
        file.write(f"ROUNDS = {share(5)}\n{FORKSERVER}")
    process = start(["/usr/bin/python3", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    text=True)
    try:
        yield process
        if process.stdout.readline() != "worked\n":
            raise Failed("forkserver: its workers failed")
        yield
        process.stdin.write("end\n")
        process.stdin.flush()
        if process.wait(PATIENCE):
            raise Failed(f"forkserver: ended with status {process.returncode}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
