/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Used by all Cohort selftests: cases, each run in its own process; peers
 * (processes that execute commands, in lock-step), areas (memory of one kind
 * with marked pages in it) and models (what a process must see).
 *
 * Nothing in here needs a kernel with Cohort. Cases check what stock Linux
 * promises; only those that read Cohort's counters are skipped on other kernels.
 */
#ifndef COHORT_SELFTEST_COMMON_H
#define COHORT_SELFTEST_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* /proc/PID/mem has offsets above 2 GB on 32-bit machines too */
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <linux/types.h>

#include "kselftest.h"

#include "lib/case.h"
#include "lib/kernel.h"
#include "lib/page.h"
#include "lib/area.h"
#include "lib/peer.h"
#include "lib/model.h"
#include "lib/cohort.h"
#include "lib/thread.h"
#include "lib/pressure.h"
#include "lib/group.h"
#include "lib/ksm.h"
#include "lib/inject.h"
#include "lib/uprobe.h"

#endif
