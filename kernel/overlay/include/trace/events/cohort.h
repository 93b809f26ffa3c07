/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM cohort

#if !defined(_TRACE_COHORT_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_COHORT_H

#include <linux/cohort.h>
#include <linux/mm_types.h>
#include <linux/tracepoint.h>

TRACE_DEFINE_ENUM(COHORT_FAULT);
TRACE_DEFINE_ENUM(COHORT_MAP);
TRACE_DEFINE_ENUM(COHORT_UNMAP);
TRACE_DEFINE_ENUM(COHORT_CHANGE);
TRACE_DEFINE_ENUM(COHORT_MLOCK);

/* A child gets the parent's table at fork. */
TRACE_EVENT(cohort_share,
	TP_PROTO(struct mm_struct *parent, struct mm_struct *child,
		 unsigned long addr, unsigned int users),
	TP_ARGS(parent, child, addr, users),
	TP_STRUCT__entry(
		__field(struct mm_struct *, parent)
		__field(struct mm_struct *, child)
		__field(unsigned long, addr)
		__field(unsigned int, users)
	),
	TP_fast_assign(
		__entry->parent = parent;
		__entry->child = child;
		__entry->addr = addr;
		__entry->users = users;
	),
	TP_printk("parent=%p child=%p addr=%lx users=%u", __entry->parent,
		  __entry->child, __entry->addr, __entry->users)
);

/* A fault joins a table that another process has opened at @first. */
TRACE_EVENT(cohort_join,
	TP_PROTO(struct mm_struct *mm, unsigned long addr, unsigned long first,
		 unsigned int users),
	TP_ARGS(mm, addr, first, users),
	TP_STRUCT__entry(
		__field(struct mm_struct *, mm)
		__field(unsigned long, addr)
		__field(unsigned long, first)
		__field(unsigned int, users)
	),
	TP_fast_assign(
		__entry->mm = mm;
		__entry->addr = addr;
		__entry->first = first;
		__entry->users = users;
	),
	TP_printk("mm=%p addr=%lx first=%lx users=%u", __entry->mm,
		  __entry->addr, __entry->first, __entry->users)
);

/* A process gets its own copy; @users still includes it. */
TRACE_EVENT(cohort_unshare,
	TP_PROTO(struct mm_struct *mm, unsigned long addr,
		 enum cohort_cause cause, unsigned int users,
		 unsigned long copied),
	TP_ARGS(mm, addr, cause, users, copied),
	TP_STRUCT__entry(
		__field(struct mm_struct *, mm)
		__field(unsigned long, addr)
		__field(int, cause)
		__field(unsigned int, users)
		__field(unsigned long, copied)
	),
	TP_fast_assign(
		__entry->mm = mm;
		__entry->addr = addr;
		__entry->cause = cause;
		__entry->users = users;
		__entry->copied = copied;
	),
	TP_printk("mm=%p addr=%lx cause=%s users=%u copied=%lu", __entry->mm,
		  __entry->addr,
		  __print_symbolic(__entry->cause,
				   { COHORT_FAULT, "fault" },
				   { COHORT_MAP, "map" },
				   { COHORT_UNMAP, "unmap" },
				   { COHORT_CHANGE, "change" },
				   { COHORT_MLOCK, "mlock" }),
		  __entry->users, __entry->copied)
);

/* A process leaves a table without a copy: it exits, or unmaps all of the table. */
TRACE_EVENT(cohort_leave,
	TP_PROTO(struct mm_struct *mm, unsigned long addr, unsigned int users),
	TP_ARGS(mm, addr, users),
	TP_STRUCT__entry(
		__field(struct mm_struct *, mm)
		__field(unsigned long, addr)
		__field(unsigned int, users)
	),
	TP_fast_assign(
		__entry->mm = mm;
		__entry->addr = addr;
		__entry->users = users;
	),
	TP_printk("mm=%p addr=%lx users=%u", __entry->mm, __entry->addr,
		  __entry->users)
);

/* The last user takes the table back. */
TRACE_EVENT(cohort_adopt,
	TP_PROTO(struct mm_struct *mm, unsigned long addr),
	TP_ARGS(mm, addr),
	TP_STRUCT__entry(
		__field(struct mm_struct *, mm)
		__field(unsigned long, addr)
	),
	TP_fast_assign(
		__entry->mm = mm;
		__entry->addr = addr;
	),
	TP_printk("mm=%p addr=%lx", __entry->mm, __entry->addr)
);

#endif /* _TRACE_COHORT_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
