/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The loads of the guests: load KIND DEVICE (or a file). A program of its own, linked statically, because a guest without
 * acceleration spends a second on starting fio with its sixty libraries, for each of a hundred loads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, AREA = 48 << 20, LARGEST = 1 << 20 };

static const struct kind {
	const char *name;
	int flags;   /* of open() besides O_RDWR */
	int threads;
	int ios;     /* of each thread */
	int bytes;   /* of each I/O; 0: powers of two from 4 KiB to 1 MiB */
	int percent; /* of writes */
	int random;
	int syncs;   /* fsync after: 0 nothing, 1 the last, 2 each */
} kinds[] = {
	{ "short", O_DIRECT, 8, 125, PAGE, 50, 1, 0 },
	{ "random", O_DIRECT, 8, 75, PAGE, 50, 1, 0 },
	{ "sizes", O_DIRECT, 4, 15, 0, 50, 1, 0 },
	{ "buffered", 0, 1, 2000, PAGE, 100, 0, 1 },
	{ "large", 0, 1, 16, LARGEST, 100, 0, 1 },
	{ "readahead", 0, 1, 200, 4 * PAGE, 0, 0, 0 },
	{ "fua", O_DIRECT | O_DSYNC, 1, 64, PAGE, 100, 1, 0 },
	{ "flush", O_DIRECT, 1, 64, PAGE, 100, 1, 2 },
	{ "jobs8", O_DIRECT, 8, 500, PAGE, 50, 1, 0 },
	{ "long", O_DIRECT, 2, 2500, PAGE, 50, 1, 0 },
	{ "pressure", 0, 8, 500, PAGE, 50, 1, 1 },
};
static const struct kind *kind;
static const char *device;
static long area = AREA;
/* What was requested: [0] reads, [1] writes. The page cache may need other I/Os for it. */
static long ios[2], bytes_moved[2];

static void fail(const char *what)
{
	fprintf(stderr, "load: %s %s: %s\n", what, device, strerror(errno));
	exit(1);
}

static unsigned random_of(unsigned *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void *work(void *number)
{
	unsigned state = 2463534242u + 77777u * (unsigned)(long)number;
	int fd = open(device, O_RDWR | kind->flags);
	char *buffer;

	if (fd < 0)
		fail("open");
	if (posix_memalign((void **)&buffer, PAGE, LARGEST))
		fail("memory for");
	memset(buffer, 'x', LARGEST);
	for (int i = 0; i < kind->ios; i++) {
		long bytes = kind->bytes ? kind->bytes : PAGE << random_of(&state) % 9;
		long at = kind->random ? random_of(&state) % ((area - bytes) / PAGE) * PAGE : (long)i * bytes;
		int writes = (int)(random_of(&state) % 100) < kind->percent;

		if ((writes ? pwrite(fd, buffer, bytes, at) : pread(fd, buffer, bytes, at)) != bytes)
			fail(writes ? "write" : "read");
		__atomic_fetch_add(&ios[writes], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&bytes_moved[writes], bytes, __ATOMIC_RELAXED);
		if (kind->syncs == 2 && fsync(fd))
			fail("fsync");
	}
	if (kind->syncs && fsync(fd))
		fail("fsync");
	close(fd);
	free(buffer);
	return 0;
}

/* Takes all memory but LEFT, and is the first to be killed should that have been too much. */
static void take_memory(void)
{
	enum { LEFT_KIB = 48 << 10, STEP_KIB = 1 << 10 };
	FILE *f = fopen("/proc/self/oom_score_adj", "w");
	char line[128];
	long kib = 0;

	if (!f || fputs("1000", f) < 0 || fclose(f))
		fail("oom_score_adj for");
	for (;; kib = 0) {
		f = fopen("/proc/meminfo", "r");
		while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %ld", &kib) != 1)
			;
		if (f)
			fclose(f);
		if (kib < LEFT_KIB + STEP_KIB)
			return;
		for (long step = (kib - LEFT_KIB) / 4; step > 0; step -= STEP_KIB) {
			char *memory = malloc(STEP_KIB << 10);

			if (!memory)
				fail("memory for");
			memset(memory, 'm', STEP_KIB << 10);
		}
	}
}

static void *mapped(int ring, long bytes, long long offset)
{
	void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, offset);

	if (at == MAP_FAILED)
		fail("mapping of the rings for");
	return at;
}

/* Direct reads of 4 KiB by io_uring, one after the other. */
static int small_reads_by_uring(void)
{
	enum { READS = 200 };
	struct io_uring_params p = { 0 };
	int ring = syscall(SYS_io_uring_setup, 1, &p), fd = open(device, O_RDONLY | O_DIRECT);
	struct io_uring_sqe *sqe;
	char *sq, *cq, *buffer;
	unsigned *tail, *head;

	if (ring < 0 || fd < 0)
		fail("io_uring for");
	sq = mapped(ring, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	cq = mapped(ring, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	sqe = mapped(ring, p.sq_entries * sizeof(*sqe), IORING_OFF_SQES);
	tail = (unsigned *)(sq + p.sq_off.tail);
	head = (unsigned *)(cq + p.cq_off.head);
	if (posix_memalign((void **)&buffer, PAGE, PAGE))
		fail("memory for");
	for (long i = 0; i < READS; i++) {
		struct io_uring_cqe *cqe = (void *)(cq + p.cq_off.cqes);

		memset(sqe, 0, sizeof(*sqe));
		sqe->opcode = IORING_OP_READ;
		sqe->fd = fd;
		sqe->addr = (unsigned long)buffer;
		sqe->len = PAGE;
		sqe->off = i * 3 % (area / PAGE) * PAGE;
		*(unsigned *)(sq + p.sq_off.array) = 0;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1)
			fail("io_uring for");
		cqe += *head & *(unsigned *)(cq + p.cq_off.ring_mask);
		errno = -cqe->res;
		if (cqe->res != PAGE)
			fail("io_uring for");
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	printf("asked read %d %d write 0 0\n", READS, READS * PAGE);
	return 0;
}

static int discard(void)
{
	unsigned long long range[2] = { 0, 32 << 20 };
	int fd = open(device, O_RDWR);

	if (fd < 0 || ioctl(fd, BLKDISCARD, range))
		fail("discard");
	return close(fd);
}

int main(int argc, char **argv)
{
	pthread_t threads[8];
	off_t size;
	int fd;

	if (argc != 3)
		return fprintf(stderr, "usage: load KIND DEVICE\n"), 2;
	device = argv[2];
	if (!strcmp(argv[1], "discard"))
		return discard();
	if (!strcmp(argv[1], "uring"))
		return area = 8 << 20, small_reads_by_uring();
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, argv[1]))
			kind = &kinds[i];
	if (!kind)
		return fprintf(stderr, "load: no kind %s\n", argv[1]), 2;
	fd = open(device, O_RDONLY);
	size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END); /* a file's as well as a device's */
	if (size < 0)
		fail("size of");
	close(fd);
	if (size < AREA)
		area = (long)size;
	if (!strcmp(argv[1], "pressure"))
		take_memory();
	for (long i = 0; i < kind->threads; i++)
		if (pthread_create(&threads[i], 0, work, (void *)i))
			fail("thread for");
	for (int i = 0; i < kind->threads; i++)
		pthread_join(threads[i], 0);
	printf("asked read %ld %ld write %ld %ld\n", ios[0], bytes_moved[0], ios[1], bytes_moved[1]);
	return 0;
}
