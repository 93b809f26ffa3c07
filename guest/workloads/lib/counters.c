// SPDX-License-Identifier: GPL-2.0-or-later
/* Cohort's counters in /proc/vmstat. */
#include "counters.h"

static const struct {
	const char *name, *unit;
} counter[COUNTERS] = {
	{ "cohort_ptp_alloc", "PTPs" },
	{ "cohort_ptp_shared", "PTPs" },
	{ "cohort_ptp_unshared_fault", "PTPs" },
	{ "cohort_ptp_unshared_map", "PTPs" },
	{ "cohort_ptp_unshared_unmap", "PTPs" },
	{ "cohort_ptp_unshared_change", "PTPs" },
	{ "cohort_ptp_left", "PTPs" },
	{ "cohort_ptp_adopted", "PTPs" },
	{ "cohort_pte_copied_fork", "PTEs" },
	{ "cohort_pte_copied_unshare", "PTEs" },
	{ "cohort_fault_file", "faults" },
	{ "cohort_fault_filled", "PTEs" },
};

int64_t vmstat_value(const char *text, const char *name)
{
	size_t len = strlen(name);
	const char *p = text;

	while (p && *p) {
		if (!strncmp(p, name, len) && p[len] == ' ')
			return strtoll(p + len + 1, NULL, 10);
		p = strchr(p, '\n');
		if (p)
			p++;
	}
	return -1;
}

int64_t vmstat(const char *name)
{
	static char text[VMSTAT_BYTES];
	int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		die_errno("/proc/vmstat");
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return vmstat_value(text, name);
}

void run_begin(struct run_counts *c)
{
	c->tables = vmstat("nr_page_table_pages");
	c->memory = vmstat("nr_free_pages");
	c->joined = vmstat("cohort_ptp_joined");
	c->opened = vmstat("cohort_ptp_opened");
	c->withdrawn = vmstat("cohort_ptp_withdrawn");
}

void run_print(const struct run_counts *begin)
{
	struct run_counts now;

	run_begin(&now);
	metric("table-pages", now.tables - begin->tables, "pages");
	metric("memory", (begin->memory - now.memory) * (PAGE / KB(1)), "KB");
	if (begin->joined < 0)
		return;
	metric("joined", now.joined - begin->joined, "tables");
	metric("opened", now.opened - begin->opened, "tables");
	metric("withdrawn", now.withdrawn - begin->withdrawn, "tables");
}

static void read_text(struct counter_reader *r)
{
	ssize_t n = pread(r->fd, r->text, sizeof(r->text) - 1, 0);

	r->text[n > 0 ? n : 0] = '\0';
}

void counters_read(struct counter_reader *r, struct counters *c)
{
	read_text(r);
	for (int i = 0; i < COUNTERS; i++) {
		int64_t v = r->present ? vmstat_value(r->text, counter[i].name) : 0;

		c->value[i] = v < 0 ? 0 : v;
	}
}

void count_all(void)
{
	int fd = open("/sys/kernel/mm/cohort/count", O_WRONLY | O_CLOEXEC);

	/* Stock kernels, and Cohort's before, have no such file. */
	if (fd < 0)
		return;
	if (write(fd, "on", 2) != 2)
		die_errno("/sys/kernel/mm/cohort/count");
	close(fd);
}

void counters_open(struct counter_reader *r)
{
	r->fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	if (r->fd < 0)
		die_errno("/proc/vmstat");
	/* Some are counted only while somebody compares. */
	count_all();
	read_text(r);
	r->present = vmstat_value(r->text, counter[0].name) >= 0;
}

void counters_sub(struct counters *d, const struct counters *from)
{
	for (int i = 0; i < COUNTERS; i++)
		d->value[i] -= from->value[i];
}

void counters_print(const struct counter_reader *r, const struct counters *d,
		    const char *prefix, const char *suffix)
{
	for (int i = 0; r->present && i < COUNTERS; i++) {
		char name[96];
		int n = snprintf(name, sizeof(name), "%s-%s%s", prefix,
				 counter[i].name + strlen("cohort_"), suffix);

		for (int j = 0; j < n; j++)
			if (name[j] == '_')
				name[j] = '-';
		metric(name, d->value[i], counter[i].unit);
	}
}
