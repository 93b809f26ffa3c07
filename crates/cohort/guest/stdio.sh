#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs its arguments as a program whose input and outputs are the virtio ports named in, out and
# err: `cohort lab shell -- CMD`. The report's port is announced after these, so that they are there.
for port in /sys/class/virtio-ports/*; do
	read -r name <"$port/name"
	case $name in
	in | out | err) eval "$name=/dev/\${port##*/}" ;;
	esac
done
exec "$@" <"$in" >"$out" 2>"$err"
