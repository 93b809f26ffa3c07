/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations shared by the files of the oracle. */
#ifndef FUZZ_ORACLE_H
#define FUZZ_ORACLE_H

#include "fuzz.h"

extern const struct cmd *now;	/* the command at hand, for reports */

void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

enum answer { MUST_WORK, MUST_SEGV, MUST_BUS, MAY_BUS };

extern const char *const answer_words[];

void set_none(struct mpage *page);
void set_page(struct mpage *page, const struct mpage *to);
/* Private content is gone: the next look finds zeros, or the file. */
void forget(struct mpage *page);
bool is_private(const struct mpage *page);
/* Where the content is: the page's own or the object's. */
u64 *content(struct mpage *page);
bool beyond_end(const struct mpage *page);
/* The right result of an access by the process itself. */
enum answer access_page(const struct mpage *page, bool write);
/* A store: private file pages are copied first. */
void copy_page(struct mpage *page);
void write_page(struct mpage *page, u64 tag, u32 cells);
/* Compares what was seen with what must be; learns what is open. */
void compare(struct mpage *page, u32 number, const struct page_result *pr,
	     const char *who);
bool check_answer(struct mpage *page, u32 number, bool write, u8 status);

void fork_proc(struct proc *parent, u32 slot, pid_t pid);

void apply_pwrite(const struct cmd *cmd, s64 ret);
void apply_truncate(const struct cmd *cmd, s64 ret);
void apply_punch(const struct cmd *cmd, s64 ret);
void apply_uffd(struct proc *proc, const struct cmd *cmd, s64 ret);
void apply_splice(struct proc *proc, const struct cmd *cmd, s64 ret);
void apply_drain(struct proc *proc, const struct cmd *cmd, s64 ret,
		 const struct page_result *pr);
void apply_pin(struct proc *proc, const struct cmd *cmd, s64 ret);
void apply_pinread(struct proc *proc, const struct cmd *cmd, s64 ret,
		   const struct page_result *pr);
void apply_unpin(struct proc *proc);

#endif
