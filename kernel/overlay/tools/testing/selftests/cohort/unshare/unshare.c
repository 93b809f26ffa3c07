// SPDX-License-Identifier: GPL-2.0-only
/* Leaving a shared table: who acts, and who must notice. */
#include "unshare.h"

static const char * const cause_names[] = {
	"cohort_ptp_unshared_fault", "cohort_ptp_unshared_map",
	"cohort_ptp_unshared_unmap", "cohort_ptp_unshared_change",
	"cohort_ptp_left",
};

struct range whole(int part)
{
	struct part *p = &area.part[part];

	return (struct range){ p->addr, p->len, p };
}

struct range middle(int part)
{
	struct part *p = &area.part[part];
	int first = 0, last, n;
	struct range r = { .part = p };

	while (area.spot[first].part != part)
		first++;
	for (last = first; last + 1 < area.nspots && area.spot[last + 1].part == part;)
		last++;
	n = last - first + 1;
	r.start = area.spot[first + n / 3].addr;
	r.len = area.spot[first + 2 * n / 3].addr + page_size - r.start;
	return r;
}

struct range one_page(char *addr)
{
	struct range r = { addr, page_size, NULL };

	for (int i = 0; i < area.nparts; i++)
		if (addr >= area.part[i].addr && addr < area.part[i].addr + area.part[i].len)
			r.part = &area.part[i];
	return r;
}

bool inside(const struct want *w, struct range r)
{
	return w->addr >= r.start && w->addr < r.start + r.len;
}

void now_acc(struct model *m, struct range r, enum access acc)
{
	for (int i = 0; i < m->n; i++)
		if (inside(&m->want[i], r))
			m->want[i].acc = acc;
}

/* the private copies are gone, what was below comes through */
void now_dropped(struct model *m, struct range r)
{
	for (int i = 0; i < m->n; i++)
		if (inside(&m->want[i], r) && !m->want[i].shared)
			m->want[i].tag = area.spot[m->want[i].id].file_tag;
}

void now_private_zero(struct model *m, struct range r)
{
	for (int i = 0; i < m->n; i++)
		if (inside(&m->want[i], r)) {
			m->want[i].tag = 0;
			m->want[i].shared = false;
			m->want[i].acc = WRITE;
		}
}

struct want *add_want(struct model *m, char *addr, unsigned int tag, enum access acc)
{
	struct want *w = &m->want[m->n++];

	must(m->n <= MAX_WANTS, "too many pages to watch");
	*w = (struct want){ .addr = addr, .tag = tag, .acc = acc, .id = -1 };
	return w;
}

/* the pages of r are at another address now; `left` says what is at the old one */
void now_moved(struct model *m, struct range r, char *to, enum access left)
{
	int n = m->n;

	for (int i = 0; i < n; i++) {
		struct want *w = &m->want[i];
		char *old = w->addr;

		if (!inside(w, r))
			continue;
		w->addr = to + (old - r.start);
		if (left == NONE) {
			add_want(m, old, 0, NONE);
		} else {
			struct want *copy = add_want(m, old, 0, w->acc);

			copy->id = w->id;
			copy->shared = w->shared;
			copy->tag = w->shared ? w->tag : area.spot[w->id].file_tag;
		}
	}
}

static const struct action *actions;

static long do_action(long index, long me)
{
	actions[index].fn(&board->model[me], me);
	return 0;
}

static void play(long index, enum kind kind, int role)
{
	static const struct {
		const char *text;
		int first, last, actor, bystander;
	} roles[] = {
		{ "the parent acts", 0, 2, 0, 1 },
		{ "a child acts", 0, 2, 1, 2 },
		{ "a child acts, the parent has gone", 1, 3, 2, 1 },
	};
	const struct action *act = &actions[index];
	int first = roles[role].first, last = roles[role].last;
	int actor = roles[role].actor, bystander = roles[role].bystander;
	int witness = last + 1;
	long before[ARRAY_SIZE(cause_names)], shared = -1, grown = 0;

	memset(board->model, 0, sizeof(board->model));
	area_make(&area, kind);
	become_zygote();
	/*
	 * The witness writes nothing that the bystander does not write. So each table
	 * that the bystander shares has a second sharer besides the actor, which may
	 * leave tables of libc's too, and the bystander's number must stay. This process
	 * writes between two forks what it writes between any other two: the tables that
	 * it leaves then are the same for every child.
	 */
	for (int i = 1; i <= witness; i++)
		spawn(i);
	if (first)
		area_unmap(&area);
	for (int i = first; i <= last; i++) {
		model_init(&board->model[i], &area);
		ask(i, nothing, 0, 0);
	}
	ask(witness, nothing, 0, 0);

	for (size_t i = 0; i < ARRAY_SIZE(cause_names); i++)
		before[i] = vm_event(cause_names[i]);
	if (sharing_possible())
		shared = shared_tables(pid_of(bystander));

	ask(actor, do_action, index, actor);

	for (size_t i = 0; i < ARRAY_SIZE(cause_names); i++)
		if (act->causes & (1 << i))
			grown += vm_event(cause_names[i]) - before[i];
	/* a write does not unshare a table with shared mappings only */
	if (sharing_possible() && act->causes &&
	    !(act->causes == BY_FAULT && kind_shared(kind)))
		must(grown > 0, "%s: no counter of unshared tables moved", roles[role].text);
	if (shared >= 0) {
		shared -= shared_tables(pid_of(bystander));
		must(!shared, "%s: another process shares %ld tables less", roles[role].text,
		     shared);
	}

	must(!proc_field(pid_of(bystander), "status", "VmLck"), "%s: another has locked memory",
	     roles[role].text);

	model_check_all(last + 1);
	model_scribble_all(last + 1);
	model_check_all(last + 1);

	/* the actor's next child inherits its memory */
	spawn_from(actor, 5);
	board->model[5] = board->model[actor];
	if (act->fork_view)
		act->fork_view(&board->model[5]);
	model_check_all(6);
	model_scribble_all(6);
	model_check_all(6);

	/* the others keep theirs when it exits */
	if (actor != SELF) {
		quit(actor);
		board->model[actor].n = 0;
	}
	quit(5);
	board->model[5].n = 0;
	model_check_all(6);
	for (int i = 1; i <= witness; i++)
		if (i != actor)
			quit(i);
	/* role 2 has unmapped it */
	if (!first)
		model_check(SELF, 0);
}

static void test_action(long arg)
{
	enum kind kind = ARG_KIND(arg);
	long index = ARG_ARG(arg);
	int role;

	for (role = 0; role < 3; role++) {
		/* a quick run takes the roles in turn */
		if (quick && role != (index + kind) % 3)
			continue;
		play(index, kind, role);
	}
}

int run_actions(int argc, char **argv, const struct action *list, int nr,
		const struct test_case *more_cases, int nr_more)
{
	struct test_case *cases = calloc(nr + nr_more, sizeof(*cases));
	char (*text)[96] = calloc(nr, sizeof(*text));

	if (!cases || !text)
		ksft_exit_fail_perror("calloc");
	actions = list;
	for (int i = 0; i < nr; i++) {
		snprintf(text[i], sizeof(text[i]), "Who notices %s?", actions[i].desc);
		cases[i] = (struct test_case){
			.desc = text[i], .fn = test_action, .arg = i,
			.kinds = actions[i].kinds, .quick_kinds = SOME_KINDS,
			.guards = actions[i].guards,
		};
	}
	memcpy(cases + nr, more_cases, nr_more * sizeof(*cases));
	return run_cases(argc, argv, cases, nr + nr_more);
}
