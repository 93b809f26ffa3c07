/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of a page size for each region share: asking for one, finding
 * out what a page's size is, and a file on a file system that has large pages.
 */
#ifndef COHORT_SELFTEST_ORDER_H
#define COHORT_SELFTEST_ORDER_H

#include "../common.h"

#ifndef MADV_ORDER
#define MADV_ORDER		0x4f00
#define MADV_ORDER_SHIFT	16
#define MADV_ORDER_WAIT		0x01
#define MADV_ORDER_COPY		0x02
#define MADV_ORDER_NONE		0x80
#define PR_SET_REGION_ORDER	0x434f4803
#define PR_GET_REGION_ORDER	0x434f4804
#define PR_ORDER_HEAP		1
#define PR_ORDER_ANON		2
#define PR_ORDER_FILE		4
#define PR_ORDER_STACK		8
#endif

#define WAIT	MADV_ORDER_WAIT
#define COPY	MADV_ORDER_COPY

static inline int advice(int order, int policy)
{
	return MADV_ORDER | order << MADV_ORDER_SHIFT | policy;
}

int set_order(void *addr, size_t len, int order, int policy);

#define RW	(PROT_READ | PROT_WRITE)
#define ANONYMOUS	(MAP_PRIVATE | MAP_ANONYMOUS)
#define TAG(page)	(7000u + (unsigned int)(page))

static inline int pmd_order(void)
{
	return __builtin_ctzl(table_size / page_size);
}

#define ABSENT	-1	/* nothing is mapped */
#define PART	-2	/* some of a large page, or one that is not aligned */

int mapped_order(const char *addr);
void smaps_order(const void *addr, char *line, size_t size);
void must_have(const void *addr, int order, int policy);
void must_have_none(const void *addr);
void need_orders(void);

void put(int fd, const void *what, size_t size, off_t at);
int make_image(size_t pages, size_t more);

#endif
