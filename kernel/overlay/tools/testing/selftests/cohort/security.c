// SPDX-License-Identifier: GPL-2.0-only
/*
 * Privilege: a process gets shared tables only by fork. A process outside the
 * cohort, of another user, in another namespace or after exec shares none, and
 * sees what stock Linux shows it.
 */
#include "common.h"

#include <grp.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/statvfs.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

/* Some machines of 32 bits have an older call too, which a kernel may lack. */
#ifdef __NR_setresuid32
#define NR_SETRESUID	__NR_setresuid32
#else
#define NR_SETRESUID	__NR_setresuid
#endif

#define NOBODY		65534

static long become_nobody(long a, long b)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		return -errno;
	return 0;
}

static void need_root(void)
{
	if (geteuid())
		skip("not root, so nobody else can be had");
}

/* --- processes outside ---------------------------------------------------- */

enum { BASE, LEN, PROT, FLAGS, PID, FD };	/* words on the board */

/* map the same file at the same address with the same rights, unrelated by fork */
static long map_same(long a, long b)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/fd/%ld", board->word[PID], board->word[FD]);
	fd = open(path, O_RDWR | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	map_at((char *)board->word[BASE], board->word[LEN], board->word[PROT],
	       board->word[FLAGS], fd, 0);
	close(fd);
	return 0;
}

/* count the faults of reading every page */
static long faults_to_read(long a, long b)
{
	long before = minor_faults();

	for (long off = 0; off < board->word[LEN]; off += page_size)
		touch((char *)board->word[BASE] + off);
	return minor_faults() - before;
}

static long unmap_same(long a, long b)
{
	must_call(munmap((char *)board->word[BASE], board->word[LEN]));
	return 0;
}

static void test_outsider(long arg)
{
	struct part *p = &area.part[0];
	long tables, inside, faults;

	need_peers(8);
	/* fork it before the memory and before this process is a zygote */
	spawn(1);
	area_make(&area, ARG_KIND(arg));
	board->word[BASE] = (long)p->addr;
	board->word[LEN] = p->len;
	board->word[PROT] = p->prot;
	board->word[FLAGS] = p->flags;
	board->word[PID] = getpid();
	board->word[FD] = p->fd;
	become_zygote();
	spawn(2);
	spawn(3);
	for (int i = 0; i <= 3; i++) {
		model_init(&board->model[i], &area);
		ask(i, nothing, 0, 0);
	}
	/* only the zygote wrote the private parts */
	for (int i = 0; i < board->model[1].n; i++)
		board->model[1].want[i].tag = area.spot[i].file_tag;
	ask(2, spots_touch, (long)&area, 0);
	tables = shared_tables(pid_of(1));
	inside = shared_tables(pid_of(3));
	if (cohort_mode == MODE_OPTIN)
		must(!tables, "a process outside shares %ld tables", tables);

	ask(1, map_same, 0, 0);
	faults = ask(1, faults_to_read, 0, 0);
	must(faults > 0, "a process outside found the pages mapped already");
	/* where all of one user are a group, it is no outsider */
	if (sharing_possible() && !all_join()) {
		must(shared_tables(pid_of(1)) <= tables, "a process outside got a table");
		must(shared_tables(pid_of(3)) == inside, "the cohort's tables changed");
	}
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
	ask(1, unmap_same, 0, 0);
	board->model[1].n = 0;
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
}

/* --- processes that become others ----------------------------------------- */

enum way {
	USER, EFFECTIVE_USER, USER_NS, PID_NS, MOUNT_NS, UTS_NS, IPC_NS, NET_NS, TIME_NS,
	JOIN_NS, NR_WAYS
};

static const struct {
	const char *name;
	int flag;
} ways[NR_WAYS] = {
	[USER]		= { "another user", 0 },
	[EFFECTIVE_USER] = { "another effective user", 0 },
	[USER_NS]	= { "another user namespace", CLONE_NEWUSER },
	[PID_NS]	= { "another PID namespace", CLONE_NEWPID },
	[MOUNT_NS]	= { "another mount namespace", CLONE_NEWNS },
	[UTS_NS]	= { "another UTS namespace", CLONE_NEWUTS },
	[IPC_NS]	= { "another IPC namespace", CLONE_NEWIPC },
	[NET_NS]	= { "another network namespace", CLONE_NEWNET },
	[TIME_NS]	= { "another time namespace", CLONE_NEWTIME },
	[JOIN_NS]	= { "another's mount namespace", CLONE_NEWNS },
};

static long become(long way, long pid)
{
	char path[64];
	int fd;

	switch (way) {
	case USER:
		return become_nobody(0, 0);
	case EFFECTIVE_USER:
		return seteuid(NOBODY) ? -errno : 0;
	case JOIN_NS:
		snprintf(path, sizeof(path), "/proc/%ld/ns/mnt", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		must(fd >= 0, "%s: %s", path, strerror(errno));
		return setns(fd, CLONE_NEWNS) ? -errno : close(fd);
	default:
		return unshare(ways[way].flag) ? -errno : 0;
	}
}

/* the caller's children enter these, not the caller */
static bool for_children(long way)
{
	return way == PID_NS || way == TIME_NS;
}

/* this program, opened while we still have the right to */
static int self_fd = -1;

#define REPORT		"--report"
#define RAN		0x40
#define HAS_TABLES	0x20
#define IS_ROOT		0x10
#define HAS_CAP		0x08
#define FLAGS		0x07

/* With REPORT as an argument the program reports its state in its exit status. */
static int report(void)
{
	int status = RAN, flags = prctl(PR_GET_COHORT, 0, 0, 0, 0);
	char buf[1024];

	if (flags > 0)
		status |= flags;
	if (!geteuid())
		status |= IS_ROOT;
	/* CAP_DAC_OVERRIDE among the effective ones */
	if (read_text("/proc/self/status", buf, sizeof(buf)) > 0) {
		char *caps = strstr(buf, "CapEff:");

		if (caps && strtoull(caps + 7, NULL, 16) & 2)
			status |= HAS_CAP;
	}
	if (shared_tables(0) > 0)
		status |= HAS_TABLES;
	return status;
}

/* fork and exec this program or a copy of it; return its report */
static long exec_report(long fd, long unused)
{
	char *const argv[] = { "report", REPORT, NULL };
	char *const envp[] = { NULL };
	int status;
	pid_t pid = fork();

	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		syscall(__NR_execveat, (int)fd, "", argv, envp, AT_EMPTY_PATH);
		_exit(errno & (RAN - 1));
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "exec: status %x", status);
	status = WEXITSTATUS(status);
	must(status & RAN, "the program cannot be started: %s", strerror(status));
	return status;
}

static void open_self(void)
{
	self_fd = open("/proc/self/exe", O_RDONLY);
	must(self_fd >= 0, "/proc/self/exe: %s", strerror(errno));
}

static void skip_without(long way, long err)
{
	if (err == -EINVAL || err == -ENOSPC || err == -EPERM)
		skip("no %s: %s", ways[way].name, strerror(-err));
	must(!err, "%s: %s", ways[way].name, strerror(-err));
}

/*
 * Check whether a process shares tables other than with its own children, PMD
 * tables included.
 */
static void expect_tables(int who, bool wanted, const char *what)
{
	long found, above;

	if (!sharing_possible())
		return;
	found = shared_tables(pid_of(who));
	above = proc_field(pid_of(who), "cohort", "SharedPmdTables");
	if (wanted)
		must(found > 0 && (above > 0) == shares_pmd_tables(),
		     "%s shares %ld tables, %ld above them", what, found, above);
	else
		must(!found && !above, "%s shares %ld tables, %ld above them", what, found,
		     above);
}

static struct area alone;

/* A table far above the others, after empty entries of the topmost table. */
#define FAR	((char *)(sizeof(long) < 8 ? (uintptr_t)0x30000000 : (uintptr_t)0x300000000000ULL))

static void make_areas(void)
{
	char *p;

	area_make(&area, MIXED);
	/* no gigabyte to spare: it stays without a page */
	if (sizeof(long) == 8)
		area_make(&alone, ALONE);
	p = mmap(FAR, table_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	must(p == FAR, "mmap: %s", strerror(errno));
	page_fill(p, 99);
}

/* become a zygote whose children keep or lose sharing when they change identity */
static void zygote(bool keep)
{
	if (cohort_mode == MODE_STOCK)
		return;
	must(!set_flags(PR_COHORT_ZYGOTE | (keep ? PR_COHORT_KEEP_IDS : 0), 0),
	     "PR_SET_COHORT: %s", strerror(errno));
}

static void test_becoming(long arg)
{
	/* a zygote's wish is not that of its group, if all of one user are one */
	bool asked = arg >= NR_WAYS, keep = asked && !all_join();
	long status, way = arg % NR_WAYS;

	need_root();
	open_self();
	make_areas();
	need_peers(8);
	zygote(asked);
	for (int i = 1; i <= 2; i++)
		spawn(i);
	if (way == JOIN_NS) {
		/* a process whose namespace peer 1 joins */
		spawn(5);
		skip_without(way, ask(5, become, MOUNT_NS, 0));
	}
	for (int i = 0; i <= 2; i++) {
		model_init(&board->model[i], &area);
		ask(i, nothing, 0, 0);
	}
	expect_tables(1, true, "a child");
	skip_without(way, ask(1, become, way, way == JOIN_NS ? pid_of(5) : 0));
	if (!for_children(way))
		expect_tables(1, keep, "a child that became another");
	expect_tables(2, true, "its sibling");
	for (int i = 0; i <= 2; i++)
		ask(i, spots_intact, (long)&alone, 0);
	model_check_all(3);

	/* its child is forked from it and from nobody else */
	spawn_from(1, 3);
	model_init(&board->model[3], &area);
	if (for_children(way) && !keep) {
		ask(3, nothing, 0, 0);
		expect_tables(3, false, "a child forked into a namespace");
	}
	model_check_all(4);
	ask(1, model_scribble, 1, 4);
	model_check_all(4);
	ask(3, model_scribble, 3, 4);
	ask(SELF, model_scribble, 0, 4);
	model_check_all(4);
	if (cohort_mode != MODE_STOCK) {
		status = ask(1, exec_report, self_fd, 0);
		must(!(status & HAS_TABLES), "a program started there shares tables");
		must(!(status & FLAGS), "a program started there is a zygote");
	}
	quit(2);
	board->model[2].n = 0;
	quit(1);
	board->model[1].n = 0;
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
}

/* --- processes that stay, though they may do more or less ------------------ */

enum identity {
	SAVED_USER, FILE_USER, GROUP, EFFECTIVE_GROUP, SAVED_GROUP, FILE_GROUP, GROUPS, LESS_CAPS,
	MORE_CAPS, FEWER_LATER, NO_NEW_PRIVS, SECCOMP, LANDLOCK, KEYRING, NO_DUMP, NR_IDENTITIES
};

static const char * const identity_name[NR_IDENTITIES] = {
	[SAVED_USER]	= "another saved user",
	[FILE_USER]	= "another user of files",
	[GROUP]		= "another group",
	[EFFECTIVE_GROUP] = "another effective group",
	[SAVED_GROUP]	= "another saved group",
	[FILE_GROUP]	= "another group of files",
	[GROUPS]	= "other supplementary groups",
	[LESS_CAPS]	= "a capability less",
	[MORE_CAPS]	= "a capability more",
	[FEWER_LATER]	= "a smaller bounding set",
	[NO_NEW_PRIVS]	= "no_new_privs",
	[SECCOMP]	= "seccomp",
	[LANDLOCK]	= "landlock",
	[KEYRING]	= "a keyring of its own",
	[NO_DUMP]	= "a process that may not be dumped",
};

/* Set or clear a capability among the effective ones; 0 or -errno. */
static int effective_cap(int cap, bool set)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { };
	__u32 bit = 1u << cap % 32;

	if (syscall(__NR_capget, &header, data))
		return -errno;
	must(!(data[cap / 32].effective & bit) == set, "the capability is as it is to be");
	data[cap / 32].effective ^= bit;
	return syscall(__NR_capset, &header, data) ? -errno : 0;
}

static int allow_all_calls(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog filter = { .len = 1, .filter = &allow };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}

static int restrict_files(void)
{
	__u64 handled = 1;	/* LANDLOCK_ACCESS_FS_EXECUTE */
	int fd = syscall(__NR_landlock_create_ruleset, &handled, sizeof(handled), 0);

	return fd < 0 ? -1 : syscall(__NR_landlock_restrict_self, fd, 0);
}

/* Returns 0 or -errno. */
static long take_identity(long identity, long unused)
{
	gid_t group = NOBODY;
	int err = 0;

	switch (identity) {
	case SAVED_USER:
		err = setresuid(-1, -1, NOBODY);
		break;
	case FILE_USER:
		/* it returns the old one, and whether it worked is to be asked */
		setfsuid(NOBODY);
		must(setfsuid(-1) == NOBODY, "setfsuid");
		break;
	case GROUP:
		err = setresgid(NOBODY, -1, -1);
		break;
	case EFFECTIVE_GROUP:
		err = setresgid(-1, NOBODY, -1);
		break;
	case SAVED_GROUP:
		err = setresgid(-1, -1, NOBODY);
		break;
	case FILE_GROUP:
		setfsgid(NOBODY);
		must(setfsgid(-1) == NOBODY, "setfsgid");
		break;
	case GROUPS:
		err = setgroups(1, &group);
		break;
	case LESS_CAPS:
		return effective_cap(CAP_SYS_CHROOT, false);
	case MORE_CAPS:
		return effective_cap(CAP_SYS_CHROOT, false) ?: effective_cap(CAP_SYS_CHROOT, true);
	case FEWER_LATER:
		err = prctl(PR_CAPBSET_DROP, CAP_SYS_CHROOT, 0, 0, 0);
		break;
	case NO_NEW_PRIVS:
		err = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		break;
	case SECCOMP:
		err = allow_all_calls();
		break;
	case LANDLOCK:
		err = restrict_files();
		break;
	case KEYRING:
		/* KEYCTL_JOIN_SESSION_KEYRING, a new one without a name */
		err = syscall(__NR_keyctl, 1, NULL) < 0 ? -1 : 0;
		break;
	case NO_DUMP:
		err = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		break;
	}
	return err ? -errno : 0;
}

/*
 * These say what a process may open or call, not whose it is: it stays in its cohort, with
 * its tables.
 */
static void test_staying(long unused)
{
	int missing = 0;

	need_root();
	make_areas();
	need_peers(8);
	zygote(false);
	for (int i = 0; i < NR_IDENTITIES; i++) {
		long err, cohort;

		/* it leaves its group, if all of one user are one */
		if (i == NO_DUMP && all_join()) {
			missing++;
			continue;
		}
		spawn(1);
		spawn(2);
		/* a child writes to tables of its own from here on */
		ask(1, nothing, 0, 0);
		ask(2, nothing, 0, 0);
		expect_tables(1, true, "a child");
		cohort = proc_field(pid_of(1), "cohort", "Cohort");
		err = ask(1, take_identity, i, 0);
		if (err == -ENOSYS || err == -EOPNOTSUPP) {
			note("%s: not in this kernel", identity_name[i]);
			missing++;
		} else {
			must(!err, "%s: %s", identity_name[i], strerror(-err));
			expect_tables(1, true, identity_name[i]);
			must(proc_field(pid_of(1), "cohort", "Cohort") == cohort,
			     "%s: it is in another cohort", identity_name[i]);
			ask(1, spots_intact, (long)&area, 0);
		}
		quit(1);
		quit(2);
	}
	note("%d of %d ways to become another", NR_IDENTITIES - missing, NR_IDENTITIES);
}

/* --- without memory ------------------------------------------------------- */

/*
 * Become another effective user while an allocation fails. Returns 0 or -errno of the
 * first call, plus 1 if no allocation was left to fail. Raw calls, because those of
 * the C library do more.
 */
static long become_failing(long nth, long unused)
{
	long ret;

	arm(nth);
	ret = syscall(NR_SETRESUID, -1, NOBODY, -1) ? -errno : 0;
	/* the file that arms may be written by root only */
	while (syscall(NR_SETRESUID, -1, 0, -1))
		must(errno == ENOMEM, "setresuid: %s", strerror(errno));
	return ret ?: !disarm();
}

static long namespace_failing(long nth, long unused)
{
	long ret;

	arm(nth);
	ret = unshare(CLONE_NEWUTS) ? -errno : 0;
	return !disarm() ? 1 : ret;
}

/* each allocation fails in turn, also those after the call */
static void test_becoming_without_memory(long way)
{
	int failed = 0, anyway = 0;
	long ret = 0;

	need_root();
	need_injection();
	need_peers(8);
	zygote(false);
	for (long nth = 1; nth < 200 && ret != 1; nth += quick && nth > 32 ? 8 : 1) {
		make_areas();
		for (int i = 1; i <= 2; i++)
			spawn(i);
		for (int i = 0; i <= 2; i++) {
			model_init(&board->model[i], &area);
			ask(i, nothing, 0, 0);
		}
		expect_tables(1, true, "a child");
		ret = ask(1, way == USER ? become_failing : namespace_failing, nth, 0);
		must(ret == 0 || ret == 1 || ret == -ENOMEM, "%s: %s", ways[way].name,
		     strerror(-ret));
		failed += ret < 0;
		anyway += !ret;
		if (ret >= 0)
			expect_tables(1, false, "a child that became another");
		expect_tables(2, true, "its sibling");
		model_scribble_all(3);
		model_check_all(3);
		for (int i = 1; i <= 2; i++)
			quit(i);
		area_unmap(&area);
		area_unmap(&alone);
		must_call(munmap(FAR, table_size));
	}
	must(ret == 1, "it does not come to an end");
	note("%s: %d failed it, %d did not", ways[way].name, failed, anyway);
}

/* forked into namespaces of its own, by one call */
static void test_cloned(long arg)
{
	bool asked = arg >= NR_WAYS, keep = asked && !all_join();
	long way = arg % NR_WAYS;
	struct clone_args args = { .flags = ways[way].flag, .exit_signal = SIGCHLD };
	int status;
	pid_t pid;

	need_root();
	make_areas();
	need_peers(8);
	zygote(asked);
	spawn(2);
	for (int i = 0; i <= 2; i++)
		model_init(&board->model[i], &area);
	board->model[1].n = 0;
	/* clone() has no bit for the time namespace */
	pid = syscall(__NR_clone3, &args, sizeof(args));
	if (pid < 0)
		skip_without(way, -errno);
	if (!pid) {
		spots_intact((long)&area, 0);
		spots_intact((long)&alone, 0);
		__atomic_store_n(&board->word[0], 1, __ATOMIC_SEQ_CST);
		while (!__atomic_load_n(&board->word[1], __ATOMIC_SEQ_CST))
			usleep(1000);
		/* private pages are as forked, whatever others have written since */
		for (int i = 0; i < area.nspots; i++) {
			const struct spot *s = &area.spot[i];

			if (area.part[s->part].shared)
				continue;
			sees(page_is(s->addr, s->tag), "spot %d is not as it was forked", i);
			if (area.part[s->part].prot & PROT_WRITE)
				page_fill(s->addr, 5555);
		}
		_exit(0);
	}
	board->pid[1] = pid;
	while (!__atomic_load_n(&board->word[0], __ATOMIC_SEQ_CST)) {
		must(!is_gone(pid), "the child is gone");
		usleep(1000);
	}
	expect_tables(1, keep, "a child cloned into a namespace");
	model_check_all(3);
	model_scribble_all(3);
	model_check_all(3);
	__atomic_store_n(&board->word[1], 1, __ATOMIC_SEQ_CST);
	must(waitpid(pid, &status, 0) == pid && !status, "the child ended with status %x", status);
	model_check_all(3);
	model_scribble_all(3);
	model_check_all(3);
}

/* a child that uses its parent's memory, in another namespace: what do its own children share? */
static int fork_there(void *unused)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(board->word[0] && proc_field(0, "cohort", "Cohort") == board->word[0] ? 1 :
		      proc_field(0, "cohort", "Group") > 0 ? 2 : 0);
	if (pid < 0)
		_exit(8);
	_exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 9);
}

static long use_memory(long way, long unused)
{
	static char stack[64 << 10];
	/* where a stack may begin, on each machine */
	char *top = stack + sizeof(stack) - ((uintptr_t)stack & 15);
	int status;
	pid_t pid;

	pid = clone(fork_there, top, CLONE_VM | ways[way].flag | SIGCHLD, NULL);
	if (pid < 0)
		return -errno;
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "clone: status %x", status);
	return WEXITSTATUS(status);
}

static void test_memory_used(long way)
{
	long found;

	need_root();
	if (cohort_mode == MODE_STOCK)
		skip("no cohort");
	make_areas();
	need_peers(8);
	zygote(false);
	for (int i = 1; i <= 2; i++)
		spawn(i);
	for (int i = 0; i <= 2; i++)
		model_init(&board->model[i], &area);
	expect_tables(1, true, "a child");
	board->word[0] = proc_field(pid_of(2), "cohort", "Cohort");
	found = ask(1, use_memory, way, 0);
	if (found < 0)
		skip_without(way, found);
	must(found != 1, "a child in %s is of the cohort", ways[way].name);
	must(found != 2, "a child in %s is in the group", ways[way].name);
	must(!found, "a child in %s: %ld", ways[way].name, found);
	expect_tables(1, false, "whose memory is used in another namespace");
	expect_tables(2, true, "its sibling");
	model_check_all(3);
	model_scribble_all(3);
	model_check_all(3);
}

/* --- programs with more rights than who starts them ----------------------- */

enum raise { NO_RAISE, SET_USER, SET_GROUP, FILE_CAPS };

static int file_caps(int fd)
{
	/* struct vfs_cap_data, version 2: CAP_DAC_OVERRIDE, effective */
	struct {
		__u32 magic;
		struct {
			__u32 permitted, inheritable;
		} data[2];
	} caps = { .magic = 0x02000001, .data = { { .permitted = 2 } } };

	return syscall(__NR_fsetxattr, fd, "security.capability", &caps, sizeof(caps), 0);
}

/* make a copy of this program that raises privileges; returns a file to execute */
static int privileged_copy(enum raise raise)
{
	static const char * const dirs[] = { "/var/tmp", "/tmp", "/dev/shm", "/run", "." };
	char path[64], buf[65536];
	struct statvfs st;
	int from, to = -1, fd;
	ssize_t n;

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && to < 0; i++) {
		if (statvfs(dirs[i], &st) || st.f_flag & (ST_NOSUID | ST_NOEXEC | ST_RDONLY))
			continue;
		snprintf(path, sizeof(path), "%s/cohort-security-%d", dirs[i], getpid());
		to = open(path, O_RDWR | O_CREAT | O_EXCL, 0700);
	}
	if (to < 0)
		skip("no file system that heeds the set-user-ID bit");
	from = open("/proc/self/exe", O_RDONLY);
	must(from >= 0, "/proc/self/exe: %s", strerror(errno));
	while ((n = read(from, buf, sizeof(buf))) > 0)
		must(write(to, buf, n) == n, "%s: %s", path, strerror(errno));
	close(from);
	must_call(fchown(to, 0, 0));
	must_call(fchmod(to, 0755 | (raise == SET_USER ? S_ISUID : 0) |
			 (raise == SET_GROUP ? S_ISGID : 0)));
	n = raise == FILE_CAPS ? file_caps(to) : 0;
	fd = open(path, O_RDONLY);
	unlink(path);
	close(to);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	if (n)
		skip("no capabilities of files: %s", strerror(errno));
	return fd;
}

static void test_privileged(long raise)
{
	long status, wanted = PR_COHORT_ZYGOTE | PR_COHORT_KEEP_EXEC | PR_COHORT_KEEP_IDS;
	int fd, ordinary;

	need_cohort();
	need_root();
	fd = privileged_copy(raise);
	ordinary = privileged_copy(NO_RAISE);
	spawn(1);
	must(!ask(1, become_nobody, 0, 0), "setuid: %s", strerror(errno));
	must(!ask(1, set_flags, wanted, 0), "PR_SET_COHORT");
	status = ask(1, exec_report, fd, 0);
	must(!(status & HAS_TABLES), "the program shares tables with who started it");
	if (raise == NO_RAISE) {
		must((status & FLAGS) == wanted, "an ordinary program lost the flags");
		return;
	}
	if (raise == SET_USER)
		must(status & IS_ROOT, "the set-user-ID bit is not heeded here");
	if (raise == FILE_CAPS && !(status & HAS_CAP))
		skip("capabilities of files are not heeded here");
	must(!(status & FLAGS), "who starts a privileged program makes it a zygote (flags %ld)",
	     status & FLAGS);
	/* the flags were not lost before the exec */
	must(ask(1, get_flags, 0, 0) == wanted, "the caller's own flags changed");
	must((ask(1, exec_report, ordinary, 0) & FLAGS) == wanted,
	     "an ordinary program lost the flags");
}

/* --- what the unprivileged may -------------------------------------------- */

/* open /proc/PID/cohort for writing, or with 0 the global switch */
static long open_for_writing(long pid, long unused)
{
	char path[64];
	int fd;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%ld/cohort", pid);
	else
		snprintf(path, sizeof(path), COHORT_SYSFS "enabled");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void test_unprivileged(long arg)
{
	need_cohort();
	need_root();
	need_peers(8);
	area_make(&area, MIXED);
	for (int i = 1; i <= 2; i++) {
		spawn(i);
		must(!ask(i, become_nobody, 0, 0), "setuid");
	}
	must(!ask(1, set_flags, PR_COHORT_ZYGOTE, 0), "the unprivileged cannot opt in");
	must(!ask(2, get_flags, 0, 0), "a process opted in its sibling of the same user");
	must(!get_flags(0, 0), "a process opted in its parent");
	spawn_from(1, 3);
	spawn_from(2, 4);
	ask(3, nothing, 0, 0);
	ask(4, nothing, 0, 0);
	must(ask(3, get_flags, 0, 0) == PR_COHORT_ZYGOTE, "the child of one that opted in did not");
	must(!ask(4, get_flags, 0, 0), "the child of another opted in");
	if (cohort_mode == MODE_OPTIN) {
		must(shared_tables(pid_of(3)) > 0, "the child of one that opted in shares nothing");
		must(!shared_tables(pid_of(4)), "the child of another shares tables");
		must(!shared_tables(pid_of(2)), "a sibling shares tables");
		must(!shared_tables(0), "the parent of one that opted in shares tables");
	}
	for (int i = 0; i <= 4; i++)
		model_init(&board->model[i], &area);
	model_scribble_all(5);
	model_check_all(5);

	/* no other interface opts a process in */
	must(ask(1, open_for_writing, pid_of(2), 0) == -EACCES,
	     "what /proc says of another process can be written");
	must(ask(1, open_for_writing, 0, 0) == -EACCES, "the unprivileged can switch sharing");
}

/* --- limits --------------------------------------------------------------- */

#define TABLES		512
#define CHILDREN	60

static char *sparse;

static long slabs_charged(void)
{
	char buf[8192], *p;

	must(read_text(CGROUP "memory.stat", buf, sizeof(buf)) > 0, "memory.stat");
	p = strstr(buf, "\nslab_unreclaimable ");
	must(p, "memory.stat has no slab_unreclaimable");
	return strtol(p + 20, NULL, 10);
}

/* The records of table users are charged to the memory cgroup of the forking process. */
static void test_charged(long arg)
{
	/* a table and process have a list head and a pointer at least */
	long used, freed = 0, records = (long)TABLES * CHILDREN, least = records * 24;

	if (!sharing_possible())
		skip("this kernel shares no tables now");
	need_cgroup();
	sparse = map_at(arena(TABLES), TABLES * table_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	madvise(sparse, TABLES * table_size, MADV_NOHUGEPAGE);
	for (int i = 0; i < TABLES; i++)
		sparse[i * table_size] = 1;
	become_zygote();
	need_peers(CHILDREN);
	for (int i = 1; i <= CHILDREN; i++)
		spawn(i);
	must(shared_tables(pid_of(CHILDREN)) >= TABLES, "the tables are not shared");
	used = slabs_charged();
	must(used >= least, "%ld records, but only %ld bytes are charged", records, used);
	for (int i = 1; i <= CHILDREN; i++)
		quit(i);
	/* kept until the process ends, then freed after a grace period */
	for (int i = 0; i < 200 && freed < least; i++) {
		usleep(50000);
		freed = used - slabs_charged();
	}
	must(freed >= least, "of %ld bytes charged with %ld records %ld came back", used, records,
	     freed);
	note("%ld records: %ld bytes each", records, freed / records);
}

#define FILES	(KIND(PRIV_FILE) | KIND(PRIV_FILE_RO) | KIND(SHARED_FILE) | KIND(SHARED_DISK))
#define QUICK	(KIND(PRIV_FILE_RO) | KIND(SHARED_FILE))

static const struct test_case cases[] = {
	{ "A process outside gets no table, whatever it maps", test_outsider, 0, FILES, QUICK,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child becomes another user", test_becoming, USER,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child becomes another effective user", test_becoming,
	  EFFECTIVE_USER, .guards = PRIVILEGE },
	{ "Who shares and sees what: a child enters a user namespace", test_becoming, USER_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child makes a PID namespace", test_becoming, PID_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child makes a time namespace", test_becoming, TIME_NS,
	  .guards = INVARIANT(1) | PRIVILEGE },
	{ "Who shares and sees what: a child enters a mount namespace", test_becoming, MOUNT_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child enters a UTS namespace", test_becoming, UTS_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child enters an IPC namespace", test_becoming, IPC_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child enters a network namespace", test_becoming, NET_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child joins a mount namespace", test_becoming, JOIN_NS,
	  .guards = PRIVILEGE },
	{ "Who stays in its cohort, whatever it may open or call?", test_staying,
	  .guards = PRIVILEGE | POLICY },
	{ "Does a lack of memory neither kill who becomes another user, nor let it share?",
	  test_becoming_without_memory, USER, .guards = INVARIANT(13) | PRIVILEGE },
	{ "Does a lack of memory neither kill who enters a namespace, nor let it share?",
	  test_becoming_without_memory, UTS_NS, .guards = INVARIANT(13) | PRIVILEGE },
	{ "Who keeps what it may: a child becomes another user", test_becoming,
	  NR_WAYS + USER, .guards = PRIVILEGE },
	{ "Who keeps what it may: a child enters a user namespace", test_becoming,
	  NR_WAYS + USER_NS, .guards = PRIVILEGE },
	{ "Who keeps what it may: a child enters a mount namespace", test_becoming,
	  NR_WAYS + MOUNT_NS, .guards = PRIVILEGE },
	{ "Who keeps what it may: a child joins a mount namespace", test_becoming,
	  NR_WAYS + JOIN_NS, .guards = PRIVILEGE },
	{ "Who shares and sees what: a child forked into a user namespace", test_cloned, USER_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child forked into a PID namespace", test_cloned, PID_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child forked into a mount namespace", test_cloned,
	  MOUNT_NS, .guards = PRIVILEGE },
	{ "Who shares and sees what: a child forked into a UTS namespace", test_cloned, UTS_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child forked into an IPC namespace", test_cloned, IPC_NS,
	  .guards = PRIVILEGE },
	{ "Who shares and sees what: a child forked into a network namespace", test_cloned,
	  NET_NS, .guards = PRIVILEGE },
	{ "Who shares and sees what: a child forked into a time namespace", test_cloned, TIME_NS,
	  .guards = INVARIANT(1) | PRIVILEGE },
	{ "Who keeps what it may: a child forked into a mount namespace", test_cloned,
	  NR_WAYS + MOUNT_NS, .guards = PRIVILEGE },
	{ "Who shares and sees what: a child whose memory is used in a user namespace",
	  test_memory_used, USER_NS, .guards = PRIVILEGE },
	{ "Who shares and sees what: a child whose memory is used in a UTS namespace",
	  test_memory_used, UTS_NS, .guards = PRIVILEGE },
	{ "An ordinary program keeps its caller's flags", test_privileged, NO_RAISE,
	  .guards = PRIVILEGE },
	{ "A set-user-ID program is no zygote by its caller's wish", test_privileged, SET_USER,
	  .guards = PRIVILEGE },
	{ "A set-group-ID program is no zygote by its caller's wish", test_privileged, SET_GROUP,
	  .guards = PRIVILEGE },
	{ "A program with capabilities is no zygote by its caller's wish", test_privileged,
	  FILE_CAPS, .guards = PRIVILEGE },
	{ "The unprivileged opt in their own children and nobody else", test_unprivileged,
	  .guards = PRIVILEGE },
	{ "Records of the users of tables are charged to the memory cgroup", test_charged,
	  .guards = INVARIANT(14) },
};

int main(int argc, char **argv)
{
	int ret;

	if (argc == 2 && !strcmp(argv[1], REPORT))
		return report();
	/*
	 * a failure once in thirty runs was a real one: a table shared with
	 * another user
	 */
	all_fatal = true;
	save_injection();
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	restore_injection();
	return ret;
}
