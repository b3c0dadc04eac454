// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * The least a latency histogram costs: one program, at completion, that takes the start and the issue from the request, where
 * the kernel keeps them, and counts two powers of two per CPU. It knows neither process nor order nor single I/Os, does not
 * see whether a stamp is a cached one (docs/tracing.md), and there is no issue (0) where the queue keeps no statistics.
 */
typedef unsigned int u32;
typedef unsigned long long u64;
#define SEC(name) __attribute__((section(name), used))

struct request {
	u64 start_time_ns;
	u64 io_start_time_ns;
} __attribute__((preserve_access_index));

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;

enum { BPF_MAP_TYPE_PERCPU_ARRAY = 6, BINS = 64 };

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[BINS];
	u32 *key;
	u64 *value;
} whole SEC(".maps"), device SEC(".maps");

static inline __attribute__((always_inline)) u32 bin_of(u64 ns)
{
	u32 bin = 0;

	for (int step = 32; step; step >>= 1)
		if (ns >> step) {
			ns >>= step;
			bin += step;
		}
	return bin;
}

static inline __attribute__((always_inline)) void count(void *map, u64 from, u64 to)
{
	u32 bin = bin_of(to - from);
	u64 *ios;

	if (!from || from > to)
		return;
	ios = bpf_map_lookup_elem(map, &bin);
	if (ios)
		++*ios;
}

SEC("tp_btf/block_rq_complete")
int complete(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	u64 now = bpf_ktime_get_ns();

	count(&whole, rq->start_time_ns, now);
	count(&device, rq->io_start_time_ns, now);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
