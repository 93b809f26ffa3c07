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
apache2)
	# Each has a network of its own, as the port is the same.
	export APACHE_RUN_DIR=/tmp/apache.$$ APACHE_PID_FILE=/tmp/apache.$$/pid \
		APACHE_LOCK_DIR=/tmp/apache.$$ APACHE_LOG_DIR=/tmp/apache.$$ \
		APACHE_RUN_USER=www-data APACHE_RUN_GROUP=www-data
	mkdir -m 777 "$APACHE_RUN_DIR"
	exec unshare -n apache2 -X -c 'ErrorLog /dev/stderr' -c 'LogLevel mpm_prefork:notice' ;;
node)
	exec node -e 'console.log("ready"); process.stdin.resume()' ;;
java)
	exec java -cp /usr/share/java/js.jar org.mozilla.javascript.tools.shell.Main \
		-e 'print("ready"); java.lang.Thread.sleep(1e9)' ;;
*)
	echo "$0: no program $1" >&2
	exit 1 ;;
esac
