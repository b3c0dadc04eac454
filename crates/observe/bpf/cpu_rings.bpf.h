/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Part of blkio.bpf.c: the way of events to user space, a ring for each CPU in memory that both sides see.
 *
 * Not a BPF ring buffer: that one is shared by all CPUs behind a lock, and its two atomic operations wait for cache lines
 * that the reader has just looked at (some 50 ns for each event, more with every CPU). Here a program takes an entry in the
 * ring of the CPU it runs on, reads the clock, writes the event, and last of all the entry's number into it, which makes
 * it the reader's. The reader gives entries back by its tail.
 */

/* log2 of the entries of each CPU's ring. */
const volatile u8 entry_shift = 10;
/* The processor makes its stores visible in their order. */
const volatile u8 stores_in_order = 1;

/* Programs may interrupt each other between looking for room and taking it; no more than this many at once. */
enum { SPARE_ENTRIES = 8 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct io_event);
} entries SEC(".maps");

/* Carries nothing but the wake-up of a reader that sleeps until the next event. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakes SEC(".maps");

struct entry {
	struct io_event *event; /* 0: there is none */
	struct cpu_ring *ring;
	u64 number;
};

/* To be called before the clock is read: then no event older than a drain can turn up after it (order.rs). */
static __always_inline struct entry reserve_entry(void)
{
	struct entry entry = {};
	u32 cpu = bpf_get_smp_processor_id(), at;
	struct cpu_ring *ring = bpf_map_lookup_elem(&rings, &cpu);

	if (!ring || ring->head - *(volatile u64 *)&ring->tail + SPARE_ENTRIES >= 1ull << (entry_shift & 63))
		return entry;
#ifndef WITHOUT_FETCH
	entry.number = __sync_fetch_and_add(&ring->head, 1);
#else
	/* One who interrupts another here is over before that one goes on; it finds the ring busy. */
	if (*(volatile u64 *)&ring->busy)
		return entry;
	*(volatile u64 *)&ring->busy = 1;
	entry.number = ring->head;
	*(volatile u64 *)&ring->head = entry.number + 1;
#endif
	at = (cpu << (entry_shift & 31)) + (entry.number & ((1ull << (entry_shift & 63)) - 1));
	entry.ring = ring;
	entry.event = bpf_map_lookup_elem(&entries, &at);
	return entry;
}

/* Gives the event to the reader. */
static __always_inline void publish(struct entry entry)
{
#ifndef WITHOUT_FETCH
	if (!stores_in_order)
		__sync_lock_test_and_set(&entry.event->entry, entry.number + 1);
	else
#endif
	{
		__asm__ volatile("" ::: "memory");
		*(volatile u64 *)&entry.event->entry = entry.number + 1;
	}
#ifdef WITHOUT_FETCH
	*(volatile u64 *)&entry.ring->busy = 0;
#endif
	if (unlikely(*(volatile u64 *)&entry.ring->awaited)) {
		entry.ring->awaited = 0;
		bpf_ringbuf_output(&wakes, &entry.number, sizeof(entry.number), BPF_RB_FORCE_WAKEUP);
	}
}
