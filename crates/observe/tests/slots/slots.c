/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The BPF programs's table of slots (bpf/slots.bpf.h), compiled for user space and played through at random, by some threads
 * at once: requests that start, are issued and complete, each step on any thread, and some whose end is not shown. Exits
 * with 1 at the first broken promise.
 *
 *   slots SEED STEPS HIDDEN THREADS     HIDDEN of 1000 ends are not shown
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "event.h"

#define SEC(name)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
enum { BPF_MAP_TYPE_ARRAY = 2, BPF_F_MMAPABLE = 1 << 10 };

enum { SLOTS = 64, REQUESTS = 200 };
#define SLOT_SHIFT 58
static u64 loss_total;
static void *bpf_map_lookup_elem(void *map, const void *key);
#include "slots.bpf.h"

static struct slot table[SLOTS];
static struct slot_note table_notes[SLOTS];
static struct slot_end table_ends[SLOTS];

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	u32 at = *(const u32 *)key;

	if (at >= SLOTS)
		return 0;
	if (map == (void *)&slots)
		return &table[at];
	return map == (void *)&slot_notes ? (void *)&table_notes[at] : (void *)&table_ends[at];
}

#define PROMISE(what)                                                                                                  \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			printf("step %d: not so: %s\n", step, #what);                                                  \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum state { IDLE, FLYING, HOMELESS };

/* Of the same size and distance as in the kernel. */
static char memory[REQUESTS][384] __attribute__((aligned(64)));
/* What happens to one request happens in order: the thread that acts on it holds it. */
static struct request {
	char is_held;
	enum state state;
	u32 at;
	int is_accounted; /* the last of its I/Os that had a slot */
} requests[REQUESTS];
/* Owner of a slot, one more than the request's number; 0: free. */
static u32 holders[SLOTS];
static u64 taken, ended, missed, homeless, remembered;
static int busy, steps, hidden;

static void start(struct request *r, u32 me, u64 key, int step)
{
	struct held h = take_slot(key, step + 1);
	u32 before;

	__sync_fetch_and_add(&busy, 1);
	r->state = h.slot ? FLYING : HOMELESS;
	if (!h.slot) {
		__sync_fetch_and_add(&homeless, 1);
		PROMISE(!find_in_flight(key).slot);
		return;
	}
	__sync_fetch_and_add(&taken, 1);
	r->at = h.at;
	before = __atomic_exchange_n(&holders[h.at], me, __ATOMIC_SEQ_CST);
	PROMISE(!before || (hidden && before == me));
	PROMISE(is_of(h.slot->owner, key) && !h.slot->issue_ns && !h.slot->dev);
	PROMISE(!h.was_accounted || r->is_accounted);
	__sync_fetch_and_add(&remembered, h.was_accounted);
	r->is_accounted = step % 3 > 0;
	h.slot->start_ns = step;
	h = find_taken(key);
	PROMISE(h.slot && h.at == r->at);
	h.slot->issue_ns = step;
	h.slot->dev = me;
	h.slot->is_accounted = r->is_accounted;
	note(h);
}

static void complete(struct request *r, u32 me, u64 key, int step, int is_hidden)
{
	struct held h;

	__sync_fetch_and_add(&busy, -1);
	if (r->state == HOMELESS) {
		PROMISE(!find_in_flight(key).slot);
		PROMISE(was_homeless(key, 1));
	} else if (!is_hidden) {
		h = find_in_flight(key);
		PROMISE(h.slot && h.at == r->at && h.slot->dev == me && holders[h.at] == me);
		PROMISE(h.missed < 1000 && (!h.missed || (hidden && table_notes[h.at].before.dev == me)));
		holders[h.at] = 0;
		release(h);
		__sync_fetch_and_add(&missed, h.missed);
		__sync_fetch_and_add(&ended, 1);
		PROMISE(!find_in_flight(key).slot);
	} /* else the request is free again, and we have not seen why */
	r->state = IDLE;
}

static void *play(void *seed)
{
	unsigned chance = (unsigned long)seed;

	for (int step = 0; step < steps; step++) {
		/* The number in flight goes up and down, from none to more than there are slots. */
		int i = rand_r(&chance) % REQUESTS, target = 90 * (step % 5000) / 5000;
		int is_hidden = rand_r(&chance) % 1000 < hidden;
		struct request *r = &requests[i];

		if (__atomic_test_and_set(&r->is_held, __ATOMIC_ACQUIRE))
			continue;
		if (r->state == IDLE && busy < target)
			start(r, i + 1, key_of(memory[i]), step);
		else if (r->state != IDLE && busy >= target)
			complete(r, i + 1, key_of(memory[i]), step, is_hidden);
		__atomic_clear(&r->is_held, __ATOMIC_RELEASE);
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long seed = argc > 1 ? atoi(argv[1]) : 1;
	int threads = argc > 4 ? atoi(argv[4]) : 1, step = steps = argc > 2 ? atoi(argv[2]) : 100000;
	u64 left = 0, strays = 0, astray = 0;
	pthread_t thread[16];

	hidden = argc > 3 ? atoi(argv[3]) : 0;
	for (int i = 0; i < threads && i < 16; i++)
		PROMISE(!pthread_create(&thread[i], 0, play, (void *)(seed * 16 + i)));
	for (int i = 0; i < threads && i < 16; i++)
		pthread_join(thread[i], 0);
	for (int at = 0; at < SLOTS; at++) {
		left += (u16)(table[at].owner - table_ends[at].id);
		strays += table_ends[at].strays;
	}
	for (int i = 0; i < REQUESTS; i++)
		astray += requests[i].state == FLYING && requests[i].at != home_of(key_of(memory[i]));
	PROMISE(taken == ended + missed + left);
	PROMISE(hidden ? strays >= astray : strays == astray);
	PROMISE(steps < 100000 || remembered > taken / 100);
	printf("taken %llu, ended %llu, missed %llu, left %llu, homeless %llu\n", taken, ended, missed, left, homeless);
	return 0;
}
