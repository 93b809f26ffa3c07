/* SPDX-License-Identifier: GPL-2.0-only */
/* Interfaces of the kernel that the installed headers may not have. */
#ifndef COHORT_SELFTEST_UAPI_H
#define COHORT_SELFTEST_UAPI_H

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* linux/prctl.h */
#ifndef PR_SET_COHORT
#define PR_SET_COHORT		0x434f4801
#define PR_GET_COHORT		0x434f4802
#define PR_COHORT_ZYGOTE	1
#define PR_COHORT_KEEP_EXEC	2
#define PR_COHORT_KEEP_IDS	4
#define PR_COHORT_GROUP		8
#define PR_COHORT_TLB		16
#endif
#ifndef PR_MCE_KILL
#define PR_MCE_KILL		33
#define PR_MCE_KILL_SET		1
#define PR_MCE_KILL_LATE	0
#define PR_MCE_KILL_EARLY	1
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA		0x53564d41
#define PR_SET_VMA_ANON_NAME	0
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE	67
#endif

/* linux/mman.h */
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
#ifndef MADV_HWPOISON
#define MADV_HWPOISON		100
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE		0x08
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE	0x100000
#endif
#ifndef MCL_ONFAULT
#define MCL_ONFAULT		4
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

/* linux/sched.h */
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME		0x00000080
#endif

/* asm-generic/unistd.h: numbers that all architectures have */
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup	425
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open		434
#endif
#ifndef __NR_process_madvise
#define __NR_process_madvise	440
#endif
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset	444
#endif
#ifndef __NR_landlock_restrict_self
#define __NR_landlock_restrict_self	446
#endif
#ifndef __NR_memfd_secret
#define __NR_memfd_secret	447
#endif
#ifndef __NR_process_mrelease
#define __NR_process_mrelease	448
#endif
#ifndef __NR_mseal
#define __NR_mseal		462
#endif

#endif
