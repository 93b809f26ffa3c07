/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interfaces of the kernel that the installed headers may not have. */
#ifndef LIB_UAPI_H
#define LIB_UAPI_H

#include <sys/mman.h>

#include "../../../kernel/overlay/include/uapi/linux/region_order.h"

/* include/uapi/linux/prctl.h of a kernel with Cohort */
#ifndef PR_SET_COHORT
#define PR_SET_COHORT		0x434f4801
#define PR_GET_COHORT		0x434f4802
#define PR_COHORT_ZYGOTE	1
#define PR_COHORT_KEEP_EXEC	2
#define PR_COHORT_KEEP_IDS	4
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

#endif
