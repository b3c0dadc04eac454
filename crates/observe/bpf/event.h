/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The contract between the BPF programs (blkio.bpf.c) and user space (src/trace/event.rs). Who changes a
 * structure here changes it there; both sides assert the sizes at compile time.
 */
#ifndef IOLENS_EVENT_H
#define IOLENS_EVENT_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;

/* io_event.bits: what of the event is known. */
enum {
	BIT_START = 1 << 0,  /* queue_ns is known */
	BIT_WHO = 1 << 1,    /* tgid and comm are known */
	BIT_INO = 1 << 2,    /* ino and generation are known */
	BIT_FS_DEV = 1 << 3, /* fs_dev is known */
	BIT_ERRNO = 1 << 6, /* error is an errno, not a blk_status_t */
	BIT_BIO = 1 << 7,   /* of a bio-based device: device_ns runs from queueing to completion, queue_ns is unknown */
};

/* Numbers of the model's Origin. */
enum { ORIGIN_DIRECT = 0, ORIGIN_WRITEBACK = 1, ORIGIN_METADATA = 2, ORIGIN_UNKNOWN = 3 };
enum { ORIGIN_BUFFERED_READ = 4, ORIGIN_READAHEAD = 5, ORIGIN_JOURNAL = 6 };

/* One completed I/O, as stored in its CPU's ring. Times are nanoseconds of CLOCK_MONOTONIC. */
struct io_event {
	u64 done_ns;
	u64 queue_ns;  /* start to issue */
	u64 device_ns; /* issue to done */
	u64 sector;    /* on the whole disk, units of 512 bytes */
	u64 cgroup;    /* 0: not known */
	u64 ino;
	char comm[16];
	u32 dev; /* major << 20 | minor */
	u32 bytes;
	u32 cmd_flags;
	u32 tgid;
	u32 fs_dev; /* major << 20 | minor */
	u16 merges; /* saturates */
	u8 error;   /* blk_status_t, or errno if BIT_ERRNO */
	u8 bits;
	u32 generation; /* which of the files that had the inode number */
	u8 origin;
	u8 unused[3];
	u64 entry; /* written last: the number of its entry (cpu_ring) plus one */
};
_Static_assert(sizeof(struct io_event) == 104, "io_event: change src/trace/event.rs too");

/*
 * A CPU's ring of events: those of the entries from `tail` to `head` are on their way. Kernel and user space write to
 * cache lines of their own.
 */
struct cpu_ring {
	u64 head; /* entries taken so far */
	u64 busy; /* without atomic operations: a program holds an entry that it has not filled */
	u64 of_kernel[6];
	u64 tail;    /* entries given back so far, by the reader */
	u64 awaited; /* the reader sleeps until the next event */
	u64 of_user[6];
};
_Static_assert(sizeof(struct cpu_ring) == 128, "cpu_ring: change src/trace/cpu_rings.rs too");

/* loss_key.reason. The last is none yet: how many found no slot; what is no clash in the end has not been seen to end. */
enum { LOSS_RING_FULL = 0, LOSS_SLOT_CLASH = 1, LOSS_CENSORED = 2, LOSS_UNSEEN = 3, BEGUN_WITHOUT_SLOT = 4 };

struct loss_key {
	u32 dev;
	u16 class; /* of the model: read, write, discard, flush */
	u16 reason;
};
_Static_assert(sizeof(struct loss_key) == 8, "loss_key: change src/trace/event.rs too");

/*
 * One per CPU and key. The counts only grow. first_ns is set anew by the first loss after user space has raised the
 * epoch, so [first_ns, last_ns] covers at least what came since the last look.
 */
struct loss_value {
	u64 ios;
	u64 bytes;
	u64 merges;
	u64 first_ns;
	u64 last_ns;
	u64 epoch;
};
_Static_assert(sizeof(struct loss_value) == 48, "loss_value: change src/trace/event.rs too");

/*
 * An I/O in flight. Written by the CPU that submits, read by the one that completes, and each way a line of memory takes
 * from one to the other costs as much as all the rest: so the submitter never reads a slot and the completer never writes
 * one. What each needs to know of the past it keeps for itself (slot_note, slot_ends).
 */
struct slot {
	u64 owner; /* its key and, in the last 16 bits, which of the I/Os that had this slot it is: 1, 2, ... */
	u64 start_ns; /* 0: not known before it is issued, if at all */
	u64 issue_ns; /* 0: not issued */
	u64 sector;
	u32 dev;   /* set when the I/O is issued, of a bio when it is queued */
	u32 bytes; /* the same holds for sector and merges */
	u32 cmd_flags;
	u16 merges;
	u8 bits;
	u8 is_accounted; /* by the kernel; set when the I/O is issued */
	u8 unused[16];
	/* A cache line that only attribution touches. */
	u64 cgroup;
	u64 ino;
	char comm[16];
	u32 tgid;
	u32 fs_dev;
	u32 generation;
	u8 origin;
	u8 unused_too[3];
	u64 rest[2];
};
_Static_assert(sizeof(struct slot) == 128, "slot: change src/trace/slots.rs too");

/* What the submitter remembers of an I/O, should its end not be shown to us. */
struct noted {
	u64 start_ns;
	u32 dev; /* 0: not issued */
	u32 bytes;
	u32 cmd_flags;
	u16 merges;
	u16 is_accounted;
};
_Static_assert(sizeof(struct noted) == 24, "noted: change src/trace/slots.rs too");

/* The submitter's own side of a slot. */
struct slot_note {
	u64 owner; /* of the I/O that had the slot last; 0: none has. Who changes it from one I/O to the next has the slot. */
	u32 claims; /* those about to change it, where that takes more than one step */
	u32 unused;
	struct noted last;
	struct noted before;
};
_Static_assert(sizeof(struct slot_note) == 64, "slot_note: change src/trace/slots.rs too");

/* The devices that are traced when not all are: a device number is in the set of its hash, 0 is no device. */
#define DEVICE_SETS 1024
#define DEVICE_WAYS 8
#define DEVICE_HASH 0x9E3779B1u
#define DEVICE_SHIFT 22

struct device_set {
	u32 dev[DEVICE_WAYS];
};
_Static_assert(sizeof(struct device_set) == 32, "device_set: change src/trace/event.rs too");

/* The kernel's name of a disk, ended by NUL. */
struct disk_name {
	char name[32];
};

/* Windows in which wbt throttled write-back of a device, and how far at most. */
struct wbt_throttled {
	u64 windows;
	u64 max_step;
};
_Static_assert(sizeof(struct wbt_throttled) == 16, "wbt_throttled: change src/trace/event.rs too");

/* The completer's side of a slot. */
struct slot_end {
	u32 id; /* of the I/O that ended there last */
	u32 strays; /* I/Os in flight whose home this slot is, and which are in another one */
	u32 homeless; /* those that found none */
	u32 unused;
};
_Static_assert(sizeof(struct slot_end) == 16, "slot_end: change src/trace/slots.rs too");

/* An I/O may be in any slot of the set that its hash selects. */
#define WAYS 4

#endif
