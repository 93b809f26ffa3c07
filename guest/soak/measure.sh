#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What memory is in use when nothing runs any more, as metrics.
#
# First everything that is only kept for later is given back: a difference between two such
# measurements is memory that was lost.
set -u

put() {
	[ ! -w "$2" ] || echo "$1" >"$2" 2>/dev/null
}

rm -rf /var/tmp/soak
sync
# What is swapped out belongs to the few processes that are left, and comes back in.
if grep -q zram0 /proc/swaps; then
	swapoff /dev/zram0 && swapon /dev/zram0
fi
for round in 1 2 3; do
	put 3 /proc/sys/vm/drop_caches
	put 1 /proc/sys/vm/compact_memory
	# Also empties what KASAN keeps back of them.
	for cache in /sys/kernel/slab/*/shrink; do
		put 1 "$cache"
	done
	sleep 1
done

awk '
	/^(MemFree|Cached|AnonPages|Mapped|Shmem|SReclaimable|SUnreclaim|PageTables|KernelStack|VmallocUsed|Percpu|Mlocked|Unevictable):/ {
		sub(":", "", $1)
		print "metric", $1, $2, "kB"
	}
	/^SwapTotal:/ { total = $2 }
	/^SwapFree:/ { print "metric SwapUsed", total - $2, "kB" }' /proc/meminfo
# The stacks that KASAN and kmemleak remember, in pools of four pages (lib/stackdepot.c).
stats=/sys/kernel/debug/stackdepot/stats
[ ! -r $stats ] || awk '/^pools:/ { print "metric StackDepot", $2 * 16, "kB" }' $stats
# For whoever has to find out where memory went: `slab NAME kB`, see slabs() of soak.rs.
awk 'NR > 2 { print "slab", $1, $(NF - 1) * $6 * 4 }' /proc/slabinfo
awk '/^cohort_(table|sharer) / { print "metric", $1, $2, "objects" }' /proc/slabinfo
awk '/^cohort_ptp_(shared|left)|^cohort_ptp_unshared_fault / {
	print "metric", $1, $2, "events" }' /proc/vmstat
echo "metric processes $(ls -d /proc/[0-9]* | wc -l) processes"
group=/sys/fs/cgroup/soak
if [ -d $group ]; then
	awk '/^(anon|pagetables|shmem|swapcached|kernel_stack) / {
		print "metric group." $1, $2 / 1024, "kB" }' $group/memory.stat
	echo "metric group.processes $(wc -l <$group/cgroup.procs) processes"
	awk '/^oom_kill / { print "metric group.oom_kill", $2, "events" }' $group/memory.events
fi
