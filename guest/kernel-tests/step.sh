#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# One test program of the kernel's own, as run_vmtests.sh would start it, in a system that is in
# the same state each time: what one test leaves switched on would change the next one's verdicts.
#
#   step.sh SUITE HUGEPAGES COMMAND
set -u
suite=$1
hugepages=$2
command=$3

put() {
	[ ! -w "$2" ] || echo "$1" >"$2" 2>/dev/null
}

# On the disk: several tests open files where they are, and page cache of tmpfs is another thing.
dir=/var/tmp/kernel-tests/$suite
if [ ! -d "$dir" ]; then
	mkdir -p /var/tmp/kernel-tests
	cp -a "/lab/kernel-tests/$suite" "$dir"
fi
# Tests of swapped-out pages skip themselves where there is no swap.
if [ "$(wc -l </proc/swaps)" = 1 ] && [ -b /dev/zram0 ]; then
	put 512M /sys/block/zram0/disksize
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
fi

put 2 /sys/kernel/mm/ksm/run
put 0 /sys/kernel/mm/ksm/run
put 0 /sys/kernel/mm/ksm/use_zero_pages
put 1 /sys/kernel/mm/ksm/merge_across_nodes
put madvise /sys/kernel/mm/transparent_hugepage/enabled
put madvise /sys/kernel/mm/transparent_hugepage/defrag
put advise /sys/kernel/mm/transparent_hugepage/shmem_enabled
put 0 /proc/sys/vm/overcommit_memory
put 3 /proc/sys/vm/drop_caches
put 1 /proc/sys/vm/compact_memory
put "$hugepages" /proc/sys/vm/nr_hugepages

cd "$dir" && exec sh -c "$command"
