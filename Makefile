# SPDX-License-Identifier: GPL-2.0-or-later
# Thin on purpose: what there is to know is in `cohort lab --help` and docs/lab.md.

# The toolchain may be one that the bootstrap has just put there.
export PATH := $(HOME)/.cargo/bin:$(PATH)
COHORT = target/release/cohort

# The configuration of the kernel's package; without it, that of the running kernel.
KERNEL_CONFIG =
PREFIX = /usr/local
DESTDIR =
BINDIR = $(PREFIX)/bin
SHARE = $(DESTDIR)$(PREFIX)/share
UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system
# Debian's zsh looks in other places for its packages' completions than for what root puts there.
ZSH = $(SHARE)/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
EXAMPLES = $(SHARE)/doc/cohort/examples

help:
	@echo "make demo    build everything, boot it, and show what sharing does to a fork"
	@echo "make test    every test: host, style, and the kernel's in a guest"
	@echo "make test-long   all cases, hours of load and of fuzzing, the kernel's own tests"
	@echo "make soak    an hour of load on the debug kernel; then no memory may be lost"
	@echo "make build   the host tools alone: $(COHORT)"
	@echo "make deb     Debian packages: the host tools, and our kernel configured as this machine's"
	@echo "make install PREFIX=/usr/local   the host tools, manual pages, completions, units"
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
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps -p translation -p cohort-snapshot
	cargo run --locked --quiet --package cohort -- lab report --check

# Installs what `make build` made, so that root need not have a compiler.
install:
	@[ -x $(COHORT) ] || $(MAKE) build
	install -D $(COHORT) $(DESTDIR)$(BINDIR)/cohort
	$(COHORT) man --dir $(SHARE)/man/man1
	install -d $(SHARE)/bash-completion/completions $(ZSH) \
		$(SHARE)/fish/vendor_completions.d $(UNITS) $(EXAMPLES)/systemd
	$(COHORT) completions bash >$(SHARE)/bash-completion/completions/cohort
	$(COHORT) completions zsh >$(ZSH)/_cohort
	$(COHORT) completions fish >$(SHARE)/fish/vendor_completions.d/cohort.fish
	for file in packaging/systemd/cohort-scan.*; do \
		sed 's|@BINDIR@|$(BINDIR)|' $$file >$(UNITS)/$${file##*/} || exit 1; done
	for file in packaging/systemd/examples/*; do \
		sed 's|@BINDIR@|$(BINDIR)|' $$file >$(EXAMPLES)/systemd/$${file##*/} || exit 1; done
	install -D -m 644 packaging/grafana/cohort-scan.json $(EXAMPLES)/grafana/cohort-scan.json

deb: build
	$(COHORT) lab setup
	$(COHORT) lab deb $(if $(KERNEL_CONFIG),--kernel-config $(KERNEL_CONFIG))

clean:
	@if [ -x $(COHORT) ]; then $(COHORT) lab clean; fi
	rm -rf target

bootstrap:
	@scripts/bootstrap.sh

.PHONY: help demo test test-long soak build install deb check clean bootstrap
