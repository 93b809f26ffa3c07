// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A client as of the Yahoo Cloud Serving Benchmark, whose requests are in a file.
 *
 *   ycsb kv SOCKET FILE REQUEST		kv-server's records
 *   ycsb http PORT FILE REQUEST		GET /NUMBER of a server on this machine
 *
 * FILE holds numbers of 4 bytes: a record's key, with YCSB_UPDATE if it is to be changed. For each
 * line of its standard input, a number, the client sends so many requests, one after the other, and
 * prints "done"; behind the last of FILE comes the first again. With http its own part of these requests is the model's request REQUEST.
 */
#include "../lib/mark.h"
#include "../lib/measure.h"
#include "ycsb.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static int server;

static void send_all(const void *data, size_t size)
{
	const char *p = data;
	ssize_t sent;

	for (; size; p += sent, size -= sent) {
		sent = send(server, p, size, MSG_NOSIGNAL);
		if (sent <= 0)
			die_errno("the server");
	}
}

static void receive_all(void *data, size_t size)
{
	char *p = data;
	ssize_t got;

	for (; size; p += got, size -= got) {
		got = recv(server, p, size, 0);
		if (got <= 0)
			die_errno("the server");
	}
}

static void ask_kv(uint32_t request)
{
	struct {
		struct ycsb_request request;
		char record[RECORD];
	} out = { .request.update = !!(request & YCSB_UPDATE), .request.key = request & ~YCSB_UPDATE };
	char record[RECORD];
	struct ycsb_answer answer;

	if (out.request.update)
		memset(out.record, 'A' + out.request.key % 26, RECORD);
	send_all(&out, out.request.update ? sizeof(out) : sizeof(out.request));
	receive_all(&answer, sizeof(answer));
	if (answer.key != out.request.key)
		die("ycsb: the server has no record %u", out.request.key);
	if (!out.request.update)
		receive_all(record, RECORD);
}

static void ask_http(uint32_t key)
{
	static char answer[MB(1)];
	size_t had = 0, length;
	char text[128], *end, *field;
	ssize_t got;

	send_all(text, snprintf(text, sizeof(text), "GET /%u HTTP/1.1\r\nHost: localhost\r\n\r\n", key));
	do {
		got = recv(server, answer + had, sizeof(answer) - 1 - had, 0);
		if (got <= 0)
			die_errno("the server");
		had += got;
		answer[had] = 0;
		end = strstr(answer, "\r\n\r\n");
	} while (!end);
	field = strstr(answer, "\r\nContent-Length: ");
	if (strncmp(answer, "HTTP/1.1 200 ", 13) || !field || field > end)
		die("ycsb: /%u: %.60s", key, answer);
	length = end + 4 - answer + strtoul(field + 18, NULL, 10);
	if (length > sizeof(answer) || length < had)
		die("ycsb: /%u has %zu bytes", key, length);
	receive_all(answer + had, length - had);
}

static int connected(bool http, const char *where)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in port = {
		.sin_family = AF_INET, .sin_port = htons(strtoul(where, NULL, 10)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int one = 1, fd = socket(http ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(local.sun_path, sizeof(local.sun_path), "%s", where);
	if (fd < 0 || connect(fd, http ? (void *)&port : (void *)&local, http ? sizeof(port) : sizeof(local)))
		die_errno(where);
	if (http && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die_errno(where);
	return fd;
}

int main(int argc, char **argv)
{
	const uint32_t *requests, *next, *end;
	unsigned long number;
	struct stat st;
	char line[32];
	bool http;
	int fd;

	if (argc != 5 || (strcmp(argv[1], "kv") && strcmp(argv[1], "http")))
		die("usage: ycsb kv SOCKET FILE REQUEST | http PORT FILE REQUEST");
	http = !strcmp(argv[1], "http");
	number = strtoul(argv[4], NULL, 0);
	fd = open(argv[3], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die_errno(argv[3]);
	if (st.st_size < (off_t)sizeof(*requests))
		die("ycsb: %s has no request", argv[3]);
	requests = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (requests == MAP_FAILED)
		die_errno(argv[3]);
	next = requests;
	end = requests + st.st_size / sizeof(*requests);
	server = connected(http, argv[2]);

	while (fgets(line, sizeof(line), stdin)) {
		if (http)
			mark(MARK_BEGIN, number);
		for (unsigned long n = strtoul(line, NULL, 10); n; n--) {
			if (next == end)
				next = requests;
			if (http)
				ask_http(*next++);
			else
				ask_kv(*next++);
		}
		if (http)
			mark(MARK_END, number);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
