// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region: memory of files, through the page cache.
 *
 * A fault that finds no page in the cache has readahead build folios of the
 * order that the region asks for, aligned in the file and thereby in the region:
 * where the two differ, or the region or the file ends, or a page is in the cache
 * already, smaller ones fit. What is in the cache is used as it is.
 *
 * The window is mainline's, rounded to whole blocks of the order. The state of
 * the open file (file->f_ra) is read, not written, so that others who read it
 * see nothing of the blocks; but for its count of misses, which is mainline's. A
 * mark on a folio, as mainline's, starts the next window.
 *
 * Files of tmpfs, and shared memory, have no readahead: shmem.c asks here for
 * the orders, and allocates by the policy of the region.
 */
#include <linux/blk-cgroup.h>
#include <linux/log2.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/region_order.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>

#include "../internal.h"
#include "file.h"

/* Misses after which a fault reads its own block alone: MMAP_LOTSAMISS */
#define MANY_MISSES	100

/* One readahead. */
struct window {
	pgoff_t start;
	pgoff_t end;		/* the first page behind it */
	pgoff_t mark;		/* the block that starts the next one, or end */
	int order;		/* of the largest folios */
	bool waits;		/* the region would wait for those: no smaller ones */
	struct folio *folio;	/* one that was waited for ... */
	pgoff_t at;		/* ... and the place of the block with the fault */
};

/**
 * region_order_file() - can its pages be had by order?
 * @file: what is mapped
 *
 * Return: if it is read through the page cache by readahead, or is shmem's.
 * File systems that have no large folios are among them; their regions fall
 * back to base pages.
 */
bool region_order_file(struct file *file)
{
	struct address_space *mapping;

	if (!file)
		return false;
	mapping = file->f_mapping;
	return !IS_DAX(mapping->host) &&
	       (shmem_mapping(mapping) || mapping->a_ops->readahead);
}

/*
 * The largest order that fits between the file and the region: a folio has the
 * same alignment in both.
 */
static int largest_order(struct vm_area_struct *vma,
			 struct address_space *mapping)
{
	unsigned long diff = (vma->vm_start >> PAGE_SHIFT) - vma->vm_pgoff;
	int order = region_order(vma->vm_flags);

	order = min_t(int, order, mapping_max_folio_order(mapping));
	if (diff)
		order = min_t(int, order, __ffs(diff));
	return max_t(int, order, mapping_min_folio_order(mapping));
}

static bool has_page(struct address_space *mapping, pgoff_t index,
		     unsigned long nr)
{
	return filemap_range_has_page(mapping, (loff_t)index << PAGE_SHIFT,
				      ((loff_t)(index + nr) << PAGE_SHIFT) - 1);
}

/* The order of the largest block around a page that is neither there nor cut. */
static int order_around(struct address_space *mapping, pgoff_t index, int order,
			pgoff_t first, pgoff_t end)
{
	int min_order = mapping_min_folio_order(mapping);

	for (; order > min_order; order--) {
		unsigned long nr = 1UL << order;
		pgoff_t start = round_down(index, nr);

		if (start >= first && start + nr <= end &&
		    !has_page(mapping, start, nr))
			break;
	}
	return order;
}

/* The first page that is in the cache, from @index on and before @end, or @end. */
static pgoff_t next_page(struct address_space *mapping, pgoff_t index,
			 pgoff_t end)
{
	XA_STATE(xas, &mapping->i_pages, index);
	void *entry;

	rcu_read_lock();
	do {
		entry = xas_find(&xas, end - 1);
	} while (xas_retry(&xas, entry) || xa_is_value(entry));
	rcu_read_unlock();
	return entry ? max(xas.xa_index, index) : end;
}

/*
 * The first page that is not, from @index on and before @end, or @end.
 * page_cache_next_miss() says one more than there is if it starts in the middle
 * of a folio.
 */
static pgoff_t next_hole(struct address_space *mapping, pgoff_t index,
			 pgoff_t end)
{
	XA_STATE(xas, &mapping->i_pages, index);
	void *entry;

	rcu_read_lock();
	while (index < end) {
		xas_set(&xas, index);
		do {
			entry = xas_load(&xas);
		} while (xas_retry(&xas, entry));
		if (!entry || xa_is_value(entry))
			break;
		index = round_down(index, 1UL << xas_get_order(&xas)) +
			(1UL << xas_get_order(&xas));
	}
	rcu_read_unlock();
	return min(index, end);
}

static pgoff_t pages_of_file(struct address_space *mapping)
{
	return DIV_ROUND_UP(i_size_read(mapping->host), PAGE_SIZE);
}

/*
 * The pages that may be read at once. They are locked meanwhile: in a small
 * control group nothing would be left to reclaim for who reads them, say a loop
 * device that swaps in as much again.
 */
static unsigned long most_pages(struct address_space *mapping)
{
	unsigned long limit = ULONG_MAX;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *group = get_mem_cgroup_from_mm(current->mm), *memcg;

	for (memcg = group; memcg && !mem_cgroup_is_root(memcg);
	     memcg = parent_mem_cgroup(memcg))
		limit = min3(limit, READ_ONCE(memcg->memory.max),
			     READ_ONCE(memcg->memory.high));
	mem_cgroup_put(group);
#endif
	return max(limit / 8, mapping_min_folio_nrpages(mapping));
}

/* Add a folio to the window; 0, -ENOMEM, -EEXIST */
static int add_folio(struct readahead_control *ractl, struct window *w,
		     pgoff_t index, int order)
{
	struct address_space *mapping = ractl->mapping;
	gfp_t gfp = readahead_gfp_mask(mapping);
	struct folio *folio = NULL;
	int err;

	if (w->folio && index == w->at && order == folio_order(w->folio)) {
		swap(folio, w->folio);
	} else {
		/* Nothing is reclaimed for a large page, nor moved. */
		if (order > mapping_min_folio_order(mapping))
			gfp &= ~__GFP_RECLAIM;
		folio = filemap_alloc_folio(gfp, order);
	}
	if (!folio)
		return -ENOMEM;
	if (index == w->mark)
		folio_set_readahead(folio);
	err = filemap_add_folio(mapping, folio, index, gfp);
	if (err) {
		folio_put(folio);
		return err;
	}
	ractl->_nr_pages += 1UL << order;
	ractl->_workingset |= folio_test_workingset(folio);
	return 0;
}

/*
 * Fill the holes of a window with the largest folios that fit, and read them.
 * The locks are those of page_cache_ra_order(), for the same reasons.
 */
static void read_window(struct file *file, struct address_space *mapping,
			struct window *w)
{
	/* read_pages() writes to it */
	struct file_ra_state ra = file->f_ra;
	DEFINE_READAHEAD(ractl, file, &ra, mapping, w->start);
	int min_order = mapping_min_folio_order(mapping);
	pgoff_t index = w->start, hole_end;
	unsigned int nofs = memalloc_nofs_save();
	int order, err;

	filemap_invalidate_lock_shared(mapping);
	w->end = min(w->end, round_up(pages_of_file(mapping), 1UL << min_order));
	ra.size = w->end > index ? w->end - index : 0;
	ra.async_size = w->end > w->mark ? w->end - w->mark : 0;

	while (index < w->end) {
		hole_end = next_page(mapping, index, w->end);
		if (hole_end == index) {
			read_pages(&ractl);
			index = next_hole(mapping, index, w->end);
			index = round_up(index, 1UL << min_order);
			ractl._index = index;
			continue;
		}
		order = w->order;
		if (index & ((1UL << order) - 1))
			order = max_t(int, __ffs(index), min_order);
		while (order > min_order && index + (1UL << order) > hole_end)
			order--;

		do {
			err = add_folio(&ractl, w, index, order);
			/* A fault on such a block waits for it. */
			if (err == -ENOMEM && w->waits && index != w->at)
				break;
		} while (err == -ENOMEM && order-- > min_order);
		if (err == -ENOMEM) {
			if (!w->waits || index >= w->at || w->at >= w->end)
				break;
			/* This one has waited. */
			read_pages(&ractl);
			index = w->at;
			ractl._index = index;
			continue;
		}
		if (err) {
			/* somebody was faster */
			read_pages(&ractl);
			index += 1UL << min_order;
			ractl._index = index;
			continue;
		}
		index += 1UL << order;
	}
	read_pages(&ractl);
	filemap_invalidate_unlock_shared(mapping);
	memalloc_nofs_restore(nofs);
	if (w->folio)
		folio_put(w->folio);
}

/* The region's bounds in its file: no folio of its reaches over them. */
static void clip(struct window *w, struct vm_area_struct *vma,
		 struct address_space *mapping)
{
	unsigned long min_nr = mapping_min_folio_nrpages(mapping);
	pgoff_t first = vma->vm_pgoff, end = first + vma_pages(vma);

	w->start = max(w->start, round_down(first, min_nr));
	w->end = min(w->end, round_up(end, min_nr));
	w->mark = clamp(w->mark, w->start, w->end);
}

/**
 * region_order_do_read() - there is no page in the cache where the fault is
 * @vmf: the fault, in a region that has an order
 * @fpin: the file, if the fault's lock was dropped; %REGION_ORDER_RETRY if it
 *	was dropped, and the fault is to be tried again without more ado
 *
 * Return: false if mainline's readahead should go on: there are no large folios.
 */
bool region_order_do_read(struct vm_fault *vmf, struct file **fpin)
{
	struct vm_area_struct *vma = vmf->vma;
	struct file *file = vma->vm_file;
	struct address_space *mapping = file->f_mapping;
	vm_flags_t flags = vma->vm_flags;
	unsigned long ra_pages = file->f_ra.ra_pages, most, nr;
	pgoff_t pgoff = vmf->pgoff, block;
	struct window w = {};
	unsigned int misses;
	bool again;
	int order;

	if (!mapping_large_folio_support(mapping) ||
	    vma_thp_disabled(vma, flags))
		return false;

	most = most_pages(mapping);
	w.order = min_t(int, largest_order(vma, mapping), ilog2(most));
	nr = 1UL << w.order;
	block = round_down(pgoff, nr);
	w.start = block;
	w.end = block + nr;
	w.mark = w.end;

	if (ra_pages && !(flags & VM_RAND_READ) &&
	    ((flags & VM_SEQ_READ) ||
	     READ_ONCE(file->f_ra.mmap_miss) < MANY_MISSES)) {
		/* the next block at least, which starts the next window */
		w.end = block + max(2 * nr, round_up(ra_pages, nr));
		if (!(flags & VM_SEQ_READ) && nr < ra_pages) {
			w.start = round_down(pgoff - min(pgoff, ra_pages / 2),
					     nr);
			w.end = max(block + 2 * nr,
				    round_up(pgoff + ra_pages / 2, nr));
			w.mark = w.end - nr;
		}
	}
	if (w.end - w.start > most) {
		w.start = block;
		w.end = block + round_down(most, nr);
		w.mark = w.end > block + nr ? w.end - nr : w.end;
	}
	clip(&w, vma, mapping);

	order = order_around(mapping, pgoff, w.order, w.start,
			     min(w.end, pages_of_file(mapping)));
	w.at = round_down(pgoff, 1UL << order);
	w.waits = flags & VM_ORDER_WAIT;
	if (w.waits && order > mapping_min_folio_order(mapping)) {
		w.folio = filemap_alloc_folio(mapping_gfp_mask(mapping) |
					      __GFP_RETRY_MAYFAIL |
					      __GFP_NOWARN, order);
		/* The caller's caller may need the file, whoever unmaps it. */
		get_file(file);
		again = !w.folio && region_order_do_wait(vmf, order);
		fput(file);
		if (again) {
			*fpin = REGION_ORDER_RETRY;
			return true;
		}
	}

	/*
	 * Not before: a fault that waits is tried many times and is one miss. Those
	 * who map the file without an order would have no read-around any more.
	 */
	misses = READ_ONCE(file->f_ra.mmap_miss);
	if (misses < MANY_MISSES * 10 && !(flags & VM_RAND_READ))
		WRITE_ONCE(file->f_ra.mmap_miss, misses + 1);

	/* From here on the region may be gone, but not the file. */
	*fpin = maybe_unlock_mmap_for_io(vmf, *fpin);
	read_window(file, mapping, &w);
	return true;
}

/**
 * region_order_do_read_on() - the fault is on a folio that starts a window
 * @vmf: the fault, in a region that has an order
 * @folio: the folio, marked for readahead
 * @fpin: the file, if the fault's lock was dropped
 *
 * Return: false if mainline's readahead should go on: there are no large folios.
 */
bool region_order_do_read_on(struct vm_fault *vmf, struct folio *folio,
			     struct file **fpin)
{
	struct vm_area_struct *vma = vmf->vma;
	struct file *file = vma->vm_file;
	struct address_space *mapping = file->f_mapping;
	struct window w = {};
	unsigned long most, nr, size;
	pgoff_t far;

	if (!mapping_large_folio_support(mapping) ||
	    vma_thp_disabled(vma, vma->vm_flags))
		return false;
	/* The bit is PG_reclaim too. */
	if (folio_test_writeback(folio))
		return true;
	folio_clear_readahead(folio);
	if (blk_cgroup_congested())
		return true;

	most = most_pages(mapping);
	w.order = min_t(int, largest_order(vma, mapping), ilog2(most));
	w.waits = vma->vm_flags & VM_ORDER_WAIT;
	nr = 1UL << w.order;
	size = round_up(max_t(unsigned long, nr, file->f_ra.ra_pages), nr);
	size = min(size, round_down(most, nr));
	far = mapping_align_index(mapping, vmf->pgoff + 2 * size);
	w.start = mapping_align_index(mapping,
				      next_hole(mapping, vmf->pgoff, far));
	/* all of it is here */
	if (w.start == far)
		return true;
	w.end = round_up(w.start + size, nr);
	w.mark = round_up(w.start, nr);
	w.at = ULONG_MAX;
	clip(&w, vma, mapping);

	*fpin = maybe_unlock_mmap_for_io(vmf, *fpin);
	read_window(file, mapping, &w);
	return true;
}

/**
 * region_order_do_shmem() - the orders that new pages of shmem may have
 * @flags: those of a region that has an order
 * @inode: the file
 * @index: of the page that is needed
 *
 * Return: the region's orders, but for those that reach beyond the file's end.
 */
unsigned long region_order_do_shmem(vm_flags_t flags, struct inode *inode,
				    pgoff_t index)
{
	unsigned long orders = region_orders(flags) & THP_ORDERS_ALL_FILE_DEFAULT;
	pgoff_t end = pages_of_file(inode->i_mapping);
	int order;

	for (order = highest_order(orders); orders;
	     order = next_order(&orders, order))
		if (round_down(index, 1UL << order) + (1UL << order) <= end)
			break;
	return orders;
}

/**
 * region_order_do_around() - how many pages a fault maps that are there
 * @flags: those of a region that has an order
 * @pages: as many as elsewhere, a power of two
 *
 * Return: as many as make a page of the region's order, if that is more, but not
 * more than a table has.
 */
unsigned long region_order_do_around(vm_flags_t flags, unsigned long pages)
{
	unsigned long nr = 1UL << region_order(flags);

	return max(pages, min_t(unsigned long, nr, PTRS_PER_PTE));
}

/**
 * region_order_do_maps() - may a fault map all of a folio at once?
 * @vmf: the fault, in a region that has an order
 * @folio: what it has found, or allocated
 *
 * Only the page written to is prepared for it, where the file system wants to
 * know.
 *
 * Return: if it may.
 */
bool region_order_do_maps(struct vm_fault *vmf, struct folio *folio)
{
	struct vm_area_struct *vma = vmf->vma;

	if (!region_order(vma->vm_flags) || !folio_test_large(folio) ||
	    folio_test_has_hwpoisoned(folio))
		return false;
	/* No process has entries behind the end of a file. */
	if (folio_next_index(folio) > pages_of_file(folio->mapping))
		return false;
	return !(vmf->flags & FAULT_FLAG_WRITE) || !vma->vm_ops->page_mkwrite;
}

/**
 * region_order_do_mapped() - count what a fault has got out of the page cache
 * @vmf: the fault, in a region that has an order
 * @folio: what it maps
 * @page: the first page of those that it maps
 * @nr: how many; nothing is counted if the one of the fault is not among them
 * @addr: where the first one is
 */
void region_order_do_mapped(struct vm_fault *vmf, struct folio *folio,
			    struct page *page, unsigned int nr,
			    unsigned long addr)
{
	unsigned long diff = folio_page_idx(folio, page) - (addr >> PAGE_SHIFT);
	unsigned long end = addr + nr * PAGE_SIZE;
	vm_flags_t flags = vmf->vma->vm_flags;
	int order;

	if (!in_range(vmf->address, addr, nr * PAGE_SIZE))
		return;
	order = min_t(int, region_order(flags), folio_order(folio));
	if (diff)
		order = min_t(int, order, __ffs(diff));
	for (; order; order--) {
		unsigned long size = PAGE_SIZE << order;
		unsigned long start = ALIGN_DOWN(vmf->address, size);

		if (start >= addr && start + size <= end)
			break;
	}
	region_order_do_got(flags, order);
}
