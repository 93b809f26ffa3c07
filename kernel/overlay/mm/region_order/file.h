/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A page size per region: what mm/ calls for memory of files. The rest is in
 * include/linux/region_order.h.
 */
#ifndef _MM_REGION_ORDER_FILE_H
#define _MM_REGION_ORDER_FILE_H

#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/region_order.h>

#ifdef CONFIG_REGION_ORDER

/* readahead.c, huge_memory.c */
#define REGION_ORDER_VISIBLE
void read_pages(struct readahead_control *rac);
unsigned long __thp_get_unmapped_area(struct file *filp, unsigned long addr,
				      unsigned long len, loff_t off,
				      unsigned long flags, unsigned long size,
				      vm_flags_t vm_flags);

unsigned long region_order_do_area(struct file *file, unsigned long addr,
				   unsigned long len, unsigned long pgoff,
				   unsigned long flags, vm_flags_t vm_flags);
bool region_order_file(struct file *file);
void region_order_do_mmap(struct vm_area_struct *vma);
bool region_order_do_read(struct vm_fault *vmf, struct file **fpin);
bool region_order_do_read_on(struct vm_fault *vmf, struct folio *folio,
			     struct file **fpin);
unsigned long region_order_do_shmem(vm_flags_t flags, struct inode *inode,
				    pgoff_t index);
unsigned long region_order_do_around(vm_flags_t flags, unsigned long pages);
bool region_order_do_maps(struct vm_fault *vmf, struct folio *folio);
void region_order_do_mapped(struct vm_fault *vmf, struct folio *folio,
			    struct page *page, unsigned int nr,
			    unsigned long addr);

/* The address of a new region, aligned to the process's order if it has one. */
static inline unsigned long
region_order_area(struct file *file, unsigned long addr, unsigned long len,
		  unsigned long pgoff, unsigned long flags, vm_flags_t vm_flags,
		  struct mm_struct *mm)
{
	if (region_order_active() && unlikely(mm->region_orders))
		return region_order_do_area(file, addr, len, pgoff, flags,
					    vm_flags);
	return __get_unmapped_area(file, addr, len, pgoff, flags, vm_flags);
}

/*
 * Flags of a new region of a file, with the process's order. Called before the
 * first attempt to merge the region, the only one if it has no close().
 */
static inline vm_flags_t region_order_file_default(vm_flags_t vm_flags,
						   struct mm_struct *mm,
						   struct file *file)
{
	if (!region_order_active() || likely(!mm->region_orders) ||
	    !region_order_file(file))
		return vm_flags;
	return region_order_default(vm_flags, mm, PR_ORDER_FILE);
}

/* Correct a new region's order after the file's mmap() has set its flags. */
static inline void region_order_mmap(struct vm_area_struct *vma)
{
	if (region_order_active() && unlikely(vma->vm_mm->region_orders))
		region_order_do_mmap(vma);
}

/*
 * Read ahead for a fault that found no page of the file. Returns true if this is
 * done or the fault must be retried, see region_order_again(); @fpin then is what
 * the caller's own readahead would have returned.
 */
static inline bool region_order_read(struct vm_area_struct *vma,
				     struct vm_fault *vmf, struct file **fpin)
{
	return region_has_order(vma->vm_flags) &&
	       region_order_do_read(vmf, fpin);
}

/* As region_order_read(), for a fault that found a folio marked for readahead. */
static inline bool region_order_read_on(struct vm_area_struct *vma,
					struct vm_fault *vmf,
					struct folio *folio,
					struct file **fpin)
{
	return region_has_order(vma->vm_flags) &&
	       region_order_do_read_on(vmf, folio, fpin);
}

/* True for the REGION_ORDER_RETRY marker. */
static inline bool region_order_again(const void *ptr)
{
	return unlikely(ptr == REGION_ORDER_RETRY);
}

/* Orders for a page of shmem; false if the region has no order. */
static inline bool region_order_shmem(vm_flags_t flags, struct inode *inode,
				      pgoff_t index, unsigned long *orders)
{
	if (!region_has_order(flags))
		return false;
	*orders = region_order_do_shmem(flags, inode, index);
	return true;
}

/* How many cached pages a fault maps: at least a page of the region's order. */
static inline unsigned long region_order_around(unsigned long pages,
						struct vm_area_struct *vma)
{
	if (region_has_order(vma->vm_flags))
		return region_order_do_around(vma->vm_flags, pages);
	return pages;
}

/* True if a fault may map all of a large folio at once. */
static inline bool region_order_maps(struct vm_area_struct *vma,
				     struct vm_fault *vmf, struct folio *folio)
{
	return region_has_order(vma->vm_flags) &&
	       region_order_do_maps(vmf, folio);
}

/* True if the region's order is below @order. */
static inline bool region_order_below(struct vm_area_struct *vma, int order)
{
	return region_has_order(vma->vm_flags) &&
	       region_order(vma->vm_flags) < order;
}

/* Count what a fault maps, if its own page is among these pages. */
static inline void region_order_mapped(struct vm_area_struct *vma,
				       struct vm_fault *vmf,
				       struct folio *folio, struct page *page,
				       unsigned int nr, unsigned long addr)
{
	if (region_has_order(vma->vm_flags))
		region_order_do_mapped(vmf, folio, page, nr, addr);
}

/* As region_order_wait(); @vmf is NULL outside a fault. */
static inline bool region_order_shmem_wait(struct vm_fault *vmf, int order)
{
	return vmf && region_order_wait(vmf->vma, vmf, order);
}

#else /* !CONFIG_REGION_ORDER */

#define REGION_ORDER_VISIBLE	static

#define region_order_area(file, addr, len, pgoff, flags, vm_flags, ...) \
	__get_unmapped_area(file, addr, len, pgoff, flags, vm_flags)
#define region_order_file_default(flags, ...)	(flags)
#define region_order_mmap(...)		do { } while (0)
#define region_order_read(...)		false
#define region_order_read_on(...)	false
#define region_order_again(...)		false
#define region_order_shmem(...)		false
#define region_order_around(pages, ...)	(pages)
#define region_order_maps(...)		false
#define region_order_below(...)		false
#define region_order_mapped(...)	do { } while (0)
#define region_order_shmem_wait(...)	false

#endif /* CONFIG_REGION_ORDER */

#endif /* _MM_REGION_ORDER_FILE_H */
