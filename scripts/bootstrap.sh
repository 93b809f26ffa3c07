#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What must be there before the command line can be built: a C toolchain to link with, and
# Rust. Everything else is `cohort lab setup`. Says nothing when there is nothing to do. With
# arguments, runs them as a command then: `sh scripts/bootstrap.sh make demo`.
set -eu
cd "$(dirname "$0")/.."

die() {
	echo "bootstrap: $*" >&2
	exit 1
}

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$oldest" ] || die "Cargo.toml names no rust-version: the checkout is incomplete"

# The version of a command's first word that looks like one; nothing if it does not run.
version() {
	"$@" --version 2>/dev/null | sed -n '1s/^[^0-9]*\([0-9][0-9.]*\).*/\1/p'
}

# $1 is $2 or newer.
new_enough() {
	[ -n "$1" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

have_rust() {
	new_enough "$(version cargo)" "$oldest" && new_enough "$(version rustc)" "$oldest"
}

have_lints() {
	[ -n "$(version rustfmt)" ] && [ -n "$(version cargo-clippy)" ]
}

have_packages() {
	for package in gcc libc6-dev make curl ca-certificates; do
		dpkg-query -W -f '${db:Status-Status}' $package 2>/dev/null | grep -q '^installed$' ||
			return 1
	done
}

updated=no
install() {
	[ "$(id -u)" = 0 ] ||
		die "$* must be installed and only root can: run the same command as root once"
	if [ $updated = no ]; then
		apt-get -q -o DPkg::Lock::Timeout=600 update >&2 ||
			die "the package lists cannot be had: check the network and /etc/apt"
		updated=yes
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 \
		install --no-install-recommends "$@" >&2
}

# The candidate version of a Debian package; nothing if there is none.
candidate() {
	apt-cache policy "$1" 2>/dev/null |
		sed -n 's/^ *Candidate: *\([0-9][0-9.]*\).*/\1/p'
}

command -v apt-get >/dev/null || die "this needs Debian 12 or 13: there is no apt-get here"
have_packages || install gcc libc6-dev make curl ca-certificates ||
	die "gcc, make and curl could not be installed: what apt-get said is above"

# A toolchain of an earlier run is not on everybody's path.
PATH="$HOME/.cargo/bin:$PATH"

if ! have_rust; then
	found=$(version cargo)
	echo "bootstrap: Rust $oldest or newer is needed, ${found:-none} is here" >&2
	if command -v rustup >/dev/null; then
		rustup toolchain install stable --profile minimal -c rustfmt -c clippy >&2 &&
			rustup default stable >&2 || true
	else
		script=$(mktemp)
		trap 'rm -f "$script"' EXIT
		if curl --proto '=https' --tlsv1.2 -sSf --connect-timeout 20 \
			-o "$script" https://sh.rustup.rs 2>/dev/null; then
			sh "$script" -y --profile minimal -c rustfmt -c clippy --no-modify-path >&2 || true
		else
			echo "bootstrap: rustup cannot be reached, trying Debian's own Rust" >&2
		fi
	fi
fi

if ! have_rust; then
	[ $updated = yes ] || install ca-certificates || true
	# Debian 12 keeps a new compiler for its browsers under a name of its own.
	for suffix in "" -web; do
		if new_enough "$(candidate cargo$suffix)" 0 &&
			new_enough "$(candidate rustc$suffix)" "$oldest"; then
			install "cargo$suffix" "rustc$suffix" || true
			install "rustfmt$suffix" || true
			[ -n "$suffix" ] || install rust-clippy || true
			break
		fi
	done
	hash -r
fi

have_rust || die "no Rust of $oldest or newer can be had here: rustup cannot be reached and" \
	"Debian offers cargo $(candidate cargo) only; install Rust by hand and run the same command again"

# Without them everything builds; only `make check` and `make test` lack something.
if ! have_lints && command -v rustup >/dev/null; then
	rustup component add rustfmt clippy >&2 || true
fi

[ $# = 0 ] || exec "$@"
