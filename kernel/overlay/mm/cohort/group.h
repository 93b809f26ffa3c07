/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: groups and open tables.
 */
#ifndef _MM_COHORT_GROUP_H
#define _MM_COHORT_GROUP_H

#include <linux/refcount.h>
#include <linux/rhashtable-types.h>
#include <linux/uidgid.h>

#include "internal.h"

struct cohort_arena;
struct mem_cgroup;
struct user_namespace;

/* What a label says of its group. */
#define COHORT_GROUP_KEEP_IDS	BIT(0)	/* members may have different users */
#define COHORT_GROUP_CONGRUENT	BIT(1)	/* files lie alike in 2 MB */
#define COHORT_GROUP_LABEL	BIT(2)	/* a cgroup's label names it, not prctl() */
#define COHORT_GROUP_PLACES	BIT(3)	/* and beside each other */
#define COHORT_GROUP_EQUAL	BIT(4)	/* and at the same addresses */

/**
 * struct cohort_key - what distinguishes a group from others
 * @name: as in the label; empty if all processes of a user are a group
 * @scope: the root of the cgroup namespace in which the label was written, or in which
 *	   the program was executed
 * @flags: COHORT_GROUP_*
 * @ns: the user namespace of its members
 * @uid: their user, invalid if they may have different ones
 */
struct cohort_key {
	char name[COHORT_NAME];
	u64 scope;
	unsigned int flags;
	struct user_namespace *ns;
	kuid_t uid;
};

/**
 * struct cohort_layout - where a program and its libraries begin
 * @base: mmap's base; 0 if nobody has one yet
 * @stack: the limit of the stack that was left room above it
 * @image: where a program that may lie anywhere is placed; 0 likewise
 *
 * Chosen at random by the first member of a group, and gone with its last.
 */
struct cohort_layout {
	unsigned long base;
	unsigned long stack;
	unsigned long image;
};

/**
 * struct cohort_group - processes that may join each other's tables
 * @members: how many address spaces are in it
 * @id: its number, for /proc
 * @key: what distinguishes it
 * @arena: where its images lie, NULL if it has no places
 * @layout: the layout of its first member, for BabelFish
 * @node: in the table of all groups
 * @rcu: for those who look at it while the process may leave it
 *
 * Address spaces hold references; a table needs none, as its users are members.
 */
struct cohort_group {
	refcount_t members;
	u64 id;
	struct cohort_key key;
	struct cohort_arena *arena;
#ifdef CONFIG_COHORT_BABELFISH
	struct cohort_layout layout;
#endif
	struct rhash_head node;
	struct rcu_head rcu;
};

/* To join is optional: it is worth no reclaim without end, and nobody is killed for it. */
#define GFP_COHORT_JOIN							\
	(GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)

/* A table with more pieces has mostly private memory beside them. */
#define COHORT_PIECES	4

/* Fewer pages of files without code often come and go: not worth a record. */
#define COHORT_JOIN_MIN	64U

/**
 * struct cohort_piece - a run of pages in a table's range, all mapped alike
 * @first: its first page, counted from the start of the range
 * @end: the page behind its last
 * @mapping: the pages of which file or shared memory
 * @pgoff: which page of it is the first
 * @flags: flags of the region, those that decide what an entry may hold
 * @prot: the protection of entries
 * @ops: what serves faults
 */
struct cohort_piece {
	u32 first;
	u32 end;
	struct address_space *mapping;
	pgoff_t pgoff;
	vm_flags_t flags;
	pgprot_t prot;
	const struct vm_operations_struct *ops;
};

/**
 * struct cohort_open - what all users of an open table have in its range
 * @node: in the index, under the table's lock and that of the bucket
 * @ct: the table
 * @group: whose members may join
 * @upper: it is a PMD table
 * @hash: where in the index
 * @nr: how many pieces
 * @pieces: the pieces in order; what lies between them is not mapped (invariant 1)
 * @entry: what an entry that points to the table holds, unless it is a PMD table
 * @rcu: for those who search the index
 *
 * No reference to a file is held: each user of the table maps it, and the table leaves
 * the index before its last user changes anything.
 */
struct cohort_open {
	struct hlist_node node;
	struct cohort_table *ct;
	struct cohort_group *group;
	bool upper;
	u32 hash;
	unsigned int nr;
	struct cohort_piece pieces[COHORT_PIECES];
	pmd_t entry;
	struct rcu_head rcu;
};

/* The files of a table whose reverse maps are locked. */
struct cohort_files {
	struct address_space *mapping[COHORT_PIECES];
	unsigned int nr;
};

bool cohort_lock_files(const struct cohort_open *open,
		       struct cohort_files *files);
void cohort_unlock_files(struct cohort_files *files);
bool cohort_same_pieces(const struct cohort_open *a,
			const struct cohort_open *b);
bool cohort_region_joins(struct vm_area_struct *vma);
bool cohort_may_join(struct mm_struct *mm);
struct cohort_open *cohort_open_alloc(struct cohort_group *group);
void cohort_open_free(struct cohort_open *open);
bool cohort_describe(struct cohort_open *open, struct mm_struct *mm,
		     unsigned long base,
		     bool (*joins)(struct vm_area_struct *vma));
bool cohort_has_open(const struct cohort_open *like);
struct cohort_table *cohort_find_open(const struct cohort_open *like);
void cohort_publish_open(struct cohort_table *ct, struct cohort_open *open);

unsigned long cohort_mmap_end(struct mm_struct *mm);
#ifdef CONFIG_COHORT_BABELFISH
void cohort_use_layout(struct mm_struct *mm);
unsigned long cohort_use_image(struct mm_struct *mm, unsigned long image,
			       const void *headers, unsigned int nr,
			       size_t size);
#else
static inline void cohort_use_layout(struct mm_struct *mm) { }

static inline unsigned long cohort_use_image(struct mm_struct *mm,
					     unsigned long image,
					     const void *headers,
					     unsigned int nr, size_t size)
{
	return image;
}
#endif

struct cohort_arena *cohort_arena_alloc(void);
void cohort_arena_free(struct cohort_arena *arena);

#endif /* _MM_COHORT_GROUP_H */
