/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Walks over all descriptors of a process, and what is known of each thread. */
#ifndef IOLENS_FILES_THREADS_BPF_H
#define IOLENS_FILES_THREADS_BPF_H

#include "files_table.bpf.h"

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
	if (t->kind) /* another thread with the same entry is inside a call whose end will not be seen */
		lose(FILES_LOST_TASKS);
	__builtin_memset(t, 0, sizeof(*t));
	t->tid = who;
	t->wanted = passes_filter(who >> 32);
	return 0;
}

/* What is known of the current thread, which is judged when it is met first. */
static __always_inline struct task *known_thread(u32 tid)
{
	struct task *t = place_of_thread(tid);

	if (t && unlikely(t->tid != tid))
		meet(t, bpf_get_current_pid_tgid());
	return t;
}

#endif
