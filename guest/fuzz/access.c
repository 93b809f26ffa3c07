// SPDX-License-Identifier: GPL-2.0-or-later
/* Accesses of a worker to the pages that are tested. */
#include "worker.h"
#include "machine.h"

#include <signal.h>

asm(PROBES);
extern char probe_begin[], probe_end[], probe_fault[];

void on_fault(int sig, siginfo_t *info, void *context)
{
	mcontext_t *regs = &((ucontext_t *)context)->uc_mcontext;
	char *ip = (char *)PC_OF(regs);

	(void)info;
	if (ip < probe_begin || ip >= probe_end) {
		signal(sig, SIG_DFL);
		return;		/* again, and then it ends us */
	}
	PC_OF(regs) = (unsigned long)probe_fault;
	RESULT_OF(regs) = sig;
}

static u8 status_of(long sig)
{
	return sig == 0 ? ST_OK : sig == SIGBUS ? ST_BUS : ST_SEGV;
}

/* The content of a cell, in short; garbage if no write made it. */
static void digest_cell(const u64 *w, struct page_result *pr, u32 cell)
{
	u64 step = w[0] ? 1 : 0;

	pr->tag[cell] = w[0];
	for (u32 i = 0; i < CELL_WORDS; i++)
		if (w[i] != w[0] + i * step || (w[0] & 0xff)) {
			pr->status = ST_GARBAGE;
			pr->tag[cell] = w[i];
			break;
		}
}

void digest(const u64 *words, struct page_result *pr)
{
	pr->status = ST_OK;
	for (u32 cell = 0; cell < CELLS; cell++)
		digest_cell(words + cell * CELL_STRIDE, pr, cell);
}

void fill_words(u64 *words, u64 tag)
{
	for (u32 cell = 0; cell < CELLS; cell++)
		for (u32 i = 0; i < CELL_WORDS; i++)
			words[cell * CELL_STRIDE + i] = tag + (tag ? i : 0);
}

struct page_result *next_page(void)
{
	return &my->pages[my->nr_pages++];
}

s64 check_pages(u32 page, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		struct page_result *pr = next_page();
		u64 *at = (u64 *)page_addr(page + i);
		u64 words[CELL_WORDS];

		pr->status = ST_OK;
		for (u32 cell = 0; cell < CELLS; cell++) {
			long sig = probe_load(words, at + cell * CELL_STRIDE,
					      CELL_WORDS);

			if (sig) {
				pr->status = status_of(sig);
				break;
			}
			digest_cell(words, pr, cell);
		}
	}
	return 0;
}

s64 watch_pages(u32 page, u32 n, u32 who, u32 round)
{
	const u32 *done = &board->slots[who].done;
	long sig = 0;
	u64 word;

	while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != round)
		for (u32 i = 0; i < n && !sig; i++)
			sig = probe_load(&word, (u64 *)page_addr(page + i), 1);
	return check_pages(page, n);
}

s64 store_pages(u32 page, u32 n, u64 (*tag)(u32 page, u32 arg), u32 arg,
		u32 cells)
{
	for (u32 i = 0; i < n; i++) {
		struct page_result *pr = next_page();
		u64 *at = (u64 *)page_addr(page + i);

		pr->status = ST_OK;
		for (u32 cell = 0; cell < CELLS; cell++) {
			long sig;

			if (!(cells & (1 << cell)))
				continue;
			sig = probe_store(at + cell * CELL_STRIDE,
					  tag(page + i, arg), CELL_WORDS);
			if (sig) {
				pr->status = status_of(sig);
				break;
			}
		}
	}
	return 0;
}

u64 own_tag(u32 page, u32 seq)
{
	return make_tag(my->id, seq, page);
}

u64 const_tag(u32 page, u32 arg)
{
	(void)page;
	return make_tag(ID_CONST, arg, 0);
}
