/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Shared page tables: what the kernel tells BabelFish's hardware (ISCA 2020).
 *
 * No processor has this hardware: a model of it reads the guest's memory. Everything is
 * little endian. The kernel writes, and the model only reads. See "BabelFish" in
 * Documentation/mm/cohort.rst.
 */
#ifndef _UAPI_LINUX_COHORT_BABELFISH_H
#define _UAPI_LINUX_COHORT_BABELFISH_H

#include <linux/types.h>

#define COHORT_BF_VERSION	1

/*
 * In an entry that points to a last-level table. The table's translations are shared: the
 * paper's O, inverted, as the entries of all other tables have 0 here.
 */
#define COHORT_BF_BIT_SHARED	10
/* And some member has a bit in the MaskPage: read it. */
#define COHORT_BF_BIT_ORPC	52

/*
 * A mark is the instruction nopl 0x434f0000 + code(%rax), which does nothing on any
 * processor. The hardware obeys those of the kernel alone, on the processor that executes
 * one.
 *
 * Shared entries are dropped by marks, by whatever flushes all (CR4.PGE, INVPCID of all, a
 * reset), and by INVLPG if the running process could use them. What drops shared entries
 * also drops upper-level entries that walk caches hold for the same pages, of all processes:
 * their S and ORPC may be old.
 */
#define COHORT_BF_MARK		0x434f0000
/* RAX: the physical address of what runs from here on, &struct cohort_bf_space; 0 if none */
#define COHORT_BF_MARK_SPACE	8
/* Drop shared entries of some pages: see COHORT_BF_PAGES() */
#define COHORT_BF_MARK_SHARED	9
/* RAX: a CCID. Drop all its shared entries. */
#define COHORT_BF_MARK_CCID	10

/* RAX of COHORT_BF_MARK_SHARED: 1 << @order pages from the group's address @addr on. */
#define COHORT_BF_PAGES(ccid, addr, order)	\
	((__u64)(ccid) << 52 | (addr) | (order))
/* Group addresses that such a number can hold. */
#define COHORT_BF_ADDR_END	(1ULL << 52)

#define COHORT_BF_SPACE_MAGIC	0x53464243	/* "CBFS" */
#define COHORT_BF_GROUP_MAGIC	0x47464243	/* "CBFG" */

#define COHORT_BF_SEGMENTS	7
#define COHORT_BF_PIDS		32
#define COHORT_BF_MASKS		512

/**
 * struct cohort_bf_segment - a part of a process's addresses (section IV-D)
 * @start: its first address
 * @end: the first address behind it
 * @diff: added to an address gives the group's address; 0 unless with ASLR-HW
 */
struct cohort_bf_segment {
	__u64 start;
	__u64 end;
	__u64 diff;
};

/**
 * struct cohort_bf_space - a process, aligned to its size
 * @magic: COHORT_BF_SPACE_MAGIC
 * @version: COHORT_BF_VERSION
 * @ccid: whose shared entries it may use; 0 if none
 * @nr_segments: how many segments are valid; other addresses are the group's
 * @pid: its number in pid_lists, which no other process has; not what getpid() says
 * @group: the physical address of its &struct cohort_bf_group
 * @segment: by what its addresses differ from the group's
 * @reserved: 0
 */
struct cohort_bf_space {
	__u32 magic;
	__u32 version;
	__u16 ccid;
	__u16 nr_segments;
	__u32 pid;
	__u64 group;
	struct cohort_bf_segment segment[COHORT_BF_SEGMENTS];
	__u64 reserved[8];
};

/**
 * struct cohort_bf_dir - a MaskPage's place in the directory
 * @base: the first group address of the gigabyte
 * @mask: the physical address of its &struct cohort_bf_mask
 */
struct cohort_bf_dir {
	__u64 base;
	__u64 mask;
};

/**
 * struct cohort_bf_group - the MaskPages of a CCID: one page
 * @magic: COHORT_BF_GROUP_MAGIC
 * @version: COHORT_BF_VERSION
 * @seq: odd while the rest changes; each change adds 2
 * @nr: how many entries of @dir are valid
 * @next: the physical address of the next page; always 0 in this version
 * @dir: in no order
 */
struct cohort_bf_group {
	__u32 magic;
	__u32 version;
	__u32 seq;
	__u32 nr;
	__u64 next;
	struct cohort_bf_dir dir[];
};

/* Its sharing has ended: more processes wrote than have places. */
#define COHORT_BF_OVERFLOW	1

/**
 * struct cohort_bf_mask - a MaskPage, for a gigabyte of group addresses (Figure 13)
 * @mask: PC bitmasks, one for each 2 MB; bit N is that of @pid_list[N]
 * @pid_list: &cohort_bf_space.pid of those who have a bit set, 0 for a free place
 * @nr: how many places are taken
 * @flags: COHORT_BF_OVERFLOW
 */
struct cohort_bf_mask {
	__u32 mask[COHORT_BF_MASKS];
	__u32 pid_list[COHORT_BF_PIDS];
	__u32 nr;
	__u32 flags;
};

#endif /* _UAPI_LINUX_COHORT_BABELFISH_H */
