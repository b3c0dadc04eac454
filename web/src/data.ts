import type { FilesData } from "./files/data";

/**
 * What a report page is made of: the one JSON document embedded in it.
 *
 * Times are nanoseconds (`_ns`) or seconds (`_s`) since the recording's start. Absent is `null`, or a missing key,
 * never 0. `recording`, `devices` and `findings` are the same blocks as `iolens report --json` prints.
 *
 * Series are columns packed into text (see `codec.ts`), so that an hour of 10 000 I/Os a second stays under 2 MiB:
 * counts are exact, latencies and mean concurrency are rounded to 1/64 octave (at most 0.55 % off).
 */
export interface ReportData {
  /** Version of this document. */
  format: 1;
  /** Program and version that wrote it. */
  writer: string;
  recording: Recording;
  devices: DeviceStats[];
  findings: Finding[];
  /** What the charts can show: a set of devices each. The first is shown first. */
  scopes: Scope[];
  /** Devices in depth, those with most I/O first; not all of them if there are many. Missing in older reports. */
  depth?: Depth[];
  /** Several devices together, and what passes through links. Missing in older reports, and of one device. */
  sets?: (DeviceSet | LinkSet)[];
  /** Who did it: one row per process, cgroup or file and device. */
  actors: Actor[];
  /** Intervals in which I/Os are missing from the recording. */
  lossy: LossyInterval[];
  /** What limits the trust in these numbers, in words. */
  quality: QualityNote[];
  /** Remarks on the time line (phases of an experiment, clock steps). */
  marks: TimeMark[];
  /** File-level requests; missing without any. */
  files?: FilesData;
}

export interface Recording {
  /** As the user named it; used to print commands. */
  path: string | null;
  host: string | null;
  kernel: string | null;
  start_unix_s: number | null;
  duration_s: number;
  /** The part under study; the whole recording if missing. */
  from_s?: number;
  to_s?: number;
  /** `ebpf`, `counters` or `import:KIND`. */
  source: string;
  ios: number;
  /** I/Os known to be missing. `null`: not even that is known. */
  lost_ios: number | null;
  recorder: {
    cpu_percent: number | null;
    max_rss_bytes: number | null;
    disk_bytes: number | null;
    bytes_per_io: number | null;
  };
}

/** One class (reads, writes, ...) of one device over the whole recording. */
export interface ClassStats {
  ios: number;
  bytes: number;
  mean_us: number | null;
  p50_us: number | null;
  p90_us: number | null;
  p99_us: number | null;
  p999_us: number | null;
  max_us: number | null;
  queue_mean_us: number | null;
  device_mean_us: number | null;
  sequential_percent: number | null;
  /** Fewer than 30 I/Os: percentiles mean little. */
  low_n?: boolean;
}

export type ClassName = "read" | "write" | "discard" | "flush";

export interface DeviceStats {
  name: string;
  major: number;
  minor: number;
  read: ClassStats;
  write: ClassStats;
  discard: ClassStats;
  flush: ClassStats;
  busy_percent: number | null;
  busy_read_percent: number | null;
  busy_write_percent: number | null;
  util_io_ticks_percent: number | null;
  concurrency: {
    mean: number | null;
    p50: number | null;
    p75: number | null;
    p99: number | null;
    max: number | null;
  };
}

export type Severity = "info" | "warning" | "critical";

export interface Finding {
  /** `microburst`, `starvation`, `periodicity`, `saturation`, `util-disagreement`, `slow-io`, `io-error`, ... */
  kind: string;
  device: string | null;
  start_s: number;
  end_s: number;
  severity: Severity;
  summary: string;
  /** Keys carry their unit (`_us`, `_s`, `_bytes`, `_percent`, `_per_s`). */
  evidence: Record<string, unknown>;
}

/** A set of devices whose I/O is drawn together. Layers of one stack are never in one set. */
export interface Scope {
  label: string;
  /** Which devices, by name. */
  devices: string[];
  /** Why these, for people; shown under the selector. */
  note?: string;
  /** The whole recording first; then stretches in finer steps, around the findings. */
  levels: Level[];
  distributions: Distributions;
  /** Capacity and headroom (A18); `null` for several devices together. */
  capacity: Capacity | null;
}

/**
 * A stretch of time cut into `slots` slots of `step_ns`: slot `i` is
 * `[from_ns + i * step_ns, from_ns + (i + 1) * step_ns)`. An I/O belongs to the slot in which it completes.
 */
export interface Level {
  from_ns: number;
  step_ns: number;
  /** End of the last slot, which may be cut short. */
  to_ns: number;
  slots: number;
  /** Packed columns by name, each `slots` items long. A column that is missing is unknown, not zero. */
  cols: Partial<Record<ColumnName, string>>;
  heat?: Heat;
}

/**
 * `ios`: completions, `sec`: sectors of 512 bytes; latencies from the block layer's start to done as log codes of
 * nanoseconds, absent in slots without I/O. `busy`: thousandths of the slot with at least one I/O in flight.
 * `q_mean`: time-weighted mean of I/Os in flight as log code of thousandths, `q_max` their maximum.
 */
export type ColumnName =
  | "r_ios" | "r_sec" | "r_mean" | "r_p50" | "r_p90" | "r_p99" | "r_max"
  | "w_ios" | "w_sec" | "w_mean" | "w_p50" | "w_p90" | "w_p99" | "w_max"
  | "d_ios" | "d_sec" | "f_ios" | "f_max"
  | "busy" | "busy_r" | "busy_w" | "q_mean" | "q_max";

/**
 * Counts over time and latency. Column `i` covers `merge` slots of its level; row `k` covers latencies of
 * `[2^(k/4), 2^((k+1)/4))` ns. Each class is a packed list of: distance to the last filled column (the first: to 0), number of
 * filled rows, then per filled row its distance to the last filled row of that column (the first: to 0) and its count.
 */
export interface Heat {
  merge: number;
  read?: string;
  write?: string;
}

/** Over the whole recording. */
export interface Distributions {
  /**
   * Latency histograms by class and stage, 8 buckets per octave of ns: packed lists of pairs: distance to the last
   * filled bucket (the first: to 0), count.
   */
  latency: Partial<Record<ClassName, { total?: string; queue?: string; device?: string }>>;
  /** Request sizes: bucket `k` holds `[2^k, 2^(k+1))` bytes; triples of: distance, I/Os, sectors. */
  size: Partial<Record<ClassName, string>>;
  /**
   * Share of time with `k` I/Os in flight, exactly below 128 and thinned to 1/128 above; pairs of: distance, parts of
   * the time in 1e-9.
   */
  concurrency: { all?: string; read?: string; write?: string };
}

export interface Capacity {
  /** Highest throughput observed on a plateau. */
  max_iops: number | null;
  /** Mean latency at light load (less than 0.2 in flight, or the tenth of the time with least). */
  light_us: number | null;
  /** Knee N* = max_iops * light latency: how many I/Os the device works on at once. */
  knee_inflight: number | null;
  headroom_percent: number | null;
  /** `idle`, `parallel-headroom`, `near-knee`, `saturated`, `capacity-not-observed`, `inconsistent`. */
  state: string;
  /** Verdict in words. */
  summary: string;
}

/** What the analyses say of one device beside its row in the tables. */
export interface Depth {
  device: string;
  slots: { width_s: number; all: SlotGroup[]; read: SlotGroup[]; write: SlotGroup[] };
  /** The kernel's busy time against the exact one; `null` without counters or with losses. */
  util: { exact_percent: number; io_ticks_percent: number; expected_percent: number | null; sigma_pp: number | null; verdict: string } | null;
  stages: { s2d: StageStats; d2c: StageStats; s2c: StageStats; depth_at_issue: number | null; seeks: number; seek_p50_sectors: number | null; seek_p90_sectors: number | null; sequential_percent: number | null; turn_percent: number | null; bios?: BioStages | null };
  capacity: Capacity;
  rhythm: Rhythm[];
  /** Packed columns of log codes of ns: mean latency of all I/Os by completion and by arrival, where they differ most. */
  attribution: { from_ns: number; bin_ns: number; bins: number; differ_percent: number | null; completed: string; arrived: string };
}

/** Concurrency in the slots of one group: nearest-rank quantiles over slots. */
export interface SlotGroup {
  start_s: number;
  end_s: number;
  slots: number;
  touched: SlotQuantiles;
  sampled: SlotQuantiles;
  mean: SlotQuantiles;
  max: SlotQuantiles;
  touched_percent: number;
}

export interface SlotQuantiles {
  p50: number;
  p75: number;
  mean: number;
  max: number;
}

export interface StageStats {
  n: number;
  mean_us: number | null;
  p50_us: number | null;
  p99_us: number | null;
  max_us: number | null;
  share_percent: number | null;
}

/** The ways of single bios, with the names of `btt`: only imported traces know them. */
export type BioStages = Record<"q2g" | "g2i" | "q2m" | "i2d" | "m2d" | "d2c" | "q2c", StageStats>;

/** Devices together: busy is any I/O on any of them. */
export interface DeviceSet {
  name: string;
  devices: string[];
  /** Layers above them, whose I/Os would count twice. */
  left_out: string[];
  busy_percent: number | null;
  busy_read_percent: number | null;
  busy_write_percent: number | null;
  busy_both_percent: number | null;
  mean_busy_percent: number | null;
  max_busy_percent: number | null;
  concurrency: DeviceStats["concurrency"];
  /** As of a device; `null` if they would not fit into the page. */
  slots: Depth["slots"] | null;
}

/** Devices whose data go through one link, with what it carries. */
export interface LinkSet {
  name: string;
  devices: string[];
  limit_bytes_per_s: number;
  limit_source: string;
  streams: LinkStream[];
}

export interface LinkStream {
  class: ClassName;
  bytes: number;
  slot_s: number;
  bursts_found: number;
  /** The burst of most bytes. */
  largest: { start_s: number; end_s: number; bytes: number; peak_bytes_per_s: number; percent_of_limit: number; mean_1s_bytes_per_s: number } | null;
}

export interface Rhythm {
  class: ClassName;
  bursts: number;
  periodicity: {
    /** `periodic`, `tentative`, `not-periodic`, `insufficient-data`. */
    verdict: string;
    slot_s: number;
    period_s: number | null;
    period_low_s: number | null;
    period_high_s: number | null;
    p_value: number | null;
    cycles: number | null;
    onsets: number;
    onsets_in_step: number;
  };
}

export interface Actor {
  by: "process" | "cgroup" | "file";
  name: string;
  /** Process ids, cgroup path or file system, for people. */
  detail: string | null;
  device: string | null;
  /** `direct`, `writeback`, `metadata`, `unknown`: how far the name can be trusted as the cause. */
  origin: string | null;
  read: ActorClass;
  write: ActorClass;
  /** Share of the I/O time (sum of latencies) of its device. */
  time_percent: number | null;
}

export interface ActorClass {
  ios: number;
  bytes: number;
  mean_us: number | null;
  p99_us: number | null;
  max_us: number | null;
}

export interface LossyInterval {
  from_s: number;
  to_s: number;
  reason: string;
  ios: number | null;
  device: string | null;
}

export interface QualityNote {
  topic: string;
  level: "ok" | "info" | "warning";
  text: string;
}

export interface TimeMark {
  at_s: number;
  kind: string;
  text: string;
}
