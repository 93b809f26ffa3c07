# SPDX-License-Identifier: GPL-2.0-or-later
"""redis, which forks to save a snapshot."""

import random
import subprocess
import time

from programs.run import PATIENCE, Failed, Window, connect, connected, scratch, share, start, stop, wait_for


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
