#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# One phase of the load: stress-ng in a memory control group that is too small for it.
#
#   load.sh SECONDS OPTIONS...
#
# Its exit status says how it went: 0, or 2 where stressors found too little memory, which is the
# point of the small group, unless a check of what is in memory failed as well.
set -u
seconds=$1
shift
group=/sys/fs/cgroup/soak
mkdir -p /var/tmp/soak
echo $$ >$group/cgroup.procs || exit 1
stress-ng --temp-path /var/tmp/soak --timeout "$seconds" --oomable --verify --no-rand-seed \
	--metrics-brief "$@" >/tmp/soak.out 2>&1
status=$?
cat /tmp/soak.out
rm -rf /var/tmp/soak
# That vm-segv did not come to a fault only says that it had no time: a debug kernel is slow.
if grep ' fail: ' /tmp/soak.out | grep -qv 'vm-segv: no SIGSEGV'; then
	exit 1
fi
# 3: none of the stressors can run here.
[ $status = 2 ] || exit $status
