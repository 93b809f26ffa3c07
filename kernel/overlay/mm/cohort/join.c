// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: joining a table at a page fault.
 *
 * The first fault in a range without a table looks for one of its group. A table is
 * made open, or never is: it is in the index from its first entry on, and all who join
 * have what its first user had there. So nobody's entries are changed when another joins.
 * It leaves the index when a user takes it back, and is not opened again.
 *
 * Users may map an open table at different addresses: an entry holds no address. What
 * must be equal is, for each page of the range, which page of which file an entry may
 * hold and how (invariant 1): the table's signature. A table is a candidate if pages of
 * files or of shared memory alone lie in its range. It then has no anonymous page, and
 * gets none: a fault that would map one unshares it first, as with any shared table
 * (invariant 6).
 *
 * Joining holds the mmap_lock, for reading, also if one region covers the range. Whoever
 * holds it for writing can rely on nobody joining meanwhile. Who holds it for reading
 * cannot: a range without a table may get a shared one. See cohort_lost_table().
 *
 * Who joins is on the list of users before its entry points to the table, both under the
 * table's lock. So a change of an entry reaches it by its flush, or has happened before
 * (invariant 4). And it joins while no walk of the reverse map is under way, see
 * cohort_lock_files(). No other process's lock is taken, and none of its regions read.
 */
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/jhash.h>
#include <linux/memcontrol.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/pgalloc.h>
#include <linux/rculist.h>
#include <linux/region_order.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>

#include <asm/cohort_tlb.h>

#include <trace/events/cohort.h>

#include "group.h"

#define INDEX_BITS	12
/* Look at so many records, and so many tables of one file, at most (invariant 13). */
#define INDEX_RECORDS	64
#define INDEX_DEPTH	8

static struct {
	struct hlist_head head;
	spinlock_t lock;	/* nested in a table's lock; for who changes the list */
} open_tables[1 << INDEX_BITS];

static struct kmem_cache *open_cache __ro_after_init;

/* Flags of a region that say nothing about what its entries may hold. */
#define NO_MATTER							\
	(VM_SOFTDIRTY | VM_ACCOUNT | VM_NORESERVE | VM_SEQ_READ |	\
	 VM_RAND_READ | VM_DONTDUMP | VM_HUGEPAGE | VM_NOHUGEPAGE |	\
	 VM_MERGEABLE)

/*
 * A store to a shared mapping of a file may go through an entry that another process made
 * writable, by its own open file. That is right where a file system keeps nothing about a
 * writer in the open file: where it is known to.
 */
static bool writers_alike(struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED) || !(vma->vm_flags & VM_MAYWRITE) ||
	    shmem_file(vma->vm_file))
		return true;
	switch (vma->vm_file->f_mapping->host->i_sb->s_magic) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/* True if tables of a region may be joined: its pages are those of a page cache. */
bool cohort_region_joins(struct vm_area_struct *vma)
{
	return vma->vm_file && vma->vm_ops &&
	       vma->vm_ops->map_pages == filemap_map_pages &&
	       cohort_vma_shareable(vma->vm_flags) && !vma_is_dax(vma) &&
	       !is_vm_hugetlb_page(vma) && !region_has_order(vma->vm_flags) &&
	       writers_alike(vma);
}

static void describe_piece(struct cohort_piece *p, struct vm_area_struct *vma,
			   unsigned long base, unsigned long size)
{
	unsigned long start = max(vma->vm_start, base);
	unsigned long end = min(vma->vm_end, base + size);

	p->first = (start - base) >> PAGE_SHIFT;
	p->end = (end - base) >> PAGE_SHIFT;
	p->mapping = vma->vm_file->f_mapping;
	p->pgoff = linear_page_index(vma, start);
	p->flags = vma->vm_flags & ~NO_MATTER;
	p->prot = vma->vm_page_prot;
	p->ops = vma->vm_ops;
}

/* True if two pieces have the same attributes. */
static bool alike(const struct cohort_piece *a, const struct cohort_piece *b)
{
	return a->mapping == b->mapping && a->flags == b->flags &&
	       pgprot_val(a->prot) == pgprot_val(b->prot) && a->ops == b->ops;
}

/* Regions that are alike and follow each other are one piece. */
static bool continues(const struct cohort_piece *a,
		      const struct cohort_piece *b)
{
	return a->end == b->first && a->pgoff + (a->end - a->first) == b->pgoff &&
	       alike(a, b);
}

bool cohort_same_pieces(const struct cohort_open *a,
			const struct cohort_open *b)
{
	unsigned int i;

	if (a->nr != b->nr || a->upper != b->upper)
		return false;
	for (i = 0; i < a->nr; i++) {
		const struct cohort_piece *p = &a->pieces[i];
		const struct cohort_piece *q = &b->pieces[i];

		if (p->first != q->first || p->end != q->end ||
		    p->pgoff != q->pgoff || !alike(p, q))
			return false;
	}
	return true;
}

/* True if the page cache has a huge page for the range: it is to be mapped as such. */
static bool has_huge_page(const struct cohort_open *open)
{
	const struct cohort_piece *p = &open->pieces[0];
	struct folio *folio;
	bool huge;

	if (!IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) ||
	    p->end - p->first != PTRS_PER_PTE ||
	    !IS_ALIGNED(p->pgoff, PTRS_PER_PTE))
		return false;
	folio = filemap_get_folio(p->mapping, p->pgoff);
	if (IS_ERR(folio))
		return false;
	huge = folio_test_pmd_mappable(folio);
	folio_put(folio);
	return huge;
}

/**
 * cohort_describe() - write down what lies in the range of a table
 * @open: filled in; whether it is a PMD table is set
 * @mm: the process; its mmap_lock is held
 * @base: the first address of the range
 * @joins: whether tables of a region may be joined
 *
 * Return: false if such a table is not to be joined.
 */
bool cohort_describe(struct cohort_open *open, struct mm_struct *mm,
		     unsigned long base,
		     bool (*joins)(struct vm_area_struct *vma))
{
	unsigned long size = open->upper ? PUD_SIZE : PMD_SIZE;
	VMA_ITERATOR(vmi, mm, base);
	struct vm_area_struct *vma;

	open->nr = 0;
	for_each_vma_range(vmi, vma, base + size) {
		struct cohort_piece p;

		if (!joins(vma))
			return false;
		describe_piece(&p, vma, base, size);
		if (open->nr && continues(&open->pieces[open->nr - 1], &p)) {
			open->pieces[open->nr - 1].end = p.end;
			continue;
		}
		if (open->nr == COHORT_PIECES)
			return false;
		open->pieces[open->nr++] = p;
	}
	if (!open->nr)
		return false;
	open->hash = hash_32(jhash_3words(hash_ptr(open->group, 32),
					  hash_ptr(open->pieces[0].mapping, 32),
					  open->pieces[0].pgoff -
					  open->pieces[0].first, open->upper),
			     INDEX_BITS);
	return true;
}

/* True if the pieces of a last-level table are worth a record. */
static bool worth_it(const struct cohort_open *open, bool *cow)
{
	unsigned int pages = 0, i;
	bool code = false;

	*cow = false;
	for (i = 0; i < open->nr; i++) {
		const struct cohort_piece *p = &open->pieces[i];

		pages += p->end - p->first;
		code |= !!(p->flags & VM_EXEC);
		*cow |= is_cow_mapping(p->flags);
	}
	return (pages >= COHORT_JOIN_MIN || code) && !has_huge_page(open);
}

/*
 * An open table with these pieces, its lock held if @lock says so; NULL if there is none.
 * The caller holds the RCU read lock, which keeps tables, their locks and records.
 */
static struct cohort_table *search(const struct cohort_open *like, bool lock)
{
	unsigned int records = 0, depth = 0;
	struct cohort_open *open;

	hlist_for_each_entry_rcu(open, &open_tables[like->hash].head, node) {
		struct cohort_table *ct = open->ct;

		if (records++ == INDEX_RECORDS)
			break;
		if (open->group != like->group ||
		    open->pieces[0].mapping != like->pieces[0].mapping)
			continue;
		if (depth++ == INDEX_DEPTH)
			break;
		if (!cohort_same_pieces(open, like))
			continue;
		if (!lock)
			return ct;
		spin_lock_nested(cohort_table_lock(ct), SINGLE_DEPTH_NESTING);
		/* If not, it was taken back since: then it is nobody's to join. */
		if (ct->open == open) {
			/* The caller's from here on: sparse does not follow it. */
			__release(cohort_table_lock(ct));
			return ct;
		}
		spin_unlock(cohort_table_lock(ct));
	}
	return NULL;
}

/**
 * cohort_find_open() - find an open table to join
 * @like: its pieces and group
 *
 * The caller holds the lock of its entry, those of the files (cohort_lock_files()) and
 * the RCU read lock.
 *
 * Return: the table with its lock held; NULL if there is none.
 */
struct cohort_table *cohort_find_open(const struct cohort_open *like)
{
	return search(like, true);
}

/* True if there is such a table, at this moment. */
bool cohort_has_open(const struct cohort_open *like)
{
	bool found;

	rcu_read_lock();
	found = search(like, false);
	rcu_read_unlock();
	return found;
}

/**
 * cohort_lock_files() - keep the reverse map's walkers away from the files of a table
 * @open: the table's pieces
 * @files: filled in for cohort_unlock_files()
 *
 * A mapping of a page that is there already appears with the process that joins. A walker
 * that has passed this process's region, and finds that the one through which it would
 * have come to the table has left it meanwhile, would miss that mapping. So nobody joins
 * while a walk of one of the files is under way. A table is left at any time: that only
 * takes mappings away, or moves them to a child's region behind its parent's.
 *
 * Return: false, with no lock held, if a walk is under way.
 */
bool cohort_lock_files(const struct cohort_open *open,
		       struct cohort_files *files)
{
	unsigned int i, j;

	files->nr = 0;
	for (i = 0; i < open->nr; i++) {
		struct address_space *mapping = open->pieces[i].mapping;

		for (j = 0; j < files->nr; j++)
			if (files->mapping[j] == mapping)
				break;
		if (j < files->nr)
			continue;
		if (!i_mmap_trylock_write(mapping)) {
			cohort_unlock_files(files);
			return false;
		}
		files->mapping[files->nr++] = mapping;
	}
	return true;
}

void cohort_unlock_files(struct cohort_files *files)
{
	while (files->nr)
		i_mmap_unlock_write(files->mapping[--files->nr]);
}

/**
 * cohort_publish_open() - let others join a table
 * @ct: the table, with its first user; its lock is held
 * @open: what its users have in its range
 */
void cohort_publish_open(struct cohort_table *ct, struct cohort_open *open)
{
	open->ct = ct;
	ct->open = open;
	if (!open->upper)
		count_vm_event(COHORT_PTP_OPENED);
	spin_lock(&open_tables[open->hash].lock);
	hlist_add_head_rcu(&open->node, &open_tables[open->hash].head);
	spin_unlock(&open_tables[open->hash].lock);
}

/* Nobody joins a table any more, whose lock is held. */
void __cohort_withdraw(struct cohort_table *ct)
{
	struct cohort_open *open = ct->open;

	if (likely(!open))
		return;
	ct->open = NULL;
	spin_lock(&open_tables[open->hash].lock);
	hlist_del_rcu(&open->node);
	spin_unlock(&open_tables[open->hash].lock);
	if (!open->upper)
		count_vm_event(COHORT_PTP_WITHDRAWN);
	kfree_rcu(open, rcu);
}

/**
 * struct joiner - what a fault brings to the table that it joins or opens
 * @mm: the process
 * @pmd: its empty entry
 * @addr: the first address of the range
 * @run: its record for the range
 * @like: what it has there
 * @open: the same, for the table that it opens
 * @ct: the record of that table
 * @table: that table; NULL if used
 * @cow: private memory is in the range
 */
struct joiner {
	struct mm_struct *mm;
	pmd_t *pmd;
	unsigned long addr;
	struct cohort_run *run;
	struct cohort_open like;
	struct cohort_open *open;
	struct cohort_table *ct;
	pgtable_t table;
	bool cow;
};

/* The process's place for the table. */
static struct cohort_sharer *place(struct joiner *a)
{
	return &a->run->sharers[cohort_run_index(a->addr)];
}

/* List the process as a user and let its entry point to the table: both are locked. */
static void __use(struct joiner *a, struct cohort_table *ct, pmd_t entry)
{
	unsigned int i = cohort_run_index(a->addr);
	struct cohort_run *run = a->run;

	run->pmd = a->pmd - i * COHORT_PMD_STEP;
	__cohort_join(ct, &run->sharers[i]);
	run->used |= BIT(i);
	atomic_inc(&a->mm->cohort.nr_tables);
	arch_cohort_enter_pmd(a->pmd, entry);
	if (cohort_bf_active())
		__cohort_bf_join(ct, &run->sharers[i]);
}

/*
 * Synchronize code that was written to a file after the table's entries were made. Without
 * the table this process would fault, and the fault would do it.
 */
static void sync_exec(struct cohort_table *ct)
{
	pte_t *ptep = ptdesc_address(ct->pt);

	for (int i = 0; i < PTRS_PER_PTE; i++)
		arch_cohort_sync_exec(ptep_get(ptep + i));
}

/*
 * Join a table that is there. Returns false if there is none, or if it cannot be joined
 * now; true if the entry is not empty any more.
 */
static bool try_join(struct joiner *a)
{
	struct cohort_mm *cohort = &a->mm->cohort;
	struct cohort_table *ct = NULL;
	struct cohort_files files;
	spinlock_t *pml;
	bool done;

	if (!cohort_lock_files(&a->like, &files))
		return false;
	pml = pmd_lock(a->mm, a->pmd);
	done = !pmd_none(*a->pmd);
	rcu_read_lock();
	if (!done)
		ct = cohort_find_open(&a->like);
	if (ct) {
		__acquire(cohort_table_lock(ct));
		if (a->addr != ct->addr)
			ct->spread = true;
		if (ARCH_COHORT_SYNC_EXEC)
			sync_exec(ct);
		__use(a, ct, ct->open->entry);
		atomic_long_inc(&cohort->borrowed);
		__cohort_count(ct);
		__cohort_see(ct, place(a));
		trace_cohort_join(a->mm, a->addr, ct->addr, ct->users);
		spin_unlock(ptlock_ptr(ct->pt));
		count_vm_event(COHORT_PTP_JOINED);
		done = true;
	}
	rcu_read_unlock();
	spin_unlock(pml);
	cohort_unlock_files(&files);
	return done;
}

/* The process brings a table of its own that others may join, if its entry is empty. */
static void open_table(struct joiner *a)
{
	struct ptdesc *pt = page_ptdesc(a->table);
	struct cohort_open *open = a->open;
	pmd_t entry[COHORT_PMD_STEP] = {};
	struct cohort_table *ct = a->ct;
	spinlock_t *pml;

	pml = pmd_lock(a->mm, a->pmd);
	if (!pmd_none(*a->pmd))
		goto unlock;
	pmd_populate(a->mm, entry, a->table);
	arch_pmd_set_cohort(entry,
			    a->cow && cohort_protect == COHORT_PROTECT_TABLE);
	open->entry = *entry;
	ct->pt = pt;
	ct->addr = a->addr;
	ct->owner = a->mm;
	ct->charged = place(a);
	/* It has no entry yet, so this is exact. */
	ct->counted = true;
	/* Nor has it any page that could be exclusive. */
	ct->copied = true;
	mm_inc_nr_ptes(a->mm);
	cohort_count_table();

	spin_lock_nested(ptlock_ptr(pt), SINGLE_DEPTH_NESTING);
	cohort_mark_table(pt, ct);
	/* As in pmd_install(): the table before the pointer to it. */
	smp_wmb();
	__use(a, ct, open->entry);
	cohort_publish_open(ct, open);
	spin_unlock(ptlock_ptr(pt));
	a->ct = NULL;
	a->open = NULL;
	a->table = NULL;
unlock:
	spin_unlock(pml);
}

/* True if a member of a group may join tables now. */
bool cohort_may_join(struct mm_struct *mm)
{
	return READ_ONCE(cohort_mode) != COHORT_NEVER &&
	       READ_ONCE(cohort_join) != COHORT_JOIN_NEVER &&
	       !mm_has_notifiers(mm) && !READ_ONCE(mm->cohort.leaving) &&
	       !READ_ONCE(mm->cohort.apart) &&
	       !cohort_tlb_held(mm);
}

/* True if a fault may bring a huge page for the whole range, which a table keeps out. */
static bool wants_huge_page(struct vm_area_struct *vma, unsigned long addr)
{
	return IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) &&
	       (shmem_file(vma->vm_file) || vma->vm_flags & VM_HUGEPAGE) &&
	       thp_vma_suitable_order(vma, addr, PMD_ORDER) &&
	       thp_vma_allowable_order(vma, vma->vm_flags, TVA_ENFORCE_SYSFS,
				       PMD_ORDER);
}

/* Refusals that need no look at other regions. */
static bool may_attach(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;

	/* A store to private memory would take the table back at once. */
	if ((vmf->flags & (FAULT_FLAG_WRITE | FAULT_FLAG_UNSHARE)) &&
	    is_cow_mapping(vma->vm_flags))
		return false;
	return cohort_region_joins(vma) && cohort_may_join(vma->vm_mm) &&
	       !wants_huge_page(vma, vmf->address) &&
	       !cohort_pmd_shared(vma->vm_mm, vmf->pmd);
}

struct cohort_open *cohort_open_alloc(struct cohort_group *group)
{
	struct cohort_open *open;

	open = kmem_cache_zalloc(open_cache, GFP_COHORT_JOIN);
	if (open)
		open->group = group;
	return open;
}

void cohort_open_free(struct cohort_open *open)
{
	if (open)
		kmem_cache_free(open_cache, open);
}

/* Allocate what open_table() needs. */
static bool prepare_join(struct joiner *a)
{
	a->open = cohort_open_alloc(a->like.group);
	a->ct = a->open ? cohort_table_alloc(GFP_COHORT_JOIN) : NULL;
	a->table = a->ct ? __pte_alloc_one(a->mm, GFP_PGTABLE_USER |
					   __GFP_NORETRY | __GFP_NOWARN) : NULL;
	if (!a->table)
		return false;
	*a->open = a->like;
	return true;
}

/*
 * Join or open a table. The mmap_lock is held. False if there is none to be had, also for
 * lack of memory: then stock's code goes on, and fails if it must.
 */
static bool join_or_open(struct joiner *a)
{
	bool done = false;

	if (!cohort_describe(&a->like, a->mm, a->addr, cohort_region_joins) ||
	    !worth_it(&a->like, &a->cow))
		return false;
	a->run = cohort_run_make_shared(a->mm, a->addr, GFP_COHORT_JOIN);
	if (!a->run)
		return false;
	if (cohort_has_open(&a->like) && try_join(a))
		return true;
	if (prepare_join(a)) {
		open_table(a);
		done = true;
	}
	if (a->table)
		pte_free(a->mm, a->table);
	cohort_table_free(a->ct);
	cohort_open_free(a->open);
	return done;
}

/**
 * cohort_do_attach() - see cohort_attach()
 * @vmf: the fault
 *
 * Return: 0, VM_FAULT_FALLBACK or VM_FAULT_RETRY.
 */
vm_fault_t cohort_do_attach(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct joiner a = {
		.mm = vma->vm_mm,
		.pmd = vmf->pmd,
		.addr = vmf->address & PMD_MASK,
	};
	bool locked = vmf->flags & FAULT_FLAG_VMA_LOCK;
	vm_fault_t ret = 0;

	if (!may_attach(vmf))
		return 0;
	/* As in __vmf_anon_prepare(): other regions of the range must not change. */
	if (locked && !mmap_read_trylock(a.mm)) {
		vma_end_read(vma);
		return VM_FAULT_RETRY;
	}
	/* It was read without the lock before. */
	a.like.group = a.mm->cohort.group;
	if (a.like.group && join_or_open(&a))
		ret = VM_FAULT_FALLBACK;
	if (locked)
		mmap_read_unlock(a.mm);
	return ret;
}

static int __init cohort_join_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(open_tables); i++)
		spin_lock_init(&open_tables[i].lock);
	open_cache = KMEM_CACHE(cohort_open, SLAB_PANIC | SLAB_ACCOUNT);
	return 0;
}
core_initcall(cohort_join_init);
