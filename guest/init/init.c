// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The first program of the lab's guest: makes a small system, runs a job,
 * reports, and ends the machine.
 *
 *   cc -O2 -Wall -Wextra -Werror -static -o init init.c
 *
 * The kernel command line may hold
 *   lab.root=DEV   a root file system (ext4) on /dev/DEV; without it the
 *                  initramfs is all there is
 *   lab.shell      a shell on the console instead of the job
 *
 * The job is /lab/job, a step a line: NAME<tab>SECONDS<tab>COMMAND. With a root
 * file system COMMAND is given to `/bin/sh -c`; without one it is split at
 * spaces and executed. SECONDS is guest time, 0 for no limit.
 *
 * /lab/modules, where it is there, names modules to load first, a path a line,
 * each behind those that it needs: Debian's own kernels have their drivers and
 * ext4 in modules.
 *
 * What happens is reported on the virtio port named `lab`:
 *   ready
 *   begin NAME
 *   out NAME TEXT          each line of the step's stdout and stderr
 *   end NAME exit=N        or signal=N, or timeout
 *   taint N                the kernel's taint mask after the last step
 *   done
 * A report without `done` is a guest that did not get to its end.
 *
 * A step ends with its first process. Whatever it leaves behind is killed
 * then, so that no step is measured, or tested, beside the remains of another.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Devices may come up after init: this long is waited for one. */
#define DEVICE_WAIT_MS 10000
/* A killed process that is still there after this is stuck in the kernel. */
#define KILL_WAIT_MS 20000
/* A longer line of output is reported in pieces. */
#define LINE_SIZE 4096

static int report_fd = -1;	/* the port, or the console where there is none */
static int child_fd = -1;	/* signalfd for SIGCHLD */
static bool have_root;		/* a root file system, so a shell, is mounted */

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* Tells the console, which is the log that a person reads. */
static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	dprintf(STDERR_FILENO, "init: ");
	vdprintf(STDERR_FILENO, fmt, ap);
	dprintf(STDERR_FILENO, "\n");
	va_end(ap);
}

/*
 * Ends the machine. A restart, because the smallest machines have no power
 * switch; QEMU's -no-reboot makes it the end.
 */
static void __attribute__((noreturn)) end_machine(void)
{
	reboot(RB_AUTOBOOT);
	/* Not root, or not process 1: someone tries the program by hand. */
	exit(1);
}

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	dprintf(STDERR_FILENO, "init: ");
	vdprintf(STDERR_FILENO, fmt, ap);
	dprintf(STDERR_FILENO, ": the job is not run\n");
	va_end(ap);
	end_machine();
}

/* ---- report ------------------------------------------------------------- */

static void write_all(int fd, const char *buf, size_t len)
{
	while (len) {
		ssize_t n = write(fd, buf, len);

		if (n > 0) {
			buf += n;
			len -= n;
			continue;
		}
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return;		/* nobody listens: the guest must end all the same */
		if (n == 0 || errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			poll(&p, 1, 100);
		}
	}
}

static void report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void report(const char *fmt, ...)
{
	char line[LINE_SIZE];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (len > (int)sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	write_all(report_fd, line, len);
}

/* Is this virtio port, by its directory in sysfs, the one named `lab`? */
static bool port_is_lab(const char *port)
{
	char path[300], name[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", port);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	close(fd);
	return !strcmp(name, "lab\n");
}

static int open_lab_port(void)
{
	DIR *dir = opendir("/sys/class/virtio-ports");
	struct dirent *entry;
	int fd = -1;

	if (!dir)
		return -1;
	while (fd < 0 && (entry = readdir(dir))) {
		char path[300];

		if (!port_is_lab(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		fd = open(path, O_WRONLY | O_CLOEXEC);
	}
	closedir(dir);
	return fd;
}

/*
 * Opens the report port. Ports are announced by messages, some time after
 * their device is found.
 */
static void open_report(void)
{
	int64_t end = now_ms() + DEVICE_WAIT_MS;

	while ((report_fd = open_lab_port()) < 0 && now_ms() < end)
		sleep_ms(2);
	if (report_fd < 0) {
		say("no virtio port is named `lab`: reporting on the console");
		report_fd = STDOUT_FILENO;
	}
}

/* ---- the system --------------------------------------------------------- */

static const struct {
	const char *type, *where, *options;
	unsigned long flags;
	bool optional;		/* the kernel may be built without it */
} mounts[] = {
	{ "proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC, false },
	{ "sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC, false },
	{ "devtmpfs", "/dev", "mode=755", MS_NOSUID, false },
	{ "devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666", MS_NOSUID | MS_NOEXEC, true },
	{ "tmpfs", "/dev/shm", "mode=1777", MS_NOSUID | MS_NODEV, false },
	{ "mqueue", "/dev/mqueue", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC, true },
	{ "tmpfs", "/tmp", "mode=1777", MS_NOSUID | MS_NODEV, false },
	{ "tmpfs", "/run", "mode=755", MS_NOSUID | MS_NODEV, false },
	{ "cgroup2", "/sys/fs/cgroup", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC, true },
	{ "debugfs", "/sys/kernel/debug", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC, true },
	{ "tracefs", "/sys/kernel/tracing", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC, true },
};

/* The mounts that carry all others along when they move to the new root. */
static const char *const trees[] = { "/dev", "/proc", "/sys", "/tmp", "/run" };

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	write_all(fd, text, strlen(text));
	close(fd);
}

/* /dev/console as stdin, stdout and stderr, whether or not the kernel did it. */
static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR);

	if (fd < 0)
		return;
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr))
		say("the loopback does not come up: %m");
	close(fd);
}

static void make_system(void)
{
	umask(0);
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		mkdir(mounts[i].where, 0755);
		if (mount(mounts[i].type, mounts[i].where, mounts[i].type,
			  mounts[i].flags, mounts[i].options) &&
		    !mounts[i].optional)
			fail("cannot mount %s: %m", mounts[i].where);
		/* From here on there is somewhere to complain to. */
		if (!strcmp(mounts[i].where, "/dev"))
			open_console();
	}
	/* /var/lock points here; servers' start scripts write to it. */
	mkdir("/run/lock", 01777);
	umask(022);
	/* devtmpfs leaves these to user space; shells need them for <(…). */
	if (symlink("/proc/self/fd", "/dev/fd") ||
	    symlink("/proc/self/fd/0", "/dev/stdin") ||
	    symlink("/proc/self/fd/1", "/dev/stdout") ||
	    symlink("/proc/self/fd/2", "/dev/stderr"))
		say("links in /dev: %m");
	/* One at a time: a kernel without one of them refuses the whole line. */
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+pids");
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset");
	if (sethostname("lab", 3))
		say("host name: %m");
	loopback_up();
}

/* Loads what /lab/modules names. */
static void load_modules(void)
{
	FILE *list = fopen("/lab/modules", "re");
	char *line = NULL;
	size_t size = 0;

	if (!list)
		return;
	while (getline(&line, &size, list) >= 0) {
		int fd;

		line[strcspn(line, "\n")] = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
			fail("cannot load the module %s: %m", line);
		close(fd);
	}
	free(line);
	fclose(list);
}

/*
 * Finds `name` among the words of the kernel's command line. True if it is
 * there; `value` gets what follows its `=`.
 */
static bool option(const char *name, char *value, size_t size)
{
	static char line[4096];
	size_t len = strlen(name);
	char *save = NULL;
	ssize_t n;
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	for (char *w = strtok_r(line, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
		if (strncmp(w, name, len) || (w[len] && w[len] != '='))
			continue;
		if (value)
			snprintf(value, size, "%s", w[len] ? w + len + 1 : "");
		return true;
	}
	return false;
}

/*
 * Mounts the root file system and makes it the root: moved over `/`, not only
 * chrooted into, for a process that is chrooted may not make user namespaces.
 */
static void change_root(const char *device)
{
	int64_t end = now_ms() + DEVICE_WAIT_MS;
	char path[300];

	snprintf(path, sizeof(path), "/dev/%s", device);
	while (access(path, F_OK) && now_ms() < end)
		sleep_ms(2);
	mkdir("/newroot", 0755);
	if (mount(path, "/newroot", "ext4", MS_NOATIME, NULL))
		fail("cannot mount the root file system %s: %m", path);
	mkdir("/newroot/lab", 0755);
	if (mount("/lab", "/newroot/lab", NULL, MS_BIND | MS_REC, NULL))
		fail("cannot show /lab in the root file system: %m");
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		snprintf(path, sizeof(path), "/newroot%s", trees[i]);
		mkdir(path, 0755);
		if (mount(trees[i], path, NULL, MS_MOVE, NULL))
			fail("cannot move %s to the root file system: %m", trees[i]);
	}
	if (chdir("/newroot") || mount(".", "/", NULL, MS_MOVE, NULL) ||
	    chroot(".") || chdir("/"))
		fail("cannot change to the root file system: %m");
	have_root = true;
}

static void set_environment(void)
{
	clearenv();
	setenv("PATH", "/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("LAB", "/lab", 1);
	setenv("HOME", "/root", 1);
	setenv("USER", "root", 1);
	setenv("LOGNAME", "root", 1);
	setenv("LC_ALL", "C.UTF-8", 1);
	setenv("TERM", "vt100", 1);
}

/* ---- steps -------------------------------------------------------------- */

struct step {
	const char *name;
	const char *command;
	long seconds;		/* 0: no limit */
};

/* How a step's first process ended. */
struct ending {
	pid_t pid;
	bool over;
	int status;		/* of wait() */
};

/* Output of a step on its way to the report: lines, prefixed. */
struct lines {
	const char *name;
	char text[LINE_SIZE];
	size_t len;
};

static void flush_line(struct lines *l)
{
	char buf[LINE_SIZE + 300];
	int n = snprintf(buf, 256, "out %s ", l->name);

	if (n > 255)
		n = 255;
	memcpy(buf + n, l->text, l->len);
	n += l->len;
	buf[n++] = '\n';
	write_all(report_fd, buf, n);
	l->len = 0;
}

enum taken { TAKEN, NOTHING_YET, NOTHING_MORE };

/*
 * Takes a piece of what is in the pipe. One piece only: a step that never stops
 * writing must not keep us from looking at the clock.
 */
static enum taken take_output(int fd, struct lines *l)
{
	char buf[16384];
	ssize_t n = read(fd, buf, sizeof(buf));

	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\n') {
			flush_line(l);
			continue;
		}
		if (l->len == sizeof(l->text))
			flush_line(l);
		l->text[l->len++] = buf[i];
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return NOTHING_YET;
	return n > 0 ? TAKEN : NOTHING_MORE;
}

/* Buries the dead. False when no child is left, dead or alive. */
static bool reap(struct ending *e)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(child_fd, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (e && pid == e->pid) {
			e->over = true;
			e->status = status;
		}
	}
	return pid == 0;
}

/* Kills every process but this one, and waits until they are gone. */
static void kill_all(struct ending *e)
{
	int64_t end = now_ms() + KILL_WAIT_MS;

	/* Again and again: one may have been in the middle of a fork. */
	for (;;) {
		struct pollfd p = { .fd = child_fd, .events = POLLIN };

		kill(-1, SIGKILL);
		if (!reap(e))
			return;
		if (now_ms() > end) {
			/* Say BUG, so that a check of the log does not report a pass. */
			say("BUG: a process survives SIGKILL");
			return;
		}
		poll(&p, 1, 20);
	}
}

/* The words of a command, for execution without a shell. */
static void exec_words(char *command)
{
	char *argv[256], *save = NULL;
	size_t n = 0;

	for (char *w = strtok_r(command, " ", &save); w; w = strtok_r(NULL, " ", &save))
		if (n < ARRAY_SIZE(argv) - 1)
			argv[n++] = w;
	argv[n] = NULL;
	if (n)
		execvp(argv[0], argv);
	else
		errno = ENOENT;
}

static void __attribute__((noreturn)) child(const struct step *s, int out)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	if (null > 2)
		close(null);
	if (have_root)
		execl("/bin/sh", "sh", "-c", s->command, (char *)NULL);
	else
		exec_words(strdup(s->command));
	dprintf(STDERR_FILENO, "%s: %m\n", s->command);
	_exit(127);
}

static void run_step(const struct step *s)
{
	static struct lines lines;
	struct ending e = { 0 };
	int64_t end = now_ms() + s->seconds * 1000LL;
	bool open_pipe = true, late = false;
	int p[2];

	report("begin %s", s->name);
	lines.name = s->name;
	lines.len = 0;
	if (pipe2(p, O_CLOEXEC))
		fail("pipe: %m");
	/* Only this end: a program expects its own output to block. */
	fcntl(p[0], F_SETFL, O_NONBLOCK);

	e.pid = fork();
	if (e.pid < 0)
		fail("fork: %m");
	if (!e.pid)
		child(s, p[1]);
	close(p[1]);

	while (!e.over && !late) {
		struct pollfd fds[] = {
			{ .fd = child_fd, .events = POLLIN },
			/* A step may close its output and live on. */
			{ .fd = open_pipe ? p[0] : -1, .events = POLLIN },
		};
		int wait = -1;

		if (s->seconds) {
			int64_t left = end - now_ms();

			late = left <= 0;
			wait = late ? 0 : left > 60000 ? 60000 : (int)left;
		}
		poll(fds, ARRAY_SIZE(fds), wait);
		if (fds[1].revents && take_output(p[0], &lines) == NOTHING_MORE)
			open_pipe = false;
		reap(&e);
	}
	/* Whatever the two raced for, a step that has ended was not late. */
	late = late && !e.over;
	kill_all(&e);
	/* With no writer left, this is all there is. */
	while (take_output(p[0], &lines) == TAKEN)
		;
	close(p[0]);
	if (lines.len)
		flush_line(&lines);

	if (late)
		report("end %s timeout", s->name);
	else if (WIFSIGNALED(e.status))
		report("end %s signal=%d", s->name, WTERMSIG(e.status));
	else
		report("end %s exit=%d", s->name, WEXITSTATUS(e.status));
}

/* Splits a line of the job in place. False if it is not one. */
static bool parse_step(char *line, struct step *s)
{
	char *seconds, *command, *end;

	seconds = strchr(line, '\t');
	if (!seconds)
		return false;
	*seconds++ = '\0';
	command = strchr(seconds, '\t');
	if (!command)
		return false;
	*command++ = '\0';
	s->name = line;
	s->command = command;
	s->seconds = strtol(seconds, &end, 10);
	return *line && !strchr(line, ' ') && *command &&
	       end != seconds && !*end && s->seconds >= 0;
}

static void run_job(void)
{
	FILE *job = fopen("/lab/job", "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	long number = 0;
	char taint[32] = "0";
	int fd;

	if (!job)
		fail("/lab/job: %m");
	report("ready");
	while ((len = getline(&line, &size, job)) >= 0) {
		struct step s;

		number++;
		if (len && line[len - 1] == '\n')
			line[--len] = '\0';
		if (!len || line[0] == '#')
			continue;
		if (!parse_step(line, &s))
			fail("/lab/job: line %ld is not NAME<tab>SECONDS<tab>COMMAND", number);
		run_step(&s);
	}
	fclose(job);
	free(line);

	fd = open("/proc/sys/kernel/tainted", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, taint, sizeof(taint) - 1);
		taint[len > 0 ? len : 0] = '\0';
		taint[strcspn(taint, "\n")] = '\0';
		close(fd);
	}
	report("taint %s", taint);
	report("done");
}

/* ---- the interactive guest ------------------------------------------------ */

/* Opens the terminal behind /dev/console, which itself cannot control jobs. */
static int open_terminal(void)
{
	char active[256] = "", path[300], *name;
	int fd = open("/sys/class/tty/console/active", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (read(fd, active, sizeof(active) - 1) < 0)
			active[0] = '\0';
		close(fd);
	}
	active[strcspn(active, "\n")] = '\0';
	name = strrchr(active, ' ');
	snprintf(path, sizeof(path), "/dev/%s",
		 name ? name + 1 : active[0] ? active : "console");
	return open(path, O_RDWR);
}

static void run_shell(void)
{
	static const char *const shells[] = { "/bin/bash", "/bin/sh", "/lab/bin/sh" };
	struct ending e = { 0 };

	e.pid = fork();
	if (e.pid < 0)
		fail("fork: %m");
	if (!e.pid) {
		int fd = open_terminal();
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		if (fd >= 0) {
			for (int i = 0; i < 3; i++)
				dup2(fd, i);
			if (fd > 2)
				close(fd);
			ioctl(STDIN_FILENO, TIOCSCTTY, 1);
		}
		for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
			execl(shells[i], shells[i], "-i", (char *)NULL);
		say("no shell here: give a root file system (lab.root=)");
		_exit(127);
	}
	while (!e.over) {
		struct pollfd p = { .fd = child_fd, .events = POLLIN };

		poll(&p, 1, -1);
		reap(&e);
	}
	kill_all(NULL);
}

int main(void)
{
	char device[64];
	sigset_t chld;

	if (getpid() != 1) {
		fprintf(stderr, "init: to be started by a kernel, as its first process\n");
		return 1;
	}
	make_system();
	load_modules();

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	child_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (child_fd < 0)
		fail("signalfd: %m");

	set_environment();
	if (option("lab.root", device, sizeof(device)))
		change_root(device);
	if (option("lab.shell", NULL, 0)) {
		run_shell();
	} else {
		open_report();
		run_job();
	}
	end_machine();
}
