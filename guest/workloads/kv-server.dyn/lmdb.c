// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * LMDB: a tree in a file that is mapped, which several processes use at once. Reads are of the
 * mapping; who writes copies pages of the tree into the file.
 */
#include "../lib/measure.h"
#include "store.h"

/* lmdb.h */
#define MDB_NOSYNC 0x10000
#define MDB_RDONLY 0x20000
#define MDB_APPEND 0x20000

struct MDB_val {
	size_t size;
	void *data;
};

static struct {
	int (*env_create)(void **env);
	int (*env_set_mapsize)(void *env, size_t size);
	int (*env_open)(void *env, const char *path, unsigned int flags, mode_t mode);
	int (*txn_begin)(void *env, void *parent, unsigned int flags, void **txn);
	int (*txn_commit)(void *txn);
	void (*txn_reset)(void *txn);
	int (*txn_renew)(void *txn);
	int (*dbi_open)(void *txn, const char *name, unsigned int flags, unsigned int *dbi);
	int (*get)(void *txn, unsigned int dbi, struct MDB_val *key, struct MDB_val *data);
	int (*put)(void *txn, unsigned int dbi, struct MDB_val *key, struct MDB_val *data,
		   unsigned int flags);
	char *(*strerror)(int error);
} mdb;

static void *env, *txn;
static unsigned int dbi;

static void check(int error)
{
	if (error)
		die("kv-server: LMDB: %s", mdb.strerror(error));
}

static void lmdb_open(const char *dir, int fill)
{
	static const char *const names[] = { "liblmdb.so.0", NULL };

	store_load(names);
	mdb.env_create = store_function("mdb_env_create");
	mdb.env_set_mapsize = store_function("mdb_env_set_mapsize");
	mdb.env_open = store_function("mdb_env_open");
	mdb.txn_begin = store_function("mdb_txn_begin");
	mdb.txn_commit = store_function("mdb_txn_commit");
	mdb.txn_reset = store_function("mdb_txn_reset");
	mdb.txn_renew = store_function("mdb_txn_renew");
	mdb.dbi_open = store_function("mdb_dbi_open");
	mdb.get = store_function("mdb_get");
	mdb.put = store_function("mdb_put");
	mdb.strerror = store_function("mdb_strerror");

	check(mdb.env_create(&env));
	check(mdb.env_set_mapsize(env, MB(256)));
	/* Nothing here has to outlive the machine. */
	check(mdb.env_open(env, dir, MDB_NOSYNC, 0644));
	check(mdb.txn_begin(env, NULL, 0, &txn));
	check(mdb.dbi_open(txn, NULL, 0, &dbi));
	if (fill)
		return;
	check(mdb.txn_commit(txn));
	/* The transaction of all reads: renewed for each, which costs no lock. */
	check(mdb.txn_begin(env, NULL, MDB_RDONLY, &txn));
	mdb.txn_reset(txn);
}

static void lmdb_append(struct key key, const void *record, size_t size)
{
	struct MDB_val k = { sizeof(key), &key }, v = { size, (void *)record };

	check(mdb.put(txn, dbi, &k, &v, MDB_APPEND));
}

static void lmdb_filled(void)
{
	check(mdb.txn_commit(txn));
}

static size_t lmdb_get(struct key key, void *record, size_t size)
{
	struct MDB_val k = { sizeof(key), &key }, v;

	check(mdb.txn_renew(txn));
	check(mdb.get(txn, dbi, &k, &v));
	if (v.size < size)
		size = v.size;
	memcpy(record, v.data, size);
	mdb.txn_reset(txn);
	return size;
}

static void lmdb_put(struct key key, const void *record, size_t size)
{
	struct MDB_val k = { sizeof(key), &key }, v = { size, (void *)record };
	void *update;

	check(mdb.txn_begin(env, NULL, 0, &update));
	check(mdb.put(update, dbi, &k, &v, 0));
	check(mdb.txn_commit(update));
}

const struct store lmdb = {
	"lmdb", lmdb_open, lmdb_append, lmdb_filled, lmdb_get, lmdb_put,
};
