// SPDX-License-Identifier: GPL-2.0-only
/* The files of KSM. */
#include "../common.h"

long ksm(const char *file)
{
	char path[64], buf[64];

	snprintf(path, sizeof(path), KSM "%s", file);
	must(read_text(path, buf, sizeof(buf)) > 0, "%s cannot be read", path);
	return atol(buf);
}

void ksm_set(const char *file, const char *value)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), KSM "%s", file);
	ret = write_text(path, value);
	must(!ret, "%s to %s: %s", value, path, strerror(-ret));
}
