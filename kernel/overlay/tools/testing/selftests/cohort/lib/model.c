// SPDX-License-Identifier: GPL-2.0-only
/* The memory that each process must see. */
#include "../common.h"

void model_init(struct model *m, const struct area *a)
{
	memset(m, 0, sizeof(*m));
	for (int i = 0; i < a->nspots; i++) {
		const struct spot *s = &a->spot[i];
		const struct part *p = &a->part[s->part];
		struct want *w = &m->want[m->n++];

		w->addr = s->addr;
		w->tag = s->tag;
		w->id = i;
		w->acc = p->prot & PROT_WRITE ? WRITE : READ;
		w->shared = p->shared;
	}
}

static void check_want(long who, struct want *w)
{
	int sig = probe_read(w->addr);

	if (w->acc == NONE || w->acc == BUS) {
		int expected = w->acc == BUS ? SIGBUS : SIGSEGV;

		sees(sig == expected, "process %ld, spot %d at %p: read gives %s, not %s",
		     who, w->id, w->addr, sig ? strsignal(sig) : "data",
		     strsignal(expected));
		return;
	}
	sees(!sig, "process %ld, spot %d at %p: read gives %s", who, w->id, w->addr,
	     strsignal(sig));
	if (!page_is(w->addr, w->tag)) {
		const __u64 *word = (__u64 *)w->addr;
		bool zero = page_is(w->addr, 0);

		sees(w->or_zero && page_is(w->addr, 0),
		     "process %ld, spot %d at %p: not tag %u but %s (%llx %llx)", who,
		     w->id, w->addr, w->tag, zero ? "zeros" : "something else",
		     (unsigned long long)word[0], (unsigned long long)word[1]);
	}
	if (w->acc == READ) {
		sig = probe_write(w->addr);
		sees(sig == SIGSEGV, "process %ld, spot %d at %p: write gives %s", who,
		     w->id, w->addr, sig ? strsignal(sig) : "no fault");
	}
}

long model_check(long who, long unused)
{
	struct model *m = &board->model[who];

	for (int i = 0; i < m->n; i++)
		check_want(who, &m->want[i]);
	return 0;
}

long model_scribble(long who, long nr_models)
{
	static unsigned int round;
	struct model *m = &board->model[who];

	round++;
	for (int i = 0; i < m->n; i++) {
		struct want *w = &m->want[i];

		if (w->acc != WRITE)
			continue;
		w->tag = 3000000u + who * 100000u + round % 100 * 1000u + i;
		w->or_zero = false;
		page_fill(w->addr, w->tag);
		if (!w->shared)
			continue;
		for (int p = 0; p < nr_models; p++)
			for (int j = 0; j < board->model[p].n; j++) {
				struct want *other = &board->model[p].want[j];

				if (other->shared && other->id == w->id)
					other->tag = w->tag;
			}
	}
	return 0;
}

void model_check_all(int n)
{
	for (int i = 0; i < n; i++)
		if (board->model[i].n)
			ask(i, model_check, i, 0);
}

void model_scribble_all(int n)
{
	for (int i = 0; i < n; i++)
		if (board->model[i].n)
			ask(i, model_scribble, i, n);
}

void models_right(int n)
{
	for (int i = 0; i < 2; i++) {
		model_check_all(n);
		model_scribble_all(n);
	}
	model_check_all(n);
}

void spawn_models(int peers, const struct area *a)
{
	for (int i = 0; i <= peers; i++) {
		if (i)
			spawn(i);
		model_init(&board->model[i], a);
	}
}

void start_models(enum kind kind, int children)
{
	area_make(&area, kind);
	become_zygote();
	need_peers(8);
	spawn_models(children, &area);
}
