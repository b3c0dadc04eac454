/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The kernel half's table of slots (bpf/slots.bpf.h), compiled for user space and played through at random: requests that
 * start, are issued and complete, and some whose end is not shown. Exits with 1 at the first broken promise.
 *
 *   slots SEED STEPS HIDDEN     HIDDEN of 1000 ends are not shown
 */
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

int main(int argc, char **argv)
{
	/* Of the same size and distance as in the kernel. */
	static char requests[REQUESTS][384] __attribute__((aligned(64)));
	static enum state state[REQUESTS];
	static u32 slot_of[REQUESTS];
	u64 taken = 0, ended = 0, missed = 0, homeless = 0, left = 0, strays = 0;
	int step, steps = argc > 2 ? atoi(argv[2]) : 100000, hidden = argc > 3 ? atoi(argv[3]) : 0;
	int busy = 0;

	srand(argc > 1 ? atoi(argv[1]) : 1);
	for (step = 0; step < steps; step++) {
		/* The number in flight goes up and down, from none to more than there are slots. */
		int i = rand() % REQUESTS, wanted = 90 * (step % 5000) / 5000;
		u64 key = key_of(requests[i]);
		struct held h;

		if (state[i] == IDLE && busy < wanted) {
			h = take_slot(key, step + 1);
			busy++;
			state[i] = h.slot ? FLYING : HOMELESS;
			if (!h.slot) {
				homeless++;
				PROMISE(!find_in_flight(key).slot);
				continue;
			}
			taken++;
			slot_of[i] = h.at;
			for (int j = 0; j < REQUESTS; j++)
				PROMISE(j == i || state[j] != FLYING || slot_of[j] != h.at);
			PROMISE(h.slot->key == key && !h.slot->issue_ns && !h.slot->dev);
			h.slot->start_ns = step;
			h = find_taken(key);
			PROMISE(h.slot && h.at == slot_of[i]);
			h.slot->issue_ns = step;
			h.slot->dev = i + 1;
			note(h);
		} else if (state[i] == FLYING && busy >= wanted) {
			busy--;
			state[i] = IDLE;
			if (rand() % 1000 < hidden)
				continue; /* the request is free again, and we have not seen why */
			h = find_in_flight(key);
			PROMISE(h.slot && h.at == slot_of[i] && h.slot->dev == (u32)i + 1);
			u64 before = release(h);
			PROMISE(hidden || !before);
			PROMISE(before < 1000 && (!before || table_notes[h.at].before.dev));
			missed += before;
			ended++;
			PROMISE(!find_in_flight(key).slot);
		} else if (state[i] == HOMELESS && busy >= wanted) {
			busy--;
			state[i] = IDLE;
			PROMISE(!find_in_flight(key).slot);
			PROMISE(was_homeless(key, 1));
		}
	}
	for (int at = 0; at < SLOTS; at++) {
		left += table[at].id - table_ends[at].id;
		strays += table_ends[at].strays;
	}
	u64 astray = 0;
	for (int i = 0; i < REQUESTS; i++)
		astray += state[i] == FLYING && slot_of[i] != home_of(key_of(requests[i]));
	PROMISE(taken == ended + missed + left);
	PROMISE(hidden ? strays >= astray : strays == astray);
	printf("taken %llu, ended %llu, missed %llu, left %llu, homeless %llu\n", taken, ended, missed, left, homeless);
	return 0;
}
