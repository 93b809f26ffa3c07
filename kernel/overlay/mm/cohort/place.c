// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: where files lie in the processes of a group.
 *
 * A table can be joined if the same pages of the same files lie at the same offsets in
 * its 2 MB. With random addresses that is chance. In a group whose files lie alike
 * (aslr=congruent) an address is therefore random in steps of 2 MB, and a large file lies
 * so that its bytes have the offset that they have in the file, as for huge pages.
 *
 * Linked with segments of 4 kB, a program or library has the data that each process writes
 * in the same 2 MB as its code, so that its tables are nobody's to join. With the word
 * `places` in the group's label these *images* are separated:
 *
 * * The *boundary* of an image is between the pages that nobody writes and those that each
 *   process does, from the first writable segment on. It is put at a multiple of 2 MB. The
 *   tables before it then hold nothing private.
 * * Images lie in an *arena*, a range of 8 GB that each member has above the highest
 *   address that mmap() chooses otherwise. In between there is nothing else: it would
 *   lie in the tables before a boundary, which begin with the end of the image below.
 * * The group remembers where in the arena each image lies: the first member to map it
 *   chooses, the others map it there, in whatever order. The arenas themselves are at
 *   different, random addresses.
 *
 * This costs a process a table or two more of its own, and spares it faults.
 *
 * Nothing of this is trusted. The headers of an image are what a user wrote; odd ones, or
 * those that are not in memory, make an image a file like others. If two members do not
 * agree, or a file has changed since, then they have no table in common: whoever joins
 * one compares all that lies in its range (invariant 1).
 */
#include <linux/align.h>
#include <linux/compat.h>
#include <linux/elf.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/highmem.h>
#include <linux/jhash.h>
#include <linux/log2.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/random.h>
#include <linux/region_order.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/secretmem.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "group.h"

/**
 * struct image - what of a program or library decides where it lies
 * @start: the first address of its first segment, from the start of a page on
 * @end: the end of its last segment so far
 * @data: the first page of the first segment that may be written
 * @align: of its segments, at least a page
 * @segments: how many segments so far
 * @written: one of them may be written
 *
 * Addresses are those that the linker gave it.
 */
struct image {
	u64 start;
	u64 end;
	u64 data;
	u64 align;
	unsigned int segments;
	bool written;
};

/*
 * Add what a program header says; false if no linker would write it. Each sum is checked:
 * the header is a user's. It is a copy, which nobody changes meanwhile.
 */
static bool add_header(struct image *image, const struct elf64_phdr *header)
{
	if (header->p_type != PT_LOAD)
		return true;
	if (header->p_vaddr < image->end || header->p_vaddr >= TASK_SIZE ||
	    !header->p_memsz || header->p_memsz > TASK_SIZE - header->p_vaddr ||
	    header->p_filesz > header->p_memsz)
		return false;
	if (header->p_align > 1 && !is_power_of_2(header->p_align))
		return false;
	if ((header->p_vaddr ^ header->p_offset) & ~PAGE_MASK)
		return false;
	if (!image->segments++) {
		/* Whoever maps an image maps its first segment, here the file's first page. */
		if (header->p_offset)
			return false;
		image->start = header->p_vaddr & PAGE_MASK;
		image->align = PAGE_SIZE;
	}
	image->align = max(image->align, header->p_align);
	image->end = header->p_vaddr + header->p_memsz;
	if (header->p_flags & PF_W && !image->written) {
		image->data = header->p_vaddr & PAGE_MASK;
		image->written = true;
	}
	return true;
}

/* Read the first page of an image; false if it is none, or an odd one. */
static bool read_headers(struct image *image, const void *page)
{
	struct elf64_phdr header;
	struct elf64_hdr elf;
	unsigned int i;

	memset(image, 0, sizeof(*image));
	memcpy(&elf, page, sizeof(elf));
	if (memcmp(elf.e_ident, ELFMAG, SELFMAG) ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_ident[EI_DATA] != ELF_DATA || elf.e_type != ET_DYN ||
	    elf.e_phentsize != sizeof(header))
		return false;
	if (elf.e_phoff > PAGE_SIZE ||
	    elf.e_phnum > (PAGE_SIZE - elf.e_phoff) / sizeof(header))
		return false;
	for (i = 0; i < elf.e_phnum; i++) {
		/* The copy is checked, as the page may be written to. */
		memcpy(&header, page + elf.e_phoff + i * sizeof(header),
		       sizeof(header));
		if (!add_header(image, &header))
			return false;
	}
	return image->segments;
}

/*
 * Bytes of an image before its boundary; 0 if it is to have none, as its pages that nobody
 * writes are not worth a table.
 */
static unsigned long boundary(const struct image *image)
{
	unsigned long bytes;

	if (!image->written)
		return 0;
	/* Who maps the image may round its start to the alignment of segments. */
	bytes = round_down(image->data - image->start, image->align);
	if (bytes < COHORT_PLACE_MIN)
		return 0;
	/* Nobody joins a table for the few pages that are left over, so let it begin there. */
	if (bytes % PMD_SIZE < COHORT_JOIN_MIN * PAGE_SIZE)
		bytes = round_down(bytes, PMD_SIZE);
	return bytes;
}

/*
 * Whose pages a region of @file will map, most likely: with overlayfs, whose mounts have
 * inodes of their own for one lower file, the lower one. Not D_REAL_DATA, as overlayfs may
 * take locks and read from disk to find that, and the mmap_lock is held.
 */
static struct inode *real_inode(struct file *file)
{
	return d_inode(d_real(file->f_path.dentry, D_REAL_METADATA));
}

/*
 * Read the headers of a file that is about to be mapped, if that needs no disk: the
 * mmap_lock is held for writing. ld.so has just read them.
 */
static bool read_image(struct image *image, struct file *file)
{
	struct address_space *mapping;
	struct folio *folio;
	bool found = false;
	void *page;

	/* Code is mapped from there; and not from memory that the kernel must not read. */
	if (!S_ISREG(file_inode(file)->i_mode) || !(file->f_mode & FMODE_READ) ||
	    path_noexec(&file->f_path))
		return false;
	mapping = real_inode(file)->i_mapping;
	if (secretmem_mapping(mapping) || mapping_inaccessible(mapping))
		return false;
	folio = filemap_get_folio(mapping, 0);
	if (IS_ERR(folio))
		return false;
	/* A huge page is to be mapped as such. */
	if (folio_test_uptodate(folio) && !folio_test_pmd_mappable(folio) &&
	    !folio_test_hugetlb(folio) && !PageHWPoison(folio_page(folio, 0))) {
		page = kmap_local_folio(folio, 0);
		found = read_headers(image, page);
		kunmap_local(page);
	}
	folio_put(folio);
	return found;
}

/* True if files of a process lie in 2 MB as in other processes of its group. */
bool cohort_places(struct mm_struct *mm)
{
	/* Small address spaces have no random bits to spare, nor have large tables. */
	return mm->cohort.group->key.flags & COHORT_GROUP_CONGRUENT &&
	       TASK_SIZE > SZ_4G && PMD_SIZE == SZ_2M;
}

/* --- the arena ------------------------------------------------------------- */

#define ARENA_BYTES	SZ_8G
/*
 * The arena's first table is private: it has small libraries. Leave room in it for what
 * each program maps beside them, or that would need a table of its own.
 */
#define ARENA_FIRST	SZ_512K

/**
 * struct room - how far an arena is used; offsets from its start
 * @end: the end of the last image
 * @hole: free bytes between two images, for those without a boundary
 * @hole_end: and their end
 */
struct room {
	unsigned long end;
	unsigned long hole;
	unsigned long hole_end;
};

/* True if images of a process have boundaries. */
static bool separates(struct mm_struct *mm)
{
	return mm->cohort.group->arena;
}

/* True if a process has an arena: below the stack, above all else that mmap() places. */
static bool has_arena(struct mm_struct *mm)
{
	return separates(mm) && test_bit(MMF_TOPDOWN, &mm->flags) &&
	       TASK_SIZE / 128 >= ARENA_BYTES;
}

static unsigned long arena_start(struct mm_struct *mm)
{
	return ALIGN_DOWN(mm->mmap_base, PMD_SIZE);
}

/* Where what mmap() places ends. */
unsigned long cohort_mmap_end(struct mm_struct *mm)
{
	return has_arena(mm) ? arena_start(mm) + ARENA_BYTES : mm->mmap_base;
}

/**
 * cohort_do_layout() - let files of a new program lie as in others of its group
 * @mm: its address space, whose layout is chosen
 */
void cohort_do_layout(struct mm_struct *mm)
{
	if (!cohort_places(mm))
		return;
	mm->mmap_base = ALIGN_DOWN(mm->mmap_base, PMD_SIZE);
	if (has_arena(mm))
		mm->mmap_base -= ARENA_BYTES - ARENA_FIRST;
	cohort_use_layout(mm);
}

/*
 * Find room for an image of @len bytes, of which @before are to lie before a boundary, if
 * any. Returns the offset; 0 if there is no room. One with a boundary begins in a table of
 * its own. The others follow each other, or lie behind the data of one with a boundary.
 */
static unsigned long find_room(struct room *room, unsigned long len,
			       unsigned long before, unsigned long align)
{
	unsigned long start, table = ALIGN(room->end, PMD_SIZE);

	if (before) {
		align = max(align, PMD_SIZE);
		start = ALIGN(table + before, align) - before;
	} else {
		start = ALIGN(room->hole, align);
		if (start < room->hole_end && len <= room->hole_end - start) {
			room->hole = start + len;
			return start;
		}
		start = ALIGN(room->end, align);
	}
	if (start >= ARENA_BYTES || len > ARENA_BYTES - start)
		return 0;
	if (before && table - room->end > room->hole_end - room->hole) {
		room->hole = room->end;
		room->hole_end = table;
	}
	room->end = start + len;
	return start;
}

/* --- places ---------------------------------------------------------------- */

#define PLACES_BITS	7
/* So many images have a place in a group, at most (invariant 13). */
#define PLACES_MAX	1024

/**
 * struct place - where an image lies in the arenas of a group's members
 * @node: in the table of the group's places
 * @dev: the file's device
 * @ino: its number there
 * @generation: of that number
 * @len: the length that ld.so maps
 * @before: bytes before the image's boundary, or 0
 * @offset: of its first page, from the start of the arena
 *
 * This is no reference to a file, which would keep file systems from being unmounted. If
 * another file has all of this, it has the same place.
 */
struct place {
	struct hlist_node node;
	dev_t dev;
	unsigned long ino;
	u32 generation;
	unsigned long len;
	unsigned long before;
	unsigned long offset;
};

/**
 * struct cohort_arena - the places of a group
 * @lock: no other lock is taken under it
 * @seed: nobody chooses files that have one hash
 * @nr: how many places
 * @room: what they leave
 * @places: the places by their files
 */
struct cohort_arena {
	spinlock_t lock;	/* for all of it */
	u32 seed;
	unsigned int nr;
	struct room room;
	DECLARE_HASHTABLE(places, PLACES_BITS);
};

/**
 * cohort_arena_alloc() - an arena without images, for a new group
 *
 * Return: the arena; NULL without memory.
 */
struct cohort_arena *cohort_arena_alloc(void)
{
	struct cohort_arena *arena = kzalloc(sizeof(*arena),
					     GFP_KERNEL_ACCOUNT);

	if (arena) {
		spin_lock_init(&arena->lock);
		arena->seed = get_random_u32();
		arena->room.end = ARENA_FIRST;
	}
	return arena;
}

/**
 * cohort_arena_free() - free the places of a group that has no members any more
 * @arena: the places, or NULL
 */
void cohort_arena_free(struct cohort_arena *arena)
{
	struct hlist_node *next;
	struct place *place;
	unsigned int i;

	if (!arena)
		return;
	hash_for_each_safe(arena->places, i, next, place, node)
		kfree(place);
	kfree(arena);
}

static struct hlist_head *bucket_of(struct cohort_arena *arena,
				    const struct place *place)
{
	u32 hash = jhash_3words(place->dev, place->ino, place->generation,
				arena->seed ^ (u32)(place->len >> PAGE_SHIFT));

	return &arena->places[hash_32(hash, PLACES_BITS)];
}

/* The place of the same image; NULL if it has none yet. The arena is locked. */
static struct place *find_place(struct cohort_arena *arena,
				const struct place *like)
{
	struct place *place;

	hlist_for_each_entry(place, bucket_of(arena, like), node)
		if (place->ino == like->ino && place->dev == like->dev &&
		    place->generation == like->generation &&
		    place->len == like->len && place->before == like->before)
			return place;
	return NULL;
}

/* The offset of an image that has a place; 0 if it has none. */
static unsigned long known_place(struct cohort_arena *arena,
				 const struct place *like)
{
	unsigned long offset;
	struct place *place;

	spin_lock(&arena->lock);
	place = find_place(arena, like);
	offset = place ? place->offset : 0;
	spin_unlock(&arena->lock);
	return offset;
}

/* Give an image a place, if it has none. Returns 0 without room or memory for it. */
static unsigned long new_place(struct cohort_arena *arena,
			       const struct place *like, unsigned long align)
{
	struct place *new, *place;
	unsigned long offset = 0;

	if (READ_ONCE(arena->nr) >= PLACES_MAX)
		return 0;
	new = kmemdup(like, sizeof(*like), GFP_COHORT_JOIN);
	if (!new)
		return 0;
	spin_lock(&arena->lock);
	place = find_place(arena, like);
	if (place)
		offset = place->offset;
	else if (arena->nr < PLACES_MAX)
		offset = find_room(&arena->room, new->len, new->before, align);
	if (!place && offset) {
		new->offset = offset;
		hlist_add_head(&new->node, bucket_of(arena, new));
		WRITE_ONCE(arena->nr, arena->nr + 1);
		new = NULL;
	}
	spin_unlock(&arena->lock);
	kfree(new);
	return offset;
}

/* The offset at which members of the calling process's group have an image; 0 for none. */
static unsigned long group_place(const struct image *image, struct file *file,
				 unsigned long len)
{
	struct cohort_group *group = current->mm->cohort.group;
	struct inode *inode = real_inode(file);
	struct place place = {
		.dev = inode->i_sb->s_dev,
		.ino = inode->i_ino,
		.generation = inode->i_generation,
		.len = len,
		.before = boundary(image),
	};
	unsigned long offset = known_place(group->arena, &place);

	return offset ?: new_place(group->arena, &place, image->align);
}

/* True if somebody maps an image as ld.so does. */
static bool maps_whole(const struct image *image, unsigned long len)
{
	return len == PAGE_ALIGN(image->end) - image->start;
}

/* Where in its arena the calling process is to map an image; 0 if not there. */
static unsigned long place_image(const struct image *image, struct file *file,
				 unsigned long len, unsigned long flags)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *next;
	unsigned long offset, addr;

	if (!has_arena(mm) || (flags & MAP_32BIT) || !maps_whole(image, len))
		return 0;
	offset = group_place(image, file, len);
	if (!offset)
		return 0;
	addr = arena_start(mm) + offset;
	if (addr > TASK_SIZE - len)
		return 0;
	/* Nor may it take the room in which a stack grows. */
	next = find_vma(mm, addr);
	return next && vm_start_gap(next) < addr + len ? 0 : addr;
}

/* Tables of regions with an order are not joined: place files for their large pages. */
static bool has_order(struct mm_struct *mm)
{
	return region_order_default(0, mm, PR_ORDER_FILE);
}

/* --- mappings -------------------------------------------------------------- */

/* A free address for @len bytes that is @offset modulo 2 MB; 0 if there is none. */
static unsigned long free_at(unsigned long offset, struct file *file,
			     unsigned long len, unsigned long pgoff,
			     unsigned long flags)
{
	struct mm_struct *mm = current->mm;
	unsigned long place, gap;

	place = mm_get_unmapped_area(mm, file, 0, len + PMD_SIZE, pgoff, flags);
	if (IS_ERR_VALUE(place))
		return 0;
	gap = (offset - place) & (PMD_SIZE - 1);
	/* Next to what is there. */
	if (!gap && test_bit(MMF_TOPDOWN, &mm->flags))
		gap = PMD_SIZE;
	return place + gap;
}

/**
 * cohort_do_place() - where to map a file for a member of a group
 * @file: the file
 * @len: bytes
 * @pgoff: where in the file
 * @flags: MAP_*
 *
 * Return: an address that is free; 0 for anywhere, also if there is none.
 */
unsigned long cohort_do_place(struct file *file, unsigned long len,
			      unsigned long pgoff, unsigned long flags)
{
	unsigned long before = 0, place;
	struct image image;

	if ((flags & MAP_FIXED) || !cohort_places(current->mm) ||
	    in_compat_syscall() || has_order(current->mm))
		return 0;
	/* Others have a reason for the places that they choose. */
	if (file->f_op->get_unmapped_area &&
	    file->f_op->get_unmapped_area != thp_get_unmapped_area &&
	    !shmem_file(file))
		return 0;
	if (len < COHORT_PLACE_MIN && !separates(current->mm))
		return 0;
	/* ld.so first maps the whole of an image, then each segment into that. */
	if (separates(current->mm) && !pgoff &&
	    (flags & MAP_TYPE) == MAP_PRIVATE && read_image(&image, file)) {
		place = place_image(&image, file, len, flags);
		if (place)
			return place;
		before = boundary(&image);
	}
	/* A smaller one that comes and goes is not worth a gap of 2 MB. */
	if (len < COHORT_PLACE_MIN)
		return 0;
	return free_at(before ? -before : pgoff << PAGE_SHIFT, file, len, pgoff,
		       flags);
}

/*
 * How far behind a multiple of 2 MB a program is to begin: less than 2 MB, a multiple of the
 * program's alignment.
 */
static unsigned long image_shift(const void *headers, unsigned int nr,
				 size_t size)
{
	const struct elf64_phdr *header = headers;
	struct image image = {};
	unsigned int i;

	if (size != sizeof(*header) || !separates(current->mm) ||
	    has_order(current->mm))
		return 0;
	for (i = 0; i < nr; i++)
		if (!add_header(&image, &header[i]))
			return 0;
	return -boundary(&image) & (PMD_SIZE - 1);
}

/**
 * cohort_do_image_place() - where a program is to begin that may lie anywhere
 * @place: where it would, as cohort_image_align() has it
 * @headers: its program headers
 * @nr: how many
 * @size: the size of one
 *
 * Return: the address.
 */
unsigned long cohort_do_image_place(unsigned long place, const void *headers,
				    unsigned int nr, size_t size)
{
	return cohort_use_image(current->mm, place, headers, nr, size) +
	       image_shift(headers, nr, size);
}

#include "tests/place-kunit.h"
