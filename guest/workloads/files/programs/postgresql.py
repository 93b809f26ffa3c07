# SPDX-License-Identifier: GPL-2.0-or-later
"""PostgreSQL, asked by pgbench."""

import contextlib
import os
import signal
import subprocess

from programs.run import Failed, Window, newest, scratch, share, start, stop, wait_for


# One row per page, 300 MB of the 512 MB of shared buffers; each of the 50 connections
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
