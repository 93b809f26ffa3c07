#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# apache2 with WORKERS prefork children under the translation model: it starts and answers once
# through each child, the model's structures fill, then REQUESTS requests are the region of
# interest.
#
#   tlb_sharing.sh WORKERS WARM REQUESTS
set -eu
workers=$1
warm=$2
requests=$3
dir=$(mktemp -d /tmp/tlb-sharing.XXXXXX)
modules=/usr/lib/apache2/modules
mkdir "$dir/htdocs"
chmod 755 "$dir" "$dir/htdocs"
for n in 1 2 3 4 5 6 7 8; do
	seq "$n" $((n * 400)) >"$dir/htdocs/$n.html"
done
for name in mpm_prefork authz_core dir mime autoindex alias deflate filter headers expires \
	rewrite setenvif negotiation env status auth_basic authn_core authn_file authz_user session; do
	echo "LoadModule ${name}_module $modules/mod_$name.so"
done >"$dir/httpd.conf"
cat >>"$dir/httpd.conf" <<END
ServerRoot $dir
DocumentRoot $dir/htdocs
ServerName localhost
Listen 127.0.0.1:8080
PidFile $dir/pid
ErrorLog $dir/error.log
Mutex file:$dir
TypesConfig /etc/mime.types
User www-data
Group www-data
StartServers $workers
MinSpareServers $workers
MaxSpareServers $workers
MaxRequestWorkers $workers
KeepAlive Off
AddOutputFilterByType DEFLATE text/html
<Directory $dir/htdocs>
    Options Indexes
    Require all granted
</Directory>
END

# A kernel without Cohort has no zygotes.
zygote=
[ ! -e /proc/self/cohort ] || zygote=/lab/bin/cohort-exec
# It ends its whole process group, which must not be this script's.
setsid $zygote /usr/sbin/apache2 -D FOREGROUND -f "$dir/httpd.conf" &
server=$!
ask() {
	ab -q -l -n "$1" -c "$workers" -H "Accept-Encoding: gzip" "http://127.0.0.1:8080/$2.html" \
		>"$dir/ab" 2>&1 || return 1
	failed=$(awk '/^Failed requests:/ { print $3 }' "$dir/ab")
	[ "${failed:-1}" = 0 ] && ! grep -q '^Non-2xx' "$dir/ab"
}
tries=0
until ask "$workers" 1; do
	tries=$((tries + 1))
	if [ $tries -gt 100 ] || ! kill -0 $server; then
		cat "$dir/ab" "$dir/error.log"
		exit 1
	fi
	sleep 0.1
done
lab-mark warm
ask "$warm" 2
lab-mark start
ask "$requests" 3
lab-mark stop
echo "metric requests $requests requests"
echo "metric processes $(pgrep -c -P $server) processes"
kill $server
wait $server || :
