# SPDX-License-Identifier: GPL-2.0-or-later
"""php-fpm, asked over FastCGI."""

import contextlib
import os
import struct

from programs.run import Failed, connect, connected, in_parallel, newest, read_all, scratch, share, start, stop, wait_for


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
