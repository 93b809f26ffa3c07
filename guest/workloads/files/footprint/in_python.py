# SPDX-License-Identifier: GPL-2.0-or-later
"""At each line that it reads: text, hashes, JSON, a database in memory, numbers, compression."""

import collections
import decimal
import hashlib
import json
import re
import sqlite3
import sys
import zlib


def work():
    with open("/etc/mime.types") as file:
        text = file.read()
    count = collections.Counter(re.findall(r"[a-z]{3,}", text))
    kept = json.loads(json.dumps({"count": count, "lines": text.splitlines()[:200]}, indent=1))
    digest = hashlib.sha256(zlib.compress(text.encode(), 6)).hexdigest()
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE words (word TEXT PRIMARY KEY, n INTEGER)")
        db.executemany("INSERT INTO words VALUES (?, ?)", kept["count"].items())
        rows = db.execute("SELECT n, count(*), max(word) FROM words GROUP BY n ORDER BY 2 DESC").fetchall()
    total = sum((decimal.Decimal(n) / 7 for n, *_ in rows), decimal.Decimal(0)).sqrt()
    return f"{digest} {total:.8f} {sorted(rows)[0]!r}"


for _ in sys.stdin:
    work()
    print("done", flush=True)
