/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/*
 * Part of blkio.bpf.c: write-back that the kernel throttles before the block layer accounts it (block/blk-wbt.c), so that no
 * I/O shows the wait. At the end of each window of some 100 ms with I/O wbt says how far it has lowered the number of writes that
 * may be in flight: a step above 0 means that reads took longer than `wbt_lat_usec`.
 */
enum { THROTTLED_DEVICES = 256 };

/* By device number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THROTTLED_DEVICES);
	__type(key, u32);
	__type(value, struct wbt_throttled);
} wbt_throttled SEC(".maps");

/* A raw tracepoint (bdi, status, step, inflight), since e34cbd307477 (4.10): a kernel without wbt does not have it. */
SEC("raw_tp/wbt_timer")
int wbt_window(u64 *ctx)
{
	struct wbt_throttled fresh = {}, *known;
	s32 step = ctx[2];
	void *owner = 0;
	u32 dev = 0;

	if (step <= 0 || !field_exists(((struct backing_dev_info *)0)->owner))
		return 0;
	bpf_probe_read_kernel(&owner, 8, (void *)ctx[0] + field_offset(((struct backing_dev_info *)0)->owner));
	if (!owner)
		return 0;
	bpf_probe_read_kernel(&dev, 4, owner + field_offset(((struct device *)0)->devt));
	if (unwanted(dev))
		return 0;
	known = bpf_map_lookup_elem(&wbt_throttled, &dev);
	if (known) {
		/* One timer per device: nobody else changes this entry. */
		known->windows++;
		if (known->max_step < (u64)step)
			known->max_step = step;
		return 0;
	}
	fresh.windows = 1;
	fresh.max_step = step;
	bpf_map_update_elem(&wbt_throttled, &dev, &fresh, BPF_NOEXIST);
	return 0;
}
