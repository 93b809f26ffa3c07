// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * put FILE WORD...: write the words to FILE, as a shell's echo would, for guests
 * that have no shell. With `put FILE` alone the file is read back and shown.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *path, const char *what)
{
	fprintf(stderr, "put: cannot %s %s: %s\n", what, path, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	char buf[4096];
	size_t len = 0;
	ssize_t n;
	int fd;

	if (argc < 2) {
		fprintf(stderr, "usage: put FILE [WORD...]\n");
		return 2;
	}
	if (argc == 2) {
		fd = open(argv[1], O_RDONLY);
		if (fd < 0)
			return fail(argv[1], "open");
		while ((n = read(fd, buf, sizeof(buf))) > 0)
			if (write(STDOUT_FILENO, buf, n) != n)
				return fail("standard output", "write");
		return n < 0 ? fail(argv[1], "read") : 0;
	}
	for (int i = 2; i < argc; i++) {
		n = snprintf(buf + len, sizeof(buf) - len, "%s%s", argv[i],
			     i + 1 < argc ? " " : "\n");
		len += n;
		if (len >= sizeof(buf)) {
			fprintf(stderr, "put: too long\n");
			return 2;
		}
	}
	/* No O_CREAT: a switch that is not there is a failure, not a new file. */
	fd = open(argv[1], O_WRONLY);
	if (fd < 0)
		return fail(argv[1], "open");
	/* One write: a sysfs file takes each write as a value of its own. */
	if (write(fd, buf, len) != (ssize_t)len)
		return fail(argv[1], "write");
	return close(fd) ? fail(argv[1], "close") : 0;
}
