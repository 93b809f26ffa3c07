// SPDX-License-Identifier: GPL-2.0-or-later
/* Programs that are started by exec, one after the other, and stay. */
#include "instance.h"

#include <sys/prctl.h>
#include <sys/wait.h>

void instance_start(struct instance *p, char **argv, size_t number)
{
	char text[24];
	int in[2], out[2];

	snprintf(text, sizeof(text), "%zu", number);
	setenv("INSTANCE", text, 1);
	/* What an instance leaves behind is ours to wait for. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		die_errno("pipe");
	p->started = ticks();
	p->pid = fork();
	if (p->pid < 0)
		die_errno("fork");
	if (!p->pid) {
		setpgid(0, 0);
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(out[1], 2);
		execvp(argv[0], argv);
		die_errno(argv[0]);
	}
	close(in[0]);
	close(out[1]);
	p->in = in[1];
	p->out = out[0];
}

uint64_t instance_wait(struct instance *p, const char *word)
{
	static char text[65536];
	size_t len = 0;

	while (len + 1 < sizeof(text)) {
		ssize_t n = read(p->out, text + len, sizeof(text) - 1 - len);

		if (n <= 0)
			break;
		len += n;
		text[len] = '\0';
		if (strstr(text, word))
			return ticks();
	}
	die("the program has ended before it printed %s: %.1000s", word, text);
}

void instance_kill(struct instance *p)
{
	close(p->in);
	close(p->out);
	kill(-p->pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

uint64_t minor_faults(pid_t pid)
{
	char path[64], line[1024];
	unsigned long faults = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f || !fgets(line, sizeof(line), f) || !strrchr(line, ')') ||
	    sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %lu", &faults) != 1)
		die("%s cannot be read", path);
	fclose(f);
	return faults;
}

void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die_errno(path);
	close(fd);
}
