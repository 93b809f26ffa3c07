// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints what every KUnit suite found when the kernel booted, for a guest
 * without a shell.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KUNIT "/sys/kernel/debug/kunit"

static int print(const char *suite)
{
	char path[512], buffer[4096];
	size_t size;
	FILE *file;

	snprintf(path, sizeof(path), KUNIT "/%s/results", suite);
	file = fopen(path, "r");
	if (!file) {
		printf("%s: %s\n", path, strerror(errno));
		return 1;
	}
	while ((size = fread(buffer, 1, sizeof(buffer), file)) > 0)
		fwrite(buffer, 1, size, stdout);
	fclose(file);
	return 0;
}

int main(void)
{
	DIR *dir = opendir(KUNIT);
	struct dirent *entry;
	int bad = 0;

	if (!dir) {
		printf(KUNIT ": %s\n", strerror(errno));
		return 1;
	}
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			bad |= print(entry->d_name);
	closedir(dir);
	return bad;
}
