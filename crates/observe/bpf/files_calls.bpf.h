/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Part of files.bpf.c: system calls, at their entry and at their exit. */
#ifndef IOLENS_FILES_CALLS_BPF_H
#define IOLENS_FILES_CALLS_BPF_H

#include "files_sums.bpf.h"

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

/* io_submit: the control blocks, in user memory, name the files. */
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

static __always_inline int changes_descriptors(u32 kind)
{
	return (kind >= K_CLOSE && kind <= K_CLOSE_RANGE) || kind == K_EXEC;
}

SEC("tp_btf/sys_enter")
int enter(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	u64 id = ctx[1];
	struct task *t;
	u32 kind;
	s32 fd;

	if (id >= 512)
		return 0;
	kind = kind_of[id & 511];
	if (!kind)
		return 0;
	t = known_thread(current()->pid);
	if (!t)
		return 0;
	if (!t->wanted && !(state.tracked && changes_descriptors(kind)))
		return 0;
	t->held = 0;
	if (likely((kind & ~K_SIZED) <= K_WRITE || (kind >= K_FSYNC && kind <= K_SYNCFS))) {
		fd = argument(regs, 0);
		t->kind = kind & ~K_SIZED;
		t->fd = fd;
		t->small = (kind & K_SIZED) && argument(regs, 2) <= SAMPLE_BYTES;
		if (t->untimed_left && t->small && t->cached_fd == fd && t->tick == bpf_jiffies64()) {
			t->untimed_left--;
			t->enter_ns = 0;
			return 0;
		}
		t->enter_ns = bpf_ktime_get_ns();
		return 0;
	}
	t->kind = kind;
	t->enter_ns = bpf_ktime_get_ns();
	enter_rare(t, regs, kind);
	return 0;
}

/* The request behind a descriptor, found or started. */
static __attribute__((noinline)) struct file_request *resolve(struct task *t, s32 fd)
{
	u32 epoch = descriptor_epoch, place = 0;
	struct file_request *r;
	u64 file;

	if (!t)
		return 0;
	file = file_of(fd);
	if (!file)
		return 0;
	r = request_behind(file, fd, &place);
	/* What was not timed of the same request still waits for a call that is. */
	t->run = r && t->cached_key == file && t->cached_fd == fd ? t->run - t->untimed_left : 0;
	t->untimed_left = 0;
	t->last_ns = 0;
	t->shares = current()->files->count.counter != 1;
	t->cached_fd = fd;
	t->cached_place = place;
	t->cached_key = r ? file : 0;
	t->cached_epoch = epoch;
	return r;
}

static __always_inline struct file_request *request_of(struct task *t, s32 fd)
{
	if (likely(t->cached_fd == fd && t->cached_epoch == descriptor_epoch)) {
		struct file_request *r;

		if (!t->cached_key)
			return 0;
		r = request_at(t->cached_place, t->cached_key);
		if (likely(r))
			return r;
	}
	return resolve(t, fd);
}

static __always_inline u32 how_of(struct task *t)
{
	return t->held & (HOW_DEVICE | HOW_SLEPT);
}

struct sync_call {
	u64 file;
	u64 enter_ns;
	u32 kind;
	s32 fd; /* -1: not known */
	s32 ret;
	u32 how;
};

/* A sync has returned: hands it to user space as a request of its own. */
static __attribute__((noinline)) int synced(struct sync_call *c)
{
	struct inode_facts facts = {};
	struct file_request *e;
	u64 size = 0;

	if (!c || !c->file || !inode_of(c->file, &facts))
		return 0;
	tell_name(c->file, &facts);
	e = bpf_ringbuf_reserve(&file_events, sizeof(*e), 0);
	if (!e) {
		lose(FILES_LOST_RING);
		return 0;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->key = 2;
	e->sync = c->kind;
	e->open_enter_ns = c->enter_ns;
	e->close_exit_ns = bpf_ktime_get_ns();
	e->failed = c->ret < 0 ? -c->ret : 0;
	e->slowest_how = c->how;
	if (c->how & HOW_ASYNC)
		e->flags = F_IO_URING;
	describe(e, &facts, c->fd);
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
		r = resolve(t, t->fd);
		if (r)
			returned(r, t->enter_ns, now, ret, how_of(t), 1, 1);
		r = resolve(t, t->fd2);
		if (r)
			returned(r, t->enter_ns, now, ret, how_of(t) | HOW_WRITE, 1, 1);
		break;
	}
	return 0;
}

/* A call that reads or writes has returned. */
static __always_inline void moved_data(struct task *t, s64 ret, u32 kind)
{
	struct file_request *r = request_of(t, t->fd);
	int shared, on_memory = t->small && !t->held && ret > 0;
	u64 now;

	if (!r)
		return;
	shared = t->shares | (r->aliases != 1);
	if (likely(!t->enter_ns && ret > 0 && r->sampled)) {
		account_untimed(r, ret, kind, shared);
		return;
	}
	now = bpf_ktime_get_ns();
	if (!t->enter_ns) { /* no data I/O, or another thread has put another file behind the descriptor meanwhile */
		t->enter_ns = now;
		if (t->run)
			t->run--;
	}
	returned(r, t->enter_ns, now, ret, how_of(t) | (kind == K_WRITE ? HOW_WRITE : 0), on_memory ? calls_since(t) : 1,
		 shared);
	if (likely(on_memory))
		choose_sample(t, r, now, shared);
}

SEC("tp_btf/sys_exit")
int leave(u64 *ctx)
{
	s64 ret = ctx[1];
	u32 tid = current()->pid, kind;
	struct task *t = place_of_thread(tid);
	u64 now;

	if (!t || t->tid != tid)
		return 0;
	kind = t->kind;
	if (!kind)
		return 0;
	t->kind = 0;
	if (likely(kind <= K_WRITE)) {
		moved_data(t, ret, kind);
		return 0;
	}
	if (kind >= K_FSYNC && kind <= K_SYNCFS) {
		struct sync_call c = { file_of(t->fd), t->enter_ns, kind, t->fd, ret, how_of(t) };

		synced(&c);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if ((kind >= K_OPEN && kind <= K_CREAT) || kind == K_OPEN_BY_HANDLE)
		exit_open(t, ret, now);
	else
		exit_rare(t, ret, now, kind);
	return 0;
}

#endif
