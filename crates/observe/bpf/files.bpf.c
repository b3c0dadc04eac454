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
 *   sched_switch         the call sleeps, or the thread pauses between calls
 *   io_uring_submit_req, io_uring_complete   I/O without system calls
 *
 * A request is known by the kernel's struct file, which all descriptors that come from one open share: duplicated,
 * inherited or sent elsewhere. A count of our own shows that the last one is closed, since memory mappings
 * and pending I/O hold the file as well.
 */
#include "files_calls.bpf.h"

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
	if (files == parent->files) /* both must know that they share it now */
		__sync_fetch_and_add(&descriptor_epoch, 1);
	else if (state.tracked && files)
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

/* ---- what holds a call up ---- */

/* A call that was not timed is, from now on. */
static __always_inline void held_up(struct task *t, u32 by)
{
	t->held |= by;
	if (!t->enter_ns) {
		t->enter_ns = bpf_ktime_get_ns();
		if (t->run)
			t->run--; /* it counts for itself only */
	}
}

SEC("tp_btf/block_bio_queue")
int bio_submitted(u64 *ctx)
{
	u32 tid = current()->pid;
	struct task *t = place_of_thread(tid);

	if (t && t->tid == tid && t->kind)
		held_up(t, HELD_BY_DEVICE);
	return 0;
}

SEC("tp_btf/sched_switch")
int switched(u64 *ctx)
{
	u64 preempted = ctx[0];
	struct task_struct *from = (void *)ctx[1];
	u32 tid = from->pid;
	struct task *t = place_of_thread(tid);

	if (!t || t->tid != tid || !t->wanted)
		return 0;
	t->run -= t->untimed_left; /* a pause between two calls ends the run, too */
	t->untimed_left = 0;
	if (t->kind)
		held_up(t, (u8)preempted ? HELD_BY_OTHERS : HELD_BY_SLEEP);
	return 0;
}

#include "files_uring.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";
