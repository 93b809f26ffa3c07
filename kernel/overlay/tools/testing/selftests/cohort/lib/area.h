/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory of each kind, with marked pages in it. */
#ifndef COHORT_SELFTEST_AREA_H
#define COHORT_SELFTEST_AREA_H

#include <stdbool.h>
#include <sys/types.h>

enum kind {
	ANON, HEAP, PRIV_FILE, PRIV_FILE_RO, PRIV_DISK, SHARED_FILE, SHARED_DISK,
	SHARED_ANON, MEMFD, SYSV, MIXED, BORDERS, NEAR_THP, ALONE, NR_KINDS
};

#define KIND(k)		(1u << (k))
/* all but ALONE, which shares the PMD table as well: see upper.c */
#define ALL_KINDS	(KIND(ALONE) - 1)
/* a sample for cases that treat all kinds alike */
#define SOME_KINDS	(KIND(ANON) | KIND(PRIV_FILE) | KIND(PRIV_FILE_RO) | \
			 KIND(SHARED_DISK) | KIND(SHARED_ANON) | KIND(MIXED))

struct part {
	char *addr;
	size_t len;
	int prot;
	int flags;
	int fd;			/* -1: anonymous */
	bool shared;
};

struct spot {			/* a page that the case knows */
	char *addr;
	int part;
	unsigned int file_tag;	/* the file's content below a private write */
	unsigned int tag;	/* the content that the zygote left */
};

#define MAX_PARTS	5
#define MAX_SPOTS	64

struct area {
	enum kind kind;
	char *base;		/* aligned to a table */
	int tables;		/* tables in use */
	int nparts;
	struct part part[MAX_PARTS];
	int nspots;
	struct spot spot[MAX_SPOTS];
};

extern struct area area;	/* the memory of a case */

const char *kind_name(enum kind kind);
bool kind_shared(enum kind kind);	/* only shared mappings */
bool kind_anon(enum kind kind);		/* only private anonymous memory */
bool kind_readonly(enum kind kind);

/* A new address at each call, with whole empty tables around it. */
char *arena(int tables);
void no_huge_pages(void *addr, size_t len);
void *map_at(char *addr, size_t len, int prot, int flags, int fd, off_t off);
int make_file(const char *fs, size_t pages);	/* "tmpfs" or "disk" */
int open_direct(int fd, int flags);		/* the same file past the page cache */
#define FILE_TAG(index)	(1000000u + (unsigned int)(index))

void area_make(struct area *a, enum kind kind);
void area_spots(struct area *a, int part, int n);
void area_unmap(struct area *a);
long forget_area(long unused, long unused2);	/* area_unmap(), for peers */
/* without a model: are the spots as the zygote left them? */
long spots_intact(long area, long unused);
long spots_touch(long area, long unused);	/* read each spot */

#endif
