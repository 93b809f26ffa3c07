// SPDX-License-Identifier: GPL-2.0-or-later
/* State that belongs to no process: files, swap, merging, the kernel's switches. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define COHORT	"/sys/kernel/mm/cohort/"
#define THP	"/sys/kernel/mm/transparent_hugepage/"

static const char *swap_device;
static char first_join[8];	/* as it was found */

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* For @ms, or if that is 0 as long as it takes. */
void futex_wait(u32 *word, u32 value, u32 ms)
{
	/* The C library's may have 64 bits where this call's have 32. */
	struct {
		long sec, nsec;
	} time = { ms / 1000, ms % 1000 * 1000000L };

	syscall(SYS_futex, word, FUTEX_WAIT, value, ms ? &time : NULL, NULL, 0);
}

void futex_wake(u32 *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool vmstat(const char *name, u64 *value)
{
	FILE *file = fopen("/proc/vmstat", "r");
	char line[128];
	size_t len = strlen(name);
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, len) && line[len] == ' ') {
			*value = strtoull(line + len, NULL, 10);
			found = true;
		}
	if (file)
		fclose(file);
	return found;
}

u32 shared_tables(pid_t pid)
{
	char path[40], line[128];
	u32 tables = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cohort", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "SharedTables: %u", &tables);
	if (file)
		fclose(file);
	return tables;
}

/* A swap area needs no more than this in its first page. */
static bool make_swap(const char *path, u64 pages)
{
	static char page[PAGE];
	u32 header[3] = { 1, pages - 1, 0 };
	int fd = open(path, O_RDWR);
	bool good;

	if (fd < 0)
		return false;
	memcpy(page + 1024, header, sizeof(header));
	memcpy(page + PAGE - 10, "SWAPSPACE2", 10);
	good = pwrite(fd, page, PAGE, 0) == (ssize_t)PAGE;
	close(fd);
	return good && swapon(path, 0) == 0;
}

static void set_up_swap(void)
{
	FILE *file = fopen("/proc/swaps", "r");
	static char path[200];
	char line[200];

	/* Do not switch off one that was there before. */
	if (file && fgets(line, sizeof(line), file) && fgets(line, sizeof(line), file)) {
		fclose(file);
		return;
	}
	if (file)
		fclose(file);
	if (!write_file("/sys/block/zram0/disksize", "256M") &&
	    make_swap("/dev/zram0", (256 << 20) / PAGE)) {
		snprintf(path, sizeof(path), "/dev/zram0");
		swap_device = path;
	}
}

/* Two cgroups whose labels are names that processes also choose, see leave(). */
static void set_up_groups(void)
{
	static const char *const names[] = { "fuzz-a", "fuzz-b" };
	char path[60], line[80] = "", *word;
	FILE *file = fopen(COHORT "join", "r");

	if (!file)
		return;		/* a kernel without groups */
	if (fgets(line, sizeof(line), file) && (word = strchr(line, '[')))
		sscanf(word, "[%7[a-z]", first_join);
	fclose(file);
	for (u32 i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", names[i]);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/memory.cohort", names[i]);
		write_file(path, names[i]);
	}
}

void count_joins(struct joins *joins)
{
	memset(joins, 0, sizeof(*joins));
	vmstat("cohort_ptp_opened", &joins->opened);
	vmstat("cohort_ptp_joined", &joins->joined);
	vmstat("cohort_ptp_withdrawn", &joins->withdrawn);
	vmstat("cohort_pmd_joined", &joins->upper);
}

/* A file that can have holes made into it, else memory. */
static int open_file(u32 number)
{
	static const char *const dirs[] = { "/var/tmp", "/dev/shm" };
	int fd = -1;

	for (u32 i = 0; number >= 2 && i < ARRAY_SIZE(dirs); i++) {
		fd = open(dirs[i], O_TMPFILE | O_RDWR, 0600);
		if (fd < 0)
			continue;
		if (!ftruncate(fd, PAGE) &&
		    !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE))
			return fd;
		close(fd);
	}
	fd = memfd_create("fuzz", 0);
	if (fd < 0)
		broken("no memfd: %s", strerror(errno));
	return fd;
}

void system_setup(void)
{
	struct utsname name;
	int major = 0, minor = 0;
	u64 value;

	if (uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2)
		board->moves_holes = major * 1000 + minor >= 6017;
	for (u32 i = 0; i < NR_FILES; i++)
		board->file_fds[i] = open_file(i);
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (pipe2(board->pipes[i], O_NONBLOCK) < 0)
			broken("no pipe: %s", strerror(errno));
	if (!strcmp(opt.mode, "any"))
		return;		/* the machine is somebody's: leave it as it is */
	/* A kernel that cannot share is as good as one that does not. */
	if (strcmp(opt.mode, "never") && !vmstat("cohort_ptp_shared", &value))
		broken("this kernel shares no page tables: it has no cohort_ptp_shared in /proc/vmstat");
	if (write_file(COHORT "enabled", opt.mode) < 0 && strcmp(opt.mode, "never"))
		broken("cannot write %senabled: run this as root", COHORT);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mkdir("/sys/fs/cgroup", 0755);
	/* Make hinting faults from the start, not after a second of work. */
	write_file("/sys/kernel/debug/sched/numa_balancing/scan_delay_ms", "1");
	write_file("/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms", "10");
	write_file("/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms", "50");
	write_file("/proc/sys/kernel/numa_balancing", "1");
	write_file("/proc/sys/vm/overcommit_memory", "1");
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "200");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "50");
	write_file("/sys/kernel/mm/ksm/run", "1");
	/* Its pages would be counted as resident, and they are no one's. */
	write_file(THP "use_zero_page", "0");
	set_up_swap();
	set_up_groups();
}

void system_reset_files(void)
{
	for (u32 i = 0; i < NR_FILES; i++) {
		if (ftruncate(board->file_fds[i], 0) || ftruncate(board->file_fds[i], OBJ_PAGES * PAGE))
			broken("cannot size a file: %s", strerror(errno));
		world->objects[i].size = OBJ_PAGES;
	}
}

void system_restore(void)
{
	if (!strcmp(opt.mode, "any"))
		return;
	write_file(COHORT "enabled", opt.mode);
	write_file(COHORT "unshare_copy", "referenced");
	write_file(COHORT "fork_copy", "stock");
	if (opt.exec && write_file(COHORT "join", opt.join) < 0 &&
	    strcmp(opt.join, "never") && strcmp(opt.mode, "never"))
		broken("cannot write %sjoin: this kernel has no groups", COHORT);
	if (!opt.exec && first_join[0])
		write_file(COHORT "join", first_join);
}

void system_command(const struct cmd *cmd)
{
	if (cmd->op == OP_QUIET) {
		account_check();
		return;
	}
	if (!strcmp(opt.mode, "any"))
		return;
	switch (cmd->op) {
	case OP_COMPACT:
		write_file("/proc/sys/vm/compact_memory", "1");
		break;
	case OP_DROP:
		write_file("/proc/sys/vm/drop_caches", "3");
		break;
	case OP_SWAPOFF:
		if (!swap_device)
			break;
		if (swapoff(swap_device) == 0 && swapon(swap_device, 0))
			broken("cannot switch swap on again: %s", strerror(errno));
		break;
	case OP_RECLAIM:
		write_file("/sys/fs/cgroup/memory.reclaim", "2M");
		break;
	case OP_MODE:		/* a: 0 to 119 */
		if (cmd->a < 40)
			write_file(COHORT "unshare_copy",
				   cmd->a & 1 ? "all" : "referenced");
		else if (cmd->a < 60)
			write_file(COHORT "fork_copy",
				   cmd->a & 1 ? "file" : "stock");
		else if (cmd->a < 100)
			write_file(COHORT "enabled",
				   cmd->a < 68 ? "never" : opt.mode);
		else
			write_file(COHORT "join", cmd->a < 105 ? "never" : opt.join);
		break;
	}
}
