# SPDX-License-Identifier: GPL-2.0-or-later
"""apache2 prefork."""

import contextlib
import os

from programs.run import Failed, connect, connected, in_parallel, read_all, scratch, share, start, stop, wait_for


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
