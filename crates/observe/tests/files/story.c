/* Does file I/O in every supported way, a path for each way. Usage: story DIR */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir, path_buffer[4096], *block;

static const char *path(const char *name)
{
	snprintf(path_buffer, sizeof(path_buffer), "%s/%s", dir, name);
	return path_buffer;
}

static int make(const char *name, int flags)
{
	int fd = open(path(name), flags, 0600);

	if (fd < 0) {
		perror(path_buffer);
		exit(1);
	}
	return fd;
}

static void check(long got, long expected, const char *what)
{
	if (got != expected) {
		fprintf(stderr, "%s: %ld instead of %ld\n", what, got, expected);
		exit(1);
	}
}

static void *reads_four(void *fd)
{
	for (int i = 0; i < 4; i++)
		check(pread(*(int *)fd, alloca(4096), 4096, i * 4096), 4096, "thread");
	return 0;
}

static void calls(void)
{
	struct iovec v[2] = { { block, 1000 }, { block + 4096, 500 } };
	int fd = make("buffered", O_RDWR | O_CREAT | O_TRUNC), out;

	for (int i = 0; i < 5; i++)
		check(write(fd, block, 4096), 4096, "write");
	check(lseek(fd, 0, SEEK_SET), 0, "lseek");
	check(read(fd, block, 20000), 20000, "read");
	check(read(fd, block, 4096), 480, "short read");
	check(read(fd, block, 4096), 0, "end of file");
	close(fd);

	fd = make("vectored", O_RDWR | O_CREAT);
	check(writev(fd, v, 2), 1500, "writev");
	check(pwritev(fd, v, 2, 1500), 1500, "pwritev");
	check(preadv(fd, v, 2, 100), 1500, "preadv");
	check(preadv2(fd, v, 1, 0, 0), 1000, "preadv2");
	fsync(fd);
	fdatasync(fd);
	sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	close(fd);

	fd = make("positional", O_RDWR | O_CREAT);
	check(pwrite(fd, block, 8192, 100000), 8192, "pwrite");
	check(pread(fd, block, 100, 100000), 100, "pread");
	close(fd);

	fd = make("failing", O_WRONLY | O_CREAT);
	check(read(fd, block, 10), -1, "read of what cannot be read");
	close(fd);

	fd = make("direct", O_RDWR | O_CREAT | O_DIRECT);
	for (int i = 0; i < 6; i++)
		check(pwrite(fd, block, 8192, i * 8192), 8192, "direct write");
	check(pread(fd, block, 8192, 0), 8192, "direct read");
	close(fd);

	fd = make("positional", O_RDONLY);
	out = make("copied", O_WRONLY | O_CREAT);
	check(sendfile(out, fd, 0, 5000), 5000, "sendfile");
	check(copy_file_range(fd, 0, out, 0, 3000, 0), 3000, "copy_file_range");
	close(out);
	close(fd);

	fd = make("buffered", O_RDONLY);
	check(mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED, 1, "mmap");
	close(fd);

	fd = make(".", O_TMPFILE | O_RDWR);
	check(write(fd, block, 777), 777, "nameless");
	close(fd);
}

static void descriptors(void)
{
	int fd = make("duplicated", O_RDWR | O_CREAT), a = dup(fd), b = fcntl(fd, F_DUPFD_CLOEXEC, 100), other;

	close(fd);
	check(write(a, block, 10), 10, "dup");
	close(a);
	check(write(b, block, 20), 20, "fcntl");
	check(dup2(b, 200), 200, "dup2");
	close(b);
	check(write(200, block, 30), 30, "dup2");
	other = make("replacing", O_RDWR | O_CREAT);
	check(dup3(other, 200, 0), 200, "dup3"); /* closes "duplicated" */
	close(other);
	check(write(200, block, 40), 40, "dup3");
	close(200);

	fd = make("ranged", O_RDWR | O_CREAT);
	check(write(fd, block, 50), 50, "write");
	syscall(SYS_close_range, fd, fd, 0);

	fd = make("inherited", O_RDWR | O_CREAT);
	check(write(fd, block, 60), 60, "parent");
	if (!fork()) {
		check(write(fd, block, 70), 70, "child");
		_exit(0); /* the end of the process closes it there */
	}
	wait(0);
	check(write(fd, block, 80), 80, "parent again");
	close(fd);

	fd = make("cloexec", O_RDWR | O_CREAT | O_CLOEXEC);
	if (!fork()) {
		check(write(fd, block, 90), 90, "before exec");
		execl("/bin/true", "true", (char *)0);
		_exit(1);
	}
	close(fd);
	wait(0);

	if (!fork()) {
		fd = make("kept", O_RDWR | O_CREAT);
		make("dropped", O_RDWR | O_CREAT | O_CLOEXEC);
		dup2(fd, 1);
		execl("/nonexistent", "x", (char *)0);
		execl("/bin/echo", "echo", "hello", (char *)0); /* writes 6 bytes to "kept" */
		_exit(1);
	}
	wait(0);

	if (!fork()) { /* sent elsewhere: the receiver's read is of a file it did not open */
		int pair[2], got;
		char c = 0, control[CMSG_SPACE(sizeof(int))];
		struct iovec io = { &c, 1 };
		struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
		struct cmsghdr *h;

		fd = make("sent", O_RDWR | O_CREAT);
		check(write(fd, block, 100), 100, "sender");
		socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &fd, sizeof(int));
		check(sendmsg(pair[0], &m, 0), 1, "sendmsg");
		close(fd);
		check(recvmsg(pair[1], &m, 0), 1, "recvmsg");
		memcpy(&got, CMSG_DATA(h), sizeof(int));
		check(pread(got, block, 100, 0), 100, "receiver");
		_exit(0);
	}
	wait(0);
}

static void threads(void)
{
	pthread_t t[4];
	int fd = make("shared", O_RDWR | O_CREAT);

	check(pwrite(fd, block, 16384, 0), 16384, "write");
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], 0, reads_four, &fd);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], 0);
	close(fd);
}

static void many(void)
{
	struct rlimit l = { 20000, 20000 };
	static int fd[10000];
	char name[32];

	check(setrlimit(RLIMIT_NOFILE, &l), 0, "setrlimit");
	mkdir(path("many"), 0700);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		fd[i] = make(name, O_RDWR | O_CREAT);
		check(write(fd[i], block, 16), 16, "one of many");
	}
	for (int i = 0; i < 10000; i++)
		check(pread(fd[i], block, 16, 0), 16, "one of many");
	/* Half are closed one by one, half by the end of the process. */
	for (int i = 0; i < 5000; i++)
		close(fd[i]);
}

/* What the kernel says this process has read and written by calls; how much of that was reading it. */
static long accounted(long *in, long *out)
{
	char text[4096];
	int fd = open("/proc/self/io", O_RDONLY);
	long n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n] = 0;
	check(sscanf(text, "rchar: %ld wchar: %ld", in, out), 2, "/proc/self/io");
	return n;
}

int main(int argc, char **argv)
{
	long in[2], out[2], reading;
	FILE *f;

	if (argc < 2 || posix_memalign((void **)&block, 4096, 65536))
		return 2;
	memset(block, 'x', 65536);
	dir = argv[1];
	reading = accounted(&in[0], &out[0]);
	calls();
	accounted(&in[1], &out[1]);
	f = fopen(strcat(strcpy(path_buffer, dir), ".io"), "w");
	fprintf(f, "%ld %ld\n", in[1] - in[0] - reading, out[1] - out[0]);
	fclose(f);
	descriptors();
	threads();
	if (argc > 2)
		many();
	return 0;
}
