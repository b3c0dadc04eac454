/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Part of files.bpf.c: what a data I/O adds to its request. */
#ifndef IOLENS_FILES_SUMS_BPF_H
#define IOLENS_FILES_SUMS_BPF_H

#include "files_threads.bpf.h"

/* Counts one data I/O by its direction. */
static __always_inline void count(struct file_request *r, int writes, u64 bytes, int shared)
{
	if (writes) {
		ADD(shared, &r->ios_out, 1);
		ADD(shared, &r->bytes_out, bytes);
	} else {
		ADD(shared, &r->ios_in, 1);
		ADD(shared, &r->bytes_in, bytes);
	}
}

/*
 * Sums up one data I/O. `calls`: how many it counts for, where those before it were not timed.
 */
static __always_inline void account(struct file_request *r, u64 enter, u64 now, u64 bytes, u32 how, u32 calls, int shared)
{
	u32 n = r->ios_in + r->ios_out;
	u64 duration = now - enter;

	count(r, how & HOW_WRITE, bytes, shared);
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
	} else {
		u32 writes = how & HOW_WRITE ? 1 : 0, histogram = r->histograms[writes];

		if (unlikely(!histogram))
			histogram = histogram_of(r, writes);
		count_duration(histogram, duration, calls, shared);
	}
	if (unlikely(duration > r->slowest_ns)) {
		r->slowest_ns = duration;
		r->slowest_enter_ns = enter;
		r->slowest_how = how;
		r->slowest_bytes = bytes >> 32 ? ~0u : bytes;
	}
}

/* Sums up one data I/O that was not timed, since it was like those around it. */
static __always_inline void account_untimed(struct file_request *r, u64 bytes, u32 kind, int shared)
{
	count(r, kind == K_WRITE, bytes, shared);
	ADD(shared, &r->untimed, 1);
}

/* The calls since the last one on memory that was timed, the one that has ended now included. */
static __always_inline u32 calls_since(const struct task *t)
{
	return t->run - t->untimed_left + 1;
}

/* A timed I/O on memory has ended: shall the next ones be timed? */
static __always_inline void choose_sample(struct task *t, struct file_request *r, u64 now, int shared)
{
	u32 calls = calls_since(t);

	t->untimed_left = 0;
	t->run = 0;
	if (r->ios_in + r->ios_out > SAMPLE_AFTER && (now - t->last_ns) * SAMPLE_RUN < (u64)SAMPLE_WITHIN_NS * calls) {
		ADD(shared, &r->sampled, 1);
		ADD(shared, &r->sampled_ns, now - t->enter_ns);
		/* The clock's last bits are as good as chance: a program's own rhythm must not choose. */
		t->run = t->untimed_left = now % SAMPLE_RUN;
		t->tick = bpf_jiffies64();
	}
	t->last_ns = now;
}

/* Counts what a call that may move data came to; `calls` as for account(). */
static __always_inline void returned(struct file_request *r, u64 enter, u64 now, s64 ret, u32 how, u32 calls, int shared)
{
	if (likely(ret > 0))
		account(r, enter, now, ret, how, calls, shared);
	else if (ret < 0)
		ADD(shared, &r->failed, 1);
	else if (!(how & HOW_WRITE))
		ADD(shared, &r->empty, 1);
}

#endif
