// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * RocksDB: tables in files that are mapped (allow_mmap_reads) and never written again, and a table in
 * memory with a log for what is new. One process alone writes to a directory.
 */
#include "../lib/measure.h"
#include "store.h"

static struct {
	void *(*options_create)(void);
	void (*set_create_if_missing)(void *options, unsigned char on);
	void (*set_allow_mmap_reads)(void *options, unsigned char on);
	void (*set_compression)(void *options, int type);
	void (*set_max_file_opening_threads)(void *options, int n);
	void (*set_write_buffer_size)(void *options, size_t size);
	void *(*open)(void *options, const char *dir, char **error);
	void *(*readoptions_create)(void);
	void *(*writeoptions_create)(void);
	void (*disable_WAL)(void *options, int on);
	void (*compact_range)(void *db, const char *from, size_t from_size, const char *to, size_t to_size);
	void (*close)(void *db);
	void *(*get_pinned)(void *db, void *options, const char *key, size_t key_size, char **error);
	const char *(*pinned_value)(void *slice, size_t *size);
	void (*pinned_destroy)(void *slice);
	void (*put)(void *db, void *options, const char *key, size_t key_size, const char *value,
		    size_t size, char **error);
	void *(*flushoptions_create)(void);
	void (*flush)(void *db, void *options, char **error);
} rocks;

static void *db, *reading, *writing;

static void check(const char *error)
{
	if (error)
		die("kv-server: RocksDB: %s", error);
}

static void rocksdb_open(const char *dir, int fill)
{
	static const char *const names[] = { "librocksdb.so.7.8", "librocksdb.so.9.10", NULL };
	void *options;
	char *error = NULL;

	store_load(names);
	rocks.options_create = store_function("rocksdb_options_create");
	rocks.set_create_if_missing = store_function("rocksdb_options_set_create_if_missing");
	rocks.set_allow_mmap_reads = store_function("rocksdb_options_set_allow_mmap_reads");
	rocks.set_compression = store_function("rocksdb_options_set_compression");
	rocks.set_max_file_opening_threads =
		store_function("rocksdb_options_set_max_file_opening_threads");
	rocks.set_write_buffer_size = store_function("rocksdb_options_set_write_buffer_size");
	rocks.open = store_function("rocksdb_open");
	rocks.readoptions_create = store_function("rocksdb_readoptions_create");
	rocks.writeoptions_create = store_function("rocksdb_writeoptions_create");
	rocks.disable_WAL = store_function("rocksdb_writeoptions_disable_WAL");
	rocks.compact_range = store_function("rocksdb_compact_range");
	rocks.close = store_function("rocksdb_close");
	rocks.get_pinned = store_function("rocksdb_get_pinned");
	rocks.pinned_value = store_function("rocksdb_pinnableslice_value");
	rocks.pinned_destroy = store_function("rocksdb_pinnableslice_destroy");
	rocks.put = store_function("rocksdb_put");
	rocks.flushoptions_create = store_function("rocksdb_flushoptions_create");
	rocks.flush = store_function("rocksdb_flush");

	options = rocks.options_create();
	rocks.set_create_if_missing(options, fill);
	rocks.set_allow_mmap_reads(options, 1);
	/* What is compressed would be copied out of the mapping. */
	rocks.set_compression(options, 0);
	/* The log takes as much of the disk at once. */
	if (!fill)
		rocks.set_write_buffer_size(options, MB(4));
	/* Threads that map files would put them at other addresses in each process. */
	rocks.set_max_file_opening_threads(options, 1);
	reading = rocks.readoptions_create();
	writing = rocks.writeoptions_create();
	/* Filled once, and flushed. */
	rocks.disable_WAL(writing, fill);
	db = rocks.open(options, dir, &error);
	check(error);
}

static size_t rocksdb_get(struct key key, void *record, size_t size)
{
	char *error = NULL;
	size_t had = 0;
	void *slice = rocks.get_pinned(db, reading, (char *)&key, sizeof(key), &error);
	const char *value;

	check(error);
	if (!slice)
		return 0;
	value = rocks.pinned_value(slice, &had);
	if (had < size)
		size = had;
	memcpy(record, value, size);
	rocks.pinned_destroy(slice);
	return size;
}

static void rocksdb_put(struct key key, const void *record, size_t size)
{
	char *error = NULL;

	rocks.put(db, writing, (char *)&key, sizeof(key), record, size, &error);
	check(error);
}

static void rocksdb_filled(void)
{
	char *error = NULL;

	rocks.flush(db, rocks.flushoptions_create(), &error);
	check(error);
	/* One level of tables, as after a while. */
	rocks.compact_range(db, NULL, 0, NULL, 0);
	rocks.close(db);
}

const struct store rocksdb = {
	"rocksdb", rocksdb_open, rocksdb_put, rocksdb_filled, rocksdb_get, rocksdb_put,
};
