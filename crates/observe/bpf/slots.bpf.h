/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Part of blkio.bpf.c: where an I/O is kept while it is in flight. See struct slot on who writes and reads what.
 *
 * The slot of an I/O is found by a hash of its request's (or bio's) address. A request lies where it lay the last time, so
 * a slot goes on belonging to the request that had it; another one takes it over only after its end.
 */

#ifndef SLOT_SHIFT
#define SLOT_SHIFT 50
#endif
/* 64 - log2(slots) */
const volatile u8 slot_shift = SLOT_SHIFT;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page, so that cache lines are whole */
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct slot_note);
} slot_notes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct slot_end);
} slot_ends SEC(".maps");

/* An I/O in its slot; slot is 0 if there is none. */
struct held {
	struct slot *slot;
	u32 at;
	u32 home;
};

/*
 * The verifier forbids arithmetic on a kernel pointer, but the difference of two pointers is a number. loss_total
 * never moves while the object is loaded, so the difference names the request.
 */
static __always_inline u64 key_of(const void *object)
{
	return (u64)object - (u64)&loss_total;
}

/* Fibonacci hashing: requests lie at equal distances in memory, which it spreads evenly. */
static __always_inline u32 home_of(u64 key)
{
	return ((key >> 3) * 0x9E3779B97F4A7C15ull) >> (slot_shift & 63);
}

static __always_inline int is_in_flight(u32 at, u64 key)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &at);
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &at);

	return s && e && s->key && (!key || s->key == key) && e->id != s->id;
}

/* One more than the slot in which the I/O of this key is in flight away from its home; 0 if there is none. */
static __attribute__((noinline)) u32 find_astray(u32 home, u64 key)
{
	u32 first = home & ~(WAYS - 1u);

	for (u32 i = 0; i < WAYS; i++)
		if (is_in_flight(first + i, key))
			return first + i + 1;
	return 0;
}

/* One more than a slot for an I/O whose home another one had last; 0 if all are taken. */
static __attribute__((noinline)) u32 find_free(u32 home, u64 key)
{
	u32 first = home & ~(WAYS - 1u), at = find_astray(home, key);
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &home);

	if (at) /* its last end was not shown to us */
		return at;
	if (!is_in_flight(home, 0))
		return home + 1;
	if (!e)
		return 0;
	for (u32 i = 0; i < WAYS; i++) {
		if (!is_in_flight(first + i, 0)) {
			__sync_fetch_and_add(&e->strays, 1);
			return first + i + 1;
		}
	}
	__sync_fetch_and_add(&e->homeless, 1);
	return 0;
}

/*
 * A slot for a new I/O; none if all are taken, which its completion will find out by `homeless`. That the request's last
 * I/O was not seen to end shows when this one does: an id is missing between them.
 */
static __always_inline struct held take_slot(u64 key, u64 now)
{
	u32 home = home_of(key), at = home;
	struct slot_note *n = bpf_map_lookup_elem(&slot_notes, &at);
	struct held h = { 0, home, home };
	struct slot *s;

	if (!n)
		return h;
	if (unlikely(n->key != key && n->key)) {
		at = find_free(home, key);
		if (!at)
			return h;
		at--;
		n = bpf_map_lookup_elem(&slot_notes, &at);
		if (!n)
			return h;
	}
	s = bpf_map_lookup_elem(&slots, &at);
	if (!s)
		return h;
	n->before = n->last;
	/* Two CPUs that take one slot over at once may skip an id too; theirs are counted as without a slot. */
	n->last.own = n->key == key || !n->key;
	n->last.start_ns = now;
	n->last.dev = 0;
	n->key = key;
	n->id++;
	s->key = key;
	s->id = n->id;
	s->issue_ns = 0;
	s->dev = 0;
	s->bytes = 0;
	s->merges = 0;
	h.slot = s;
	h.at = at;
	return h;
}

static __always_inline struct held held_astray(u32 home, u64 key)
{
	u32 at = find_astray(home, key);
	struct held h = { 0, at - 1, home };

	if (at)
		h.slot = bpf_map_lookup_elem(&slots, &h.at);
	return h;
}

/* The I/O of this key, by what its submitter knows: it has not looked whether it is over. */
static __always_inline struct held find_taken(u64 key)
{
	u32 home = home_of(key);
	struct slot_note *n = bpf_map_lookup_elem(&slot_notes, &home);
	struct held h = { 0, home, home };

	if (!n)
		return h;
	if (unlikely(n->key != key))
		return held_astray(home, key);
	h.slot = bpf_map_lookup_elem(&slots, &home);
	return h;
}

/* The I/O of this key that is in flight. */
static __always_inline struct held find_in_flight(u64 key)
{
	u32 home = home_of(key);
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &home);
	struct slot *s = bpf_map_lookup_elem(&slots, &home);
	struct held h = { 0, home, home };

	if (!e || !s)
		return h;
	if (likely(s->key == key && s->id != e->id))
		h.slot = s;
	else if (unlikely(e->strays))
		return held_astray(home, key);
	return h;
}

/* The I/O is over. Returns how many that had its slot just before it were not seen to end. */
static __always_inline u64 release(struct held h)
{
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &h.at);
	u64 missed;

	if (!e || !h.slot)
		return 0;
	missed = h.slot->id - e->id - 1;
	e->id = h.slot->id;
	if (unlikely(h.at != h.home)) {
		e = bpf_map_lookup_elem(&slot_ends, &h.home);
		if (e)
			__sync_fetch_and_add(&e->strays, -1);
	}
	return missed;
}

/* Notes what its slot says of an I/O, which will be all that is known if its end is not shown to us. */
static __always_inline void note(struct held h)
{
	struct slot_note *n = bpf_map_lookup_elem(&slot_notes, &h.at);

	if (!n || !h.slot)
		return;
	n->last.dev = h.slot->dev;
	n->last.bytes = h.slot->bytes;
	n->last.cmd_flags = h.slot->cmd_flags;
	n->last.merges = h.slot->merges;
}

/* An I/O without a slot is over: was it one of those that found none? */
static __always_inline int was_homeless(u64 key, int is_over)
{
	u32 home = home_of(key);
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &home);

	if (!e || !e->homeless)
		return 0;
	if (is_over)
		__sync_fetch_and_add(&e->homeless, -1);
	return 1;
}
