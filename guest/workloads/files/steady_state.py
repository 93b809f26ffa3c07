#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A run of a real program whose processes come from one parent, and its page tables.

    steady_state.py apache|php-fpm|postgresql|redis|forkserver|chromium [--modelled]

Each starts the program as a zygote (cohort-exec; without effect where the kernel's
mode is `never`), gives it a fixed amount of work, and prints what the kernel's
counters gained from its start (of the databases: from when their data is in place)
to the end of that work, and from the moment at which most of its processes were
alive, how many last-level page tables they used and shared. The work comes from
this process, so that no other client's faults are counted; only PostgreSQL has its
own, pgbench.

With --modelled the counted part is marked as the translation model's region of interest,
and there is a tenth of the work (of chromium all: it is its start).
"""

import concurrent.futures
import contextlib
import glob
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

COHORT_EXEC = "/lab/bin/cohort-exec"
LAB_MARK = "/lab/bin/lab-mark"
# Patience is for an emulated machine: what takes a second elsewhere takes a minute.
PATIENCE = 240

COUNTERS = {
    "ptp_alloc": "PTPs", "ptp_shared": "PTPs", "ptp_unshared_fault": "PTPs",
    "ptp_unshared_map": "PTPs", "ptp_unshared_unmap": "PTPs", "ptp_unshared_change": "PTPs",
    "ptp_left": "PTPs", "ptp_adopted": "PTPs", "pte_copied_fork": "PTEs",
    "pte_copied_unshare": "PTEs", "fault_file": "faults", "fault_filled": "PTEs",
}


# Under a translation model.
modelled = False


def share(amount):
    """Of an amount of work, what is done: a tenth under a model."""
    return max(amount // 10, 1) if modelled else amount


class Failed(Exception):
    """The program did not do what the run needs; the message says what."""


def metric(name, value, unit):
    print(f"metric {name} {value} {unit}", flush=True)


# --- the kernel's counters and tables ------------------------------------------------


def vmstat():
    """The counters of Cohort in /proc/vmstat: {name: value}, empty without Cohort."""
    values = {}
    with open("/proc/vmstat") as file:
        for line in file:
            name, value = line.split()
            if name.startswith("cohort_"):
                values[name.removeprefix("cohort_")] = int(value)
    return values


def fields(path):
    """The `Key: value` lines of a file under /proc, numbers only."""
    found = {}
    with open(path) as file:
        for line in file:
            key, _, value = line.partition(":")
            words = value.split()
            if words and words[0].isdigit():
                found[key] = int(words[0])
    return found


def upper_tables(pid):
    """An estimate of a process's tables above the last level, from its regions."""
    gigabytes = set()
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            span, perms = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            # Reservations have no tables until they are used, and then are split.
            if perms.startswith("---") or end - start >= 1 << 30:
                continue
            gigabytes.update(range(start >> 30, ((end - 1) >> 30) + 1))
    return len(gigabytes) + len({gb >> 9 for gb in gigabytes})


def tables(pid):
    """(last-level tables that a process uses, those that it shares)"""
    # VmPTE counts each shared table once, for the process that it is charged to.
    charged = fields(f"/proc/{pid}/status").get("VmPTE", 0) // 4 - upper_tables(pid)
    try:
        cohort = fields(f"/proc/{pid}/cohort")
    except FileNotFoundError:
        cohort = {}
    shared = cohort.get("SharedTables", 0)
    owned = cohort.get("OwnedTables", 0)
    return max(charged, 0) + shared - owned, shared


def family(root):
    """The process and all its descendants."""
    children = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            with open(stat) as file:
                text = file.read()
            pid, parent = int(text.split()[0]), int(text.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


class Sampler:
    """Looks at a program's tables now and then; keeps the fullest moment."""

    def __init__(self, root):
        self.root = root
        self.best = (0, 0, 0)  # processes, tables, shared
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def look(self):
        count = used = shared = 0
        for pid in family(self.root):
            # It may end meanwhile.
            with contextlib.suppress(OSError, ProcessLookupError):
                mine = tables(pid)
                used += mine[0]
                shared += mine[1]
                count += 1
        # Of equally full moments the last: most of the work has been done.
        if count >= self.best[0]:
            self.best = (count, used, shared)

    def watch(self):
        while not self.stop.wait(2):
            self.look()

    def finish(self):
        self.stop.set()
        self.thread.join()
        self.look()
        return self.best


class Window:
    """What the counters gained from begin() to end()."""

    before = None

    @classmethod
    def begin(cls):
        if modelled:
            subprocess.run([LAB_MARK, "start"], check=True)
        cls.before = vmstat()

    @classmethod
    def gained(cls):
        after = vmstat()
        if modelled:
            subprocess.run([LAB_MARK, "stop"], check=True)
        return {name: after[name] - value for name, value in cls.before.items()}


# --- starting, waiting, stopping -------------------------------------------------------


def start(command, counted=True, **options):
    """Start a program as a zygote, in a session of its own; its start is counted or is not."""
    if os.path.exists("/proc/self/cohort"):
        command = [COHORT_EXEC, *command]
    options.setdefault("stdin", subprocess.DEVNULL)
    if counted:
        Window.begin()
    return subprocess.Popen(command, start_new_session=True, **options)


def wait_for(what, ready, process):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failed(f"{what}: ended with status {process.returncode} before it was ready")
        with contextlib.suppress(OSError, Failed):
            if ready():
                return
        time.sleep(0.2)
    raise Failed(f"{what}: not ready after {PATIENCE} s")


def stop(process, sig=signal.SIGTERM):
    process.send_signal(sig)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def connected(address):
    with contextlib.closing(connect(address)):
        return True


def connect(address):
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
    else:
        sock = socket.socket()
    sock.settimeout(PATIENCE)
    sock.connect(address)
    return sock


def read_all(sock):
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)


def in_parallel(count, work):
    """Run work(0) to work(count - 1) at the same time; the first failure is raised."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(work, i) for i in range(count)]:
            future.result()


def newest(pattern):
    found = sorted(glob.glob(pattern))
    if not found:
        raise Failed(f"{pattern}: not here; is it installed?")
    return found[-1]


def scratch(name, owner=None):
    path = f"/tmp/{name}"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    if owner:
        shutil.chown(path, owner, owner)
    return path


# --- the programs: each a generator that yields its process once it runs, does the work
# --- when resumed, and stops the program when it is closed ---------------------------------


def apache():
    """Prefork with 16 children: 800 requests, files and a directory."""
    root = scratch("apache")
    os.makedirs(f"{root}/htdocs")
    for i in range(20):
        with open(f"{root}/htdocs/{i}.html", "w") as file:
            file.write("<p>page table</p>\n" * (200 + 40 * i))
    modules = "mpm_prefork authz_core dir mime autoindex alias deflate filter headers " \
        "expires rewrite setenvif negotiation env status ssl socache_shmcb proxy proxy_http " \
        "proxy_fcgi cgi dav dav_fs auth_basic authn_core authn_file authz_user session".split()
    with open(f"{root}/httpd.conf", "w") as file:
        for name in modules:
            path = f"/usr/lib/apache2/modules/mod_{name}.so"
            if not os.path.exists(path):
                raise Failed(f"{path}: not here; is apache2 installed?")
            file.write(f"LoadModule {name}_module {path}\n")
        file.write(f"""
ServerRoot {root}
DocumentRoot {root}/htdocs
ServerName localhost
Listen 127.0.0.1:8080
PidFile {root}/pid
ErrorLog {root}/error.log
Mutex file:{root}
TypesConfig /etc/mime.types
User www-data
Group www-data
StartServers 16
MinSpareServers 16
MaxSpareServers 16
MaxRequestWorkers 16
KeepAlive Off
AddOutputFilterByType DEFLATE text/html
<Directory {root}/htdocs>
    Options Indexes
    Require all granted
</Directory>
""")
    process = start(["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", f"{root}/httpd.conf"])
    address = ("127.0.0.1", 8080)
    try:
        wait_for("apache2", lambda: connected(address), process)
        yield process

        def client(number):
            for i in range(share(50)):
                path = "/" if i % 10 == 0 else f"/{(number + i) % 20}.html"
                with contextlib.closing(connect(address)) as sock:
                    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                 "Accept-Encoding: gzip\r\n\r\n".encode())
                    answer = read_all(sock)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise Failed(f"apache2: {path}: {answer[:60]!r}")

        in_parallel(16, client)
        yield
    finally:
        stop(process)


def fastcgi(sock, script):
    """Ask a FastCGI server for one page; the answer's body and header."""
    def record(kind, content):
        return struct.pack("!BBHHBx", 1, kind, 1, len(content), 0) + content

    def pair(name, value):
        return struct.pack("!BB", len(name), len(value)) + name.encode() + value.encode()

    params = pair("SCRIPT_FILENAME", script) + pair("REQUEST_METHOD", "GET") + \
        pair("SERVER_PROTOCOL", "HTTP/1.1")
    sock.sendall(record(1, struct.pack("!HB5x", 1, 0)) + record(4, params) + record(4, b"") +
                 record(5, b""))
    data, body = read_all(sock), b""
    while len(data) >= 8:
        _, kind, _, length, padding = struct.unpack("!BBHHBx", data[:8])
        if kind == 6:
            body += data[8:8 + length]
        data = data[8 + length + padding:]
    return body


PHP = r"""<?php
$words = [];
for ($i = 0; $i < 400; $i++) $words[] = md5("page$i");
$text = implode(' ', $words);
preg_match_all('/\b[a-f]\w+\d\b/', $text, $found);
usort($words, fn($a, $b) => strcmp(strrev($a), strrev($b)));
$json = json_decode(json_encode(['words' => $words, 'found' => count($found[0])]), true);
class Region { public function __construct(public int $start, public int $pages) {} }
$regions = array_map(fn($n) => new Region($n * 4096, $n), range(1, 200));
$sum = array_sum(array_map(fn($r) => $r->pages, $regions));
echo "cohort ", count($json['words']), " ", $sum, " ", strlen(serialize($regions)), " ",
     htmlspecialchars(date('Y', 0)), "\n";
"""


def php_fpm():
    """Eight workers, 400 requests for a script of strings, arrays, JSON and objects."""
    root = scratch("php")
    address = f"{root}/sock"
    with open(f"{root}/page.php", "w") as file:
        file.write(PHP)
    with open(f"{root}/fpm.conf", "w") as file:
        file.write(f"""
[global]
pid = {root}/pid
error_log = {root}/log
[www]
user = www-data
group = www-data
listen = {address}
listen.mode = 0666
pm = static
pm.max_children = 8
""")
    os.chmod(root, 0o755)
    process = start([newest("/usr/sbin/php-fpm[0-9]*"), "-F", "-y", f"{root}/fpm.conf"])
    try:
        wait_for("php-fpm", lambda: connected(address), process)
        yield process

        def client(_):
            for _ in range(share(50)):
                with contextlib.closing(connect(address)) as sock:
                    body = fastcgi(sock, f"{root}/page.php")
                if b"cohort 400 20100" not in body:
                    raise Failed(f"php-fpm: {body[:200]!r}")

        in_parallel(8, client)
        yield
    finally:
        stop(process)


# One row a page, 300 MB of the 512 MB of shared buffers; each of the 50 connections
# reads ranges of it and single rows.
POSTGRESQL_ROWS = 38_400
POSTGRESQL_WORK = f"""\
\\set a random(1, {POSTGRESQL_ROWS} - 400)
\\set b random(1, {POSTGRESQL_ROWS})
\\set c random(1, {POSTGRESQL_ROWS})
SELECT count(*), sum(octet_length(pad)) FROM rows WHERE id BETWEEN :a AND :a + 400;
SELECT pad FROM rows WHERE id = :b;
SELECT pad FROM rows WHERE id = :c;
UPDATE counters SET n = n + 1 WHERE id = 1 + :b % 100;
"""


@contextlib.contextmanager
def postgresql_server(connections):
    """A server with a 300 MB table in 512 MB of shared buffers: (process, its directory, its
    programs' directory, options to run a program as its user)."""
    root = scratch("postgresql", "postgres")
    programs = os.path.dirname(newest("/usr/lib/postgresql/*/bin/postgres"))
    user = dict(user="postgres", group="postgres", extra_groups=[], cwd="/tmp")
    with open(f"{root}/work.sql", "w") as file:
        file.write(POSTGRESQL_WORK)
    # The package's installation has made an empty cluster, which saves making one.
    version = programs.split("/")[-2]
    made = f"/var/lib/postgresql/{version}/main"
    if os.path.exists(f"{made}/PG_VERSION"):
        subprocess.run(["cp", "-a", made, f"{root}/data"], check=True)
    else:
        subprocess.run([f"{programs}/initdb", "-D", f"{root}/data", "--no-sync", "--locale=C",
                        "--encoding=UTF8"], check=True, stdout=subprocess.DEVNULL, **user)
    with open(f"{root}/hba", "w") as file:
        file.write("local all all trust\n")
    for empty in ("conf", "ident"):
        with open(f"{root}/{empty}", "w"):
            pass
    settings = {
        "config_file": f"{root}/conf", "hba_file": f"{root}/hba", "ident_file": f"{root}/ident",
        "shared_buffers": "512MB", "max_connections": str(connections + 10), "huge_pages": "off", "fsync": "off",
        "listen_addresses": "", "unix_socket_directories": root, "autovacuum": "off",
        "max_wal_size": "2GB", "checkpoint_timeout": "1h", "wal_level": "minimal",
        "max_wal_senders": "0", "max_parallel_workers_per_gather": "0", "jit": "off",
    }
    command = [f"{programs}/postgres", "-D", f"{root}/data"]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with open(f"{root}/log", "w") as log:
        process = start(command, counted=False, stderr=log, stdout=log, **user)

    def psql(statement):
        done = subprocess.run([f"{programs}/psql", "-h", root, "-qAtX", "-v", "ON_ERROR_STOP=1",
                               "-c", statement, "postgres"], capture_output=True, text=True, **user)
        if done.returncode:
            raise Failed(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    try:
        wait_for("postgresql", lambda: psql("SELECT 1") == "1", process)
        psql("CREATE TABLE rows (id int, pad text); ALTER TABLE rows ALTER pad SET STORAGE PLAIN;"
             f"INSERT INTO rows SELECT i, repeat(chr(97 + i % 26), 7000) FROM generate_series(1, {POSTGRESQL_ROWS}) i;"
             "ALTER TABLE rows ADD PRIMARY KEY (id);"
             "CREATE TABLE counters AS SELECT i AS id, 0 AS n FROM generate_series(1, 100) i;")
        # Rows are marked as committed when they are first read: not by each backend.
        psql("SELECT count(*) FROM rows")
        psql("VACUUM ANALYZE rows")
        yield process, root, programs, user
    finally:
        stop(process, signal.SIGINT)


def postgresql():
    """50 backends on 512 MB of shared buffers: reads of a 300 MB table, some writes."""
    with postgresql_server(50) as (process, root, programs, user):
        Window.begin()
        yield process
        each = share(20)
        done = subprocess.run([f"{programs}/pgbench", "-h", root, "-n", "-c", "50", "-j", "1", "-t", str(each),
                               "-f", f"{root}/work.sql", "postgres"], capture_output=True, text=True, **user)
        processed = f"number of transactions actually processed: {50 * each}/{50 * each}"
        if done.returncode or processed not in done.stdout:
            raise Failed(f"pgbench: {done.stdout}{done.stderr}")
        yield


def redis_command(*words):
    return f"*{len(words)}\r\n".encode() + b"".join(
        b"$%d\r\n%s\r\n" % (len(w), w) for w in (x if isinstance(x, bytes) else str(x).encode() for x in words))


def redis():
    """100,000 keys; three BGSAVEs, each under 4,000 writes."""
    root = scratch("redis")
    address = f"{root}/sock"
    process = start(["/usr/bin/redis-server", "--port", "0", "--unixsocket", address, "--dir", root,
                     "--save", "", "--appendonly", "no", "--daemonize", "no"],
                    counted=False, stdout=subprocess.DEVNULL)
    try:
        wait_for("redis-server", lambda: connected(address), process)
        sock = connect(address)
        lines = sock.makefile("rb")

        def ask(*words):
            sock.sendall(redis_command(*words))
            answer = lines.readline()
            if answer.startswith(b"$") and int(answer[1:]) >= 0:
                return lines.read(int(answer[1:]) + 2)[:-2]
            if answer.startswith(b"-"):
                raise Failed(f"redis: {answer.decode().strip()}")
            return answer

        def write(keys):
            for at in range(0, len(keys), 1000):
                part = keys[at:at + 1000]
                sock.sendall(b"".join(redis_command("SET", f"key:{k}", b"%d" % k * 64) for k in part))
                for _ in part:
                    if lines.readline() != b"+OK\r\n":
                        raise Failed("redis: SET was refused")

        def saving():
            return b"rdb_bgsave_in_progress:1" in ask("INFO", "persistence")

        keys = share(100_000)
        write(range(keys))
        Window.begin()
        yield process
        rng = random.Random(1)
        for _ in range(3):
            ask("BGSAVE")
            write([rng.randrange(keys) for _ in range(share(4_000))])
            deadline = time.monotonic() + PATIENCE
            while saving():
                if time.monotonic() > deadline:
                    raise Failed("redis: BGSAVE does not end")
                time.sleep(0.5)
        if b"rdb_last_bgsave_status:ok" not in ask("INFO", "persistence"):
            raise Failed("redis: BGSAVE failed")
        yield
    finally:
        stop(process)


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


CHROMIUM_PAGE = """<!doctype html><title>waiting</title><p id=p></p>%s<script>
let words = [];
for (let i = 0; i < 3000; i++) words.push((i * 2654435761 %% 65536).toString(36));
words.sort().reverse();
document.getElementById("p").textContent = JSON.stringify(words).length + " " + /z[0-9]+/.exec(words.join(" "));
fetch("/done");
</script>"""


def chromium():
    """Headless, a page and three frames of other sites, each in a renderer of its own."""
    import http.server

    binary = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if not binary:
        raise Failed("chromium-headless-shell: not here; is it installed?")
    root = scratch("chromium")
    done = threading.Semaphore(0)
    sites = ["main.test", "a.test", "b.test", "c.test"]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            site = (self.headers["Host"] or "").split(":")[0]
            if self.path == "/done":
                done.release()
                body = b""
            else:
                port = self.server.server_address[1]
                frames = "".join(f'<iframe src="http://{s}:{port}/"></iframe>' for s in sites[1:])
                body = (CHROMIUM_PAGE % (frames if site == sites[0] else "")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    process = start([
        binary, "--headless", "--no-sandbox", "--site-per-process", "--disable-gpu",
        "--disable-dev-shm-usage", "--host-resolver-rules=MAP *.test 127.0.0.1", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-hang-monitor",
        f"--user-data-dir={root}", "--remote-debugging-port=9222",
        f"http://{sites[0]}:{server.server_address[1]}/"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
        for i in range(len(sites)):
            if not done.acquire(timeout=PATIENCE * 2):
                raise Failed(f"chromium: only {i} of {len(sites)} sites were shown")
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        server.shutdown()


PROGRAMS = {
    "apache": apache,
    "php-fpm": php_fpm,
    "postgresql": postgresql,
    "redis": redis,
    "forkserver": forkserver,
    "chromium": chromium,
}


def main():
    global modelled
    if sys.argv[1:2] == [] or sys.argv[1] not in PROGRAMS or sys.argv[2:] not in ([], ["--modelled"]):
        sys.exit(f"usage: steady_state.py {'|'.join(PROGRAMS)} [--modelled]")
    modelled = len(sys.argv) > 2
    # Stacks of the default size would each take tables of their own.
    threading.stack_size(256 * 1024)
    began = time.monotonic()
    run = PROGRAMS[sys.argv[1]]()
    try:
        process = next(run)
        sampler = Sampler(process.pid)
        next(run)
        count, used, shared = sampler.finish()
        gained = Window.gained()
        if next(run, None) is not None:
            raise Failed("the run has more steps than two")
    except (Failed, OSError, subprocess.SubprocessError) as problem:
        run.close()
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
