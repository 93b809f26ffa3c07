// SPDX-License-Identifier: GPL-2.0-or-later
/* Which libraries are loaded, and where. */
#include "elf_file.h"
#include "libraries.h"

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <malloc.h>

/*
 * What a zygote of many applications has at hand: interpreters, databases,
 * cryptography, documents, images, text, compression, networks. Sonames of
 * Debian 12 and 13; of those in one row the first that exists is loaded. What
 * they depend on comes along.
 */
static const char *const library[][3] = {
	{ "libz.so.1" }, { "libbz2.so.1.0" }, { "liblzma.so.5" }, { "libzstd.so.1" },
	{ "liblz4.so.1" }, { "libarchive.so.13" },
	{ "libexpat.so.1" }, { "libxml2.so.2" }, { "libsqlite3.so.0" }, { "libpq.so.5" },
	{ "libcrypto.so.3" }, { "libssl.so.3" }, { "libgcrypt.so.20" }, { "libgnutls.so.30" },
	{ "libsodium.so.23" }, { "libgmp.so.10" }, { "libmpfr.so.6" },
	{ "libpython3.13.so.1.0", "libpython3.11.so.1.0" },
	{ "libperl.so.5.40", "libperl.so.5.36" }, { "libduktape.so.207" },
	{ "libjansson.so.4" }, { "libjson-c.so.5" }, { "libpcre2-8.so.0" },
	{ "libglib-2.0.so.0" }, { "libgobject-2.0.so.0" }, { "libgio-2.0.so.0" },
	{ "libicui18n.so.76", "libicui18n.so.72" }, { "libidn2.so.0" },
	{ "libfreetype.so.6" }, { "libfontconfig.so.1" }, { "libharfbuzz.so.0" },
	{ "libcairo.so.2" }, { "libpango-1.0.so.0" }, { "libjpeg.so.62" },
	{ "libwebp.so.7" }, { "liblcms2.so.2" }, { "libgdk_pixbuf-2.0.so.0" }, { "librsvg-2.so.2" },
	{ "libdbus-1.so.3" }, { "libevent-2.1.so.7" },
};

static int find_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	struct loader *l = data;
	const char *slash = strrchr(info->dlpi_name, '/');

	(void)size;
	if (!slash || strcmp(slash + 1, "libc.so.6"))
		return 0;
	snprintf(l->dir, sizeof(l->dir), "%.*s", (int)(slash - info->dlpi_name), info->dlpi_name);
	return 1;
}

/* --- one hole in the address space ------------------------------------------- */

/* The dynamic linker may map this much for itself; it is too small for a library. */
#define SPARE KB(256)
/* Room for the stack to grow; the kernel keeps 1 MB of it as a guard. */
#define STACK_ROOM MB(2)

static void reserve(uintptr_t start, uintptr_t end)
{
	if (start >= end)
		return;
	if (mmap((void *)start, end - start, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		die("cannot reserve %" PRIxPTR "-%" PRIxPTR ": %s", start, end, strerror(errno));
}

/*
 * Leave no gap. Where mmap finds none below the regions that are there it looks
 * between them and the stack, so that gap goes too.
 */
static void reserve_all(struct loader *l, struct regions *rs)
{
	uintptr_t at = KB(64), biggest = 0;

	regions_read(rs, getpid());
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];

		if (!strcmp(r->path, "[stack]")) {
			reserve(at, r->start - STACK_ROOM);
			break;
		}
		if (r->start > at && r->start - at > biggest) {
			biggest = r->start - at;
			l->top = r->start & ~(TABLE - 1);
		}
		reserve(at, r->start);
		at = r->end;
	}
	/* At the very bottom: the kernel looks for room from the top. */
	munmap((void *)KB(64), SPARE);
}

/* Give back what is still reserved. */
static void release_all(struct regions *rs)
{
	regions_read(rs, getpid());
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];

		if (!r->inode && !r->path[0] && !strncmp(r->perms, "---p", 4))
			munmap((void *)r->start, r->end - r->start);
	}
}

static void *load(struct loader *l, const char *soname);

static void *load_separate(struct loader *l, const char *soname, const char *path)
{
	struct elf_file f;
	uintptr_t base, slack;
	struct link_map *map;
	void *handle;

	if (!elf_read(&f, l->window, path))
		return NULL;
	/* Leaves first, so that each dlopen maps exactly one object. */
	l->in_progress[l->placing++] = soname;
	if (l->placing == ARRAY_SIZE(l->in_progress))
		die("%s: dependencies too deep", soname);
	for (int i = 0; i < f.needs; i++)
		load(l, f.needed[i]);
	l->placing--;
	handle = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
	if (handle)
		goto out;

	/*
	 * Libraries that are linked for larger pages begin where such a page does: on
	 * x86 a few, for whole tables, which lie apart already; on ARM all. The dynamic
	 * linker asks for as much more room as that may take and gives the rest back.
	 */
	slack = f.align > PAGE ? f.align : 0;
	if (f.align >= TABLE) {
		base = (l->top - f.end - slack) & ~(f.align - 1);
	} else {
		uintptr_t code = f.writable & ~(f.align - 1);

		base = ((l->top - (f.end - code) - slack) & ~(TABLE - 1)) - code;
	}
	if (munmap((void *)base, f.end + slack))
		die_errno("munmap");
	handle = dlopen(path, RTLD_NOW);
	if (!handle)
		die("%s", dlerror());
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map))
		die("%s", dlerror());
	if (map->l_addr != base)
		die("%s is at %" PRIxPTR " instead of %" PRIxPTR, soname,
		    (uintptr_t)map->l_addr, base);
	reserve(base + f.end, base + f.end + slack);
	l->top = base & ~(TABLE - 1);
	l->separated++;
out:
	for (int i = 0; i < f.needs; i++)
		free(f.needed[i]);
	return handle;
}

static void *load(struct loader *l, const char *soname)
{
	char path[512];
	void *handle = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);

	if (handle)
		return handle;
	for (int i = 0; i < l->placing; i++)
		if (!strcmp(l->in_progress[i], soname))
			return NULL;
	snprintf(path, sizeof(path), "%s/%s", l->dir, soname);
	if (l->separate)
		return load_separate(l, soname, path);
	return access(path, R_OK) ? NULL : dlopen(path, RTLD_NOW);
}

static int count_object(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)info;
	(void)size;
	++*(int *)data;
	return 0;
}

int objects_loaded(void)
{
	int n = -1;

	dl_iterate_phdr(count_object, &n);
	return n;
}

/* --- the list ------------------------------------------------------------------ */

/*
 * Read every library's file. A fault maps those of the pages around it that are in
 * the page cache and up to date: which these are must not depend on how fast the
 * disk was.
 */
static void libraries_cache(const struct loader *l)
{
	static char buffer[1 << 16];
	DIR *dir = opendir(l->dir);
	struct dirent *entry;

	if (!dir)
		die_errno(l->dir);
	while ((entry = readdir(dir))) {
		int fd;

		if (!strstr(entry->d_name, ".so"))
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		/* A link to nowhere is no library. */
		if (fd < 0)
			continue;
		while (read(fd, buffer, sizeof(buffer)) > 0)
			;
		close(fd);
	}
	closedir(dir);
}

void libraries_load(struct loader *l, struct regions *rs)
{
	dl_iterate_phdr(find_libc, l);
	if (!l->dir[0])
		die("cannot tell where the C library lies");
	mallopt(M_TOP_PAD, MB(96));
	mallopt(M_MMAP_THRESHOLD, MB(64));
	mallopt(M_TRIM_THRESHOLD, MB(1024));
	free(malloc(1));
	/* The interpreters' own names for what getrandom() is above. */
	setenv("PYTHONHASHSEED", "0", 1);
	setenv("PERL_HASH_SEED", "0", 1);
	libraries_cache(l);

	if (l->separate) {
		l->window = map_own_tables(WINDOW, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
		reserve_all(l, rs);
	}
	for (size_t i = 0; i < ARRAY_SIZE(library); i++) {
		void *handle = NULL;

		for (size_t j = 0; j < ARRAY_SIZE(library[i]) && library[i][j] && !handle; j++)
			handle = load(l, library[i][j]);
		if (!handle)
			printf("not here: %s\n", library[i][0]);
	}
	if (l->separate)
		release_all(rs);
}

void *function(const char *soname, const char *name)
{
	void *handle = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);

	return handle ? dlsym(handle, name) : NULL;
}
