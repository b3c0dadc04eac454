/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The contract between files.bpf.c and src/trace/files/event.rs. Who changes a structure here changes it there;
 * both sides assert the sizes at compile time.
 */
#ifndef IOLENS_FILES_EVENT_H
#define IOLENS_FILES_EVENT_H

#include "event.h"

typedef signed long long s64;

/* What a system call means to us; user space fills the table kind_of[] for its architecture. */
enum kind {
	K_SIZED = 0x80, /* added: how much to move at most is argument 2 */
	K_NONE = 0,
	K_READ = 1,	    /* fd is argument 0 */
	K_WRITE = 2,	    /* fd is argument 0 */
	K_COPY = 3,	    /* from the fd in argument 0 to that in argument 2: copy_file_range, splice */
	K_SENDFILE = 4,	    /* from the fd in argument 1 to that in argument 0 */
	K_OPEN = 5,	    /* flags are argument 1 */
	K_OPENAT = 6,	    /* flags are argument 2 */
	K_OPENAT2 = 7,	    /* flags are in the structure at argument 2 */
	K_CREAT = 8,
	K_CLOSE = 9,
	K_DUP = 10,
	K_DUP2 = 11, /* dup2, dup3 */
	K_FCNTL = 12,
	K_CLOSE_RANGE = 13,
	K_MMAP = 14,
	K_FSYNC = 15,
	K_FDATASYNC = 16,
	K_SYNC_FILE_RANGE = 17,
	K_SYNCFS = 18,
	K_EXEC = 19,
	K_IO_SUBMIT = 20,
	K_OPEN_BY_HANDLE = 21, /* flags are argument 2 */
};

/* file_request.flags. Bits 0..15 are those of the model's Request. */
enum {
	F_MMAP = 1 << 0,	  /* mapped: what page faults moved is not counted */
	F_IO_URING = 1 << 1,	  /* some I/Os came through io_uring */
	F_AIO = 1 << 2,		  /* used with io_submit, whose I/Os are not counted */
	F_UNKNOWN_START = 1 << 3, /* opened before recording began, or by a process it left out */
	F_ALIASED = 1 << 4,	  /* had more than one descriptor in one process: dup and the like */
	F_FORKED = 1 << 5,	  /* inherited by a child process */
	F_ESCAPED = 1 << 6,	  /* another process still held it when its last known descriptor was closed */
	F_STILL_OPEN = 1 << 7,	  /* not closed when recording ended */
	F_END_UNSEEN = 1 << 8,	  /* its end was not seen: found out when its place in memory held another file */
	F_CREATES = 1 << 9,	  /* opened with O_CREAT, O_TRUNC or O_APPEND */
	F_DIRECT = 1 << 10,	  /* opened with O_DIRECT */
	F_AT_EXIT = 1 << 11,	  /* closed by the end of its process, or by exec */
	F_BLOCK_DEVICE = 1 << 12, /* a device node, not a file */
	F_ESTIMATED = 1 << 13,	  /* not all of its I/Os were timed: see SAMPLE_AFTER */
	F_NO_HISTOGRAM = 1 << 14, /* all histograms were taken, or a count was full: its latencies are not known */
};

/* io_detail.how */
enum {
	HOW_WRITE = 1 << 0,
	HOW_DEVICE = 1 << 1, /* block I/O was submitted inside the call */
	HOW_SLEPT = 1 << 2,  /* the caller slept inside the call */
	HOW_ASYNC = 1 << 3,  /* io_uring: from submission to completion */
};

#define DETAILS 4

/*
 * Reading the clock takes longer than anything else that is done for a call on data in memory. So of a request's I/Os
 * after so many not all are timed: those that move at most SAMPLE_BYTES and follow each other so closely that SAMPLE_RUN
 * of them take less than SAMPLE_WITHIN_NS, on average one in SAMPLE_RUN / 2. Whatever keeps such a call from ending
 * quickly (block I/O, sleep, preemption) is timed from that moment on.
 */
#define SAMPLE_AFTER 64
#define SAMPLE_BYTES 16384
#define SAMPLE_RUN 32
#define SAMPLE_WITHIN_NS 20000

/*
 * The data I/Os of a request after the first DETAILS are counted by duration, reads and writes apart, in buckets: 8 ns
 * wide up to 256 ns, then 16 to each power of two, up to 137 s. The bucket's middle is off by at most 1/32, or 4 ns. The
 * same rule is CallHistogram's in the model.
 */
#define HISTOGRAM_UNIT_SHIFT 3
#define HISTOGRAM_SUB_BITS 4
#define HISTOGRAM_BUCKETS 496
#define HISTOGRAM_MAX ((1ull << 34) - 1) /* in units */
#define HISTOGRAM_FULL 0xf0000000u	 /* a count that reaches this goes no further */

/*
 * In a table that user space maps. Taken at a request's first call of the class that needs it; given back by user
 * space once the request has ended, so that nothing is copied.
 */
struct histogram {
	u64 owner; /* key of the request, plus 1 for writes; 0: free */
	u32 counts[HISTOGRAM_BUCKETS];
};
_Static_assert(sizeof(struct histogram) == 1992, "histogram: change src/trace/files/histograms.rs too");

/* One data I/O of a request. */
struct io_detail {
	u64 enter_ns;
	u32 duration_ns; /* saturates */
	u32 bytes;	 /* saturates */
};

/*
 * A file from open to close of its last descriptor: the kernel's struct file is what all descriptors of one open(2)
 * share, so it is the key. In the table while it is open and in the ring when it is closed.
 */
struct file_request {
	u64 key; /* 0: free. In the ring: 1 for a request, 2 for a sync */
	u64 open_enter_ns; /* of a sync: its beginning */
	u64 open_exit_ns;
	u64 close_enter_ns;
	u64 close_exit_ns; /* of a sync: its end; read after the event has its place in the ring (order.rs) */
	u64 last_exit_ns;
	u64 active_ns; /* time inside data I/Os, summed */
	u64 bytes_in;
	u64 bytes_out;
	u32 ios_in;
	u32 ios_out;
	u32 empty;	/* reads of nothing: end-of-file probes */
	u32 failed;	/* EINTR, EAGAIN and other errors; of a sync: its errno */
	u32 device_ios; /* data I/Os during which block I/O was submitted */
	u32 slept_ios;	/* data I/Os during which the caller slept */
	struct io_detail first[DETAILS];
	u8 first_how[DETAILS];
	u8 slowest_how;
	u8 sync; /* of a sync: enum kind */
	u8 pad[2];
	u32 slowest_bytes; /* saturates */
	u32 untimed;	   /* data I/Os that were not timed: not in active_ns */
	u32 sampled;	   /* data I/Os of their kind that were, and how long those took */
	u16 histograms[2]; /* of reads and of writes: place in the table plus 1; 0: none */
	u64 sampled_ns;
	u64 slowest_enter_ns;
	u64 slowest_ns;
	u64 size; /* bytes of the file when it was closed */
	u64 ino;
	u64 cgroup;
	char comm[16];
	u32 generation; /* of the inode number */
	u32 fs_dev;	/* major << 20 | minor */
	u32 tgid;	/* opened by */
	u32 tid;
	u32 open_flags;
	s32 fd;
	s32 aliases; /* descriptors, over all processes */
	u32 flags;
	u32 exec_tid; /* this thread is in exec, which will close so many of its descriptors */
	u32 exec_aliases;
};
_Static_assert(sizeof(struct file_request) == 288, "file_request: change src/trace/files/event.rs too");

#define FILE_WAYS 8

struct file_set {
	struct file_request way[FILE_WAYS];
};

#define NAME_BYTES 768

/* The names of a file's directories, from the file up to the root of its file system, each ended by a NUL. */
struct file_name {
	u64 ino;
	u32 generation;
	u32 fs_dev;
	u32 length;
	u32 truncated;
	char names[NAME_BYTES + 256];
};
_Static_assert(sizeof(struct file_name) == 1048, "file_name: change src/trace/files/event.rs too");

/* Indices of files_state.lost[]. */
enum { FILES_LOST_RING = 0, FILES_LOST_TABLE = 1, FILES_LOST_NAMES = 2, FILES_LOST_TASKS = 3, FILES_LOST_KINDS = 4 };

/* What user space reads without asking for a whole map. */
struct files_state {
	u64 tracked; /* requests in the table */
	u64 lost[FILES_LOST_KINDS];
};
_Static_assert(sizeof(struct files_state) == 40, "files_state: change src/trace/files/event.rs too");

/* filter_mode bits: all that are set must agree */
enum { FILTER_PID = 1, FILTER_COMM = 2, FILTER_CGROUP = 4, FILTER_TREE = 8 };

/* What kept a call from ending quickly. */
enum { HELD_BY_DEVICE = HOW_DEVICE, HELD_BY_SLEEP = HOW_SLEPT, HELD_BY_OTHERS = 1 << 7 };

/* A thread: what it is doing, and what we know of it. */
struct task {
	u32 tid;
	u8 wanted;
	u8 kind; /* of the system call it is in */
	u8 held; /* HELD_BY_..., during this call */
	u8 small; /* at most SAMPLE_BYTES were requested */
	u64 enter_ns; /* 0: not timed */
	s32 fd;
	/* the last descriptor used, and the request found behind it: valid while no descriptor has been closed */
	s32 cached_fd;
	u64 cached_key; /* 0: no file */
	u32 cached_epoch;
	u32 cached_place;
	/* how many of the next calls on that descriptor need not be timed; so many calls since the last one that was */
	u16 untimed_left;
	u16 run;
	s32 fd2;
	u64 last_ns; /* when the last timed call on it returned */
	u64 tick;    /* jiffies at that time */
	u32 flags;   /* of open */
	u32 shares;  /* the table of descriptors, with another thread, when cached_fd was looked up */
	u64 closing;	/* the file whose descriptor the call closes */
	u64 exec_files; /* files that exec will close: so many descriptors */
};
_Static_assert(sizeof(struct task) == 88, "task");

#endif
