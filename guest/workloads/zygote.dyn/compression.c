// SPDX-License-Identifier: GPL-2.0-or-later
/* Parts that compress. */
#include "part.h"

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

struct part compression[] = {
	{ "zlib", zlib_find, zlib_run },
	{ "bzip2", bzip2_find, bzip2_run },
	{ "zstd", zstd_find, zstd_run },
	{ "lz4", lz4_find, lz4_run },
	{ "lzma", lzma_find, lzma_run },
	{ "archive", archive_find, archive_run },
	{ NULL },
};
