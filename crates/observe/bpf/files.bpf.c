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
#include "files_threads.bpf.h"

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
	t = known_thread(tid);
	if (!t)
		return 0;
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

/* Counts what a call that may move data came to. */
static __always_inline void returned(struct file_request *r, u64 enter, u64 now, s64 ret, u32 how, int shared)
{
	if (likely(ret > 0))
		account(r, enter, now, ret, how, shared);
	else if (ret < 0)
		ADD(shared, &r->failed, 1);
	else if (!(how & HOW_WRITE))
		ADD(shared, &r->empty, 1);
}

/* The request behind a descriptor, found or begun. */
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

static __always_inline u32 how_of(struct task *t, struct task_struct *me)
{
	u32 how = t->blocks ? HOW_DEVICE : 0;

	if (me->nvcsw != t->switches)
		how |= HOW_SLEPT;
	return how;
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
			returned(r, t->enter_ns, now, ret, how_of(t, current()), 1);
		r = resolve(t, t->fd2);
		if (r)
			returned(r, t->enter_ns, now, ret, how_of(t, current()) | HOW_WRITE, 1);
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
		if (r)
			returned(r, t->enter_ns, now, ret, how_of(t, me) | (kind == K_WRITE ? HOW_WRITE : 0),
				 r->aliases != 1 || me->files->count.counter != 1);
		return 0;
	}
	if (kind >= K_FSYNC && kind <= K_SYNCFS) {
		struct sync_call c = { file_of(t->fd), t->enter_ns, kind, t->fd, ret, how_of(t, me) };

		synced(&c);
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

#include "files_uring.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";
