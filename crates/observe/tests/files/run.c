/*
 * Long runs of short reads from memory. Usage: run DIR, in which "fuse/lazy" is a file whose every page takes 20 ms to
 * come (impatient.rs).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MANY = 20000 };

static void check(long got, long expected, const char *what)
{
	if (got != expected) {
		fprintf(stderr, "%s: %ld instead of %ld\n", what, got, expected);
		exit(1);
	}
}

static void *reads_many(void *fd)
{
	char block[4096];

	for (int i = 0; i < MANY; i++)
		check(pread(*(int *)fd, block, sizeof(block), 0), sizeof(block), "thread");
	return 0;
}

int main(int argc, char **argv)
{
	static char block[1 << 20];
	pthread_t t[4];
	int fd;

	check(chdir(argv[1]), 0, "chdir");
	fd = open("hot", O_RDWR | O_CREAT, 0600);
	check(write(fd, block, 100000), 100000, "write");
	for (int i = 0; i < MANY; i++) {
		check(pread(fd, block, 4096, 0), 4096, "pread");
		if (i % 1000 == 999) { /* others than those of the run */
			check(pread(fd, block, 100000, 0), 100000, "a large one");
			check(pread(fd, block, 100, 99950), 50, "a short one");
			check(pread(fd, block, 100, 100000), 0, "the end");
			check(pread(fd, (void *)8, 100, 0), -1, "nowhere to");
		}
	}
	close(fd);

	fd = open("shared", O_RDWR | O_CREAT, 0600);
	check(write(fd, block, 4096), 4096, "write");
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], 0, reads_many, &fd);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], 0);
	close(fd);

	fd = open("fuse/lazy", O_RDONLY);
	for (int i = 0; i < 2 * MANY; i++)
		check(pread(fd, block, 4096, i == MANY ? 1 << 19 : 0), 4096, "pread");
	close(fd);
	return 0;
}
