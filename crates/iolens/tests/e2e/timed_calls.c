/*
 * Reads, writes and syncs 1000 times each through one descriptor, and prints how long each call took by its own clock: a
 * line "KIND NS" for each. Usage: timed_calls FILE. One in 25 calls moves much more than the others, so that p50 and p99
 * differ. Before each read it reads nothing of the program's own file, for what entering and leaving a call costs here
 * (KIND "empty").
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 1000, LARGE = 2 << 20 };

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv)
{
	static long took[4][CALLS];
	static const char *names[] = { "read", "write", "sync", "empty" };
	char *block = calloc(1, LARGE);
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600), other = open(argv[0], O_RDONLY);

	/* Something to read, by a descriptor of its own; and nothing of the program's memory is touched first in a call. */
	if (fd < 0 || other < 0 || !block || write(fd, block, LARGE) != LARGE || fsync(fd))
		return 1;
	close(fd);
	fd = open(argv[1], O_RDWR);
	if (fd < 0 || pread(fd, block, LARGE, 0) != LARGE)
		return 1;
	close(fd);
	fd = open(argv[1], O_RDWR);
	for (int i = 0; i < CALLS; i++) {
		long size = i % 25 ? 256 << 10 : LARGE, begin = now();

		if (pread(other, block, 0, 0) != 0)
			return 1;
		took[3][i] = now() - begin;
		begin = now();
		if (pread(fd, block, size, 0) != size)
			return 1;
		took[0][i] = now() - begin;
		size /= 4;
		begin = now();
		if (pwrite(fd, block, size, 0) != size)
			return 1;
		took[1][i] = now() - begin;
		begin = now();
		if (fsync(fd))
			return 1;
		took[2][i] = now() - begin;
	}
	close(fd);
	for (int kind = 0; kind < 4; kind++)
		for (int i = 0; i < CALLS; i++)
			printf("%s %ld\n", names[kind], took[kind][i]);
	return 0;
}
