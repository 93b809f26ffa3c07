/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: tests of where an image lies. Included at the end of place.c, so
 * that its statics can be tested.
 */
#ifdef CONFIG_COHORT_KUNIT_TEST

#ifndef _MM_COHORT_PLACE_KUNIT_H
#define _MM_COHORT_PLACE_KUNIT_H

#include <kunit/test.h>
#include <linux/slab.h>

/* The first page of a library as Debian links it: 1.5 MB, then data. */
struct first_page {
	union {
		struct {
			struct elf64_hdr elf;
			struct elf64_phdr header[4];
		};
		u8 bytes[PAGE_SIZE];
	};
};

#define TEST_CODE	SZ_64K
#define TEST_DATA	(SZ_1M + SZ_512K)

static void make_header(struct elf64_phdr *header, u64 start, u64 bytes, u32 flags)
{
	header->p_type = PT_LOAD;
	header->p_flags = flags;
	header->p_offset = start;
	header->p_vaddr = start;
	header->p_filesz = bytes;
	header->p_memsz = bytes;
	header->p_align = PAGE_SIZE;
}

static void fill_page(struct first_page *page)
{
	memset(page, 0, sizeof(*page));
	memcpy(page->elf.e_ident, ELFMAG, SELFMAG);
	page->elf.e_ident[EI_CLASS] = ELFCLASS64;
	page->elf.e_ident[EI_DATA] = ELF_DATA;
	page->elf.e_type = ET_DYN;
	page->elf.e_phoff = offsetof(struct first_page, header);
	page->elf.e_phentsize = sizeof(struct elf64_phdr);
	page->elf.e_phnum = ARRAY_SIZE(page->header);
	make_header(&page->header[0], 0, SZ_4K, PF_R);
	make_header(&page->header[1], TEST_CODE, SZ_1M, PF_R | PF_X);
	page->header[2].p_type = PT_NOTE;
	make_header(&page->header[3], TEST_DATA + 0x10, SZ_4K, PF_R | PF_W);
}

static struct first_page *make_page(struct kunit *test)
{
	struct first_page *page = kunit_kzalloc(test, sizeof(*page), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, page);
	fill_page(page);
	return page;
}

/* Bytes before the boundary; 0 if there is none. */
static unsigned long bytes_before(struct first_page *page)
{
	struct image image;

	return read_headers(&image, page) ? boundary(&image) : 0;
}

static void cohort_test_image(struct kunit *test)
{
	struct first_page *page = make_page(test);

	KUNIT_EXPECT_EQ(test, bytes_before(page), TEST_DATA);
	/* Not from 0 on: what counts is the distance. */
	page->header[0].p_vaddr += SZ_2G;
	page->header[1].p_vaddr += SZ_2G;
	page->header[3].p_vaddr += SZ_2G;
	KUNIT_EXPECT_EQ(test, bytes_before(page), TEST_DATA);
	/* ld.so rounds the start to the alignment. */
	page->header[3].p_align = SZ_1M;
	KUNIT_EXPECT_EQ(test, bytes_before(page), SZ_1M);
	page->header[3].p_align = SZ_2M;
	KUNIT_EXPECT_EQ(test, bytes_before(page), 0);
}

/* Few pages beyond full tables lie with the data; more have a table of their own. */
static void cohort_test_image_rest(struct kunit *test)
{
	struct first_page *page = make_page(test);
	const u64 few = COHORT_JOIN_MIN * PAGE_SIZE;

	page->header[3].p_vaddr = SZ_4M + few - PAGE_SIZE;
	page->header[3].p_offset = page->header[3].p_vaddr;
	KUNIT_EXPECT_EQ(test, bytes_before(page), SZ_4M);
	page->header[3].p_vaddr += PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, bytes_before(page), SZ_4M + few);
}

/* Images that are right, but have no boundary worth a table. */
static void cohort_test_image_plain(struct kunit *test)
{
	struct first_page *page = make_page(test);

	page->header[3].p_flags = PF_R;
	KUNIT_EXPECT_EQ(test, bytes_before(page), 0);
	page->header[3].p_flags = PF_R | PF_W;
	page->header[1].p_flags = PF_R | PF_W | PF_X;
	KUNIT_EXPECT_EQ(test, bytes_before(page), 0);
	page->header[1].p_flags = PF_R | PF_X;
	/* From the start of the image on, though a later segment may be written, too. */
	page->header[0].p_flags = PF_R | PF_W;
	KUNIT_EXPECT_EQ(test, bytes_before(page), 0);
}

/* The page must not be an image; then it is one again. */
static void expect_odd(struct kunit *test, struct first_page *page)
{
	KUNIT_EXPECT_EQ(test, bytes_before(page), 0);
	fill_page(page);
}

/* Headers that no linker writes: nothing may be read behind the page, nor overflow. */
static void cohort_test_image_odd(struct kunit *test)
{
	struct first_page *page = make_page(test);

	page->elf.e_ident[0] = 0;
	expect_odd(test, page);
	page->elf.e_ident[EI_CLASS] = ELFCLASS32;
	expect_odd(test, page);
	page->elf.e_ident[EI_DATA] = 0;
	expect_odd(test, page);
	page->elf.e_type = ET_EXEC;
	expect_odd(test, page);
	page->elf.e_phentsize = 32;
	expect_odd(test, page);
	page->elf.e_phentsize = 0;
	expect_odd(test, page);
	page->elf.e_phnum = 0;
	expect_odd(test, page);
	page->elf.e_phnum = 0xffff;
	expect_odd(test, page);
	page->elf.e_phnum = PAGE_SIZE / sizeof(struct elf64_phdr);
	expect_odd(test, page);
	page->elf.e_phoff = PAGE_SIZE;
	expect_odd(test, page);
	page->elf.e_phoff = PAGE_SIZE + 1;
	expect_odd(test, page);
	page->elf.e_phoff = U64_MAX - 8;
	expect_odd(test, page);
	page->elf.e_phoff = PAGE_SIZE - sizeof(struct elf64_phdr);
	expect_odd(test, page);
	page->header[0].p_offset = SZ_4K;
	expect_odd(test, page);
	page->header[0].p_memsz = 0;
	expect_odd(test, page);
	page->header[1].p_vaddr = 0;
	expect_odd(test, page);
	page->header[1].p_vaddr += 1;
	expect_odd(test, page);
	page->header[1].p_filesz += 1;
	expect_odd(test, page);
	page->header[3].p_vaddr = U64_MAX - 0xfef;
	expect_odd(test, page);
	page->header[3].p_vaddr = TASK_SIZE + 0x10;
	expect_odd(test, page);
	page->header[3].p_memsz = U64_MAX;
	expect_odd(test, page);
	page->header[3].p_memsz = TASK_SIZE;
	expect_odd(test, page);
	page->header[3].p_align = 3;
	expect_odd(test, page);
	page->header[3].p_align = U64_MAX;
	expect_odd(test, page);
	page->header[3].p_align = BIT_ULL(63);
	expect_odd(test, page);
	KUNIT_EXPECT_EQ(test, bytes_before(page), TEST_DATA);
}

static struct kunit_case cohort_place_cases[] = {
	KUNIT_CASE(cohort_test_image),
	KUNIT_CASE(cohort_test_image_rest),
	KUNIT_CASE(cohort_test_image_plain),
	KUNIT_CASE(cohort_test_image_odd),
	{}
};

static struct kunit_suite cohort_place_suite = {
	.name = "cohort-place",
	.test_cases = cohort_place_cases,
};

kunit_test_suite(cohort_place_suite);

#endif /* _MM_COHORT_PLACE_KUNIT_H */

#endif /* CONFIG_COHORT_KUNIT_TEST */
