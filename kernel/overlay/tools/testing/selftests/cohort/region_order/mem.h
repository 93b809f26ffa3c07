/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of a case: one region with an order, anonymous or of a file, and the
 * machine's own switches for large pages, which are at `never` meanwhile.
 */
#ifndef COHORT_SELFTEST_MEM_H
#define COHORT_SELFTEST_MEM_H

#include "order.h"

/* the argument of a case: an order and a policy */
#define ARG(order, policy)	((order) | (policy) << 8)
#define ARG_ORDER(arg)		((int)((arg) & 0xff))
#define ARG_POLICY(arg)		((int)((arg) >> 8 & 0xff))
/* ... and for files, where they are */
#define ON(arg, fs)		((arg) | (long)(fs) << 16 | 1L << 24)
#define ARG_FS(arg)		((enum fs)((arg) >> 16 & 0xff))
#define IS_FILE(arg)		((arg) >> 24)

enum fs { TMPFS, IMAGE };

#define UNEVICTABLE	"/proc/sys/vm/compact_unevictable_allowed"

struct order_mem {
	char *base;
	size_t len;		/* bytes */
	size_t block;		/* bytes of one page of the order */
	int order, policy;
};

extern struct order_mem mem;

extern int file_fd;
extern enum fs file_fs;

void switch_all(const char *to);

void keep_switches(void);	/* set them to `never`, and restore them after the last case */

int regions(const char *addr, size_t len);
size_t nr_pages(void);
char *page_at(size_t i);
void compact(void);
void map_mem(long arg);
void fill(unsigned int shift);
void check(unsigned int shift);
void must_map(char *from, size_t len, int order);
void must_map_at_most(char *from, size_t len, int order);
void must_map_in_table(char *from, size_t len);

long child_check(long shift, long unused);
size_t unmap_middles(unsigned int (*tag)(size_t page));
unsigned int own_tag(size_t page);

void set_mem(long arg, int blocks);
void make_mem_file(void);
int file_prot(long arg);
void map_fd(char *addr, size_t len, int prot, int flags, size_t first);
void map_file(long arg, int prot, int flags);
unsigned int file_tag(size_t i);
void check_file(char *base, size_t pages);
void drop_cache(void);
void touch_blocks(char *base, size_t len, int order);
void must_map_whole(char *from, size_t len, int most);

long set_default(unsigned long kinds, int what);

#endif
