#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# One instance of a program, as a container would start it: it prints "ready" when its own first
# code runs, a server what it says when it is ready to serve, and stays. See experiments/join.toml.
# INSTANCE is its number. `instance.sh clusters N` makes N clusters and one more for postgresql.
set -e

# A layer over the one that the image has, without what Debian's package has made.
cluster() {
	mkdir -p "/run/cluster/$1"
	cd "/run/cluster/$1"
	mkdir upper work data
	mount -t overlay overlay -o "lowerdir=/var/lib/cluster,upperdir=$PWD/upper,workdir=$PWD/work" data
	chown postgres: upper data
	chmod 700 data
}

# Modules as Debian's package loads them, and prefork.
apache() {
	mkdir -p "/run/apache.$INSTANCE"
	cd "/run/apache.$INSTANCE"
	cat /etc/apache2/mods-enabled/*.load | grep -v mpm_ >conf
	cat >>conf <<-END
		LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
		ServerRoot $PWD
		ServerName localhost
		DocumentRoot /var/www/html
		Listen 127.0.0.1:$((8000 + INSTANCE))
		PidFile $PWD/pid
		ErrorLog /dev/stderr
		Mutex file:$PWD
		TypesConfig /etc/mime.types
		User www-data
		Group www-data
		StartServers 5
	END
	exec apache2 -D FOREGROUND -f "$PWD/conf"
}

case $1 in
clusters)
	for n in $(seq 0 "$2"); do
		cluster "$n"
	done ;;
apache2)
	apache ;;
postgresql)
	cd "/run/cluster/$INSTANCE"
	exec setpriv --reuid postgres --regid postgres --clear-groups \
		/usr/lib/postgresql/*/bin/postgres -D "$PWD/data" -c listen_addresses= \
		-c "unix_socket_directories=$PWD/data" -c shared_buffers=16MB -c fsync=off ;;
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
