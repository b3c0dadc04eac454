/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What files.bpf.c remembers: maps, the table of requests, and what a descriptor, a file and its name are. */
#ifndef IOLENS_FILES_TABLE_BPF_H
#define IOLENS_FILES_TABLE_BPF_H

#include "files_histograms.bpf.h"

/* enum kind of each system call, for this machine's numbers. */
const volatile u8 kind_of[512] = {};
/* The recorder itself is left out: what it writes must not make more to write. */
const volatile u32 own_tgid = 0;
const volatile u32 filter_mode = 0;
const volatile char filter_comm[16] = {};
const volatile u64 filter_cgroup = 0;
const volatile u32 filter_cgroup_level = 0;
/* 64 - log2(sets) */
const volatile u8 set_shift = 51;

/* Raised whenever a descriptor is closed: threads may remember what was behind one until then. */
u32 descriptor_epoch = 1;
struct files_state state;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} file_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} file_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct file_set);
} requests SEC(".maps");

#define TASKS (1 << 15)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TASKS);
	__type(key, u32);
	__type(value, struct task);
} tasks SEC(".maps");

/* Processes that the filter passes: the requested ones, and those of a tree. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u8);
} processes SEC(".maps");

struct inode_id {
	u64 ino;
	u32 generation;
	u32 fs_dev;
};

/* Inodes whose names user space knows. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct inode_id);
	__type(value, u8);
} named SEC(".maps");

/* io_uring requests in flight: when they were submitted. A clash costs the older one its duration, not its bytes. */
struct ring_request {
	u64 key;
	u64 submit_ns;
	u64 file;  /* of a close: the file of its descriptor */
	u32 flags; /* of an open or an fsync */
	u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct ring_request);
} ring_requests SEC(".maps");

static __always_inline void lose(u32 kind)
{
	__sync_fetch_and_add(&state.lost[kind], 1);
}

/* ---- the table of requests ---- */

static __always_inline u32 set_of(u64 key)
{
	return mixed(key) >> (set_shift & 63);
}

/* A request and its place: its set's number times FILE_WAYS, and its way. */
struct found {
	struct file_request *r;
	u32 place;
};

static __always_inline struct found find(u64 key)
{
	u32 set = set_of(key);
	struct file_set *s = bpf_map_lookup_elem(&requests, &set);
	struct found f = {};

	if (!s || !key) /* a free place has key 0 */
		return f;
#pragma unroll
	for (u32 i = 0; i < FILE_WAYS; i++)
		if (s->way[i].key == key) {
			f.r = &s->way[i];
			f.place = set * FILE_WAYS + i;
			return f;
		}
	return f;
}

static __always_inline struct found claim(u64 key)
{
	u32 set = set_of(key);
	struct file_set *s = bpf_map_lookup_elem(&requests, &set);
	struct found f = {};

	if (!s)
		return f;
#pragma unroll
	for (u32 i = 0; i < FILE_WAYS; i++)
		if (!s->way[i].key && __sync_val_compare_and_swap(&s->way[i].key, 0, key) == 0) {
			__sync_fetch_and_add(&state.tracked, 1);
			f.r = &s->way[i];
			f.place = set * FILE_WAYS + i;
			return f;
		}
	lose(FILES_LOST_TABLE);
	return f;
}

/* The request at a place that find() or claim() gave, if it still is that of `key`. */
static __always_inline struct file_request *request_at(u32 place, u64 key)
{
	u32 set = place / FILE_WAYS;
	struct file_set *s = bpf_map_lookup_elem(&requests, &set);
	struct file_request *r;

	if (!s)
		return 0;
	r = &s->way[place % FILE_WAYS];
	return likely(r->key == key) ? r : 0;
}

/* The request is over: hands it to user space and frees its place. */
static __attribute__((noinline)) void emit(struct file_request *r)
{
	struct file_request *e = bpf_ringbuf_reserve(&file_events, sizeof(*e), 0);
	u64 key;

	if (e) {
		__builtin_memcpy(e, r, sizeof(*e));
		e->key = 1;
		e->close_exit_ns = bpf_ktime_get_ns();
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	} else { /* user space gets no histograms of it */
		lose(FILES_LOST_RING);
		free_histogram(r->histograms[0]);
		free_histogram(r->histograms[1]);
	}
	key = r->key;
	__sync_val_compare_and_swap(&r->key, key, 0);
	__sync_fetch_and_add(&state.tracked, -1);
}

/* ---- descriptors and files ---- */

static __always_inline struct task_struct *current(void)
{
	return bpf_get_current_task_btf();
}

/* The file behind a descriptor of the current process; 0 if there is none. */
static __always_inline u64 file_of(s32 fd)
{
	struct files_struct *files = current()->files;
	struct fdtable *fdt;
	u64 file = 0;

	if (!files)
		return 0;
	fdt = files->fdt;
	if ((u32)fd >= fdt->max_fds)
		return 0;
	bpf_probe_read_kernel(&file, 8, fdt->fd + (u32)fd);
	return file;
}

enum { S_IFMT = 0170000, S_IFREG = 0100000, S_IFBLK = 0060000 };
enum {
	PROC_MAGIC = 0x9fa0,
	SYSFS_MAGIC = 0x62656572,
	CGROUP_MAGIC = 0x27e0eb,
	CGROUP2_MAGIC = 0x63677270,
	DEBUGFS_MAGIC = 0x64626720,
	TRACEFS_MAGIC = 0x74726163,
	SECURITYFS_MAGIC = 0x73636673,
	SELINUX_MAGIC = 0xf97cff8c,
	BPF_MAGIC = 0xcafe4a11,
	PSTORE_MAGIC = 0x6165676c,
	EFIVARFS_MAGIC = 0xde5e81e4,
	NSFS_MAGIC = 0x6e736673,
	MQUEUE_MAGIC = 0x19800202,
};

/* File systems in which files are the kernel's words, not data. */
static __always_inline int is_pseudo(u32 magic)
{
	switch (magic) {
	case PROC_MAGIC:
	case SYSFS_MAGIC:
	case CGROUP_MAGIC:
	case CGROUP2_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case SELINUX_MAGIC:
	case BPF_MAGIC:
	case PSTORE_MAGIC:
	case EFIVARFS_MAGIC:
	case NSFS_MAGIC:
	case MQUEUE_MAGIC:
		return 1;
	}
	return 0;
}

struct inode_facts {
	u64 inode;
	u64 ino;
	u32 generation;
	u32 fs_dev;
	u32 is_block;
};

/* What file system object a file is; 0 if it is none that we follow: pipes, sockets, terminals, kernel files. */
static __always_inline int inode_of(u64 file, struct inode_facts *f)
{
	u64 inode = 0, sb = 0, magic = 0, ino = 0;
	u32 dev = 0, generation = 0;
	u16 mode = 0;

	READ_KERNEL(&inode, file, struct file, f_inode);
	if (!inode)
		return 0;
	READ_KERNEL(&mode, inode, struct inode___files, i_mode);
	if ((mode & S_IFMT) != S_IFREG && (mode & S_IFMT) != S_IFBLK)
		return 0;
	f->is_block = (mode & S_IFMT) == S_IFBLK;
	READ_KERNEL(&sb, inode, struct inode, i_sb);
	READ_KERNEL(&magic, sb, struct super_block, s_magic);
	if (is_pseudo(magic))
		return 0;
	READ_KERNEL(&dev, sb, struct super_block, s_dev);
	READ_KERNEL(&ino, inode, struct inode, i_ino);
	READ_KERNEL(&generation, inode, struct inode___files, i_generation);
	f->inode = inode;
	f->ino = ino;
	f->generation = generation;
	f->fs_dev = dev;
	return 1;
}

struct walk_names {
	struct file_name *n;
	u64 dentry;
	u32 at;
	u32 done;
};

static long copy_name(u32 i, struct walk_names *w)
{
	u64 parent = 0, name = 0;
	u32 at = w->at;
	long n;

	READ_KERNEL(&parent, w->dentry, struct dentry, d_parent);
	if (parent == w->dentry || !parent) {
		w->done = 1;
		return 1;
	}
	READ_KERNEL(&name, w->dentry, struct dentry, d_name.name);
	if (at >= NAME_BYTES)
		return 1;
	n = bpf_probe_read_kernel_str(&w->n->names[at & 1023], 256, (void *)name);
	if (n <= 0)
		return 1;
	w->at = at + n;
	w->dentry = parent;
	return 0;
}

/* Sends user space the name of an inode, once. */
static __attribute__((noinline)) int tell_name(u64 file, struct inode_facts *f)
{
	struct inode_id id = {};
	struct walk_names w = {};
	u8 one = 1;

	if (!f)
		return 0;
	id.ino = f->ino;
	id.generation = f->generation;
	id.fs_dev = f->fs_dev;
	if (bpf_map_lookup_elem(&named, &id))
		return 0;
	READ_KERNEL(&w.dentry, file, struct file, f_path.dentry);
	if (!w.dentry)
		return 0;
	w.n = bpf_ringbuf_reserve(&file_names, sizeof(*w.n), 0);
	if (!w.n) {
		lose(FILES_LOST_NAMES);
		return 0;
	}
	w.n->ino = id.ino;
	w.n->generation = id.generation;
	w.n->fs_dev = id.fs_dev;
#pragma unroll
	for (int i = 0; i < 32; i++) {
		if (copy_name(i, &w))
			break;
	}
	w.n->length = w.at;
	w.n->truncated = !w.done;
	bpf_ringbuf_submit(w.n, BPF_RB_NO_WAKEUP);
	bpf_map_update_elem(&named, &id, &one, BPF_ANY);
	return 0;
}

/* Sets process and file of a request or a sync. */
static __always_inline void describe(struct file_request *r, const struct inode_facts *facts, s32 fd)
{
	u64 who = bpf_get_current_pid_tgid();

	r->tgid = who >> 32;
	r->tid = who;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	r->cgroup = bpf_get_current_cgroup_id();
	r->ino = facts->ino;
	r->generation = facts->generation;
	r->fs_dev = facts->fs_dev;
	r->fd = fd;
}

/* A new request for `file` and its place; 0 if it is nothing to follow, or there is no room. */
static __attribute__((noinline)) struct file_request *begin(u64 file, s32 fd, u32 flags, u32 *place)
{
	struct inode_facts facts = {};
	struct file_request *r;
	struct found f;

	if (!place || !inode_of(file, &facts))
		return 0;
	f = find(file);
	if (f.r) {
		f.r->flags |= F_END_UNSEEN;
		f.r->size = ~0ull;
		emit(f.r);
	}
	f = claim(file);
	r = f.r;
	if (!r)
		return 0;
	*place = f.place;
	__builtin_memset((char *)r + 8, 0, sizeof(*r) - 8);
	describe(r, &facts, fd);
	r->aliases = 1;
	r->flags = flags | (facts.is_block ? F_BLOCK_DEVICE : 0);
	tell_name(file, &facts);
	return r;
}

/* The request of a file that is in use, found or started late. */
static __always_inline struct file_request *request_behind(u64 file, s32 fd, u32 *place)
{
	struct found f = find(file);

	*place = f.place;
	return f.r ? f.r : begin(file, fd, F_UNKNOWN_START, place);
}

enum { O_CREAT = 0100, O_TRUNC = 01000, O_APPEND = 02000 };

static __always_inline void opened(u64 file, s32 fd, u32 open_flags, u64 enter, u64 now, u32 more)
{
	struct file_request *r;
	u32 place;

	r = begin(file, fd, more | (open_flags & (O_CREAT | O_TRUNC | O_APPEND) ? F_CREATES : 0), &place);
	if (!r)
		return;
	r->open_enter_ns = enter;
	r->open_exit_ns = now;
	r->open_flags = open_flags;
}

/* One descriptor less. */
static __attribute__((noinline)) int release(struct file_request *r, u64 enter, u32 why)
{
	if (!r)
		return 0;
	if (__sync_fetch_and_add(&r->aliases, -1) > 1)
		return 0;
	r->close_enter_ns = enter;
	r->flags |= why;
	emit(r);
	return 0;
}

/* What must be asked of a file while its descriptor is still there. */
static __always_inline void look_before_close(struct file_request *r, u64 file)
{
	u64 inode = 0, size = 0;
	struct counter holders = {};

	READ_KERNEL(&inode, file, struct file, f_inode);
	READ_KERNEL(&size, inode, struct inode___files, i_size);
	r->size = size;
	if (r->aliases == 1 && !(r->flags & (F_MMAP | F_UNKNOWN_START))) {
		if (field_exists(((struct file *)0)->f_ref)) {
			READ_KERNEL(&holders, file, struct file, f_ref);
			holders.counter += 1;
		} else {
			READ_KERNEL(&holders, file, struct file___before_6_13, f_count);
		}
		if (holders.counter > 1)
			r->flags |= F_ESCAPED;
	}
}

#endif
