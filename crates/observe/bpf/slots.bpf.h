/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Part of blkio.bpf.c: where an I/O is kept while it is in flight. See struct slot on who writes and reads what.
 *
 * The slot of an I/O is found by a hash of its request's (or bio's) address. The kernel reuses a request's memory, so
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
	u16 id;
	u16 missed; /* so many that had its slot just before it were not seen to end */
	u8 was_accounted; /* when the slot was taken: the last I/O of the same request was */
	/* A structure is copied whole, and before 6715df8d5d24 ("bpf: Allow reads from uninit
	 * stack", 6.3) no program may read a byte of its stack that it has not written. */
	u8 unused[3];
};

/*
 * The verifier forbids arithmetic on a kernel pointer, but the difference of two pointers is a number. loss_total
 * never moves while the object is loaded, so the difference names the request. Its upper bits are all alike: their room
 * is for the number of the I/O.
 */
static __always_inline u64 key_of(const void *object)
{
	return ((u64)object - (u64)&loss_total) << 16;
}

static __always_inline int is_of(u64 owner, u64 key)
{
	return (owner ^ key) < 1 << 16;
}

/* Fibonacci hashing: requests are at equal distances in memory, which it spreads evenly. */
static __always_inline u32 home_of(u64 key)
{
	return ((key >> 19) * 0x9E3779B97F4A7C15ull) >> (slot_shift & 63);
}

/* The I/O of this key, should it be in flight in slot `at`. */
static __always_inline struct held look_in(u32 at, u32 home, u64 key)
{
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &at);
	struct slot *s = bpf_map_lookup_elem(&slots, &at);
	struct held h = { .at = at, .home = home };
	u64 owner;
	u16 ended;

	if (!e || !s)
		return h;
	/* In this order: another one may take the slot over, and end, in between. */
	ended = *(volatile u32 *)&e->id;
	owner = *(volatile u64 *)&s->owner;
	h.id = owner;
	h.missed = owner - ended - 1;
	if (likely(is_of(owner, key) && h.id != ended))
		h.slot = s;
	return h;
}

/* One more than the slot in which the I/O of this key is in flight away from its home; 0 if there is none. */
static __attribute__((noinline)) u32 find_astray(u32 home, u64 key)
{
	u32 first = home & ~(WAYS - 1u);

	for (u32 i = 0; i < WAYS; i++)
		if (look_in(first + i, home, key).slot)
			return first + i + 1;
	return 0;
}

/*
 * Changes the owner of a slot from `old` to the next I/O, of this key; 0 if another CPU was faster. What happens to one
 * request happens in order, what happens to one slot does not.
 */
static __always_inline int claim(struct slot_note *n, u64 old, u64 key)
{
	u64 new = key | (u16)(old + 1);
#ifndef WITHOUT_FETCH
	return __sync_val_compare_and_swap(&n->owner, old, new) == old;
#else
	int won = 0;

	__sync_fetch_and_add(&n->claims, 1);
	if (*(volatile u32 *)&n->claims == 1 && *(volatile u64 *)&n->owner == old) {
		*(volatile u64 *)&n->owner = new;
		won = 1;
	}
	__sync_fetch_and_add(&n->claims, -1);
	return won;
#endif
}

/* Makes a slot ours if nothing is in flight in it. */
static __always_inline int claim_free(u32 at, u64 key)
{
	struct slot_note *n = bpf_map_lookup_elem(&slot_notes, &at);
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &at);
	u64 owner;

	if (!n || !e)
		return 0;
	owner = *(volatile u64 *)&n->owner;
	return (u16)owner == *(volatile u32 *)&e->id && claim(n, owner, key);
}

/* One more than the slot found for an I/O whose home another one had last; 0 if all are taken. */
static __attribute__((noinline)) u32 take_over(u32 home, u64 key)
{
	u32 first = home & ~(WAYS - 1u), at = find_astray(home, key);
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &home);
	struct slot_note *n;

	if (at) { /* its last end was not shown to us, so the slot still is its own */
		at--;
		n = bpf_map_lookup_elem(&slot_notes, &at);
		if (!n)
			return 0;
		n->owner = key | (u16)(n->owner + 1);
		return at + 1;
	}
	if (claim_free(home, key))
		return home + 1;
	if (!e)
		return 0;
	for (u32 i = 0; i < WAYS; i++) {
		if (first + i != home && claim_free(first + i, key)) {
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
	struct held h = { .at = home, .home = home };
	struct slot *s;
	u64 owner;

	if (!n)
		return h;
	owner = *(volatile u64 *)&n->owner;
	if (unlikely((owner && !is_of(owner, key)) || !claim(n, owner, key))) {
		at = take_over(home, key);
		if (!at)
			return h;
		at--;
		n = bpf_map_lookup_elem(&slot_notes, &at);
		if (!n)
			return h;
	} else {
		h.was_accounted = n->last.is_accounted;
	}
	s = bpf_map_lookup_elem(&slots, &at);
	if (!s)
		return h;
	n->before = n->last;
	n->last.start_ns = now;
	n->last.dev = 0;
	s->issue_ns = 0;
	s->dev = 0;
	s->bytes = 0;
	s->merges = 0;
	*(volatile u64 *)&s->owner = n->owner;
	h.slot = s;
	h.at = at;
	return h;
}

/* The I/O of this key that is in flight. */
static __always_inline struct held find_in_flight(u64 key)
{
	u32 home = home_of(key), at;
	struct held h = look_in(home, home, key);
	struct slot_end *e;

	if (likely(h.slot))
		return h;
	e = bpf_map_lookup_elem(&slot_ends, &home);
	if (!e || !e->strays)
		return h;
	at = find_astray(home, key);
	return at ? look_in(at - 1, home, key) : h;
}

/* The I/O of this key, by what its submitter knows: it need not look at what its completer writes. */
static __always_inline struct held find_taken(u64 key)
{
#ifndef WITHOUT_FETCH
	u32 home = home_of(key), at;
	struct slot_note *n = bpf_map_lookup_elem(&slot_notes, &home);
	struct held h = { .at = home, .home = home };

	if (!n)
		return h;
	if (unlikely(!is_of(n->owner, key))) {
		at = find_astray(home, key);
		return at ? look_in(at - 1, home, key) : h;
	}
	h.slot = bpf_map_lookup_elem(&slots, &home);
	return h;
#else
	/* One that was in another's way for a moment may be without a slot while its home still has its name. */
	return find_in_flight(key);
#endif
}

/* The I/O is over, and its slot free. */
static __always_inline void release(struct held h)
{
	struct slot_end *e = bpf_map_lookup_elem(&slot_ends, &h.at);

	if (!e || !h.slot)
		return;
	*(volatile u32 *)&e->id = h.id;
	if (unlikely(h.at != h.home)) {
		e = bpf_map_lookup_elem(&slot_ends, &h.home);
		if (e)
			__sync_fetch_and_add(&e->strays, -1);
	}
}

/* Notes what its slot says of an I/O, which will be all that is known if its end is not shown to us. */
static __always_inline void note(struct held h)
{
	struct slot_note *n = bpf_map_lookup_elem(&slot_notes, &h.at);

	if (!n || !h.slot)
		return;
	if (h.slot->start_ns)
		n->last.start_ns = h.slot->start_ns;
	n->last.dev = h.slot->dev;
	n->last.bytes = h.slot->bytes;
	n->last.cmd_flags = h.slot->cmd_flags;
	n->last.merges = h.slot->merges;
	n->last.is_accounted = h.slot->is_accounted;
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
