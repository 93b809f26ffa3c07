#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Objects that kmemleak finds no pointer to; twice, since one may just have been on its way.
set -u
file=/sys/kernel/debug/kmemleak
if [ ! -w $file ]; then
	echo "kmemleak is off, or not there"
	exit 4
fi
echo scan >$file 2>/dev/null || exit 4
sleep 6
echo scan >$file
cat $file
echo "metric leaks $(grep -c '^unreferenced object' $file) objects"
