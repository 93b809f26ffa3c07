/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * A page size per region of memory.
 *
 *	madvise(addr, len, MADV_ORDER | order << MADV_ORDER_SHIFT | policy);
 *	prctl(PR_SET_REGION_ORDER, kinds, the same advice, 0, 0);
 *
 * An order of n asks for pages of 2^n base pages; order 0 asks for base pages
 * whatever the machine's settings are.
 */
#ifndef _UAPI_LINUX_REGION_ORDER_H
#define _UAPI_LINUX_REGION_ORDER_H

#define MADV_ORDER		0x4f00	/* the lower half of the advice ... */
#define MADV_ORDER_SHIFT	16	/* ... and the order is the upper one */

/* policies; without one, take the largest page that is free now */
#define MADV_ORDER_WAIT		0x01	/* compact and reclaim until one is free */
#define MADV_ORDER_COPY		0x02	/* copy whole large pages on write */
#define MADV_ORDER_NONE		0x80	/* on its own: take the order back */

/* the order of regions mapped later, in this process and its children */
#define PR_SET_REGION_ORDER	0x434f4803
#define PR_GET_REGION_ORDER	0x434f4804
# define PR_ORDER_HEAP		0x01	/* brk, and a program's bss */
# define PR_ORDER_ANON		0x02	/* mmap of private anonymous memory */
# define PR_ORDER_FILE		0x04	/* mmap of files, and shared memory */
# define PR_ORDER_STACK		0x08	/* the stack, and mmap with MAP_STACK */

#endif
