/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A store of records by key, in a library that is loaded: what is declared here of its interface
 * spares the packages for development.
 */
#ifndef STORE_H
#define STORE_H

#include <stddef.h>
#include <stdint.h>

/* A key's bytes, so that keys are in order. */
struct key {
	unsigned char byte[4];
};

struct store {
	const char *name;
	/* Opens what is in the directory @dir, or begins to fill it with records in order. */
	void (*open)(const char *dir, int fill);
	/* A new record, behind all others. */
	void (*append)(struct key key, const void *record, size_t size);
	/* All records are there. */
	void (*filled)(void);
	/* Copies a record; its size, 0 if there is none. */
	size_t (*get)(struct key key, void *record, size_t size);
	void (*put)(struct key key, const void *record, size_t size);
};

extern const struct store lmdb, rocksdb;

/* A function of the library that was loaded last. */
void *store_function(const char *name);
/* Loads the first of these libraries that there is. */
void store_load(const char *const *names);

#endif
