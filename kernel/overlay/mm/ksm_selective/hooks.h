/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: what mm/ksm.c calls. Each call is a branch that is not taken
 * while the policy is off. The code is in ksmd.c.
 */
#ifndef _MM_KSM_SELECTIVE_HOOKS_H
#define _MM_KSM_SELECTIVE_HOOKS_H

#ifdef CONFIG_KSM_SELECTIVE

/* Inline these into stock's loops as stock does, although ours call them too. */
#define __selective_inline	__always_inline

/*
 * noinline, because inlined they take registers from stock's loops: two more
 * instructions in a hundred per page scanned.
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
static noinline bool selective_do_rest(void);
static void selective_ksmd_starts(void);

/* Take the item out of the index if it is there. */
static inline void selective_unindex(struct ksm_rmap_item *rmap_item)
{
	if (ksm_selective())
		selective_do_unindex(rmap_item);
}

/* The item's page was merged with a KSM page or with the zero page. */
static inline void selective_merged(struct ksm_rmap_item *rmap_item)
{
	if (ksm_selective())
		selective_do_merged(rmap_item);
}

/* As memcmp_pages(), in fewer instructions. */
static inline int selective_memcmp_pages(struct page *a, struct page *b)
{
	return ksm_selective() ? selective_do_memcmp_pages(a, b) :
				 memcmp_pages(a, b);
}

/* True if a page's checksum is not needed before the stable tree is searched. */
static inline bool selective_sums_later(void)
{
	return ksm_selective() && selective_do_sums_later();
}

/* The process has its first mergeable memory: look at its oom_score_adj now. */
static inline void selective_enter(struct mm_struct *mm)
{
	/* A forked child is active, and exec looks at it later. */
	if (ksm_selective() && current->mm == mm)
		ksm_selective_do_oom(current);
}

/* Everything is being unmerged. */
static inline void selective_unmerge(void)
{
	if (ksm_selective())
		selective_forget_all();
}

static inline bool selective_should_run(void)
{
	return !ksm_selective() || selective_has_work();
}

/* True if ksmd has scanned since it last slept: it then sleeps also if somebody wakes it. */
static inline bool selective_should_rest(void)
{
	return ksm_selective() && selective_do_rest();
}

/* Wake ksmd to free the slot of an exited process. */
static inline void selective_exit(void)
{
	if (ksm_selective())
		ksm_selective_poke();
}

#else

#define __selective_inline
#define selective_next_rmap_item(...)	NULL
#define selective_search_insert(...)	NULL
#define selective_unindex(...)		do { } while (0)
#define selective_merged(...)		do { } while (0)
#define selective_enter(...)		do { } while (0)
#define selective_unmerge(...)		do { } while (0)
#define selective_exit(...)		do { } while (0)
#define selective_ksmd_starts(...)	do { } while (0)
#define selective_memcmp_pages(a, b)	memcmp_pages(a, b)
#define selective_sums_later(...)	false
#define selective_should_run(...)	true
#define selective_should_rest(...)	false

#endif
#endif
