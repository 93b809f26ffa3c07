/* SPDX-License-Identifier: GPL-2.0-only */
/* userfaultfd, with what the installed header may not have. */
#ifndef COHORT_SELFTEST_UFFD_H
#define COHORT_SELFTEST_UFFD_H

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif
#ifndef UFFDIO_MOVE
struct uffdio_move {
	__u64 dst, src, len, mode;
	__s64 move;
};

#define UFFDIO_MOVE		_IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFD_FEATURE_MOVE	0x10000
#endif
#ifndef UFFDIO_POISON
struct uffdio_poison {
	struct uffdio_range range;
	__u64 mode;
	__s64 updated;
};

#define UFFDIO_POISON		_IOWR(UFFDIO, 0x08, struct uffdio_poison)
#define UFFD_FEATURE_POISON	(1 << 14)
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED	(1 << 13)
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC		(1 << 15)
#endif

#endif
