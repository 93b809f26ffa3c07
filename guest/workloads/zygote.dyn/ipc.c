// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A client that calls a server through binder (Figure 13). Both are forked from the zygote, the
 * client by the server as in the paper, and run on one processor. What Android's libbinder does
 * on each side, D-Bus's library does here: it writes a call to a buffer and reads it back.
 */
#include "../lib/mark.h"
#include "zygote.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <linux/android/binder.h>

#define DEVICE		"/dev/binderfs/binder"
#define MAPPED		KB(128)
/* Calls before those that count: each side has been everywhere by then. */
#define WARM		256

FN(void *, dbus_message_new_method_call, const char *, const char *, const char *, const char *);
FN(void *, dbus_message_new_method_return, void *);
FN(int, dbus_message_append_args, void *, int, ...);
FN(int, dbus_message_get_args, void *, void *, int, ...);
FN(int, dbus_message_marshal, void *, char **, int *);
FN(void *, dbus_message_demarshal, const char *, int, void *);
FN(void, dbus_message_set_serial, void *, unsigned int);
FN(void, dbus_message_unref, void *);
FN(void, dbus_free, void *);
FN(void, dbus_error_init, void *);

static bool find(void)
{
	const char *so = "libdbus-1.so.3";

	return GET(so, dbus_message_new_method_call) && GET(so, dbus_message_new_method_return) &&
	       GET(so, dbus_message_append_args) && GET(so, dbus_message_get_args) &&
	       GET(so, dbus_message_marshal) && GET(so, dbus_message_demarshal) &&
	       GET(so, dbus_message_set_serial) && GET(so, dbus_message_unref) &&
	       GET(so, dbus_free) && GET(so, dbus_error_init);
}

/* struct DBusError has five words. */
static void *no_error(void)
{
	static void *error[8];

	dbus_error_init(error);
	return error;
}

/* What follows is one request of the side that counts, as a translation model sees it. */
static void begin(void)
{
	mark(MARK_START, 1);
	mark(MARK_BEGIN, 1);
}

static void end(void)
{
	mark(MARK_END, 1);
	mark(MARK_STOP, 1);
}

static int binder;

/* What the server and the client leave to the zygote, whose own data they do not have. */
static struct {
	struct counter_reader reader;
	struct counters before, after;
	uint64_t client_faults;
	int member;
} *left;

static void binder_open(void)
{
	struct binder_version version;

	binder = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (binder < 0)
		die_errno(DEVICE);
	if (ioctl(binder, BINDER_VERSION, &version) ||
	    version.protocol_version != BINDER_CURRENT_PROTOCOL_VERSION)
		die("binder has protocol %d, not %d", version.protocol_version,
		    BINDER_CURRENT_PROTOCOL_VERSION);
	if (mmap(NULL, MAPPED, PROT_READ, MAP_PRIVATE, binder, 0) == MAP_FAILED)
		die_errno("mmap of " DEVICE);
}

/* Commands to binder, and a buffer of what it returns. */
struct wire {
	char out[256];
	size_t filled;
	char in[256];
};

static void put(struct wire *w, uint32_t command, const void *arg, size_t len)
{
	memcpy(w->out + w->filled, &command, sizeof(command));
	memcpy(w->out + w->filled + sizeof(command), arg, len);
	w->filled += sizeof(command) + len;
}

/* Writes a message with a number, without which it could not be read. */
static int write_message(void *message, char **data)
{
	int len;

	if (!message)
		die("D-Bus cannot make a message");
	dbus_message_set_serial(message, 1);
	if (!dbus_message_marshal(message, data, &len))
		die("D-Bus cannot write a message");
	return len;
}

static void put_message(struct wire *w, uint32_t command, void *message, char **data)
{
	struct binder_transaction_data tr = { .code = 1 };
	int len = write_message(message, data);

	tr.data_size = len;
	tr.data.ptr.buffer = (uintptr_t)*data;
	put(w, command, &tr, sizeof(tr));
}

static void put_free(struct wire *w, const struct binder_transaction_data *tr)
{
	binder_uintptr_t buffer = tr->data.ptr.buffer;

	put(w, BC_FREE_BUFFER, &buffer, sizeof(buffer));
}

/* Send what is there, then wait for @wanted: a call, or the reply to one. */
static void exchange(struct wire *w, uint32_t wanted, struct binder_transaction_data *tr)
{
	for (;;) {
		struct binder_write_read bwr = {
			.write_size = w->filled,
			.write_buffer = (uintptr_t)w->out,
			.read_size = sizeof(w->in),
			.read_buffer = (uintptr_t)w->in,
		};
		char *at = w->in, *end;

		if (ioctl(binder, BINDER_WRITE_READ, &bwr)) {
			if (errno == EINTR)
				continue;
			die_errno("BINDER_WRITE_READ");
		}
		w->filled = 0;
		for (end = at + bwr.read_consumed; at < end;) {
			uint32_t said;

			memcpy(&said, at, sizeof(said));
			at += sizeof(said);
			if (said == wanted) {
				memcpy(tr, at, sizeof(*tr));
				return;
			}
			if (said != BR_NOOP && said != BR_TRANSACTION_COMPLETE &&
			    said != BR_SPAWN_LOOPER)
				die("binder says %#x", said);
		}
	}
}

/* Send what is there, and wait for nothing. */
static void send(struct wire *w)
{
	struct binder_write_read bwr = {
		.write_size = w->filled,
		.write_buffer = (uintptr_t)w->out,
	};

	if (ioctl(binder, BINDER_WRITE_READ, &bwr))
		die_errno("BINDER_WRITE_READ");
	w->filled = 0;
}

static void *message_in(const struct binder_transaction_data *tr)
{
	void *message = dbus_message_demarshal((const char *)(uintptr_t)tr->data.ptr.buffer,
					       tr->data_size, no_error());

	if (!message)
		die("D-Bus cannot read a message");
	return message;
}

/* Answer @calls calls, each with its number plus one. */
static void serve(long calls)
{
	struct binder_transaction_data tr;
	struct wire w = { .filled = 0 };
	uint32_t loop = BC_ENTER_LOOPER;
	char *sent = NULL;

	memcpy(w.out, &loop, sizeof(loop));
	w.filled = sizeof(loop);
	for (long i = -WARM; i < calls; i++) {
		void *call, *reply;
		const char *text;
		int number;

		/* Binder copies the reply before this one when this call begins. */
		exchange(&w, BR_TRANSACTION, &tr);
		dbus_free(sent);
		if (!i && opt.server)
			begin();
		call = message_in(&tr);
		if (!dbus_message_get_args(call, no_error(), 'i', &number, 's', &text, 0))
			die("the call has other arguments");
		number++;
		reply = dbus_message_new_method_return(call);
		if (!reply || !dbus_message_append_args(reply, 'i', &number, 0))
			die("D-Bus cannot make a reply");
		put_free(&w, &tr);
		put_message(&w, BC_REPLY, reply, &sent);
		dbus_message_unref(call);
		dbus_message_unref(reply);
	}
	send(&w);
	if (opt.server)
		end();
}

static void call(long calls)
{
	const char *text = "a line of text, as long as a parcel is";
	struct binder_transaction_data tr;
	struct wire w = { .filled = 0 };

	for (long i = -WARM; i < calls; i++) {
		void *message, *reply;
		int number = i, answer;
		char *sent;

		if (!i && !opt.server)
			begin();
		message = dbus_message_new_method_call("org.cohort", "/ipc", "org.cohort.Ipc",
						       "Next");
		if (!message || !dbus_message_append_args(message, 'i', &number, 's', &text, 0))
			die("D-Bus cannot make a call");
		put_message(&w, BC_TRANSACTION, message, &sent);
		exchange(&w, BR_REPLY, &tr);
		dbus_free(sent);
		reply = message_in(&tr);
		if (!dbus_message_get_args(reply, no_error(), 'i', &answer, 0) ||
		    answer != number + 1)
			die("call %ld: the answer is %d", i, answer);
		dbus_message_unref(message);
		dbus_message_unref(reply);
		put_free(&w, &tr);
	}
	if (!opt.server)
		end();
	send(&w);
}

/* The server is a child of the zygote; its own child is the client. */
static void server(void)
{
	struct rusage used;
	pid_t client;

	/* A model need not follow how the zygote came here. */
	mark(MARK_WARM, 0);
	binder_open();
	if (ioctl(binder, BINDER_SET_CONTEXT_MGR, 0))
		die_errno("BINDER_SET_CONTEXT_MGR");
	counters_read(&left->reader, &left->before);
	client = bare_fork();
	if (client < 0)
		die_errno("fork");
	if (!client) {
		/* The device's mapping is not inherited, and a process may open it once. */
		close(binder);
		binder_open();
		call(opt.calls);
		if (getrusage(RUSAGE_SELF, &used))
			die_errno("getrusage");
		left->client_faults = used.ru_minflt;
		left->member = proc_field(getpid(), "cohort", "TlbGroup") == 1;
		bare_exit(0);
	}
	serve(opt.calls);
	bare_wait(client);
	counters_read(&left->reader, &left->after);
	bare_exit(0);
}

/*
 * A daemon: it wakes up each millisecond, and writes and reads a message with the libraries
 * that the client and the server use. Started without address space randomization, it has
 * them at the same addresses, unless the kernel keeps it away from there.
 */
void run_beside(void)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	if (!find())
		die("libdbus lacks a function");
	if (kill(getppid(), SIGUSR1))
		die_errno("kill");
	for (;;) {
		void *message = dbus_message_new_method_call("org.cohort", "/beside",
							     "org.cohort.Beside", "Wake");
		struct binder_transaction_data tr;
		char *data;

		tr.data_size = write_message(message, &data);
		tr.data.ptr.buffer = (uintptr_t)data;
		dbus_message_unref(message_in(&tr));
		dbus_message_unref(message);
		dbus_free(data);
		nanosleep(&ms, NULL);
	}
}

static pid_t start_beside(void)
{
	sigset_t ready;
	pid_t pid;

	sigemptyset(&ready);
	sigaddset(&ready, SIGUSR1);
	sigprocmask(SIG_BLOCK, &ready, NULL);
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		unsetenv("COHORT_TLB_LEADER");
		execl("/proc/self/exe", "zygote", "beside", NULL);
		die_errno("exec of /proc/self/exe");
	}
	while (sigwaitinfo(&ready, NULL) != SIGUSR1)
		;
	return pid;
}

void run_ipc(void)
{
	pid_t beside = 0, pid;

	if (!find())
		die("libdbus lacks a function");
	if (opt.zygote)
		become_zygote(0);
	if (opt.beside)
		beside = start_beside();
	left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (left == MAP_FAILED)
		die_errno("mmap");
	counters_open(&left->reader);
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid)
		server();
	bare_wait(pid);
	if (beside && (kill(beside, SIGKILL) || waitpid(beside, NULL, 0) != beside))
		die_errno("the program beside");
	counters_sub(&left->after, &left->before);
	metric("calls", opt.calls, "calls");
	if (opt.tlb)
		metric("ipc-client-in-group", left->member, "processes");
	metric("ipc-client-faults", left->client_faults, "faults");
	counters_print(&left->reader, &left->after, "ipc", "");
}
