/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Things that applications do with Debian's libraries. Each part calls one
 * library (and what that one calls) through functions looked up in the zygote,
 * so that no development package is needed and a child resolves nothing.
 * Prototypes are the libraries' public ones, written down here. A part whose
 * functions are not there, or that does not give the result it must, fails.
 */
#ifndef PARTS_H
#define PARTS_H

#include "libraries.h"

#include <math.h>

/*
 * Text to work on: compressible, but not trivially, and short, as what programs
 * read when they start is. The parts are to visit the libraries' code and data,
 * not to stay in a loop of it.
 */
static char sample[KB(2)];

static void sample_fill(void)
{
	static const char *const word[] = {
		"page", "table", "entry", "shared", "zygote", "fork", "region", "fault",
	};
	uint32_t seed = 1;
	size_t n = 0;

	while (n + 32 < sizeof(sample)) {
		seed = seed * 1664525 + 1013904223;
		n += sprintf(sample + n, "%s %u%s", word[seed >> 29], seed >> 20 & 63,
			     (seed >> 24 & 7) ? " " : ".\n");
	}
}

/* Look NAME up once; the parts' functions are kept in static pointers. */
#define FN(ret, name, ...) static ret (*name)(__VA_ARGS__)
#define GET(soname, name) ((name = function(soname, #name)) != NULL)

/* --- compression --------------------------------------------------------------- */

FN(int, compress2, void *, unsigned long *, const void *, unsigned long, int);
FN(int, uncompress, void *, unsigned long *, const void *, unsigned long);

static bool zlib_find(void)
{
	return GET("libz.so.1", compress2) && GET("libz.so.1", uncompress);
}

static bool zlib_run(void)
{
	unsigned long n = 2 * sizeof(sample), m = sizeof(sample);
	char *packed = malloc(n), *back = malloc(m);
	bool ok = !compress2(packed, &n, sample, sizeof(sample), 6) &&
		  !uncompress(back, &m, packed, n) && !memcmp(back, sample, m);

	free(packed);
	free(back);
	return ok;
}

FN(int, BZ2_bzBuffToBuffCompress, char *, unsigned *, char *, unsigned, int, int, int);

static bool bzip2_find(void)
{
	return GET("libbz2.so.1.0", BZ2_bzBuffToBuffCompress);
}

static bool bzip2_run(void)
{
	unsigned n = 2 * sizeof(sample);
	char *packed = malloc(n);
	bool ok = !BZ2_bzBuffToBuffCompress(packed, &n, sample, sizeof(sample), 1, 0, 0);

	free(packed);
	return ok && n < sizeof(sample);
}

FN(size_t, ZSTD_compress, void *, size_t, const void *, size_t, int);
FN(size_t, ZSTD_decompress, void *, size_t, const void *, size_t);

static bool zstd_find(void)
{
	return GET("libzstd.so.1", ZSTD_compress) && GET("libzstd.so.1", ZSTD_decompress);
}

static bool zstd_run(void)
{
	char *packed = malloc(2 * sizeof(sample)), *back = malloc(sizeof(sample));
	size_t n = ZSTD_compress(packed, 2 * sizeof(sample), sample, sizeof(sample), 1);
	bool ok = n < sizeof(sample) &&
		  ZSTD_decompress(back, sizeof(sample), packed, n) == sizeof(sample);

	free(packed);
	free(back);
	return ok;
}

FN(int, LZ4_compress_default, const char *, char *, int, int);

static bool lz4_find(void)
{
	return GET("liblz4.so.1", LZ4_compress_default);
}

static bool lz4_run(void)
{
	char *packed = malloc(2 * sizeof(sample));
	int n = LZ4_compress_default(sample, packed, sizeof(sample), 2 * sizeof(sample));

	free(packed);
	return n > 0 && n < (int)sizeof(sample);
}

FN(int, lzma_easy_buffer_encode, uint32_t, int, void *, const void *, size_t, void *, size_t *, size_t);

static bool lzma_find(void)
{
	return GET("liblzma.so.5", lzma_easy_buffer_encode);
}

static bool lzma_run(void)
{
	size_t n = 0, room = 2 * sizeof(sample);
	char *packed = malloc(room);
	int err = lzma_easy_buffer_encode(0, 4, NULL, sample, sizeof(sample), packed, &n, room);

	free(packed);
	return !err && n;
}

FN(void *, archive_write_new, void);
FN(int, archive_write_set_format_pax_restricted, void *);
FN(int, archive_write_open_memory, void *, void *, size_t, size_t *);
FN(int, archive_write_header, void *, void *);
FN(ssize_t, archive_write_data, void *, const void *, size_t);
FN(int, archive_write_close, void *);
FN(int, archive_write_free, void *);
FN(void *, archive_entry_new, void);
FN(void, archive_entry_set_pathname, void *, const char *);
FN(void, archive_entry_set_size, void *, int64_t);
FN(void, archive_entry_set_filetype, void *, unsigned);
FN(void, archive_entry_set_perm, void *, mode_t);
FN(void, archive_entry_free, void *);

static bool archive_find(void)
{
	const char *so = "libarchive.so.13";

	return GET(so, archive_write_new) && GET(so, archive_write_set_format_pax_restricted) &&
	       GET(so, archive_write_open_memory) && GET(so, archive_write_header) &&
	       GET(so, archive_write_data) && GET(so, archive_write_close) &&
	       GET(so, archive_write_free) && GET(so, archive_entry_new) &&
	       GET(so, archive_entry_set_pathname) && GET(so, archive_entry_set_size) &&
	       GET(so, archive_entry_set_filetype) && GET(so, archive_entry_set_perm) &&
	       GET(so, archive_entry_free);
}

static bool archive_run(void)
{
	size_t used = 0;
	char *out = malloc(KB(16));
	void *a = archive_write_new(), *e = archive_entry_new();
	bool ok;

	archive_write_set_format_pax_restricted(a);
	ok = !archive_write_open_memory(a, out, KB(16), &used);
	archive_entry_set_pathname(e, "sample");
	archive_entry_set_size(e, sizeof(sample));
	archive_entry_set_filetype(e, 0100000);
	archive_entry_set_perm(e, 0644);
	ok = ok && !archive_write_header(a, e) && archive_write_data(a, sample, sizeof(sample)) == (ssize_t)sizeof(sample) &&
	     !archive_write_close(a);
	archive_entry_free(e);
	archive_write_free(a);
	free(out);
	return ok && used > sizeof(sample);
}

/* --- documents and databases ----------------------------------------------------- */

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

/* --- text ------------------------------------------------------------------------ */

FN(void *, pcre2_compile_8, const char *, size_t, uint32_t, int *, size_t *, void *);
FN(void *, pcre2_match_data_create_8, uint32_t, void *);
FN(int, pcre2_match_8, const void *, const char *, size_t, size_t, uint32_t, void *, void *);
FN(void, pcre2_match_data_free_8, void *);
FN(void, pcre2_code_free_8, void *);

static bool pcre2_find(void)
{
	const char *so = "libpcre2-8.so.0";

	return GET(so, pcre2_compile_8) && GET(so, pcre2_match_data_create_8) &&
	       GET(so, pcre2_match_8) && GET(so, pcre2_match_data_free_8) &&
	       GET(so, pcre2_code_free_8);
}

static bool pcre2_run(void)
{
	static const char pattern[] = "(?<w>z\\w+)\\s+(\\d{1,2})(?=\\s|\\.)";
	int err, n;
	size_t at;
	void *code = pcre2_compile_8(pattern, sizeof(pattern) - 1, 0, &err, &at, NULL);
	void *data = pcre2_match_data_create_8(8, NULL);

	if (!code)
		return false;
	n = pcre2_match_8(code, sample, sizeof(sample), 0, 0, data, NULL);
	pcre2_match_data_free_8(data);
	pcre2_code_free_8(code);
	return n > 0;
}

FN(void *, g_hash_table_new, void *, void *);
FN(int, g_hash_table_insert, void *, void *, void *);
FN(void *, g_hash_table_lookup, void *, const void *);
FN(void, g_hash_table_destroy, void *);
FN(char *, g_strdup_printf, const char *, ...);
FN(void *, g_key_file_new, void);
FN(int, g_key_file_load_from_data, void *, const char *, size_t, int, void *);
FN(int, g_key_file_get_integer, void *, const char *, const char *, void *);
FN(void, g_key_file_free, void *);
FN(void *, g_variant_new_parsed, const char *, ...);
FN(char *, g_variant_print, void *, int);
FN(void, g_variant_unref, void *);
FN(void, g_free, void *);
static void *g_str_hash, *g_str_equal;

static bool glib_find(void)
{
	const char *so = "libglib-2.0.so.0";

	g_str_hash = function(so, "g_str_hash");
	g_str_equal = function(so, "g_str_equal");
	return g_str_hash && g_str_equal && GET(so, g_hash_table_new) &&
	       GET(so, g_hash_table_insert) && GET(so, g_hash_table_lookup) &&
	       GET(so, g_hash_table_destroy) && GET(so, g_strdup_printf) &&
	       GET(so, g_key_file_new) && GET(so, g_key_file_load_from_data) &&
	       GET(so, g_key_file_get_integer) && GET(so, g_key_file_free) &&
	       GET(so, g_variant_new_parsed) && GET(so, g_variant_print) &&
	       GET(so, g_variant_unref) && GET(so, g_free);
}

static bool glib_run(void)
{
	static const char ini[] = "[cohort]\nmembers=12\nname=zygote\n";
	void *table = g_hash_table_new(g_str_hash, g_str_equal);
	void *key_file = g_key_file_new();
	void *variant;
	char *text, *printed;
	bool ok;

	g_hash_table_insert(table, "zygote", "1");
	g_hash_table_insert(table, "child", "2");
	ok = g_hash_table_lookup(table, "child") != NULL;
	g_hash_table_destroy(table);
	text = g_strdup_printf("%s %d %.3f", "entry", 512, 2.5);
	ok = ok && !strcmp(text, "entry 512 2.500");
	g_free(text);
	ok = ok && g_key_file_load_from_data(key_file, ini, sizeof(ini) - 1, 0, NULL) &&
	     g_key_file_get_integer(key_file, "cohort", "members", NULL) == 12;
	g_key_file_free(key_file);
	variant = g_variant_new_parsed("{'a': <1>, 'b': <['x', 'y']>}");
	printed = g_variant_print(variant, 1);
	ok = ok && strstr(printed, "'y'");
	g_free(printed);
	g_variant_unref(variant);
	return ok;
}

FN(void *, icu_ucol_open, const char *, int *);
FN(int, icu_ucol_strcollUTF8, void *, const char *, int, const char *, int, int *);
FN(void, icu_ucol_close, void *);

/* ICU's functions carry its major version in their names. */
static bool icu_find(void)
{
	for (int v = 60; v < 100; v++) {
		char so[64], name[64];

		snprintf(so, sizeof(so), "libicui18n.so.%d", v);
		snprintf(name, sizeof(name), "ucol_open_%d", v);
		icu_ucol_open = function(so, name);
		snprintf(name, sizeof(name), "ucol_strcollUTF8_%d", v);
		icu_ucol_strcollUTF8 = function(so, name);
		snprintf(name, sizeof(name), "ucol_close_%d", v);
		icu_ucol_close = function(so, name);
		if (icu_ucol_open && icu_ucol_strcollUTF8 && icu_ucol_close)
			return true;
	}
	return false;
}

static bool icu_run(void)
{
	int err = 0, order;
	void *c = icu_ucol_open("de", &err);

	if (err > 0)
		return false;
	order = icu_ucol_strcollUTF8(c, "\xc3\xa4pfel", -1, "zebra", -1, &err);
	icu_ucol_close(c);
	return order < 0;
}

FN(int, idn2_to_ascii_8z, const char *, char **, int);

static bool idn_find(void)
{
	return GET("libidn2.so.0", idn2_to_ascii_8z);
}

static bool idn_run(void)
{
	char *out = NULL;
	bool ok = !idn2_to_ascii_8z("b\xc3\xbc" "cher.example", &out, 0) && !strncmp(out, "xn--", 4);

	free(out);
	return ok;
}

/* --- cryptography and numbers ------------------------------------------------------ */

FN(void *, EVP_MD_fetch, void *, const char *, const char *);
FN(int, EVP_Digest, const void *, size_t, unsigned char *, unsigned *, const void *, void *);
FN(void, EVP_MD_free, void *);
FN(void *, EVP_PKEY_Q_keygen, void *, const char *, const char *, ...);
FN(void, EVP_PKEY_free, void *);

static bool crypto_find(void)
{
	const char *so = "libcrypto.so.3";

	return GET(so, EVP_MD_fetch) && GET(so, EVP_Digest) && GET(so, EVP_MD_free) &&
	       GET(so, EVP_PKEY_Q_keygen) && GET(so, EVP_PKEY_free);
}

static bool crypto_run(void)
{
	unsigned char digest[64];
	unsigned n = 0;
	void *md = EVP_MD_fetch(NULL, "SHA2-256", NULL);
	void *key;
	bool ok = md && EVP_Digest(sample, sizeof(sample), digest, &n, md, NULL) && n == 32;

	EVP_MD_free(md);
	key = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
	EVP_PKEY_free(key);
	return ok && key;
}

FN(int, gnutls_hash_fast, int, const void *, size_t, void *);
FN(int, gnutls_priority_init, void **, const char *, const char **);
FN(void, gnutls_priority_deinit, void *);

static bool gnutls_find(void)
{
	const char *so = "libgnutls.so.30";

	return GET(so, gnutls_hash_fast) && GET(so, gnutls_priority_init) &&
	       GET(so, gnutls_priority_deinit);
}

static bool gnutls_run(void)
{
	unsigned char digest[64];
	void *priority = NULL;
	const char *err;
	/* 6: SHA-256 */
	bool ok = !gnutls_hash_fast(6, sample, sizeof(sample), digest) &&
		  !gnutls_priority_init(&priority, "NORMAL", &err);

	if (priority)
		gnutls_priority_deinit(priority);
	return ok;
}

FN(const char *, gcry_check_version, const char *);
FN(void, gcry_md_hash_buffer, int, void *, const void *, size_t);

static bool gcrypt_find(void)
{
	return GET("libgcrypt.so.20", gcry_check_version) && GET("libgcrypt.so.20", gcry_md_hash_buffer);
}

static bool gcrypt_run(void)
{
	unsigned char digest[64] = { 0 };

	if (!gcry_check_version(NULL))
		return false;
	/* 8: SHA-256 */
	gcry_md_hash_buffer(8, digest, sample, sizeof(sample));
	return digest[0] | digest[1] | digest[2] | digest[3];
}

FN(int, sodium_init, void);
FN(int, crypto_generichash, void *, size_t, const void *, unsigned long long, const void *, size_t);

static bool sodium_find(void)
{
	return GET("libsodium.so.23", sodium_init) && GET("libsodium.so.23", crypto_generichash);
}

static bool sodium_run(void)
{
	unsigned char digest[32];

	return sodium_init() >= 0 && !crypto_generichash(digest, sizeof(digest), sample, sizeof(sample), NULL, 0);
}

/* mpz_t and mpfr_t are arrays of one struct of 16 and 32 bytes; these are larger. */
FN(void, __gmpz_init, void *);
FN(void, __gmpz_ui_pow_ui, void *, unsigned long, unsigned long);
FN(void, __gmpz_mul, void *, const void *, const void *);
FN(char *, __gmpz_get_str, char *, int, const void *);
FN(void, __gmpz_clear, void *);

static bool gmp_find(void)
{
	const char *so = "libgmp.so.10";

	return GET(so, __gmpz_init) && GET(so, __gmpz_ui_pow_ui) && GET(so, __gmpz_mul) &&
	       GET(so, __gmpz_get_str) && GET(so, __gmpz_clear);
}

static bool gmp_run(void)
{
	char z[64], *text;
	bool ok;

	__gmpz_init(z);
	__gmpz_ui_pow_ui(z, 3, 2000);
	__gmpz_mul(z, z, z);
	text = __gmpz_get_str(NULL, 10, z);
	ok = strlen(text) == 1909;
	free(text);
	__gmpz_clear(z);
	return ok;
}

FN(void, mpfr_init2, void *, long);
FN(int, mpfr_const_pi, void *, int);
FN(int, mpfr_sin, void *, const void *, int);
FN(double, mpfr_get_d, const void *, int);
FN(void, mpfr_clear, void *);
FN(void, mpfr_free_cache, void);

static bool mpfr_find(void)
{
	const char *so = "libmpfr.so.6";

	return GET(so, mpfr_init2) && GET(so, mpfr_const_pi) && GET(so, mpfr_sin) &&
	       GET(so, mpfr_get_d) && GET(so, mpfr_clear) && GET(so, mpfr_free_cache);
}

static bool mpfr_run(void)
{
	char x[128];
	double sine;

	mpfr_init2(x, 400);
	mpfr_const_pi(x, 0);
	mpfr_sin(x, x, 0);
	sine = mpfr_get_d(x, 0);
	mpfr_clear(x);
	mpfr_free_cache();
	return fabs(sine) < 1e-100;
}

/* --- pictures ------------------------------------------------------------------------ */

FN(void *, cairo_image_surface_create, int, int, int);
FN(void *, cairo_create, void *);
FN(void, cairo_set_source_rgba, void *, double, double, double, double);
FN(void, cairo_move_to, void *, double, double);
FN(void, cairo_curve_to, void *, double, double, double, double, double, double);
FN(void, cairo_arc, void *, double, double, double, double, double);
FN(void, cairo_fill_preserve, void *);
FN(void, cairo_stroke, void *);
FN(void, cairo_destroy, void *);
FN(void, cairo_surface_destroy, void *);
FN(int, cairo_surface_write_to_png_stream, void *, void *, void *);

static bool cairo_find(void)
{
	const char *so = "libcairo.so.2";

	return GET(so, cairo_image_surface_create) && GET(so, cairo_create) &&
	       GET(so, cairo_set_source_rgba) && GET(so, cairo_move_to) &&
	       GET(so, cairo_curve_to) && GET(so, cairo_arc) && GET(so, cairo_fill_preserve) &&
	       GET(so, cairo_stroke) && GET(so, cairo_destroy) && GET(so, cairo_surface_destroy) &&
	       GET(so, cairo_surface_write_to_png_stream);
}

static int cairo_count(void *closure, const void *data, unsigned n)
{
	(void)data;
	*(size_t *)closure += n;
	return 0;
}

static bool cairo_run(void)
{
	size_t bytes = 0;
	void *surface = cairo_image_surface_create(0, 32, 32);
	void *cr = cairo_create(surface);

	cairo_set_source_rgba(cr, 0.2, 0.4, 0.8, 0.7);
	cairo_move_to(cr, 2, 2);
	cairo_curve_to(cr, 30, 0, 0, 30, 30, 30);
	cairo_arc(cr, 16, 16, 10, 0, 5);
	cairo_fill_preserve(cr);
	cairo_stroke(cr);
	cairo_destroy(cr);
	cairo_surface_write_to_png_stream(surface, cairo_count, &bytes);
	cairo_surface_destroy(surface);
	return bytes > 100;
}

FN(void *, rsvg_handle_new_from_data, const void *, size_t, void *);
FN(int, rsvg_handle_render_document, void *, void *, const double *, void *);
FN(void, g_object_unref, void *);

static bool rsvg_find(void)
{
	return cairo_find() && GET("librsvg-2.so.2", rsvg_handle_new_from_data) &&
	       GET("librsvg-2.so.2", rsvg_handle_render_document) &&
	       GET("libgobject-2.0.so.0", g_object_unref);
}

static bool rsvg_run(void)
{
	static const char svg[] =
		"<svg xmlns='http://www.w3.org/2000/svg' width='16' height='16'>"
		"<rect x='2' y='2' width='9' height='7' fill='#369' stroke='red'/>"
		"<path d='M1 1 C 5 9 9 5 15 15 Z' fill-opacity='.5'/></svg>";
	static const double viewport[4] = { 0, 0, 16, 16 };
	void *surface = cairo_image_surface_create(0, 16, 16);
	void *cr = cairo_create(surface);
	void *handle = rsvg_handle_new_from_data(svg, sizeof(svg) - 1, NULL);
	bool ok = handle && rsvg_handle_render_document(handle, cr, viewport, NULL);

	if (handle)
		g_object_unref(handle);
	cairo_destroy(cr);
	cairo_surface_destroy(surface);
	return ok;
}

FN(void *, hb_buffer_create, void);
FN(void, hb_buffer_add_utf8, void *, const char *, int, unsigned, int);
FN(void, hb_buffer_guess_segment_properties, void *);
FN(void *, hb_font_get_empty, void);
FN(void, hb_shape, void *, void *, const void *, unsigned);
FN(unsigned, hb_buffer_get_length, void *);
FN(void, hb_buffer_destroy, void *);

static bool harfbuzz_find(void)
{
	const char *so = "libharfbuzz.so.0";

	return GET(so, hb_buffer_create) && GET(so, hb_buffer_add_utf8) &&
	       GET(so, hb_buffer_guess_segment_properties) && GET(so, hb_font_get_empty) &&
	       GET(so, hb_shape) && GET(so, hb_buffer_get_length) && GET(so, hb_buffer_destroy);
}

static bool harfbuzz_run(void)
{
	void *b = hb_buffer_create();
	unsigned n;

	hb_buffer_add_utf8(b, "shared \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", -1, 0, -1);
	hb_buffer_guess_segment_properties(b);
	hb_shape(hb_font_get_empty(), b, NULL, 0);
	n = hb_buffer_get_length(b);
	hb_buffer_destroy(b);
	return n > 0;
}

FN(int, FT_Init_FreeType, void **);
FN(int, FT_Done_FreeType, void *);

static bool freetype_find(void)
{
	return GET("libfreetype.so.6", FT_Init_FreeType) && GET("libfreetype.so.6", FT_Done_FreeType);
}

static bool freetype_run(void)
{
	void *ft;

	return !FT_Init_FreeType(&ft) && !FT_Done_FreeType(ft);
}

FN(size_t, WebPEncodeRGB, const uint8_t *, int, int, int, float, uint8_t **);
FN(uint8_t *, WebPDecodeRGB, const uint8_t *, size_t, int *, int *);
FN(void, WebPFree, void *);

static bool webp_find(void)
{
	const char *so = "libwebp.so.7";

	return GET(so, WebPEncodeRGB) && GET(so, WebPDecodeRGB) && GET(so, WebPFree);
}

static bool webp_run(void)
{
	uint8_t *packed = NULL, *back;
	int w = 0, h = 0;
	size_t n = WebPEncodeRGB((uint8_t *)sample, 16, 16, 48, 60, &packed);

	back = WebPDecodeRGB(packed, n, &w, &h);
	WebPFree(packed);
	WebPFree(back);
	return back && w == 16 && h == 16;
}

FN(void *, cmsCreate_sRGBProfile, void);
FN(void *, cmsCreateLab4Profile, void *);
FN(void *, cmsCreateTransform, void *, uint32_t, void *, uint32_t, uint32_t, uint32_t);
FN(void, cmsDoTransform, void *, const void *, void *, uint32_t);
FN(void, cmsDeleteTransform, void *);
FN(int, cmsCloseProfile, void *);

static bool lcms_find(void)
{
	const char *so = "liblcms2.so.2";

	return GET(so, cmsCreate_sRGBProfile) && GET(so, cmsCreateLab4Profile) &&
	       GET(so, cmsCreateTransform) && GET(so, cmsDoTransform) &&
	       GET(so, cmsDeleteTransform) && GET(so, cmsCloseProfile);
}

static bool lcms_run(void)
{
	/* TYPE_RGB_8 and TYPE_Lab_DBL of lcms2.h */
	const uint32_t rgb = 4 << 16 | 3 << 3 | 1, lab = 1 << 22 | 10 << 16 | 3 << 3;
	unsigned char in[3] = { 200, 30, 90 };
	double out[3] = { 0 };
	void *a = cmsCreate_sRGBProfile(), *b = cmsCreateLab4Profile(NULL);
	void *t = cmsCreateTransform(a, rgb, b, lab, 0, 0);

	if (!t)
		return false;
	cmsDoTransform(t, in, out, 1);
	cmsDeleteTransform(t);
	cmsCloseProfile(a);
	cmsCloseProfile(b);
	return out[0] > 10 && out[0] < 90;
}

/* --- messages and networks ------------------------------------------------------------ */

FN(void *, dbus_message_new_method_call, const char *, const char *, const char *, const char *);
FN(int, dbus_message_append_args, void *, int, ...);
FN(int, dbus_message_marshal, void *, char **, int *);
FN(void, dbus_message_unref, void *);
FN(void, dbus_free, void *);

static bool dbus_find(void)
{
	const char *so = "libdbus-1.so.3";

	return GET(so, dbus_message_new_method_call) && GET(so, dbus_message_append_args) &&
	       GET(so, dbus_message_marshal) && GET(so, dbus_message_unref) && GET(so, dbus_free);
}

static bool dbus_run(void)
{
	void *m = dbus_message_new_method_call("org.cohort", "/zygote", "org.cohort.Zygote", "Fork");
	const char *arg = "child";
	char *wire = NULL;
	int n = 0;
	bool ok = m && dbus_message_append_args(m, 's', &arg, 0) && dbus_message_marshal(m, &wire, &n);

	dbus_free(wire);
	dbus_message_unref(m);
	return ok && n > 40;
}

FN(void *, event_base_new, void);
FN(int, event_base_loop, void *, int);
FN(void, event_base_free, void *);

static bool event_find(void)
{
	const char *so = "libevent-2.1.so.7";

	return GET(so, event_base_new) && GET(so, event_base_loop) && GET(so, event_base_free);
}

static bool event_run(void)
{
	void *base = event_base_new();
	bool ok = base && event_base_loop(base, 2) >= 0;

	if (base)
		event_base_free(base);
	return ok;
}

/* --- interpreters ------------------------------------------------------------------------ */

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

/* --- the table ------------------------------------------------------------------------------ */

struct part {
	const char *name;
	bool (*find)(void);
	bool (*run)(void);
	bool found;
};

static struct part part[] = {
	{ .name = "zlib", .find = zlib_find, .run = zlib_run },
	{ .name = "bzip2", .find = bzip2_find, .run = bzip2_run },
	{ .name = "zstd", .find = zstd_find, .run = zstd_run },
	{ .name = "lz4", .find = lz4_find, .run = lz4_run },
	{ .name = "lzma", .find = lzma_find, .run = lzma_run },
	{ .name = "archive", .find = archive_find, .run = archive_run },
	{ .name = "xml2", .find = xml2_find, .run = xml2_run },
	{ .name = "expat", .find = expat_find, .run = expat_run },
	{ .name = "sqlite", .find = sqlite_find, .run = sqlite_run },
	{ .name = "pq", .find = pq_find, .run = pq_run },
	{ .name = "jansson", .find = jansson_find, .run = jansson_run },
	{ .name = "json-c", .find = json_c_find, .run = json_c_run },
	{ .name = "pcre2", .find = pcre2_find, .run = pcre2_run },
	{ .name = "glib", .find = glib_find, .run = glib_run },
	{ .name = "icu", .find = icu_find, .run = icu_run },
	{ .name = "idn", .find = idn_find, .run = idn_run },
	{ .name = "crypto", .find = crypto_find, .run = crypto_run },
	{ .name = "gnutls", .find = gnutls_find, .run = gnutls_run },
	{ .name = "gcrypt", .find = gcrypt_find, .run = gcrypt_run },
	{ .name = "sodium", .find = sodium_find, .run = sodium_run },
	{ .name = "gmp", .find = gmp_find, .run = gmp_run },
	{ .name = "mpfr", .find = mpfr_find, .run = mpfr_run },
	{ .name = "cairo", .find = cairo_find, .run = cairo_run },
	{ .name = "rsvg", .find = rsvg_find, .run = rsvg_run },
	{ .name = "harfbuzz", .find = harfbuzz_find, .run = harfbuzz_run },
	{ .name = "freetype", .find = freetype_find, .run = freetype_run },
	{ .name = "webp", .find = webp_find, .run = webp_run },
	{ .name = "lcms", .find = lcms_find, .run = lcms_run },
	{ .name = "dbus", .find = dbus_find, .run = dbus_run },
	{ .name = "event", .find = event_find, .run = event_run },
	{ .name = "duktape", .find = duktape_find, .run = duktape_run },
	{ .name = "python", .find = python_find, .run = python_run },
	{ .name = "perl", .find = perl_find, .run = perl_run_part },
};

/*
 * Applications, as sets of parts: what the children of Table 3 do. The first is
 * the one whose launch is measured, the counterpart of the paper's HelloWorld:
 * what a small program with a window does until it shows its own first word. It
 * reads its settings, its layout and its language, opens its store, finds its
 * icons, shapes and draws text, and says hello on the bus.
 */
#define HELLO 0

static const struct {
	const char *name;
	const char *part[16];
} application[] = {
	{ "hello", { "glib", "json-c", "pcre2", "xml2", "zlib", "icu", "sqlite", "crypto", "freetype", "harfbuzz", "cairo", "webp", "rsvg", "dbus", "event" } },
	{ "archiver", { "zlib", "bzip2", "zstd", "lz4", "lzma", "archive" } },
	{ "browser", { "gnutls", "idn", "zlib", "xml2", "duktape", "sqlite", "cairo", "rsvg", "harfbuzz", "webp", "icu" } },
	{ "calculator", { "gmp", "mpfr" } },
	{ "database", { "sqlite", "pq", "icu", "pcre2", "crypto" } },
	{ "editor", { "glib", "pcre2", "icu", "expat", "harfbuzz", "freetype", "cairo" } },
	{ "mail", { "crypto", "gnutls", "idn", "xml2", "zlib", "dbus" } },
	{ "painter", { "cairo", "rsvg", "lcms", "webp", "freetype" } },
	{ "perl", { "perl", "pcre2" } },
	{ "python", { "python", "sqlite", "zlib", "expat" } },
	{ "server", { "event", "crypto", "json-c", "jansson", "zlib", "dbus" } },
	{ "vault", { "crypto", "gcrypt", "gnutls", "sodium" } },
};

/* Look up what the parts need; how many were found. */
__attribute__((unused))
static int parts_find(void)
{
	int n = 0;

	sample_fill();
	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		part[i].found = part[i].find();
		n += part[i].found;
		if (!part[i].found)
			printf("not here: what part %s needs\n", part[i].name);
	}
	return n;
}

static void part_run(const struct part *p)
{
	if (!p->run())
		die("part %s went wrong", p->name);
}

/* Are all of application @a's parts there? */
__attribute__((unused))
static bool application_whole(size_t a)
{
	for (size_t i = 0; i < ARRAY_SIZE(application[a].part) && application[a].part[i]; i++)
		for (size_t k = 0; k < ARRAY_SIZE(part); k++)
			if (!part[k].found && !strcmp(part[k].name, application[a].part[i]))
				return false;
	return true;
}

/* Run application @a's parts; those that are not there were reported. */
__attribute__((unused))
static void application_run(size_t a)
{
	for (size_t i = 0; i < ARRAY_SIZE(application[a].part) && application[a].part[i]; i++)
		for (size_t k = 0; k < ARRAY_SIZE(part); k++)
			if (part[k].found && !strcmp(part[k].name, application[a].part[i]))
				part_run(&part[k]);
}

#endif /* PARTS_H */
