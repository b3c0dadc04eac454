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
 *   block_bio_queue    without block_io_start: notes who submits what needs a flush (askers.bpf.h)
 *   ext4_sync_file_enter, ext4_sync_file_exit  a process waits in fsync: notes whom a journal's commit is for
 *
 *   writeback_dirty_folio  a page of a file becomes dirty: notes by whom, for the I/O that will write it (dirtiers.bpf.h)
 *
 *   wbt_timer  write-back is throttled before there is any request of it (throttled.bpf.h)
 *
 * A request in the flush machinery completes its data without being accounted, then once more with no bytes when its
 * sequence of flushes is over. The flush itself, which the block layer makes on its own, has no start.
 */
#include "compat.bpf.h"

enum { REQ_OP_READ = 0, REQ_OP_WRITE = 1, REQ_OP_FLUSH = 2, REQ_OP_DISCARD = 3 };
enum { REQ_OP_MASK = 0xff, REQ_OP_DRV_FIRST = 32, REQ_META = 1 << 12, REQ_RAHEAD = 1 << 19 };
enum { CLASS_READ = 0, CLASS_WRITE = 1, CLASS_DISCARD = 2, CLASS_FLUSH = 3 };
enum { MAX_CHAIN = 4096, BDEVFS_MAGIC = 0x62646576, F2FS_MAGIC = 0xf2f52010, F2FS_ROOT_INO = 3 };
enum { TMPFS_MAGIC = 0x01021994, HUGETLBFS_MAGIC = 0x958458f6 };

/* The kernel has block_io_start (5a80bd075f3b, 6.5). Without it slots are taken at issue. */
const volatile u8 has_io_start = 1;
/* Look up the submitter of each I/O. */
const volatile u8 attribution = 1;
/* The cgroup of a bio is one of the hierarchy whose ids user space resolves (io controller on cgroup v2). */
const volatile u8 cgroup_of_bio = 0;
/* Only devices in the map `devices`. */
const volatile u8 filtered = 0;
/* Raised by user space after it has read the losses. */
u64 loss_epoch = 1;
/* All losses and censored I/Os of any kind: while it is unchanged user space reads nothing else. */
u64 loss_total;

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

/* Disks that the kernel shows without their numbers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct disk_name);
} disk_names SEC(".maps");

#include "cpu_rings.bpf.h"
#include "slots.bpf.h"
#include "dirtiers.bpf.h"

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
	if (op == REQ_OP_DISCARD)
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

/* When something completed that is missing; 0: now. */
struct loss_span {
	u64 from;
	u64 to;
};

/* Something is missing that completed in this time, or just now. Not inlined: it runs only when something went wrong. */
static __attribute__((noinline)) int count_loss(struct loss_key *key, struct loss_span *when, u64 ios, u64 bytes, u64 merges)
{
	static const struct loss_value zero;
	struct loss_value *v;
	u64 now = bpf_ktime_get_ns(), from = now, to = now;

	if (!key)
		return 0;
	if (when && when->from)
		from = when->from;
	if (when && when->to)
		to = when->to;
	if (from > to)
		from = to;
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
	if (v->epoch != loss_epoch || !v->first_ns) {
		v->epoch = loss_epoch;
		v->first_ns = from;
		v->last_ns = to;
	}
	if (v->first_ns > from)
		v->first_ns = from;
	if (v->last_ns < to)
		v->last_ns = to;
	__sync_fetch_and_add(&v->ios, ios);
	__sync_fetch_and_add(&v->bytes, bytes);
	__sync_fetch_and_add(&v->merges, merges);
	__sync_fetch_and_add(&loss_total, 1);
	return 0;
}

/*
 * The I/O that had slot `at` before the present one never was seen to end (`missed` of them, one after the other). The
 * kernel leaves a program out while it is already running on that CPU (05b24ff9b2cf, 6.2), and there are kernels that run
 * none at all in the context of a process that they hide, even if the completion only interrupts it.
 */
static __attribute__((noinline)) int count_unseen(u32 at, u64 missed)
{
	struct slot_note *n = bpf_map_lookup_elem(&slot_notes, &at);
	struct slot *present = bpf_map_lookup_elem(&slots, &at);
	struct loss_span when = {};
	struct loss_key key = {};

	if (!n || !n->before.dev) /* not issued as far as we saw: it may have been given up as well */
		return 0;
	key.dev = n->before.dev;
	key.class = class_of(n->before.cmd_flags);
	key.reason = LOSS_UNSEEN;
	when.from = n->before.start_ns;
	/* Its slot was free when the present one began. */
	if (present)
		when.to = present->start_ns ?: present->issue_ns;
	/* Of those before that one no more is known than that they were. */
	return count_loss(&key, &when, missed, n->before.bytes, n->before.merges);
}

/*
 * I/Os that found no slot: one begins, or is absorbed by another one (-1). That there was any of these is kept in the merges:
 * then their bytes are not attributed.
 */
static __attribute__((noinline)) int count_without_slot(u32 dev, u32 cmd_flags, s32 ios, u32 bytes)
{
	struct loss_key key = {};

	key.dev = dev;
	key.class = class_of(cmd_flags);
	key.reason = BEGUN_WITHOUT_SLOT;
	return count_loss(&key, (void *)0, (long)ios, bytes, ios < 0);
}

/* An I/O is over: its slot is free, once nothing needs to be read there any more. */
static __always_inline void end(struct held h)
{
	if (unlikely(h.missed))
		count_unseen(h.at, h.missed);
	release(h);
}

/* The name of a disk whose number user space cannot find. */
static __attribute__((noinline)) int note_name(u32 dev, void *disk)
{
	struct disk_name name = {};

	if (bpf_map_lookup_elem(&disk_names, &dev))
		return 0;
	bpf_probe_read_kernel(&name, sizeof(name), disk + field_offset(((struct gendisk *)0)->disk_name));
	bpf_map_update_elem(&disk_names, &dev, &name, BPF_NOEXIST);
	return 0;
}

/* What an I/O is when it is handed to the driver: it has been merged with all it will be. */
static __always_inline void describe(struct held h, struct request *rq)
{
	struct slot *s = h.slot;

	struct gendisk *disk = disk_of_request(rq);

	s->dev = number_of(disk);
	if (unlikely(is_without_number(disk)))
		note_name(s->dev, disk);
	s->sector = rq->__sector;
	s->bytes = rq->__data_len;
	s->merges = merges_of(rq);
	s->is_accounted = is_accounted(rq);
	note(h);
}

/*
 * The start that was left to the kernel to read. Should it have ceased to account this queue's requests since, all that is
 * known is that the I/O began before `now`.
 */
static __always_inline void take_start(struct slot *s, struct request *rq, u64 now)
{
	u64 start = is_accounted(rq) ? rq->start_time_ns : 0;

	s->bits |= start ? BIT_START : 0;
	s->start_ns = start && start < now ? start : now;
}

/*
 * A file or the disk's own metadata: the page cache knows. See "Attribution", docs/tracing.md. `dirty_inode` becomes the
 * inode whose pages are written back.
 */
static __always_inline u8 look_at_page(struct slot *s, struct bio *bio, u32 cmd_flags, void **dirty_inode,
				       unsigned long *ino)
{
	u8 cached = (cmd_flags & REQ_OP_MASK) == REQ_OP_WRITE ? ORIGIN_WRITEBACK
		    : cmd_flags & REQ_RAHEAD                  ? ORIGIN_READAHEAD
							      : ORIGIN_BUFFERED_READ;
	void *page = 0, *mapping = 0, *inode = 0, *sb = 0;
	unsigned long magic = 0;
	u32 dev = 0;

	if (!bio->bi_io_vec)
		return ORIGIN_UNKNOWN;
	bpf_probe_read_kernel(&page, 8, &bio->bi_io_vec->bv_page);
	page = head_of(page);
	bpf_probe_read_kernel(&mapping, 8, page + mapping_offset());
	if ((u64)mapping & 3) /* anonymous memory: swap, or direct I/O whose pages are not marked as pinned */
		return is_read_or_written_back(page) ? cached : ORIGIN_DIRECT;
	if (!mapping) /* the kernel's own memory */
		return ORIGIN_UNKNOWN;
	bpf_probe_read_kernel(&inode, 8, mapping + field_offset(((struct address_space *)0)->host));
	if (!inode)
		return ORIGIN_UNKNOWN;
	bpf_probe_read_kernel(&sb, 8, inode + field_offset(((struct inode *)0)->i_sb));
	bpf_probe_read_kernel(&magic, 8, sb + field_offset(((struct super_block *)0)->s_magic));
	/*
	 * Memory that processes share: no such file is on a disk, and what is swapped out has left it for the swap cache. So it is
	 * direct I/O, of which a piece that was split off, or a copy for a device below, is not marked as pinned.
	 */
	if (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC)
		return ORIGIN_DIRECT;
	bpf_probe_read_kernel(ino, 8, inode + field_offset(((struct inode *)0)->i_ino));
	if (cached == ORIGIN_WRITEBACK)
		*dirty_inode = inode;
	if (magic == BDEVFS_MAGIC) { /* the device's own page cache: of a file system if one is mounted on it */
		bpf_probe_read_kernel(&dev, 4, inode + field_offset(((struct inode *)0)->i_rdev));
		s->fs_dev = dev;
		s->bits |= BIT_FS_DEV;
		return is_mounted(inode) ? ORIGIN_METADATA : cached;
	}
	bpf_probe_read_kernel(&dev, 4, sb + field_offset(((struct super_block *)0)->s_dev));
	if (magic == F2FS_MAGIC && *ino < F2FS_ROOT_INO) { /* f2fs keeps its own blocks in two inodes that are no files */
		s->fs_dev = dev;
		s->bits |= BIT_FS_DEV;
		return ORIGIN_METADATA;
	}
	bpf_probe_read_kernel(&s->generation, 4, inode + field_offset(((struct inode *)0)->i_generation));
	s->ino = *ino;
	s->fs_dev = dev;
	s->bits |= BIT_INO | BIT_FS_DEV;
	return cached;
}

/* The file of direct I/O, whose pages are the program's own and do not know it. */
static __always_inline void look_at_file(struct slot *s, struct bio *bio)
{
	void *inode = inode_of_direct(bio), *sb = 0;

	if (!inode)
		return;
	bpf_probe_read_kernel(&s->ino, 8, inode + field_offset(((struct inode *)0)->i_ino));
	bpf_probe_read_kernel(&s->generation, 4, inode + field_offset(((struct inode *)0)->i_generation));
	bpf_probe_read_kernel(&sb, 8, inode + field_offset(((struct inode *)0)->i_sb));
	bpf_probe_read_kernel(&s->fs_dev, 4, sb + field_offset(((struct super_block *)0)->s_dev));
	s->bits |= BIT_INO | BIT_FS_DEV;
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

#include "askers.bpf.h"
#include "throttled.bpf.h"

/* Process and file of the I/O; in the submitter's context. */
static __always_inline void attribute(struct slot *s, struct bio *bio, u32 cmd_flags, int wanted)
{
	u8 origin = ORIGIN_UNKNOWN;
	unsigned long ino = 0;
	void *dirty_inode = 0;

	if (attribution) {
		s->cgroup = 0;
		s->origin = origin;
	}
	if (!wanted)
		return;
	if (bio) {
		s->cgroup = cgroup_of(bio);
		if (cmd_flags & REQ_META)
			origin = ORIGIN_METADATA;
		else if (pages_are_pinned(bio))
			origin = ORIGIN_DIRECT;
		else if ((cmd_flags & REQ_OP_MASK) <= REQ_OP_WRITE && bio->bi_iter.bi_size)
			origin = look_at_page(s, bio, cmd_flags, &dirty_inode, &ino);
		if (origin == ORIGIN_DIRECT)
			look_at_file(s, bio);
	}
	s->origin = origin;
	if (origin == ORIGIN_WRITEBACK && dirty_inode) {
		name_dirtier(s, dirty_inode, ino);
		return;
	}
	s->bits |= BIT_WHO;
	s->tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	if (!s->cgroup)
		s->cgroup = bpf_get_current_cgroup_id();
	if (bio)
		look_at_commit(s, bio, cmd_flags);
}

static __always_inline void begin(struct slot *s, u64 start_ns, u32 cmd_flags)
{
	s->start_ns = start_ns;
	s->cmd_flags = cmd_flags;
	s->bits = start_ns ? BIT_START : 0;
}

SEC("tp_btf/block_io_start")
int io_start(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	u32 cmd_flags = rq->cmd_flags;
	u64 now = 0;
	struct held h;

	if ((cmd_flags & REQ_OP_MASK) >= REQ_OP_DRV_FIRST)
		return 0;
	if (filtered && unwanted(number_of(disk_of_request(rq))))
		return 0;
	h = take_slot(key_of(rq), 0);
	if (unlikely(!h.slot))
		return count_without_slot(number_of(disk_of_request(rq)), cmd_flags, 1, rq->__data_len);
	/* Reading the clock is the dearest step of all: what the kernel is about to read is taken over at issue. */
	if (!h.was_accounted || !rq->__data_len || !start_is_read_next())
		now = bpf_ktime_get_ns();
	begin(h.slot, now, cmd_flags);
	if (unlikely(!rq->__data_len)) { /* an empty flush: nothing will be merged with it, and it will not be issued */
		h.slot->dev = number_of(disk_of_request(rq));
		note(h);
	}
	attribute(h.slot, rq->bio, cmd_flags, attribution);
	return 0;
}

/* A request without a visible start: the block layer's own flush, or an old kernel. */
static __always_inline struct held begin_at_issue(u64 key, struct request *rq, u64 now)
{
	u32 cmd_flags = rq->cmd_flags, op = cmd_flags & REQ_OP_MASK;
	u64 start = rq->start_time_ns;
	struct held h = {};

	if ((has_io_start && op != REQ_OP_FLUSH) || op >= REQ_OP_DRV_FIRST)
		return h;
	if (filtered && unwanted(number_of(disk_of_request(rq))))
		return h;
	if (start > now || (op != REQ_OP_FLUSH && !is_accounted(rq)))
		start = 0; /* left over from the request's last life */
	h = take_slot(key, now);
	if (unlikely(!h.slot)) {
		count_without_slot(number_of(disk_of_request(rq)), cmd_flags, 1, rq->__data_len);
		return h;
	}
	begin(h.slot, start, cmd_flags);
	if (attribution && op == REQ_OP_FLUSH) {
		attribute_flush(h.slot, rq);
		return h;
	}
	attribute(h.slot, rq->bio, cmd_flags, attribution);
	/* The data of a request that needs a flush is issued by a worker of the kernel, and no longer carries its flags. */
	if (attribution && !has_io_start && in_flush_sequence(rq) && name_submitter(h.slot, (u64)rq->bio))
		name_waiting(h.slot);
	return h;
}

/*
 * Issued again: a requeued request, or a new one in the place of one whose end was not shown? A requeued request keeps
 * the kernel's start time.
 */
static __always_inline int begins_anew(struct slot *s, struct request *rq)
{
	return s->start_ns && rq->start_time_ns != s->start_ns;
}

SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *ctx)
{
	struct request *rq = request_argument(ctx);
	u64 key = key_of(rq);
	struct held h;
	u64 now;

	if (likely(has_io_start && (rq->cmd_flags & REQ_OP_MASK) != REQ_OP_FLUSH)) {
		h = find_taken(key);
		if (!h.slot)
			return 0; /* of another disk, mostly: costs as little as may be */
		now = bpf_ktime_get_ns();
		if (!h.slot->start_ns)
			take_start(h.slot, rq, now);
	} else {
		h = find_in_flight(key);
		now = bpf_ktime_get_ns();
		if (!h.slot || (h.slot->issue_ns && begins_anew(h.slot, rq)))
			h = begin_at_issue(key, rq, now);
		if (!h.slot)
			return 0;
	}
	if (likely(!h.slot->issue_ns)) /* else it is requeued */
		describe(h, rq);
	h.slot->issue_ns = now;
	return 0;
}

SEC("tp_btf/block_rq_merge")
int rq_merge(u64 *ctx)
{
	struct request *rq = request_argument(ctx);
	u64 key = key_of(rq);
	struct held h = find_in_flight(key);

	if (h.slot)
		end(h);
	else if (was_homeless(key, 1))
		count_without_slot(number_of(disk_of_request(rq)), rq->cmd_flags, -1, 0);
	return 0;
}

/* Writes the event of an I/O that is over. */
static __always_inline void finish(const struct slot *s, struct loss_key *key, u32 error, u8 bits)
{
	struct entry entry = reserve_entry();
	struct io_event *e = entry.event;
	u64 now;

	if (unlikely(!e)) {
		key->reason = LOSS_RING_FULL;
		count_loss(key, (void *)0, 1, s->bytes, s->merges);
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
	e->dev = key->dev;
	e->bytes = s->bytes;
	e->cmd_flags = s->cmd_flags;
	e->merges = s->merges;
	e->error = error;
	e->bits = bits;
	if (attribution) {
		e->cgroup = s->cgroup;
		e->ino = s->ino;
		__builtin_memcpy(e->comm, s->comm, sizeof(e->comm));
		e->tgid = s->tgid;
		e->fs_dev = s->fs_dev;
		e->generation = s->generation;
	}
	e->origin = attribution ? s->origin : ORIGIN_UNKNOWN;
	publish(entry);
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
	s.origin = ORIGIN_UNKNOWN;
	if (attribution)
		name_submitter(&s, (u64)rq->bio);
	finish(&s, key, error, s.bits);
}

/* A completion without a slot: clashed when it started, or in flight when the tracer was attached. */
static __attribute__((noinline)) int complete_unknown(u64 object, struct loss_key *key, u32 bytes, u32 merges, u32 is_last)
{
	if (!key)
		return 0;
	key->reason = was_homeless(object, is_last) ? LOSS_SLOT_CLASH : LOSS_CENSORED;
	return count_loss(key, (void *)0, is_last, bytes, merges);
}

/*
 * A command of the driver or of user space is over: no I/O of ours, but one of the kernel's if it accounts it (reading the
 * serial number of a virtio disk is enough). The kernel counts whole sectors.
 */
static __attribute__((noinline)) int complete_command(struct loss_key *key, u32 op, u32 bytes, u32 is_last)
{
	if (!key)
		return 0;
	key->reason = LOSS_CENSORED;
	key->class = op & 1 ? CLASS_WRITE : CLASS_READ;
	return count_loss(key, (void *)0, is_last, bytes & ~511u, 0);
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

/* An I/O is over that was seen to start. */
static __always_inline void complete(struct held h, u32 error, u8 bits)
{
	struct loss_key who = {};

	who.dev = h.slot->dev;
	who.class = class_of(h.slot->cmd_flags);
	finish(h.slot, &who, error, bits);
	end(h);
}

SEC("tp_btf/block_rq_complete")
int rq_complete(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	s32 error = ctx[1];
	u32 bytes = ctx[2];
	u64 key = key_of(rq);
	int is_last = bytes >= rq->__data_len && !is_data_of_flush_sequence(rq);
	struct held h = find_in_flight(key);
	struct slot *s = h.slot;

	if (unlikely(!s)) {
		u32 cmd_flags = rq->cmd_flags, op = cmd_flags & REQ_OP_MASK;
		struct loss_key who = {};

		who.dev = number_of(disk_of_request(rq));
		if (unwanted(who.dev))
			return 0;
		if (unlikely(op >= REQ_OP_DRV_FIRST)) {
			if (is_accounted_command(rq))
				complete_command(&who, op, bytes, is_last);
			return 0;
		}
		/*
		 * A request of dm (multipath) is completed by its parts, and then ended with no bytes (dm_end_request,
		 * drivers/md/dm-rq.c): once is enough. An empty flush still has its bio.
		 */
		if (!bytes && !rq->__data_len && !rq->bio && op != REQ_OP_FLUSH)
			return 0;
		who.class = class_of(cmd_flags);
		if (!has_io_start && is_last && !bytes && op == REQ_OP_WRITE && !rq->__data_len)
			finish_empty_flush(rq, &who, error_number(error));
		else
			complete_unknown(key, &who, bytes, is_last ? merges_of(rq) : 0, is_last);
		return 0;
	}
	if (unlikely(!s->issue_ns)) {
		u32 sum = s->bytes + bytes;

		if (!s->start_ns)
			take_start(s, rq, bpf_ktime_get_ns());
		if (!s->bytes)
			describe(h, rq);
		s->bytes = sum;
	}
	if (is_last)
		complete(h, error_number(error), error < 0 ? s->bits | BIT_ERRNO : s->bits);
	return 0;
}

/* Bio-based devices have no requests: an I/O is a bio from being queued to its end. */
SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *ctx)
{
	struct bio *bio = bio_argument(ctx);
	struct gendisk *disk = disk_of_bio(bio);
	u32 cmd_flags, dev;
	struct held h;
	struct slot *s;
	u64 now;

	if (disk->queue->mq_ops || is_head_of_paths(disk))
		return 0;
	dev = number_of(disk);
	if (unwanted(dev))
		return 0;
	cmd_flags = bio->bi_opf;
	now = bpf_ktime_get_ns();
	h = take_slot(key_of(bio), now);
	s = h.slot;
	if (unlikely(!s))
		return count_without_slot(dev, cmd_flags, 1, bio->bi_iter.bi_size);
	begin(s, now, cmd_flags);
	s->bits = BIT_BIO;
	s->issue_ns = now;
	s->dev = dev;
	s->sector = bio->bi_iter.bi_sector + partition_start(bio);
	s->bytes = bio->bi_iter.bi_size;
	note(h);
	attribute(s, bio, cmd_flags, attribution);
	return 0;
}

SEC("tp_btf/block_bio_complete")
int bio_complete(u64 *ctx)
{
	struct bio *bio = (void *)ctx[1];
	u64 key = key_of(bio);
	struct held h = find_in_flight(key);
	struct loss_key who = {};

	if (likely(h.slot)) {
		complete(h, bio->bi_status, h.slot->bits);
		return 0;
	}
	/* Of a request-based disk, or a piece split off a bio, which ends on its own but never was queued. */
	struct gendisk *disk = disk_of_bio(bio);

	if (!disk || disk->queue->mq_ops || is_piece(bio) || is_head_of_paths(disk))
		return 0;
	who.dev = number_of(disk);
	if (unwanted(who.dev))
		return 0;
	who.class = class_of(bio->bi_opf);
	/* The bio's size is used up by now: how many bytes it moved is not known. */
	complete_unknown(key, &who, 0, 0, 1);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
