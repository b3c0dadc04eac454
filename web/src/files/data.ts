/** The Files part of the report: what `iolens files` tells, and requests over time. Absent is `null`, never 0. */
export interface FilesData {
  requests: number;
  syncs: number;
  lost_requests: number;
  /** Opened before recording began: in sums, not in response times. */
  unknown_start: number;
  /** Medians are of one request in so many. */
  one_in: number;
  flags: Record<string, number>;
  peak: { start_s: number; length_s: number; per_s: number; ratio: number } | null;
  classes: ClassReport[];
  processes: Group[];
  files: Group[];
  over_time: OverTime;
  slowest: SlowRequest[];
  slowest_syncs: SlowRequest[];
  syncs_by_process: SyncGroup[];
  syncs_by_path: SyncGroup[];
  while_syncing: { device: string; seconds: number; writes: number; written_bytes: number; flushes: number; reads: number }[];
  /** Share of the block I/O's bytes that no request asked for at that time: writeback, metadata. */
  unattributed_percent: number | null;
}

export type Series = (number | null)[];

/** All series have an item per group of `step_s` from `from_s` on; the last group may be short. */
export interface OverTime {
  from_s: number;
  to_s: number;
  step_s: number;
  slot_s: number;
  classes: { class: string; n: number[]; per_s: number[]; median_us: Series; atomic_percent: Series }[];
  /** `all`, `in`, `out`; `null` of too many requests. */
  under_way: UnderWay[] | null;
}

export interface UnderWay {
  set: string;
  p50: number[];
  p75: number[];
  busy_percent: number[];
  slot_percent: number[];
  whole_busy_percent: number;
  whole_slot_percent: number;
}

export interface Part {
  n: number;
  low_n: boolean;
  median_us: number;
  p95_us: number;
}

export interface ClassTable {
  requests: number;
  per_s: number;
  total_median_us: number | null;
  total_p95_us: number | null;
  first_median_us: number | null;
  classical: { block_bytes: number; one_block_n: number; two_blocks_n: number; io_us: number; overhead_us: number; io2_us: number } | null;
  verdict: { valid: boolean; why: string } | null;
  direct: {
    open: Part | null;
    first_io: Part | null;
    second_io: Part | null;
    later_ios: Part | null;
    close: Part | null;
    gaps: Part | null;
    device: Part | null;
    cache_hit_percent: number | null;
    second_hit_percent: number | null;
  };
  atomic: { n: number; low_n: boolean; percent: number; low_percent: number; high_percent: number; pipelining_bound_percent: number | null } | null;
}

export interface SizeBin {
  over_bytes: number;
  to_bytes: number;
  n: number;
  low_n: boolean;
  total_median_us: number;
  total_low_us: number;
  total_high_us: number;
  first_median_us: number;
}

export interface ClassReport {
  class: string;
  all: ClassTable;
  peak: ClassTable | null;
  by_size: SizeBin[];
  steps: { block_bytes: number; io_us: number; overhead_us: number; bic_gain: number } | null;
  by_load: {
    n: number;
    deciles: { per_s: number; n: number; median_us: number }[];
    slope: number | null;
    slope_low: number | null;
    slope_high: number | null;
    spearman: number | null;
  } | null;
}

/** Requests of one process or file. Names are untrusted. */
export interface Group {
  key: string;
  requests: number;
  syncs: number;
  ios: number;
  bytes_in: number;
  bytes_out: number;
  call_s: number;
  device_s: number;
  cache_hit_percent: number | null;
  total_median_us: number | null;
}

export interface SyncGroup {
  key: string;
  n: number;
  low_n: boolean;
  failed: number;
  mean_us: number;
  p50_us: number;
  p95_us: number;
  p99_us: number;
  max_us: number;
}

export interface SlowIo {
  after_us: number;
  us: number;
  bytes: number;
  /** From memory; `null` for writes and io_uring. */
  cache_hit: boolean | null;
}

export interface SlowRequest {
  start_s: number;
  class: string;
  total_us: number;
  /** Inside open and data I/Os: what they are ranked by. */
  call_us: number;
  end_us: number;
  path: string | null;
  comm: string | null;
  tgid: number | null;
  ios: number;
  bytes: number;
  open_us: number | null;
  first_ios: SlowIo[];
  slowest_io: SlowIo | null;
  gaps_us: number | null;
  close_us: number | null;
  flags: string[];
}
