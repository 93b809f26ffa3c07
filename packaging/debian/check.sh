#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# In a clean root: installs the packages in /packages, tries them, removes them, and looks for what
# they leave behind. `cohort lab check-packages` runs this.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

fail() {
	echo "failed: $*" >&2
	exit 1
}

# Files whose change is no work of a package of ours: dpkg's and apt's own books, and logs.
files() {
	find / -xdev \( -path /packages -o -path /proc -o -path /sys -o -path /dev -o -path /tmp \
		-o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
		\) -prune -o -print | sort
}

# Runs "$@" and compares its exit status with $1.
status() {
	wanted=$1
	shift
	found=0
	"$@" >/tmp/said 2>&1 || found=$?
	[ "$found" = "$wanted" ] || fail "$* exits with $found and not $wanted: $(cat /tmp/said)"
}

files >/tmp/before
apt-get install --yes --quiet --no-install-recommends /packages/*.deb >/tmp/apt 2>&1 ||
	fail "apt-get install: $(tail -n 5 /tmp/apt)"

# --- the host tools
status 0 cohort --version
status 69 cohort run -- true
status 69 cohort top
status 2 cohort run
status 1 cohort lab list
grep -q 'no checkout' /tmp/said || fail "cohort lab list says: $(cat /tmp/said)"
status 0 cohort man lab build
for page in cohort cohort-scan cohort-lab-build; do
	gzip --test "/usr/share/man/man1/$page.1.gz" || fail "no page $page"
done
for unit in cohort-scan.service cohort-scan.timer; do
	[ -f "/lib/systemd/system/$unit" ] || fail "systemd does not find $unit"
done
# The timer's command, where node-exporter would read.
mkdir -p /var/lib/prometheus/node-exporter
cd /var/lib/prometheus/node-exporter
sed -n 's/^ExecStart=//p' /lib/systemd/system/cohort-scan.service | sh -e ||
	fail "the timer's command"
grep -q '^cohort_scan_saves_bytes{' cohort.prom || fail "the timer wrote no gauges"
cd /

# --- the kernel
for image in /packages/linux-image-*.deb; do
	[ -e "$image" ] || continue
	release=$(dpkg-deb --field "$image" Package | sed 's/^linux-image-//')
	for file in vmlinuz config System.map; do
		[ -s "/boot/$file-$release" ] || fail "no /boot/$file-$release"
	done
	grep -q '^CONFIG_COHORT=y$' "/boot/config-$release" || fail "$release has no Cohort"
done

names=$(for package in /packages/*.deb; do dpkg-deb --field "$package" Package; done)
# shellcheck disable=SC2086 # one word per package
apt-get purge --yes --quiet $names >/tmp/apt 2>&1 || fail "apt-get purge: $(tail -n 5 /tmp/apt)"
[ ! -e /var/lib/prometheus/node-exporter/cohort.prom ] || fail "the timer's file is still there"
rm -r /var/lib/prometheus
files >/tmp/after
diff /tmp/before /tmp/after >/tmp/left || fail "left behind or taken away: $(cat /tmp/left)"
# shellcheck disable=SC2086
echo "installed, tried and removed in Debian $(cat /etc/debian_version):" $names
