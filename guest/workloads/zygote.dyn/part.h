/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Things that applications do with Debian's libraries. Each part calls one
 * library (and what that one calls) through functions looked up in the zygote,
 * so that no development package is needed and a child resolves nothing.
 * Prototypes are the libraries' public ones, written down here. A part whose
 * functions are not there, or that does not give the result it must, fails.
 */
#ifndef PART_H
#define PART_H

#include "libraries.h"

struct part {
	const char *name;
	bool (*find)(void);
	bool (*run)(void);
	bool found;
};

/* Each ends with a part without a name. */
extern struct part compression[], documents[], text[], cryptography[], pictures[],
	messages[], interpreters[];

/* Text to work on; part.c says why so much of it. */
extern char sample[KB(2)];

/* Look NAME up once; the parts' functions are kept in static pointers. */
#define FN(ret, name, ...) static ret (*name)(__VA_ARGS__)
#define GET(soname, name) ((name = function(soname, #name)) != NULL)

/* Look up what the parts need; how many were found. */
int parts_find(void);

/*
 * Applications, as sets of parts: what the children of Table 3 do. The first is
 * the one whose launch is measured, the counterpart of the paper's HelloWorld:
 * what a small program with a window does until it shows its own first word. It
 * reads its settings, its layout and its language, opens its store, finds its
 * icons, shapes and draws text, and says hello on the bus.
 */
#define HELLO 0
#define APPLICATIONS 12

struct application {
	const char *name;
	const char *part[16];	/* ends with NULL */
};

extern const struct application application[APPLICATIONS];

/* Are all of application @a's parts there? */
bool application_whole(size_t a);
/* Run application @a's parts; those that are not there were reported. */
void application_run(size_t a);

#endif
