#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The memory in use when nothing runs any more, as metrics.
#
# First everything that is only kept for later is given back: a difference between two such
# measurements is memory that was lost.
set -u
page=$(($(getconf PAGESIZE) / 1024))	# in kB

put() {
	[ ! -w "$2" ] || echo "$1" >"$2" 2>/dev/null
}

rm -rf /var/tmp/soak
sync
# Swapped pages belong to the few processes that are left, and are brought back in.
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
# Pages that processors keep for themselves are given back an eighth at a time (decay_pcp_high()).
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
	put 1 /proc/sys/vm/stat_refresh
done

awk '
	/^(MemFree|Buffers|Cached|AnonPages|Mapped|Shmem|SReclaimable|SUnreclaim|PageTables|KernelStack|VmallocUsed|Percpu|Mlocked|Unevictable):/ {
		sub(":", "", $1)
		print "metric", $1, $2, "kB"
	}
	/^SwapTotal:/ { total = $2 }
	/^SwapFree:/ { print "metric SwapUsed", total - $2, "kB" }' /proc/meminfo
# The stacks that KASAN and kmemleak remember, in pools of four pages (lib/stackdepot.c).
stats=/sys/kernel/debug/stackdepot/stats
[ ! -r $stats ] || awk -v page=$page '/^pools:/ { print "metric StackDepot", $2 * 4 * page, "kB" }' $stats
# Free, but on the lists of processors.
lists=$(awk -v page=$page '/^ +count:/ { pages += $2 } END { print pages * page }' /proc/zoneinfo)
# Who has how many pages (mm/page_owner.c, only with page_owner=on): `owner CALLERS kB`, see grown()
# of soak.rs. Of regions of vmalloc that are freed one by one, as threads' stacks are, KASAN keeps
# the shadow where two meet on a page: what was used once is used again, and never given back.
stacks=/sys/kernel/debug/page_owner_stacks
if [ -r $stacks/show_stacks ]; then
	echo 0 >$stacks/count_threshold
	cat $stacks/show_stacks >/tmp/owners
	shadow=$(awk -v page=$page '/kasan_populate_vmalloc/ { shadow = 1 }
		/^nr_base_pages:/ { pages += shadow * $2; shadow = 0 }
		END { print pages * page }' /tmp/owners)
	awk -v page=$page '/^nr_base_pages:/ {
			if ($2 >= 32)
				sum[who] += $2
			who = ""
			next
		}
		NF && !/alloc_pages|post_alloc|get_page_from|folio_alloc|alloc_slab|slab_alloc/ {
			sub("[+].*", "", $1)
			if (split(who, frames, "<") < 4)
				who = who (who == "" ? "" : "<") $1
		}
		END {
			for (who in sum)
				print "owner", who, sum[who] * page
		}' /tmp/owners
	rm /tmp/owners
	echo "metric KasanShadow $shadow kB"
else
	shadow=0
fi
echo "metric ProcessorLists $lists kB"
awk -v more=$((lists + shadow)) '/^MemFree:/ { print "metric Free", $2 + more, "kB" }' \
	/proc/meminfo
awk '{ print "metric ZramUsed", $3 / 1024, "kB" }' /sys/block/zram0/mm_stat
# For whoever has to find out where memory went: `slab NAME kB`, see grown() of soak.rs.
awk -v page=$page 'NR > 2 { print "slab", $1, $(NF - 1) * $6 * page }' /proc/slabinfo
# A record belongs to a page table that a process has: also after all its other users have left,
# until the process next writes there. So what the processes that are left have of page tables is no
# loss; the difference is a lower limit of what nobody has, and below nothing means nothing.
used=$(cat /proc/[0-9]*/status 2>/dev/null | awk -v page=$page '/^VmPTE:/ { kB += $2 } END { print kB / page }')
# slabinfo counts every object of a slab that a processor allocates from or keeps for itself, in use
# or not: some 30 for each processor that has forked or freed one since the cache was shrunk. So the
# caches are shrunk and read many times for 3 s, by one process that forks none, and the least counts.
awk -v used="$used" '
	function seconds(	line) {
		getline line <"/proc/uptime"
		close("/proc/uptime")
		return line + 0
	}
	function shrink(cache,	file) {
		file = "/sys/kernel/slab/" cache "/shrink"
		print 1 >file
		close(file)
	}
	BEGIN {
		split("cohort_table cohort_run cohort_upper", caches)
		if ((getline line <"/sys/kernel/slab/cohort_table/shrink") >= 0) {
			end = seconds() + 3
			while (seconds() < end) {
				for (i in caches)
					shrink(caches[i])
				while ((getline line <"/proc/slabinfo") > 0) {
					split(line, field)
					name = field[1]
					if (name ~ /^cohort_(table|run|upper)$/ &&
					    (!(name in least) || field[2] < least[name]))
						least[name] = field[2] + 0
				}
				close("/proc/slabinfo")
			}
			for (name in least) {
				lost = least[name] > used ? least[name] - used : 0
				print "metric", name, lost, "objects"
				print "metric " name ".objects", least[name], "objects"
			}
		}
		print "metric UsedTables", used, "tables"
	}'
awk '/^cohort_ptp_(shared|joined|left)|^cohort_ptp_unshared_fault / {
	print "metric", $1, $2, "events" }' /proc/vmstat
echo "metric processes $(ls -d /proc/[0-9]* | wc -l) processes"
group=/sys/fs/cgroup/soak
if [ -d $group ]; then
	awk '/^(anon|pagetables|shmem|swapcached|kernel_stack) / {
		print "metric group." $1, $2 / 1024, "kB" }' $group/memory.stat
	echo "metric group.processes $(wc -l <$group/cgroup.procs) processes"
	awk '/^oom_kill / { print "metric group.oom_kill", $2, "events" }' $group/memory.events
fi
