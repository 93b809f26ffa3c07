/* SPDX-License-Identifier: GPL-2.0-only */
/* Reports of the kernel in /proc and /sys. */
#ifndef COHORT_SELFTEST_KERNEL_H
#define COHORT_SELFTEST_KERNEL_H

#include "case.h"
#include "uapi.h"

#define COHORT_SYSFS	"/sys/kernel/mm/cohort/"
#define THP		"/sys/kernel/mm/transparent_hugepage/"

enum cohort_mode { MODE_STOCK, MODE_NEVER, MODE_OPTIN, MODE_ALWAYS };

/* processors set the accessed bit: an old entry costs no fault */
#ifdef __arm__
#define HARDWARE_AGES		false
#else
#define HARDWARE_AGES		true
#endif

extern unsigned long page_size;
extern unsigned long table_size;	/* what one last-level table maps */
extern enum cohort_mode cohort_mode;

enum cohort_mode detect_mode(const char *expected_mode);
bool sharing_possible(void);	/* a zygote's fork shares tables here and now */
bool shares_pmd_tables(void);	/* and, if it can, PMD tables */
void become_zygote(void);	/* does nothing on a stock kernel */
int read_text(const char *path, char *buf, size_t size);	/* length or -errno */
int write_text(const char *path, const char *text);		/* 0 or -errno */
long vm_event(const char *name);	/* from /proc/vmstat, -1 if there is none */
/* value of "Key:" in /proc/PID/FILE, -1 if there is none; pid 0 is oneself */
long proc_field(pid_t pid, const char *file, const char *key);
long shared_tables(pid_t pid);
bool huge_mapped(const void *addr);	/* does its region have a huge page? */
/* value of "Key:" in kB of one's own region at an address, from smaps; -1 if there is none */
long region_field(const void *addr, const char *key);
unsigned char memory_byte(pid_t pid, const void *addr);	/* as a debugger reads it */
__u64 pagemap_entry(pid_t pid, const void *addr);
#define PM_PRESENT	0x8000000000000000ULL
#define PM_SWAP		0x4000000000000000ULL
#define PM_EXCLUSIVE	0x0100000000000000ULL
#define PM_SOFT_DIRTY	0x0080000000000000ULL
#define PM_PFN		0x007fffffffffffffULL
long minor_faults(void);
double now(void);			/* seconds */

#endif
