// SPDX-License-Identifier: GPL-2.0-only
/* MMU notifiers and device memory, which lib/test_hmm.c mimics. */
#include "common.h"

#include <sys/ioctl.h>

/* --- MMU notifiers -------------------------------------------------------- */

#define MIRROR	"/dev/hmm_dmirror0"	/* of lib/test_hmm.c */

/* opening it registers a notifier for the process */
static long open_mirror(long a, long b)
{
	return open(MIRROR, O_RDWR | O_CLOEXEC) < 0 ? -errno : 0;
}

static void test_notifier(long arg)
{
	long others, err;

	if (access(MIRROR, R_OK | W_OK))
		skip("no " MIRROR ": nothing here registers a notifier");
	start_models(ARG_KIND(arg), 3);
	for (int i = 0; i <= 3; i++)
		ask(i, nothing, 0, 0);
	others = shared_tables(pid_of(2));
	err = ask(1, open_mirror, 0, 0);
	must(!err, MIRROR ": %s", strerror(-err));
	if (sharing_possible()) {
		must(!shared_tables(pid_of(1)) &&
		     proc_field(pid_of(1), "cohort", "SharedPmdTables") <= 0,
		     "a process with a notifier shares %ld tables", shared_tables(pid_of(1)));
		must(shared_tables(pid_of(2)) == others, "another shares %ld tables, not %ld",
		     shared_tables(pid_of(2)), others);
	}
	models_right(4);
	/* its children share nothing with it: the notifier must see all changes */
	spawn_from(1, 4);
	board->model[4] = board->model[1];
	if (sharing_possible())
		must(!shared_tables(pid_of(4)), "a child of a process with a notifier shares");
	models_right(5);
	/* the zygote itself */
	err = ask(SELF, open_mirror, 0, 0);
	must(!err, MIRROR ": %s", strerror(-err));
	models_right(5);
	spawn(5);
	board->model[5] = board->model[0];
	if (sharing_possible())
		must(!shared_tables(0), "the zygote shares in spite of its notifier");
	models_right(6);
}

/* --- device memory -------------------------------------------------------- */

/* lib/test_hmm_uapi.h, which is not installed */
struct mirror_cmd {
	__u64 addr, ptr, npages, cpages, faults;
};

#define MIRROR_TO_DEVICE	_IOWR('H', 0x02, struct mirror_cmd)
#define DEVICE_PAGES		8

static char *device_area;

static long device_right(long tag, long new)
{
	for (int i = 0; i < DEVICE_PAGES; i++) {
		sees(page_is(device_area + i * page_size, tag + i), "page %d is not %ld", i,
		     tag + i);
		if (new)
			page_fill(device_area + i * page_size, new + i);
	}
	return 0;
}

static long device_zygote(long a, long b)
{
	become_zygote();
	return 0;
}

/*
 * Pages in device memory. Their process has a notifier and shares nothing. Its
 * child inherits the pages but no notifier, and may share.
 */
static void test_device_memory(long arg)
{
	char *copy = map_at(arena(1), DEVICE_PAGES * page_size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mirror_cmd cmd = { .ptr = (uintptr_t)copy, .npages = DEVICE_PAGES };
	int fd = open(MIRROR, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		skip(MIRROR ": %s", strerror(errno));
	device_area = map_at(arena(1), table_size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cmd.addr = (uintptr_t)device_area;
	for (int i = 0; i < DEVICE_PAGES; i++)
		page_fill(device_area + i * page_size, 100 + i);
	no_huge_pages(device_area, table_size);
	must(!ioctl(fd, MIRROR_TO_DEVICE, &cmd), "HMM_DMIRROR_MIGRATE_TO_DEV: %s",
	     strerror(errno));
	must(cmd.cpages == DEVICE_PAGES, "%llu pages are in the device", cmd.cpages);
	spawn(1);
	ask(1, device_zygote, 0, 0);
	for (int who = 2; who <= 4; who++)
		spawn_from(1, who);
	if (sharing_possible())
		must(shared_tables(pid_of(2)) > 0, "nothing is shared");
	/* a read brings one page back and changes its entry */
	sees(memory_byte(pid_of(3), device_area) == memory_byte(pid_of(4), device_area),
	     "siblings differ");
	ask(2, device_right, 100, 200);
	ask(3, device_right, 100, 0);
	quit(1);
	ask(4, device_right, 100, 400);
	ask(2, device_right, 200, 0);
	device_right(100, 500);
	ask(3, device_right, 100, 300);
	close(fd);
}

#define OWN	(KIND(ANON) | KIND(PRIV_FILE) | KIND(MIXED) | KIND(BORDERS))
#define MOST	(OWN | KIND(SHARED_FILE) | KIND(PRIV_FILE_RO) | KIND(ALONE))

static const struct test_case cases[] = {
	{ "Pages in a device's memory that were inherited stay right", test_device_memory,
	  .guards = INVARIANT(6) },
	{ "A process with an MMU notifier shares no table", test_notifier, 0, MOST,
	  KIND(MIXED) | KIND(ALONE), .guards = INVARIANT(1) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
