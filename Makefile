# SPDX-License-Identifier: GPL-2.0-or-later
# Thin on purpose: what there is to know is in `cohort lab --help` and docs/lab.md.

# The toolchain may be one that the bootstrap has just put there.
export PATH := $(HOME)/.cargo/bin:$(PATH)
COHORT = target/release/cohort

help:
	@echo "make demo    build everything, boot it, and show what sharing does to a fork"
	@echo "make test    every test: host, style, and the kernel's in a guest"
	@echo "make test-long   all cases, an hour of load, an hour of fuzzing, the kernel's own tests"
	@echo "make soak    an hour of load on the debug kernel; then no memory may be lost"
	@echo "make build   the host tools alone: $(COHORT)"
	@echo "make check   formatting, lints, and tables that say what the kept results say"
	@echo "make clean   remove what was built, keep results"

demo: build
	$(COHORT) lab setup
	$(COHORT) lab build
	$(COHORT) lab run zygote-fork

test: bootstrap
	@scripts/test.sh

test-long: bootstrap
	@scripts/test.sh --long

soak: build
	$(COHORT) lab setup
	$(COHORT) lab soak --minutes 60

build: bootstrap
	cargo build --release --locked

check: bootstrap
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo run --locked --quiet --package cohort -- lab report --check

clean:
	@if [ -x $(COHORT) ]; then $(COHORT) lab clean; fi
	rm -rf target

bootstrap:
	@scripts/bootstrap.sh

.PHONY: help demo test test-long soak build check clean bootstrap
