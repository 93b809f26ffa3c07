/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interfaces that the installed headers may not have and only the fuzzer uses. */
#ifndef FUZZ_KERNEL_H
#define FUZZ_KERNEL_H

#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "../workloads/lib/uapi.h"

#ifndef SYS_process_madvise
#define SYS_process_madvise	440
#endif

/* With users of 32 bits: where that is another call, a kernel may lack the older one. */
#ifdef SYS_setresuid32
#define RAW_SETRESUID	SYS_setresuid32
#else
#define RAW_SETRESUID	SYS_setresuid
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
#define PIN_LONGTERM_TEST_READ	_IOW('g', 9, __u64)

#endif
