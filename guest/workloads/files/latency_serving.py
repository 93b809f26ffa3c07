#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers in containers, two per core, each with a client of its own (ISCA'20, section VI): see
experiments/latency-serving.toml.

    latency_serving.py apache|lmdb|rocksdb WARM REQUESTS [--cores N] [--label LABEL] [--records N]

Each client runs on its server's core. It sends WARM requests and then, in the region, REQUESTS: keys by
Zipf's law with 0.99, of which with the stores 5 of 100 are updates (YCSB, workload B). Which keys are popular is the
same for all clients. apache's records are files of 16 KB, those of the stores have 1,000 bytes.

Metrics: containers; requests, of all clients in the region; table-pages, pages of page tables that all
containers need; joined, opened."""

import argparse
import array
import itertools
import os
import random
import shutil
import subprocess
import sys
import time

from crun_containers import Container, Tables, mark, memory_at
from page_tables import metric

CONTAINERS = 2	# per core
DATA = "/srv/data"
BIN = "/usr/local/lib/serving"
UPDATE = 1 << 31
FILE = 16 << 10
FIRST_PORT = 8001
WWW_DATA = 33


def requests(number, args, updates):
    """Writes the requests of one client, and says where."""
    dice = random.Random(number)
    weights = list(itertools.accumulate(rank ** -0.99 for rank in range(1, args.records + 1)))
    path = f"{DATA}/requests-{number}"
    ranks = dice.choices(range(args.records), cum_weights=weights, k=args.warm + args.requests)
    # An odd factor puts popular records far from one another.
    keys = [rank * 2654435761 % (1 << 32) % args.records for rank in ranks]
    with open(path, "wb") as file:
        array.array("I", [key | (UPDATE if dice.random() < updates else 0) for key in keys]).tofile(file)
    return path


class Client:
    """ycsb, outside of any container."""

    def __init__(self, kind, where, number, core, args, updates):
        path = requests(number, args, updates)
        self.process = subprocess.Popen(
            ["taskset", "-c", str(core), "/lab/bin/ycsb", kind, where, path, str(number + 1)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, count):
        print(count, file=self.process.stdin, flush=True)

    def wait(self):
        """Whether all were answered."""
        return self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.stdin.close()
        if self.process.wait():
            sys.exit("a client has failed")


class Store:
    """kv-server on one of its stores, and its client."""

    name = "lmdb"
    records = 65536
    directory = f"{DATA}/store"
    # LMDB tells the processes of a file apart by their numbers.
    host = ("pid",)

    @classmethod
    def prepare(cls, args):
        os.makedirs(cls.directory)
        subprocess.run([f"{BIN}/kv-server", cls.name, "fill", cls.directory, str(args.records)], check=True)

    def __init__(self, number, core, args):
        self.number, self.core, self.args = number, core, args
        self.socket = f"{DATA}/{number}.socket"
        program = [f"{BIN}/kv-server", self.name, "serve", self.directory, self.socket, str(number + 1)]
        self.container = Container(f"{self.name}-{number}", program, args.label, core, data=[DATA], host=self.host)

    def start(self):
        self.container.start()
        self.container.wait("ready")
        self.client = Client("kv", self.socket, self.number, self.core, self.args, 0.05)


class RocksDB(Store):
    name = "rocksdb"
    # In the lowest layer: a container's own files come on top, and the tables are never written again.
    directory = "/var/lib/store"
    host = ()


class Apache:
    """apache2 with one child, and its client."""

    records = 4096
    root = "/var/www/files"
    modules = ("mpm_prefork authz_core dir mime autoindex alias deflate filter headers expires rewrite setenvif "
               "negotiation env status auth_basic authn_core authn_file authz_user session").split()

    @classmethod
    def prepare(cls, args):
        os.makedirs(cls.root)
        for number in range(args.records):
            with open(f"{cls.root}/{number}", "wb") as file:
                file.write(b"%08d" % number * (FILE // 8))
        with open("/etc/serving.conf", "w") as file:
            for name in cls.modules:
                file.write(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
            file.write(f"""
ServerRoot /tmp
DocumentRoot {cls.root}
ServerName localhost
PidFile /tmp/serving.pid
ErrorLog /tmp/serving.log
Mutex file:/tmp
TypesConfig /etc/mime.types
StartServers 1
MinSpareServers 1
MaxSpareServers 1
MaxRequestWorkers 1
KeepAlive On
KeepAliveTimeout 600
MaxKeepAliveRequests 0
<Directory {cls.root}>
    Require all granted
</Directory>
""")

    def __init__(self, number, core, args):
        self.number, self.core, self.args = number, core, args
        self.port = str(FIRST_PORT + number)
        program = ["apache2", "-D", "FOREGROUND", "-C", f"Listen 127.0.0.1:{self.port}", "-f", "/etc/serving.conf"]
        self.container = Container(f"apache-{number}", program, args.label, core, host=("network",),
                                   user=WWW_DATA)

    def start(self):
        self.container.start()
        port = f":{int(self.port):04X} "
        for _ in range(600):
            with open("/proc/net/tcp") as file:
                if port in file.read():
                    break
            time.sleep(0.1)
        self.client = Client("http", self.port, self.number, self.core, self.args, 0)


SERVERS = {"apache": Apache, "lmdb": Store, "rocksdb": RocksDB}


def prepare(server, args):
    """Data, and the server's program in the containers' lowest layer."""
    memory_at(DATA)
    os.makedirs(BIN)
    shutil.copy("/lab/bin/kv-server", BIN)
    args.records = args.records or server.records
    server.prepare(args)
    # In memory, and on the disk: pages that are written back later would be another's work.
    os.sync()


def all_ask(servers, count):
    for server in servers:
        server.client.begin(count)
    for server in servers:
        if not server.client.wait():
            sys.exit(f"{server.container.name} gives no answer: {server.container.wait_end()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server", choices=sorted(SERVERS))
    parser.add_argument("warm", type=int)
    parser.add_argument("requests", type=int)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--label", default="")
    parser.add_argument("--records", type=int)
    args = parser.parse_args()

    server = SERVERS[args.server]
    prepare(server, args)
    tables = Tables()
    servers = [server(number, number % args.cores, args) for number in range(CONTAINERS * args.cores)]
    for one in servers:
        one.start()
    mark("warm")
    all_ask(servers, args.warm)
    mark("start")
    all_ask(servers, args.requests)
    mark("stop")
    metric("containers", len(servers), "containers")
    metric("requests", len(servers) * args.requests, "requests")
    tables.print()
    for one in servers:
        one.client.end()
        one.container.end()


if __name__ == "__main__":
    main()
