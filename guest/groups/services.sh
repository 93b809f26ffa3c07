#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Services that systemd starts: a label by ExecStartPre, and a group by `cohort run`.
. "${0%/*}/common.sh"
plan 6

units=/run/systemd/system
mkdir -p $units
cat >$units/label@.service <<END
[Service]
MemoryAccounting=yes
ExecStartPre=+/bin/sh -c 'echo web >/sys/fs/cgroup/\$(sed -n s/^0:://p /proc/self/cgroup)/memory.cohort'
ExecStart=/usr/bin/python3 -c '$PROGRAM' /run/ready.%p.%i
END
cat >$units/run@.service <<END
[Service]
ExecStart=/lab/bin/cohort run --group jobs -- /usr/bin/python3 -c '$PROGRAM' /run/ready.%p.%i
END
cat >$units/test.target <<END
[Unit]
Wants=label@1.service label@2.service run@1.service run@2.service
END

# As the first process of its own namespaces; its output says what went wrong.
unshare --pid --fork --mount --mount-proc --uts /lib/systemd/systemd --unit=test.target \
	--show-status=0 --log-target=console >/tmp/systemd.log 2>&1 &
for file in label.1 label.2 run.1 run.2; do
	until_true test -e /run/ready.$file || sed 's/^/# /' /tmp/systemd.log
done

pid_of() {
	pgrep -f "^/usr/bin/python3 .*/run/ready.$1\$"
}
label1=$(pid_of label.1) label2=$(pid_of label.2) run1=$(pid_of run.1) run2=$(pid_of run.2)
show "$label1" "$label2" "$run1" "$run2"

ok "ExecStartPre labels the service's cgroup" labelled "$label1" "web aslr=congruent"
ok "services of one label are in the group" in_group "$label1" web
ok "they share tables" share "$label1" "$label2"
ok "cohort run puts services into a group" in_group "$run1" jobs
ok "they share tables" share "$run1" "$run2"
ok "the two groups are different ones" test "$(field "$label1" Group)" != "$(field "$run1" Group)"
finish
