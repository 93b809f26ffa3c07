/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interfaces that the installed headers may not know. */
#ifndef FUZZ_KERNEL_H
#define FUZZ_KERNEL_H

#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#ifndef PR_SET_COHORT
#define PR_SET_COHORT		0x434f4801
#define PR_COHORT_ZYGOTE	1
#endif
#ifndef MADV_COLD
#define MADV_COLD		20
#define MADV_PAGEOUT		21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

/* include/uapi/linux/region_order.h: refused by other kernels */
#define MADV_ORDER		0x4f00
#define MADV_ORDER_SHIFT	16
#define MADV_ORDER_COPY		0x02
#ifndef SYS_process_madvise
#define SYS_process_madvise	440
#endif

/* PAGEMAP_SCAN of linux/fs.h, under names of its own: headers of 6.7 have it. */
struct pm_scan {
	__u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
	__u64 category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct pm_scan_region {
	__u64 start, end, categories;
};
#define PM_SCAN			_IOWR('f', 16, struct pm_scan)

/* mm/gup_test.h, which is not among the installed headers. */
struct pin_longterm_test {
	__u64 addr;
	__u64 size;
	__u32 flags;
};
#define PIN_LONGTERM_TEST_START	_IOW('g', 7, struct pin_longterm_test)
#define PIN_LONGTERM_TEST_STOP	_IO('g', 8)
#define PIN_LONGTERM_TEST_READ	_IOW('g', 9, __u64)

#endif
