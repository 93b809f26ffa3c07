// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: the virtual pages at which merging has succeeded.
 *
 * A profile is a set of virtual pages: one per application, known by its user and the
 * name of its main thread (processes forked from one zygote execute the same file), and
 * a global one, their union, for a cohort whose members have one layout. Bits are set
 * when pages merge. An application in which nothing has merged yet has no profile
 * and is scanned whole: its first process has no sibling to merge with, which does
 * not predict the next one.
 *
 * A set is a tree of chunks, each a bitmap of what one last-level table maps.
 * All sets together take at most profile_max_bytes; pages that do not fit are
 * counted and not learned. The user pays for them, and for the pages that it is the
 * first to bring into the global set. A user that has less than its equal share of
 * the limit gets room from the one that has most; so nobody loses or is refused what
 * is within the share, whatever others do.
 *
 * One mutex protects all of it. It nests inside ksm_thread_mutex and the mmap_lock
 * of the scanned process; its holder takes only the allocator's locks, and touches
 * no user memory.
 */
#define pr_fmt(fmt) "ksm: " fmt

#include <linux/bitmap.h>
#include <linux/ctype.h>
#include <linux/hashtable.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/rmap.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/string_helpers.h>
#include <linux/stringhash.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "internal.h"

#define CHUNK_PAGES	512UL

struct chunk {
	struct rb_node node;
	unsigned long index;	/* of its first page, in chunks */
	DECLARE_BITMAP(bits, CHUNK_PAGES);
};

/**
 * struct payer - what the profiles of one user take
 * @node: in @payers
 * @user: its ID
 * @bytes: allocated for it, with this structure
 */
struct payer {
	struct list_head node;
	kuid_t user;
	unsigned long bytes;
};

/* A chunk of the global profile, to which several users add. */
struct paid_chunk {
	struct chunk chunk;
	struct payer *payer;
};

/**
 * struct profile - a set of virtual pages
 * @chunks: its parts, in the order of their addresses; none is empty
 * @payer: who pays for it; NULL for the global one, of which each chunk has its own
 * @node: in @apps
 * @known: a process of this application was scanned whole, and there was another
 *	   process to merge with
 * @app: the application
 */
struct profile {
	struct rb_root chunks;
	struct payer *payer;
	struct hlist_node node;
	bool known;
	struct ksm_app app;
};

static DEFINE_MUTEX(profile_mutex);
static DEFINE_HASHTABLE(apps, 6);
static struct profile global;
/* The users that have profiles. Few, or as many as the limit has room for. */
static LIST_HEAD(payers);
static unsigned int nr_payers;
/* The pages that the current scan visits; NULL for all. */
static struct profile *scan_profile;
/* The current scan has visited all pages from the first on. */
static bool scan_whole;
/* The current scan is one of all dormant processes, for ksm_learning. */
static bool scan_learns;
/* The settings when the scan began: all pages; regions made after a fork. */
static bool scan_all, scan_new;
/* Allocated memory of all profiles, in bytes. */
unsigned long ksm_profile_bytes;

unsigned long ksm_profile_max_bytes = 1 << 20;
unsigned long ksm_profile_refused;	/* pages and names that did not fit */
enum ksm_scope ksm_scope = KSM_SCOPE_ALL;
bool ksm_scan_new_regions;
bool ksm_learning;

/* --- sets ----------------------------------------------------------------- */

static void pay(struct payer *payer, long bytes)
{
	payer->bytes += bytes;
	ksm_profile_bytes += bytes;
}

static size_t chunk_size(struct profile *p)
{
	return p->payer ? sizeof(struct chunk) : sizeof(struct paid_chunk);
}

static void free_chunk(struct profile *p, struct chunk *c)
{
	struct payer *payer = p->payer;

	if (!payer)
		payer = container_of(c, struct paid_chunk, chunk)->payer;
	pay(payer, -(long)chunk_size(p));
	kfree(c);
}

static void empty(struct profile *p)
{
	struct chunk *c, *next;

	rbtree_postorder_for_each_entry_safe(c, next, &p->chunks, node)
		free_chunk(p, c);
	p->chunks = RB_ROOT;
}

static void free_app(struct profile *p)
{
	/* The running scan continues with all pages. */
	if (scan_profile == p) {
		scan_profile = NULL;
		scan_whole = false;
	}
	empty(p);
	hash_del(&p->node);
	pay(p->payer, -(long)sizeof(*p));
	kfree(p);
}

/* Forget users that pay for nothing. */
static void drop_payers(void)
{
	struct payer *payer, *next;

	list_for_each_entry_safe(payer, next, &payers, node) {
		if (payer->bytes > sizeof(*payer))
			continue;
		pay(payer, -(long)payer->bytes);
		list_del(&payer->node);
		nr_payers--;
		kfree(payer);
	}
}

/* Forget a profile of a user or, if it has none, what it has in the global one. */
static void forget_one(struct payer *payer)
{
	struct rb_node *node, *next;
	struct profile *p;
	struct chunk *c;
	int i;

	hash_for_each(apps, i, p, node) {
		if (p->payer == payer) {
			free_app(p);
			return;
		}
	}
	for (node = rb_first(&global.chunks); node; node = next) {
		next = rb_next(node);
		c = rb_entry(node, struct chunk, node);
		if (container_of(c, struct paid_chunk, chunk)->payer != payer)
			continue;
		rb_erase(node, &global.chunks);
		free_chunk(&global, c);
	}
}

/*
 * Make room for what is within a user's equal share. If that does not fit, the others
 * have more than all their shares, so one of them has more than its own.
 */
static bool make_room(struct payer *payer, size_t size)
{
	unsigned long limit = READ_ONCE(ksm_profile_max_bytes);
	unsigned long share = limit / nr_payers;
	struct payer *other, *most;

	while (ksm_profile_bytes + size > limit) {
		if (payer->bytes + size > share)
			return false;
		most = payer;
		list_for_each_entry(other, &payers, node)
			if (other->bytes > most->bytes)
				most = other;
		if (most->bytes <= max(share, sizeof(*most)))
			return false;
		forget_one(most);
	}
	return true;
}

static void *get_bytes(struct payer *payer, size_t size)
{
	void *p;

	if (!make_room(payer, size))
		return NULL;
	p = kzalloc(size, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (p)
		pay(payer, size);
	return p;
}

/* The user's account, or NULL. One without bytes is dropped by drop_payers(). */
static struct payer *get_payer(kuid_t user)
{
	struct payer *payer;

	list_for_each_entry(payer, &payers, node)
		if (uid_eq(payer->user, user))
			return payer;
	payer = kzalloc(sizeof(*payer), GFP_KERNEL | __GFP_NORETRY |
			__GFP_NOWARN);
	if (!payer)
		return NULL;
	payer->user = user;
	list_add(&payer->node, &payers);
	nr_payers++;
	if (!make_room(payer, sizeof(*payer))) {
		list_del(&payer->node);
		nr_payers--;
		kfree(payer);
		return NULL;
	}
	pay(payer, sizeof(*payer));
	return payer;
}

/* The first chunk at or behind @index. */
static struct chunk *chunk_from(struct profile *p, unsigned long index)
{
	struct rb_node *node = p->chunks.rb_node;
	struct chunk *found = NULL;

	while (node) {
		struct chunk *c = rb_entry(node, struct chunk, node);

		if (c->index >= index) {
			found = c;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

static bool chunk_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct chunk, node)->index <
	       rb_entry(b, struct chunk, node)->index;
}

/* The chunk at @index; one that is not there yet is paid for by @payer. */
static struct chunk *chunk_at(struct profile *p, struct payer *payer,
			      unsigned long index)
{
	struct chunk *c = chunk_from(p, index);

	if (c && c->index == index)
		return c;
	/* This may remove others from the tree. */
	c = get_bytes(payer, chunk_size(p));
	if (!c)
		return NULL;
	c->index = index;
	if (!p->payer)
		container_of(c, struct paid_chunk, chunk)->payer = payer;
	rb_add(&c->node, &p->chunks, chunk_less);
	return c;
}

static void set_page(struct profile *p, struct payer *payer, unsigned long page)
{
	struct chunk *c = chunk_at(p, payer, page / CHUNK_PAGES);

	if (c)
		__set_bit(page % CHUNK_PAGES, c->bits);
	else
		ksm_profile_refused++;
}

/*
 * The first run of pages of the set between *@from and *@to. A run ends at the end
 * of a chunk; the next call continues behind it.
 */
static bool next_run(struct profile *p, unsigned long *from, unsigned long *to)
{
	struct chunk *c = chunk_from(p, *from / CHUNK_PAGES);
	unsigned long base, bit;

	for (; c; c = rb_entry_safe(rb_next(&c->node), struct chunk, node)) {
		base = c->index * CHUNK_PAGES;
		if (base >= *to)
			return false;
		bit = find_next_bit(c->bits, CHUNK_PAGES,
				    *from > base ? *from - base : 0);
		if (bit == CHUNK_PAGES)
			continue;
		if (base + bit >= *to)
			return false;
		*from = base + bit;
		*to = min(*to, base + find_next_zero_bit(c->bits, CHUNK_PAGES, bit));
		return true;
	}
	return false;
}

static unsigned int app_hash(const struct ksm_app *app)
{
	return full_name_hash(NULL, app->name, strlen(app->name));
}

static struct profile *find_app(const struct ksm_app *app)
{
	struct profile *p;

	hash_for_each_possible(apps, p, node, app_hash(app))
		if (uid_eq(p->app.user, app->user) &&
		    !strcmp(p->app.name, app->name))
			return p;
	return NULL;
}

static struct profile *get_app(const struct ksm_app *app)
{
	struct payer *payer;
	struct profile *p;

	/* An empty name could not be written back, see parse_name(). */
	if (!*app->name)
		return NULL;
	p = find_app(app);
	if (p)
		return p;
	payer = get_payer(app->user);
	p = payer ? get_bytes(payer, sizeof(*p)) : NULL;
	if (!p) {
		ksm_profile_refused++;
		return NULL;
	}
	p->payer = payer;
	p->app = *app;
	hash_add(apps, &p->node, app_hash(app));
	return p;
}

static void clear_all(void)
{
	struct hlist_node *next;
	struct profile *p;
	int i;

	/* The running scan continues with all pages. */
	scan_profile = NULL;
	scan_whole = false;
	empty(&global);
	hash_for_each_safe(apps, i, next, p, node)
		free_app(p);
	drop_payers();
}

/* --- for ksmd ------------------------------------------------------------- */

/* Choose the pages that the scan of a process visits. */
void ksm_profile_begin(const struct ksm_app *app)
{
	enum ksm_scope scope = READ_ONCE(ksm_scope);
	struct profile *p;

	scan_all = scope == KSM_SCOPE_ALL;
	scan_new = READ_ONCE(ksm_scan_new_regions);
	scan_learns = READ_ONCE(ksm_learning);
	mutex_lock(&profile_mutex);
	scan_profile = NULL;
	if (!scan_all && !scan_learns) {
		p = find_app(app);
		if (p && p->known)
			scan_profile = scope == KSM_SCOPE_APP ? p : &global;
	}
	scan_whole = !scan_profile;
	mutex_unlock(&profile_mutex);
}

/* The scan of a process is complete. */
void ksm_profile_end(const struct ksm_app *app)
{
	struct profile *p;

	mutex_lock(&profile_mutex);
	if (scan_whole) {
		p = scan_learns ? get_app(app) : find_app(app);
		if (p && (scan_learns || !RB_EMPTY_ROOT(&p->chunks)))
			p->known = true;
	}
	scan_profile = NULL;
	drop_payers();
	mutex_unlock(&profile_mutex);
}

/*
 * True if the region was made after the fork. Fork gives a region with private
 * pages an anon_vma below its parent's; a later region's anon_vma is a root.
 */
static bool is_new_region(struct vm_area_struct *vma)
{
	return vma->anon_vma && vma->anon_vma->root == vma->anon_vma;
}

/**
 * ksm_profile_next() - find the next pages to scan in a region
 * @vma: the region; the mmap_lock of its process is held
 * @forked: its process has executed no program since its fork
 * @addr: where to start; set to the first address to scan
 * @end: the region's end; set to the end of the run to scan
 *
 * Return: false if nothing is left in the region.
 */
bool ksm_profile_next(struct vm_area_struct *vma, bool forked,
		      unsigned long *addr, unsigned long *end)
{
	unsigned long from, to;
	bool found = true;

	if (scan_all)
		return true;
	if (forked && !scan_new && is_new_region(vma))
		return false;
	from = *addr >> PAGE_SHIFT;
	to = *end >> PAGE_SHIFT;
	mutex_lock(&profile_mutex);
	if (scan_profile)
		found = next_run(scan_profile, &from, &to);
	mutex_unlock(&profile_mutex);
	*addr = from << PAGE_SHIFT;
	*end = to << PAGE_SHIFT;
	return found;
}

/* Record that a page of an application has merged at an address. */
void ksm_profile_merged(const struct ksm_app *app, unsigned long addr)
{
	struct payer *payer;
	struct profile *p;

	mutex_lock(&profile_mutex);
	payer = get_payer(app->user);
	if (payer)
		set_page(&global, payer, addr >> PAGE_SHIFT);
	else
		ksm_profile_refused++;
	p = get_app(app);
	if (p)
		set_page(p, p->payer, addr >> PAGE_SHIFT);
	mutex_unlock(&profile_mutex);
}

/* --- for user space ------------------------------------------------------- */

/* The part of the text that a read returns. */
struct window {
	char *buf;
	loff_t off;		/* of the window in the text */
	size_t count;
	loff_t pos;		/* end of the text made so far */
};

/* "NAME", escaped, or "NAME USER" */
#define NAME_LEN	(TASK_COMM_LEN * 4 + 12)
#define LINE_LEN	(2 * 2 * sizeof(long) + NAME_LEN + 16)

/* Returns whether the window is full. */
static bool put_line(struct window *w, const char *line)
{
	loff_t len = strlen(line), from, to;

	from = max(w->off, w->pos);
	to = min(w->off + (loff_t)w->count, w->pos + len);
	if (from < to)
		memcpy(w->buf + (from - w->off), line + (from - w->pos), to - from);
	w->pos += len;
	return w->pos >= w->off + (loff_t)w->count;
}

static bool put_profile(struct window *w, struct profile *p, const char *word,
			const char *name)
{
	unsigned long from = 0, to = ULONG_MAX >> PAGE_SHIFT;
	char line[LINE_LEN];

	while (next_run(p, &from, &to)) {
		snprintf(line, sizeof(line), "%s %lx-%lx%s%s\n", word,
			 from << PAGE_SHIFT, to << PAGE_SHIFT,
			 *name ? " " : "", name);
		if (put_line(w, line))
			return true;
		from = to;
		to = ULONG_MAX >> PAGE_SHIFT;
		cond_resched();
	}
	return false;
}

/* Escape the name, which may hold any byte except NUL; add the user if not root. */
static void escape(const struct ksm_app *app, char *out)
{
	const char *name = app->name;

	for (; *name; name++) {
		if (isascii(*name) && isgraph(*name) && *name != '\\')
			*out++ = *name;
		else
			out += sprintf(out, "\\x%02x", (unsigned char)*name);
	}
	if (!uid_eq(app->user, GLOBAL_ROOT_UID))
		out += sprintf(out, " %u", from_kuid(&init_user_ns, app->user));
	*out = 0;
}

/**
 * ksm_profile_read() - read all profiles as text
 * @buf: the destination
 * @off: the first byte of the text to read
 * @count: the number of bytes
 *
 * The text is made anew for each read, so changes between reads may show.
 *
 * Return: the number of bytes, 0 at the end of the text.
 */
ssize_t ksm_profile_read(char *buf, loff_t off, size_t count)
{
	struct window w = { .buf = buf, .off = off, .count = count };
	char line[LINE_LEN], name[NAME_LEN];
	struct profile *p;
	int i;

	mutex_lock(&profile_mutex);
	if (put_profile(&w, &global, "global", ""))
		goto out;
	hash_for_each(apps, i, p, node) {
		escape(&p->app, name);
		if (p->known) {
			snprintf(line, sizeof(line), "known %s\n", name);
			if (put_line(&w, line))
				goto out;
		}
		if (put_profile(&w, p, "app", name))
			goto out;
	}
out:
	mutex_unlock(&profile_mutex);
	if (w.pos <= off)
		return 0;
	return min_t(loff_t, w.pos - off, count);
}

static int parse_name(char *text, struct ksm_app *app)
{
	char name[NAME_LEN], *user;
	u32 id = 0;

	if (strscpy(name, text) < 0)
		return -EINVAL;
	user = strchr(name, ' ');
	if (user) {
		*user++ = 0;
		if (kstrtou32(user, 10, &id))
			return -EINVAL;
	}
	app->user = make_kuid(&init_user_ns, id);
	string_unescape_inplace(name, UNESCAPE_ANY);
	if (!*name || !uid_valid(app->user) || strscpy_pad(app->name, name) < 0)
		return -EINVAL;
	return 0;
}

/* Parse "FROM-TO", two hexadecimal page addresses. Returns the rest, or NULL. */
static char *parse_range(char *text, unsigned long *from, unsigned long *to)
{
	char *hyphen = strchr(text, '-'), *rest;

	if (!hyphen)
		return NULL;
	*hyphen = 0;
	rest = hyphen + 1;
	while (isxdigit(*rest))
		rest++;
	if (*rest) {
		if (*rest != ' ')
			return NULL;
		*rest++ = 0;
	}
	if (kstrtoul(text, 16, from) || kstrtoul(hyphen + 1, 16, to))
		return NULL;
	if (!PAGE_ALIGNED(*from) || !PAGE_ALIGNED(*to) || *from >= *to ||
	    *to > TASK_SIZE_MAX)
		return NULL;
	return rest;
}

static int set_range(struct profile *p, struct payer *payer, unsigned long from,
		     unsigned long to)
{
	unsigned long page = from >> PAGE_SHIFT, n;
	struct chunk *c;

	to >>= PAGE_SHIFT;
	for (; page < to; page += n) {
		n = min(CHUNK_PAGES - page % CHUNK_PAGES, to - page);
		c = chunk_at(p, payer, page / CHUNK_PAGES);
		if (!c)
			return -ENOSPC;
		bitmap_set(c->bits, page % CHUNK_PAGES, n);
	}
	return 0;
}

static int write_line(char *line)
{
	unsigned long from, to;
	struct ksm_app app;
	struct payer *payer;
	struct profile *p;
	char *rest;

	if (!*line)
		return 0;
	if (!strcmp(line, "clear")) {
		clear_all();
		return 0;
	}
	if (!strncmp(line, "global ", 7)) {
		rest = parse_range(line + 7, &from, &to);
		if (!rest || *rest)
			return -EINVAL;
		payer = get_payer(GLOBAL_ROOT_UID);
		return payer ? set_range(&global, payer, from, to) : -ENOSPC;
	}
	if (!strncmp(line, "known ", 6)) {
		if (parse_name(line + 6, &app))
			return -EINVAL;
		p = get_app(&app);
		if (!p)
			return -ENOSPC;
		p->known = true;
		return 0;
	}
	if (!strncmp(line, "app ", 4)) {
		rest = parse_range(line + 4, &from, &to);
		if (!rest || parse_name(rest, &app))
			return -EINVAL;
		p = get_app(&app);
		return p ? set_range(p, p->payer, from, to) : -ENOSPC;
	}
	return -EINVAL;
}

/**
 * ksm_profile_write() - add the text of profiles to the profiles
 * @buf: lines, ended by a NUL; changed
 * @count: their length
 *
 * A line is `global FROM-TO`, `app FROM-TO NAME`, `known NAME`, or `clear`, where a
 * user other than root follows the name. Root pays for what is global. A write
 * may be a part of a longer text: if it has a newline, the bytes behind its last
 * newline are left to the next write.
 *
 * Return: the number of bytes used, or -errno; lines before a bad one take effect.
 */
ssize_t ksm_profile_write(char *buf, size_t count)
{
	char *line = buf, *last = strrchr(buf, '\n'), *end;
	int err = 0;

	if (last)
		last[1] = 0;
	if (strlen(buf) != (last ? last + 1 - buf : count))
		return -EINVAL;	/* a NUL in it */
	mutex_lock(&profile_mutex);
	while (!err && *line) {
		end = strchrnul(line, '\n');
		if (*end)
			*end++ = 0;
		err = write_line(line);
		line = end;
		cond_resched();
	}
	drop_payers();
	mutex_unlock(&profile_mutex);
	return err ?: last ? last + 1 - buf : count;
}

#include "tests/profile-kunit.h"
