#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Make bundles for crun: containers whose root is a layer over the root of this system.

    bundle.py NAME [--label LABEL] [--count N] -- PROGRAM ARGUMENT...

/run/bundle/NAME gets config.json and rootfs, an overlay whose lower directory is / and whose upper
directory is its own; with --count there are NAME-1 to NAME-N. The label is put where the OCI runtime
specification has files of the container's cgroup."""

import argparse
import json
import os
import subprocess


def config(program, label, data=(), host=(), user=0):
    """What `crun spec` says, for this program and label.

    data: directories of this system that the container has at the same path. host: namespaces that it
    does not get ("pid", "network"). user: the number of its user and group."""
    made = json.loads(subprocess.run(["crun", "spec", "-f", "/dev/stdout"], check=True,
                                     capture_output=True, text=True).stdout)
    made["process"].update(terminal=False, args=program, user={"uid": user, "gid": user})
    made["root"]["readonly"] = False
    made["mounts"] += [{"destination": path, "source": path, "type": "bind", "options": ["rbind", "rw"]}
                       for path in data]
    made["linux"]["namespaces"] = [one for one in made["linux"]["namespaces"] if one["type"] not in host]
    if label:
        made["linux"]["resources"]["unified"] = {"memory.cohort": label}
    return made


def make(name, made):
    """One bundle. Its upper directory is on the disk: overlayfs keeps attributes of files there."""
    layers = f"/var/lib/bundle/{name}"
    bundle = f"/run/bundle/{name}"
    for path in (f"{layers}/upper", f"{layers}/work", f"{bundle}/rootfs"):
        os.makedirs(path)
    with open(f"{bundle}/config.json", "w") as file:
        json.dump(made, file, indent=1)
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work", f"{bundle}/rootfs"],
                   check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--label", default="")
    parser.add_argument("--count", type=int)
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    names = [args.name] if args.count is None else [f"{args.name}-{i + 1}" for i in range(args.count)]
    made = config(args.program, args.label)
    for name in names:
        make(name, made)


if __name__ == "__main__":
    main()
