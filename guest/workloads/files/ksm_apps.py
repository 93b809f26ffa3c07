#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A zygote of Python and the applications that are forked from it.

    ksm_apps.py SOCKET

As a phone's: the zygote has loaded what all use (its framework), and forks for each
line NAME on its standard input. The child loads what it alone needs, starts, connects
to SOCKET and says its name and process. Then it does one piece of work for each `use N`
and answers `done`, and ends at `quit`. What is in its memory is what the interpreter,
the standard library and the application's own data make of it: the texts and sources
of the Debian that it runs on, and what its user does, which N stands for.
"""

import gc
import os
import random
import socket
import sys

# The framework, which the zygote loads.
FRAMEWORK = """
    argparse array ast asyncio base64 bisect calendar collections configparser contextlib copy
    csv ctypes datetime decimal difflib email.message email.policy fractions functools gettext
    hashlib heapq html.parser http.client inspect io json locale logging math multiprocessing
    operator pathlib pickle queue random re selectors shlex shutil signal socket sqlite3 ssl
    statistics string struct subprocess tempfile textwrap threading time traceback types typing
    unittest urllib.request uuid weakref xml.etree.ElementTree zipfile zlib
""".split()

LICENCES = "/usr/share/common-licenses"
STDLIB = os.path.dirname(os.__file__)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def licence(n):
    """One of the longer texts that each Debian has."""
    names = sorted(name for name in os.listdir(LICENCES) if not os.path.islink(f"{LICENCES}/{name}"))
    return text_of(f"{LICENCES}/{names[n % len(names)]}")


def source(n):
    """One of the sources of Python's own library."""
    names = sorted(name for name in os.listdir(STDLIB) if name.endswith(".py"))
    return text_of(f"{STDLIB}/{names[n % len(names)]}")


class Phone:
    """Contacts and calls in a database."""

    def __init__(self):
        import sqlite3
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table contact(id integer primary key, name text, number text)")
        self.db.execute("create table call(at integer, contact integer)")
        words = sorted(set(licence(0).split()))
        self.db.executemany("insert into contact(name, number) values(?, ?)",
                            ((word, f"+{i:09}") for i, word in enumerate(words)))
        self.at = 0

    def use(self, rng):
        for _ in range(20):
            self.at += 1
            self.db.execute("insert into call values(?, ?)", (self.at, rng.randrange(500)))
        self.shown = self.db.execute("select name, count(*) from call join contact on contact.id = contact "
                                     "group by name order by 2 desc limit 50").fetchall()


class Calendar:
    """A year's pages, and appointments."""

    def __init__(self):
        import calendar
        import zoneinfo
        self.zone = zoneinfo.ZoneInfo("UTC")
        self.pages = [calendar.HTMLCalendar().formatmonth(2026, month) for month in range(1, 13)]
        self.entries = {}

    def use(self, rng):
        import datetime
        day = datetime.datetime(2026, 1, 1, tzinfo=self.zone) + datetime.timedelta(days=rng.randrange(365))
        for hour in range(24):
            self.entries.setdefault((day + datetime.timedelta(hours=hour)).isoformat(), []).append(f"meeting {hour}")


class Mail:
    """A mailbox: messages that are parsed, and answered."""

    def __init__(self):
        import email.generator
        import email.parser
        import mailbox
        self.format, self.parser = mailbox.mboxMessage, email.parser.Parser()
        self.box = []
        for n in range(20):
            self.fetch(n)

    def fetch(self, n):
        body = licence(n)[n * 100:n * 100 + 6000]
        self.box.append(self.parser.parsestr(
            f"From: a{n}@example.org\nTo: me@example.org\nSubject: message {n}\nMIME-Version: 1.0\n"
            f"Content-Type: text/plain\n\n{body}"))

    def use(self, rng):
        self.fetch(rng.randrange(1000))
        seen = self.box[rng.randrange(len(self.box))]
        answer = self.format()
        answer["To"], answer["Subject"] = seen["From"], "Re: " + seen["Subject"]
        answer.set_payload("".join(f"> {line}\n" for line in seen.get_payload().splitlines()))
        self.box.append(answer)


class News:
    """Feeds: XML in, a tree of articles."""

    def __init__(self):
        import xml.dom.minidom
        import xml.etree.ElementTree
        self.dom, self.tree = xml.dom.minidom, xml.etree.ElementTree
        self.use(random.Random(0))

    def use(self, rng):
        paragraphs = [p for p in licence(rng.randrange(8)).replace("\f", "").split("\n\n") if p.strip()][:60]
        channel = self.tree.Element("channel")
        for i, p in enumerate(paragraphs):
            item = self.tree.SubElement(channel, "item", id=str(i))
            self.tree.SubElement(item, "title").text = p.split("\n")[0]
            self.tree.SubElement(item, "description").text = p
        self.feed = self.tree.fromstring(self.tree.tostring(channel))
        self.shown = self.dom.parseString("<p/>" if not paragraphs else self.tree.tostring(self.feed[0]))


class Browser:
    """Pages of documentation, parsed to a tree of elements."""

    def __init__(self):
        import html
        import html.parser
        import http.cookies
        import urllib.robotparser
        self.html, self.cookies, self.robots = html, http.cookies.SimpleCookie(), urllib.robotparser
        self.history = []
        self.use(random.Random(0))

    def use(self, rng):
        elements = []

        class Page(self.html.parser.HTMLParser):
            def handle_starttag(self, tag, attrs):
                elements.append((tag, dict(attrs)))

            def handle_data(self, data):
                elements.append(data)

        n = rng.randrange(200)
        lines = self.html.escape(source(n)).splitlines()[:200]
        Page().feed("<html><body>" + "".join(f"<p id='l{i}'>{x}</p>" for i, x in enumerate(lines)) + "</body></html>")
        self.cookies[f"visit{n}"] = str(len(elements))
        self.history = (self.history + [elements])[-3:]


class Map:
    """The shortest ways over a grid of streets."""

    SIZE = 60

    def __init__(self):
        import cmath
        import heapq
        self.cmath, self.heapq = cmath, heapq
        rng = random.Random(7)
        self.cost = [[rng.randrange(1, 10) for _ in range(self.SIZE)] for _ in range(self.SIZE)]

    def use(self, rng):
        start = rng.randrange(self.SIZE), rng.randrange(self.SIZE)
        self.far, todo = {start: 0}, [(0, start)]
        while todo:
            far, (x, y) = self.heapq.heappop(todo)
            if far > self.far[x, y]:
                continue
            for u, v in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                if 0 <= u < self.SIZE and 0 <= v < self.SIZE:
                    way = far + self.cost[u][v]
                    if way < self.far.get((u, v), 1 << 30):
                        self.far[u, v] = way
                        self.heapq.heappush(todo, (way, (u, v)))


class Market:
    """A shop: a catalogue as JSON, prices, a basket."""

    def __init__(self):
        import decimal
        import json
        import secrets
        self.money, self.session = decimal.Decimal, secrets
        words = licence(1).split()
        self.catalogue = json.loads(json.dumps(
            [{"id": i, "name": " ".join(words[i:i + 3]), "price": f"{i % 90}.{i % 100:02}"} for i in range(1500)]))
        self.basket = []

    def use(self, rng):
        for _ in range(30):
            self.basket.append(self.catalogue[rng.randrange(len(self.catalogue))])
        self.total = sum((self.money(item["price"]) for item in self.basket), self.money(0))
        self.shown = sorted(self.catalogue, key=lambda item: item["price"])[:100]


class Packages:
    """Another shop: the packages of this Debian, and a search."""

    def __init__(self):
        import re
        import tarfile
        self.re, self.tar = re, tarfile
        self.entries = [dict(re.findall(r"^([A-Z][\w-]*): (.*)$", entry, re.M))
                        for entry in text_of("/var/lib/dpkg/status").split("\n\n")[:250]]

    def use(self, rng):
        word = rng.choice(["lib", "data", "python", "core", "common"])
        self.found = [entry for entry in self.entries if self.re.search(word, entry.get("Package", ""))]
        self.sizes = sorted(self.found, key=lambda entry: int(entry.get("Installed-Size", 0)))


class FourInARow:
    """A game: a search for the best move."""

    def __init__(self):
        import copy
        import enum
        self.copy, self.player = copy, enum.Enum("Player", "ME YOU")
        self.board, self.seen = [[] for _ in range(7)], {}

    def best(self, depth, me):
        key = tuple(map(tuple, self.board)), depth, me
        if key in self.seen or not depth:
            return self.seen.get(key, sum(len(c) * (3 - abs(3 - i)) for i, c in enumerate(self.board)))
        values = []
        for column in self.board:
            if len(column) < 6:
                column.append(me)
                values.append(-self.best(depth - 1, not me))
                column.pop()
        self.seen[key] = max(values, default=0)
        return self.seen[key]

    def use(self, rng):
        if len(self.seen) > 5000:
            self.seen.clear()
        if sum(map(len, self.board)) > 30:
            self.board = [[] for _ in range(7)]
        free = [column for column in self.board if len(column) < 6]
        rng.choice(free).append(False)
        self.best(3, True)


class Life:
    """A game that plays itself."""

    def __init__(self):
        import collections
        import colorsys
        self.counter, self.colour = collections.Counter, colorsys.hsv_to_rgb
        rng = random.Random(3)
        self.alive = {(rng.randrange(50), rng.randrange(50)) for _ in range(600)}

    def use(self, rng):
        self.alive.add((rng.randrange(50), rng.randrange(50)))
        for _ in range(3):
            near = self.counter(((x + dx) % 50, (y + dy) % 50) for x, y in self.alive
                                for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)
            self.alive = {cell for cell, n in near.items() if n == 3 or (n == 2 and cell in self.alive)}
        self.picture = [self.colour(x / 50, 1, y / 50) for x, y in sorted(self.alive)]


class Movie:
    """A stream that is unpacked into frames, a few of which are kept."""

    def __init__(self):
        import lzma
        import wave
        self.lzma, self.wave = lzma, wave
        self.stream = lzma.compress((licence(0) * 20)[:300_000].encode(), preset=0)
        self.frames = []

    def use(self, rng):
        data = self.lzma.decompress(self.stream)
        at = rng.randrange(len(data) - 65536)
        self.frames = (self.frames + [data[at:at + 65536]])[-8:]


class Radio:
    """A stream of sound: mixed, packed, sent on."""

    def __init__(self):
        import array
        import base64
        import bz2
        self.array, self.base64, self.bz2 = array.array, base64, bz2
        self.buffers = []

    def use(self, rng):
        tone = rng.randrange(1, 50)
        wave = self.array("h", ((i * tone) % 4096 - 2048 for i in range(8000)))
        self.buffers = (self.buffers + [self.base64.b64encode(self.bz2.compress(wave.tobytes(), 1)), wave])[-12:]


class Timeline:
    """What others have written: JSON, kept as objects, with what has changed."""

    def __init__(self):
        import dataclasses
        import difflib
        import json
        self.difflib, self.json = difflib, json
        self.post = dataclasses.make_dataclass("Post", ["id", "text", "likes"])
        self.posts, self.seen = [], ""
        self.use(random.Random(0))

    def use(self, rng):
        lines = licence(rng.randrange(8)).splitlines()
        start = rng.randrange(max(len(lines) - 100, 1))
        for i, line in enumerate(self.json.loads(self.json.dumps(lines[start:start + 100]))):
            self.posts.append(self.post(i, line, rng.randrange(100)))
        self.posts = self.posts[-800:]
        text = "\n".join(post.text for post in self.posts[-20:])
        self.changes = list(self.difflib.unified_diff(self.seen.splitlines(), text.splitlines()))
        self.seen = text


class Gallery:
    """Pictures: made, packed as PNG does, and their thumbnails."""

    def __init__(self):
        import binascii
        import struct
        import zlib
        self.binascii, self.struct, self.zlib = binascii, struct, zlib
        self.pictures, self.thumbnails = [], []
        for n in range(6):
            self.add(n)

    def add(self, n):
        rows = [bytes((x * y + n) & 255 for x in range(128)) for y in range(128)]
        data = self.zlib.compress(b"".join(b"\0" + row for row in rows))
        head = self.struct.pack(">II5B", 128, 128, 8, 0, 0, 0, 0)
        self.pictures.append(head + data + self.struct.pack(">I", self.binascii.crc32(data)))
        self.thumbnails.append([row[::8] for row in rows[::8]])

    def use(self, rng):
        self.add(rng.randrange(256))
        self.pictures = self.pictures[-16:]
        self.shown = self.zlib.decompress(rng.choice(self.pictures)[13:-4])


class Alarm:
    """A clock, which does next to nothing."""

    def __init__(self):
        import sched
        self.clock = sched.scheduler()
        self.rings = []

    def use(self, rng):
        self.rings.append(self.clock.enter(3600 + rng.randrange(3600), 1, print))


class Editor:
    """Source text: tokens, a syntax tree, what is to be highlighted."""

    def __init__(self):
        import ast
        import io
        import tokenize
        self.ast, self.io, self.tokenize = ast, io, tokenize
        self.use(random.Random(0))

    def use(self, rng):
        self.text = "\n".join(source(rng.randrange(150)).splitlines()[:150])
        try:
            self.tokens = list(self.tokenize.generate_tokens(self.io.StringIO(self.text).readline))
            self.tree = self.ast.parse(self.text)
        # The part of the text may end within a statement.
        except (SyntaxError, self.tokenize.TokenError):
            self.tree = None


class Spreadsheet:
    """Rows of numbers, their sums and means, written out as text."""

    def __init__(self):
        import csv
        import io
        import statistics
        self.csv, self.io, self.statistics = csv, io, statistics
        self.rows = [[str(row * column % 97) for column in range(1, 9)] for row in range(300)]

    def use(self, rng):
        for _ in range(20):
            rng.choice(self.rows)[rng.randrange(8)] = str(rng.randrange(1000))
        columns = [list(map(int, column)) for column in zip(*self.rows)]
        self.foot = [(sum(column), round(self.statistics.fmean(column), 2)) for column in columns]
        with self.io.StringIO() as file:
            self.csv.writer(file).writerows(self.rows)
            self.saved = file.getvalue()


class Dictionary:
    """Words in order, to be looked up, misspelt too."""

    def __init__(self):
        import bisect
        import difflib
        import unicodedata
        self.bisect, self.difflib = bisect.bisect_left, difflib
        words = {word.strip(".,;:()\"'").lower() for n in range(8) for word in licence(n).split()}
        self.words = sorted(unicodedata.normalize("NFC", word) for word in words if word.isalpha())
        self.found = {}

    def use(self, rng):
        for _ in range(30):
            word = rng.choice(self.words)
            at = self.bisect(self.words, word[:-1] or word)
            self.found[word] = self.difflib.get_close_matches(word[:-1], self.words[at:at + 40])


class Archive:
    """Files in an archive, which is listed and added to."""

    def __init__(self):
        import fnmatch
        import io
        import zipfile
        self.match, self.zip, self.file = fnmatch.filter, zipfile.ZipFile, io.BytesIO()
        self.seen = 0
        for n in range(5):
            self.add(n)

    def add(self, n):
        with self.zip(self.file, "a", 8) as archive:
            archive.writestr(f"{self.seen}-{n}.py", source(n)[:20_000])
        self.seen += 1

    def use(self, rng):
        if self.seen > 40:
            self.file.truncate(0)
            self.seen = 0
        self.add(rng.randrange(150))
        with self.zip(self.file) as archive:
            self.shown = {name: archive.getinfo(name).CRC for name in self.match(archive.namelist(), "*.py")}


class Chat:
    """Messages, signed, wrapped to the width of a screen and kept."""

    def __init__(self):
        import hmac
        import textwrap
        import uuid
        self.sign, self.wrap, self.uuid = hmac.digest, textwrap.wrap, uuid.UUID
        self.lines = [line.strip() for line in licence(2).splitlines() if line.strip()]
        self.messages = []

    def use(self, rng):
        for _ in range(25):
            text = " ".join(rng.choices(self.lines, k=3))
            self.messages.append((self.uuid(int=rng.getrandbits(128)), self.sign(b"key", text.encode(), "sha256"),
                                  self.wrap(text, 40)))
        self.messages = self.messages[-400:]


APPS = {app.__name__.lower(): app for app in (
    Phone, Calendar, Mail, News, Browser, Map, Market, Packages, FourInARow, Life, Movie, Radio,
    Timeline, Gallery, Alarm, Editor, Spreadsheet, Dictionary, Archive, Chat)}


def comm(name):
    """The name of the process, by which the kernel knows an application."""
    with open("/proc/self/comm", "w") as file:
        file.write(name)


def application(name, address):
    comm(name)
    app = APPS[name]()
    control = socket.socket(socket.AF_UNIX)
    control.connect(address)
    with control, control.makefile("rw") as lines:
        print(name, os.getpid(), file=lines, flush=True)
        for line in lines:
            word, _, n = line.strip().partition(" ")
            if word == "quit":
                break
            app.use(random.Random(int(n)))
            print("done", file=lines, flush=True)


def main():
    address = sys.argv[1]
    for module in FRAMEWORK:
        __import__(module)
    comm("zygote")
    # As servers that fork do: the collector then writes to no object from before the fork.
    gc.collect()
    gc.freeze()
    print("zygote", os.getpid(), flush=True)
    for line in sys.stdin:
        if os.fork() == 0:
            status = 1
            try:
                application(line.strip(), address)
                status = 0
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)


if __name__ == "__main__":
    import signal
    # No process waits for the applications; they report on their socket.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    main()
