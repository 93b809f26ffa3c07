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
