// SPDX-License-Identifier: GPL-2.0-only
/* The interface to user space: the files in sysfs, the modes, and the counters. */
#include "common.h"

static const struct knob {
	const char *file;
	const char *words[4];
} knobs[] = {
	{ COHORT_SYSFS "enabled", { "always", "optin", "never" } },
	{ COHORT_SYSFS "unshare_copy", { "all", "referenced" } },
	{ COHORT_SYSFS "fork_copy", { "stock", "file" } },
	{ COHORT_SYSFS "count", { "off", "on" } },
};

static char original[ARRAY_SIZE(knobs)][32];

/*
 * read the word in brackets; fail if the words are wrong, or not just one is in
 * brackets
 */
static void knob_get(const struct knob *k, char *word, size_t size)
{
	char buf[128], line[128], *w, *save;
	int found = 0, chosen = 0, known = 0;

	must(read_text(k->file, buf, sizeof(buf)) > 0, "%s cannot be read", k->file);
	memcpy(line, buf, sizeof(line));
	for (w = strtok_r(line, "\n ", &save); w; w = strtok_r(NULL, "\n ", &save)) {
		if (*w == '[' && w[strlen(w) - 1] == ']') {
			w[strlen(w) - 1] = 0;
			snprintf(word, size, "%s", ++w);
			chosen++;
		}
		found++;
		for (int i = 0; k->words[i]; i++)
			known += !strcmp(w, k->words[i]);
	}
	must(chosen == 1 && known == found && !k->words[found], "%s reads '%s'", k->file, buf);
}

static void knob_set(const struct knob *k, const char *word)
{
	char now[32];
	int ret = write_text(k->file, word);

	if (ret == -EACCES || ret == -EPERM || ret == -EROFS)
		skip("%s cannot be written: %s", k->file, strerror(-ret));
	must(!ret, "writing %s to %s: %s", word, k->file, strerror(-ret));
	knob_get(k, now, sizeof(now));
	must(!strcmp(now, word), "%s was told %s and reads %s", k->file, word, now);
}

static void set_mode(const char *word)
{
	need_cohort();
	knob_set(&knobs[0], word);
	cohort_mode = !strcmp(word, "never") ? MODE_NEVER :
		      !strcmp(word, "optin") ? MODE_OPTIN : MODE_ALWAYS;
}

static void test_round_trip(long index)
{
	const struct knob *k = &knobs[index];
	char line[40];

	need_cohort();
	for (int round = 0; round < 2; round++)
		for (int i = 0; k->words[i]; i++) {
			knob_set(k, k->words[i]);
			/* as echo writes it */
			snprintf(line, sizeof(line), "%s\n", k->words[i]);
			must(!write_text(k->file, line), "%s with a newline is refused",
			     k->words[i]);
		}
	knob_set(k, original[index]);
}

static void test_bad_words(long index)
{
	static const char * const bad[] = {
		"bogus", "nevermore", "alway", "al", "0", "1", "-1", " ", "\n", "[never]",
		"always never", "always\nnever", "ALWAYS", "all referenced", "stocks",
	};
	const struct knob *k = &knobs[index];
	char before[32], after[32], large[4000];
	int ret;

	need_cohort();
	knob_get(k, before, sizeof(before));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ret = write_text(k->file, bad[i]);
		if (ret == -EACCES || ret == -EROFS)
			skip("%s cannot be written", k->file);
		must(ret == -EINVAL, "'%s' gives %s", bad[i], ret ? strerror(-ret) : "no error");
		knob_get(k, after, sizeof(after));
		must(!strcmp(before, after), "'%s' changed %s to %s", bad[i], before, after);
	}
	memset(large, 'a', sizeof(large) - 1);
	large[sizeof(large) - 1] = 0;
	must(write_text(k->file, large) == -EINVAL, "a word of 4000 letters is taken");
}

static void test_permissions(long arg)
{
	struct stat st;

	need_cohort();
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
		must_call(stat(knobs[i].file, &st));
		must((st.st_mode & 0777) == 0644 && !st.st_uid, "%s has mode %o, owner %d",
		     knobs[i].file, st.st_mode & 0777, st.st_uid);
	}
}

/* --- what the modes do ---------------------------------------------------- */

static void test_mode_never(long arg)
{
	long events;

	set_mode("never");
	area_make(&area, ANON);
	become_zygote();
	events = vm_event("cohort_ptp_shared");
	must(!tables_shared_with(6, 7), "tables are shared although the mode is never");
	must(vm_event("cohort_ptp_shared") == events, "cohort_ptp_shared moved");
	/* the recorded flag takes effect when the mode allows sharing */
	set_mode("optin");
	must(tables_shared_with(6, 7) == 1, "PR_SET_COHORT under never was not recorded");
}

static void test_mode_optin(long arg)
{
	set_mode("optin");
	area_make(&area, ANON);
	must(!tables_shared_with(6, 7), "a process that did not opt in shares tables");
	become_zygote();
	must(tables_shared_with(6, 7) == 1, "a zygote does not share its table");
	must_call(prctl(PR_SET_COHORT, 0, 0, 0, 0));
	must(!tables_shared_with(6, 7), "a process that opted out shares tables");
}

static void test_mode_always(long arg)
{
	set_mode("always");
	area_make(&area, ANON);
	must(tables_shared_with(6, 7) == 1, "always does not share the table of a plain process");
}

static void test_switch_while_shared(long arg)
{
	static const char * const words[] = { "never", "always", "optin", "never" };

	set_mode("optin");
	area_make(&area, MIXED);
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	for (int i = 0; i <= 3; i++)
		model_init(&board->model[i], &area);
	for (int i = 0; i <= 3; i++) {
		set_mode(words[i]);
		model_check_all(4);
		ask(i, model_scribble, i, 4);
		model_check_all(4);
	}
}

static void test_booted_never(long arg)
{
	const char *env = getenv("COHORT_MODE");
	char cmdline[4096];

	if (cohort_mode != MODE_NEVER)
		skip("the mode is not never");
	if (!env)
		read_text("/proc/cmdline", cmdline, sizeof(cmdline));
	/* if it was booted with `never`, no table was ever shared */
	if (env || strstr(cmdline, "cohort=never"))
		must(!vm_event("cohort_ptp_shared"), "%ld tables were shared since boot",
		     vm_event("cohort_ptp_shared"));
	area_make(&area, MIXED);
	become_zygote();
	must(!tables_shared_with(6, 7), "tables are shared although the mode is never");
	spawn(1);
	must(shared_tables(pid_of(1)) == 0, "the child shares %ld tables",
	     shared_tables(pid_of(1)));
}

static void test_unshare_copy(long arg)
{
	static const char * const words[] = { "all", "referenced" };
	long copied[2];

	set_mode("optin");
	become_zygote();
	for (int i = 0; i < 2; i++) {
		knob_set(&knobs[1], words[i]);
		for (enum kind kind = ANON; kind <= MIXED; kind++) {
			/* skip these: a missing file system would skip the whole case */
			if (kind == PRIV_DISK || kind == SHARED_DISK || kind == SYSV)
				continue;
			area_make(&area, kind);
			spawn(1);
			spawn(2);
			for (int p = 0; p <= 2; p++)
				model_init(&board->model[p], &area);
			copied[i] = vm_event("cohort_pte_copied_unshare");
			ask(1, model_scribble, 1, 3);
			copied[i] = vm_event("cohort_pte_copied_unshare") - copied[i];
			must(kind != ANON || copied[i] >= 1, "unsharing copied no entry");
			model_check_all(3);
			model_scribble_all(3);
			model_check_all(3);
			quit(1);
			quit(2);
		}
	}
	knob_set(&knobs[1], original[1]);
}

static void test_fork_copy(long arg)
{
	static const char * const words[] = { "stock", "file" };
	char *last;

	set_mode("never");
	area_make(&area, PRIV_FILE_RO);
	last = area.spot[1].addr;
	must(pagemap_entry(0, last) & PM_PRESENT, "a page just read is not there");
	for (int i = 0; i < 2; i++) {
		bool there;

		knob_set(&knobs[2], words[i]);
		spawn(i + 1);
		there = pagemap_entry(pid_of(i + 1), last) & PM_PRESENT;
		must(there == i, "%s: the child %s the file's entry", words[i],
		     there ? "has" : "lacks");
		ask(i + 1, spots_intact, (long)&area, 0);
	}
	knob_set(&knobs[2], original[2]);
}

static long write_page(long addr, long b)
{
	page_fill((char *)addr, 7);
	return vm_event("cohort_pte_copied_unshare");
}

/* Unsharing leaves entries behind that fault-around mapped and no process used. */
static void test_unused_entries(long arg)
{
	const int pages = 64;
	long before, copied;
	char *file, *anon;

	if (!sharing_possible())
		skip("this kernel shares no tables now");
	if (!HARDWARE_AGES)
		skip("pages beside a fault are mapped young here");
	become_zygote();
	file = map_at(arena(1), pages * page_size, PROT_READ, MAP_PRIVATE | MAP_FIXED,
		      make_file("tmpfs", pages), 0);
	anon = map_at(file + 2 * pages * page_size, page_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	page_fill(anon, 5);
	touch(file);
	must(pagemap_entry(0, file + page_size) & PM_PRESENT,
	     "nothing was mapped beside the fault");
	spawn(1);
	ask(1, nothing, 0, 0);
	before = vm_event("cohort_pte_copied_unshare");
	copied = ask(1, write_page, (long)anon, 0) - before;
	must(copied >= 1, "the write did not unshare");
	must(copied <= 4, "%ld entries came along, but two pages were used", copied);
	sees(page_is(anon, 5), "the zygote sees its child's write");
}

static void test_counters(long arg)
{
	static const char * const names[] = {
		"cohort_ptp_alloc", "cohort_ptp_shared", "cohort_ptp_unshared_fault",
		"cohort_ptp_unshared_map", "cohort_ptp_unshared_unmap",
		"cohort_ptp_unshared_change", "cohort_ptp_left", "cohort_ptp_adopted",
		"cohort_pte_copied_fork", "cohort_pte_copied_unshare",
		"cohort_fault_spurious", "cohort_fault_file", "cohort_fault_filled",
	};
	/* those of paths that every process takes */
	static const char * const costly_counts[] = {
		"cohort_ptp_alloc", "cohort_pte_copied_fork", "cohort_fault_file",
	};
	long before[ARRAY_SIZE(costly_counts)], grew;

	if (cohort_mode == MODE_STOCK) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			must(vm_event(names[i]) < 0, "%s without Cohort", names[i]);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		must(vm_event(names[i]) >= 0, "no counter %s", names[i]);
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (!strcmp(knobs[i].file, COHORT_SYSFS "count"))
			knob_set(&knobs[i], arg ? "on" : "off");
	for (size_t i = 0; i < ARRAY_SIZE(costly_counts); i++)
		before[i] = vm_event(costly_counts[i]);
	area_make(&area, BORDERS);
	spawn(1);
	quit(1);
	grew = vm_event("cohort_ptp_alloc") - before[0];
	if (arg) {
		must(grew >= 3, "three tables were made, cohort_ptp_alloc grew by %ld", grew);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(costly_counts); i++)
		must(vm_event(costly_counts[i]) == before[i], "%s grew by %ld while off",
		     costly_counts[i], vm_event(costly_counts[i]) - before[i]);
}

/* restore what a failed case changed */
static void put_back(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (original[i][0])
			write_text(knobs[i].file, original[i]);
}

static const struct test_case cases[] = {
	{ "Does `enabled` read as it was written?", test_round_trip, 0, .guards = INTERFACE },
	{ "Does `unshare_copy` read as it was written?", test_round_trip, 1, .guards = INTERFACE },
	{ "Does `fork_copy` read as it was written?", test_round_trip, 2, .guards = INTERFACE },
	{ "Does `count` read as it was written?", test_round_trip, 3, .guards = INTERFACE },
	{ "A wrong word for `enabled` gives EINVAL and changes nothing", test_bad_words, 0,
	  .guards = INTERFACE },
	{ "A wrong word for `unshare_copy` gives EINVAL and changes nothing", test_bad_words, 1,
	  .guards = INTERFACE },
	{ "A wrong word for `fork_copy` gives EINVAL and changes nothing", test_bad_words, 2,
	  .guards = INTERFACE },
	{ "A wrong word for `count` gives EINVAL and changes nothing", test_bad_words, 3,
	  .guards = INTERFACE },
	{ "Only root may write the files in sysfs", test_permissions, .guards = INTERFACE },
	{ "Booted with `never`, nothing is shared", test_booted_never, .guards = POLICY },
	{ "`never` shares nothing, and remembers the zygote", test_mode_never, .guards = POLICY },
	{ "`optin` shares what a zygote forks, nothing else", test_mode_optin,
	  .guards = INVARIANT(10) | POLICY },
	{ "`always` shares what anybody forks", test_mode_always, .guards = POLICY },
	{ "Do tables that are shared stay right when the mode changes?", test_switch_while_shared,
	  .guards = INVARIANT(2) | POLICY },
	{ "Is the memory right with either `unshare_copy`?", test_unshare_copy,
	  .guards = INVARIANT(2) | POLICY },
	{ "`fork_copy` decides whether fork copies file entries", test_fork_copy,
	  .guards = POLICY },
	{ "Entries that nobody used are not taken along", test_unused_entries, .guards = POLICY },
	{ "The counters in /proc/vmstat are there, and count", test_counters, 1,
	  .guards = INTERFACE },
	{ "Nothing is counted where every process comes along, unless it is asked for",
	  test_counters, 0, .guards = INVARIANT(10) | INTERFACE },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
		char buf[128], *word;

		/* a file with a wrong format fails in its own case */
		if (read_text(knobs[i].file, buf, sizeof(buf)) <= 0)
			continue;
		word = strchr(buf, '[');
		if (word)
			snprintf(original[i], sizeof(original[i]), "%.*s",
				 (int)strcspn(word + 1, "]"), word + 1);
	}
	after_each_case = put_back;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
