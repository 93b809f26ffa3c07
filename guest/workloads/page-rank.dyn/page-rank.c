// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PageRank as GraphChi does it: vertices in a file that is mapped, edges in shards, each read as a
 * whole into a buffer (ISCA'20, section VI).
 *
 *   page-rank make DIR SCALE SHARDS EDGES SEED
 *   page-rank run DIR FIRST WARM COUNT REQUEST
 *
 * make writes a graph by R-MAT (0.57, 0.19, 0.19, 0.05) with 2^SCALE vertices: DIR/vertices, and
 * DIR/shard-N, the edges that end in the N-th interval of the vertices. Which vertex is popular has
 * nothing to do with its number.
 *
 * run maps the vertices and does one iteration for WARM intervals, from number FIRST on, says
 * "ready", waits for a line, does COUNT intervals more, which are a request of the model, says
 * "done" with a checksum of each, and stays until its standard input ends. New ranks stay its own:
 * all containers on one graph must see the same.
 */
#include "../lib/mark.h"
#include "../lib/measure.h"

#include <sys/stat.h>

#define DAMPING 0.85f
/*
 * The vertices lie in a gigabyte of their own: beside the libraries, the model took those of every
 * second process for private copies.
 */
#define PLACE ((void *)(64ul << 30))

struct vertex {
	float rank;
	uint32_t degree;
};

struct edge {
	uint32_t from, to;
};

static FILE *create(const char *dir, const char *name)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	if (!file)
		die_errno(path);
	return file;
}

static void finish(FILE *file)
{
	if (fclose(file))
		die_errno("the graph");
}

/* splitmix64 */
static uint64_t random_bits(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Each bit of both ends by 8 bits of chance: 146, 49, 48 and 13 of 256. */
static struct edge random_edge(unsigned int scale, uint64_t *state)
{
	struct edge edge = { 0, 0 };
	uint64_t bits = 0;

	for (unsigned int i = 0; i < scale; i++, bits >>= 8) {
		unsigned int chance;

		if (i % 8 == 0)
			bits = random_bits(state);
		chance = bits & 255;
		edge.from = edge.from << 1 | (chance >= 195);
		edge.to = edge.to << 1 | ((chance >= 146 && chance < 195) || chance >= 243);
	}
	return edge;
}

static int make(char **argv)
{
	unsigned int scale = strtoul(argv[1], NULL, 0), shards = strtoul(argv[2], NULL, 0);
	uint64_t left = strtoull(argv[3], NULL, 0), state = strtoull(argv[4], NULL, 0);
	uint32_t mask = (1u << scale) - 1;
	struct vertex *vertices = calloc(mask + 1ul, sizeof(*vertices));
	FILE **files = calloc(shards, sizeof(*files)), *file;
	char name[32];

	if (scale > 28 || !shards || (mask + 1) % shards)
		die("page-rank: %u shards of 2^%u vertices", shards, scale);
	if (!vertices || !files)
		die_errno("page-rank");
	for (unsigned int i = 0; i < shards; i++) {
		snprintf(name, sizeof(name), "shard-%u", i);
		files[i] = create(argv[0], name);
	}
	while (left--) {
		struct edge edge = random_edge(scale, &state);

		/* An odd factor gives each vertex another number. */
		edge.from = edge.from * 0x9e3779b1u & mask;
		edge.to = edge.to * 0x85ebca6bu & mask;
		vertices[edge.from].degree++;
		if (!fwrite_unlocked(&edge, sizeof(edge), 1, files[edge.to / ((mask + 1) / shards)]))
			die_errno("a shard");
	}
	for (unsigned int i = 0; i < shards; i++)
		finish(files[i]);
	for (uint32_t i = 0; i <= mask; i++)
		vertices[i].rank = 1;
	file = create(argv[0], "vertices");
	if (fwrite(vertices, sizeof(*vertices), mask + 1ul, file) != mask + 1ul)
		die_errno("vertices");
	finish(file);
	return 0;
}

static const struct vertex *vertices;
static uint32_t count, shards;
/* The shard at hand. */
static struct edge *edges;
static size_t room;
static float *next;

static size_t read_shard(const char *dir, uint32_t shard)
{
	size_t had = 0;
	char path[256];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/shard-%u", dir, shard);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die_errno(path);
	while ((got = read(fd, (char *)edges + had, room - had)) > 0)
		had += got;
	if (got || had == room)
		die("page-rank: %s cannot be read", path);
	close(fd);
	return had / sizeof(*edges);
}

/* One interval: its sum of ranks. */
static double interval(const char *dir, uint32_t shard)
{
	uint32_t first = count / shards * shard;
	size_t n = read_shard(dir, shard);
	double sum = 0;

	memset(next, 0, count / shards * sizeof(*next));
	for (size_t i = 0; i < n; i++) {
		const struct vertex *from = vertices + edges[i].from;

		next[edges[i].to - first] += from->rank / from->degree;
	}
	for (uint32_t i = 0; i < count / shards; i++) {
		next[i] = 1 - DAMPING + DAMPING * next[i];
		sum += next[i];
	}
	return sum;
}

static int run(char **argv)
{
	uint32_t first = strtoul(argv[1], NULL, 0), warm = strtoul(argv[2], NULL, 0);
	uint32_t measured = strtoul(argv[3], NULL, 0);
	unsigned long request = strtoul(argv[4], NULL, 0);
	char path[256], line[8];
	double sums[measured + 1];
	struct stat st;
	int fd;

	for (;; shards++) {
		snprintf(path, sizeof(path), "%s/shard-%u", argv[0], shards);
		if (stat(path, &st))
			break;
		/* One byte more: a read that does not fill the buffer is at the file's end. */
		if (room <= (size_t)st.st_size)
			room = st.st_size + 1;
	}
	snprintf(path, sizeof(path), "%s/vertices", argv[0]);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die_errno(path);
	if (!shards)
		die("page-rank: %s has no shards", argv[0]);
	count = st.st_size / sizeof(*vertices);
	vertices = mmap(PLACE, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	edges = malloc(room);
	next = malloc(count / shards * sizeof(*next));
	if (vertices == MAP_FAILED || !edges || !next)
		die_errno("page-rank");

	for (uint32_t i = 0; i < warm; i++)
		interval(argv[0], (first + i) % shards);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	mark(MARK_BEGIN, request);
	for (uint32_t i = 0; i < measured; i++)
		sums[i] = interval(argv[0], (first + warm + i) % shards);
	mark(MARK_END, request);
	printf("done");
	for (uint32_t i = 0; i < measured; i++)
		printf(" %u:%.6f", (first + warm + i) % shards, sums[i]);
	puts("");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) != NULL;
}

int main(int argc, char **argv)
{
	if (argc == 7 && !strcmp(argv[1], "make"))
		return make(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "run"))
		return run(argv + 2);
	die("usage: page-rank make DIR SCALE SHARDS EDGES SEED | run DIR FIRST WARM COUNT REQUEST");
}
