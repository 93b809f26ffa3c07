/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what an architecture need not define in asm/cohort.h, which
 * includes this at its end. Macros, because none of what they use is declared yet.
 */
#ifndef _ASM_GENERIC_COHORT_H
#define _ASM_GENERIC_COHORT_H

/* True if this machine may share tables at all. */
#ifndef arch_cohort_supported
#define arch_cohort_supported()		true
#endif

/*
 * True if the entry above a table can deny writing to all of it. If it cannot,
 * arch_pmd_cohort_write() is always true.
 */
#ifndef arch_cohort_table_protect
#define arch_cohort_table_protect()	true
#endif

/* True if a present entry maps a page that is not counted: the zero page. */
#ifndef arch_cohort_pte_special
#define arch_cohort_pte_special(pte)	pte_special(pte)
#endif

/* True if an entry points to a last-level table that is shared by itself. */
#ifndef arch_pmd_cohort_last
#define arch_pmd_cohort_last(pmd)	(pmd_cohort(pmd) && !pmd_cohort_upper(pmd))
#endif

/* The table of a present entry; pmd_page() also knows entries that are not present. */
#ifndef arch_pmd_table_page
#define arch_pmd_table_page(pmd)	pmd_page(pmd)
#endif

/*
 * True if the pages around a fault's own are mapped young, and an old entry costs no
 * fault: see set_pte_range() in mm/memory.c.
 */
#ifndef arch_cohort_maps_young
#ifdef arch_wants_old_prefaulted_pte
#define arch_cohort_maps_young()	\
	(arch_has_hw_pte_young() && !arch_wants_old_prefaulted_pte())
#else
#define arch_cohort_maps_young()	arch_has_hw_pte_young()
#endif
#endif

/* Make an entry old that is present or empty; the table's lock is held. */
#ifndef arch_cohort_pte_mkold
#define arch_cohort_pte_mkold(vma, addr, ptep, readonly)		\
	do {								\
		if (pte_present(ptep_get(ptep)))			\
			ptep_test_and_clear_young(vma, addr, ptep);	\
	} while (0)
#endif

/* An entry without what it says to hardware that shares translations. */
#ifndef arch_pmd_cohort_plain
#define arch_pmd_cohort_plain(pmd)	(pmd)
#endif

/*
 * Let an entry of a process, whose table nobody else uses any more, allow writing again;
 * @dying if it will only throw the table away. What the entry has denied, it has denied to
 * all that TLBs hold of the table.
 */
#ifndef arch_cohort_take_back
#define arch_cohort_take_back(mm, pmdp, dying)	\
	((void)(mm), (void)(dying), arch_pmd_clear_cohort(pmdp))
#endif

/* Write a child's entry for a shared table, before the child runs. */
#ifndef arch_cohort_set_pmd
#define arch_cohort_set_pmd(pmdp, pmd)	set_pmd(pmdp, pmd)
#endif

/* Write the entry of a process that may run. */
#ifndef arch_cohort_enter_pmd
#define arch_cohort_enter_pmd(pmdp, pmd)	set_pmd(pmdp, pmd)
#endif

/* Write back an entry of a table, which nobody else has changed since it was read. */
#ifndef arch_cohort_set_pte
#define arch_cohort_set_pte(mm, addr, ptep, pte)	\
	((void)(mm), (void)(addr), set_pte(ptep, pte))
#endif

/* Write entries to a table that nothing points to yet. */
#ifndef arch_cohort_copy_ptes
#define arch_cohort_copy_ptes(mm, addr, ptep, pte, nr)	\
	set_ptes(mm, addr, ptep, pte, nr)
#endif

/* All wanted entries of a table are copied to another, which nothing points to yet. */
#ifndef arch_cohort_copied
#define arch_cohort_copied(src, dst)	((void)(src), (void)(dst))
#endif

/*
 * Synchronize the instruction caches with the page of an entry, before another process
 * uses the table: for architectures whose instruction caches do not see stores.
 */
#ifdef arch_cohort_sync_exec
#define ARCH_COHORT_SYNC_EXEC	1
#else
#define ARCH_COHORT_SYNC_EXEC	0
#define arch_cohort_sync_exec(pte)	((void)(pte))
#endif

/* What the architecture does before it frees a table, but for the destructor. */
#ifndef arch_cohort_release_pte
#define arch_cohort_release_pte(page)	((void)(page))
#endif
#ifndef arch_cohort_release_pmd
#define arch_cohort_release_pmd(page)	((void)(page))
#endif

#endif /* _ASM_GENERIC_COHORT_H */
