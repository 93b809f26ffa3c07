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
group=${SOAK_GROUP:-/sys/fs/cgroup/soak}
files=${SOAK_FILES:-/var/tmp/soak}

killed() {
	awk '/^oom_kill / { print $2 }' "$group/memory.events"
}

mkdir -p "$files"
echo $$ >"$group/cgroup.procs" || exit 1
before=$(killed)
${STRESS_NG:-stress-ng} --temp-path "$files" --timeout "$seconds" --oomable --verify --no-rand-seed \
	--metrics-brief "$@" >"$files.out" 2>&1
status=$?
cat "$files.out"
rm -rf "$files"

# If vm-segv did not reach a fault, it had no time: a debug kernel is slow.
known='vm-segv: no SIGSEGV'
if [ "$(killed)" -gt "$before" ]; then
	# A stressor that was killed has left no checksum of its counter: 0 stands there.
	known="$known\|bogo-ops counter, [0-9]* vs 0\$\|counter and run flag, [0-9]* vs 0\$"
	known="$known\|metrics-check: stressor metrics corrupted"
	# 7: metrics that cannot be trusted; 3: a stressor found no memory to begin with.
	case $status in 3 | 7) status=0 ;; esac
fi
if grep ' fail: ' "$files.out" | grep -qv "$known"; then
	exit 1
fi
# 3 is an error otherwise: a stressor cannot run here.
[ $status = 2 ] || exit $status
