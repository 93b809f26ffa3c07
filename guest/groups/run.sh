#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# `cohort run --group` and `cohort top`, without a cgroup.
. "${0%/*}/common.sh"
plan 8

# Start `cohort run $2...` as $1.
start() {
	rm -f "/tmp/ready.$1"
	name=$1
	shift
	cohort run "$@" -- python3 -c "$PROGRAM" "/tmp/ready.$name" &
	pid=$!
	until_true test -e "/tmp/ready.$name"
}

start 1 --group web
web1=$pid
start 2 --group web
web2=$pid
start 3 --group other
other=$pid
python3 -c "$PROGRAM" /tmp/ready.4 &
none=$!
until_true test -e /tmp/ready.4
show "$web1" "$web2" "$other" "$none"

ok "cohort run puts a program into a group" in_group "$web1" web
ok "two programs of one group share tables" share "$web1" "$web2"
ok "a program of another group shares nothing" shares_nothing "$other"
ok "a program without a group is in none" test "$(field "$none" Group)" = 0

refused() {
	cohort run --group "a b" -- true 2>/tmp/refused
	[ $? = 2 ] && grep -q "without spaces" /tmp/refused
}
ok "cohort run refuses a name that the kernel does not take" refused

cohort top --json >/tmp/top.json
cohort top >/tmp/top
sed 's/^/# /' /tmp/top

# COHORT TOP's figures against /proc.
check() {
	python3 - "$@" <<-'END'
		import json, sys
		frame = json.loads(open("/tmp/top.json").readline())
		what, web1, web2 = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		def field(pid, name):
		    for line in open(f"/proc/{pid}/cohort"):
		        key, _, value = line.partition(":")
		        if key == name:
		            return int(value.split()[0])
		processes = {row["pid"]: row for row in frame["processes"]}
		if what == "processes":
		    for pid in (web1, web2):
		        row = processes[pid]
		        assert row["shared"] == field(pid, "SharedTables") > 0, row
		        assert row["open"] == field(pid, "OpenTables"), row
		else:
		    [row] = [row for row in frame["groups"] if row["name"] == "web"]
		    assert row["processes"] == 2, row
		    tables = field(web1, "OwnedTables") + field(web2, "OwnedTables")
		    shared = field(web1, "SharedTables") + field(web2, "SharedTables")
		    assert row["tables"] == tables and row["saved"] == shared - tables, row
	END
}
ok "cohort top has the figures of /proc/PID/cohort" check processes "$web1" "$web2"
ok "cohort top sums them up for a group" check groups "$web1" "$web2"

kill "$web1" "$other" "$none"
until_true shares_nothing "$web2"
ok "a program that is left alone shares nothing and lives on" test -e "/proc/$web2/exe"
kill "$web2"
finish
