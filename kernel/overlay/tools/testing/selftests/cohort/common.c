// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all Cohort selftests stand on; see common.h.
 */
#include "common.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/statfs.h>
#include <sys/swap.h>
#if __has_include("sys/rseq.h")
#include <sys/rseq.h>
#endif

unsigned long page_size;
unsigned long table_size;
enum cohort_mode cohort_mode;
bool quick;
int race_seconds;
bool costly;
struct board *board;
void (*after_each_case)(void);

int case_seconds = 300;
static const char *expected_mode;
static int kmsg_fd = -1;

/* --- the kernel's side ---------------------------------------------------- */

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

void become_zygote(void)
{
	int ret = prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, 0, 0, 0);

	if (cohort_mode != MODE_STOCK)
		must(!ret, "PR_SET_COHORT: %s", strerror(errno));
}

static enum cohort_mode detect_mode(void)
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
	/* A run that asks for sharing must not pass because there is none. */
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

/* --- verdicts ------------------------------------------------------------- */

static void verdict(int code, const char *where, const char *fmt, va_list args)
{
	char text[240];

	vsnprintf(text, sizeof(text), fmt, args);
	if (board && board->verdict == KSFT_PASS) {
		snprintf(board->reason, sizeof(board->reason), "%s%s", where, text);
		board->verdict = code;
	}
	if (code != KSFT_SKIP)
		dprintf(STDOUT_FILENO, "# [%d] %s%s\n", getpid(), where, text);
}

void die(const char *file, int line, const char *cond, const char *fmt, ...)
{
	const char *slash = strrchr(file, '/');
	char where[64];
	va_list args;

	snprintf(where, sizeof(where), "%s:%d: ", slash ? slash + 1 : file, line);
	va_start(args, fmt);
	verdict(KSFT_FAIL, where, fmt, args);
	va_end(args);
	/* the lab reads it: a page with wrong content is never a matter of time */
	if (cond)
		note("it must be that %s", cond);
	_exit(KSFT_FAIL);
}

void skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	verdict(KSFT_SKIP, "", fmt, args);
	va_end(args);
	_exit(KSFT_SKIP);
}

void note(const char *fmt, ...)
{
	char text[240];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	dprintf(STDOUT_FILENO, "# %s\n", text);
}

/* --- probing -------------------------------------------------------------- */

static __thread sigjmp_buf probe_jump;
static __thread sig_atomic_t probing;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (probing)
		siglongjmp(probe_jump, sig);
	dprintf(STDOUT_FILENO, "# [%d] unexpected signal %d (code %d) at %p\n",
		getpid(), sig, info->si_code, info->si_addr);
	signal(sig, SIG_DFL);
	raise(sig);
}

void catch_faults(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

static int probe(char *addr, bool write)
{
	int sig = sigsetjmp(probe_jump, 1);

	if (!sig) {
		char c;

		__atomic_store_n(&probing, 1, __ATOMIC_SEQ_CST);
		c = touch(addr);
		if (write)
			__atomic_store_n(addr, c, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&probing, 0, __ATOMIC_SEQ_CST);
	return sig;
}

int probe_read(const void *addr)
{
	return probe((char *)addr, false);
}

int probe_write(void *addr)
{
	return probe(addr, true);
}

int probe_load(const __u64 *addr, __u64 *value)
{
	int sig = sigsetjmp(probe_jump, 1);

	if (!sig) {
		__atomic_store_n(&probing, 1, __ATOMIC_SEQ_CST);
		*value = __atomic_load_n(addr, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&probing, 0, __ATOMIC_SEQ_CST);
	return sig;
}

static inline __u64 tag_word(unsigned int tag, size_t i)
{
	__u64 x = ((__u64)tag << 16) ^ i;

	/* a mixing step, so that no two words of two tags are likely equal */
	x *= 0x9e3779b97f4a7c15ULL;
	return x ^ (x >> 29);
}

void page_fill(void *addr, unsigned int tag)
{
	__u64 *word = addr;
	size_t i;

	if (!tag) {
		memset(addr, 0, page_size);
		return;
	}
	for (i = 0; i < page_size / sizeof(*word); i++)
		word[i] = tag_word(tag, i);
}

bool page_is(const void *addr, unsigned int tag)
{
	const __u64 *word = addr;
	size_t i;

	for (i = 0; i < page_size / sizeof(*word); i++)
		if (word[i] != (tag ? tag_word(tag, i) : 0))
			return false;
	return true;
}

/* --- areas ---------------------------------------------------------------- */

static const struct {
	const char *name;
	bool shared, anon, readonly;
} kinds[NR_KINDS] = {
	[ANON]		= { "private anonymous", false, true, false },
	[HEAP]		= { "heap (brk)", false, true, false },
	[PRIV_FILE]	= { "private tmpfs file", false, false, false },
	[PRIV_FILE_RO]	= { "private file, read and exec only", false, false, true },
	[PRIV_DISK]	= { "private file on disk", false, false, false },
	[SHARED_FILE]	= { "shared tmpfs file", true, false, false },
	[SHARED_DISK]	= { "shared file on disk", true, false, false },
	[SHARED_ANON]	= { "shared anonymous", true, false, false },
	[MEMFD]		= { "memfd", true, false, false },
	[SYSV]		= { "SysV shm", true, false, false },
	[MIXED]		= { "private and shared in one table", false, false, false },
	[BORDERS]	= { "anonymous over table borders", false, true, false },
	[NEAR_THP]	= { "anonymous beside a huge page", false, true, false },
	[ALONE]		= { "shared, alone in its gigabyte", true, false, false },
};

const char *kind_name(enum kind kind)
{
	return kinds[kind].name;
}

bool kind_shared(enum kind kind)
{
	return kinds[kind].shared;
}

bool kind_anon(enum kind kind)
{
	return kinds[kind].anon;
}

bool kind_readonly(enum kind kind)
{
	return kinds[kind].readonly;
}

char *arena(int tables)
{
	/*
	 * Far from where the kernel puts anything by itself, so that a table
	 * holds what the case mapped and nothing else.
	 */
	const uintptr_t first = sizeof(long) == 8 ? (uintptr_t)0x2000000000ULL : 0x50000000;
	static uintptr_t next;
	uintptr_t addr;

	/* where addresses are few, long since unmapped ones come round again */
	if (!next || (sizeof(long) == 4 && next > 0xa0000000))
		next = first;
	addr = (next + table_size - 1) / table_size * table_size;
	next = addr + (tables + 1) * table_size;
	return (char *)addr;
}

void *map_at(char *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	void *p = mmap(addr, len, prot, flags | MAP_FIXED_NOREPLACE, fd, off);

	must(p == addr, "mmap at %p: %s", addr,
	     p == MAP_FAILED ? strerror(errno) : "elsewhere");
	return p;
}

int make_file(const char *fs, size_t pages)
{
	static const char * const tmpfs_dirs[] = { "/dev/shm", "/tmp", "/run" };
	static const char * const disk_dirs[] = { "/var/tmp", "/root", "/tmp", "." };
	bool disk = !strcmp(fs, "disk");
	const char * const *dirs = disk ? disk_dirs : tmpfs_dirs;
	int n = disk ? ARRAY_SIZE(disk_dirs) : ARRAY_SIZE(tmpfs_dirs);
	struct statfs st;
	char *page;
	size_t i;
	int fd = -1;

	for (int d = 0; d < n && fd < 0; d++) {
		bool in_memory;

		if (statfs(dirs[d], &st))
			continue;
		/* tmpfs, ramfs (the initial root), overlayfs over either */
		in_memory = st.f_type == 0x01021994 || st.f_type == (typeof(st.f_type))0x858458f6;
		if (in_memory == disk)
			continue;
		fd = open(dirs[d], O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		skip("no %s to make a file on", disk ? "disk file system" : fs);

	page = aligned_alloc(page_size, page_size);
	must(page, "out of memory");
	for (i = 0; i < pages; i++) {
		page_fill(page, FILE_TAG(i));
		must(pwrite(fd, page, page_size, i * page_size) == (ssize_t)page_size,
		     "file on %s: %s", fs, strerror(errno));
	}
	free(page);
	return fd;
}

static struct part *area_part(struct area *a, char *addr, size_t len, int prot,
			      int flags, int fd)
{
	struct part *p = &a->part[a->nparts++];

	p->addr = addr;
	p->len = len;
	p->prot = prot;
	p->flags = flags;
	p->fd = fd;
	p->shared = flags & MAP_SHARED;
	return p;
}

/*
 * Choose n pages of a part, both ends among them, and leave them in every state
 * that a fork can meet: never touched, read, written, written and read.
 */
void area_spots(struct area *a, int part, int n)
{
	struct part *p = &a->part[part];
	size_t pages = p->len / page_size;
	int i;

	for (i = 0; i < n && a->nspots < MAX_SPOTS; i++) {
		size_t index = n > 1 ? (pages - 1) * i / (n - 1) : 0;
		struct spot *s = &a->spot[a->nspots];

		s->addr = p->addr + index * page_size;
		s->part = part;
		s->file_tag = p->fd >= 0 ? FILE_TAG(index) : 0;
		s->tag = s->file_tag;
		if (i % 4 == 2) {
			/* never touched */
		} else if (i % 4 != 1 && (p->prot & PROT_WRITE)) {
			s->tag = 2000000u + a->nspots;
			page_fill(s->addr, s->tag);
		} else {
			touch(s->addr);
		}
		if (p->shared)
			s->file_tag = s->tag;
		a->nspots++;
	}
}

void area_make(struct area *a, enum kind kind)
{
	const int rw = PROT_READ | PROT_WRITE;
	static uintptr_t next_gigabyte = sizeof(long) == 8 ? (uintptr_t)0x3c00000000ULL : 0;
	size_t table_pages = table_size / page_size;
	size_t len = table_size;
	int n = quick ? 8 : 16;
	struct part *p;
	int id, i;

	memset(a, 0, sizeof(*a));
	a->kind = kind;
	a->tables = 1;
	a->base = kind == HEAP ? NULL : arena(4);

	switch (kind) {
	case ANON:
		area_part(a, a->base, len, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		break;
	case HEAP:
		/* the aligned table inside what brk gave; the rest is left alone */
		p = sbrk(3 * table_size);
		must(p != (void *)-1, "brk: %s", strerror(errno));
		a->base = (char *)(((uintptr_t)p + table_size - 1) / table_size * table_size);
		area_part(a, a->base, len, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		break;
	case PRIV_FILE:
	case PRIV_DISK:
		area_part(a, a->base, len, rw, MAP_PRIVATE,
			  make_file(kind == PRIV_DISK ? "disk" : "tmpfs", table_pages));
		break;
	case PRIV_FILE_RO:
		area_part(a, a->base, len, PROT_READ | PROT_EXEC, MAP_PRIVATE,
			  make_file("tmpfs", table_pages));
		break;
	case SHARED_FILE:
	case SHARED_DISK:
		area_part(a, a->base, len, rw, MAP_SHARED,
			  make_file(kind == SHARED_DISK ? "disk" : "tmpfs", table_pages));
		break;
	case SHARED_ANON:
		area_part(a, a->base, len, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
		break;
	case MEMFD:
		p = area_part(a, a->base, len, rw, MAP_SHARED, memfd_create("cohort", MFD_CLOEXEC));
		must(p->fd >= 0, "memfd_create: %s", strerror(errno));
		must_call(ftruncate(p->fd, len));
		break;
	case SYSV:
		if (access("/proc/sysvipc", F_OK))
			skip("no SysV shared memory in this kernel");
		id = shmget(IPC_PRIVATE, len, 0600 | IPC_CREAT);
		must(id >= 0, "shmget: %s", strerror(errno));
		must(shmat(id, a->base, 0) == a->base, "shmat: %s", strerror(errno));
		must_call(shmctl(id, IPC_RMID, NULL));
		area_part(a, a->base, len, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
		break;
	case MIXED:
		/* five regions with holes between them, all in one table */
		len = table_size / 16;
		area_part(a, a->base + len, len, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		area_part(a, a->base + 3 * len, len, rw, MAP_PRIVATE,
			  make_file("tmpfs", len / page_size));
		area_part(a, a->base + 5 * len, len, rw, MAP_SHARED,
			  make_file("tmpfs", len / page_size));
		area_part(a, a->base + 7 * len, len, PROT_READ, MAP_PRIVATE,
			  make_file("tmpfs", len / page_size));
		area_part(a, a->base + 9 * len, len, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
		n = quick ? 4 : 8;
		break;
	case BORDERS:
		/* begins and ends in the middle of a table */
		a->tables = 3;
		area_part(a, a->base + table_size / 2, 2 * table_size, rw,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1);
		n = quick ? 13 : 25;
		break;
	case NEAR_THP:
		area_part(a, a->base, 3 * table_size, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		n = quick ? 13 : 25;
		break;
	case ALONE:
		if (sizeof(long) < 8)
			skip("no gigabyte to spare");
		/* as much as fork shares with the table above it, and nothing beside it */
		next_gigabyte += 2UL << 30;
		a->base = (char *)next_gigabyte + (256UL << 20);
		a->tables = 0;
		area_part(a, a->base, 128UL << 20, rw, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1);
		break;
	case NR_KINDS:
		break;
	}

	for (i = 0; i < a->nparts; i++) {
		p = &a->part[i];
		if (kind != HEAP && kind != SYSV)
			map_at(p->addr, p->len, p->prot, p->flags, p->fd, 0);
		if (kind == MEMFD) {
			/* a file tag is zero here: nobody has written the memfd yet */
			close(p->fd);
			p->fd = -1;
		}
		if (kind == NEAR_THP) {
			madvise(p->addr + table_size, table_size, MADV_HUGEPAGE);
			madvise(p->addr, table_size, MADV_NOHUGEPAGE);
			madvise(p->addr + 2 * table_size, table_size, MADV_NOHUGEPAGE);
			/* a write first: a read would get the huge page of zeros */
			*(p->addr + table_size) = 1;
			*(p->addr + table_size) = 0;
			/* its entry lies one level up, where no table is */
			a->tables = huge_mapped(p->addr + table_size) ? 2 : 3;
		} else if (p->fd < 0 && kind != HEAP) {
			/* small pages are what these tests are about */
			madvise(p->addr, p->len, MADV_NOHUGEPAGE);
		}
		area_spots(a, i, n);
	}
}

void area_unmap(struct area *a)
{
	for (int i = 0; i < a->nparts; i++)
		must_call(munmap(a->part[i].addr, a->part[i].len));
}

long spots_intact(long area, long unused)
{
	struct area *a = (struct area *)area;

	for (int i = 0; i < a->nspots; i++)
		must(page_is(a->spot[i].addr, a->spot[i].tag),
		     "spot %d (%s, part %d) is not as the zygote left it", i,
		     kind_name(a->kind), a->spot[i].part);
	return 0;
}

long spots_touch(long area, long unused)
{
	struct area *a = (struct area *)area;

	for (int i = 0; i < a->nspots; i++)
		touch(a->spot[i].addr);
	return 0;
}

/* --- peers ---------------------------------------------------------------- */

struct request {
	peer_fn fn;
	long a, b;
};

static struct channel {
	int request[2];
	int reply[2];
} channels[MAX_PEERS];
static int nr_channels;

/*
 * The pipes are made before the first fork, so that a case can talk to its
 * grandchildren too, whoever forked them and whether or not that one lives.
 */
void need_peers(int n)
{
	must(n < MAX_PEERS, "%d peers are too many", n);
	n++;
	for (; nr_channels < n; nr_channels++) {
		must_call(pipe2(channels[nr_channels].request, O_CLOEXEC));
		must_call(pipe2(channels[nr_channels].reply, O_CLOEXEC));
	}
}

static __noreturn void serve(int who)
{
	struct request req;
	ssize_t n;
	long ret;

	for (;;) {
		n = read(channels[who].request[0], &req, sizeof(req));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(req) || !req.fn)
			_exit(0);
		ret = req.fn(req.a, req.b);
		if (write(channels[who].reply[1], &ret, sizeof(ret)) != sizeof(ret))
			_exit(1);
	}
}

static long do_spawn(long who, long unused)
{
	pid_t pid;

	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid)
		serve(who);
	board->pid[who] = pid;
	return 0;
}

void spawn(int who)
{
	need_peers(who < 8 ? 8 : who);
	do_spawn(who, 0);
}

void spawn_from(int parent, int who)
{
	must(who < nr_channels, "peer %d has no channel", who);
	must(!ask(parent, do_spawn, who, 0), "peer %d cannot fork", parent);
}

pid_t pid_of(int who)
{
	return board->pid[who];
}

bool is_gone(pid_t pid)
{
	char path[64], buf[512], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (read_text(path, buf, sizeof(buf)) <= 0)
		return true;
	p = strrchr(buf, ')');
	return p && (p[2] == 'Z' || p[2] == 'X');
}

void tell(int who, peer_fn fn, long a, long b)
{
	struct request req = { .fn = fn, .a = a, .b = b };

	must(write(channels[who].request[1], &req, sizeof(req)) == sizeof(req),
	     "peer %d cannot be told", who);
}

long answer(int who)
{
	struct pollfd pfd = { .fd = channels[who].reply[0], .events = POLLIN };
	long ret;
	int n;

	for (;;) {
		bool gone = is_gone(pid_of(who));

		n = poll(&pfd, 1, gone ? 0 : 500);
		if (n == 1) {
			must(read(pfd.fd, &ret, sizeof(ret)) == sizeof(ret),
			     "peer %d speaks unclearly", who);
			return ret;
		}
		if (!n && gone)
			return DEAD;
		must(n >= 0 || errno == EINTR, "poll: %s", strerror(errno));
	}
}

long ask(int who, peer_fn fn, long a, long b)
{
	long ret;

	if (who == SELF)
		return fn(a, b);
	tell(who, fn, a, b);
	ret = answer(who);
	if (ret == DEAD) {
		/* a peer that gave a verdict has spoken for the case */
		if (board->verdict != KSFT_PASS)
			_exit(board->verdict);
		fail("peer %d died", who);
	}
	return ret;
}

void wait_gone(int who)
{
	pid_t pid = pid_of(who);
	int i;

	for (i = 0; !is_gone(pid); i++)
		usleep(i < 100 ? 100 : 5000);
	/* ours or not, a zombie's memory is gone */
	waitpid(pid, NULL, WNOHANG);
}

void quit(int who)
{
	tell(who, NULL, 0, 0);
	wait_gone(who);
}

void kill_peer(int who)
{
	must_call(kill(pid_of(who), SIGKILL));
	wait_gone(who);
}

/* --- merging --------------------------------------------------------------- */

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

/* --- allocations that fail ------------------------------------------------ */

static const struct knob {
	const char *file, *value;
} knobs[] = {
	{ "/sys/kernel/debug/failslab/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/failslab/verbose", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N" },
	{ "/sys/kernel/debug/fail_page_alloc/min-order", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/verbose", "0" },
};

static char knob_was[ARRAY_SIZE(knobs)][16];

static int fail_fd = -1;

void need_injection(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (write_text(knobs[i].file, knobs[i].value))
			skip("no fault injection in this kernel");
}

/*
 * On its way back to user space the kernel writes the CPU's number into our
 * memory, and kills who has none to spare: true on any kernel, but not our test.
 */
static void forget_rseq(void)
{
#if __has_include("sys/rseq.h")
	char *thread = __builtin_thread_pointer();

	if (__rseq_size)
		syscall(__NR_rseq, thread + __rseq_offset, 32, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
}

void arm(long n)
{
	char text[16];

	if (fail_fd < 0) {
		forget_rseq();
		fail_fd = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	}
	if (fail_fd < 0)
		skip("/proc/self/fail-nth: %s", strerror(errno));
	snprintf(text, sizeof(text), "%ld", n);
	must(pwrite(fail_fd, text, strlen(text), 0) > 0, "fail-nth: %s", strerror(errno));
}

bool disarm(void)
{
	char text[16] = "";
	int saved = errno;

	must(pread(fail_fd, text, sizeof(text) - 1, 0) > 0, "fail-nth: %s", strerror(errno));
	must(pwrite(fail_fd, "0", 1, 0) == 1, "fail-nth: %s", strerror(errno));
	errno = saved;
	return atoi(text) == 0;
}

void save_injection(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (read_text(knobs[i].file, knob_was[i], sizeof(knob_was[i])) < 0)
			knob_was[i][0] = 0;
}

void restore_injection(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (knob_was[i][0])
			write_text(knobs[i].file, knob_was[i]);
}

/* --- memory that breaks --------------------------------------------------- */

static void ignore_signal(int sig)
{
}

/* whoever breaks its own page is told at once, as if it had used it */
long poison(long addr, long unused)
{
	int ret;

	signal(SIGBUS, ignore_signal);
	ret = madvise((void *)addr, page_size, MADV_HWPOISON) ? -errno : 0;
	catch_faults();
	return ret;
}

long dies_late(long unused, long unused2)
{
	/* SIGBUS on access, not at once */
	prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_LATE, 0, 0);
	return 0;
}

/* --- models --------------------------------------------------------------- */

void model_init(struct model *m, const struct area *a)
{
	memset(m, 0, sizeof(*m));
	for (int i = 0; i < a->nspots; i++) {
		const struct spot *s = &a->spot[i];
		const struct part *p = &a->part[s->part];
		struct want *w = &m->want[m->n++];

		w->addr = s->addr;
		w->tag = s->tag;
		w->id = i;
		w->acc = p->prot & PROT_WRITE ? WRITE : READ;
		w->shared = p->shared;
	}
}

static void check_want(long who, struct want *w)
{
	int sig = probe_read(w->addr);

	if (w->acc == NONE || w->acc == BUS) {
		int expected = w->acc == BUS ? SIGBUS : SIGSEGV;

		must(sig == expected, "process %ld, spot %d at %p: read gives %s, not %s",
		     who, w->id, w->addr, sig ? strsignal(sig) : "data",
		     strsignal(expected));
		return;
	}
	must(!sig, "process %ld, spot %d at %p: read gives %s", who, w->id, w->addr,
	     strsignal(sig));
	if (!page_is(w->addr, w->tag)) {
		const __u64 *word = (__u64 *)w->addr;
		bool zero = page_is(w->addr, 0);

		must(w->or_zero && page_is(w->addr, 0),
		     "process %ld, spot %d at %p: not tag %u but %s (%llx %llx)", who,
		     w->id, w->addr, w->tag, zero ? "zeros" : "something else",
		     (unsigned long long)word[0], (unsigned long long)word[1]);
	}
	if (w->acc == READ) {
		sig = probe_write(w->addr);
		must(sig == SIGSEGV, "process %ld, spot %d at %p: write gives %s", who,
		     w->id, w->addr, sig ? strsignal(sig) : "no fault");
	}
}

long model_check(long who, long unused)
{
	struct model *m = &board->model[who];

	for (int i = 0; i < m->n; i++)
		check_want(who, &m->want[i]);
	return 0;
}

long model_scribble(long who, long nr_models)
{
	static unsigned int round;
	struct model *m = &board->model[who];

	round++;
	for (int i = 0; i < m->n; i++) {
		struct want *w = &m->want[i];

		if (w->acc != WRITE)
			continue;
		w->tag = 3000000u + who * 100000u + round % 100 * 1000u + i;
		w->or_zero = false;
		page_fill(w->addr, w->tag);
		if (!w->shared)
			continue;
		for (int p = 0; p < nr_models; p++)
			for (int j = 0; j < board->model[p].n; j++) {
				struct want *other = &board->model[p].want[j];

				if (other->shared && other->id == w->id)
					other->tag = w->tag;
			}
	}
	return 0;
}

void model_check_all(int n)
{
	for (int i = 0; i < n; i++)
		if (board->model[i].n)
			ask(i, model_check, i, 0);
}

void model_scribble_all(int n)
{
	for (int i = 0; i < n; i++)
		if (board->model[i].n)
			ask(i, model_scribble, i, n);
}

void models_right(int n)
{
	for (int i = 0; i < 2; i++) {
		model_check_all(n);
		model_scribble_all(n);
	}
	model_check_all(n);
}

void spawn_models(int peers, const struct area *a)
{
	for (int i = 0; i <= peers; i++) {
		if (i)
			spawn(i);
		model_init(&board->model[i], a);
	}
}

/* --- swap and pressure ---------------------------------------------------- */

/* Outlives the case that made it, so that the end of the run can undo it. */
static struct {
	char swap[64];		/* what we swapped on, "" if nothing */
	int zram;		/* the zram device that we made, -1 if none */
	bool cgroup;
} *world;

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

/* on compressed memory, else on a RAM disk, else in a file */
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

static void clean_up(void)
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

/* from here on what this process touches can be reclaimed apart from the rest */
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
	/* it fails if it cannot get as much as that, which nobody expects */
	if (write_text(CGROUP "memory.reclaim", "64M swappiness=200") == -EINVAL)
		write_text(CGROUP "memory.reclaim", "64M");
}

bool swap_off(void)
{
	return !world->swap[0] || !swapoff(world->swap) || errno == EINVAL;
}

/* --- running cases -------------------------------------------------------- */

static const char * const complaints[] = {
	"BUG:", "WARNING:", "KASAN:", "KCSAN:", "possible recursive locking",
	"circular locking", "bad pmd", "Bad rss", "Bad page", "Bad swap",
};

/* True if the kernel complained since the last look. */
static bool kernel_complained(void)
{
	char buf[8192];
	bool bad = false;
	ssize_t n;

	while (kmsg_fd >= 0) {
		n = read(kmsg_fd, buf, sizeof(buf) - 1);
		if (n < 0 && errno == EPIPE)
			continue;	/* overwritten before we read it */
		if (n <= 0)
			break;
		buf[n] = 0;
		for (size_t i = 0; i < ARRAY_SIZE(complaints); i++)
			if (strstr(buf, complaints[i])) {
				char *text = strchr(buf, ';');

				note("kernel log: %.200s", text ? text + 1 : buf);
				bad = true;
				break;
			}
	}
	return bad;
}

/* End whatever the case left behind; false if something would not die. */
static bool reap_all(pid_t group)
{
	double end = now() + case_seconds;

	for (;;) {
		pid_t pid;

		kill(-group, SIGKILL);
		pid = waitpid(-1, NULL, WNOHANG);
		if (pid < 0)
			return true;
		if (!pid) {
			if (now() > end)
				return false;
			usleep(500);
		}
	}
}

/* one line of the report: a case, for one kind of memory if it has kinds */
struct run {
	char desc[160];
	void (*fn)(long arg);
	long arg;
};

static void add_run(struct run **runs, int *n, const struct test_case *c, int kind,
		    const char *word)
{
	struct run *r;

	*runs = realloc(*runs, (*n + 1) * sizeof(**runs));
	if (!*runs)
		ksft_exit_fail_perror("realloc");
	r = &(*runs)[*n];
	r->fn = c->fn;
	r->arg = c->kinds ? CASE_ARG(c->arg, kind) : c->arg;
	if (c->kinds)
		snprintf(r->desc, sizeof(r->desc), "%s [%s]", c->desc, kind_name(kind));
	else
		snprintf(r->desc, sizeof(r->desc), "%s", c->desc);
	if (!word || strstr(r->desc, word))
		++*n;
}

static int run_one(const struct run *c)
{
	struct timespec tick = { .tv_sec = 1 };
	double end = now() + case_seconds;
	int status, code;
	sigset_t chld;
	pid_t pid;

	memset(board, 0, sizeof(*board));
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid) {
		sigprocmask(SIG_UNBLOCK, &chld, NULL);
		setpgid(0, 0);
		board->pid[SELF] = getpid();
		catch_faults();
		c->fn(c->arg);
		_exit(board->verdict);
	}
	setpgid(pid, pid);

	while (waitpid(pid, &status, WNOHANG) != pid) {
		sigtimedwait(&chld, NULL, &tick);
		if (now() > end) {
			snprintf(board->reason, sizeof(board->reason),
				 "no result after %d seconds", case_seconds);
			note("%s", board->reason);
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			reap_all(pid);
			return KSFT_FAIL;
		}
	}
	if (!reap_all(pid)) {
		note("a process of this case does not die");
		return KSFT_FAIL;
	}
	if (WIFSIGNALED(status)) {
		note("killed by signal %d", WTERMSIG(status));
		return KSFT_FAIL;
	}
	code = WEXITSTATUS(status);
	/* a peer may have failed while nobody waited for its answer */
	if (code == KSFT_PASS)
		code = board->verdict;
	if (code != KSFT_PASS && code != KSFT_SKIP)
		code = KSFT_FAIL;
	return code;
}

static void help(const char *name)
{
	printf("usage: %s [-q] [-l] [-x] [-m MODE] [-t SECONDS] [-T SECONDS] [-k WORD]\n"
	       "  -q  quick: fewer pages, rounds and children (slow machines)\n"
	       "  -l  list the cases\n"
	       "  -x  also what the whole machine feels: poisoned pages, dropped caches\n"
	       "  -m  the mode that must be on: stock, never, optin or always (COHORT_MODE)\n"
	       "  -t  how long each race runs\n"
	       "  -T  how long a case may take before it counts as hung\n"
	       "  -k  only cases with WORD in their description\n", name);
	exit(KSFT_FAIL);
}

int run_cases(int argc, char **argv, const struct test_case *cases, int n)
{
	int opt, i, kind, nr_runs = 0;
	const char *word = NULL;
	struct run *runs = NULL;
	bool list = false;

	while ((opt = getopt(argc, argv, "qlxm:t:T:k:")) != -1) {
		switch (opt) {
		case 'q':
			quick = true;
			break;
		case 'l':
			list = true;
			break;
		case 'x':
			costly = true;
			break;
		case 'm':
			expected_mode = optarg;
			break;
		case 't':
			race_seconds = atoi(optarg);
			break;
		case 'T':
			case_seconds = atoi(optarg);
			break;
		case 'k':
			word = optarg;
			break;
		default:
			help(argv[0]);
		}
	}
	if (race_seconds <= 0)
		race_seconds = 1;

	for (i = 0; i < n; i++) {
		unsigned int mask = cases[i].kinds;

		if (!mask)
			add_run(&runs, &nr_runs, &cases[i], 0, word);
		if (quick && mask & cases[i].quick_kinds)
			mask &= cases[i].quick_kinds;
		for (kind = 0; kind < NR_KINDS; kind++)
			if (mask & KIND(kind))
				add_run(&runs, &nr_runs, &cases[i], kind, word);
	}
	if (list) {
		for (i = 0; i < nr_runs; i++)
			printf("%s\n", runs[i].desc);
		return KSFT_PASS;
	}

	ksft_print_header();
	page_size = sysconf(_SC_PAGESIZE);
	/* classic 32-bit ARM pairs two hardware tables to 512 entries as well */
	table_size = page_size * (page_size / 8);
	cohort_mode = detect_mode();
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED || world == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	world->zram = -1;
	/* orphans of a case come to us, so that none outlives it unseen */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	kmsg_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg_fd >= 0)
		lseek(kmsg_fd, 0, SEEK_END);

	ksft_set_plan(nr_runs + 1);
	for (i = 0; i < nr_runs; i++) {
		double start = now();
		int code = run_one(&runs[i]);

		if (after_each_case)
			after_each_case();
		if (kernel_complained())
			code = KSFT_FAIL;
		if (code == KSFT_SKIP)
			ksft_test_result_skip("%s: %s\n", runs[i].desc, board->reason);
		else
			ksft_test_result(code == KSFT_PASS, "%s\n", runs[i].desc);
		if (now() - start > 5)
			note("took %.1f s", now() - start);
	}

	clean_up();
	/* tables and their locks are freed late: give RCU a moment to complain */
	usleep(100000);
	if (kmsg_fd < 0)
		ksft_test_result_skip("The kernel log stays clean: cannot be read\n");
	else
		ksft_test_result(!kernel_complained(), "The kernel log stays clean\n");

	ksft_print_cnts();
	if (ksft_get_fail_cnt() || ksft_get_error_cnt())
		return KSFT_FAIL;
	/* one pass is the log's */
	return ksft_get_pass_cnt() > 1 ? KSFT_PASS : KSFT_SKIP;
}
