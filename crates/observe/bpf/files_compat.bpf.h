/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * The kernel's types that files.bpf.c touches, and what differs between kernels. Oldest kernel: 5.17 (bpf_loop).
 */
#ifndef IOLENS_FILES_COMPAT_BPF_H
#define IOLENS_FILES_COMPAT_BPF_H

#include "compat.bpf.h"
#include "files_event.h"

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6 };

static u64 (*bpf_jiffies64)(void) = (void *)118;
static long (*bpf_probe_read_user)(void *dst, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel_str)(void *dst, u32 size, const void *from) = (void *)115;
static long (*bpf_loop)(u32 n, void *callback, void *context, u64 flags) = (void *)181;

struct fdtable {
	unsigned int max_fds;
	void **fd;
	unsigned long *close_on_exec;
	unsigned long *open_fds;
} CO_RE;
struct atomic_t___x {
	int counter;
} CO_RE;
struct files_struct {
	struct atomic_t___x count;
	struct fdtable *fdt;
} CO_RE;

struct qstr {
	const unsigned char *name;
} CO_RE;
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
} CO_RE;
struct path {
	struct dentry *dentry;
} CO_RE;
/*
 * file_ref_t (90ee6ed776c0, 6.13) counts from 0 for one holder; the atomic f_count before it counts from 1.
 */
struct counter {
	s64 counter;
};
struct file {
	struct inode *f_inode;
	struct path f_path;
	unsigned int f_flags;
	struct counter f_ref;
} CO_RE;
struct file___before_6_13 {
	struct counter f_count;
} CO_RE;
struct inode___files {
	u16 i_mode;
	u32 i_generation;
	s64 i_size;
} CO_RE;

/* Registers at the entry of a system call. */
struct pt_regs {
	unsigned long di, si, dx, r10, r8;
} CO_RE;
struct pt_regs___arm64 {
	unsigned long long regs[31];
	unsigned long long orig_x0;
} CO_RE;

struct signal_struct {
	struct atomic_t___x live;
} CO_RE;
struct task_struct___exit {
	struct signal_struct *signal;
} CO_RE;

struct io_kiocb {
	void *file;
	u8 opcode;
} CO_RE;
/* What preparing an operation leaves in its struct io_kiocb, all beginning with the file. */
struct open_how {
	u64 flags;
} CO_RE;
struct io_open {
	struct open_how how;
} CO_RE;
struct io_close {
	s32 fd;
	u32 file_slot;
} CO_RE;
struct io_sync {
	s32 flags;
} CO_RE;
struct io_uring_cqe {
	u64 user_data;
	s32 res;
} CO_RE;

#define READ_KERNEL(to, pointer, type, field) \
	bpf_probe_read_kernel(to, sizeof(*(to)), (void *)(pointer) + field_offset(((type *)0)->field))

#endif
