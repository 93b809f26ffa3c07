// SPDX-License-Identifier: GPL-2.0-only
/* Swap, and memory that is short. */
#include "../common.h"

#include <sys/swap.h>

/* Shared with the main process, which undoes it at the end of the run. */
static struct {
	char swap[64];		/* what we swapped on, "" if nothing */
	int zram;		/* the zram device that we made, -1 if none */
	bool cgroup;
} *world;

void begin_pressure(void)
{
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (world == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	world->zram = -1;
}

static bool write_swap_header(int fd, size_t bytes)
{
	struct {
		char boot[1024];
		__u32 version, last_page, nr_bad;
	} header = { .version = 1, .last_page = bytes / page_size - 1 };
	char *page = calloc(1, page_size);
	bool ok;

	memcpy(page, &header, sizeof(header));
	memcpy(page + page_size - 10, "SWAPSPACE2", 10);
	ok = pwrite(fd, page, page_size, 0) == (ssize_t)page_size && !fsync(fd);
	free(page);
	return ok;
}

static bool swap_try(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write_swap_header(fd, bytes);
	close(fd);
	if (!ok || swapon(path, 0))
		return false;
	snprintf(world->swap, sizeof(world->swap), "%s", path);
	return true;
}

/* on zram, else on a RAM disk, else in a file */
bool swap_on(void)
{
	const size_t bytes = 192 << 20;
	char path[64], text[32];
	int fd;

	if (world->swap[0])
		return !swapon(world->swap, 0) || errno == EBUSY;
	if (read_text("/sys/class/zram-control/hot_add", text, sizeof(text)) > 0) {
		world->zram = atoi(text);
		snprintf(path, sizeof(path), "/sys/block/zram%d/disksize", world->zram);
		snprintf(text, sizeof(text), "%zu", bytes);
		if (!write_text(path, text)) {
			snprintf(path, sizeof(path), "/dev/zram%d", world->zram);
			if (swap_try(path, bytes))
				return true;
		}
	}
	if (swap_try("/dev/ram0", 4 << 20))
		return true;
	snprintf(path, sizeof(path), "/var/tmp/cohort-selftest.swap");
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd >= 0) {
		char *zeros = calloc(1, 1 << 20);

		for (size_t off = 0; off < bytes / 4; off += 1 << 20)
			if (write(fd, zeros, 1 << 20) != 1 << 20)
				break;
		free(zeros);
		close(fd);
		if (swap_try(path, bytes / 4))
			return true;
		unlink(path);
	}
	return false;
}

void need_swap(void)
{
	if (!swap_on())
		skip("no swap can be had");
}

void end_pressure(void)
{
	char text[64];

	if (world->swap[0]) {
		swapoff(world->swap);
		if (!strncmp(world->swap, "/var/", 5))
			unlink(world->swap);
	}
	if (world->zram >= 0) {
		snprintf(text, sizeof(text), "/sys/block/zram%d/reset", world->zram);
		write_text(text, "1");
		snprintf(text, sizeof(text), "%d", world->zram);
		write_text("/sys/class/zram-control/hot_remove", text);
	}
	if (world->cgroup)
		rmdir(CGROUP);
}

/* put this process into a cgroup of its own, so that press() can reclaim from it alone */
static bool enter_cgroup(void)
{
	if (!world->cgroup) {
		write_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
		if (access("/sys/fs/cgroup/cgroup.procs", F_OK))
			return false;
		if (mkdir(CGROUP, 0755) && errno != EEXIST)
			return false;
		world->cgroup = true;
	}
	if (access(CGROUP "memory.reclaim", W_OK))
		return false;
	write_text(CGROUP "memory.max", "max");
	return !write_text(CGROUP "cgroup.procs", "0");
}

void need_cgroup(void)
{
	if (!enter_cgroup())
		skip("no memory cgroup (v2) to reclaim from");
}

void press(void)
{
	/* it fails when it reclaims less than asked, which is expected */
	if (write_text(CGROUP "memory.reclaim", "64M swappiness=200") == -EINVAL)
		write_text(CGROUP "memory.reclaim", "64M");
}

void press_files(void)
{
	if (write_text(CGROUP "memory.reclaim", "64M swappiness=0") == -EINVAL)
		write_text(CGROUP "memory.reclaim", "64M");
}

bool swap_off(void)
{
	return !world->swap[0] || !swapoff(world->swap) || errno == EINVAL;
}
