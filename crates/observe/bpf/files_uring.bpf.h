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
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
	IORING_OP_OPENAT2 = 28,
};

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
	}
	return K_NONE;
}

static __always_inline struct ring_request *place_of_ring_request(u64 key)
{
	u32 index = ((key >> 4) * 0x9E3779B97F4A7C15ull) >> 50;

	return bpf_map_lookup_elem(&ring_requests, &index);
}

SEC("tp_btf/io_uring_submit_req")
int uring_submit(u64 *ctx)
{
	struct io_kiocb *req = (void *)ctx[0];
	struct ring_request *q;
	struct task *t;
	u64 who, key = 0;

	if (!kind_of_op(req->opcode))
		return 0;
	who = bpf_get_current_pid_tgid();
	t = place_of_thread(who);
	if (!t)
		return 0;
	if (unlikely(t->tid != (u32)who))
		meet(t, who);
	if (!t->wanted)
		return 0;
	/* As a number: the verifier lets nobody calculate with a pointer that it knows the type of. */
	bpf_probe_read_kernel(&key, 8, ctx);
	q = place_of_ring_request(key);
	if (!q)
		return 0;
	q->key = key;
	q->submit_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_complete(u64 *ctx)
{
	u64 req = ctx[1], key, enter, now, place, file = 0;
	struct io_uring_cqe *cqe = (void *)ctx[2];
	struct ring_request *q;
	struct file_request *r;
	struct found f;
	u32 kind;
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
	now = bpf_ktime_get_ns();
	if (kind == K_OPEN) {
		if (res >= 0 && (file = file_of(res)))
			opened(file, res, 0, enter, now, F_IO_URING);
		return 0;
	}
	READ_KERNEL(&file, req, struct io_kiocb, file);
	if (!file || (kind > K_WRITE))
		return 0;
	f = find(file);
	r = f.r;
	if (!r)
		r = begin(file, -1, F_UNKNOWN_START, &place);
	if (!r)
		return 0;
	r->flags |= F_IO_URING;
	if (res > 0)
		account(r, enter, now, res, HOW_ASYNC | (kind == K_WRITE ? HOW_WRITE : 0), 1);
	else if (res < 0)
		r->failed++;
	else if (kind == K_READ)
		r->empty++;
	return 0;
}
