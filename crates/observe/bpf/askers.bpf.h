/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Part of blkio.bpf.c: who asked for a flush. The block layer makes flushes on its own, from a worker of the kernel and without
 * a bio, for the requests that need one: the writes of an fsync or of a journal's commit. While a flush runs those are in a list
 * of the hardware queue, so the first of them says for whom it is.
 *
 * A commit of ext4's journal is written by the thread jbd2, mostly because a process waits for it in fsync. What ext4 shows
 * of fsync in the process's context (ext4_sync_file_enter, ext4_sync_file_exit) says who waits. It holds the changes of all
 * processes, but without that process it would not be written now: so it is named for all that the commit writes.
 */

enum { REQ_FUA = 1 << 17, REQ_PREFLUSH = 1 << 18, PF_KTHREAD = 0x00200000 };
enum { ASKERS = 1024, SYNCING = 4096, SYNCED_FILE_SYSTEMS = 256, JOURNALS = 256 };
/* Of an fsync that lasts longer the end may not have been shown. */
#define MAX_SYNC_NS 30000000000ull

/* A task, as an I/O has it. */
struct asker {
	u64 who; /* pid_tgid */
	u64 cgroup;
	char comm[16];
};

/*
 * Before block_io_start (6.5) the context of the submitter is seen by bio only: those that submitted bios which need a flush,
 * by the bio's address.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ASKERS);
	__type(key, u64);
	__type(value, struct asker);
} askers SEC(".maps");

/* A task in fsync. */
struct syncing {
	struct asker task;
	u64 since_ns;
	u32 dev; /* of the file system */
	u32 unused;
};

/* Tasks in fsync, by pid_tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SYNCING);
	__type(key, u64);
	__type(value, struct syncing);
} syncing SEC(".maps");

/*
 * Of the tasks (pid_tgid) that are in fsync on a file system the first and the last to have come. When the first leaves the
 * last takes its place; those between are not remembered.
 */
struct synced {
	u64 first;
	u64 last;
};

/* By device number. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SYNCED_FILE_SYSTEMS);
	__type(key, u32);
	__type(value, struct synced);
} synced SEC(".maps");

/*
 * For whom a thread jbd2 wrote the record that ended its last commit, by its tgid; `who` is 0 if no task waited. Only where
 * the flush does not find it in the slot of the record.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, JOURNALS);
	__type(key, u32);
	__type(value, struct asker);
} journals SEC(".maps");

static __always_inline void take_current(struct asker *a)
{
	a->who = bpf_get_current_pid_tgid();
	a->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(a->comm, sizeof(a->comm));
}

/* The I/O's process is `a`. Its cgroup stays the one that its bio is charged to, if that is known. */
static __always_inline void name_asker(struct slot *s, const struct asker *a)
{
	s->bits |= BIT_WHO;
	s->tgid = a->who >> 32;
	__builtin_memcpy(s->comm, a->comm, sizeof(s->comm));
	if (!s->cgroup)
		s->cgroup = a->cgroup;
}

static __always_inline int needs_flush(u32 flags)
{
	return (flags & (REQ_PREFLUSH | REQ_FUA)) != 0;
}

/* Copies the task `who`, if it still is in fsync on this file system. */
static __always_inline int copy_waiting(struct asker *a, u64 who, u32 dev, u64 now)
{
	struct syncing *w = bpf_map_lookup_elem(&syncing, &who);

	if (!who || !w || w->dev != dev || now - w->since_ns > MAX_SYNC_NS)
		return 0;
	__builtin_memcpy(a, &w->task, sizeof(*a));
	/* Its entry may have been another task's by then. */
	return bpf_map_lookup_elem(&syncing, &who) == w && a->who == who;
}

static __always_inline int is_journal_thread(const char *comm)
{
	return comm[0] == 'j' && comm[1] == 'b' && comm[2] == 'd' && comm[3] == '2' && comm[4] == '/';
}

/* Copies a task that is in fsync on this file system, the first to have come if it is there still. */
static __always_inline int copy_any_waiting(struct asker *a, u32 dev)
{
	struct synced *of = bpf_map_lookup_elem(&synced, &dev);
	u64 now;

	if (!of)
		return 0;
	now = bpf_ktime_get_ns();
	return copy_waiting(a, of->first, dev, now) || copy_waiting(a, of->last, dev, now);
}

/*
 * A thread jbd2 submits the record that ends a commit, to the journal's device: notes who waits for it. Below dm the same
 * thread submits it again, to another device, on which no file was seen to be synced.
 */
static __attribute__((noinline)) int note_commit(u32 dev)
{
	struct asker waiting = {};
	u32 thread = bpf_get_current_pid_tgid() >> 32;

	/* A process may call itself so, too. */
	if (!(flags_of_current() & PF_KTHREAD) || !bpf_map_lookup_elem(&synced, &dev))
		return 0;
	if (!copy_any_waiting(&waiting, dev))
		waiting.who = 0;
	bpf_map_update_elem(&journals, &thread, &waiting, BPF_ANY);
	return 0;
}

/* A thread jbd2 submits a part of a commit to this device: its process is the one that waits for the commit, if any does. */
static __attribute__((noinline)) int name_committer(struct slot *s, u32 dev)
{
	struct asker waiting = {};

	if (!s || !(flags_of_current() & PF_KTHREAD))
		return 0;
	s->origin = ORIGIN_JOURNAL;
	if (!copy_any_waiting(&waiting, dev))
		return 0;
	/* The cgroup of a journal is the root. */
	s->cgroup = 0;
	name_asker(s, &waiting);
	return 1;
}

/* A bio is submitted, on a kernel without block_io_start. */
SEC("tp_btf/block_bio_queue")
int flush_asked(u64 *ctx)
{
	struct bio *bio = bio_argument(ctx);
	struct asker fresh = {};
	u64 key = (u64)bio;

	if (!needs_flush(bio->bi_opf))
		return 0;
	take_current(&fresh);
	fresh.cgroup = cgroup_of(bio) ?: fresh.cgroup;
	bpf_map_update_elem(&askers, &key, &fresh, BPF_ANY);
	if (is_journal_thread(fresh.comm))
		note_commit(device_named_by(bio));
	return 0;
}

/* Process of the I/O: whoever submitted this bio, if it needs a flush and was seen to be submitted. */
static __attribute__((noinline)) int name_submitter(struct slot *s, u64 bio)
{
	struct asker *a = bpf_map_lookup_elem(&askers, &bio);

	if (!s || !a)
		return 0;
	name_asker(s, a);
	return 1;
}

static __always_inline u32 device_of_file_system(void *inode)
{
	void *sb = 0;
	u32 dev = 0;

	bpf_probe_read_kernel(&sb, 8, inode + field_offset(((struct inode *)0)->i_sb));
	bpf_probe_read_kernel(&dev, 4, sb + field_offset(((struct super_block *)0)->s_dev));
	return dev;
}

/* Raw tracepoints, whose arguments are numbers: ext4 may be a module, whose types the loader does not read. */
SEC("raw_tp/ext4_sync_file_enter")
int sync_enter(u64 *ctx)
{
	static const struct synced none;
	struct syncing fresh = {};
	struct synced *of;
	void *inode = 0;
	u64 key;

	bpf_probe_read_kernel(&inode, 8, (void *)ctx[0] + field_offset(((struct file___direct *)0)->f_inode));
	take_current(&fresh.task);
	fresh.since_ns = bpf_ktime_get_ns();
	fresh.dev = device_of_file_system(inode);
	key = fresh.task.who;
	bpf_map_update_elem(&syncing, &key, &fresh, BPF_ANY);
	of = bpf_map_lookup_elem(&synced, &fresh.dev);
	if (!of) {
		bpf_map_update_elem(&synced, &fresh.dev, &none, BPF_NOEXIST);
		of = bpf_map_lookup_elem(&synced, &fresh.dev);
		if (!of)
			return 0;
	}
	/* Two tasks that come at the same time may overwrite each other: then the other one is not remembered. */
	if (!of->first)
		of->first = key;
	else
		of->last = key;
	return 0;
}

SEC("raw_tp/ext4_sync_file_exit")
int sync_exit(u64 *ctx)
{
	u32 dev = device_of_file_system((void *)ctx[0]);
	struct synced *of = bpf_map_lookup_elem(&synced, &dev);
	u64 key = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&syncing, &key);
	if (!of)
		return 0;
	if (of->last == key)
		of->last = 0;
	if (of->first == key) {
		of->first = of->last;
		of->last = 0;
	}
	return 0;
}

/* The submitter of this bio is the I/O's process: is it a part of a journal's commit, or the record that ends it? */
static __always_inline void look_at_commit(struct slot *s, struct bio *bio, u32 flags)
{
	u32 dev;

	if (likely(s->origin != ORIGIN_METADATA && !needs_flush(flags)) || !is_journal_thread(s->comm))
		return;
	dev = device_named_by(bio);
	if (needs_flush(flags))
		note_commit(dev);
	name_committer(s, dev);
}

/* The I/O's process is `s`'s own, or the one for which that, a thread jbd2, wrote a commit. */
static __always_inline void name_waiting(struct slot *s)
{
	struct asker *waiting;
	u32 thread = s->tgid;

	if (!(s->bits & BIT_WHO) || !is_journal_thread(s->comm))
		return;
	waiting = bpf_map_lookup_elem(&journals, &thread);
	if (!waiting)
		return;
	s->origin = ORIGIN_JOURNAL;
	if (!waiting->who)
		return;
	s->cgroup = 0;
	name_asker(s, waiting);
}

/*
 * Process, cgroup and origin of a flush that the block layer makes: those of the first request that waits for it. `s` is the
 * flush's own slot.
 */
static __always_inline void attribute_flush(struct slot *s, struct request *rq)
{
	void *queue = 0, *list, *asking = 0, *own = 0, *bio = 0;
	struct asker current = {};
	u64 running = 0;
	struct held h;
	u64 key;

	s->cgroup = 0;
	s->origin = ORIGIN_UNKNOWN;
	/* By reading, since the verifier adds no variable to a pointer whose type it knows. */
	bpf_probe_read_kernel(&queue, 8, (void *)rq->mq_hctx + field_offset(((struct blk_mq_hw_ctx *)0)->fq));
	bpf_probe_read_kernel(&own, 8, queue + field_offset(((struct blk_flush_queue *)0)->flush_rq));
	if (own != rq) { /* a flush that a layer above passes on: the layer knows who asked */
		take_current(&current);
		name_asker(s, &current);
		return;
	}
	bpf_probe_read_kernel(&running, field_size(((struct blk_flush_queue *)0)->flush_running_idx),
			      queue + field_offset(((struct blk_flush_queue *)0)->flush_running_idx));
	running <<= field_left_shift(((struct blk_flush_queue *)0)->flush_running_idx);
	running >>= field_right_shift(((struct blk_flush_queue *)0)->flush_running_idx);
	list = queue + field_offset(((struct blk_flush_queue *)0)->flush_queue) + (running & 1) * LIST_HEAD_BYTES;
	bpf_probe_read_kernel(&asking, 8, list);
	if (!asking || asking == list)
		return;
	asking -= flush_list_offset();
	if (has_io_start) {
		/*
		 * The verifier subtracts no pointer from a number, but the distance of two numbers is one. The compiler would
		 * put both subtractions into one.
		 */
		key = key_of(rq);
		__asm__ volatile("" : "+r"(key));
		h = find_in_flight(key + (((u64)asking - (u64)own) << 16));
		if (!h.slot)
			return;
		s->cgroup = h.slot->cgroup;
		s->origin = h.slot->origin;
		s->bits |= h.slot->bits & BIT_WHO;
		s->tgid = h.slot->tgid;
		__builtin_memcpy(s->comm, h.slot->comm, sizeof(s->comm));
	} else {
		/* Not `bio`, which is used up once the data is written. */
		bpf_probe_read_kernel(&bio, 8, asking + field_offset(((struct request *)0)->biotail));
		name_submitter(s, (u64)bio);
	}
	name_waiting(s);
}
