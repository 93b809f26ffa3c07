// SPDX-License-Identifier: GPL-2.0-only
/* Processes that execute commands, in lock-step. */
#include "../common.h"

#include <poll.h>

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
 * Make the pipes before the first fork: a case can then talk to grandchildren,
 * even if their parent has exited.
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

/* What a peer that cannot go on ends with; a case's verdict is none of these. */
enum { NO_REQUEST = 101, NO_REPLY };

static __noreturn void serve(int who)
{
	struct request req;
	ssize_t n;
	long ret;

	for (;;) {
		n = read(channels[who].request[0], &req, sizeof(req));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(req))
			_exit(NO_REQUEST);
		if (!req.fn)
			_exit(0);
		ret = req.fn(req.a, req.b);
		if (write(channels[who].reply[1], &ret, sizeof(ret)) != sizeof(ret))
			_exit(NO_REPLY);
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

/* How a peer ended that nobody told to. */
static __noreturn void fail_dead(int who)
{
	int status;

	if (waitpid(pid_of(who), &status, WNOHANG) != pid_of(who))
		fail("peer %d died, as no child of this process", who);
	if (WIFSIGNALED(status))
		fail("peer %d died of signal %d", who, WTERMSIG(status));
	if (WEXITSTATUS(status) == NO_REQUEST)
		fail("peer %d could not read what to do", who);
	if (WEXITSTATUS(status) == NO_REPLY)
		fail("peer %d could not write its answer", who);
	fail("peer %d exited with %d", who, WEXITSTATUS(status));
}

long ask(int who, peer_fn fn, long a, long b)
{
	long ret;

	if (who == SELF)
		return fn(a, b);
	tell(who, fn, a, b);
	ret = answer(who);
	if (ret == DEAD) {
		/* the peer's verdict is the case's */
		if (board->verdict != KSFT_PASS)
			_exit(board->verdict);
		fail_dead(who);
	}
	return ret;
}

long exec_sleep(long unused, long unused2)
{
	execl("/proc/self/exe", "selftest", SLEEP, NULL);
	return -1;
}

void wait_exec(int who)
{
	char path[32], buf[64];
	int len;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid_of(who));
	for (int i = 0; i < 500; i++) {
		len = read_text(path, buf, sizeof(buf));
		if (len > 0 && memmem(buf, len, SLEEP, strlen(SLEEP)))
			return;
		usleep(10000);
	}
	fail("peer %d has not become another program", who);
}

void wait_gone(int who)
{
	pid_t pid = pid_of(who);
	int i;

	for (i = 0; !is_gone(pid); i++)
		usleep(i < 100 ? 100 : 5000);
	/* a zombie has no memory any more; if it is our child, reap it */
	waitpid(pid, NULL, WNOHANG);
}

long nothing(long unused, long unused2)
{
	return 0;
}

long read_page(long addr, long unused)
{
	return probe_read((char *)addr);
}

void quit(int who)
{
	tell(who, NULL, 0, 0);
	wait_gone(who);
}

static void drain(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char unread[sizeof(struct request)];

	while (poll(&pfd, 1, 0) == 1 && read(fd, unread, sizeof(unread)) > 0)
		;
}

void kill_peer(int who)
{
	must_call(kill(pid_of(who), SIGKILL));
	wait_gone(who);
	/* What it was told or has said is not for the next peer of this number. */
	drain(channels[who].request[0]);
	drain(channels[who].reply[0]);
}
