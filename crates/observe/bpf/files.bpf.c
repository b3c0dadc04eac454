// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * File-level requests: every file from open to close of its last descriptor, summed up here, so that one event leaves
 * the kernel per request and not per system call.
 *
 *   sys_enter            notes what a thread is about to do, and when
 *   sys_exit             did it; opens, sums up or closes the request behind the descriptor
 *   sched_process_fork   a child's copies of descriptors are aliases too
 *   sched_process_exec   descriptors marked close-on-exec are gone
 *   sched_process_exit   all are gone
 *   block_bio_queue      the call submits block I/O: it is no cache hit
 *   io_uring_submit_req, io_uring_complete   I/O without system calls
 *
 * A request is known by the kernel's struct file, which all descriptors that come from one open share: duplicated,
 * inherited or sent elsewhere. What tells that the last one is closed is a count of our own, since memory mappings
 * and pending I/O hold the file as well.
 */
#include "files_compat.bpf.h"

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

/* Processes that the filter lets through: those asked for, and those of a tree. */
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

/* Inodes whose names user space has been told. */
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
	u64 blocks;
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

/* Two rounds: files come from slabs all over memory, and their addresses have structure in all but the lowest bits. */
static __always_inline u32 set_of(u64 key)
{
	key = (key >> 4) * 0x9E3779B97F4A7C15ull;
	key = (key ^ key >> 32) * 0xD6E8FEB86659FD93ull;
	return key >> (set_shift & 63);
}

struct found {
	struct file_request *r;
	u32 set;
	u32 way;
};

static __always_inline struct found find(u64 key)
{
	u32 set = set_of(key);
	struct file_set *s = bpf_map_lookup_elem(&requests, &set);
	struct found none = {};

	if (!s || !key) /* a free place has key 0 */
		return none;
#pragma unroll
	for (u32 i = 0; i < FILE_WAYS; i++)
		if (s->way[i].key == key) {
			struct found f = { &s->way[i], set, i };
			return f;
		}
	return none;
}

static __always_inline struct found claim(u64 key)
{
	u32 set = set_of(key);
	struct file_set *s = bpf_map_lookup_elem(&requests, &set);
	struct found none = {};

	if (!s)
		return none;
#pragma unroll
	for (u32 i = 0; i < FILE_WAYS; i++)
		if (!s->way[i].key && __sync_val_compare_and_swap(&s->way[i].key, 0, key) == 0) {
			struct found f = { &s->way[i], set, i };
			__sync_fetch_and_add(&state.tracked, 1);
			return f;
		}
	lose(FILES_LOST_TABLE);
	return none;
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
	} else {
		lose(FILES_LOST_RING);
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

/* Tells user space the name of an inode, once. */
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

/* A new request for `file`; 0 if it is nothing to follow, or there is no room. */
static __attribute__((noinline)) struct file_request *begin(u64 file, s32 fd, u32 flags, u64 *place)
{
	struct inode_facts facts = {};
	struct file_request *r;
	struct found f;
	u64 who;

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
	*place = (u64)f.set << 32 | f.way;
	__builtin_memset((char *)r + 8, 0, sizeof(*r) - 8);
	who = bpf_get_current_pid_tgid();
	r->tgid = who >> 32;
	r->tid = who;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	r->cgroup = bpf_get_current_cgroup_id();
	r->ino = facts.ino;
	r->generation = facts.generation;
	r->fs_dev = facts.fs_dev;
	r->fd = fd;
	r->aliases = 1;
	r->flags = flags | (facts.is_block ? F_BLOCK_DEVICE : 0);
	tell_name(file, &facts);
	return r;
}

enum { O_CREAT = 0100, O_TRUNC = 01000, O_APPEND = 02000 };

static __always_inline void opened(u64 file, s32 fd, u32 open_flags, u64 enter, u64 now, u32 more)
{
	struct file_request *r;
	u64 place;

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

/* ---- walks over all descriptors of a process ---- */

enum { WALK_FORK = 1, WALK_EXIT = 2, WALK_EXEC = 3, WALK_RANGE = 4 };

struct walk {
	void **files;	     /* fdt->fd */
	unsigned long *bits; /* fdt->open_fds or fdt->close_on_exec */
	u64 now;
	u32 what;
	u32 first;
	u32 last;
	u32 base;
	u64 word;
	u32 hits;
	u32 stamp;
};

static long walk_one(u32 i, struct walk *w)
{
	u32 fd = w->base + i;
	struct file_request *r;
	struct found f;
	u64 file = 0;

	if (!(w->word >> (i & 63) & 1) || fd < w->first || fd > w->last)
		return 0;
	bpf_probe_read_kernel(&file, 8, w->files + fd);
	if (!file)
		return 0;
	f = find(file);
	r = f.r;
	if (!r)
		return 0;
	w->hits++;
	switch (w->what) {
	case WALK_FORK:
		__sync_fetch_and_add(&r->aliases, 1);
		r->flags |= F_FORKED;
		break;
	case WALK_EXIT:
		look_before_close(r, file);
		release(r, w->now, F_AT_EXIT);
		break;
	case WALK_RANGE:
		look_before_close(r, file);
		release(r, w->now, 0);
		break;
	case WALK_EXEC:
		look_before_close(r, file);
		if (r->exec_tid != w->stamp) {
			r->exec_tid = w->stamp;
			r->exec_aliases = 0;
		}
		r->exec_aliases++;
		break;
	}
	return 0;
}

static long walk_word(u32 i, struct walk *w)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, 8, w->bits + i);
	if (!word || (i + 1) * 64 <= w->first || i * 64 > w->last)
		return 0;
	w->word = word;
	w->base = i * 64;
	bpf_loop(64, walk_one, w, 0);
	return 0;
}

static __attribute__((noinline)) u32 walk_descriptors(struct files_struct *files, u64 now, u32 what, u32 first, u32 last)
{
	struct walk w = {};
	struct fdtable *fdt;
	u32 n;

	fdt = files->fdt;
	n = fdt->max_fds;
	w.files = fdt->fd;
	w.bits = what == WALK_EXEC ? fdt->close_on_exec : fdt->open_fds;
	w.now = now;
	w.what = what;
	w.first = first;
	w.last = last;
	w.stamp = now;
	bpf_loop((n + 63) / 64, walk_word, &w, 0);
	return w.hits;
}

/* ---- threads ---- */

static __always_inline int same_comm(void)
{
	char comm[16] = {};

	bpf_get_current_comm(comm, sizeof(comm));
#pragma unroll
	for (int i = 0; i < 16; i++) {
		if (comm[i] != filter_comm[i])
			return 0;
		if (!comm[i])
			break;
	}
	return 1;
}

static u64 (*bpf_get_current_ancestor_cgroup_id)(s32 level) = (void *)123;

static __attribute__((noinline)) int passes_filter(u32 tgid)
{
	if (tgid == own_tgid)
		return 0;
	if ((filter_mode & (FILTER_PID | FILTER_TREE)) && !bpf_map_lookup_elem(&processes, &tgid))
		return 0;
	if ((filter_mode & FILTER_COMM) && !same_comm())
		return 0;
	if ((filter_mode & FILTER_CGROUP) && bpf_get_current_ancestor_cgroup_id(filter_cgroup_level) != filter_cgroup)
		return 0;
	return 1;
}

static __always_inline struct task *place_of_thread(u32 tid)
{
	u32 index = tid % TASKS;

	return bpf_map_lookup_elem(&tasks, &index);
}

static __attribute__((noinline)) int meet(struct task *t, u64 who)
{
	if (!t)
		return 0;
	if (t->kind) /* another thread with the same place is inside a call, of which we shall see no end */
		lose(FILES_LOST_TASKS);
	__builtin_memset(t, 0, sizeof(*t));
	t->tid = who;
	t->wanted = passes_filter(who >> 32);
	return 0;
}

/* ---- system calls ---- */

static __always_inline u64 argument(struct pt_regs *regs, u32 n)
{
	if (field_exists(((struct pt_regs___arm64 *)0)->orig_x0)) {
		struct pt_regs___arm64 *a = (void *)regs;

		return n == 0 ? a->orig_x0 : a->regs[n];
	}
	return n == 0 ? regs->di : n == 1 ? regs->si : n == 2 ? regs->dx : n == 3 ? regs->r10 : regs->r8;
}

enum { F_DUPFD = 0, F_DUPFD_CLOEXEC = 1030 };
enum { CLOSE_RANGE_UNSHARE = 2, CLOSE_RANGE_CLOEXEC = 4 };

/* A descriptor that the call is going to close. */
static __always_inline void will_close(struct task *t, s32 fd)
{
	u64 file = file_of(fd);
	struct found f;

	__sync_fetch_and_add(&descriptor_epoch, 1);
	t->closing = 0;
	if (!file)
		return;
	f = find(file);
	if (f.r) {
		look_before_close(f.r, file);
		t->closing = file;
	}
}

/* io_submit: the files are told by the control blocks, which lie in user memory. */
static __always_inline void mark_aio(struct pt_regs *regs)
{
	u64 list = argument(regs, 2), n = argument(regs, 1);

	for (u32 i = 0; i < 32; i++) {
		u64 block = 0;
		u32 fd = 0;
		struct found f;

		if (i >= n)
			break;
		if (bpf_probe_read_user(&block, 8, (void *)(list + i * 8)) ||
		    bpf_probe_read_user(&fd, 4, (void *)(block + 20)))
			break;
		f = find(file_of(fd));
		if (f.r)
			f.r->flags |= F_AIO;
	}
}

static __attribute__((noinline)) int enter_rare(struct task *t, struct pt_regs *regs, u32 kind)
{
	struct files_struct *files;

	if (!t)
		return 0;
	t->fd = argument(regs, 0);
	switch (kind) {
	case K_OPEN:
		t->flags = argument(regs, 1);
		break;
	case K_OPENAT:
	case K_OPEN_BY_HANDLE:
		t->flags = argument(regs, 2);
		break;
	case K_OPENAT2: {
		u64 how = 0;

		bpf_probe_read_user(&how, 8, (void *)argument(regs, 2));
		t->flags = how;
		break;
	}
	case K_CREAT:
		t->flags = O_CREAT | O_TRUNC | 1;
		break;
	case K_CLOSE:
		will_close(t, t->fd);
		if (!t->closing)
			t->kind = 0;
		break;
	case K_DUP2:
		t->fd2 = argument(regs, 1);
		t->closing = 0;
		if (t->fd2 != t->fd)
			will_close(t, t->fd2);
		break;
	case K_FCNTL: {
		u32 command = argument(regs, 1);

		if (command != F_DUPFD && command != F_DUPFD_CLOEXEC)
			t->kind = 0;
		break;
	}
	case K_CLOSE_RANGE: {
		u32 flags = argument(regs, 2);

		__sync_fetch_and_add(&descriptor_epoch, 1);
		t->kind = 0;
		files = current()->files;
		if (state.tracked && files && !(flags & CLOSE_RANGE_CLOEXEC) &&
		    !((flags & CLOSE_RANGE_UNSHARE) && files->count.counter > 1))
			walk_descriptors(files, t->enter_ns, WALK_RANGE, argument(regs, 0), argument(regs, 1));
		break;
	}
	case K_MMAP:
		t->fd = argument(regs, 4);
		if (t->fd < 0)
			t->kind = 0;
		break;
	case K_EXEC:
		t->exec_files = 0;
		files = current()->files;
		if (state.tracked && files)
			t->exec_files = walk_descriptors(files, t->enter_ns, WALK_EXEC, 0, ~0u);
		break;
	case K_IO_SUBMIT:
		t->kind = 0;
		mark_aio(regs);
		break;
	case K_COPY:
		t->fd2 = argument(regs, 2);
		break;
	case K_SENDFILE:
		t->fd2 = t->fd;
		t->fd = argument(regs, 1);
		break;
	}
	return 0;
}

static __always_inline int moves_data(u32 kind)
{
	return kind <= K_SENDFILE;
}

static __always_inline int changes_descriptors(u32 kind)
{
	return (kind >= K_CLOSE && kind <= K_CLOSE_RANGE) || kind == K_EXEC;
}

SEC("tp_btf/sys_enter")
int enter(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	struct task_struct *me;
	u64 id = ctx[1];
	struct task *t;
	u32 kind, tid;

	if (id >= 512)
		return 0;
	kind = kind_of[id & 511];
	if (!kind)
		return 0;
	me = current();
	tid = me->pid;
	t = place_of_thread(tid);
	if (!t)
		return 0;
	if (unlikely(t->tid != tid))
		meet(t, bpf_get_current_pid_tgid());
	if (!t->wanted && !(state.tracked && changes_descriptors(kind)))
		return 0;
	t->kind = kind;
	t->blocks = 0;
	t->switches = me->nvcsw;
	if (likely(kind <= K_WRITE || (kind >= K_FSYNC && kind <= K_SYNCFS)))
		t->fd = argument(regs, 0);
	else {
		t->enter_ns = bpf_ktime_get_ns();
		enter_rare(t, regs, kind);
		return 0;
	}
	t->enter_ns = bpf_ktime_get_ns();
	return 0;
}

/* Adds with a locked instruction (some 6 ns) only where another thread may add at the same time. */
#define ADD(shared, to, n)                             \
	do {                                           \
		if (unlikely(shared))                  \
			__sync_fetch_and_add(to, n);   \
		else                                   \
			*(to) += (n);                  \
	} while (0)

/* Sums up one data I/O. */
static __always_inline void account(struct file_request *r, u64 enter, u64 now, u64 bytes, u32 how, int shared)
{
	u32 n = r->ios_in + r->ios_out;
	u64 duration = now - enter;

	if (how & HOW_WRITE) {
		ADD(shared, &r->ios_out, 1);
		ADD(shared, &r->bytes_out, bytes);
	} else {
		ADD(shared, &r->ios_in, 1);
		ADD(shared, &r->bytes_in, bytes);
	}
	ADD(shared, &r->active_ns, duration);
	r->last_exit_ns = now;
	if (unlikely(how & HOW_DEVICE))
		ADD(shared, &r->device_ios, 1);
	if (unlikely(how & HOW_SLEPT))
		ADD(shared, &r->slept_ios, 1);
	if (unlikely(n < DETAILS)) {
		struct io_detail *d = &r->first[n & (DETAILS - 1)];

		d->enter_ns = enter;
		d->duration_ns = duration >> 32 ? ~0u : duration;
		d->bytes = bytes >> 32 ? ~0u : bytes;
		r->first_how[n & (DETAILS - 1)] = how;
	}
	if (unlikely(duration > r->slowest_ns)) {
		r->slowest_ns = duration;
		r->slowest_enter_ns = enter;
		r->slowest_how = how;
		r->slowest_bytes = bytes >> 32 ? ~0u : bytes;
	}
}

/* The request behind a descriptor, found or begun. */
static __attribute__((noinline)) struct file_request *resolve(struct task *t, s32 fd)
{
	u32 epoch = descriptor_epoch;
	struct found f = {};
	u64 file, place = 0;

	if (!t)
		return 0;
	file = file_of(fd);
	if (!file)
		return 0;
	f = find(file);
	if (!f.r) {
		f.r = begin(file, fd, F_UNKNOWN_START, &place);
		f.set = place >> 32;
		f.way = place;
	}
	t->cached_fd = fd;
	t->cached_set = f.set;
	t->cached_way = f.way;
	t->cached_key = f.r ? file : 0;
	t->cached_epoch = epoch;
	return f.r;
}

static __always_inline struct file_request *request_of(struct task *t, s32 fd)
{
	if (likely(t->cached_fd == fd && t->cached_epoch == descriptor_epoch)) {
		u32 set = t->cached_set;
		struct file_set *s;

		if (!t->cached_key)
			return 0;
		s = bpf_map_lookup_elem(&requests, &set);
		if (s) {
			struct file_request *r = &s->way[t->cached_way % FILE_WAYS];

			if (likely(r->key == t->cached_key))
				return r;
		}
	}
	return resolve(t, fd);
}

static __always_inline u32 how_of(struct task *t, struct task_struct *me)
{
	u32 how = t->blocks ? HOW_DEVICE : 0;

	if (me->nvcsw != t->switches)
		how |= HOW_SLEPT;
	return how;
}

static __attribute__((noinline)) int exit_sync(struct task *t, s64 ret)
{
	struct inode_facts facts = {};
	struct file_request *e;
	u64 file, who, size = 0;

	if (!t)
		return 0;
	file = file_of(t->fd);
	if (!file || !inode_of(file, &facts))
		return 0;
	tell_name(file, &facts);
	e = bpf_ringbuf_reserve(&file_events, sizeof(*e), 0);
	if (!e) {
		lose(FILES_LOST_RING);
		return 0;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->key = 2;
	e->sync = t->kind;
	e->open_enter_ns = t->enter_ns;
	e->close_exit_ns = bpf_ktime_get_ns();
	e->failed = ret < 0 ? -ret : 0;
	e->slowest_how = how_of(t, current());
	who = bpf_get_current_pid_tgid();
	e->tgid = who >> 32;
	e->tid = who;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	e->cgroup = bpf_get_current_cgroup_id();
	e->ino = facts.ino;
	e->generation = facts.generation;
	e->fs_dev = facts.fs_dev;
	e->fd = t->fd;
	READ_KERNEL(&size, facts.inode, struct inode___files, i_size);
	e->size = size;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

static __attribute__((noinline)) int exit_open(struct task *t, s64 ret, u64 now)
{
	u64 file;

	if (!t || ret < 0)
		return 0;
	file = file_of(ret);
	if (file)
		opened(file, ret, t->flags, t->enter_ns, now, 0);
	return 0;
}

static __attribute__((noinline)) int exit_rare(struct task *t, s64 ret, u64 now, u32 kind)
{
	struct file_request *r;
	struct found f;

	if (!t)
		return 0;
	switch (kind) {
	case K_CLOSE: /* whatever it returns but EBADF, the descriptor is gone */
		f = find(t->closing);
		release(f.r, t->enter_ns, 0);
		break;
	case K_DUP2:
		if (ret >= 0 && t->closing) {
			f = find(t->closing);
			release(f.r, t->enter_ns, 0);
		}
		/* fallthrough */
	case K_DUP:
	case K_FCNTL:
		if (ret < 0 || (kind == K_DUP2 && t->fd == t->fd2))
			break;
		f = find(file_of(ret));
		if (f.r) {
			__sync_fetch_and_add(&f.r->aliases, 1);
			f.r->flags |= F_ALIASED;
		}
		break;
	case K_MMAP:
		if (ret < 0 && ret > -4096)
			break;
		r = request_of(t, t->fd);
		if (r)
			r->flags |= F_MMAP;
		break;
	case K_COPY:
	case K_SENDFILE:
		if (ret <= 0)
			break;
		r = resolve(t, t->fd);
		if (r)
			account(r, t->enter_ns, now, ret, how_of(t, current()), 1);
		r = resolve(t, t->fd2);
		if (r)
			account(r, t->enter_ns, now, ret, how_of(t, current()) | HOW_WRITE, 1);
		break;
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int leave(u64 *ctx)
{
	s64 ret = ctx[1];
	struct task_struct *me = current();
	u32 tid = me->pid;
	struct task *t = place_of_thread(tid);
	struct file_request *r;
	u32 kind;
	u64 now;

	if (!t || t->tid != tid)
		return 0;
	kind = t->kind;
	if (!kind)
		return 0;
	t->kind = 0;
	now = bpf_ktime_get_ns();
	if (likely(kind <= K_WRITE)) {
		r = request_of(t, t->fd);
		if (!r)
			return 0;
		if (likely(ret > 0))
			account(r, t->enter_ns, now, ret, how_of(t, me) | (kind == K_WRITE ? HOW_WRITE : 0),
				r->aliases != 1 || me->files->count.counter != 1);
		else if (ret < 0)
			r->failed++;
		else if (kind == K_READ)
			r->empty++;
		return 0;
	}
	if (kind >= K_FSYNC && kind <= K_SYNCFS) {
		t->kind = kind;
		exit_sync(t, ret);
		t->kind = 0;
	} else if ((kind >= K_OPEN && kind <= K_CREAT) || kind == K_OPEN_BY_HANDLE) {
		exit_open(t, ret, now);
	} else {
		exit_rare(t, ret, now, kind);
	}
	return 0;
}

/* ---- processes ---- */

SEC("tp_btf/sched_process_fork")
int process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct files_struct *files = child->files;
	u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	u8 one = 1;

	if ((filter_mode & FILTER_TREE) && parent_tgid != child_tgid &&
	    (parent_tgid == own_tgid || bpf_map_lookup_elem(&processes, &parent_tgid)))
		bpf_map_update_elem(&processes, &child_tgid, &one, BPF_ANY);
	if (state.tracked && files && files != parent->files)
		walk_descriptors(files, 0, WALK_FORK, 0, ~0u);
	return 0;
}

struct sweep {
	u64 now;
	u32 stamp;
	u32 left;
};

static long sweep_set(u32 i, struct sweep *s)
{
	struct file_set *set = bpf_map_lookup_elem(&requests, &i);

	if (!set)
		return 0;
	for (u32 w = 0; w < FILE_WAYS; w++) {
		struct file_request *r = &set->way[w];

		if (!r->key || r->exec_tid != s->stamp || !r->exec_aliases)
			continue;
		/* All but one of the descriptors that are gone; release() takes the last. */
		__sync_fetch_and_add(&r->aliases, 1 - (s32)r->exec_aliases);
		r->exec_aliases = 0;
		release(r, s->now, F_AT_EXIT);
		s->left--;
	}
	return s->left ? 0 : 1;
}

SEC("tp_btf/sched_process_exec")
int process_exec(u64 *ctx)
{
	u32 old_tid = ctx[1];
	u64 who = bpf_get_current_pid_tgid();
	struct task *t = place_of_thread(old_tid), *now_t = place_of_thread(who);
	struct sweep s = {};

	__sync_fetch_and_add(&descriptor_epoch, 1);
	if (t && t->tid == old_tid && t->exec_files) {
		s.now = bpf_ktime_get_ns();
		s.stamp = t->enter_ns;
		s.left = t->exec_files;
		t->exec_files = 0;
		bpf_loop(1u << (64 - (set_shift & 63)), sweep_set, &s, 0);
	}
	/* A new name, perhaps a new thread number: to be judged anew. */
	if (t && t->tid == old_tid) {
		t->kind = 0;
		t->tid = 0;
	}
	if (now_t && now_t->tid == (u32)who) {
		now_t->kind = 0;
		now_t->tid = 0;
	}
	return 0;
}

SEC("tp_btf/task_rename")
int rename(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u32 tid = p->pid;
	struct task *t = place_of_thread(tid);

	if (t && t->tid == tid && !t->kind)
		t->tid = 0;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct files_struct *files = p->files;
	u32 tid = p->pid, tgid = p->tgid;
	struct task *t = place_of_thread(tid);
	int last = ((struct task_struct___exit *)p)->signal->live.counter == 0;

	if (t && t->tid == tid) {
		t->kind = 0;
		t->tid = 0;
	}
	if (last && (filter_mode & FILTER_TREE))
		bpf_map_delete_elem(&processes, &tgid);
	/*
	 * The last thread of a process ends its descriptors. Other threads may not have let go of the table yet, but
	 * they are past all system calls.
	 */
	if (last && state.tracked && files) {
		__sync_fetch_and_add(&descriptor_epoch, 1);
		walk_descriptors(files, bpf_ktime_get_ns(), WALK_EXIT, 0, ~0u);
	}
	return 0;
}

/* ---- block I/O inside a call ---- */

SEC("tp_btf/block_bio_queue")
int bio_submitted(u64 *ctx)
{
	u64 who = bpf_get_current_pid_tgid();
	struct task *t = place_of_thread(who);

	if (t && t->tid == (u32)who && t->kind)
		t->blocks++;
	return 0;
}

/* ---- io_uring ---- */

enum {
	IORING_OP_READV = 1,
	IORING_OP_WRITEV = 2,
	IORING_OP_FSYNC = 3,
	IORING_OP_READ_FIXED = 4,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_SYNC_FILE_RANGE = 8,
	IORING_OP_OPENAT = 18,
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
	IORING_OP_OPENAT2 = 28,
};

static __always_inline u32 kind_of_op(u32 op)
{
	switch (op) {
	case IORING_OP_READV:
	case IORING_OP_READ_FIXED:
	case IORING_OP_READ:
		return K_READ;
	case IORING_OP_WRITEV:
	case IORING_OP_WRITE_FIXED:
	case IORING_OP_WRITE:
		return K_WRITE;
	case IORING_OP_FSYNC:
		return K_FSYNC;
	case IORING_OP_SYNC_FILE_RANGE:
		return K_SYNC_FILE_RANGE;
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
		return K_OPEN;
	}
	return K_NONE;
}

static __always_inline struct ring_request *place_of_ring_request(u64 key)
{
	u32 index = ((key >> 4) * 0x9E3779B97F4A7C15ull) >> 50;

	return bpf_map_lookup_elem(&ring_requests, &index);
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx)
{
	struct io_kiocb *req = (void *)ctx[0];
	struct ring_request *q;
	struct task *t;
	u64 who, key = 0;

	if (!kind_of_op(req->opcode))
		return 0;
	who = bpf_get_current_pid_tgid();
	t = place_of_thread(who);
	if (!t)
		return 0;
	if (unlikely(t->tid != (u32)who))
		meet(t, who);
	if (!t->wanted)
		return 0;
	/* As a number: the verifier lets nobody calculate with a pointer that it knows the type of. */
	bpf_probe_read_kernel(&key, 8, ctx);
	q = place_of_ring_request(key);
	if (!q)
		return 0;
	q->key = key;
	q->submit_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *ctx)
{
	u64 req = ctx[1], key, enter, now, place, file = 0;
	struct io_uring_cqe *cqe = (void *)ctx[2];
	struct ring_request *q;
	struct file_request *r;
	struct found f;
	u32 kind;
	u8 op = 0;
	s32 res;

	if (!req)
		return 0;
	READ_KERNEL(&op, req, struct io_kiocb, opcode);
	kind = kind_of_op(op);
	if (!kind)
		return 0;
	key = req;
	q = place_of_ring_request(key);
	if (!q || q->key != key)
		return 0;
	q->key = 0;
	enter = q->submit_ns;
	res = cqe->res;
	now = bpf_ktime_get_ns();
	if (kind == K_OPEN) {
		if (res >= 0 && (file = file_of(res)))
			opened(file, res, 0, enter, now, F_IO_URING);
		return 0;
	}
	READ_KERNEL(&file, req, struct io_kiocb, file);
	if (!file || (kind > K_WRITE))
		return 0;
	f = find(file);
	r = f.r;
	if (!r)
		r = begin(file, -1, F_UNKNOWN_START, &place);
	if (!r)
		return 0;
	r->flags |= F_IO_URING;
	if (res > 0)
		account(r, enter, now, res, HOW_ASYNC | (kind == K_WRITE ? HOW_WRITE : 0), 1);
	else if (res < 0)
		r->failed++;
	else if (kind == K_READ)
		r->empty++;
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
