// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A function as a provider of functions runs it, one to a container (ISCA'20, section VI).
 *
 *   faas-function parse|hash|marshal dense|sparse FILE BYTES REQUEST
 *
 * Maps FILE, reads BYTES of it, prints "ready" with the result, does the same again for each line of
 * its standard input, and ends with that. parse cuts the bytes into tokens, hash is djb2, marshal turns digits to numbers. With dense
 * it reads all of a page before the next one, with sparse a tenth of each; the work is the same.
 * The request ends with the result; what starts the program has begun it (lab-mark begin).
 */
#include "../lib/mark.h"
#include "../lib/measure.h"

#include <sys/stat.h>

/* What sparse reads of a page. */
#define TENTH (PAGE / 10)

static const unsigned char *input;

/* Each function goes through a piece of the input, with what it has found before. */
static uint64_t parse(const unsigned char *p, size_t bytes, uint64_t found)
{
	for (size_t i = 0; i < bytes; i++)
		found += p[i] == ' ' && i && p[i - 1] != ' ';
	return found;
}

static uint64_t hash(const unsigned char *p, size_t bytes, uint64_t found)
{
	for (size_t i = 0; i < bytes; i++)
		found = found * 33 + p[i];
	return found;
}

static uint64_t marshal(const unsigned char *p, size_t bytes, uint64_t found)
{
	uint64_t number = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (p[i] >= '0' && p[i] <= '9') {
			number = number * 10 + (p[i] - '0');
		} else {
			found += number;
			number = 0;
		}
	}
	return found + number;
}

static const struct {
	const char *name;
	uint64_t (*run)(const unsigned char *p, size_t bytes, uint64_t found);
	uint64_t start;
} functions[] = {
	{ "parse", parse, 0 },
	{ "hash", hash, 5381 },
	{ "marshal", marshal, 0 },
};

int main(int argc, char **argv)
{
	size_t piece, bytes, which = 0;
	unsigned long request;
	struct stat st;
	uint64_t found;
	char line[8];
	int fd;

	if (argc != 6 || (strcmp(argv[2], "dense") && strcmp(argv[2], "sparse")))
		die("usage: faas-function parse|hash|marshal dense|sparse FILE BYTES REQUEST");
	while (which < ARRAY_SIZE(functions) && strcmp(functions[which].name, argv[1]))
		which++;
	if (which == ARRAY_SIZE(functions))
		die("faas-function: %s is not parse, hash or marshal", argv[1]);
	piece = strcmp(argv[2], "sparse") ? PAGE : TENTH;
	bytes = parse_size(argv[4]);
	request = strtoul(argv[5], NULL, 0);

	fd = open(argv[3], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die_errno(argv[3]);
	if ((size_t)st.st_size < (bytes + piece - 1) / piece * PAGE)
		die("%s is too short for %zu bytes", argv[3], bytes);
	input = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (input == MAP_FAILED)
		die_errno(argv[3]);

	do {
		size_t left = bytes;

		found = functions[which].start;
		for (size_t page = 0; left; page++) {
			size_t now = left < piece ? left : piece;

			found = functions[which].run(input + page * PAGE, now, found);
			left -= now;
		}
		mark(MARK_END, request);
		printf("ready %llu\n", (unsigned long long)found);
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin));
	return 0;
}
