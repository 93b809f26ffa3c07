#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# gup_test in every combination that run_vmtests.sh -a tries, one verdict each.
#
#   gup-matrix.sh PROGRAM
# The benchmark's size is 8 MB here, not 128: what is asked is whether it works, not how fast.
program=$1
number=0
echo "TAP version 13"
for huge in -t -T -H; do # huge pages if they can be had, never, of hugetlbfs
	for call in -u -U -a -b -L; do # get fast, get, pin fast, pin, pin for long
		for write in -w -W; do
			for share in -S ""; do
				for count in 1 512 123; do # pages a call; 512 is a huge page
					number=$((number + 1))
					# shellcheck disable=SC2086 # an empty word is no argument
					"$program" -m 8 $huge $call $write $share -n $count >/tmp/gup.out 2>&1
					status=$?
					name="gup_test $huge $call $write $share -n $count"
					if [ $status = 0 ] && grep -q '# SKIP' /tmp/gup.out; then
						echo "ok $number $name # SKIP"
					elif [ $status = 0 ]; then
						echo "ok $number $name"
					else
						sed 's/^/# /' /tmp/gup.out
						echo "not ok $number $name # status $status"
					fi
				done
			done
		done
	done
done
echo "1..$number"
