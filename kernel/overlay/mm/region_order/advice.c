// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size per region: how it is set, kept and shown.
 */
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/region_order.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/shmem_fs.h>

#include <uapi/linux/region_order.h>

#include "file.h"

#define POLICIES	(MADV_ORDER_WAIT | MADV_ORDER_COPY)

/* mm->region_orders has a byte per kind: the bits from VM_ORDER_SHIFT on. */
#define KINDS		(PR_ORDER_HEAP | PR_ORDER_ANON | PR_ORDER_FILE | \
			 PR_ORDER_STACK)
#define KIND_SHIFT(kind)	(8 * __ffs(kind))
#define KIND_BITS	(VM_ORDER_FLAGS >> VM_ORDER_SHIFT)

/* Never switched off again, because regions may have orders then. */
DEFINE_STATIC_KEY_FALSE(region_order_key);

static int advice_order(int advice)
{
	return advice >> MADV_ORDER_SHIFT;
}

/* True if memory of every kind may have this order on this machine. */
static bool order_supported(int order)
{
	if (!order)
		return true;
	return order > 0 && order <= PMD_ORDER && !thp_disabled_by_hw() &&
	       (THP_ORDERS_ALL_ANON & THP_ORDERS_ALL_FILE_DEFAULT &
		BIT(order));
}

/**
 * region_order_advice() - whether madvise() may take this advice
 * @advice: the advice with order and policy
 *
 * Return: true if it is advice about an order that this machine supports.
 */
bool region_order_advice(int advice)
{
	int policy = advice & 0xff;

	BUILD_BUG_ON(PMD_ORDER + 1 > (VM_ORDER_MASK >> VM_ORDER_SHIFT));

	if (advice < 0 || (advice & 0xff00) != MADV_ORDER)
		return false;
	if (policy == MADV_ORDER_NONE)
		return !advice_order(advice);
	if (policy & ~POLICIES)
		return false;
	/* Order 0 has no policy: base pages never need to be waited for. */
	if (policy && !advice_order(advice))
		return false;
	return order_supported(advice_order(advice));
}

/**
 * region_order_do_prepare() - switch the hooks on
 *
 * The caller holds no lock, because the key is switched under those of CPU hotplug.
 */
void region_order_do_prepare(void)
{
	if (!static_key_enabled(&region_order_key))
		static_branch_enable(&region_order_key);
}

/*
 * True if the task may ask for this advice. A fault that waits takes precedence over
 * other tasks: it compacts and reclaims for one page again and again, and resets the
 * back-off that compaction has for the whole machine. CAP_SYS_NICE is the privilege
 * for that, as for priorities, and for advice to another process.
 */
static bool may_ask(int advice)
{
	return !(advice & MADV_ORDER_WAIT) || capable(CAP_SYS_NICE);
}

/* The order and policy flags of an advice. */
static vm_flags_t advice_flags(int advice)
{
	vm_flags_t flags;

	if (advice & MADV_ORDER_NONE)
		return 0;
	flags = (vm_flags_t)(advice_order(advice) + 1) << VM_ORDER_SHIFT;
	if (advice & MADV_ORDER_WAIT)
		flags |= VM_ORDER_WAIT;
	if (advice & MADV_ORDER_COPY)
		flags |= VM_ORDER_COPY;
	return flags;
}

static int flags_advice(vm_flags_t flags)
{
	int advice = MADV_ORDER;

	if (!region_has_order(flags))
		return advice | MADV_ORDER_NONE;
	advice |= region_order(flags) << MADV_ORDER_SHIFT;
	if (flags & VM_ORDER_WAIT)
		advice |= MADV_ORDER_WAIT;
	if (flags & VM_ORDER_COPY)
		advice |= MADV_ORDER_COPY;
	return advice;
}

/* Set the order in a region's flags. It overrides an earlier MADV_NOHUGEPAGE. */
static vm_flags_t with_order(vm_flags_t vm_flags, vm_flags_t order)
{
	vm_flags &= ~VM_ORDER_FLAGS;
	if (order)
		vm_flags &= ~VM_NOHUGEPAGE;
	return vm_flags | order;
}

/**
 * region_order_madvise() - set the order of a region
 * @vma: the region, or one that the caller splits
 * @advice: one that region_order_advice() has accepted
 * @vm_flags: the region's flags, to which the order is added
 *
 * Return: 0; -EINVAL for special regions, and for a policy that files do not have;
 * -EPERM for locked regions, whose pages are present already, and for a caller without
 * the privilege to wait; -EOPNOTSUPP for memory that is neither private anonymous nor
 * read through the page cache.
 */
int region_order_madvise(struct vm_area_struct *vma, int advice,
			 unsigned long *vm_flags)
{
	if (*vm_flags & (VM_SPECIAL | VM_HUGETLB | VM_SHADOW_STACK))
		return -EINVAL;
	/* exec keeps a pointer to this region: it must not be split or merged. */
	if (vma_is_temporary_stack(vma))
		return -EINVAL;
	if ((*vm_flags & VM_LOCKED) || !may_ask(advice))
		return -EPERM;
	if (!vma_is_anonymous(vma)) {
		if (vma_is_dax(vma))
			return -EINVAL;
		if (!region_order_file(vma->vm_file))
			return -EOPNOTSUPP;
		if (advice & MADV_ORDER_COPY)
			return -EINVAL;
	}
	*vm_flags = with_order(*vm_flags, advice_flags(advice));
	return 0;
}

/**
 * region_order_do_default() - give a new region the process's order
 * @mm: the process
 * @kind: PR_ORDER_*
 * @vm_flags: the region's flags without an order
 *
 * Return: the region's flags.
 */
vm_flags_t region_order_do_default(struct mm_struct *mm, unsigned long kind,
				   vm_flags_t vm_flags)
{
	vm_flags_t order = (mm->region_orders >> KIND_SHIFT(kind)) & KIND_BITS;

	if (!order || (vm_flags & (VM_SPECIAL | VM_HUGETLB | VM_SHADOW_STACK)))
		return vm_flags;
	return with_order(vm_flags, order << VM_ORDER_SHIFT);
}

/**
 * region_order_do_mmap() - correct a new region's order after its file's mmap()
 * @vma: the region, in no tree yet
 *
 * The region has the order of region_order_file_default(). But a stacked file system
 * maps another file, and a driver may have made the region special.
 */
void region_order_do_mmap(struct vm_area_struct *vma)
{
	vm_flags_t flags = vma->vm_flags;

	if (flags & (VM_SPECIAL | VM_HUGETLB | VM_SHADOW_STACK))
		flags &= ~VM_ORDER_FLAGS;
	else if (region_order_file(vma->vm_file))
		flags = region_order_do_default(vma->vm_mm, PR_ORDER_FILE,
						flags);
	if (flags != vma->vm_flags)
		vm_flags_init(vma, flags);
}

/*
 * An address with the same alignment in the file and in memory, or 0 if that kind
 * has no order, there is no room, or the driver chooses addresses itself.
 */
static unsigned long aligned_area(struct file *file, unsigned long addr,
				  unsigned long len, loff_t off,
				  unsigned long flags, vm_flags_t vm_flags)
{
	unsigned long kind = PR_ORDER_ANON, area = 0;
	vm_flags_t order;

	if (file || (flags & MAP_SHARED))
		kind = PR_ORDER_FILE;
	else if (flags & MAP_STACK)
		kind = PR_ORDER_STACK;
	order = region_order_do_default(current->mm, kind, 0);
	/* as in mainline, only without a hint */
	if (!VM_ORDER_LARGE(order) || addr || (flags & MAP_FIXED))
		return 0;
	if (file && (!S_ISREG(file_inode(file)->i_mode) ||
		     IS_DAX(file_inode(file)) ||
		     (file->f_op->get_unmapped_area &&
		      file->f_op->get_unmapped_area != thp_get_unmapped_area &&
		      !shmem_mapping(file->f_mapping))))
		return 0;
	/* as in mainline, for lengths of whole tables */
	if (IS_ALIGNED(len, PMD_SIZE))
		area = __thp_get_unmapped_area(file, addr, len, off, flags,
					       PMD_SIZE, vm_flags);
	if (!area)
		area = __thp_get_unmapped_area(file, addr, len, off, flags,
					       PAGE_SIZE << region_order(order),
					       vm_flags);
	return area;
}

/**
 * region_order_do_area() - an address for a new region of a process with orders
 * @file: the file, or NULL
 * @addr: the address that the caller prefers
 * @len: length of the region
 * @pgoff: offset in the file
 * @flags: flags of mmap()
 * @vm_flags: flags of the region, as far as they are known
 *
 * Return: the result of __get_unmapped_area(), which is given an aligned address as
 * a fixed one.
 */
unsigned long region_order_do_area(struct file *file, unsigned long addr,
				   unsigned long len, unsigned long pgoff,
				   unsigned long flags, vm_flags_t vm_flags)
{
	loff_t off = file ? (loff_t)pgoff << PAGE_SHIFT : 0;
	unsigned long area;

	area = aligned_area(file, addr, len, off, flags, vm_flags);
	if (area) {
		addr = area;
		flags |= MAP_FIXED;
	}
	return __get_unmapped_area(file, addr, len, pgoff, flags, vm_flags);
}

/**
 * region_order_prctl_set() - set the order of regions mapped later
 * @kinds: the kinds of regions, PR_ORDER_*
 * @advice: as for madvise()
 *
 * Kept over fork and exec, as PR_SET_THP_DISABLE is, but not over an exec that gains
 * privileges.
 *
 * Return: 0; -EINVAL for an unknown kind, an unsupported order, or a policy that the
 * kind does not have; -EPERM without the privilege to wait; -EINTR.
 */
long region_order_prctl_set(unsigned long kinds, unsigned long advice)
{
	struct mm_struct *mm = current->mm;
	unsigned long bits, kind;
	u32 orders;

	if (!kinds || (kinds & ~KINDS))
		return -EINVAL;
	if (advice > INT_MAX || !region_order_advice(advice))
		return -EINVAL;
	if ((kinds & PR_ORDER_FILE) && (advice & MADV_ORDER_COPY))
		return -EINVAL;
	if (!may_ask(advice))
		return -EPERM;
	region_order_do_prepare();

	bits = advice_flags(advice) >> VM_ORDER_SHIFT;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	orders = mm->region_orders;
	for (kind = PR_ORDER_HEAP; kind <= PR_ORDER_STACK; kind <<= 1) {
		if (!(kinds & kind))
			continue;
		orders &= ~(KIND_BITS << KIND_SHIFT(kind));
		orders |= bits << KIND_SHIFT(kind);
	}
	mm->region_orders = orders;
	mmap_write_unlock(mm);
	return 0;
}

/**
 * region_order_prctl_get() - get the order of regions mapped later
 * @kind: one of PR_ORDER_*
 *
 * Return: an advice, or -EINVAL if @kind is not exactly one kind.
 */
long region_order_prctl_get(unsigned long kind)
{
	vm_flags_t order;

	if (hweight_long(kind) != 1 || (kind & ~KINDS))
		return -EINVAL;
	order = (READ_ONCE(current->mm->region_orders) >> KIND_SHIFT(kind)) &
		KIND_BITS;
	return flags_advice(order << VM_ORDER_SHIFT);
}

/* Print the line of /proc/PID/smaps for a region that has an order. */
void region_order_do_show(struct seq_file *m, vm_flags_t flags)
{
	seq_printf(m, "Order:          %8d%s%s\n", region_order(flags),
		   flags & VM_ORDER_WAIT ? " wait" : "",
		   flags & VM_ORDER_COPY ? " copy" : "");
}
