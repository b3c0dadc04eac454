/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Part of blkio.bpf.c: who dirtied the pages of a file. Pages are written back by the thread that happens to run, long after the
 * fact; the only instant that knows the cause is the one at which a clean page becomes dirty. It is remembered per inode,
 * not per page: of several writers of one file the last one gets all that is then written back.
 */

enum { DIRTIERS = 16384, PF_WQ_WORKER = 0x20, BTRFS_MAGIC = 0x9123683e };

/* Whose pages an inode's are. Small, since there is one write of it per page dirtied by another than before. */
struct dirtier {
	u64 who;	/* pid_tgid; 0 while it is being changed */
	u64 ino;	/* the address may come to belong to another inode */
	u64 cgroup;	/* v2 */
	char comm[16];	/* empty: a kernel worker, on behalf of no known process */
};

/* By the inode's address, which unlike its number is never that of another file of the same file system (btrfs). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, DIRTIERS);
	__type(key, u64);
	__type(value, struct dirtier);
} dirtiers SEC(".maps");

/* Network and FUSE file systems have none; one that spans several devices (btrfs) does not say which. */
static __always_inline int has_device(struct super_block *sb)
{
	return sb->s_bdev || sb->s_magic == BTRFS_MAGIC || sb->s_magic == BDEVFS_MAGIC;
}

static __always_inline u32 flags_of_current(void)
{
	u32 flags = 0;

	bpf_probe_read_kernel(&flags, 4, bpf_get_current_task() + field_offset(((struct task_struct *)0)->flags));
	return flags;
}

static __always_inline int is_worker(void)
{
	return flags_of_current() & PF_WQ_WORKER;
}

/* A page that, say, a loop device has dirtied has no process: better none than the worker that did it. */
static __attribute__((noinline)) int remember(u64 key, u64 ino, u64 who)
{
	struct dirtier *d = bpf_map_lookup_elem(&dirtiers, &key);
	struct dirtier fresh = {};

	fresh.who = who;
	fresh.ino = ino;
	if (!is_worker()) {
		bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
		fresh.cgroup = bpf_get_current_cgroup_id();
	}
	if (!d) {
		bpf_map_update_elem(&dirtiers, &key, &fresh, BPF_ANY);
		return 0;
	}
	/* Writers of one inode take turns (the lock of its pages is held), readers look at `who` before and after. */
	*(volatile u64 *)&d->who = 0;
	d->ino = ino;
	d->cgroup = fresh.cgroup;
	__builtin_memcpy(d->comm, fresh.comm, sizeof(d->comm));
	*(volatile u64 *)&d->who = who;
	return 0;
}

/* A page has become dirty: once for each page (or folio) that was clean, in the context of the writer. */
SEC("tp_btf/writeback_dirty_folio")
int dirtied(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[1];
	u64 who = bpf_get_current_pid_tgid();
	struct dirtier *d;
	struct inode *inode;
	u64 key, ino;

	if (!mapping)
		return 0;
	inode = mapping->host;
	if (!inode)
		return 0;
	key = (u64)inode;
	ino = inode->i_ino;
	d = bpf_map_lookup_elem(&dirtiers, &key);
	if (likely(d && d->who == who && d->ino == ino))
		return 0;
	if (has_device(inode->i_sb))
		remember(key, ino, who);
	return 0;
}

/*
 * The I/O writes pages of `inode`: gives it their dirtier. If there is none its process stays unknown, for its submitter is
 * the flusher, the journal, or the caller of sync.
 */
static __always_inline void name_dirtier(struct slot *s, const void *inode, u64 ino)
{
	u64 key = (u64)inode, who;
	struct dirtier *d = bpf_map_lookup_elem(&dirtiers, &key);

	if (!d)
		return;
	who = *(volatile u64 *)&d->who;
	if (!who || d->ino != ino || !d->comm[0])
		return;
	__builtin_memcpy(s->comm, d->comm, sizeof(s->comm));
	s->tgid = who >> 32;
	if (!s->cgroup)
		s->cgroup = d->cgroup;
	if (likely(*(volatile u64 *)&d->who == who))
		s->bits |= BIT_WHO;
}
