/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations shared by the files of the generator. */
#ifndef FUZZ_GENERATE_H
#define FUZZ_GENERATE_H

#include "fuzz.h"

extern bool racing;
extern u32 claimed_read[NR_OBJECTS], claimed_write[NR_OBJECTS];	/* slot + 1 */
extern u32 claimed_slots;	/* to be forked into, or somebody's target */

static inline struct proc *proc_of(const struct cmd *cmd)
{
	return &world->procs[cmd->slot];
}

u32 pick_length(u32 limit);
/*
 * Mostly one of a few pages of a table, so that commands meet: those at its edges
 * and some in the middle. It also keeps tables cheap to copy and regions few.
 */
u32 pick_page(u32 limit);
/* Anywhere in the chunks below @limit, often at the edge of a table. */
void pick_range(struct cmd *cmd, u32 limit, u32 longest);
/* Pages from one that is mapped, as long as they look like one region. */
bool pick_region(struct cmd *cmd, u32 limit, u32 longest);
int pick_slot(bool alive, int but);
/*
 * Regions are what fork and exit cost most, and random operations make ever more:
 * a process with many gets a table's worth of one region instead of a child.
 */
bool too_many_regions(struct cmd *cmd);
/*
 * In a race: may @cmd read, or write, the objects that its range shows at the
 * start of the round? No command of a race changes which they are.
 */
bool claim(const struct cmd *cmd, const struct proc *proc, bool write);
bool only_anon(const struct cmd *cmd, u32 page);
bool any_flag(const struct cmd *cmd, u16 flags);

/*
 * A process maps in a chunk what @from has there, if that is pieces of files alone, else
 * what is made up, and looks at some of it if @looks says so. Returns how many commands
 * that takes.
 */
u32 add_mirror(struct round *round, u32 slot, int from, u32 chunk, bool looks);
/* The same for some chunks, at the start of a burst. */
u32 add_mirrors(struct round *round, u32 slot);
bool mirror_allowed(u32 chunk);
/* A process that has pieces of files alone in a chunk, or -1. */
int mirror_source(u32 chunk, int but);
/* At the start of an episode. */
void end_party(void);
/* Where a process that starts by exec has its pages, and its group. */
u32 pick_shift(void);
u32 pick_group(void);

/* Makes up the arguments of @cmd; false if it makes no sense now. */
bool finish(struct cmd *cmd);

#endif
