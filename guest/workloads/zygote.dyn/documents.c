// SPDX-License-Identifier: GPL-2.0-or-later
/* Parts that read documents and databases. */
#include "part.h"

static const char document[] =
	"<?xml version=\"1.0\"?><cohort xmlns:t=\"urn:t\"><zygote id=\"1\"><child t:n=\"a\">one"
	"</child><child t:n=\"b\">two &amp; three</child></zygote><!-- c --><tables/></cohort>";

FN(void *, xmlReadMemory, const char *, int, const char *, const char *, int);
FN(void *, xmlXPathNewContext, void *);
FN(void *, xmlXPathEvalExpression, const char *, void *);
FN(void, xmlXPathFreeObject, void *);
FN(void, xmlXPathFreeContext, void *);
FN(void, xmlDocDumpMemory, void *, char **, int *);
FN(void, xmlFreeDoc, void *);

static bool xml2_find(void)
{
	const char *so = "libxml2.so.2";

	return GET(so, xmlReadMemory) && GET(so, xmlXPathNewContext) &&
	       GET(so, xmlXPathEvalExpression) && GET(so, xmlXPathFreeObject) &&
	       GET(so, xmlXPathFreeContext) && GET(so, xmlDocDumpMemory) && GET(so, xmlFreeDoc);
}

static bool xml2_run(void)
{
	void *doc = xmlReadMemory(document, sizeof(document) - 1, "d.xml", NULL, 0);
	void *ctx, *found;
	char *text = NULL;
	int n = 0;

	if (!doc)
		return false;
	ctx = xmlXPathNewContext(doc);
	found = xmlXPathEvalExpression("//child[2]/text()", ctx);
	xmlXPathFreeObject(found);
	xmlXPathFreeContext(ctx);
	xmlDocDumpMemory(doc, &text, &n);
	xmlFreeDoc(doc);
	free(text);
	return found && n > 0;
}

FN(void *, XML_ParserCreate, const char *);
FN(int, XML_Parse, void *, const char *, int, int);
FN(void, XML_ParserFree, void *);

static bool expat_find(void)
{
	const char *so = "libexpat.so.1";

	return GET(so, XML_ParserCreate) && GET(so, XML_Parse) && GET(so, XML_ParserFree);
}

static bool expat_run(void)
{
	void *p = XML_ParserCreate(NULL);
	bool ok = XML_Parse(p, document, sizeof(document) - 1, 1) == 1;

	XML_ParserFree(p);
	return ok;
}

FN(int, sqlite3_open, const char *, void **);
FN(int, sqlite3_exec, void *, const char *, void *, void *, char **);
FN(int, sqlite3_close, void *);

static bool sqlite_find(void)
{
	const char *so = "libsqlite3.so.0";

	return GET(so, sqlite3_open) && GET(so, sqlite3_exec) && GET(so, sqlite3_close);
}

static bool sqlite_run(void)
{
	void *db;
	bool ok;

	if (sqlite3_open(":memory:", &db))
		return false;
	ok = !sqlite3_exec(db,
		"create table t(id integer primary key, word text, n real);"
		"create index i on t(word);"
		"begin; insert into t(word, n) values('page', 1), ('table', 2.5), ('entry', 3);"
		"update t set n = n * 2 where word like 'p%'; commit;"
		"select word, sum(n), count(*) from t group by word having sum(n) > 1 order by 2 desc;",
		NULL, NULL, NULL);
	return !sqlite3_close(db) && ok;
}

FN(void *, PQconninfoParse, const char *, char **);
FN(void, PQconninfoFree, void *);

static bool pq_find(void)
{
	return GET("libpq.so.5", PQconninfoParse) && GET("libpq.so.5", PQconninfoFree);
}

static bool pq_run(void)
{
	void *info = PQconninfoParse("postgresql://u@localhost:5432/db?connect_timeout=3", NULL);

	PQconninfoFree(info);
	return info;
}

FN(void *, json_loads, const char *, size_t, void *);
FN(char *, json_dumps, const void *, size_t);

static bool jansson_find(void)
{
	return GET("libjansson.so.4", json_loads) && GET("libjansson.so.4", json_dumps);
}

static bool jansson_run(void)
{
	/* The value is not given back: its count is changed by inline functions only. */
	void *v = json_loads("{\"a\": [1, 2.5, true, null, \"x\\u00e9\"], \"b\": {}}", 0, NULL);
	char *text = v ? json_dumps(v, 0) : NULL;
	bool ok = text && strstr(text, "2.5");

	free(text);
	return ok;
}

FN(void *, json_tokener_parse, const char *);
FN(const char *, json_object_to_json_string, void *);
FN(int, json_object_put, void *);

static bool json_c_find(void)
{
	const char *so = "libjson-c.so.5";

	return GET(so, json_tokener_parse) && GET(so, json_object_to_json_string) &&
	       GET(so, json_object_put);
}

static bool json_c_run(void)
{
	void *v = json_tokener_parse("{\"a\": [1, 2.5, \"x\"], \"b\": {\"c\": false}}");
	bool ok = v && strstr(json_object_to_json_string(v), "2.5");

	json_object_put(v);
	return ok;
}

struct part documents[] = {
	{ "xml2", xml2_find, xml2_run },
	{ "expat", expat_find, expat_run },
	{ "sqlite", sqlite_find, sqlite_run },
	{ "pq", pq_find, pq_run },
	{ "jansson", jansson_find, jansson_run },
	{ "json-c", json_c_find, json_c_run },
	{ NULL },
};
