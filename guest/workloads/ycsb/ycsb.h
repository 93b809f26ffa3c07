/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ycsb says to kv-server. */
#ifndef YCSB_H
#define YCSB_H

#include <stdint.h>

/* A record of YCSB: ten fields of 100 bytes, here in one piece. */
#define RECORD 1000

/* A request of ycsb's file that changes the record, and does not read it. */
#define YCSB_UPDATE 0x80000000u

/* Ask for a record, or put another in its place, which follows. */
struct ycsb_request {
	uint32_t update, key;
};

/* RECORD bytes follow if it was not an update. */
struct ycsb_answer {
	uint32_t key;
};

#endif
