// SPDX-License-Identifier: GPL-2.0-or-later
/* Parts that work on text. */
#include "part.h"

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

struct part text[] = {
	{ "pcre2", pcre2_find, pcre2_run },
	{ "glib", glib_find, glib_run },
	{ "icu", icu_find, icu_run },
	{ "idn", idn_find, idn_run },
	{ NULL },
};
