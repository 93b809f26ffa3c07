// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taskstats: the accounting of tasks over netlink must count what a process borrows
 * as if each process had tables of its own, while it runs and when it has ended.
 */
#include "common.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <sys/socket.h>
#include <sys/time.h>

#define TABLES	8

static int netlink = -1;
static __u16 family;

/* a request or an answer */
struct message {
	struct nlmsghdr head;
	struct genlmsghdr general;
	char attributes[4096];
};

static struct nlattr *next_attribute(struct nlattr *at)
{
	return (void *)((char *)at + NLA_ALIGN(at->nla_len));
}

/* The attribute of this type among @len bytes of them, or NULL. */
static struct nlattr *find_attribute(void *from, int len, int type)
{
	struct nlattr *at = from;

	for (; (char *)at + NLA_HDRLEN <= (char *)from + len && at->nla_len >= NLA_HDRLEN;
	     at = next_attribute(at))
		if ((at->nla_type & NLA_TYPE_MASK) == type)
			return at;
	return NULL;
}

static void *data_of(struct nlattr *at)
{
	return (char *)at + NLA_HDRLEN;
}

static void request(__u16 to, __u8 command, __u16 type, const void *data, size_t bytes)
{
	struct message m = {
		.head = { .nlmsg_type = to, .nlmsg_flags = NLM_F_REQUEST },
		.general = { .cmd = command, .version = 1 },
	};
	struct nlattr *at = (void *)m.attributes;

	at->nla_type = type;
	at->nla_len = NLA_HDRLEN + bytes;
	memcpy(data_of(at), data, bytes);
	m.head.nlmsg_len = NLMSG_HDRLEN + GENL_HDRLEN + NLA_ALIGN(at->nla_len);
	must(send(netlink, &m, m.head.nlmsg_len, 0) == (ssize_t)m.head.nlmsg_len, "send: %s",
	     strerror(errno));
}

/* A message's attributes, *@len bytes; NULL if it is an error. */
static void *receive(struct message *m, int *len)
{
	ssize_t got = recv(netlink, m, sizeof(*m), 0);

	must(got >= NLMSG_HDRLEN + GENL_HDRLEN && NLMSG_OK(&m->head, got), "recv: %s",
	     strerror(errno));
	*len = m->head.nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN;
	return m->head.nlmsg_type == NLMSG_ERROR ? NULL : m->attributes;
}

static void need_taskstats(void)
{
	struct timeval patience = { .tv_sec = 20 };
	struct nlattr *at;
	struct message m;
	void *all;
	int len;

	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	must(netlink >= 0, "socket: %s", strerror(errno));
	must_call(setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
	request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, TASKSTATS_GENL_NAME,
		sizeof(TASKSTATS_GENL_NAME));
	all = receive(&m, &len);
	at = all ? find_attribute(all, len, CTRL_ATTR_FAMILY_ID) : NULL;
	if (!at)
		skip("this kernel has no taskstats");
	family = *(__u16 *)data_of(at);
}

/* The statistics of one task in a message, or NULL if it has none. */
static struct taskstats *stats_of(void *all, int len, pid_t pid)
{
	struct nlattr *task = find_attribute(all, len, TASKSTATS_TYPE_AGGR_PID);
	struct nlattr *of, *stats;

	if (!task)
		return NULL;
	len = task->nla_len - NLA_HDRLEN;
	of = find_attribute(data_of(task), len, TASKSTATS_TYPE_PID);
	stats = find_attribute(data_of(task), len, TASKSTATS_TYPE_STATS);
	if (!of || !stats || *(__u32 *)data_of(of) != (__u32)pid)
		return NULL;
	return data_of(stats);
}

/* The high-water mark of a task, in kB, when the kernel next tells its statistics. */
static unsigned long next_mark(pid_t pid)
{
	struct taskstats *stats = NULL;
	struct message m;
	void *all;
	int len;

	/* Skip messages about other tasks that exit. */
	while (!stats) {
		all = receive(&m, &len);
		must(all, "no statistics of process %d", pid);
		stats = stats_of(all, len, pid);
	}
	return stats->hiwater_rss;
}

static void ask_now(pid_t pid)
{
	__u32 id = pid;

	request(family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, &id, sizeof(id));
}

/* Ask the kernel for the statistics of each task that exits from now on. */
static void hear_of_ends(void)
{
	char cpus[64];

	must(read_text("/sys/devices/system/cpu/possible", cpus, sizeof(cpus)) > 0,
	     "which processors?");
	cpus[strcspn(cpus, "\n")] = 0;
	request(family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, cpus,
		strlen(cpus) + 1);
}

static char *fill_tables(void)
{
	char *p = map_at(arena(TABLES), TABLES * table_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	no_huge_pages(p, TABLES * table_size);
	for (size_t at = 0; at < TABLES * table_size; at += page_size)
		p[at] = 1;
	return p;
}

static void check_mark(const char *of, unsigned long kb)
{
	unsigned long mapped = TABLES * table_size / 1024;
	/* Per-CPU counters lag by up to 64 pages each. */
	unsigned long lag = 64 * page_size / 1024 * sysconf(_SC_NPROCESSORS_CONF);
	/* The program itself takes less than 4 MB. */
	unsigned long program = 4096;

	must(kb + lag >= mapped && kb <= mapped + program + lag,
	     "%s has a mark of %lu kB, it mapped %lu kB", of, kb, mapped);
}

/* The child borrows all its memory, and unmaps it if @unmaps. */
static void test_mark(long unmaps)
{
	int said[2], go[2], status;
	pid_t pid;
	char *p, c;

	need_taskstats();
	p = fill_tables();
	become_zygote();
	hear_of_ends();
	must_call(pipe(said));
	must_call(pipe(go));
	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		if (unmaps && munmap(p, TABLES * table_size))
			_exit(1);
		_exit(write(said[1], "", 1) != 1 || read(go[0], &c, 1) != 1);
	}
	must(read(said[0], &c, 1) == 1, "the child ended too soon");
	ask_now(pid);
	check_mark("a child that runs", next_mark(pid));
	must(write(go[1], "", 1) == 1, "the child is gone");
	check_mark("a child that ends", next_mark(pid));
	must(waitpid(pid, &status, 0) == pid && !status, "the child failed");
}

/* Nobody reads the counters of the child while it runs. */
static void test_end(long arg)
{
	pid_t pid;

	need_taskstats();
	fill_tables();
	become_zygote();
	hear_of_ends();
	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid)
		_exit(0);
	check_mark("a child that does nothing", next_mark(pid));
	wait(NULL);
}

static const struct test_case cases[] = {
	{ "Does taskstats count what a child borrows?", test_mark, 0, .guards = INVARIANT(14) },
	{ "Does taskstats count what a child borrowed and unmapped?", test_mark, 1,
	  .guards = INVARIANT(14) },
	{ "Does taskstats count what a child borrowed that did nothing?", test_end,
	  .guards = INVARIANT(14) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
