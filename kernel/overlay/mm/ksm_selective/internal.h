/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: declarations shared by its parts and mm/ksm.c.
 */
#ifndef _MM_KSM_SELECTIVE_INTERNAL_H
#define _MM_KSM_SELECTIVE_INTERNAL_H

#include <linux/bits.h>
#include <linux/ksm_selective.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <linux/uidgid_types.h>

/**
 * struct ksm_app - an application: processes that are alike
 * @user: the real user ID of its main thread
 * @name: the name of its main thread
 *
 * A name can be had by any process, so it says something only about processes of one
 * user. The executable would say no more: anybody can execute it.
 */
struct ksm_app {
	kuid_t user;
	char name[TASK_COMM_LEN];
};

/**
 * struct ksm_selective - selective merging of one address space
 * @state: why it is dormant and what ksmd has done about it (KSM_DORMANT, ...)
 * @app: the application that it was when it became dormant
 * @scans: number of complete scans
 * @scans_left: number of scans that ended early because it woke
 * @pages_scanned: pages looked at in all scans
 *
 * Part of its ksm_mm_slot: a process without one has nothing to merge and no state.
 * Protected by ksm_mmlist_lock, except the counters, which only ksmd writes.
 */
struct ksm_selective {
	unsigned int state;
	struct ksm_app app;
	unsigned long scans;
	unsigned long scans_left;
	unsigned long pages_scanned;
};

/* --- states (state.c) ----------------------------------------------------- */

/* Why a process is dormant: any of */
#define KSM_DORMANT_WRITTEN	BIT(0)	/* /proc/PID/ksm_dormant */
#define KSM_DORMANT_FROZEN	BIT(1)	/* all its threads are in a frozen cgroup */
#define KSM_DORMANT_OOM		BIT(2)	/* its oom_score_adj is high enough */
#define KSM_DORMANT		(BIT(0) | BIT(1) | BIT(2))
/* What ksmd has done since: at most one of */
#define KSM_SCANNING		BIT(3)
#define KSM_SCANNED		BIT(4)
/* It was forked and has not executed another program. */
#define KSM_FORKED		BIT(5)

/* True if the process has not been active since ksmd began to scan it. */
static inline bool ksm_selective_settled(struct ksm_selective *s)
{
	return READ_ONCE(s->state) & (KSM_SCANNING | KSM_SCANNED);
}

static inline bool ksm_selective_scanning(struct ksm_selective *s)
{
	return READ_ONCE(s->state) & KSM_SCANNING;
}

/* The caller holds ksm_mmlist_lock. */
bool __ksm_selective_begin(struct ksm_selective *s);
bool __ksm_selective_end(struct ksm_selective *s);
void __ksm_selective_forget(struct ksm_selective *s);

void ksm_selective_poke(void);
bool ksm_selective_work(void);
void ksm_selective_begin_round(void);
void ksm_selective_look_again(void);

extern int ksm_dormant_oom_score_adj;
extern unsigned long ksm_dormant_scans;
extern unsigned long ksm_dormant_scans_left;

/* --- profiles (profile.c) ------------------------------------------------- */

enum ksm_scope {
	KSM_SCOPE_ALL,		/* every page */
	KSM_SCOPE_APP,		/* pages that merged before in this application */
	KSM_SCOPE_GLOBAL,	/* pages that merged before in any application */
};

extern enum ksm_scope ksm_scope;
extern bool ksm_scan_new_regions;
extern bool ksm_learning;
extern unsigned long ksm_profile_max_bytes;
extern unsigned long ksm_profile_bytes;
extern unsigned long ksm_profile_refused;

void ksm_profile_begin(const struct ksm_app *app);
void ksm_profile_end(const struct ksm_app *app);
bool ksm_profile_next(struct vm_area_struct *vma, bool forked,
		      unsigned long *addr, unsigned long *end);
void ksm_profile_merged(const struct ksm_app *app, unsigned long addr);
ssize_t ksm_profile_read(char *buf, loff_t off, size_t count);
ssize_t ksm_profile_write(char *buf, size_t count);

/* --- ksmd (mm/ksm.c, through ksmd.c) -------------------------------------- */

struct ksm_selective *ksm_selective_lock(struct mm_struct *mm);
void ksm_selective_unlock(void);
void ksm_selective_wake(void);
void ksm_selective_switch(bool on);
int ksm_selective_learn(void);
int ksm_selective_nice(void);
int ksm_selective_set_nice(int nice);

#endif
