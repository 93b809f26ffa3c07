#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Containers that crun starts, with layers of one directory: those of one label join each other's
# tables. Nothing is changed in crun or in the containers' program.
. "${0%/*}/common.sh"
plan 9

start() {
	python3 /lab/files/bundle.py "$1" --label "$2" -- python3 -c "$PROGRAM" /ready
	crun create --bundle "/run/bundle/$1" "$1" </dev/null && crun start "$1"
}

pid_of() {
	crun state "$1" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p'
}

for name in web-1 web-2; do
	start $name web
	until_true test -e /run/bundle/$name/rootfs/ready
done
joined=$(vmstat cohort_ptp_joined)
start other-1 other
start none-1 ""
until_true test -e /run/bundle/other-1/rootfs/ready
until_true test -e /run/bundle/none-1/rootfs/ready
web1=$(pid_of web-1) web2=$(pid_of web-2) other=$(pid_of other-1) none=$(pid_of none-1)
show "$web1" "$web2" "$other" "$none"
echo "# joined: $joined tables by web-2, $(($(vmstat cohort_ptp_joined) - joined)) by the others"

ok "crun writes the label of config.json" labelled "$web1" "web aslr=congruent"
ok "the container's program is in the group" in_group "$web1" web
ok "two containers of one label share tables" share "$web1" "$web2"
ok "a container of another label joins none of theirs" shares_nothing "$other"
ok "a container without a label is in no group" test "$(field "$none" Group)" = 0
ok "nobody else has joined a table" test "$(vmstat cohort_ptp_joined)" = "$joined"

named_in_scan() {
	cohort scan --joins -b cgroup --cgroup 'web|other' >/tmp/scan
	sed -n '/Tables that groups would use/,/^$/p' /tmp/scan | sed 's/^/# /'
	grep -q "web-1.*web-2\|web-2.*web-1" /tmp/scan
}
ok "cohort scan --joins -b cgroup names the containers that have tables in common" named_in_scan

group_of_two() {
	cohort top --by group >/tmp/top
	sed 's/^/# /' /tmp/top
	grep -q "web " /tmp/top
}
ok "cohort top shows the group" group_of_two

crun kill web-1 KILL
until_true shares_nothing "$web2"
ok "a container that is left alone shares nothing and lives on" test -e "/proc/$web2/exe"
finish
