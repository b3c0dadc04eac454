/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Everything that differs between kernels, and the little of their types that the tracer touches. The structures
 * name only the fields in use; CO-RE finds their real places when the object is loaded (hence no vmlinux.h). A name
 * after three underscores is a flavour: the loader ignores it, so one kernel type can be described as it is now and
 * as it was.
 *
 * Oldest kernel: 5.8 (ring buffer). tp_btf programs exist since 5.5, so wherever the ring exists they do too.
 */
#ifndef IOLENS_COMPAT_BPF_H
#define IOLENS_COMPAT_BPF_H

#include "event.h"

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define CO_RE __attribute__((preserve_access_index))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define field_exists(field) __builtin_preserve_field_info(field, 2)
#define field_offset(field) __builtin_preserve_field_info(field, 0)
/* Of a bit field: the bytes that hold it, and how it is shifted out of 64 bits. */
#define field_size(field) __builtin_preserve_field_info(field, 1)
#define field_left_shift(field) __builtin_preserve_field_info(field, 4)
#define field_right_shift(field) __builtin_preserve_field_info(field, 5)
#define enum_value_exists(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 0)
#define enum_value(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_HASH = 5 };
enum { BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *buf, u32 size) = (void *)16;
static void *(*bpf_get_current_task)(void) = (void *)35;
static u64 (*bpf_get_current_cgroup_id)(void) = (void *)80;
static long (*bpf_probe_read_kernel)(void *dst, u32 size, const void *from) = (void *)113;
static void *(*bpf_get_current_task_btf)(void) = (void *)158; /* 5.11 */
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;

struct kernfs_node {
	u64 id;
} CO_RE;
struct cgroup {
	struct kernfs_node *kn;
} CO_RE;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
} CO_RE;
struct blkcg {
	struct cgroup_subsys_state css;
} CO_RE;
struct blkcg_gq {
	struct blkcg *blkcg;
} CO_RE;

struct blk_plug {
	u64 cur_ktime;
} CO_RE;
struct task_struct {
	s32 pid;
	s32 tgid;
	u32 flags;
	struct files_struct *files;
	unsigned long nvcsw;
	struct blk_plug *plug;
} CO_RE;

struct device {
	u32 devt;
} CO_RE;
struct backing_dev_info {
	struct device *owner;
} CO_RE;
struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
} CO_RE;
struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_rdev;
	u32 i_generation;
} CO_RE;
struct address_space {
	struct inode *host;
} CO_RE;
struct folio {
	struct address_space *mapping;
} CO_RE;
struct page {
	unsigned long compound_head;
	struct address_space *mapping;
} CO_RE;
/* Since 7.3. */
struct page___since_7_3 {
	unsigned long compound_info;
} CO_RE;
struct bio_vec {
	struct page *bv_page;
} CO_RE;

struct request_queue;
struct gendisk {
	int major;
	int first_minor;
	char disk_name[32];
	int flags;
	struct request_queue *queue;
} CO_RE;
struct block_device {
	struct gendisk *bd_disk;
	u32 bd_dev;
	void *bd_super;
	void *bd_holder_ops;
	u64 bd_start_sect;
} CO_RE;
/* How the file system of block devices keeps one. */
struct bdev_inode {
	struct block_device bdev;
	struct inode vfs_inode;
} CO_RE;
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
} CO_RE;
struct bio_set {
	u32 front_pad;
} CO_RE;
struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	u32 bi_opf;
	u16 bi_flags;
	u8 bi_status;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
	struct bio_set *bi_pool;
	struct bio_vec *bi_io_vec;
	void *bi_end_io;
	void *bi_private;
} CO_RE;
/* Direct I/O by iomap and, elsewhere, by fs/direct-io.c. */
struct file___direct {
	struct inode *f_inode;
} CO_RE;
struct kiocb {
	struct file___direct *ki_filp;
} CO_RE;
struct iomap_dio {
	struct kiocb *iocb;
} CO_RE;
/* A read by a single bio, since 7.3: the bio is part of it. */
struct iomap_dio_simple {
	struct kiocb *iocb;
	struct bio bio;
} CO_RE;
struct dio {
	struct inode *inode;
} CO_RE;

/* Until 309dca309fc3 ("block: store a block_device pointer in struct bio", 5.12) a bio knew its disk only. */
struct bio___before_5_12 {
	struct gendisk *bi_disk;
	u8 bi_partno;
} CO_RE;

struct request_queue {
	void *mq_ops;
	struct gendisk *disk;
} CO_RE;
struct list_head {
	struct list_head *next;
} CO_RE;
enum { LIST_HEAD_BYTES = 16 };
/* The flush of a hardware queue, and the requests that need one: those of the flush that runs, and those of the next. */
struct blk_flush_queue {
	unsigned int flush_running_idx : 1;
	struct list_head flush_queue[2];
	struct request *flush_rq;
} CO_RE;
struct blk_mq_hw_ctx {
	struct blk_flush_queue *fq;
} CO_RE;
struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	struct list_head queuelist;
	u32 cmd_flags;
	u32 rq_flags;
	u32 __data_len;
	u64 __sector;
	struct bio *bio;
	struct bio *biotail;
	void *part;
	u64 start_time_ns;
} CO_RE;

/*
 * d152c682f03c ("block: add an explicit ->disk backpointer to the request_queue", 5.15) and f3fa33acca9f ("block:
 * remove the ->rq_disk field in struct request", 5.17) moved the disk from the request to the queue.
 */
struct request___before_5_17 {
	struct gendisk *rq_disk;
} CO_RE;

static __always_inline struct gendisk *disk_of_request(struct request *rq)
{
	if (field_exists(((struct request_queue *)0)->disk))
		return rq->q->disk;
	return ((struct request___before_5_17 *)rq)->rq_disk;
}

static __always_inline struct gendisk *disk_of_bio(struct bio *bio)
{
	if (field_exists(((struct bio *)0)->bi_bdev))
		return bio->bi_bdev->bd_disk;
	return ((struct bio___before_5_12 *)bio)->bi_disk;
}

/* Until 81ada09cc25e ("blk-flush: reuse rq queuelist in flush state machine", 6.6) a request was in these lists by another member. */
struct request___before_6_6 {
	struct {
		struct list_head list;
	} flush;
} CO_RE;

static __always_inline u32 flush_list_offset(void)
{
	if (field_exists(((struct request___before_6_6 *)0)->flush.list))
		return field_offset(((struct request___before_6_6 *)0)->flush.list);
	return field_offset(((struct request *)0)->queuelist);
}

/*
 * The number of the disk or partition that a bio names; 0 where that is not known: a bio of a partition before 309dca309fc3 (5.12).
 */
static __always_inline u32 device_named_by(struct bio *bio)
{
	struct bio___before_5_12 *old = (void *)bio;

	if (field_exists(((struct bio *)0)->bi_bdev))
		return bio->bi_bdev->bd_dev;
	if (old->bi_partno)
		return 0;
	return (u32)old->bi_disk->major << 20 | (u32)old->bi_disk->first_minor;
}

/*
 * Whether the kernel shows this disk without its number: before 5.17 it printed those of hidden disks, as the paths of NVMe
 * multipath are, as 0:0. The flag has had another bit since.
 */
static __always_inline int is_without_number(struct gendisk *disk)
{
	enum { GENHD_FL_HIDDEN = 0x400 };

	return field_exists(((struct request___before_5_17 *)0)->rq_disk) && disk->flags & GENHD_FL_HIDDEN;
}

/*
 * Whether this disk without requests is the head of NVMe multipath: what it is given become requests of its paths, which are
 * recorded. Of its own bios the kernel shows the end of the first of a request only (6.12), or of none (6.1).
 */
static __always_inline int is_head_of_paths(struct gendisk *disk)
{
	const char *name = disk->disk_name;

	return name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'e';
}

/*
 * First sector of the partition that a bio names, 0 for the whole disk. block_bio_queue fires before
 * blk_partition_remap() turns the bio's sector into one of the disk. Before 0d02129e76ed ("block: merge struct
 * block_device and struct hd_struct", 5.11) and 309dca309fc3 (5.12) the number is not at hand: bio-based devices
 * are partitioned so rarely that the sector then is the partition's.
 */
static __always_inline u64 partition_start(struct bio *bio)
{
	if (field_exists(((struct bio *)0)->bi_bdev) && field_exists(((struct block_device *)0)->bd_start_sect))
		return bio->bi_bdev->bd_start_sect;
	return 0;
}

/*
 * Request flags were macros until 5f89154e8e9e ("block: Use enum to define RQF_x bit indexes", 6.11) made them an enum and
 * thereby moved some. The enum has no name on 6.11 and 6.12, and CO-RE finds only named ones: the loader looks the
 * enumerators up. These are the bits of the macros.
 */
const volatile u8 flush_seq_bit = 4;
const volatile u8 io_stat_bit = 13;

static __always_inline int in_flush_sequence(struct request *rq)
{
	return rq->rq_flags >> (flush_seq_bit & 31) & 1;
}

static __always_inline int is_accounted(struct request *rq)
{
	return rq->rq_flags >> (io_stat_bit & 31) & 1;
}

/*
 * Whether the kernel counts this command of a driver or of user space: 5.15 did if it knew the disk, 6.1 does not, and since
 * 6.11 it does where queue/iostats_passthrough is set. What it counts has a part of a disk to be counted for, which it gets
 * with the start of its account.
 */
static __always_inline int is_accounted_command(struct request *rq)
{
	return is_accounted(rq) && rq->part;
}

/*
 * The start of the request being made in this context will be, if the kernel accounts it, a reading of the clock that is
 * still to come. Since da4c8c3d0975 ("block: cache current nsec time in struct blk_plug", 6.9) the first reading in a plug
 * serves all of it: it is still to come while the plug has none. Before that the reading was some steps ago, and before
 * 5.11 BPF cannot read it.
 */
static __always_inline int start_is_read_next(void)
{
	struct task_struct *task;

	if (!field_exists(((struct blk_plug *)0)->cur_ktime))
		return 0;
	task = bpf_get_current_task_btf();
	return !task->plug->cur_ktime; /* 0 without a plug, too */
}

/*
 * Pages pinned for direct I/O are marked so on the bio since fd363244e883 ("block: Add BIO_PAGE_PINNED and
 * associated infrastructure", 6.5); older kernels are asked about the page itself, for bit 0 meant something else.
 * The bits are an enum without a name, which CO-RE cannot look up: the loader looks for the word in the kernel's BTF.
 */
const volatile u8 marks_pinned_pages = 0;

enum { BIO_PAGE_PINNED = 0, BIO_CLONED = 1 };

static __always_inline int pages_are_pinned(struct bio *bio)
{
	return marks_pinned_pages && bio->bi_flags >> BIO_PAGE_PINNED & 1;
}

/*
 * The kernel's functions that end a bio of direct I/O, by whose addresses such a bio is known and with it the type of
 * bi_private; 0: not known. A bio that is too large for its device is split, and its front refers to the rest.
 */
const volatile u64 end_of_iomap_dio = 0;
const volatile u64 end_of_dio = 0;
const volatile u64 end_of_dio_aio = 0;
const volatile u64 end_of_split = 0;
const volatile u64 end_of_iomap_dio_simple = 0;
const volatile u64 end_of_waited_for = 0;

/*
 * A piece split off a bio was never queued on its own, and ends by a function of its own. Where that is not known a
 * clone is taken for one, which may also be what a layer above queued and whose start was not shown.
 */
static __always_inline int is_piece(struct bio *bio)
{
	return end_of_split ? (u64)bio->bi_end_io == end_of_split : bio->bi_flags >> BIO_CLONED & 1;
}

static __always_inline void *inode_of_iocb(void *iocb)
{
	void *next = 0;

	bpf_probe_read_kernel(&next, 8, iocb + field_offset(((struct kiocb *)0)->ki_filp));
	bpf_probe_read_kernel(&next, 8, next + field_offset(((struct file___direct *)0)->f_inode));
	return next;
}

/*
 * Whether this bio is part of an iomap_dio_simple. One whose reader waits for it ends like every bio that is waited for: of these
 * it is known by the set that it comes from, which leaves as much room before a bio.
 */
static __always_inline int is_of_simple_read(void *bio, u64 end)
{
	void *pool = 0;
	u32 before = 0;

	if (!end_of_iomap_dio_simple || !field_exists(((struct iomap_dio_simple *)0)->bio))
		return 0;
	if (end == end_of_iomap_dio_simple)
		return 1;
	if (!end_of_waited_for || end != end_of_waited_for)
		return 0;
	bpf_probe_read_kernel(&pool, 8, bio + field_offset(((struct bio *)0)->bi_pool));
	bpf_probe_read_kernel(&before, 4, pool + field_offset(((struct bio_set *)0)->front_pad));
	return pool && before == field_offset(((struct iomap_dio_simple *)0)->bio);
}

/* The inode of the file that a bio of direct I/O reads or writes; 0 if that is not known. */
static __always_inline void *inode_of_direct(struct bio *bio)
{
	u64 end = (u64)bio->bi_end_io;
	void *of = bio->bi_private, *whole = bio, *next = 0;

	if (end_of_split && end == end_of_split) {
		bpf_probe_read_kernel(&end, 8, of + field_offset(((struct bio *)0)->bi_end_io));
		whole = of;
		bpf_probe_read_kernel(&next, 8, of + field_offset(((struct bio *)0)->bi_private));
		of = next;
	}
	if (is_of_simple_read(whole, end)) {
		of = whole - field_offset(((struct iomap_dio_simple *)0)->bio);
		bpf_probe_read_kernel(&next, 8, of + field_offset(((struct iomap_dio_simple *)0)->iocb));
		return inode_of_iocb(next);
	}
	if (end_of_iomap_dio && end == end_of_iomap_dio && field_exists(((struct iomap_dio *)0)->iocb)) {
		bpf_probe_read_kernel(&next, 8, of + field_offset(((struct iomap_dio *)0)->iocb));
		return inode_of_iocb(next);
	}
	if (end_of_dio && (end == end_of_dio || end == end_of_dio_aio) && field_exists(((struct dio *)0)->inode)) {
		bpf_probe_read_kernel(&next, 8, of + field_offset(((struct dio *)0)->inode));
		return next;
	}
	return 0;
}

/*
 * Whether a file system is mounted on the block device with this inode. A holder of the device (bd_holder) says
 * less: so do O_EXCL, dm and md. File systems registered themselves in bd_super until 6.6, and hold the device by operations
 * of their own since 0718afd47f70 ("block: introduce holder ops", 6.5).
 */
static __always_inline int is_mounted(void *inode)
{
	void *bdev, *file_system = 0;

	if (!field_exists(((struct bdev_inode *)0)->vfs_inode))
		return 0;
	bdev = inode - field_offset(((struct bdev_inode *)0)->vfs_inode);
	if (field_exists(((struct block_device *)0)->bd_super))
		bpf_probe_read_kernel(&file_system, 8, bdev + field_offset(((struct block_device *)0)->bd_super));
	else if (field_exists(((struct block_device *)0)->bd_holder_ops))
		bpf_probe_read_kernel(&file_system, 8, bdev + field_offset(((struct block_device *)0)->bd_holder_ops));
	return file_system != 0;
}

enum pageflags___x { PG_writeback };

/*
 * A page of the page cache or the swap cache is locked while it is read and under write-back while it is written; one that
 * only lends its memory to direct I/O is neither. The flags are the first word of a page, PG_locked always their first bit.
 */
static __always_inline int is_read_or_written_back(void *page)
{
	u64 flags = 0, mask = 1;

	if (enum_value_exists(enum pageflags___x, PG_writeback))
		mask |= 1ull << enum_value(enum pageflags___x, PG_writeback);
	bpf_probe_read_kernel(&flags, 8, page);
	return (flags & mask) != 0;
}

/*
 * The first page of the folio that a page belongs to. A tail page has bit 0 of `compound_head` set and else the head's address.
 * Since 7.3 the word is `compound_info` and, where struct page has a size that is a power of two, holds the mask that makes the
 * head's address from the tail's: a mask of the upper bits, of which all pages' addresses lack some.
 */
static __always_inline void *head_of(void *page)
{
	unsigned long info = 0;

	if (field_exists(((struct page *)0)->compound_head))
		bpf_probe_read_kernel(&info, 8, page + field_offset(((struct page *)0)->compound_head));
	else if (field_exists(((struct page___since_7_3 *)0)->compound_info))
		bpf_probe_read_kernel(&info, 8, page + field_offset(((struct page___since_7_3 *)0)->compound_info));
	if (!(info & 1))
		return page;
	if (info >> 32 == 0xffffffff)
		return (void *)((u64)page & info);
	return (void *)(info - 1);
}

/* struct page lost `mapping` to struct folio step by step (folios: 7b230db3b8d3, 5.16). */
static __always_inline u32 mapping_offset(void)
{
	if (field_exists(((struct page *)0)->mapping))
		return field_offset(((struct page *)0)->mapping);
	return field_offset(((struct folio *)0)->mapping);
}

/*
 * a54895fa057c ("block: remove the request_queue to argument request based tracepoints", 5.11, and in 5.10.137)
 * removed the first argument of block_rq_issue and block_rq_merge; e8a676d61c07 ("block: simplify and extend the
 * block_bio_merge tracepoint class", 5.11 only) that of block_bio_queue. The loader tries each form.
 */
const volatile u8 request_has_queue_argument = 0;
const volatile u8 bio_has_queue_argument = 0;

/*
 * An argument of the tracepoint. In assembler, since the compiler would merge two loads into one through a pointer that
 * it calculated, and the verifier allows no calculation with `ctx` before a load.
 */
#define ARGUMENT(ctx, n)                                                                                             \
	({                                                                                                           \
		void *argument_;                                                                                     \
		__asm__ volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(argument_) : "r"(ctx), "i"((n) * 8));              \
		argument_;                                                                                           \
	})

static __always_inline struct request *request_argument(u64 *ctx)
{
	return request_has_queue_argument ? ARGUMENT(ctx, 1) : ARGUMENT(ctx, 0);
}

static __always_inline struct bio *bio_argument(u64 *ctx)
{
	return bio_has_queue_argument ? ARGUMENT(ctx, 1) : ARGUMENT(ctx, 0);
}

#endif
