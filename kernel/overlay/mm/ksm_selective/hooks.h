/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: what mm/ksm.c calls. Each call is a branch that is not
 * taken as long as the policy is off. What is behind it is in ksmd.c.
 */
#ifndef _MM_KSM_SELECTIVE_HOOKS_H
#define _MM_KSM_SELECTIVE_HOOKS_H

#ifdef CONFIG_KSM_SELECTIVE

/*
 * None of them inline: they would take registers from stock's loops that call
 * them, at some two instructions of a hundred for each page scanned.
 */
static noinline struct ksm_rmap_item *
selective_next_rmap_item(struct page **page);
static noinline struct ksm_rmap_item *
selective_search_insert(struct ksm_rmap_item *rmap_item, struct page *page,
			struct page **other_pagep);
static noinline void selective_do_unindex(struct ksm_rmap_item *rmap_item);
static noinline void selective_do_merged(struct ksm_rmap_item *rmap_item);
static noinline bool selective_do_sums_later(void);
static noinline int selective_do_memcmp_pages(struct page *a, struct page *b);
static void selective_forget_all(void);
static noinline bool selective_has_work(void);
static void selective_ksmd_starts(void);

/* The item leaves the tree, or the index, that it is in. */
static inline void selective_unindex(struct ksm_rmap_item *rmap_item)
{
	if (ksm_selective())
		selective_do_unindex(rmap_item);
}

/* What the item stands for is mapped to a page of KSM's, or of zeros, now. */
static inline void selective_merged(struct ksm_rmap_item *rmap_item)
{
	if (ksm_selective())
		selective_do_merged(rmap_item);
}

/* What memcmp_pages() does, in fewer instructions. */
static inline int selective_memcmp_pages(struct page *a, struct page *b)
{
	return ksm_selective() ? selective_do_memcmp_pages(a, b) :
				 memcmp_pages(a, b);
}

/* Is the checksum of a page of no use before the stable tree was searched? */
static inline bool selective_sums_later(void)
{
	return ksm_selective() && selective_do_sums_later();
}

/* Something of it may be merged from here on; its oom_score_adj may be older. */
static inline void selective_enter(struct mm_struct *mm)
{
	/* A fork is active. Who executes a program is looked at when it has it. */
	if (ksm_selective() && current->mm == mm)
		ksm_selective_do_oom(current);
}

/* All that is merged is to be unmerged. */
static inline void selective_unmerge(void)
{
	if (ksm_selective())
		selective_forget_all();
}

static inline bool selective_should_run(void)
{
	return !ksm_selective() || selective_has_work();
}

/* There is a slot that only ksmd can free. */
static inline void selective_exit(void)
{
	if (ksm_selective())
		ksm_selective_poke();
}

#else

static inline struct ksm_rmap_item *selective_next_rmap_item(struct page **page)
{
	return NULL;
}

static inline struct ksm_rmap_item *
selective_search_insert(struct ksm_rmap_item *rmap_item, struct page *page,
			struct page **other_pagep)
{
	return NULL;
}

static inline void selective_unindex(struct ksm_rmap_item *rmap_item) {}
static inline void selective_merged(struct ksm_rmap_item *rmap_item) {}
static inline void selective_enter(struct mm_struct *mm) {}
static inline void selective_unmerge(void) {}
static inline void selective_exit(void) {}
static inline void selective_ksmd_starts(void) {}

static inline int selective_memcmp_pages(struct page *a, struct page *b)
{
	return memcmp_pages(a, b);
}

static inline bool selective_sums_later(void)
{
	return false;
}

static inline bool selective_should_run(void)
{
	return true;
}

#endif
#endif
