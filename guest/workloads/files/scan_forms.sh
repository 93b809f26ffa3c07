#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What `cohort scan` does besides counting, on the kernel that this is run on: its forms, captures,
# contents, and what it says without rights. Each step says what it expects; its exit status is
# the number of those that went otherwise. As root, in a guest.

failed=0

# expect STATUS NAME COMMAND...: its output goes to /tmp/NAME, its errors to /tmp/NAME.err
expect() {
	status=$1 name=$2
	shift 2
	"$@" > "/tmp/$name" 2> "/tmp/$name.err"
	found=$?
	if [ $found -eq "$status" ]; then
		echo "ok $name: status $found"
	else
		failed=$((failed + 1))
		echo "not ok $name: status $found and not $status"
		tail -n 5 "/tmp/$name"
		tail -n 5 "/tmp/$name.err"
	fi
}

# holds NAME WHAT: that output has a line with this
holds() {
	if grep -q -- "$2" "/tmp/$1"; then
		echo "ok $1: $2"
	else
		failed=$((failed + 1))
		echo "not ok $1 has no line with: $2"
		tail -n 5 "/tmp/$1"
	fi
}

unprivileged() {
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

# 200 pages of which each two are equal, forked three times; each child writes 10 of them.
python3 -c '
import mmap, os, signal
with open("/dev/zero", "r+b") as file:
    memory = mmap.mmap(file.fileno(), 200 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(200):
    memory[page * mmap.PAGESIZE] = page // 2 + 1
for child in range(3):
    done = os.pipe()
    if not os.fork():
        for page in range(10):
            memory[page * mmap.PAGESIZE + 9] = 100 + child
        os.write(done[1], b"x")
        break
    os.read(done[0], 1)
else:
    print("ready", flush=True)
signal.pause()' > /tmp/ready &
tree=$!
until grep -q ready /tmp/ready; do sleep 0.1; done

expect 0 table cohort scan -t -k
holds table "^python3 .* 4 "
expect 0 details cohort scan -d --tree $tree
expect 0 json cohort scan --json --tree $tree --mapping ^/dev/zero
expect 0 sums cohort scan --check
for form in csv openmetrics html; do
	expect 0 $form cohort scan -o $form --tree $tree
done
holds csv python3
holds openmetrics "^# EOF"
holds html "</html>"
cohort scan capture /tmp/capture --tree $tree --mapping ^/dev/zero || failed=$((failed + 1))
expect 0 captured cohort scan --json --from /tmp/capture
expect 0 same python3 -c '
import json, sys
now, then = (json.load(open("/tmp/" + name))["total"] for name in ("json", "captured"))
parts = "entries", "contents"
print([(now[part], then[part]) for part in parts if now[part] != then[part]])
sys.exit(any(now[part] != then[part] for part in parts) or now["entries"]["total"] != 800)'
expect 0 diff cohort scan diff /tmp/capture /tmp/capture
expect 0 content cohort scan --content --json --tree $tree --mapping ^/dev/zero
# 200 pages of the parent's and 10 of each child's, each equal to its neighbour: of 230 frames half
# would do. All but those that were written have the same at their place in another process.
expect 0 equal python3 -c '
import json, sys
found = json.load(open("/tmp/content"))["content"]["last"]
found = {key: value for key, value in found.items() if isinstance(value, int)}
print(found)
sys.exit(found["frames_saved"] != 115 or found["equal"] != found["mergeable"]
         or found["same_address"] != 760 or found["changed"] or found["unreadable"])'
cat /tmp/equal
expect 1 refused unprivileged cohort scan -p 1
holds refused.err "no process was read"
expect 77 hidden unprivileged sh -c 'sleep 100 & sleep 100 & cohort scan -t'
holds hidden.err "page frames are hidden"
expect 0 samples cohort scan --samples 1 -d
expect 0 benchmark cohort scan benchmark --processes 4 --megabytes 8 --rounds 1
kill $tree
exit $failed
