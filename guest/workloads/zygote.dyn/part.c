// SPDX-License-Identifier: GPL-2.0-or-later
/* The parts by name, and the applications that consist of them. */
#include "part.h"

/*
 * Text to work on: compressible, but not trivially, and short, as what programs
 * read when they start is. The parts are to visit the libraries' code and data,
 * not to stay in a loop of it.
 */
char sample[KB(2)];

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

const struct application application[APPLICATIONS] = {
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

static struct part *const group[] = {
	compression, documents, text, cryptography, pictures, messages, interpreters,
};

int parts_find(void)
{
	int n = 0;

	sample_fill();
	for (size_t g = 0; g < ARRAY_SIZE(group); g++) {
		for (struct part *p = group[g]; p->name; p++) {
			p->found = p->find();
			n += p->found;
			if (!p->found)
				printf("not here: what part %s needs\n", p->name);
		}
	}
	return n;
}

static const struct part *part_named(const char *name)
{
	for (size_t g = 0; g < ARRAY_SIZE(group); g++)
		for (const struct part *p = group[g]; p->name; p++)
			if (!strcmp(p->name, name))
				return p;
	die("there is no part %s", name);
}

bool application_whole(size_t a)
{
	for (const char *const *name = application[a].part; *name; name++)
		if (!part_named(*name)->found)
			return false;
	return true;
}

void application_run(size_t a)
{
	for (const char *const *name = application[a].part; *name; name++) {
		const struct part *p = part_named(*name);

		if (p->found && !p->run())
			die("part %s went wrong", p->name);
	}
}
