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
#define enum_value_exists(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 0)
#define enum_value(type, value) __builtin_preserve_enum_value(*(typeof(type) *)value, 1)

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_HASH = 5 };
enum { BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
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

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
} CO_RE;
struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_rdev;
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
struct bio_vec {
	struct page *bv_page;
} CO_RE;

struct request_queue;
struct gendisk {
	int major;
	int first_minor;
	struct request_queue *queue;
} CO_RE;
struct block_device {
	struct gendisk *bd_disk;
	void *bd_holder;
	u64 bd_start_sect;
} CO_RE;
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
} CO_RE;
struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	u32 bi_opf;
	u16 bi_flags;
	u8 bi_status;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
	struct bio_vec *bi_io_vec;
} CO_RE;

/* Until 309dca309fc3 ("block: store a block_device pointer in struct bio", 5.12) a bio knew its disk only. */
struct bio___before_5_12 {
	struct gendisk *bi_disk;
} CO_RE;

struct request_queue {
	void *mq_ops;
	struct gendisk *disk;
} CO_RE;
struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 rq_flags;
	u32 __data_len;
	u64 __sector;
	struct bio *bio;
	struct bio *biotail;
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
 * Request flags were macros until 5f89154e8e9e ("block: Use enum to define RQF_x bit indexes", 6.11) made them an
 * enum and thereby moved some: FLUSH_SEQ was bit 4, IO_STAT bit 13 before.
 */
enum rqf_flags___x { __RQF_FLUSH_SEQ, __RQF_IO_STAT };

static __always_inline int in_flush_sequence(struct request *rq)
{
	u32 bit = 4;

	if (enum_value_exists(enum rqf_flags___x, __RQF_FLUSH_SEQ))
		bit = enum_value(enum rqf_flags___x, __RQF_FLUSH_SEQ);
	return rq->rq_flags >> bit & 1;
}

static __always_inline int is_accounted(struct request *rq)
{
	u32 bit = 13;

	if (enum_value_exists(enum rqf_flags___x, __RQF_IO_STAT))
		bit = enum_value(enum rqf_flags___x, __RQF_IO_STAT);
	return rq->rq_flags >> bit & 1;
}

/*
 * The start of the request being made in this context will be, if the kernel accounts it, a reading of the clock that is
 * still to come. Since da4c8c3d0975 ("block: cache current nsec time in struct blk_plug", 6.9) the first reading in a plug
 * serves all of it: it is still to come while the plug has none. Before that the reading was some steps ago, and before
 * 5.11 nobody could ask.
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

static __always_inline int is_clone(struct bio *bio)
{
	return bio->bi_flags >> BIO_CLONED & 1;
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
 * took the first argument away from block_rq_issue, block_rq_merge; e8a676d61c07 ("block: simplify and extend the
 * block_bio_merge tracepoint class", 5.11) from block_bio_queue. The loader tries the new form first.
 */
const volatile u8 has_queue_argument = 0;

#define REQUEST_OR_BIO(ctx) ((void *)(has_queue_argument ? (ctx)[1] : (ctx)[0]))

#endif
