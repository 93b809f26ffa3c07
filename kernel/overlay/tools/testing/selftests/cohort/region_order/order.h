/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the tests of a page size per region: request a size, find the
 * size of a mapped page, and make a file on a file system with large pages.
 */
#ifndef COHORT_SELFTEST_ORDER_H
#define COHORT_SELFTEST_ORDER_H

#include "../common.h"
/* this tree's header; other kernels refuse the advice */
#include "../../../../../include/uapi/linux/region_order.h"

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
