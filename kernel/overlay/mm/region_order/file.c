// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size per region: memory of files, through the page cache.
 *
 * A fault that finds no page in the cache makes readahead build folios of the
 * region's order, aligned in the file and in the region. Smaller folios are built
 * where the two alignments differ, at the ends of region and file, and around
 * pages that are in the cache already; those are used as they are.
 *
 * The window is mainline's, rounded to whole blocks of the order. The state of the
 * open file (file->f_ra) is only read, so that other readers are not affected,
 * except its count of misses, which is kept as in mainline. A mark on a folio
 * starts the next window, as in mainline.
 *
 * tmpfs and shared memory have no readahead: shmem.c asks here for the orders, and
 * allocates by the policy of the region.
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
	pgoff_t end;		/* first page behind it */
	pgoff_t mark;		/* the block that starts the next one, or end */
	int order;		/* of the largest folios */
	bool waits;		/* the region waits for these, build no others */
	struct folio *folio;	/* allocated by waiting, for @at */
	pgoff_t at;		/* start of the block with the fault */
};

/**
 * region_order_file() - whether mappings of a file may have an order
 * @file: the file, or NULL
 *
 * Return: true if it is read through the page cache by readahead, or belongs to
 * shmem. File systems without large folios are included; their regions fall back
 * to base pages.
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

/* The largest order of a folio that is aligned both in the file and in the region. */
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

/* The order of the largest block around a page that is in range and not cached. */
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

/* The first cached page from @index on and before @end, or @end. */
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
 * The first page from @index on and before @end that is not cached, or @end.
 * page_cache_next_miss() is not used: it is one off if it starts in the middle of a
 * folio.
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
 * The most pages to read at once. They are locked meanwhile: in a small control
 * group this could leave nothing to reclaim for the task that reads them, for
 * example a loop device that needs as many pages again.
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

/* Add a folio to the window. Returns 0, -ENOMEM or -EEXIST. */
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
		/* Neither reclaim nor compact for a large folio. */
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
 * Fill the holes of a window with the largest folios that fit, and read them. Takes
 * the locks of page_cache_ra_order(), for the same reasons.
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
			/* A later fault on such a block waits for a folio. */
			if (err == -ENOMEM && w->waits && index != w->at)
				break;
		} while (err == -ENOMEM && order-- > min_order);
		if (err == -ENOMEM) {
			if (!w->waits || index >= w->at || w->at >= w->end)
				break;
			/* This block's folio is allocated already. */
			read_pages(&ractl);
			index = w->at;
			ractl._index = index;
			continue;
		}
		if (err) {
			/* another task has added the page */
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

/* Clip a window to the region: its folios do not reach beyond. */
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
 * region_order_do_read() - read ahead for a fault that found no page in the cache
 * @vmf: the fault, in a region that has an order
 * @fpin: the file, if the fault's lock was dropped; %REGION_ORDER_RETRY if it was
 *	dropped and the caller must retry the fault at once
 *
 * Return: false to use mainline's readahead, if the file has no large folios.
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
		/* include the next block, which starts the next window */
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
		/* Callers may need the file even if it is unmapped meanwhile. */
		get_file(file);
		again = !w.folio && region_order_do_wait(vmf, order);
		fput(file);
		if (again) {
			*fpin = REGION_ORDER_RETRY;
			return true;
		}
	}

	/*
	 * Count the miss only here: a fault that waits is retried many times.
	 * Counting each would end read-around for mappings without an order.
	 */
	misses = READ_ONCE(file->f_ra.mmap_miss);
	if (misses < MANY_MISSES * 10 && !(flags & VM_RAND_READ))
		WRITE_ONCE(file->f_ra.mmap_miss, misses + 1);

	/* From here on the region may be gone; the file is not. */
	*fpin = maybe_unlock_mmap_for_io(vmf, *fpin);
	read_window(file, mapping, &w);
	return true;
}

/**
 * region_order_do_read_on() - read ahead for a fault on a folio that starts a window
 * @vmf: the fault, in a region that has an order
 * @folio: the folio, marked for readahead
 * @fpin: the file, if the fault's lock was dropped
 *
 * Return: false to use mainline's readahead, if the file has no large folios.
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
	/* The same bit is PG_reclaim. */
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
	/* all of it is cached */
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
 * @index: the page that is needed
 *
 * Return: the region's orders, without those that reach beyond the file's end.
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
 * region_order_do_around() - how many cached pages a fault maps
 * @flags: those of a region that has an order
 * @pages: the number without an order, a power of two
 *
 * Return: @pages or a page of the region's order, whichever is more, and at most a
 * table's entries.
 */
unsigned long region_order_do_around(vm_flags_t flags, unsigned long pages)
{
	unsigned long nr = 1UL << region_order(flags);

	return max(pages, min_t(unsigned long, nr, PTRS_PER_PTE));
}

/**
 * region_order_do_maps() - whether a fault may map all of a folio at once
 * @vmf: the fault, in a region that has an order
 * @folio: the folio that it has found or allocated
 *
 * A write fault may not if the file system has page_mkwrite(): only the page
 * written to is prepared.
 */
bool region_order_do_maps(struct vm_fault *vmf, struct folio *folio)
{
	struct vm_area_struct *vma = vmf->vma;

	if (!region_order(vma->vm_flags) || !folio_test_large(folio) ||
	    folio_test_has_hwpoisoned(folio))
		return false;
	/* No entry may map a page behind the end of a file. */
	if (folio_next_index(folio) > pages_of_file(folio->mapping))
		return false;
	return !(vmf->flags & FAULT_FLAG_WRITE) || !vma->vm_ops->page_mkwrite;
}

/**
 * region_order_do_mapped() - count the page size that a file fault has got
 * @vmf: the fault, in a region that has an order
 * @folio: the folio that it maps
 * @page: the first page that it maps
 * @nr: number of pages; counts nothing if the faulting page is not among them
 * @addr: the address of the first page
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
