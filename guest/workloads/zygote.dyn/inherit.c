// SPDX-License-Identifier: GPL-2.0-or-later
/* Code entries that applications find populated (Table 3). */
#include "watch.h"

static size_t count_both(const unsigned char *a, const unsigned char *b)
{
	size_t n = 0;

	for (size_t i = 0; i < watch->pages; i++)
		n += a[i] && b[i];
	return n;
}

/*
 * Start application @a in a child, note in @bit what of the watched code its
 * tables hold before its first step, and let it run.
 */
static void application_finds(size_t a, unsigned char *bit)
{
	int to_child[2], to_parent[2];
	char byte = 0;
	pid_t pid;

	if (pipe(to_child) || pipe(to_parent))
		die_errno("pipe");
	/* An interpreter flushes what the child has of standard output. */
	fflush(stdout);
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1)
			bare_exit(1);
		application_run(a);
		bare_exit(0);
	}
	close(to_parent[1]);
	if (read(to_parent[0], &byte, 1) != 1)
		die("application %s did not start", application[a].name);
	code_present(pid, bit);
	if (write(to_child[1], &byte, 1) != 1)
		die_errno("pipe");
	bare_wait(pid);
	close(to_child[0]);
	close(to_child[1]);
	close(to_parent[0]);
}

static void print_entries(const char *what, size_t a, size_t n)
{
	char name[64];

	snprintf(name, sizeof(name), "%s-%s", what, application[a].name);
	metric(name, n, "PTEs");
	metric(what, n, "PTEs");
}

/*
 * "Inherited" is an entry that the application uses and finds populated when it
 * starts. What it finds is read from the tables of a child of the zygote: cold,
 * of a zygote as it was before any fork, and warm, after the same application
 * has run in another child.
 */
void run_inherit(void)
{
	size_t apps = ARRAY_SIZE(application);
	unsigned char (*uses)[MAX_CODE_PAGES];

	uses = scratch_map(apps * sizeof(*uses));
	watch_code();
	for (size_t a = 0; a < apps; a++)
		application_uses(a, uses[a]);
	if (opt.zygote)
		become_zygote(0);
	for (size_t a = 0; a < apps; a++) {
		/* The same as before any fork. */
		populate_code_about(opt.code);
		application_finds(a, s->finds);
		print_entries("inherited-cold", a, count_both(uses[a], s->finds));
		application_finds(a, s->finds);
		print_entries("inherited-warm", a, count_both(uses[a], s->finds));
		print_entries("code-used", a, count_both(uses[a], uses[a]));
		fflush(stdout);
	}
}
