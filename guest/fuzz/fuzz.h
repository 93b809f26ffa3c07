/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A differential fuzzer of memory management: a tree of processes does random
 * operations on the same small range of addresses, and an oracle that is told
 * what they did knows what each of them must see.
 *
 *   controller	makes up commands, hands them out, keeps the oracle. Maps
 *		nothing of what is tested.
 *   workers	processes forked from one another, or started by exec, which execute
 *		commands and report what came of it. They know nothing.
 *
 * A round hands a burst of commands to one worker (serial: the same seed gives
 * the same run) or to several at once (race: what is private to a process has
 * still one right value, whatever the others do at the time).
 *
 * The kernel's interface is all there is to it: it runs on any Linux, as root.
 */
#ifndef FUZZ_H
#define FUZZ_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* Offsets in /proc/PID/mem and pagemap have 64 bits on every architecture. */
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define PAGE		4096UL
#define CHUNK		512		/* pages that one last-level table maps */
#define NR_CHUNKS	9		/* the last is the heap, moved by brk() */
#define MAP_PAGES	((NR_CHUNKS - 1) * CHUNK)
#define UPPER_PAGES	(3 * CHUNK)	/* these have a gigabyte of their own */
#define NR_PAGES	(NR_CHUNKS * CHUNK)
#define NR_SLOTS	14
#define NR_FILES	4		/* objects with a descriptor: 0,1 memfd, 2,3 files */
#define NR_OBJECTS	48
#define OBJ_PAGES	1024
#define HOT_PAGES	12		/* see pick_page() */
#define MAX_REGIONS	30		/* see too_many_regions() */
#define NOISE_PAGES	UPPER_PAGES	/* see noise_main() */
#define MAX_BURST	64
#define CONTROLLER	255		/* "slot" of commands that the controller does */

/*
 * The content of a page: four cells of 16 words, one in each quarter of the page. A
 * cell is all zero, or word i is tag + i. The low byte of a tag is 0, so a cell's
 * first word tells all of it, and no two writes of a run have the same tag (but
 * for FILL's, made for KSM). Nobody looks at the rest: page tables know pages
 * only, and looking is most of what an operation costs that needs no fault.
 */
#define CELLS		4
#define CELL_WORDS	16
#define CELL_STRIDE	(PAGE / 8 / CELLS)
#define UNKNOWN		(~0ULL)		/* to be learned at the next look */
#define ID_FILE		0xfffd
#define ID_CONST	0xfffe

static inline u64 make_tag(u32 id, u32 seq, u32 page)
{
	return (u64)id << 48 | (u64)(seq & 0xfffffff) << 20 | (page & 0xfff) << 8;
}

/* Name, short description; the arguments are explained where it is executed. */
#define COMMANDS(X)							\
	X(CHECK) X(WRITE) X(FILL) X(MAP) X(UNMAP) X(PROTECT) X(MOVE)	\
	X(RESIZE) X(ADVISE) X(LOCK) X(UNLOCK) X(FORK) X(EXIT) X(KILL)	\
	X(EXEC) X(VMREAD) X(VMWRITE) X(MEMREAD) X(MEMWRITE) X(PWRITE)	\
	X(TRUNC) X(PUNCH) X(BRK) X(REFS) X(LOOK) X(UREG) X(UUNREG)	\
	X(UCOPY) X(UZERO) X(UPROT) X(SPLICE) X(DRAIN) X(PIN) X(PINREAD)	\
	X(UNPIN) X(ZYGOTE) X(MIGRATE) X(COMPACT) X(DROP) X(SWAPOFF)	\
	X(MODE) X(QUIET) X(WATCH) X(ADVOTHER) X(SCAN) X(RECLAIM)	\
	X(SPAWN) X(BECOME) X(LEAVE) X(BALLAST)

enum op {
#define X(name) OP_##name,
	COMMANDS(X)
#undef X
	NR_OPS
};

extern const char *const op_names[NR_OPS];

struct cmd {
	u8 op;
	u8 slot;
	u16 page;
	u16 n;			/* pages */
	u32 a, b, c;
};

enum status { ST_OK, ST_SEGV, ST_BUS, ST_GARBAGE };

struct page_result {
	u64 tag[CELLS];
	u8 status;
};

struct result {
	s64 ret;		/* or -errno */
	u32 first;		/* in page_results */
	u32 done;		/* it was executed */
};

/* Where a process has the pages that are tested. */
struct layout {
	unsigned long base;
	unsigned long heap;
};

/* A worker's place on the board, the memory it shares with the controller. */
#define SLOT_RESULTS	2048
struct slot {
	struct layout layout;
	u32 go, done;		/* futexes: the round handed out, and finished */
	u32 id;			/* the writer's mark in tags, new for each process */
	u32 n;
	u32 noise;		/* threads that touch pages during the burst */
	u32 at;			/* the command that is executed */
	u32 ready;		/* futex: a worker that starts by exec has started */
	struct cmd cmds[MAX_BURST];
	struct result results[MAX_BURST];
	u32 nr_pages;
	struct page_result pages[SLOT_RESULTS];
	u64 noise_bad;		/* a word that a thread must not have seen, or 0 */
};

struct board {
	struct slot slots[NR_SLOTS];
	pid_t pids[NR_SLOTS];	/* for commands that name another process */
	/* Set up before the first worker. */
	int file_fds[NR_FILES];
	int pipes[NR_SLOTS][2];
	int ballast_fd;
	bool moves_holes;	/* see move() */
	char sabotage[16];
};

extern struct board *board;
extern struct layout layout;	/* this process's own */

/*
 * Where a process has the pages that are tested, at MAX_SHIFT different places, the board
 * and the controller's memory. Addresses of 32 bits have 3 GB for all of it: the program
 * and its heap lie below, the stack and what mmap() finds a place for above.
 */
#if __SIZEOF_POINTER__ == 8
#define MAP_BASE	(1UL << 44)
#define MAX_SHIFT	((1UL << 32) - (1UL << 20))
#define BOARD_AT	(2UL << 44)
#define WORLD_AT	(3UL << 44)
#else
#define MAP_BASE	0x10000000UL
#define MAX_SHIFT	0x28000UL
#define BOARD_AT	0x3a000000UL
#define WORLD_AT	0x3c000000UL
#endif

/*
 * The first pages lie in a gigabyte that has mostly shared memory: there a kernel
 * may share a table of tables. It may ask for more than a few pages, hence the
 * ballast, which nobody touches but for BALLAST: by a fault there, a process that
 * started by exec may join a table of tables.
 */
#define GIGABYTE	(1UL << 30)
#define BALLAST		(128UL << 20)
#define BALLAST_AT	(GIGABYTE + GIGABYTE / 2)
/* MAX_SHIFT: pages by which a layout may be moved. The board lies behind all of them. */
_Static_assert(MAP_BASE + MAX_SHIFT * PAGE + MAP_PAGES * PAGE <= BOARD_AT,
	       "pages that are tested reach the board");

static inline char *layout_addr(const struct layout *of, u32 page)
{
	if (page >= MAP_PAGES)
		return (char *)of->heap + (page - MAP_PAGES) * PAGE;
	return (char *)of->base + (page < UPPER_PAGES ? GIGABYTE : 0) +
	       page * PAGE;
}

static inline char *page_addr(u32 page)
{
	return layout_addr(&layout, page);
}

/* The first page that does not lie behind @page's. */
static inline u32 segment_end(u32 page)
{
	return page < UPPER_PAGES ? UPPER_PAGES :
	       page < MAP_PAGES ? MAP_PAGES : NR_PAGES;
}

/* ---- the oracle --------------------------------------------------------- */
enum kind { K_NONE, K_ANON, K_PRIVATE, K_SHARED };	/* PRIVATE: of a file */

/* Flags of a page in the oracle. */
#define F_COWED		(1 << 0)	/* a private file page has been copied */
#define F_FILLED	(1 << 1)	/* an entry is there for certain */
#define F_LOCKED	(1 << 2)
#define F_DONTFORK	(1 << 3)
#define F_WIPE		(1 << 4)
#define F_MISSING	(1 << 5)	/* registered with userfaultfd */
#define F_WP		(1 << 6)	/* ditto, for write protection */
#define F_WP_ON		(1 << 7)	/* write-protected for certain */
#define F_WP_MAYBE	(1 << 8)
#define F_PINNED	(1 << 9)	/* the page that a pin of this process holds */

struct mpage {
	u8 kind, prot, obj;
	u8 lazy;		/* cells that may have become zero (MADV_FREE) */
	u16 off;		/* page in the object */
	u16 flags;
	u32 inst;		/* which mmap() made it */
	u64 tag[CELLS];
};

#define MAX_LENT	6
struct lent {			/* a page in the pipe */
	bool strict;
	u64 tag[CELLS];
};

struct proc {
	bool alive;
	pid_t pid;
	u32 id;
	u32 brk;		/* pages */
	u32 zygote;
	u32 nr_lent;
	struct lent lent[MAX_LENT];
	bool pinned;
	u16 pin_page, pin_n;
	struct mpage pages[NR_PAGES];
};

struct object {
	bool used, file;
	bool huge;		/* may have huge pages */
	u32 size;		/* pages */
	u32 refs;		/* pages that map it */
	u64 tag[OBJ_PAGES][CELLS];
};

struct world {
	struct proc procs[NR_SLOTS];
	struct object objects[NR_OBJECTS];
	u32 next_id, next_inst, seq;
	u32 alive;
};

extern struct world *world;

bool page_has_content(const struct mpage *page);
void world_reset(void);
void proc_start(u32 slot, pid_t pid);
void proc_end(u32 slot);
/* It executes another program: its memory is gone. */
void proc_exec(struct proc *proc);

/* Takes an executed command and its result; reports a mistake. */
void oracle_apply(const struct cmd *cmd, const struct result *res,
		  const struct page_result *pages);

/* ---- the rest ------------------------------------------------------------ */
struct options {
	u64 seed;
	u64 max_ops;
	u32 seconds;
	u32 episode;		/* only this one, if not 0 */
	u32 episode_ops;
	u32 race;		/* percent of rounds with several workers */
	u32 noise;		/* threads a worker has in such rounds */
	const char *mode;	/* what must share: always, optin, never, any */
	const char *exec;	/* workers start by exec too: equal, random; or NULL */
	const char *join;	/* who joins tables then: user, group, never */
	const char *replay, *replay_all;
	const char *sabotage;
	bool log, tap;
};

extern struct options opt;

/* A mistake of the kernel (or a sabotage): report and count it, and end the run. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The fuzzer itself cannot go on. */
void broken(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
extern bool failed;

u64 rnd64(void);
static inline u32 rnd(u32 n)
{
	return n ? rnd64() % n : 0;
}
void rnd_seed(u64 seed);

/* Makes up the commands of a round: returns how many slots have a burst. */
struct round {
	u32 n;			/* commands */
	bool race;
	int kill;		/* slot to be killed while it works, or -1 */
	struct cmd cmds[NR_SLOTS * MAX_BURST];
};
void generate(struct round *round);
void generate_start(struct round *round, u32 step);

/* @resumes: it has executed the program again, in the middle of a burst. */
void worker(u32 slot, bool resumes) __attribute__((noreturn));
/* The memory that the controller and the workers share. */
void make_board(void);
/* The heap that is tested begins at a table of its own. */
void place_heap(void);
/*
 * Starts a process that executes the fuzzer, with its pages @shift pages behind where
 * they are else, in the group of that number. Returns its number, or -errno.
 */
pid_t start_by_exec(u32 slot, u32 shift, u32 group, int flags);
/* What that process does; @where is the board's descriptor and the slot. */
void worker_by_exec(const char *where) __attribute__((noreturn));
void system_setup(void);
void system_reset_files(void);
void system_command(const struct cmd *cmd);
void system_restore(void);
/* How many tables processes have joined by now, whatever the kernel. */
struct joins {
	u64 opened, joined, withdrawn;
	u64 upper;		/* tables of tables joined */
};
void count_joins(struct joins *joins);
bool read_pagemap(u32 slot, u64 entries[NR_PAGES]);
bool vmstat(const char *name, u64 *value);
u32 shared_tables(pid_t pid);
void account_check(void);
void account_sharing(void);
void account_leaks(bool start);
extern u32 most_shared;		/* tables that a process was seen to share */
int write_file(const char *path, const char *text);
void futex_wait(u32 *word, u32 value, u32 ms);
void futex_wake(u32 *word);
bool parse_command(const char *line, struct cmd *cmd);
void format_command(const struct cmd *cmd, char *text, size_t size);

#endif
