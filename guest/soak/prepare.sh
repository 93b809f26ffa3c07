#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Swap in memory, and the small memory control group.
#
#   prepare.sh LIMIT
set -eu
echo 512M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
swapon /dev/zram0
mkdir -p /sys/fs/cgroup/soak
echo "$1" >/sys/fs/cgroup/soak/memory.max
stress-ng --version
if [ -w /sys/kernel/debug/kmemleak ]; then
	echo clear >/sys/kernel/debug/kmemleak
fi
