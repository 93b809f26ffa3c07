// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A server of records on LMDB or RocksDB, for one client (ISCA'20, section VI).
 *
 *   kv-server lmdb|rocksdb fill DIR RECORDS
 *   kv-server lmdb|rocksdb serve DIR SOCKET REQUEST
 *
 * fill makes the store. serve says "ready" when it listens at SOCKET, and ends with its client. Each
 * of the client's requests is the model's request REQUEST, from when it is there to its answer.
 */
#include "../lib/mark.h"
#include "../lib/measure.h"
#include "../ycsb/ycsb.h"
#include "store.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

static void *library;

void store_load(const char *const *names)
{
	for (; *names && !library; names++)
		library = dlopen(*names, RTLD_NOW);
	if (!library)
		die("kv-server: %s", dlerror());
}

void *store_function(const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		die("kv-server: %s", dlerror());
	return found;
}

static struct key key_of(uint32_t n)
{
	return (struct key){ { n >> 24, n >> 16, n >> 8, n } };
}

static void fill(const struct store *store, const char *dir, uint32_t records)
{
	char record[RECORD];

	store->open(dir, 1);
	for (uint32_t i = 0; i < records; i++) {
		memset(record, 'a' + i % 26, RECORD);
		store->append(key_of(i), record, RECORD);
	}
	store->filled();
}

static bool receive_all(int client, void *data, size_t size)
{
	char *p = data;
	ssize_t got;

	for (; size; p += got, size -= got) {
		got = recv(client, p, size, 0);
		if (got < 0)
			die_errno("the client");
		if (!got)
			return false;
	}
	return true;
}

static void serve(const struct store *store, const char *dir, const char *path, unsigned long number)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct {
		struct ycsb_answer answer;
		char record[RECORD];
	} out;
	int client, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	store->open(dir, 0);
	snprintf(local.sun_path, sizeof(local.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof(local)) || listen(fd, 1))
		die_errno(path);
	puts("ready");
	fflush(stdout);
	client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (client < 0)
		die_errno(path);

	for (;;) {
		struct pollfd waits = { client, POLLIN, 0 };
		size_t size = sizeof(out.answer);
		struct ycsb_request request;

		if (poll(&waits, 1, -1) < 0)
			die_errno("the client");
		mark(MARK_BEGIN, number);
		if (!receive_all(client, &request, sizeof(request)))
			return;
		if (request.update) {
			if (!receive_all(client, out.record, RECORD))
				return;
			store->put(key_of(request.key), out.record, RECORD);
		} else {
			if (store->get(key_of(request.key), out.record, RECORD) != RECORD)
				die("kv-server: there is no record %u", request.key);
			size = sizeof(out);
		}
		out.answer.key = request.key;
		if (send(client, &out, size, MSG_NOSIGNAL) != (ssize_t)size)
			die_errno("the client");
		mark(MARK_END, number);
	}
}

int main(int argc, char **argv)
{
	static const struct store *const stores[] = { &lmdb, &rocksdb };
	const struct store *store = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(stores); i++)
		if (argc > 1 && !strcmp(argv[1], stores[i]->name))
			store = stores[i];
	if (store && argc == 5 && !strcmp(argv[2], "fill"))
		fill(store, argv[3], strtoul(argv[4], NULL, 0));
	else if (store && argc == 6 && !strcmp(argv[2], "serve"))
		serve(store, argv[3], argv[4], strtoul(argv[5], NULL, 0));
	else
		die("usage: kv-server lmdb|rocksdb fill DIR RECORDS | serve DIR SOCKET REQUEST");
	return 0;
}
