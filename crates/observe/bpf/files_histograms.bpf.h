/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Part of files.bpf.c: the table of latency histograms and their owners. */
#ifndef IOLENS_FILES_HISTOGRAMS_BPF_H
#define IOLENS_FILES_HISTOGRAMS_BPF_H

#include "files_compat.bpf.h"

/* 64 - log2(histograms) */
const volatile u8 histogram_shift = 51;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

/* Two rounds: files come from slabs all over memory, and their addresses have structure in all but the lowest bits. */
static __always_inline u64 mixed(u64 key)
{
	key = (key >> 4) * 0x9E3779B97F4A7C15ull;
	return (key ^ key >> 32) * 0xD6E8FEB86659FD93ull;
}

/* Places that are looked at for a free one: with half of them taken, one search in 65,536 finds none. */
#define HISTOGRAM_WAYS 16
/* In place of a histogram: there was none left. */
#define NO_HISTOGRAM 0xffff

/* Adds with a locked instruction (some 6 ns) only where another thread may add at the same time. */
#define ADD(shared, to, n)                             \
	do {                                           \
		if (unlikely(shared))                  \
			__sync_fetch_and_add(to, n);   \
		else                                   \
			*(to) += (n);                  \
	} while (0)

static __always_inline void free_histogram(u32 number)
{
	u32 place = number - 1;
	struct histogram *h = bpf_map_lookup_elem(&histograms, &place);

	if (h)
		*(volatile u64 *)&h->owner = 0;
}

/*
 * A free histogram: its place plus 1, or NO_HISTOGRAM. Global, as count_duration() is: the verifier then looks at it once
 * and not on every path that leads here, which would be a few hundred thousand instructions more.
 */
__attribute__((noinline)) u32 take_histogram(u64 owner)
{
	u64 hash = mixed(owner) + (owner & 1) * 0x9E3779B97F4A7C15ull;
	u32 first = hash >> (histogram_shift & 63), step = hash | 1, mask = (1u << (64 - (histogram_shift & 63))) - 1;

	for (u32 i = 0; i < HISTOGRAM_WAYS; i++) {
		u32 place = (first + i * step) & mask;
		struct histogram *h = bpf_map_lookup_elem(&histograms, &place);

		if (!h || h->owner || __sync_val_compare_and_swap(&h->owner, 0, owner) != 0)
			continue;
		/* A read that fails, as from address 0, fills with zeros. */
		bpf_probe_read_kernel(h->counts, sizeof(h->counts), 0);
		return place + 1;
	}
	return NO_HISTOGRAM;
}

/* The histogram of a request's reads or writes, taken for it at its first call that is counted there. */
static __attribute__((noinline)) u32 histogram_of(struct file_request *r, u32 writes)
{
	u32 *both, old, number, shift = writes ? 16 : 0;

	if (!r)
		return NO_HISTOGRAM;
	both = (u32 *)r->histograms;
	old = *(volatile u32 *)both;
	if (old >> shift & 0xffff)
		return old >> shift & 0xffff;
	number = take_histogram(r->key | (shift >> 4));
	if (__sync_val_compare_and_swap(both, old, old | number << shift) != old) {
		/* Another thread was faster; what this call took is counted nowhere. */
		if (number != NO_HISTOGRAM)
			free_histogram(number);
		return NO_HISTOGRAM;
	}
	if (number == NO_HISTOGRAM)
		r->flags |= F_NO_HISTOGRAM;
	return number;
}

/* Which bucket a duration belongs to: see HISTOGRAM_BUCKETS. */
static __always_inline u32 bucket_of(u64 duration)
{
	u64 v = duration >> HISTOGRAM_UNIT_SHIFT, x;
	u32 shift;

	if (v > HISTOGRAM_MAX)
		v = HISTOGRAM_MAX;
	x = v >> (HISTOGRAM_SUB_BITS + 1);
	if (!x)
		return v;
	/* One more than the position of the highest bit of x. */
	shift = (x > 0xffff) << 4;
	x >>= shift;
#pragma unroll
	for (u32 bits = 8; bits; bits >>= 1) {
		u32 more = x >> bits ? bits : 0;

		shift += more;
		x >>= more;
	}
	shift++;
	return (shift << HISTOGRAM_SUB_BITS) + (u32)(v >> shift);
}

/*
 * Counts how long a data I/O took that is not one of the first. It counts for itself and for `calls` - 1 before it that
 * were not timed.
 */
__attribute__((noinline)) int count_duration(u32 number, u64 duration, u32 calls, u32 shared)
{
	u32 place = number - 1, bucket = bucket_of(duration), *count;
	struct histogram *h = bpf_map_lookup_elem(&histograms, &place);

	if (!h || bucket >= HISTOGRAM_BUCKETS)
		return 0;
	count = &h->counts[bucket];
	if (likely(*count < HISTOGRAM_FULL))
		ADD(shared, count, calls);
	return 0;
}

#endif
