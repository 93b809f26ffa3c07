// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads a shared library's headers. */
#include "elf_file.h"

#include <link.h>

static const char *elf_at(const struct elf_file *f, uintptr_t vaddr)
{
	const ElfW(Ehdr) *eh = (const void *)f->map;
	const ElfW(Phdr) *ph = (const void *)(f->map + eh->e_phoff);

	for (int i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && vaddr >= ph[i].p_vaddr &&
		    vaddr < ph[i].p_vaddr + ph[i].p_filesz)
			return f->map + ph[i].p_offset + (vaddr - ph[i].p_vaddr);
	return NULL;
}

bool elf_read(struct elf_file *f, void *window, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ElfW(Ehdr) *eh;
	const ElfW(Phdr) *ph;
	const ElfW(Dyn) *dyn = NULL;
	const char *strings = NULL;
	off_t size;

	memset(f, 0, sizeof(*f));
	if (fd < 0)
		return false;
	size = lseek(fd, 0, SEEK_END);
	if (size < (off_t)sizeof(*eh) || size > (off_t)WINDOW)
		die("%s: %ld bytes", path, (long)size);
	f->map = mmap(window, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	if (f->map == MAP_FAILED)
		die_errno(path);
	close(fd);
	eh = (const void *)f->map;
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_type != ET_DYN)
		die("%s: not a shared library", path);
	ph = (const void *)(f->map + eh->e_phoff);
	f->writable = UINTPTR_MAX;
	for (int i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type == PT_DYNAMIC)
			dyn = (const void *)(f->map + ph[i].p_offset);
		if (ph[i].p_type != PT_LOAD)
			continue;
		if (ph[i].p_vaddr + ph[i].p_memsz > f->end)
			f->end = ph[i].p_vaddr + ph[i].p_memsz;
		if ((ph[i].p_flags & PF_W) && ph[i].p_vaddr < f->writable)
			f->writable = ph[i].p_vaddr;
		if (ph[i].p_align > f->align)
			f->align = ph[i].p_align;
	}
	f->end = (f->end + PAGE - 1) & ~(PAGE - 1);
	if (f->writable > f->end)
		f->writable = f->end;
	f->writable &= ~(PAGE - 1);
	for (const ElfW(Dyn) *d = dyn; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = elf_at(f, d->d_un.d_ptr);
	for (const ElfW(Dyn) *d = dyn; strings && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED && f->needs < (int)ARRAY_SIZE(f->needed))
			f->needed[f->needs++] = strdup(strings + d->d_un.d_val);
	mmap(window, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return true;
}
