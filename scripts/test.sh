#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Every test there is, one after the other whatever the others say; the last line adds up.
set -u
cd "$(dirname "$0")/.."
PATH="$HOME/.cargo/bin:$PATH"
mkdir -p out/logs
passed=0
failed=0
skipped=0
failures=out/logs/test-failures
: >$failures

# one NAME COMMAND...: a stage that either holds or does not; 77 is one that cannot run here.
one() {
	name=$1
	log=out/logs/test-$(echo "$name" | tr ' ' '-').log
	shift
	echo "== $name"
	{
		"$@" 2>&1
		echo $? >"$log.status"
	} | tee "$log"
	case $(cat "$log.status") in
	0) passed=$((passed + 1)) ;;
	77) skipped=$((skipped + 1)) ;;
	*)
		failed=$((failed + 1))
		echo "== $name FAILED"
		# A reason is in the last words of what failed.
		echo "$name: $(grep . "$log" | tail -n 3 | tr '\n' ' ')" >>$failures
		;;
	esac
}

# many NAME COMMAND...: a stage that counts its own tests as "N passed" and "N failed". One that
# fails and counts no failure (it did not even start) is a failure itself.
many() {
	name=$1
	log=out/logs/test-$name.log
	shift
	echo "== $name"
	{
		"$@" 2>&1
		echo $? >"$log.status"
	} | tee "$log"
	status=$(cat "$log.status")
	counts=$(awk '
		/^test result:/ || /^[0-9]+ passed, [0-9]+ failed/ {
			gsub(/[.;,]/, " ")
			for (i = 2; i <= NF; i++) {
				if ($i == "passed") p += $(i - 1)
				if ($i == "failed") f += $(i - 1)
				if ($i == "skipped" || $i == "ignored") s += $(i - 1)
			}
		}
		END { print p + 0, f + 0, s + 0 }' "$log")
	set -- $counts
	passed=$((passed + $1))
	failed=$((failed + $2))
	skipped=$((skipped + $3))
	if [ "$status" != 0 ] && [ "$2" = 0 ]; then
		failed=$((failed + 1))
		echo "== $name FAILED (exit status $status, the output is in $log)"
		echo "$name: exit status $status" >>$failures
	elif [ "$status" = 0 ] && [ "$1" = 0 ]; then
		failed=$((failed + 1))
		echo "== $name FAILED: it ran no test"
		echo "$name: it ran no test" >>$failures
	fi
	# With what a guest's test said of its failure, which the lines under it tell.
	awk -v name="$name" '
		/^    / && noted { print name ":  " $0; next }
		{ noted = 0 }
		/^test .* \.\.\. FAILED$/ { print name ": " $2 }
		/^[a-z]+: not ok / { sub(/: not ok /, ": "); print name ": " $0; noted = 1 }
		/panicked at / { sub(/^.*panicked at /, "panicked at "); print name ": " $0 }
	' "$log" >>$failures
	[ "$2" = 0 ] || echo "$name: $2 failed, see $log" >>$failures
}

cohort() {
	target/release/cohort "$@"
}

# Debian's own new Rust comes without clippy: say so rather than pass or fail.
clippy() {
	if ! cargo clippy --version >/dev/null 2>&1; then
		echo "there is no clippy for this Rust: not run"
		return 77
	fi
	cargo clippy --locked --all-targets -- -D warnings
}

one "host tools" cargo build --release --locked
# Another stage of the tests needs patch, gcc and tar from the set-up.
one "set-up" cohort lab setup
one "formatting" cargo fmt --check
one "lints" clippy
many host cargo test --locked --no-fail-fast
one "debug kernel" cohort lab build --config debug
many guest cohort lab test
# Load, and too little memory for it, on the debug kernel.
many soak cohort lab soak --minutes 5 --no-leaks
# The kernel's own tests, a short choice of them, on the pristine kernel and on ours.
many mmtests cohort lab mmtests --short --brief

# What failed is far above by now.
if [ -s $failures ]; then
	echo "== failed; more of it is in out/logs/test-*.log"
	head -n 40 $failures | cut -c 1-300
	more=$(($(wc -l <$failures) - 40))
	[ $more -le 0 ] || echo "and $more more, see $failures"
fi
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed = 0 ]
