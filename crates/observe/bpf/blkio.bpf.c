// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Every block I/O, from start to completion. What counts as one I/O, and what as a merge, follows the kernel's disk
 * statistics exactly (block/blk-mq.c, block/blk-flush.c): recorded + lost + censored equals /proc/diskstats.
 *
 *   block_io_start     a request begins to be accounted, in its submitter's context: takes a slot
 *   block_rq_issue     it is handed to the driver (again after a requeue: the last one counts)
 *   block_rq_complete  a part of it, or all of it, is done: the last part writes the event and frees the slot
 *   block_rq_merge     it was absorbed by another request: frees the slot
 *
 *   writeback_dirty_folio  a page of a file becomes dirty: notes by whom, for the I/O that will write it (dirtiers.bpf.h)
 *
 * A request in the flush machinery completes its data without being accounted, then once more with no bytes when its
 * sequence of flushes is over. The flush itself, which the block layer makes on its own, has no start.
 */
#include "compat.bpf.h"

enum { REQ_OP_READ = 0, REQ_OP_WRITE = 1, REQ_OP_FLUSH = 2, REQ_OP_DISCARD = 3, REQ_OP_SECURE_ERASE = 5 };
enum { REQ_OP_MASK = 0xff, REQ_OP_DRV_FIRST = 32, REQ_META = 1 << 12 };
enum { CLASS_READ = 0, CLASS_WRITE = 1, CLASS_DISCARD = 2, CLASS_FLUSH = 3 };
enum { MAX_CHAIN = 4096, BDEVFS_MAGIC = 0x62646576 };

/* The kernel has block_io_start (5a80bd075f3b, 6.5). Without it slots are taken at issue. */
const volatile u8 has_io_start = 1;
/* Look up who submitted each I/O. */
const volatile u8 attribution = 1;
/* The cgroup of a bio is one of the hierarchy whose ids user space resolves (io controller on cgroup v2). */
const volatile u8 cgroup_of_bio = 0;
/* Only devices in the map `devices`. */
const volatile u8 filtered = 0;
/* 64 - log2(sets * WAYS) */
const volatile u8 slot_shift = 50;

/* Raised by user space after it has read the losses. */
u64 loss_epoch = 1;
/* All losses and censored I/Os of any kind: tells user space cheaply that there is nothing to read. */
u64 loss_total;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct slot_set);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEVICE_SETS);
	__type(key, u32);
	__type(value, struct device_set);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct loss_key);
	__type(value, struct loss_value);
} losses SEC(".maps");

/*
 * The verifier forbids arithmetic on a kernel pointer, but the difference of two pointers is a number. loss_total
 * never moves while the object is loaded, so the difference names the request.
 */
static __always_inline u64 key_of(const void *object)
{
	return (u64)object - (u64)&loss_total;
}

#include "cpu_rings.bpf.h"
#include "dirtiers.bpf.h"

struct place {
	struct slot_set *set;
	u32 way;
};

/* Fibonacci hashing: requests lie at equal distances in memory, which it spreads evenly. */
static __always_inline struct place place_of(u64 key)
{
	u64 index = ((key >> 3) * 0x9E3779B97F4A7C15ull) >> (slot_shift & 63);
	u32 set = index / WAYS;
	struct place p = { bpf_map_lookup_elem(&slots, &set), index % WAYS };
	return p;
}

static __always_inline struct slot *find(struct place p, u64 key)
{
	struct slot *s = &p.set->slot[p.way];

	if (likely(s->key == key))
		return s;
#pragma unroll
	for (int i = 0; i < WAYS; i++)
		if (p.set->slot[i].key == key)
			return &p.set->slot[i];
	return 0;
}

static __always_inline u32 number_of(struct gendisk *disk)
{
	return disk ? (u32)disk->major << 20 | (u32)disk->first_minor : 0;
}

/* Not a hash map: its two lookups per I/O were about half of what an excluded disk still cost. */
static __always_inline int unwanted(u32 dev)
{
	u32 set = dev * DEVICE_HASH >> DEVICE_SHIFT;
	struct device_set *s;

	if (!filtered)
		return 0;
	s = bpf_map_lookup_elem(&devices, &set);
	if (!s)
		return 1;
#pragma unroll
	for (int i = 0; i < DEVICE_WAYS; i++)
		if (s->dev[i] == dev)
			return 0;
	return 1;
}

static __always_inline u16 class_of(u32 cmd_flags)
{
	u32 op = cmd_flags & REQ_OP_MASK;

	if (op == REQ_OP_FLUSH)
		return CLASS_FLUSH;
	if (op == REQ_OP_DISCARD || op == REQ_OP_SECURE_ERASE)
		return CLASS_DISCARD;
	return op & 1 ? CLASS_WRITE : CLASS_READ;
}

/* Merges as the kernel counts them: every bio of a request but the first came by one. */
static __always_inline u16 merges_of(struct request *rq)
{
	struct bio *bio = rq->bio;
	u16 n = 0;

	if (likely(bio == rq->biotail) || !bio)
		return 0;
	for (int i = 0; i < MAX_CHAIN; i++) {
		bio = bio->bi_next;
		if (!bio)
			break;
		n++;
	}
	return n;
}

/*
 * Something is missing that completed between `from` and now. Not inlined: it runs only when something went wrong.
 */
static __attribute__((noinline)) int count_loss(struct loss_key *key, u64 from, u64 ios, u64 bytes, u64 merges)
{
	static const struct loss_value zero;
	struct loss_value *v;
	u64 now = bpf_ktime_get_ns();

	if (!key)
		return 0;
	v = bpf_map_lookup_elem(&losses, key);
	if (!v) {
		bpf_map_update_elem(&losses, key, &zero, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&losses, key);
		if (!v) { /* the map is full: at least say how many, of an unknown device */
			key->dev = 0;
			v = bpf_map_lookup_elem(&losses, key);
			if (!v)
				return 0;
		}
	}
	if (!from)
		from = now;
	if (v->epoch != loss_epoch || !v->first_ns || v->first_ns > from) {
		v->epoch = loss_epoch;
		v->first_ns = from;
	}
	v->last_ns = now;
	__sync_fetch_and_add(&v->ios, ios);
	__sync_fetch_and_add(&v->bytes, bytes);
	__sync_fetch_and_add(&v->merges, merges);
	__sync_fetch_and_add(&loss_total, 1);
	return 0;
}

/*
 * The slot still holds an I/O although its request or bio begins a new one: its end was not shown to us. The kernel
 * leaves a program out while it is already running on that CPU (05b24ff9b2cf, 6.2), and there are kernels that run
 * none at all in the context of a process they want to hide, be it only interrupted by the completion.
 */
static __attribute__((noinline)) int count_unseen(struct slot *s)
{
	struct loss_key key = {};

	if (!s || !s->dev) /* not issued as far as we saw: it may have been merged or given up as well */
		return 0;
	key.dev = s->dev;
	key.class = class_of(s->cmd_flags);
	key.reason = LOSS_UNSEEN;
	return count_loss(&key, s->issue_ns ? s->issue_ns : s->start_ns, 1, s->bytes, s->merges);
}

/* A free slot for a new I/O; 0 if all are taken, which its completion will find out by `homeless`. */
static __always_inline struct slot *claim(struct place p, u64 key)
{
	struct slot *s = find(p, 0);

	if (unlikely(!s)) {
		__sync_fetch_and_add(&p.set->homeless, 1);
		return 0;
	}
	s->key = key;
	s->issue_ns = 0;
	s->dev = 0;
	s->bytes = 0;
	s->merges = 0;
	return s;
}

/* The same where an I/O is seen to begin: one that still has a slot under this key never was seen to end. */
static __always_inline struct slot *open_slot(u64 key)
{
	struct place p = place_of(key);
	struct slot *s;

	if (!p.set)
		return 0;
	s = find(p, key);
	if (unlikely(s)) {
		count_unseen(s);
		s->key = 0;
	}
	return claim(p, key);
}

/* What an I/O is when it is handed to the driver: it has been merged with all it will be. */
static __always_inline void describe(struct slot *s, struct request *rq)
{
	s->dev = number_of(disk_of_request(rq));
	s->sector = rq->__sector;
	s->bytes = rq->__data_len;
	s->merges = merges_of(rq);
}

/*
 * A file or the disk's own metadata: the page cache knows. See docs/tracing.md, "Who did it". `dirty_inode` becomes the
 * inode whose pages are written back.
 */
static __always_inline u8 look_at_page(struct slot *s, struct bio *bio, u32 cmd_flags, void **dirty_inode,
				       unsigned long *ino)
{
	u8 cached = (cmd_flags & REQ_OP_MASK) == REQ_OP_WRITE ? ORIGIN_WRITEBACK : ORIGIN_DIRECT;
	void *page = 0, *mapping = 0, *inode = 0, *sb = 0;
	unsigned long head = 0, magic = 0;
	u32 dev = 0;

	if (!bio->bi_io_vec)
		return ORIGIN_UNKNOWN;
	bpf_probe_read_kernel(&page, 8, &bio->bi_io_vec->bv_page);
	if (field_exists(((struct page *)0)->compound_head))
		bpf_probe_read_kernel(&head, 8, page + field_offset(((struct page *)0)->compound_head));
	if (head & 1)
		page = (void *)(head - 1);
	bpf_probe_read_kernel(&mapping, 8, page + mapping_offset());
	if ((u64)mapping & 3) /* anonymous memory: swap, or direct I/O on kernels that do not mark pinned pages */
		return marks_pinned_pages ? cached : ORIGIN_DIRECT;
	if (!mapping) /* the kernel's own memory */
		return ORIGIN_UNKNOWN;
	bpf_probe_read_kernel(&inode, 8, mapping + field_offset(((struct address_space *)0)->host));
	if (!inode)
		return ORIGIN_UNKNOWN;
	bpf_probe_read_kernel(ino, 8, inode + field_offset(((struct inode *)0)->i_ino));
	if (cached == ORIGIN_WRITEBACK)
		*dirty_inode = inode;
	bpf_probe_read_kernel(&sb, 8, inode + field_offset(((struct inode *)0)->i_sb));
	bpf_probe_read_kernel(&magic, 8, sb + field_offset(((struct super_block *)0)->s_magic));
	if (magic == BDEVFS_MAGIC) { /* the device's own page cache: of a file system if one has claimed it */
		bpf_probe_read_kernel(&dev, 4, inode + field_offset(((struct inode *)0)->i_rdev));
		s->fs_dev = dev;
		s->bits |= BIT_FS_DEV;
		if (field_exists(((struct bio *)0)->bi_bdev) && !bio->bi_bdev->bd_holder)
			return cached;
		return ORIGIN_METADATA;
	}
	bpf_probe_read_kernel(&dev, 4, sb + field_offset(((struct super_block *)0)->s_dev));
	s->ino = *ino;
	s->fs_dev = dev;
	s->bits |= BIT_INO | BIT_FS_DEV;
	return cached;
}

/* The cgroup that a bio is charged to; 0 where that is not known, or is none of those whose ids user space resolves. */
static __always_inline u64 cgroup_of(struct bio *bio)
{
	struct blkcg_gq *group;

	if (!cgroup_of_bio || !field_exists(((struct bio *)0)->bi_blkg))
		return 0;
	group = bio->bi_blkg;
	return group ? group->blkcg->css.cgroup->kn->id : 0;
}

/* Who is behind this, and for which file; in the submitter's context. */
static __always_inline void attribute(struct slot *s, struct bio *bio, u32 cmd_flags)
{
	u8 origin = ORIGIN_UNKNOWN;
	unsigned long ino = 0;
	void *dirty_inode = 0;

	if (bio) {
		s->cgroup = cgroup_of(bio);
		if (cmd_flags & REQ_META)
			origin = ORIGIN_METADATA;
		else if (pages_are_pinned(bio))
			origin = ORIGIN_DIRECT;
		else if ((cmd_flags & REQ_OP_MASK) <= REQ_OP_WRITE && bio->bi_iter.bi_size)
			origin = look_at_page(s, bio, cmd_flags, &dirty_inode, &ino);
	}
	s->bits |= origin << ORIGIN_SHIFT;
	if (origin == ORIGIN_WRITEBACK && dirty_inode) {
		name_dirtier(s, dirty_inode, ino);
		return;
	}
	s->bits |= BIT_WHO;
	s->tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	if (!s->cgroup)
		s->cgroup = bpf_get_current_cgroup_id();
}

static __always_inline void begin(struct slot *s, u64 start_ns, u32 cmd_flags)
{
	s->start_ns = start_ns;
	s->cmd_flags = cmd_flags;
	s->cgroup = 0;
	s->bits = start_ns ? BIT_START : 0;
}

SEC("tp_btf/block_io_start")
int io_start(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	u32 cmd_flags = rq->cmd_flags;
	struct slot *s;

	if ((cmd_flags & REQ_OP_MASK) >= REQ_OP_DRV_FIRST)
		return 0;
	if (filtered && unwanted(number_of(disk_of_request(rq))))
		return 0;
	s = open_slot(key_of(rq));
	if (!s)
		return 0;
	begin(s, bpf_ktime_get_ns(), cmd_flags);
	if (unlikely(!rq->__data_len)) /* an empty flush: nothing will be merged with it, and it will not be issued */
		s->dev = number_of(disk_of_request(rq));
	if (attribution)
		attribute(s, rq->bio, cmd_flags);
	else
		s->bits |= ORIGIN_UNKNOWN << ORIGIN_SHIFT;
	return 0;
}

/* A request of which no start was seen because there is none to see: the block layer's own flush, or an old kernel. */
static __always_inline struct slot *begin_at_issue(struct place p, u64 key, struct request *rq, u64 now)
{
	u32 cmd_flags = rq->cmd_flags, op = cmd_flags & REQ_OP_MASK;
	u64 start = rq->start_time_ns;
	struct slot *s;

	if ((has_io_start && op != REQ_OP_FLUSH) || op >= REQ_OP_DRV_FIRST)
		return 0;
	if (filtered && unwanted(number_of(disk_of_request(rq))))
		return 0;
	if (start > now || (op != REQ_OP_FLUSH && !is_accounted(rq)))
		start = 0; /* left over from the request's last life */
	s = claim(p, key);
	if (!s)
		return 0;
	begin(s, start, cmd_flags);
	if (attribution && op != REQ_OP_FLUSH)
		attribute(s, rq->bio, cmd_flags);
	else
		s->bits |= ORIGIN_UNKNOWN << ORIGIN_SHIFT;
	return s;
}

/*
 * Issued again: a requeued request, or a new one in the place of one whose end was not shown? Where a start is seen it
 * has told already; elsewhere the kernel's start time does, which a requeued request keeps.
 */
static __always_inline int begins_anew(struct slot *s, struct request *rq)
{
	if (has_io_start && (rq->cmd_flags & REQ_OP_MASK) != REQ_OP_FLUSH)
		return 0;
	return s->start_ns && rq->start_time_ns != s->start_ns;
}

SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *ctx)
{
	struct request *rq = REQUEST_OR_BIO(ctx);
	u64 key = key_of(rq);
	struct place p = place_of(key);
	u64 now = bpf_ktime_get_ns();
	struct slot *s;

	if (!p.set)
		return 0;
	s = find(p, key);
	if (unlikely(s && s->issue_ns)) {
		if (!begins_anew(s, rq)) {
			s->issue_ns = now; /* requeued */
			return 0;
		}
		count_unseen(s);
		s->key = 0;
		s = 0;
	}
	if (unlikely(!s))
		s = begin_at_issue(p, key, rq, now);
	if (s) {
		describe(s, rq);
		s->issue_ns = now;
	}
	return 0;
}

SEC("tp_btf/block_rq_merge")
int rq_merge(u64 *ctx)
{
	u64 key = key_of(REQUEST_OR_BIO(ctx));
	struct place p = place_of(key);
	struct slot *s;

	if (!p.set)
		return 0;
	s = find(p, key);
	if (s)
		s->key = 0;
	else if (p.set->homeless)
		__sync_fetch_and_add(&p.set->homeless, -1);
	return 0;
}

/* Writes the event of an I/O that is over and frees its slot. */
static __always_inline void finish(struct slot *s, struct loss_key *key, u32 error, u8 bits)
{
	struct seat seat = take_seat();
	struct io_event *e = seat.event;
	u64 now;

	if (unlikely(!e)) {
		key->reason = LOSS_RING_FULL;
		count_loss(key, 0, 1, s->bytes, s->merges);
		s->key = 0;
		return;
	}
	now = bpf_ktime_get_ns();
	e->done_ns = now;
	if (likely(s->issue_ns)) {
		e->queue_ns = s->issue_ns - s->start_ns;
		e->device_ns = now - s->issue_ns;
	} else if (!s->bytes) { /* an empty flush never reaches the driver */
		e->queue_ns = now - s->start_ns;
		e->device_ns = 0;
	} else { /* the kernel did not show its issue */
		bits &= ~BIT_START;
		e->queue_ns = 0;
		e->device_ns = now - s->start_ns;
	}
	e->sector = s->sector;
	e->cgroup = s->cgroup;
	e->ino = s->ino;
	__builtin_memcpy(e->comm, s->comm, sizeof(e->comm));
	e->dev = key->dev;
	e->bytes = s->bytes;
	e->cmd_flags = s->cmd_flags;
	e->tgid = s->tgid;
	e->fs_dev = s->fs_dev;
	e->merges = s->merges;
	e->error = error;
	e->bits = bits;
	s->key = 0;
	publish(seat);
}

/*
 * Without block_io_start, a write that carries a flush and no data is seen only when it is over: its start then is
 * the kernel's own, and it never was at the driver.
 */
static __always_inline void finish_empty_flush(struct request *rq, struct loss_key *key, u32 error)
{
	struct slot s = {};
	u64 now = bpf_ktime_get_ns();

	begin(&s, is_accounted(rq) && rq->start_time_ns <= now ? rq->start_time_ns : 0, rq->cmd_flags);
	s.sector = rq->__sector;
	s.bits |= ORIGIN_UNKNOWN << ORIGIN_SHIFT;
	finish(&s, key, error, s.bits);
}

/* A completion without a slot: clashed when it started, or in flight when the tracer was attached. */
static __attribute__((noinline)) int complete_unknown(struct slot_set *set, struct loss_key *key, u32 bytes, u32 merges,
						      u32 is_last)
{
	if (!set || !key)
		return 0;
	key->reason = set->homeless ? LOSS_SLOT_CLASH : LOSS_CENSORED;
	if (is_last && set->homeless)
		__sync_fetch_and_add(&set->homeless, -1);
	return count_loss(key, 0, is_last, bytes, merges);
}

/* The tracepoint passes a blk_status_t; until 8a7d267b4a2c (5.16) it was a negative errno. */
static __always_inline u32 error_number(s32 error)
{
	return error < 0 ? -error : error;
}

/* The data of a request that still needs a flush; the flush itself carries the same mark, but is over when done. */
static __always_inline int is_data_of_flush_sequence(struct request *rq)
{
	return unlikely(in_flush_sequence(rq)) && (rq->cmd_flags & REQ_OP_MASK) != REQ_OP_FLUSH;
}

SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	s32 error = ctx[1];
	u32 bytes = ctx[2];
	u64 key = key_of(rq);
	struct place p = place_of(key);
	struct loss_key who = {};
	int is_last;
	struct slot *s;

	if (!p.set)
		return 0;
	is_last = bytes >= rq->__data_len && !is_data_of_flush_sequence(rq);
	s = find(p, key);
	if (unlikely(!s)) {
		u32 cmd_flags = rq->cmd_flags, op = cmd_flags & REQ_OP_MASK;

		who.dev = number_of(disk_of_request(rq));
		if (op >= REQ_OP_DRV_FIRST || unwanted(who.dev))
			return 0;
		who.class = class_of(cmd_flags);
		if (!has_io_start && is_last && !bytes && op == REQ_OP_WRITE && !rq->__data_len)
			finish_empty_flush(rq, &who, error_number(error));
		else
			complete_unknown(p.set, &who, bytes, is_last ? merges_of(rq) : 0, is_last);
		return 0;
	}
	if (unlikely(!s->issue_ns)) {
		u32 sum = s->bytes + bytes;

		if (!s->bytes)
			describe(s, rq);
		s->bytes = sum;
	}
	if (!is_last)
		return 0;
	who.dev = s->dev;
	who.class = class_of(s->cmd_flags);
	finish(s, &who, error_number(error), error < 0 ? s->bits | BIT_ERRNO : s->bits);
	return 0;
}

/* Bio-based devices have no requests: an I/O is a bio from being queued to its end. */
SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *ctx)
{
	struct bio *bio = REQUEST_OR_BIO(ctx);
	struct gendisk *disk = disk_of_bio(bio);
	u32 cmd_flags, dev;
	struct slot *s;

	if (disk->queue->mq_ops)
		return 0;
	dev = number_of(disk);
	if (unwanted(dev))
		return 0;
	s = open_slot(key_of(bio));
	if (!s)
		return 0;
	cmd_flags = bio->bi_opf;
	begin(s, bpf_ktime_get_ns(), cmd_flags);
	s->bits = BIT_BIO;
	s->issue_ns = s->start_ns;
	s->dev = dev;
	s->sector = bio->bi_iter.bi_sector + partition_start(bio);
	s->bytes = bio->bi_iter.bi_size;
	if (attribution)
		attribute(s, bio, cmd_flags);
	else
		s->bits |= ORIGIN_UNKNOWN << ORIGIN_SHIFT;
	return 0;
}

SEC("tp_btf/block_bio_complete")
int bio_complete(u64 *ctx)
{
	struct bio *bio = (void *)ctx[1];
	u64 key = key_of(bio);
	struct place p = place_of(key);
	struct loss_key who = {};
	struct slot *s;

	if (!p.set)
		return 0;
	s = find(p, key);
	if (likely(s)) {
		who.dev = s->dev;
		who.class = class_of(s->cmd_flags);
		finish(s, &who, bio->bi_status, s->bits);
		return 0;
	}
	/* Of a request-based disk, or a piece split off a bio, which ends on its own but never was queued. */
	struct gendisk *disk = disk_of_bio(bio);

	if (!disk || disk->queue->mq_ops || is_clone(bio))
		return 0;
	who.dev = number_of(disk);
	if (unwanted(who.dev))
		return 0;
	who.class = class_of(bio->bi_opf);
	/* The bio's size is used up by now: how many bytes it moved is not known. */
	complete_unknown(p.set, &who, 0, 0, 1);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
