#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Every test: builds the host tools, then `cohort lab stages` runs the stages and times them. With
# --long: all cases, and hours of load. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.."
PATH="$HOME/.cargo/bin:$PATH"

echo "== host tools"
if ! cargo build --release --locked; then
	echo "== host tools FAILED: what cargo said is above"
	echo "0 passed, 1 failed"
	exit 1
fi
exec target/release/cohort lab stages "$@"
