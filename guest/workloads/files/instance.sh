#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# One instance of a program, as a container would start it: it prints "ready" when its own first
# code runs, a server what it says when it is ready to serve, and stays. See experiments/join.toml.
case $1 in
bash)
	exec bash -c 'echo ready; read -r line' ;;
perl)
	exec perl -MPOSIX -MData::Dumper -MStorable -e '$| = 1; print "ready\n"; <STDIN>' ;;
python3)
	exec python3 -c 'import json, ssl, sqlite3, asyncio, email, decimal
print("ready", flush=True)
input()' ;;
redis)
	exec redis-server --port 0 --unixsocket /tmp/redis.$$ --save '' ;;
node)
	exec node -e 'console.log("ready"); process.stdin.resume()' ;;
java)
	exec java -cp /usr/share/java/js.jar org.mozilla.javascript.tools.shell.Main \
		-e 'print("ready"); java.lang.Thread.sleep(1e9)' ;;
*)
	echo "$0: no program $1" >&2
	exit 1 ;;
esac
