/* A file opened, written, synced, read and closed through io_uring alone. Usage: ring FILE; exit code 77: not allowed */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct io_uring_params params;
static char *submission, *completion;
static struct io_uring_sqe *entries;
static int ring;

/* One operation at a time, waited for; its result. */
static int run(struct io_uring_sqe e)
{
	unsigned *tail = (unsigned *)(submission + params.sq_off.tail);
	unsigned *array = (unsigned *)(submission + params.sq_off.array);
	unsigned *head = (unsigned *)(completion + params.cq_off.head);
	unsigned mask = *(unsigned *)(submission + params.sq_off.ring_mask);
	struct io_uring_cqe *done;
	int result;

	entries[*tail & mask] = e;
	array[*tail & mask] = *tail & mask;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1)
		exit(1);
	done = (struct io_uring_cqe *)(completion + params.cq_off.cqes);
	result = done[*head & *(unsigned *)(completion + params.cq_off.ring_mask)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return result;
}

static void check(int got, int expected, const char *what)
{
	if (got != expected) {
		fprintf(stderr, "%s: %d instead of %d\n", what, got, expected);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static char block[8192];
	struct io_uring_sqe e;
	int fd;

	ring = syscall(SYS_io_uring_setup, 4, &params);
	if (argc < 2 || ring < 0)
		return 77;
	submission = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	completion = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	entries = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	e = (struct io_uring_sqe){ .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = (unsigned long)argv[1], .len = 0600,
				   .open_flags = O_RDWR | O_CREAT };
	fd = run(e);
	if (fd < 0)
		return 1;
	e = (struct io_uring_sqe){ .opcode = IORING_OP_WRITE, .fd = fd, .addr = (unsigned long)block, .len = 8192 };
	check(run(e), 8192, "write");
	e = (struct io_uring_sqe){ .opcode = IORING_OP_FSYNC, .fd = fd };
	check(run(e), 0, "fsync");
	e = (struct io_uring_sqe){ .opcode = IORING_OP_FSYNC, .fd = fd, .fsync_flags = IORING_FSYNC_DATASYNC };
	check(run(e), 0, "fdatasync");
	e = (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = fd, .addr = (unsigned long)block, .len = 100 };
	check(run(e), 100, "read");
	e = (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = fd, .addr = (unsigned long)block, .len = 100, .off = 9000 };
	check(run(e), 0, "end of file");
	e = (struct io_uring_sqe){ .opcode = IORING_OP_CLOSE, .fd = fd };
	check(run(e), 0, "close");
	return 0;
}
