// SPDX-License-Identifier: GPL-2.0-or-later
/* Parts that run a program in an interpreter. */
#include "part.h"

FN(void *, duk_create_heap, void *, void *, void *, void *, void *);
FN(int, duk_eval_raw, void *, const char *, size_t, unsigned);
FN(int, duk_get_int, void *, int);
FN(void, duk_destroy_heap, void *);

static bool duktape_find(void)
{
	const char *so = "libduktape.so.207";

	return GET(so, duk_create_heap) && GET(so, duk_eval_raw) && GET(so, duk_get_int) &&
	       GET(so, duk_destroy_heap);
}

static bool duktape_run(void)
{
	void *d = duk_create_heap(NULL, NULL, NULL, NULL, NULL);
	int result;

	/* EVAL | NOSOURCE | STRLEN | NOFILENAME */
	duk_eval_raw(d, "JSON.parse('{\"a\":[1,2,39]}').a.reduce(function (x, y) { return x + y; })",
		     0, 1 << 3 | 1 << 9 | 1 << 10 | 1 << 11);
	result = duk_get_int(d, -1);
	duk_destroy_heap(d);
	return result == 42;
}

FN(void, Py_InitializeEx, int);
FN(int, PyRun_SimpleStringFlags, const char *, void *);
FN(int, Py_FinalizeEx, void);

static bool python_find(void)
{
	for (int v = 11; v < 20; v++) {
		char so[64];

		snprintf(so, sizeof(so), "libpython3.%d.so.1.0", v);
		if (GET(so, Py_InitializeEx) && GET(so, PyRun_SimpleStringFlags) && GET(so, Py_FinalizeEx))
			return true;
	}
	return false;
}

static bool python_run(void)
{
	bool ok;

	Py_InitializeEx(0);
	ok = !PyRun_SimpleStringFlags(
		"import json, re, collections\n"
		"d = json.loads('{\"a\": [1, 2, 3], \"b\": \"zygote fork\"}')\n"
		"assert re.findall(r'\\w+', d['b']) == ['zygote', 'fork']\n"
		"assert collections.Counter('page').total() == 4\n", NULL);
	return !Py_FinalizeEx() && ok;
}

FN(void *, perl_alloc, void);
FN(void, perl_construct, void *);
FN(int, perl_parse, void *, void *, int, char **, char **);
FN(int, perl_run, void *);
FN(int, perl_destruct, void *);
FN(void, perl_free, void *);

static bool perl_find(void)
{
	for (int v = 36; v < 60; v += 2) {
		char so[64];

		snprintf(so, sizeof(so), "libperl.so.5.%d", v);
		if (GET(so, perl_alloc) && GET(so, perl_construct) && GET(so, perl_parse) &&
		    GET(so, perl_run) && GET(so, perl_destruct) && GET(so, perl_free))
			return true;
	}
	return false;
}

static bool perl_run_part(void)
{
	char *argv[] = { "perl", "-e",
		"my %h; $h{$_}++ for map { lc } split /\\W+/, 'Fork the zygote, fork it'; "
		"exit($h{fork} == 2 ? 0 : 1)", NULL };
	void *p = perl_alloc();
	int err;

	perl_construct(p);
	err = perl_parse(p, NULL, 3, argv, NULL);
	if (!err)
		err = perl_run(p);
	perl_destruct(p);
	perl_free(p);
	return !err;
}

struct part interpreters[] = {
	{ "duktape", duktape_find, duktape_run },
	{ "python", python_find, python_run },
	{ "perl", perl_find, perl_run_part },
	{ NULL },
};
