/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interfaces of the kernel that the installed headers may not have. */
#ifndef LIB_UAPI_H
#define LIB_UAPI_H

/* one list for the selftests, the workloads and the fuzzer */
#include "../../../kernel/overlay/include/uapi/linux/region_order.h"
#include "../../../kernel/overlay/tools/testing/selftests/cohort/lib/uapi.h"

#endif
