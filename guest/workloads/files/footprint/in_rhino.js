// SPDX-License-Identifier: GPL-2.0-or-later
// At each line that it reads: text, JSON, hashes and compression, by classes of the Java machine.
function work() {
	var text = String(readFile('/etc/mime.types'));
	var count = {}, words = text.match(/[a-z]{3,}/g);
	for (var i = 0; i < words.length; i++)
		count[words[i]] = (count[words[i]] || 0) + 1;
	var sorted = Object.keys(count).sort(function (a, b) { return count[b] - count[a]; });
	var copy = JSON.parse(JSON.stringify({ sorted: sorted, lines: text.split('\n') }));
	var bytes = new java.lang.String(copy.lines.join('\n')).getBytes('UTF-8');
	var packed = new java.io.ByteArrayOutputStream();
	var stream = new java.util.zip.GZIPOutputStream(packed);
	stream.write(bytes, 0, bytes.length);
	stream.close();
	var digest = java.security.MessageDigest.getInstance('SHA-256').digest(packed.toByteArray());
	return new java.math.BigInteger(1, digest).toString(16) + copy.sorted.length;
}

var input = new java.io.BufferedReader(new java.io.InputStreamReader(java.lang.System['in']));
while (input.readLine() !== null) {
	work();
	print('done');
	java.lang.System.out.flush();
}
