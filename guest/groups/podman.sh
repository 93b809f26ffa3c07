#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Containers of one image that podman starts: `--cgroup-conf` gives them a label.
. "${0%/*}/common.sh"
plan 7
# There is no systemd and no network.
run="podman --cgroup-manager=cgroupfs --events-backend=file run --detach --network=none --log-driver=none"

# An image with python3 and the libraries of its modules.
libraries=$(ldd /usr/bin/python3 /usr/lib/python3.*/lib-dynload/*.so |
	sed -n 's/.*[[:space:]]\(\/[^ ]*\) (.*/\1/p' | sort -u)
# shellcheck disable=SC2086
tar -C / -ch --hard-dereference usr/bin/python3 usr/lib/python3.* $(echo "$libraries" | sed 's,^/,,') |
	podman import -q - image || exit 1

start() {
	name=$1
	shift
	# shellcheck disable=SC2086
	$run --name "$name" "$@" image python3 -c "$PROGRAM" /ready >/dev/null || exit 1
	pid=$(podman inspect --format '{{.State.Pid}}' "$name")
	until_true test -e "/proc/$pid/root/ready" || podman logs "$name"
}

start web-1 --cgroup-conf=memory.cohort=web
web1=$pid
start web-2 --cgroup-conf=memory.cohort=web
web2=$pid
joined=$(vmstat cohort_ptp_joined)
start other-1 "--cgroup-conf=memory.cohort=other aslr=process"
other=$pid
start none-1
none=$pid
show "$web1" "$web2" "$other" "$none"
echo "# joined: $joined tables by web-2, $(($(vmstat cohort_ptp_joined) - joined)) by the others"

ok "podman writes the label" labelled "$web1" "web aslr=congruent"
ok "podman writes a label of several words" labelled "$other" "other aslr=process"
ok "the container's program is in the group" in_group "$web1" web
ok "two containers of one label share tables" share "$web1" "$web2"
ok "a container of another label joins none of theirs" shares_nothing "$other"
ok "a container without a label is in no group" test "$(field "$none" Group)" = 0
ok "nobody else has joined a table" test "$(vmstat cohort_ptp_joined)" = "$joined"
finish
