/*
 * Calls on files that signals cut short. Usage: interrupted DIR, in which "fuse/slow" is a file whose reads, writes, syncs
 * and closing are answered with EINTR in turns (impatient.rs).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir, path_buffer[4096], block[4096];
static volatile int signals;
static int handled[2]; /* a byte for each signal that was handled */

static void on_signal(int n)
{
	signals++;
	write(handled[1], "", 1);
}

static void check(long got, long expected, const char *what)
{
	if (got != expected) {
		fprintf(stderr, "%s: %ld instead of %ld: %s\n", what, got, expected, strerror(errno));
		exit(1);
	}
}

static void interrupted(long got, const char *what)
{
	check(got, -1, what);
	check(errno, EINTR, what);
}

static const char *path(const char *name)
{
	snprintf(path_buffer, sizeof(path_buffer), "%s/%s", dir, name);
	return path_buffer;
}

static void handle(int flags)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(SIGUSR1, &a, 0);
}

/* The file system answers with EINTR every third time, having sent the signal; and every third with half of it. */
static void by_the_file_system(void)
{
	int fd;

	handle(0);
	interrupted(open(path("fuse/slow"), O_RDWR), "open");
	fd = open(path("fuse/slow"), O_RDWR);
	check(fd >= 0, 1, "open again");
	for (int i = 0; i < 3; i++) {
		check(pread(fd, block, 4096, 0), 4096, "pread");
		interrupted(pread(fd, block, 4096, 0), "pread");
		check(pread(fd, block, 4096, 0), 2048, "pread");
	}
	for (int i = 0; i < 2; i++) {
		check(write(fd, block, 1000), 1000, "write");
		interrupted(write(fd, block, 1000), "write");
		check(write(fd, block, 1000), 500, "write");
	}
	check(fsync(fd), 0, "fsync");
	interrupted(fsync(fd), "fsync");
	interrupted(close(fd), "close");
	check(signals, 8, "signals");
}

/* Waits until a process sleeps, then sends it the signal. */
static void disturb(int pid)
{
	char state = 0;

	for (int i = 0; i < 10000 && state != 'S'; i++) {
		FILE *f = fopen((snprintf(path_buffer, sizeof(path_buffer), "/proc/%d/stat", pid), path_buffer), "r");

		usleep(1000);
		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			exit(1);
		fclose(f);
	}
	kill(pid, SIGUSR1);
}

/* A pipe's 100 bytes into a file. They come only after the signal; a call that is not restarted comes back without. */
static void of_a_pipe(const char *name, int flags)
{
	int fd, data[2], parent = getpid();
	char c;

	handle(flags);
	pipe(data);
	fd = open(path(name), O_WRONLY | O_CREAT, 0600);
	if (!fork()) {
		disturb(parent);
		check(read(handled[0], &c, 1), 1, "handled");
		write(data[1], block, 100);
		_exit(0);
	}
	if (flags & SA_RESTART) {
		check(splice(data[0], 0, fd, 0, 100, 0), 100, "splice, restarted");
	} else {
		interrupted(splice(data[0], 0, fd, 0, 100, 0), "splice");
		check(splice(data[0], 0, fd, 0, 100, 0), 100, "splice again");
	}
	close(fd);
	wait(0);
	close(data[0]);
	close(data[1]);
}

/* Another process holds a lease on the file and gives it up only after the signal. */
static void opening(void)
{
	int fd, ready[2], parent = getpid();
	char c;

	handle(SA_RESTART);
	pipe(ready);
	close(open(path("leased"), O_WRONLY | O_CREAT, 0600));
	if (!fork()) {
		fd = open(path("leased"), O_RDONLY);
		check(fcntl(fd, F_SETLEASE, F_RDLCK), 0, "lease");
		write(ready[1], "", 1);
		disturb(parent);
		check(read(handled[0], &c, 1), 1, "handled");
		check(fcntl(fd, F_SETLEASE, F_UNLCK), 0, "lease");
		close(fd);
		_exit(0);
	}
	read(ready[0], &c, 1);
	fd = open(path("leased"), O_WRONLY);
	check(write(fd, block, 10), 10, "leased");
	close(fd);
	wait(0);
}

/* What is not in memory is refused where waiting is not wanted. */
static void unwilling(void)
{
	struct iovec v = { block, 4096 };
	int fd = open(path("cold"), O_RDWR | O_CREAT, 0600);
	long got = 4096;

	check(write(fd, block, 4096), 4096, "cold");
	fsync(fd);
	/* A page that another processor still holds in a batch of its own stays: ask until it is gone. */
	for (int i = 0; i < 1000 && got == 4096; i++) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		got = preadv2(fd, &v, 1, 0, RWF_NOWAIT);
	}
	check(got, -1, "what would wait");
	check(preadv2(fd, &v, 1, 0, 0), 4096, "what may wait");
	close(fd);
}

/* Under ptrace a signal ends a call even where it is ignored: a child's end or a broken lease must not come in between. */
static void no_other_signals(void)
{
	sigset_t others;

	sigemptyset(&others);
	sigaddset(&others, SIGCHLD);
	sigaddset(&others, SIGIO);
	sigprocmask(SIG_BLOCK, &others, 0);
}

int main(int argc, char **argv)
{
	char c;

	dir = argv[1];
	no_other_signals();
	pipe(handled);
	by_the_file_system();
	for (int i = 0; i < signals; i++)
		read(handled[0], &c, 1);
	of_a_pipe("restarted", SA_RESTART);
	of_a_pipe("cut", 0);
	opening();
	unwilling();
	return 0;
}
