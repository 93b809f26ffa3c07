# SPDX-License-Identifier: GPL-2.0-or-later
# What the tests of this directory have in common: TAP, and what /proc says about processes.
# A test sources this file, calls `plan N` and then `ok NAME COMMAND...` N times.

# The program of the containers and services: it says by a file that its own first code runs.
PROGRAM='import sys, json, ssl, decimal, time; open(sys.argv[1], "w").close(); time.sleep(1e6)'
number=0
failed=0

plan() {
	echo "1..$1"
}

# One test: COMMAND succeeds.
ok() {
	number=$((number + 1))
	name=$1
	shift
	if "$@"; then
		echo "ok $number $name"
	else
		failed=1
		echo "# failed: $*"
		echo "not ok $number $name"
	fi
}

# The value of a field of /proc/PID/cohort.
field() {
	sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/cohort"
}

vmstat() {
	sed -n "s/^$1 //p" /proc/vmstat
}

# Wait at most a minute for COMMAND to succeed.
until_true() {
	for _ in $(seq 600); do
		"$@" && return 0
		sleep 0.1
	done
	echo "# never: $*"
	return 1
}

# The cgroup of a process, as seen from here.
cgroup_of() {
	sed -n 's/^0:://p' "/proc/$1/cgroup"
}

# Does the process $1 run in a cgroup whose label is $2?
labelled() {
	[ "$(cat "/sys/fs/cgroup$(cgroup_of "$1")/memory.cohort")" = "$2" ]
}

# Is the process $1 in a group named $2?
in_group() {
	[ "$(field "$1" GroupName)" = "$2" ] && [ "$(field "$1" Group)" != 0 ]
}

# Are two processes in one group, and do both use tables that have other users?
share() {
	[ "$(field "$1" Group)" = "$(field "$2" Group)" ] && uses_shared "$1" && uses_shared "$2"
}

uses_shared() {
	[ "$(field "$1" SharedTables)" -gt 0 ]
}

shares_nothing() {
	[ "$(field "$1" SharedTables)" = 0 ]
}

# What a test knows about processes, for whoever reads its log.
show() {
	for pid; do
		echo "# $pid $(cgroup_of "$pid"): group $(field "$pid" GroupName), shared" \
			"$(field "$pid" SharedTables), open $(field "$pid" OpenTables), borrowed" \
			"$(field "$pid" BorrowedFile)"
	done
}

finish() {
	exit "$failed"
}
