// SPDX-License-Identifier: GPL-2.0-only
/* Reports of the kernel in /proc and /sys. */
#include "../common.h"

#include <time.h>
#include <sys/resource.h>

unsigned long page_size;
unsigned long table_size;
enum cohort_mode cohort_mode;

int read_text(const char *path, char *buf, size_t size)
{
	ssize_t n, len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (len < (ssize_t)size - 1) {
		n = read(fd, buf + len, size - 1 - len);
		if (n < 0) {
			n = -errno;
			close(fd);
			return n;
		}
		if (!n)
			break;
		len += n;
	}
	buf[len] = 0;
	close(fd);
	return len;
}

int write_text(const char *path, const char *text)
{
	int ret = 0, fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ret = errno ? -errno : -EIO;
	close(fd);
	return ret;
}

/* the number after a key at the start of a line, or -1 */
static long find_number(const char *text, const char *key)
{
	size_t len = strlen(key);
	const char *p = text;

	while (p) {
		if (!strncmp(p, key, len)) {
			p += len;
			if (*p == ':' || *p == ' ' || *p == '\t')
				return strtol(p + strspn(p, ": \t"), NULL, 10);
		}
		p = strchr(p, '\n');
		if (p)
			p++;
	}
	return -1;
}

long vm_event(const char *name)
{
	static char buf[32768];

	if (read_text("/proc/vmstat", buf, sizeof(buf)) < 0)
		return -1;
	return find_number(buf, name);
}

long proc_field(pid_t pid, const char *file, const char *key)
{
	char path[64], buf[8192];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid ? pid : getpid(), file);
	if (read_text(path, buf, sizeof(buf)) < 0)
		return -1;
	return find_number(buf, key);
}

long shared_tables(pid_t pid)
{
	return proc_field(pid, "cohort", "SharedTables");
}

__u64 pagemap_entry(pid_t pid, const void *addr)
{
	__u64 entry = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid ? pid : getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	must(pread(fd, &entry, sizeof(entry),
		   (uintptr_t)addr / page_size * sizeof(entry)) == sizeof(entry),
	     "%s cannot be read", path);
	close(fd);
	return entry;
}

unsigned char memory_byte(pid_t pid, const void *addr)
{
	unsigned char byte;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && pread(fd, &byte, 1, (off_t)(uintptr_t)addr) == 1, "%s: %s", path,
	     strerror(errno));
	close(fd);
	return byte;
}

bool huge_mapped(const void *addr)
{
	unsigned long from, to, kb;
	bool in = false, huge = false;
	char line[256];
	FILE *f = fopen("/proc/self/smaps", "r");

	must(f, "smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			in = (uintptr_t)addr >= from && (uintptr_t)addr < to;
		else if (in && (sscanf(line, "AnonHugePages: %lu", &kb) == 1 ||
				sscanf(line, "ShmemPmdMapped: %lu", &kb) == 1 ||
				sscanf(line, "FilePmdMapped: %lu", &kb) == 1))
			huge |= kb;
	}
	fclose(f);
	return huge;
}

long region_field(const void *addr, const char *key)
{
	unsigned long from, to;
	size_t length = strlen(key);
	bool in = false;
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/smaps", "r");

	must(f, "smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			in = (uintptr_t)addr >= from && (uintptr_t)addr < to;
		else if (in && !strncmp(line, key, length) && line[length] == ':')
			kb = atol(line + length + 1);
	}
	fclose(f);
	return kb;
}

long minor_faults(void)
{
	struct rusage usage;

	must_call(getrusage(RUSAGE_SELF, &usage));
	return usage.ru_minflt;
}

bool sharing_possible(void)
{
	return cohort_mode == MODE_OPTIN || cohort_mode == MODE_ALWAYS;
}

/* There are none on some architectures, nor for BabelFish's TLBs. */
bool shares_pmd_tables(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
	char buf[64];

	/* arm64 shares them with pages of 4 KB alone. */
	return page_size == 4096 &&
	       (read_text(COHORT_SYSFS "babelfish", buf, sizeof(buf)) <= 0 ||
		!strstr(buf, "[on]"));
#else
	return false;
#endif
}

void become_zygote(void)
{
	int ret = prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, 0, 0, 0);

	if (cohort_mode != MODE_STOCK)
		must(!ret, "PR_SET_COHORT: %s", strerror(errno));
}

enum cohort_mode detect_mode(const char *expected_mode)
{
	static const char * const names[] = { "stock", "never", "optin", "always" };
	const char *env = expected_mode ? expected_mode : getenv("COHORT_MODE");
	enum cohort_mode found = MODE_STOCK;
	char buf[128];
	size_t i;

	if (read_text(COHORT_SYSFS "enabled", buf, sizeof(buf)) > 0) {
		if (strstr(buf, "[never]"))
			found = MODE_NEVER;
		else if (strstr(buf, "[optin]"))
			found = MODE_OPTIN;
		else if (strstr(buf, "[always]"))
			found = MODE_ALWAYS;
		else
			ksft_exit_fail_msg("%senabled reads '%s'\n", COHORT_SYSFS, buf);
	}
	if (!env || !*env)
		return found;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(env, names[i]))
			break;
	/* A run in the wrong mode must not pass without testing anything. */
	if (i != found)
		ksft_exit_fail_msg("the mode is to be %s, but this kernel's is %s\n",
				   env, names[found]);
	return found;
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}
