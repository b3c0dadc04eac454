/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Part of files.bpf.c: I/O without system calls. */

enum {
	IORING_OP_READV = 1,
	IORING_OP_WRITEV = 2,
	IORING_OP_FSYNC = 3,
	IORING_OP_READ_FIXED = 4,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_SYNC_FILE_RANGE = 8,
	IORING_OP_OPENAT = 18,
	IORING_OP_CLOSE = 19,
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
	IORING_OP_OPENAT2 = 28,
};

enum { IORING_FSYNC_DATASYNC = 1 };

static __always_inline u32 kind_of_op(u32 op)
{
	switch (op) {
	case IORING_OP_READV:
	case IORING_OP_READ_FIXED:
	case IORING_OP_READ:
		return K_READ;
	case IORING_OP_WRITEV:
	case IORING_OP_WRITE_FIXED:
	case IORING_OP_WRITE:
		return K_WRITE;
	case IORING_OP_FSYNC:
		return K_FSYNC;
	case IORING_OP_SYNC_FILE_RANGE:
		return K_SYNC_FILE_RANGE;
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
		return K_OPEN;
	case IORING_OP_CLOSE:
		return K_CLOSE;
	}
	return K_NONE;
}

static __always_inline struct ring_request *place_of_ring_request(u64 key)
{
	u32 index = ((key >> 4) * 0x9E3779B97F4A7C15ull) >> 50;

	return bpf_map_lookup_elem(&ring_requests, &index);
}

/*
 * What the operation is about, from where its preparation has put it: the flags of an open, the file whose descriptor a
 * close is going to close. Slots of a ring's own table of files are no descriptors.
 */
static __attribute__((noinline)) int note_operation(struct ring_request *q, u64 req, u32 kind)
{
	u32 slot = 0;
	u64 flags = 0;
	s32 fd = -1;
	struct found f;

	if (!q)
		return 0;
	q->file = 0;
	q->flags = 0;
	if (kind == K_OPEN && field_exists(((struct io_open *)0)->how)) {
		READ_KERNEL(&flags, req, struct io_open, how.flags);
		q->flags = flags;
	} else if (kind == K_FSYNC && field_exists(((struct io_sync *)0)->flags)) {
		READ_KERNEL(&q->flags, req, struct io_sync, flags);
	} else if (kind == K_CLOSE && field_exists(((struct io_close *)0)->fd)) {
		READ_KERNEL(&slot, req, struct io_close, file_slot);
		READ_KERNEL(&fd, req, struct io_close, fd);
		if (slot)
			return 0;
		f = find(file_of(fd));
		if (!f.r)
			return 0;
		look_before_close(f.r, f.r->key);
		q->file = f.r->key;
	}
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx)
{
	struct io_kiocb *req = (void *)ctx[0];
	u32 kind = kind_of_op(req->opcode);
	struct ring_request *q;
	struct task *t;
	u64 key = 0;

	if (!kind)
		return 0;
	t = known_thread(bpf_get_current_pid_tgid());
	if (!t)
		return 0;
	if (!t->wanted && !(kind == K_CLOSE && state.tracked))
		return 0;
	/* As a number: the verifier allows no arithmetic on a typed pointer. */
	bpf_probe_read_kernel(&key, 8, ctx);
	q = place_of_ring_request(key);
	if (!q)
		return 0;
	q->key = key;
	q->submit_ns = bpf_ktime_get_ns();
	if (kind > K_WRITE)
		note_operation(q, key, kind);
	return 0;
}

/* An operation that moves no data has completed. */
static __attribute__((noinline)) int uring_rare(struct ring_request *q, u64 req, u32 kind, s32 res)
{
	struct found f;
	u64 file = 0;

	if (!q)
		return 0;
	if (kind == K_OPEN) {
		if (res >= 0 && (file = file_of(res)))
			opened(file, res, q->flags, q->submit_ns, bpf_ktime_get_ns(), F_IO_URING);
		return 0;
	}
	if (kind == K_CLOSE) {
		__sync_fetch_and_add(&descriptor_epoch, 1);
		f = find(q->file);
		if (f.r) {
			f.r->flags |= F_IO_URING;
			release(f.r, q->submit_ns, 0);
		}
		return 0;
	}
	if (kind == K_FSYNC && (q->flags & IORING_FSYNC_DATASYNC))
		kind = K_FDATASYNC;
	READ_KERNEL(&file, req, struct io_kiocb, file);
	struct sync_call c = { file, q->submit_ns, kind, -1, res, HOW_ASYNC };

	synced(&c);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *ctx)
{
	u64 req = ctx[1], key, enter, now, file = 0;
	struct io_uring_cqe *cqe = (void *)ctx[2];
	struct ring_request *q;
	struct file_request *r;
	u32 kind, place;
	u8 op = 0;
	s32 res;

	if (!req)
		return 0;
	READ_KERNEL(&op, req, struct io_kiocb, opcode);
	kind = kind_of_op(op);
	if (!kind)
		return 0;
	key = req;
	q = place_of_ring_request(key);
	if (!q || q->key != key)
		return 0;
	q->key = 0;
	enter = q->submit_ns;
	res = cqe->res;
	if (kind > K_WRITE) {
		uring_rare(q, req, kind, res);
		return 0;
	}
	now = bpf_ktime_get_ns();
	READ_KERNEL(&file, req, struct io_kiocb, file);
	if (!file)
		return 0;
	r = request_behind(file, -1, &place);
	if (!r)
		return 0;
	r->flags |= F_IO_URING;
	returned(r, enter, now, res, HOW_ASYNC | (kind == K_WRITE ? HOW_WRITE : 0), 1, 1);
	return 0;
}
