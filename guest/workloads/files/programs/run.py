# SPDX-License-Identifier: GPL-2.0-or-later
"""Starting, asking and stopping a program, and what the counters gain meanwhile."""

import concurrent.futures
import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import time

from page_tables import vmstat

COHORT_EXEC = "/lab/bin/cohort-exec"
LAB_MARK = "/lab/bin/lab-mark"
APART = "/lab/bin/apart"
# Wait long: under emulation, a second's work takes a minute.
PATIENCE = 240

# Under a translation model.
modelled = False
# Code and data of each library lie in different tables.
apart = False
# The program leads a group that shares TLB entries.
tlb = False


def share(amount):
    """Of an amount of work, what is done: a tenth under a model."""
    return max(amount // 10, 1) if modelled else amount


class Failed(Exception):
    """The program did not do what the run needs; the message says what."""


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


def start(command, counted=True, **options):
    """Start a program as a zygote, in a session of its own; its start is counted or is not."""
    if os.path.exists("/proc/self/cohort"):
        command = [COHORT_EXEC, *(["--tlb"] if tlb else []), *command]
    if apart:
        command = [APART, *command]
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
