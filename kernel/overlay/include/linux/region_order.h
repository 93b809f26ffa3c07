/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A page size per region: what the rest of the kernel calls.
 *
 * A region's order and policy are bits of its vm_flags. So regions merge only if
 * these are equal, and split, mremap and fork keep them without any code. Until
 * the first order is asked for on a machine, each hook is a branch that is patched
 * out. See Documentation/mm/region-order.rst.
 */
#ifndef _LINUX_REGION_ORDER_H
#define _LINUX_REGION_ORDER_H

#ifdef CONFIG_REGION_ORDER

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/jump_label.h>
#include <linux/mm_types.h>

#include <uapi/linux/region_order.h>

struct seq_file;
struct vm_fault;

/* Holds order + 1; 0 means that no order was asked for. */
#define VM_ORDER_SHIFT	56
#define VM_ORDER_MASK	(0xfUL << VM_ORDER_SHIFT)
#define VM_ORDER_WAIT	BIT(60)
#define VM_ORDER_COPY	BIT(61)
#define VM_ORDER_FLAGS	(VM_ORDER_MASK | VM_ORDER_WAIT | VM_ORDER_COPY)
/* larger than base pages: order 0 is stored as 1 */
#define VM_ORDER_LARGE(flags) \
	(((flags) & VM_ORDER_MASK) > (1UL << VM_ORDER_SHIFT))

DECLARE_STATIC_KEY_FALSE(region_order_key);

/* True once an order was asked for since boot; before, no mm or region has one. */
static inline bool region_order_active(void)
{
	return static_branch_unlikely(&region_order_key);
}

static inline bool region_has_order(vm_flags_t flags)
{
	return region_order_active() && unlikely(flags & VM_ORDER_MASK);
}

/* The order of a region that has one. */
static inline int region_order(vm_flags_t flags)
{
	return ((flags & VM_ORDER_MASK) >> VM_ORDER_SHIFT) - 1;
}

/* All orders that the pages of a region with an order may have, as bits. */
static inline unsigned long region_orders(vm_flags_t flags)
{
	return GENMASK(region_order(flags), 0);
}

bool region_order_advice(int advice);
void region_order_do_prepare(void);
int region_order_madvise(struct vm_area_struct *vma, int advice,
			 unsigned long *vm_flags);
vm_flags_t region_order_do_default(struct mm_struct *mm, unsigned long kind,
				   vm_flags_t vm_flags);
gfp_t region_order_do_gfp(vm_flags_t flags);
bool region_order_do_wait(struct vm_fault *vmf, int order);
void region_order_do_got(vm_flags_t flags, int order);
bool region_order_do_copy(struct vm_fault *vmf, struct folio *folio);
bool region_order_do_copy_pmd(struct vm_fault *vmf);
void region_order_do_show(struct seq_file *m, vm_flags_t flags);
long region_order_prctl_set(unsigned long kinds, unsigned long advice);
long region_order_prctl_get(unsigned long kind);

/* Before madvise() takes a lock: switch the hooks on for the first order. */
static inline void region_order_prepare(int advice)
{
	if (unlikely((advice & 0xff00) == MADV_ORDER) && !region_order_active())
		region_order_do_prepare();
}

/* Children and programs executed keep what the process asked for. */
static inline void region_order_mm_init(struct mm_struct *mm,
					struct mm_struct *oldmm)
{
	if (region_order_active())
		mm->region_orders = oldmm ? oldmm->region_orders : 0;
}

/* An exec that gains privileges does not inherit the caller's orders. */
static inline void region_order_forget(struct mm_struct *mm)
{
	if (region_order_active())
		mm->region_orders = 0;
}

/* @vm_flags of a new region of a kind (PR_ORDER_*) with the process's order. */
static inline vm_flags_t region_order_default(vm_flags_t vm_flags,
					      struct mm_struct *mm,
					      unsigned long kind)
{
	if (!region_order_active() || likely(!mm->region_orders))
		return vm_flags;
	return region_order_do_default(mm, kind, vm_flags);
}

/* Limit @orders to the region's; false if it has no order and other rules apply. */
static inline bool region_order_limits(vm_flags_t flags, unsigned long *orders)
{
	if (!region_has_order(flags))
		return false;
	*orders &= region_orders(flags);
	return true;
}

/* The gfp mask for a large page, or 0 to use the machine's rules. */
static inline gfp_t region_order_gfp(struct vm_area_struct *vma)
{
	if (vma && region_has_order(vma->vm_flags))
		return region_order_do_gfp(vma->vm_flags);
	return 0;
}

/* True if read faults allocate pages of the region's size, not the zero page. */
static inline bool region_order_fills(struct vm_area_struct *vma)
{
	return region_order_active() && unlikely(VM_ORDER_LARGE(vma->vm_flags));
}

/*
 * Wait after an allocation of that order failed, if the region's policy says so.
 * Returns true with the fault's lock dropped: the caller must retry the fault.
 */
static inline bool region_order_wait(struct vm_area_struct *vma,
				     struct vm_fault *vmf, int order)
{
	return region_order_active() &&
	       unlikely(vma->vm_flags & VM_ORDER_WAIT) &&
	       region_order_do_wait(vmf, order);
}

#define REGION_ORDER_RETRY	ERR_PTR(-ERESTARTNOINTR)

/* The fault's result when no folio was allocated: retry if it has waited. */
static inline vm_fault_t region_order_error(struct folio *folio)
{
	return folio == REGION_ORDER_RETRY ? VM_FAULT_RETRY : 0;
}

static inline void region_order_got(struct vm_area_struct *vma, int order)
{
	if (region_has_order(vma->vm_flags))
		region_order_do_got(vma->vm_flags, order);
}

/*
 * Copy a whole large page on write, if the region's policy says so. Returns true
 * if the fault is done; the reference to @folio is dropped then.
 */
static inline bool region_order_copy(struct vm_area_struct *vma,
				     struct vm_fault *vmf, struct folio *folio)
{
	return region_order_active() &&
	       unlikely(vma->vm_flags & VM_ORDER_COPY) && folio &&
	       region_order_do_copy(vmf, folio);
}

/* As region_order_copy(), for a page mapped by a PMD. */
static inline bool region_order_copy_pmd(struct vm_area_struct *vma,
					 struct vm_fault *vmf)
{
	return region_order_active() &&
	       unlikely(vma->vm_flags & VM_ORDER_COPY) &&
	       region_order_do_copy_pmd(vmf);
}

static inline void region_order_show(struct seq_file *m,
				     struct vm_area_struct *vma)
{
	if (region_has_order(vma->vm_flags))
		region_order_do_show(m, vma->vm_flags);
}

#else /* !CONFIG_REGION_ORDER */

#define region_has_order(...)		false
#define region_order_limits(...)	false
#define region_order_gfp(...)		0
#define region_order_advice(...)	false
#define region_order_prepare(...)	do { } while (0)
#define region_order_madvise(...)	0
#define region_order_mm_init(...)	do { } while (0)
#define region_order_forget(...)	do { } while (0)
#define region_order_default(flags, ...)	(flags)
#define region_order_fills(...)		false
#define region_order_wait(...)		false
#define REGION_ORDER_RETRY	NULL
#define region_order_error(...)		0
#define region_order_got(...)		do { } while (0)
#define region_order_copy(...)		false
#define region_order_copy_pmd(...)	false
#define region_order_show(...)		do { } while (0)

#endif /* CONFIG_REGION_ORDER */

#endif /* _LINUX_REGION_ORDER_H */
