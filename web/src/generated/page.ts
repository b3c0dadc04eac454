// Made from docs/schema/ by `make schema`; do not edit.

/**
 * How a device runs.
 */
export type CapacityState =
  | "idle"
  | "parallel-headroom"
  | "near-knee"
  | "saturated"
  | "throttled-elsewhere"
  | "capacity-not-observed"
  | "inconsistent";
/**
 * The four classes that the kernel keeps apart in its disk statistics.
 */
export type Class = "read" | "write" | "discard" | "flush";
/**
 * What may be said.
 */
export type PeriodicityVerdict = "periodic" | "tentative" | "not-periodic" | "insufficient-data";
/**
 * Which estimator a kernel has.
 */
export type Regime = "round-stats" | "allocated-too" | "touched-jiffy" | "start-touches" | "sampled";
/**
 * What to think of the kernel's figure.
 */
export type UtilVerdict = "ok" | "biased-high" | "biased-low" | "impossible";
/**
 * What a finding rests on. The variant says what was found; some kinds have a second form where the source says less.
 */
export type Evidence =
  | MicroburstEvidence
  | StallEvidence
  | LatencyChangeEvidence
  | LatencyModeEvidence
  | SlowMemberEvidence
  | BandwidthSaturationEvidence
  | QueueFullEvidence
  | PeriodicityEvidence
  | SaturationEvidence
  | UtilDisagreementEvidence
  | FsyncBoundEvidence
  | SmallSequentialEvidence
  | SlowIoEvidence
  | IoErrorEvidence
  | CachedReadsEvidence
  | WrittenBackEvidence
  | AveragedAveragesEvidence
  | LostEventsEvidence;
/**
 * Where a limit comes from, the most trustworthy first.
 */
export type LimitSource = "user" | "link" | "learned";
/**
 * What a burst has too many of.
 */
export type Measure = "bytes" | "ios";
/**
 * How far a stall reached.
 */
export type StallScope = "device" | "devices" | "array-member" | "array-members" | "array" | "host" | "all";
/**
 * Which shortage of CPU time explains that I/Os waited.
 */
export type CpuShortage = "late-timer" | "steal" | "pressure";
/**
 * How device time changes.
 */
export type LatencyChangeForm = "step" | "trend";
/**
 * How the slow ones lie.
 */
export type LatencyModeForm = "second-mode" | "tail";
/**
 * A model and how well it fits.
 */
export type Fit = {
  /**
   * Corrected Akaike criterion: smaller is better, differences below 2 mean nothing.
   */
  aicc: number;
  /**
   * Bins it rests on.
   */
  bins: number;
  /**
   * Root mean square of the relative residuals.
   */
  residual: number;
} & Fit1;
export type Fit1 =
  | {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      model: "mm1";
      /**
       * Mean service time in microseconds.
       */
      service_us: number;
    }
  | {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      model: "md1";
      /**
       * Service time in microseconds.
       */
      service_us: number;
    }
  | {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      model: "mmc";
      /**
       * How many are served at once.
       */
      servers: number;
      /**
       * Mean service time in microseconds.
       */
      service_us: number;
    }
  | (Usl & {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      model: "usl";
    });
/**
 * What shows that a writer waits for syncs.
 */
export type SyncSource = "calls" | "ios";
/**
 * How a coarse row's mean latency was made from the finer ones.
 */
export type AveragingRule = "weighted-by-ios" | "mean-of-means" | "mean-of-non-empty-means" | "other";
/**
 * Why I/Os are missing from the stream of [`super::Io`].
 */
export type LossReason =
  | "ring-full"
  | "slot-clash"
  | "writer-busy"
  | "disk-full"
  | "corrupt"
  | "retention"
  | "censored"
  | "import"
  | "unseen"
  | "request-ring-full"
  | "request-table-full"
  | "request-unwritten"
  | "unaccounted"
  | "not-recorded";
/**
 * What was found.
 */
export type FindingKind =
  | "microburst"
  | "stall"
  | "latency-step"
  | "latency-trend"
  | "latency-mode"
  | "slow-member"
  | "bandwidth-saturation"
  | "queue-full"
  | "periodicity"
  | "saturation"
  | "util-disagreement"
  | "fsync-bound"
  | "small-sequential"
  | "slow-io"
  | "io-error"
  | "page-cache"
  | "averaged-averages"
  | "lost-events";
/**
 * How much it matters.
 */
export type Severity = "info" | "warning" | "critical";
/**
 * How serious a [`Note`] is.
 */
export type NoteLevel = "ok" | "info" | "warning";
/**
 * Devices together, or behind one link: as in `report --json`, with less of what fills the file.
 */
export type SetOfPage = DevicesBlock | LinkBlock;

/**
 * What a report page is made of: the one JSON document embedded in it.
 *
 * Times are nanoseconds (`_ns`) or seconds (`_s`) since the recording's start. Absent is `null`, or a missing key, never 0.
 * `recording`, `devices` and `findings` are the same blocks as `iolens report --json` prints.
 *
 * Series are columns packed into text (`pack.rs`, `codec.ts`), so that an hour of 10 000 I/Os a second stays under 2 MiB:
 * counts are exact, latencies and mean concurrency are rounded to 1/64 octave (at most 0.55 % off).
 */
export interface PageData {
  /**
   * Attribution: one row per process, cgroup or file and device.
   */
  actors: ActorBlock[];
  /**
   * Devices in depth, those with most I/O first; not all of them if there are many.
   */
  depth: DepthBlock[];
  /**
   * The devices it is about, in the order of their numbers.
   */
  devices: DeviceStats[];
  /**
   * File-level requests; missing without any.
   */
  files?: FilesBlock | null;
  /**
   * Conclusions, the most severe first.
   */
  findings: FindingBlock[];
  /**
   * Version of this document.
   */
  format: number;
  /**
   * Of a file: what the application in it can be asked.
   */
  inside?: InsideBlock | null;
  /**
   * Intervals in which I/Os are missing from the recording.
   */
  lossy: LossBlock[];
  /**
   * Remarks on the time line: phases of an experiment, clock steps.
   */
  marks: MarkBlock[];
  /**
   * What limits the trust in these numbers, in words.
   */
  quality: Note[];
  recording: Recording;
  /**
   * What the charts can show; the first is shown first.
   */
  scopes: ScopeBlock[];
  /**
   * Several devices together, and what passes through links.
   */
  sets: SetOfPage[];
  /**
   * The rows of imported tables; missing if the recording holds anything else.
   */
  tables?: TablesBlock | null;
  /**
   * Of a page that a server made: where it stands in what the server knows.
   */
  view?: ViewBlock | null;
  /**
   * Program and version that wrote it.
   */
  writer: string;
}
/**
 * A row of the table.
 */
export interface ActorBlock {
  /**
   * What a row stands for: a process, a control group or a file.
   */
  by: string;
  /**
   * What further identifies it: process ids, an inode, or the analyses of a device.
   */
  detail: string | null;
  /**
   * The kernel's name of the disk or layer.
   */
  device: string | null;
  /**
   * As the kernel or the program names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * How far the name can be trusted as the cause; `null` of control groups and files.
   */
  origin: string | null;
  read: ActorFlow;
  /**
   * Share of the sum of latencies of all I/Os of the device.
   */
  time_percent: number | null;
  write: ActorFlow;
}
/**
 * Reads or writes of one actor; latencies start to done.
 */
export interface ActorFlow {
  /**
   * Bytes they moved.
   */
  bytes: number;
  /**
   * Completed I/Os: n of the latencies.
   */
  ios: number;
  /**
   * The longest.
   */
  max_us: number | null;
  /**
   * Mean latency in microseconds.
   */
  mean_us: number | null;
  /**
   * 99th percentile, nearest rank, within 1/32.
   */
  p99_us: number | null;
}
/**
 * What the analyses say of one device beside its row in the tables.
 */
export interface DepthBlock {
  attribution: AttributionBlock;
  capacity: CapacityBlock;
  /**
   * The kernel's name of the disk or layer.
   */
  device: string;
  /**
   * Whether reads and writes come back; those with any.
   */
  rhythm: Rhythm[];
  slots: SlotsBlock;
  stages: StagesSummary;
  /**
   * The kernel's busy time against the exact one; `null` without counters or with losses.
   */
  util: UtilCheck | null;
}
/**
 * Mean latencies of all I/Os by the time of their completion and by that of their arrival, as packed log codes of ns,
 * where the two differ most.
 */
export interface AttributionBlock {
  /**
   * Mean latency of all I/Os, once in the second in which they were done (as iostat and the charts above do it) and once in the second in which they came. Where the curves part, a stall is shown later than it began.
   */
  arrived: string;
  /**
   * Mean latency of all I/Os, once in the second in which they were done (as iostat and the charts above do it) and once in the second in which they came. Where the curves part, a stall is shown later than it began.
   */
  bin_ns: number;
  /**
   * Mean latency of all I/Os, once in the second in which they were done (as iostat and the charts above do it) and once in the second in which they came. Where the curves part, a stall is shown later than it began.
   */
  bins: number;
  /**
   * Mean latency of all I/Os, once in the second in which they were done (as iostat and the charts above do it) and once in the second in which they came. Where the curves part, a stall is shown later than it began.
   */
  completed: string;
  /**
   * Mean latency of all I/Os, once in the second in which they were done (as iostat and the charts above do it) and once in the second in which they came. Where the curves part, a stall is shown later than it began.
   */
  differ_percent: number | null;
  /**
   * Beginning, in nanoseconds since the recording's start.
   */
  from_ns: number;
}
/**
 * Capacity and headroom of one device (A18) as the page reads it.
 */
export interface CapacityBlock {
  /**
   * What is left between the mean load and the highest throughput observed. Not extrapolated beyond what was seen.
   */
  headroom_percent: number | null;
  /**
   * How many I/Os the device works on at once. Beyond it, more concurrency only buys more waiting.
   */
  knee_inflight: number | null;
  /**
   * Mean latency while hardly anything else was in flight.
   */
  light_us: number | null;
  /**
   * The plateau of throughput against I/Os in flight, as far as it was observed.
   */
  max_iops: number | null;
  state: CapacityState;
  /**
   * What it says, in a sentence.
   */
  summary: string;
}
/**
 * Whether the load of one class comes back.
 */
export interface Rhythm {
  /**
   * Stretches of submissions beyond what the background explains; with a limit of yours, those that reach half of it.
   */
  bursts: number;
  class: Class;
  periodicity: PeriodicityBlock;
}
/**
 * Whether a load comes back, also when it does not.
 */
export interface PeriodicityBlock {
  /**
   * Of the logarithm of KiB, at the period.
   */
  autocorrelation: number | null;
  /**
   * All clocks, the surest first.
   */
  clocks: Clock[];
  /**
   * Periods from its first to its last beat.
   */
  cycles: number | null;
  /**
   * Coefficient of variation of the gaps.
   */
  gap_cv: number | null;
  /**
   * Median absolute deviation of the gaps.
   */
  gap_mad_s: number | null;
  /**
   * Mean time from one onset of activity to the next.
   */
  gap_mean_s: number | null;
  /**
   * Beginnings of activity after quiet; in step: those a whole number of periods after the one before.
   */
  onsets: number;
  /**
   * Onsets that keep its time, of those.
   */
  onsets_in_step: number;
  /**
   * How likely chance shows a chain like it anywhere.
   */
  p_value: number | null;
  /**
   * Time between returns, fitted to the onsets that keep step, with its 95 % interval.
   */
  period_high_s: number | null;
  /**
   * Time between returns, fitted to the onsets that keep step, with its 95 % interval.
   */
  period_low_s: number | null;
  /**
   * The period of the surest clock, with its 95 % interval.
   */
  period_s: number | null;
  /**
   * Resolution of the times; 0 for single I/Os.
   */
  slot_s: number;
  verdict: PeriodicityVerdict;
}
/**
 * One clock.
 */
export interface Clock {
  /**
   * Periods from its first to its last beat.
   */
  cycles: number;
  /**
   * First and last beat, in seconds since the window's beginning.
   */
  from_s: number;
  /**
   * Onsets that keep its time.
   */
  in_step: number;
  /**
   * Standard deviation of the time between beats, as a share of the period.
   */
  jitter: number;
  /**
   * How likely chance shows a chain like it anywhere.
   */
  p_value: number;
  /**
   * Its 95 % interval: of a schedule by the line through its beats, of a timer that starts anew by its steps.
   *
   * @minItems 2
   * @maxItems 2
   */
  period_ci_s: [number, number] | null;
  /**
   * The period in seconds.
   */
  period_s: number;
  /**
   * See above.
   */
  to_s: number;
}
/**
 * Concurrency in slots of time, in groups.
 */
export interface SlotsBlock {
  /**
   * Reads, writes, discards and flushes together.
   */
  all: SlotGroupBlock[];
  /**
   * I/Os that read data.
   */
  read: SlotGroupBlock[];
  /**
   * Time is cut into slots of 2 ms, grouped by 20 minutes (or the whole recording). Each row gives the median and the upper quartile over the slots of its group; n is their number.
   */
  width_s: number;
  /**
   * I/Os that write data, also the empty one that carries a flush.
   */
  write: SlotGroupBlock[];
}
/**
 * The slots of one stretch of time: nearest-rank quantiles over them.
 */
export interface SlotGroupBlock {
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Most at once in a slot.
   */
  max: SlotQuantiles;
  /**
   * Time-weighted mean in a slot.
   */
  mean: SlotQuantiles;
  /**
   * In flight at a slot's beginning.
   */
  sampled: SlotQuantiles;
  /**
   * How many: n of every quantile.
   */
  slots: number;
  /**
   * Beginning, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * Requests that touch a slot.
   */
  touched: SlotQuantiles;
  /**
   * Share of slots that at least one I/O touches: utilisation in the sense of slots. It exceeds the exact busy time.
   */
  touched_percent: number;
}
/**
 * Median and upper quartile over the slots of a group (nearest rank), and the extremes.
 */
export interface SlotQuantiles {
  /**
   * Largest.
   */
  max: number;
  /**
   * Mean.
   */
  mean: number;
  /**
   * Median.
   */
  p50: number;
  /**
   * 75th percentile.
   */
  p75: number;
}
/**
 * What [`Stages`] says.
 */
export interface StagesSummary {
  /**
   * How single bios went; `None` where the source saw requests only, as the tracer does.
   */
  bios: BioSummary | null;
  /**
   * What reads and writes cost that had the device to themselves (A18).
   *
   * @minItems 2
   * @maxItems 2
   */
  costs: [Cost | null, Cost | null];
  /**
   * Issue to completion.
   */
  d2c: Stage;
  /**
   * Mean number already issued when a request is issued (queue depth at D, itself not counted).
   */
  depth_at_issue: number | null;
  /**
   * Start to completion.
   */
  s2c: Stage;
  /**
   * Start to issue.
   */
  s2d: Stage;
  /**
   * Median seek distance in sectors of 512 bytes.
   */
  seek_p50_sectors: number | null;
  /**
   * 90th percentile.
   */
  seek_p90_sectors: number | null;
  /**
   * Requests that follow another with a known place: n of the seek distances.
   */
  seeks: number;
  /**
   * Percent that begin where the one before them, of whatever class, ended.
   */
  sequential_percent: number | null;
  /**
   * Percent of issues that change from reading to writing or back.
   */
  turn_percent: number | null;
}
/**
 * The ways of bios, with the names of `btt`. A request counts once for each bio in it: that is what `btt` counts.
 */
export interface BioSummary {
  /**
   * Issued to completed.
   */
  d2c: Stage;
  /**
   * Request allocated to inserted into the scheduler; none without a scheduler.
   */
  g2i: Stage;
  /**
   * Inserted to issued.
   */
  i2d: Stage;
  /**
   * Merged to issued.
   */
  m2d: Stage;
  /**
   * Queued to completed: the whole of which the others are shares.
   */
  q2c: Stage;
  /**
   * Queued to request allocated.
   */
  q2g: Stage;
  /**
   * Queued to merged into an existing request.
   */
  q2m: Stage;
}
/**
 * One stage.
 */
export interface Stage {
  /**
   * Longest.
   */
  max_us: number | null;
  /**
   * Mean.
   */
  mean_us: number | null;
  /**
   * Requests: n of everything.
   */
  n: number;
  /**
   * Median.
   */
  p50_us: number | null;
  /**
   * 99th percentile.
   */
  p99_us: number | null;
  /**
   * Share of start to done, in percent of the sums.
   */
  share_percent: number | null;
}
/**
 * What one I/O of a class costs.
 */
export interface Cost {
  /**
   * I/Os alone on the device that this rests on.
   */
  n: number;
  /**
   * Per I/O, in microseconds of a server.
   */
  per_io_us: number;
  /**
   * Per KiB, in microseconds of a server; 0 if all sizes were the same.
   */
  per_kib_us: number;
}
/**
 * A2's answer for one device.
 */
export interface UtilCheck {
  /**
   * Whether the kernel counted what its estimator must; `null` if that is not known. Where it did not, the estimator explains
   * nothing: I/Os are missing, or the samples cover another time.
   */
  estimator_agrees: boolean | null;
  /**
   * Measure of the union of all `[start, done)`, from events.
   */
  exact_percent: number;
  /**
   * What this kernel's estimator must count for these I/Os; `None` if the kernel or its HZ is not known.
   */
  expected_percent: number | null;
  /**
   * What the kernel counted.
   */
  io_ticks_percent: number;
  /**
   * The estimator.
   */
  regime: Regime | null;
  /**
   * One standard deviation of the kernel's figure for I/Os shorter than a jiffy, in percentage points.
   */
  sigma_pp: number | null;
  /**
   * The judgement: a difference beyond three sigma and one percentage point is a bias.
   */
  verdict: UtilVerdict;
}
/**
 * One device over the whole window.
 */
export interface DeviceStats {
  /**
   * Where an imported table says it of all classes together only.
   */
  all?: AllClasses | null;
  /**
   * Share of time with at least one I/O of this class in flight; `both`: of reading and of writing at once.
   */
  busy_both_percent: number | null;
  /**
   * Share of time with at least one I/O issued to the driver and not yet done: without what waits in the kernel.
   */
  busy_device_percent: number | null;
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. A device that serves many I/Os at once can be 100 % busy and far from its limit. Where slots are merged for the view, the light area behind reaches up to the highest of the finer slots.
   */
  busy_percent: number | null;
  /**
   * Share of time with at least one I/O of this class in flight; `both`: of reading and of writing at once.
   */
  busy_read_percent: number | null;
  /**
   * Share of time with at least one I/O of this class in flight; `both`: of reading and of writing at once.
   */
  busy_write_percent: number | null;
  concurrency: Concurrency;
  discard: ClassSummary;
  flush: ClassSummary;
  /**
   * I/Os that happened and could not be recorded, by reason. Their time is hatched in the charts where they can change a slot by more than 1 %: each is as likely at any moment of the time in which it may have completed.
   */
  lost_ios: number | null;
  /**
   * Major and minor device number.
   */
  major: number;
  /**
   * Major and minor device number.
   */
  minor: number;
  /**
   * As the kernel or the program names it. Untrusted: escape it where it is shown.
   */
  name: string;
  read: ClassSummary;
  /**
   * The kernel's own estimate of busy time, as iostat prints it. How far it is off depends on the kernel version; see data quality.
   */
  util_io_ticks_percent: number | null;
  write: ClassSummary;
}
/**
 * What a table says of all classes of a device together.
 */
export interface AllClasses {
  /**
   * Bytes they moved.
   */
  bytes: number | null;
  /**
   * I/Os completed.
   */
  ios: number | null;
  /**
   * Mean time from start to completion.
   */
  mean_us: number | null;
  /**
   * Mean of the obsolete `svctm`.
   */
  service_us: number | null;
}
/**
 * Time-weighted distribution of the number in flight (A3), exact from events.
 */
export interface Concurrency {
  /**
   * The highest level that lasted.
   */
  max: number | null;
  /**
   * `∫N/T`.
   */
  mean: number | null;
  /**
   * Median over time.
   */
  p50: number | null;
  /**
   * 75th percentile over time.
   */
  p75: number | null;
  /**
   * 99th percentile over time.
   */
  p99: number | null;
}
/**
 * The answer for one class of one device. Latencies are start to done (S2C, what `iostat` calls await) unless named
 * otherwise; quantiles are nearest rank, exact up to 65536 I/Os and within 1/256 beyond.
 */
export interface ClassSummary {
  /**
   * Bytes they moved; `None` if the source does not say.
   */
  bytes: number | null;
  /**
   * Mean of issue to done (D2C): driver and device.
   */
  device_mean_us: number | null;
  /**
   * Of them failed; `None` if the source does not say.
   */
  errors: number | null;
  /**
   * Completed I/Os; `None` if the source does not say (imported tables may know bytes and no I/Os, or neither).
   */
  ios: number | null;
  /**
   * Fewer than 30 I/Os: quantiles mean little.
   */
  low_n: boolean;
  /**
   * The longest; an interval without completions that it covers was blocked, not idle.
   */
  max_us: number | null;
  /**
   * Mean latency in microseconds.
   */
  mean_us: number | null;
  /**
   * Merges into them, as the kernel counts them; `None` if the source does not say.
   */
  merges: number | null;
  /**
   * 95 % interval of the median, by order statistics; `None` with too few I/Os to bound it, as below.
   *
   * @minItems 2
   * @maxItems 2
   */
  p50_ci_us: [number, number] | null;
  /**
   * Median.
   */
  p50_us: number | null;
  /**
   * 75th percentile.
   */
  p75_us: number | null;
  /**
   * The same of the 90th percentile.
   *
   * @minItems 2
   * @maxItems 2
   */
  p90_ci_us: [number, number] | null;
  /**
   * 90th percentile.
   */
  p90_us: number | null;
  /**
   * 95th percentile.
   */
  p95_us: number | null;
  /**
   * The same of the 99.9th percentile.
   *
   * @minItems 2
   * @maxItems 2
   */
  p999_ci_us: [number, number] | null;
  /**
   * 99.9th percentile.
   */
  p999_us: number | null;
  /**
   * The same of the 99th percentile.
   *
   * @minItems 2
   * @maxItems 2
   */
  p99_ci_us: [number, number] | null;
  /**
   * 99th percentile.
   */
  p99_us: number | null;
  /**
   * Mean of start to issue: time in the kernel's queues. `None` if the source has no start.
   */
  queue_mean_us: number | null;
  /**
   * Percent of I/Os whose first sector is where the previous one of the same device and class, in the order of
   * start, ended. `None` without sectors or with fewer than two I/Os.
   */
  sequential_percent: number | null;
}
/**
 * The part of a report of requests that the page draws.
 */
export interface FilesBlock {
  /**
   * Latency of read, write and sync calls by file.
   */
  calls: FileCalls[];
  /**
   * Requests that read, wrote, did both, or synced; those that occurred.
   */
  classes: ClassReport[];
  /**
   * The files with most time in calls.
   */
  files: Group[];
  /**
   * How many requests each flag is on.
   */
  flags: {
    [k: string]: number | undefined;
  };
  /**
   * I/Os that happened and could not be recorded, by reason. Their time is hatched in the charts where they can change a slot by more than 1 %: each is as likely at any moment of the time in which it may have completed.
   */
  lost_requests: number;
  /**
   * Medians are of one request in so many.
   */
  one_in: number;
  over_time: FilesOverTime;
  /**
   * The busiest stretch.
   */
  peak: PeakWindow | null;
  /**
   * Those with most time in calls.
   */
  processes: Group[];
  /**
   * Files opened, used and closed; syncs are counted apart.
   */
  requests: number;
  /**
   * Those that spent most time inside calls.
   */
  slowest: SlowRequest[];
  /**
   * Those that spent most time inside calls.
   */
  slowest_syncs: SlowRequest[];
  /**
   * A writer that sends, waits until a flush or a forced write is over, and goes on: at least half of the time from one sync's end to the next one's went by in syncs, and it submitted nothing meanwhile. From sync calls where files were recorded, otherwise from flushes and forced writes on the device.
   */
  syncs: number;
  /**
   * Who waited longest for syncs, and for which files.
   */
  syncs_by_path: SyncGroup[];
  /**
   * Who waited longest for syncs, and for which files.
   */
  syncs_by_process: SyncGroup[];
  /**
   * Percent of the bytes of block I/O that no request asked for at that time: write-back, metadata.
   */
  unattributed_percent: number | null;
  /**
   * Opened before recording began: in sums, not in response times.
   */
  unknown_start: number;
  /**
   * What the devices under synced files did while syncs waited.
   */
  while_syncing: Meanwhile[];
}
/**
 * The calls on one file.
 */
export interface FileCalls {
  /**
   * Its path. Untrusted: escape it where it is shown.
   */
  key: string;
  /**
   * Calls that read data.
   */
  read: CallSummary | null;
  /**
   * `fsync`, `fdatasync`, `sync_file_range`, `syncfs`.
   */
  sync: CallSummary | null;
  /**
   * Calls that wrote data.
   */
  write: CallSummary | null;
}
/**
 * Calls of one kind on one file.
 */
export interface CallSummary {
  /**
   * Fewer than 30.
   */
  low_n: boolean;
  /**
   * Longest; of reads beside slower writes of one descriptor, or the reverse, by their histogram.
   */
  max_us: number | null;
  /**
   * Mean duration in microseconds; of reads beside writes of one descriptor by their histogram.
   */
  mean_us: number | null;
  /**
   * How many.
   */
  n: number;
  /**
   * Median (nearest rank); `None` unless all are known one by one or by a histogram.
   */
  p50_us: number | null;
  /**
   * 99th percentile (nearest rank), as the median.
   */
  p99_us: number | null;
  /**
   * How far off the percentiles (and what else comes from a histogram) may be; 0: they are exact. `None` without them.
   */
  quantile_error_percent: number | null;
  /**
   * How many of them are known one by one.
   */
  timed: number;
}
/**
 * Everything about one class.
 */
export interface ClassReport {
  /**
   * Over all.
   */
  all: ClassTable;
  /**
   * A11: second I/O of two-block requests against load.
   */
  by_load: DurationByLoad | null;
  /**
   * A7: by size.
   */
  by_size: SizeBin[];
  /**
   * Its name.
   */
  class: string;
  /**
   * Over the peak; `None` without a peak.
   */
  peak: ClassTable | null;
  /**
   * A7: steps, if there are.
   */
  steps: Steps | null;
}
/**
 * The table of one class over all of the recording, or over its peak.
 */
export interface ClassTable {
  /**
   * A10.
   */
  atomic: AtomicShare | null;
  /**
   * A9 as it was done by hand; `None` where it does not apply.
   */
  classical: Classical | null;
  /**
   * A9 as measured.
   */
  direct: Direct;
  /**
   * Median first delay, in microseconds.
   */
  first_median_us: number | null;
  /**
   * Per second.
   */
  per_s: number;
  /**
   * Requests.
   */
  requests: number;
  /**
   * Median response time (open to the last data I/O's exit), in microseconds.
   */
  total_median_us: number | null;
  /**
   * 95th percentile.
   */
  total_p95_us: number | null;
  /**
   * Why it applies or does not; `None` without requests of one block, or of two.
   */
  verdict: ClassicalVerdict | null;
}
/**
 * A share with its uncertainty.
 */
export interface AtomicShare {
  /**
   * Its upper end.
   */
  high_percent: number;
  /**
   * Fewer than 30.
   */
  low_n: boolean;
  /**
   * Lower end of Wilson's 95 % interval.
   */
  low_percent: number;
  /**
   * Requests with at least one data I/O.
   */
  n: number;
  /**
   * Percent of them with exactly one.
   */
  percent: number;
  /**
   * Percent of the response time that was spent in the others: the most that pipelining could hide.
   */
  pipelining_bound_percent: number | null;
}
/**
 * The classical decomposition: `first delay = overhead + I/O`, `total(2 blocks) = first delay + I/O`.
 */
export interface Classical {
  /**
   * Bytes of one I/O.
   */
  block_bytes: number;
  /**
   * The other estimate of an I/O: median of total less first delay of two-block requests, in microseconds.
   */
  io2_us: number;
  /**
   * Cost of an I/O: the difference, in microseconds.
   */
  io_us: number;
  /**
   * How many.
   */
  one_block_n: number;
  /**
   * Median total of requests of up to one block, in microseconds, and how many.
   */
  one_block_us: number;
  /**
   * Cost of everything else: one block less one I/O, in microseconds.
   */
  overhead_us: number;
  /**
   * How many.
   */
  two_blocks_n: number;
  /**
   * Median total of requests of more than one and up to two blocks, in microseconds.
   */
  two_blocks_us: number;
}
/**
 * The direct decomposition; a part that no request has is `None`.
 */
export interface Direct {
  /**
   * Percent of synchronous reads that found their data in memory.
   */
  cache_hit_percent: number | null;
  /**
   * The close call.
   */
  close: CostPart | null;
  /**
   * Block I/O inside the calls.
   */
  device: CostPart | null;
  /**
   * The first data I/O.
   */
  first_io: CostPart | null;
  /**
   * The program's own time between calls.
   */
  gaps: CostPart | null;
  /**
   * Those after the first.
   */
  later_ios: CostPart | null;
  /**
   * The open call.
   */
  open: CostPart | null;
  /**
   * The same of second I/Os.
   */
  second_hit_percent: number | null;
  /**
   * The second.
   */
  second_io: CostPart | null;
}
/**
 * Median and tail of one part.
 */
export interface CostPart {
  /**
   * Fewer than 30.
   */
  low_n: boolean;
  /**
   * Median, in microseconds.
   */
  median_us: number;
  /**
   * Requests that have this part.
   */
  n: number;
  /**
   * 95th percentile (nearest rank), in microseconds.
   */
  p95_us: number;
}
/**
 * Whether the classical numbers can be believed.
 */
export interface ClassicalVerdict {
  /**
   * They can.
   */
  valid: boolean;
  /**
   * Why, or why not.
   */
  why: string;
}
/**
 * Duration against load.
 */
export interface DurationByLoad {
  /**
   * By tenths of the load; fewer if loads repeat.
   */
  deciles: Decile[];
  /**
   * I/Os.
   */
  n: number;
  /**
   * Microseconds per (request per second): Theil and Sen's median of slopes. `None` if the load did not vary.
   */
  slope: number | null;
  /**
   * Its upper end.
   */
  slope_high: number | null;
  /**
   * 95 % interval of the slope (Sen 1968, by Kendall's variance).
   */
  slope_low: number | null;
  /**
   * Spearman's rank correlation.
   */
  spearman: number | null;
}
/**
 * I/Os of one tenth of the loads.
 */
export interface Decile {
  /**
   * Median duration, in microseconds.
   */
  median_us: number;
  /**
   * I/Os.
   */
  n: number;
  /**
   * Mean load, in requests per second.
   */
  per_s: number;
}
/**
 * Requests of a range of sizes.
 */
export interface SizeBin {
  /**
   * Median of open to first exit, in microseconds.
   */
  first_median_us: number;
  /**
   * Too few for a stable median.
   */
  low_n: boolean;
  /**
   * Requests.
   */
  n: number;
  /**
   * More than so many bytes ...
   */
  over_bytes: number;
  /**
   * ... and at most so many.
   */
  to_bytes: number;
  /**
   * Its upper end.
   */
  total_high_us: number;
  /**
   * 95 % confidence interval of that median, by order statistics.
   */
  total_low_us: number;
  /**
   * Median of open to last exit, in microseconds.
   */
  total_median_us: number;
}
/**
 * Response time as a step function of size: `overhead + ceil(size / block) * io`.
 */
export interface Steps {
  /**
   * By how much the Bayesian information criterion prefers it to a straight line; more than 10 is decisive.
   */
  bic_gain: number;
  /**
   * Bytes of one I/O.
   */
  block_bytes: number;
  /**
   * Cost of each I/O (height of a step), in microseconds.
   */
  io_us: number;
  /**
   * What is paid once, in microseconds; below zero if the first I/O costs less than those after it.
   */
  overhead_us: number;
}
/**
 * A group of requests.
 */
export interface Group {
  /**
   * Bytes read by calls.
   */
  bytes_in: number;
  /**
   * Bytes written by calls.
   */
  bytes_out: number;
  /**
   * Percent of reads that found their data in memory; `None` without synchronous reads.
   */
  cache_hit_percent: number | null;
  /**
   * Seconds inside calls: open, data I/Os, sync, close.
   */
  call_s: number;
  /**
   * Bytes of that block I/O.
   */
  device_bytes: number;
  /**
   * Seconds of block I/O inside those calls, as far as they can be laid to them.
   */
  device_s: number;
  /**
   * Data I/Os.
   */
  ios: number;
  /**
   * Its name. Untrusted: escape it where it is shown.
   */
  key: string;
  /**
   * Requests, syncs included.
   */
  requests: number;
  /**
   * Its syncs.
   */
  sync: SyncSummary | null;
  /**
   * Syncs.
   */
  syncs: number;
  /**
   * Median response time of its requests of data, in microseconds.
   */
  total_median_us: number | null;
  /**
   * Data I/Os that waited for a device or slept otherwise.
   */
  waited_ios: number;
}
/**
 * Syncs of one group.
 */
export interface SyncSummary {
  /**
   * How many failed.
   */
  failed: number;
  /**
   * Fewer than 30.
   */
  low_n: boolean;
  /**
   * Longest.
   */
  max_us: number;
  /**
   * Mean duration, in microseconds.
   */
  mean_us: number;
  /**
   * How many.
   */
  n: number;
  /**
   * Median.
   */
  p50_us: number;
  /**
   * 95th percentile.
   */
  p95_us: number;
  /**
   * 99th percentile.
   */
  p99_us: number;
}
/**
 * Requests over time, in groups of `step_s` from `from_s` on; the last one may be cut short.
 */
export interface FilesOverTime {
  /**
   * The classes that occurred.
   */
  classes: ClassOverTime[];
  /**
   * Begin of the first group, in seconds since the recording's start.
   */
  from_s: number;
  /**
   * Width of a slot, in seconds.
   */
  slot_s: number;
  /**
   * Length of a group, in seconds.
   */
  step_s: number;
  /**
   * End of the last.
   */
  to_s: number;
  /**
   * Requests under way; `None` of more requests than are kept.
   */
  under_way: UnderWay[] | null;
}
/**
 * One class over time; the vectors have an item per group.
 */
export interface ClassOverTime {
  /**
   * Percent of one data I/O, of those with any.
   */
  atomic_percent: (number | null)[];
  /**
   * Its name.
   */
  class: string;
  /**
   * Median response time in microseconds; `None` without one of a known start.
   */
  median_us: (number | null)[];
  /**
   * Requests that ended.
   */
  n: number[];
  /**
   * The same per second.
   */
  per_s: number[];
}
/**
 * Requests under way over time; the vectors have an item per group.
 */
export interface UnderWay {
  /**
   * Percent of the time with at least one, exactly.
   */
  busy_percent: number[];
  /**
   * Median over the group's 2 ms slots of the requests that touch a slot.
   */
  p50: number[];
  /**
   * 75th percentile.
   */
  p75: number[];
  /**
   * `all` (of data), `in` or `out`.
   */
  set: string;
  /**
   * Percent of 2 ms slots that at least one touches.
   */
  slot_percent: number[];
  /**
   * `busy_percent` over all groups.
   */
  whole_busy_percent: number;
  /**
   * `slot_percent` over all groups.
   */
  whole_slot_percent: number;
}
/**
 * The busiest stretch (A12, by completed requests).
 */
export interface PeakWindow {
  /**
   * Length, in seconds.
   */
  length_s: number;
  /**
   * Requests per second in it.
   */
  per_s: number;
  /**
   * Over the rate of the whole.
   */
  ratio: number;
  /**
   * Begin, in seconds since the recording's start.
   */
  start_s: number;
}
/**
 * One request among the slowest, with what is needed to draw it.
 */
export interface SlowRequest {
  /**
   * Bytes.
   */
  bytes: number;
  /**
   * The part of it inside calls (open and data I/Os), by which they are ranked.
   */
  call_us: number;
  /**
   * Class.
   */
  class: string;
  /**
   * The close call, in microseconds.
   */
  close_us: number | null;
  /**
   * Process name. Untrusted.
   */
  comm: string | null;
  /**
   * From the opening to the end of the close, in microseconds.
   */
  end_us: number;
  /**
   * The first data I/Os: begin after the opening, duration (microseconds), bytes, whether from memory.
   */
  first_ios: SlowIo[];
  /**
   * What is special about it.
   */
  flags: string[];
  /**
   * The program's own time between calls, in microseconds.
   */
  gaps_us: number | null;
  /**
   * Data I/Os.
   */
  ios: number;
  /**
   * The open call, in microseconds.
   */
  open_us: number | null;
  /**
   * File. Untrusted.
   */
  path: string | null;
  /**
   * The slowest data I/O.
   */
  slowest_io: SlowIo | null;
  /**
   * Its opening, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * Process.
   */
  tgid: number | null;
  /**
   * Open to the last data I/O's exit (of a sync: its duration), in microseconds.
   */
  total_us: number;
}
/**
 * One data I/O of a slow request.
 */
export interface SlowIo {
  /**
   * Begin, in microseconds after the opening.
   */
  after_us: number;
  /**
   * Bytes.
   */
  bytes: number;
  /**
   * From memory; `None` where that is not known.
   */
  cache_hit: boolean | null;
  /**
   * Duration, in microseconds.
   */
  us: number;
}
/**
 * Syncs of one process, or of one file.
 */
export interface SyncGroup {
  /**
   * How many failed.
   */
  failed: number;
  /**
   * Its name. Untrusted: escape it where it is shown.
   */
  key: string;
  /**
   * Fewer than 30.
   */
  low_n: boolean;
  /**
   * Longest.
   */
  max_us: number;
  /**
   * Mean duration, in microseconds.
   */
  mean_us: number;
  /**
   * How many.
   */
  n: number;
  /**
   * Median.
   */
  p50_us: number;
  /**
   * 95th percentile.
   */
  p95_us: number;
  /**
   * 99th percentile.
   */
  p99_us: number;
}
/**
 * What a device completed while at least one sync of a file on it was waiting.
 */
export interface Meanwhile {
  /**
   * The device's name, or its number.
   */
  device: string;
  /**
   * Flushes completed.
   */
  flushes: number;
  /**
   * Reads completed: what the syncs competed with.
   */
  reads: number;
  /**
   * Seconds with a sync waiting.
   */
  seconds: number;
  /**
   * Writes completed in that time.
   */
  writes: number;
  /**
   * Bytes of them.
   */
  written_bytes: number;
}
/**
 * A conclusion, with what it rests on.
 */
export interface FindingBlock {
  /**
   * `null` if it is about all.
   */
  device: string | null;
  /**
   * Where it ends, as RFC 3339.
   */
  end: string | null;
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * What it rests on, by kind. Keys carry their unit (`_us`, `_s`, `_bytes`, `_percent`, `_per_s`).
   */
  evidence: Evidence;
  kind: FindingKind;
  severity: Severity;
  /**
   * Where it begins, as RFC 3339; `null` where the recording has no date.
   */
  start: string | null;
  /**
   * Beginning, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * What it says, in a sentence.
   */
  summary: string;
}
/**
 * A burst of one class of I/Os that one-second samples hide (A13).
 */
export interface MicroburstEvidence {
  /**
   * Bytes of the minute of its peak over the seconds of that minute with any I/O, as cloud volumes estimate micro-bursts.
   */
  active_second_bytes_per_s: number | null;
  /**
   * The stream's own rate outside its bursts, in bytes or in I/Os as the measure says.
   */
  baseline_per_s: number;
  /**
   * Depth of the token bucket that would absorb it at its own mean rate over one second.
   */
  bucket_bytes: number;
  /**
   * Bursts of this stream that one-second samples hide.
   */
  bursts_in_recording: number;
  /**
   * Bytes submitted in it; of a table or a link: completed.
   */
  bytes: number;
  /**
   * Who moved most of it.
   */
  cause: string | null;
  /**
   * What bursts: reads or writes.
   */
  class: Class;
  /**
   * Bytes in its core.
   */
  core_bytes: number;
  /**
   * Slots of at least half of its own peak, added up.
   */
  core_s: number;
  /**
   * From the first submission above the background to the last.
   */
  duration_s: number;
  /**
   * Whether its peak reaches 95 % of the limit.
   */
  exceeds_limit: boolean;
  /**
   * How many bursts like this the stream's background would show in the whole recording.
   */
  expected_by_chance: number;
  /**
   * How many times less than its peak one-second samples show.
   */
  hidden_factor: number;
  /**
   * How many times less 15-second samples show.
   */
  hidden_factor_15s: number | null;
  /**
   * How many times less one-minute samples show.
   */
  hidden_factor_60s: number | null;
  /**
   * Mean number in flight, all classes, in the busiest window of 100 ms or more that it touches.
   */
  in_flight: number | null;
  /**
   * I/Os submitted in it; of a table or a link: completed.
   */
  ios: number;
  /**
   * What the device or link can take.
   */
  limit_bytes_per_s: number | null;
  /**
   * Where that limit comes from.
   */
  limit_source: LimitSource | null;
  /**
   * Names of the devices behind one link whose sum it is about. Absent where it is about one device.
   */
  link_devices?: string[];
  /**
   * I/Os are missing from it: its numbers are lower bounds.
   */
  lossy: boolean;
  /**
   * The highest 15-second sample of it; `null` of a shorter recording, and of bursts that are not among the largest.
   */
  mean_15s_bytes_per_s: number | null;
  /**
   * The highest one-second sample of it, in the middle of 100 phases of the sampler.
   */
  mean_1s_bytes_per_s: number;
  /**
   * The highest one-minute sample of it.
   */
  mean_60s_bytes_per_s: number | null;
  /**
   * Mean size of its I/Os.
   */
  mean_request_bytes: number;
  /**
   * What it has too many of.
   */
  measure: Measure;
  /**
   * How many I/Os of the other class met it; of a large recording estimated from a sample.
   */
  other_class_ios: number | null;
  /**
   * Longest latency of the other class's I/Os that met it.
   */
  other_class_max_us: number | null;
  /**
   * Of a table: the highest mean latency of the other class in rows that meet it. Absent where single I/Os are known.
   */
  other_class_mean_max_us?: number | null;
  /**
   * The same, at most 1.
   */
  p: number;
  /**
   * The least that its highest throughput was: bytes of I/Os issued and completed inside a window of 10 ms or more, over
   * its length.
   */
  peak_bytes_per_s: number;
  /**
   * I/Os of its highest slot, where they were submitted.
   */
  peak_iops: number;
  /**
   * Its peak as a share of the limit.
   */
  percent_of_limit: number;
  /**
   * Width of the slots that it was measured in.
   */
  slot_s: number;
}
/**
 * Nothing completed for far longer than the device's service times explain.
 */
export interface StallEvidence {
  /**
   * What completed first after it.
   */
  completed_after: Class;
  /**
   * What completed last before it; `null` if the device was idle.
   */
  completed_before: Class | null;
  /**
   * From the last completion, or the issue after idleness, to the next completion.
   */
  duration_s: number;
  /**
   * The longest gap that the device's service times explain.
   */
  expected_s: number;
  /**
   * Whether a flush was with the device.
   */
  flush_in_flight: boolean;
  /**
   * Name of the array, or of the controller or host, that the device belongs to.
   */
  group: string | null;
  /**
   * Devices of that group.
   */
  group_devices: number | null;
  /**
   * Those of them that stalled at the same time.
   */
  group_devices_stalled: number | null;
  /**
   * What the host was short of at that time, which does not explain the stall; `null` if the recording does not hold it.
   */
  host: HostState | null;
  /**
   * I/Os with the device at its end.
   */
  in_flight: number;
  /**
   * I/Os issued in it.
   */
  issued_meanwhile: number;
  /**
   * Names of the layers above that stood still with it.
   */
  layers_stalled: string[];
  /**
   * Other devices that did I/O; layers above and below are left out.
   */
  other_devices: number;
  /**
   * Other devices that stalled at the same time; layers above and below are left out.
   */
  other_devices_stalled: number;
  /**
   * How far it reached.
   */
  scope: StallScope;
  /**
   * Stalls of this device.
   */
  stalls_in_recording: number;
}
/**
 * What the host was short of in an interval.
 */
export interface HostState {
  /**
   * Percent of the time in which at least one task waited for a CPU (PSI); `null` if the kernel does not say.
   */
  cpu_pressure_percent: number | null;
  /**
   * Percent of the time in which at least one task waited for I/O (PSI); `null` if the kernel does not say.
   */
  io_pressure_percent: number | null;
  /**
   * Length of what was measured around the interval, in seconds: pressure and steal are means over it.
   */
  measured_s: number;
  /**
   * Most tasks that ran or waited for a CPU, per CPU; `null` if the kernel does not say.
   */
  runnable_per_cpu: number | null;
  /**
   * Time that the hypervisor gave to others, of all CPUs together, in percent of the time; `null` if the kernel does not say.
   */
  steal_percent: number | null;
  /**
   * How late the recorder's own timer woke it at most, in milliseconds; `null` if it waited for none.
   */
  timer_late_ms: number | null;
  /**
   * Percent of the interval in which that timer was overdue.
   */
  timer_late_percent: number;
}
/**
 * The device takes longer, or less long, for the same load.
 */
export interface LatencyChangeEvidence {
  /**
   * The step, or the beginning of the trend, in seconds since the recording's start.
   */
  at_s: number;
  /**
   * Blocks of time compared.
   */
  blocks: number;
  /**
   * Of which I/Os.
   */
  class: Class;
  /**
   * The shortage of CPU time that came or went with it and is as long as what was added: then it need not be the device.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Median device time after; of a trend: in the last quarter.
   */
  device_p50_after_us: number | null;
  /**
   * Median device time before; of a trend: in the first quarter.
   */
  device_p50_before_us: number | null;
  /**
   * 99th percentile of device time after; `null` of fewer than 100 I/Os.
   */
  device_p99_after_us: number | null;
  /**
   * 99th percentile of device time before; `null` of fewer than 100 I/Os.
   */
  device_p99_before_us: number | null;
  /**
   * At once, or little by little.
   */
  form: LatencyChangeForm;
  /**
   * What the host was short of after; `null` if the recording does not hold it.
   */
  host_after: HostState | null;
  /**
   * What the host was short of before; `null` if the recording does not hold it.
   */
  host_before: HostState | null;
  /**
   * I/Os after, in the sample.
   */
  ios_after: number;
  /**
   * I/Os before, in the sample.
   */
  ios_before: number;
  /**
   * I/Os issued per second after it over before it.
   */
  load_ratio: number;
  /**
   * For all streams of the report: Student's t over blocks, times splits; of a trend: `p_value` times streams.
   */
  p_family: number;
  /**
   * By shuffles of pairs of blocks; of a trend: Mann and Kendall's test, corrected for autocorrelation.
   */
  p_value: number;
  /**
   * Device time after the change over that before it, of I/Os of the same size that met as many others and as many bytes; of
   * a trend: end over beginning.
   */
  ratio_at_same_load: number;
  /**
   * Its 95 % interval, over blocks of time.
   *
   * @minItems 2
   * @maxItems 2
   */
  ratio_at_same_load_ci: [number, number];
}
/**
 * Some I/Os of one class and size take far longer with the device than the rest.
 */
export interface LatencyModeEvidence {
  /**
   * They are smaller than this.
   */
  below_bytes: number;
  /**
   * Of which I/Os.
   */
  class: Class;
  /**
   * The shortage that explains at least half of the slow ones: then it need not be the device.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Around a time of their own, or spread out.
   */
  form: LatencyModeForm;
  /**
   * Smallest size of these I/Os.
   */
  min_bytes: number;
  /**
   * I/Os of this class and size, in the sample.
   */
  sampled_ios: number;
  /**
   * Median device time of the slow ones.
   */
  slow_device_us: number;
  /**
   * Share of the slow ones during which a shortage of CPU time explains that nothing happened; `null` if the recording
   * does not hold what the host was short of during most of them.
   */
  slow_in_cpu_shortage_percent: number | null;
  /**
   * Slow ones, in the sample.
   */
  slow_ios: number;
  /**
   * Share of the slow ones.
   */
  slow_percent: number;
  /**
   * The sectors between which four fifths of the slow ones begin; `null` if these hold more than a fifth of all.
   *
   * @minItems 2
   * @maxItems 2
   */
  slow_sectors: [number, number] | null;
  /**
   * Share of the device time of this class and size that the slow ones take.
   */
  slow_time_percent: number;
  /**
   * Stretches of slow ones without a usual one between.
   */
  stretches: number;
  /**
   * Median device time of the others.
   */
  usual_device_us: number;
}
/**
 * One member of an array takes longer than each of its peers.
 */
export interface SlowMemberEvidence {
  /**
   * Name of the array.
   */
  array: string;
  /**
   * Blocks of time compared.
   */
  blocks: number;
  /**
   * Of which I/Os.
   */
  class: Class;
  /**
   * I/Os of the member, in the sample.
   */
  ios: number;
  /**
   * Its members.
   */
  members: number;
  /**
   * Median device time of the member.
   */
  p50_us: number | null;
  /**
   * 99th percentile of its device time.
   */
  p99_us: number | null;
  /**
   * Student's t over blocks, for all comparisons of the report.
   */
  p_value: number;
  /**
   * I/Os of all peers, in the sample.
   */
  peers_ios: number;
  /**
   * Device time over that of the slowest peer, at the same time, size and direction.
   */
  ratio: number;
  /**
   * Its 95 % interval, over blocks of time.
   *
   * @minItems 2
   * @maxItems 2
   */
  ratio_ci: [number, number];
  /**
   * Name of the slowest peer.
   */
  slowest_peer: string;
  /**
   * Median device time of the slowest peer.
   */
  slowest_peer_p50_us: number | null;
  /**
   * 99th percentile of its device time.
   */
  slowest_peer_p99_us: number | null;
}
/**
 * A device moves bytes as fast as it can, and more demand only waits.
 */
export interface BandwidthSaturationEvidence {
  /**
   * Mean latency at light load.
   */
  light_mean_us: number;
  /**
   * Most in flight on it, on average in a window.
   */
  max_in_flight: number;
  /**
   * Mean number in flight on it.
   */
  mean_in_flight: number;
  /**
   * Mean size of the I/Os on it.
   */
  mean_request_bytes: number;
  /**
   * In flight that the unloaded device needs for that rate.
   */
  needed_in_flight: number;
  /**
   * The rate that throughput hardly ever exceeds: the median of the windows on it.
   */
  plateau_bytes_per_s: number;
  /**
   * Mean latency on it.
   */
  plateau_mean_us: number;
  /**
   * Share of the time on it.
   */
  plateau_percent: number;
  /**
   * The rates between which nine tenths of those windows lie.
   *
   * @minItems 2
   * @maxItems 2
   */
  plateau_range_bytes_per_s: [number, number];
  /**
   * Their length.
   */
  window_s: number;
  /**
   * Windows on it.
   */
  windows: number;
}
/**
 * The device, or its driver, takes no more I/Os at once, and others wait in the kernel.
 */
export interface QueueFullEvidence {
  /**
   * Mean time that they then took with the device.
   */
  device_mean_us: number;
  /**
   * I/Os issued in them.
   */
  full_ios: number;
  /**
   * The same as a share of the recording.
   */
  full_percent: number;
  /**
   * Time with a full queue.
   */
  full_s: number;
  /**
   * Stretches of 100 ms or more in which it was full.
   */
  full_stretches: number;
  /**
   * Reads and writes that the device had at once, and never more.
   */
  level: number;
  /**
   * The longest of them.
   */
  longest_full_s: number;
  /**
   * Longest time that one waited.
   */
  wait_max_us: number;
  /**
   * Mean time that these waited in the kernel.
   */
  wait_mean_us: number;
}
/**
 * Bursts of one class of I/Os that come back (A15).
 */
export interface PeriodicityEvidence {
  /**
   * Autocorrelation of the logarithm of KiB at the period; of the surest period only.
   */
  autocorrelation: number | null;
  /**
   * Who moved most of what comes back.
   */
  cause: string | null;
  /**
   * What comes back: reads or writes.
   */
  class: Class;
  /**
   * One less the p-value.
   */
  confidence: number;
  /**
   * Periods from its first to its last beat.
   */
  cycles: number;
  /**
   * Standard deviation of the time between beats, as a share of the period.
   */
  jitter: number;
  /**
   * Beginnings of activity after quiet.
   */
  onsets: number;
  /**
   * Those of them that keep its time.
   */
  onsets_in_step: number;
  /**
   * How likely chance shows a chain of onsets like it anywhere.
   */
  p_value: number;
  /**
   * Upper end of its 95 % interval.
   */
  period_high_s: number | null;
  /**
   * Lower end of its 95 % interval.
   */
  period_low_s: number | null;
  /**
   * Time between returns, fitted to the onsets that keep step.
   */
  period_s: number;
  /**
   * `periodic`, or `tentative` where only three or four periods were seen.
   */
  verdict: PeriodicityVerdict;
}
/**
 * A device at its capacity (A18).
 */
export interface SaturationEvidence {
  /**
   * What is left between the mean load and the highest throughput observed.
   */
  headroom: number | null;
  /**
   * How many I/Os the device works on at once; beyond it, more concurrency only buys more waiting.
   */
  knee_in_flight: number;
  /**
   * Its 95 % interval.
   *
   * @minItems 2
   * @maxItems 2
   */
  knee_in_flight_ci: [number, number] | null;
  /**
   * Most in flight on average in a window.
   */
  max_in_flight: number;
  /**
   * The plateau of throughput against I/Os in flight, as far as it was observed.
   */
  max_ios_per_s: number;
  /**
   * Its 95 % interval.
   *
   * @minItems 2
   * @maxItems 2
   */
  max_ios_per_s_ci: [number, number] | null;
  /**
   * Mean number in flight.
   */
  mean_in_flight: number;
  /**
   * Mean latency while hardly anything else was in flight.
   */
  min_us: number;
  /**
   * Its 95 % interval.
   *
   * @minItems 2
   * @maxItems 2
   */
  min_us_ci: [number, number] | null;
  /**
   * What the recorded mixture of I/Os takes of the device, from the cost of I/Os that had it to themselves; 1: all of it.
   */
  mix_load: number | null;
  /**
   * The model that describes it best.
   */
  model: Fit | null;
  /**
   * Share of its busy time with more than twice as much in flight as it serves at once.
   */
  saturated_percent: number;
  /**
   * How the device runs.
   */
  state: CapacityState;
  /**
   * Their length.
   */
  window_s: number;
  /**
   * Windows that it was measured in.
   */
  windows: number;
}
/**
 * Gunther's universal scalability law: `X(N) = γ N / (1 + σ (N - 1) + κ N (N - 1))`.
 */
export interface Usl {
  /**
   * Throughput of one in flight, per second.
   */
  gamma: number;
  /**
   * Coherency.
   */
  kappa: number;
  /**
   * Contention.
   */
  sigma: number;
}
/**
 * The kernel's %util and the exact busy time differ (A2).
 */
export interface UtilDisagreementEvidence {
  /**
   * Share of time with at least one I/O in flight.
   */
  busy_percent: number;
  /**
   * What this kernel's way of counting gives for exactly these I/Os.
   */
  expected_percent: number | null;
  /**
   * How this kernel counts; `null` if it is not known.
   */
  regime: Regime | null;
  /**
   * By how many percentage points the kernel's figure scatters, one standard deviation; `null` if its clock is not known.
   */
  sigma_pp: number | null;
  /**
   * The kernel's own estimate of it, as iostat prints it.
   */
  util_io_ticks_percent: number;
  /**
   * What to think of the kernel's figure.
   */
  verdict: UtilVerdict;
}
/**
 * A writer that waits for its syncs most of the time.
 */
export interface FsyncBoundEvidence {
  /**
   * Bytes that it wrote.
   */
  bytes: number | null;
  /**
   * The writer.
   */
  cause: string | null;
  /**
   * Upper bound of the probability that a writer that does not wait submits in so few syncs (Chernoff); `null` from calls.
   */
  p_value: number | null;
  /**
   * Its process id.
   */
  pid: number | null;
  /**
   * What says so: its sync calls, or its I/Os alone.
   */
  source: SyncSource;
  /**
   * Median sync.
   */
  sync_p50_us: number;
  /**
   * Share of its writing time in syncs.
   */
  sync_wait_percent: number;
  /**
   * Time in syncs.
   */
  sync_wait_s: number;
  /**
   * Syncs, each at the end of a cycle of writing and waiting.
   */
  syncs: number;
  /**
   * Syncs during which it submitted something.
   */
  syncs_not_waited_for: number;
  /**
   * Syncs per second of its writing time.
   */
  syncs_per_s: number;
  /**
   * How many times as fast it could write without these waits, at most.
   */
  times_faster_at_most: number;
  /**
   * Writes that it submitted; from calls: data I/O of its files.
   */
  writes: number | null;
  /**
   * Those per sync.
   */
  writes_per_sync: number | null;
  /**
   * Its writing time: from the end of each sync to the end of the next, without pauses of more than a second.
   */
  writing_s: number;
}
/**
 * A sequential stream cut into small requests.
 */
export interface SmallSequentialEvidence {
  /**
   * Time of the runs, at most as long as their requests were in flight.
   */
  busy_s: number;
  /**
   * Bytes of them.
   */
  bytes: number;
  /**
   * Who.
   */
  cause: string | null;
  /**
   * What it does: reads or writes.
   */
  class: Class;
  /**
   * Requests.
   */
  ios: number;
  /**
   * Requests of that size that would move the same bytes.
   */
  ios_if_large: number;
  /**
   * What one request could be as large as: 128 KiB, or what the device takes.
   */
  large_request_bytes: number;
  /**
   * Requests of the longest run.
   */
  longest_run_ios: number;
  /**
   * Share of the device's reads and writes.
   */
  percent_of_ios: number;
  /**
   * Its process id.
   */
  pid: number | null;
  /**
   * Size of its requests.
   */
  request_bytes: number;
  /**
   * Runs of adjacent sectors.
   */
  runs: number;
}
/**
 * Single I/Os that took longer than a second.
 */
export interface SlowIoEvidence {
  /**
   * The shortage of CPU time during the slowest, if such shortages explain all of them: then it need not be the device.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * How many took longer than a second.
   */
  ios_over_1s: number;
  /**
   * Its size.
   */
  slowest_bytes: number;
  /**
   * What it does.
   */
  slowest_class: Class;
  /**
   * Its time with the device.
   */
  slowest_device_us: number;
  /**
   * When it completed, in seconds since the recording's start.
   */
  slowest_done_s: number;
  /**
   * Name of the process that submitted it. Untrusted.
   */
  slowest_process: string | null;
  /**
   * Where it begins on the device, in units of 512 bytes.
   */
  slowest_sector: number | null;
  /**
   * Latency of the slowest.
   */
  slowest_us: number;
}
/**
 * I/Os that the device failed.
 */
export interface IoErrorEvidence {
  /**
   * How many by error number (`errno`).
   */
  by_error: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^-?\d+$".
     */
    [k: string]: number | undefined;
  };
  /**
   * What the first one does.
   */
  first_class: Class;
  /**
   * When it completed, in seconds since the recording's start.
   */
  first_done_s: number;
  /**
   * Where it begins on the device, in units of 512 bytes.
   */
  first_sector: number | null;
  /**
   * How many.
   */
  ios: number;
}
/**
 * Programs read more through files than devices gave them (A16).
 */
export interface CachedReadsEvidence {
  /**
   * Bytes read from devices.
   */
  device_read_bytes: number;
  /**
   * Share of the programs' bytes that came from the page cache: 1 − device ÷ programs.
   */
  hit_percent: number;
  /**
   * Bytes that programs read through files, without `O_DIRECT` and without block devices' nodes.
   */
  program_read_bytes: number;
  /**
   * Reads that were looked at one by one.
   */
  reads_looked_at: number;
  /**
   * Share of those that found all in memory.
   */
  reads_without_wait_percent: number | null;
}
/**
 * The kernel writes later what programs wrote into the page cache (A16).
 */
export interface WrittenBackEvidence {
  /**
   * Those of them of which it is known.
   */
  origin_known_bytes: number;
  /**
   * Those of them that the kernel wrote back.
   */
  written_back_bytes: number;
  /**
   * Share that the kernel wrote back.
   */
  written_back_percent: number;
  /**
   * Bytes written to the device.
   */
  written_bytes: number;
}
/**
 * Mean latencies of an imported table against finer rows of the same time (A25).
 */
export interface AveragedAveragesEvidence {
  /**
   * Those of them that are averages of averages.
   */
  averages_of_averages: number;
  /**
   * Means that finer rows cover.
   */
  checked: number;
  /**
   * Each of them.
   */
  rows: AuditRow[];
}
/**
 * One class of one coarse row, tested.
 */
export interface AuditRow {
  /**
   * The class.
   */
  class: Class;
  /**
   * Whether I/Os per second and bytes per second of the coarse row are the finer ones' within rounding.
   */
  counts_agree: boolean;
  /**
   * How many finer rows cover the interval.
   */
  finer_rows: number;
  /**
   * The coarse interval, in nanoseconds since the recording's start.
   */
  from_ns: number;
  /**
   * I/Os that they count.
   */
  ios: number;
  /**
   * Mean of their means, empty ones as 0.
   */
  mean_of_means_us: number;
  /**
   * Mean of the means of those with I/Os.
   */
  mean_of_non_empty_us: number | null;
  /**
   * The rule that reproduces the stated value.
   */
  rule: AveragingRule;
  /**
   * What the coarse row says, in microseconds.
   */
  stated_us: number;
  /**
   * Its end.
   */
  to_ns: number;
  /**
   * By how much the stated value is below the truth, in percent of it.
   */
  understated_percent: number | null;
  /**
   * Σ n·v / Σ n over the finer rows: the truth as far as they know it.
   */
  weighted_us: number | null;
}
/**
 * I/Os that are missing from the recording for one reason.
 */
export interface LostEventsEvidence {
  /**
   * Stretches of time in which they are missing.
   */
  intervals: number;
  /**
   * How many; `null` if not even their number is known.
   */
  ios: number | null;
  /**
   * Their share of all I/Os.
   */
  percent: number | null;
  /**
   * Why.
   */
  reason: LossReason;
}
/**
 * What the application in the file can be asked. Texts named `data`, and all in `documents`, `read` and `write`, are base64 of a
 * zlib stream.
 */
export interface InsideBlock {
  /**
   * JSON documents of the API by name: `devices`, `stories`, `waits/BY` with intervals, and `actors/BY` of the
   * whole time and its steps.
   */
  documents: {
    [k: string]: string | undefined;
  };
  /**
   * What the file knows of begins here.
   */
  from_unix_s: number;
  /**
   * Missing where there are no single I/Os.
   */
  heat?: HeatTiersBlock | null;
  /**
   * What was left out to keep the file small.
   */
  left_out?: string[];
  /**
   * Single I/Os around the worst moments of stories.
   */
  moments: MomentBlock[];
  /**
   * What the charts below the heat map show of all devices together, and of each.
   */
  rows: RowsBlock[];
  /**
   * Its end.
   */
  to_unix_s: number;
}
/**
 * Latencies of reads and writes over time.
 */
export interface HeatTiersBlock {
  /**
   * Edges of the rows, one more than rows.
   */
  latency_us: number[];
  /**
   * Each device; their sum is all.
   */
  scopes: HeatScopeBlock[];
}
export interface HeatScopeBlock {
  /**
   * Whether its I/Os count in the sum of all devices.
   */
  counts: boolean;
  /**
   * `null`: several with few I/Os.
   */
  device: string | null;
  /**
   * The same at several resolutions, the finest first.
   */
  tiers: TierBlock[];
}
export interface TierBlock {
  /**
   * Length of a column.
   */
  column_s: number;
  /**
   * Columns of the whole time.
   */
  columns: number;
  /**
   * Columns that a chunk of text holds; the last one may hold fewer.
   */
  columns_of_chunk: number;
  /**
   * Reads by chunk, which is empty where it has no I/O: first row, number of rows, then row by row a byte for each column.
   * Counts to 16 are exact; from there on a byte is an eighth of a doubling.
   */
  read: string[];
  /**
   * So many rows are one of this tier.
   */
  rows_together: number;
  /**
   * Writes.
   */
  write: string[];
}
export interface MomentBlock {
  /**
   * The answer of `ios`.
   */
  data: string;
  /**
   * Its begin.
   */
  from_unix_s: number;
  /**
   * How many I/Os.
   */
  ios: number;
  /**
   * Its end.
   */
  to_unix_s: number;
}
export interface RowsBlock {
  /**
   * Packed columns: `classes` by name, with `bytes` per second as log codes, and `ios` per second, mean `latency` and `longest`
   * in microseconds as log codes of thousandths; `mean` as log code of thousandths of I/Os in flight, `max`, and `lossy` where
   * I/Os are missing. `busy`, of each class and of all, is the share of time with I/Os in flight in thousandths.
   */
  data: string;
  /**
   * `null`: all devices together.
   */
  device: string | null;
  /**
   * Begin of the first row.
   */
  from_unix_s: number;
  /**
   * How many there are.
   */
  rows: number;
  /**
   * Length of a row.
   */
  step_s: number;
}
export interface LossBlock {
  /**
   * The kernel's name of the disk or layer.
   */
  device: string | null;
  /**
   * Beginning, in seconds since the recording's start.
   */
  from_s: number;
  /**
   * Completed block I/Os, as the device saw them: after merging, before splitting by the driver.
   */
  ios: number | null;
  /**
   * Whether a slot that it meets may be off by more than 1 %.
   */
  marks: boolean;
  /**
   * I/Os that happened and could not be recorded, by reason. Their time is hatched in the charts where they can change a slot by more than 1 %: each is as likely at any moment of the time in which it may have completed.
   */
  reason: string;
  /**
   * End, in seconds since the recording's start.
   */
  to_s: number;
}
export interface MarkBlock {
  /**
   * When it completed, in seconds since the recording's start.
   */
  at_s: number;
  /**
   * What kind of finding or remark it is; docs/calibration.md defines those of findings.
   */
  kind: string;
  /**
   * What it says, for people.
   */
  text: string;
}
/**
 * A remark on the quality of the data.
 */
export interface Note {
  /**
   * How serious.
   */
  level: NoteLevel;
  /**
   * For people.
   */
  text: string;
  /**
   * About what.
   */
  topic: string;
}
export interface Recording {
  /**
   * I/Os that were in flight for longer than busy time can be followed back; 0 of nearly all recordings.
   */
  busy_time_cut_ios: number;
  /**
   * How much of their time in flight is missing from busy times and numbers in flight, in seconds.
   */
  busy_time_cut_s: number;
  /**
   * I/Os that were in flight at the recording's beginning or end, so that their latency is not known.
   */
  censored_ios: number;
  /**
   * Of the part under study.
   */
  duration_s: number;
  /**
   * Beginning, in seconds since the recording's start.
   */
  from_s: number;
  /**
   * Name of the recorded machine.
   */
  host: string | null;
  /**
   * `null` if nothing says how many.
   */
  ios: number | null;
  /**
   * Release of the recorded machine's kernel. How far %util can be trusted depends on it.
   */
  kernel: string | null;
  /**
   * On which layer sums over devices count an I/O, and what they leave out.
   */
  layers: Layers;
  /**
   * What this kernel or source does not give, in words.
   */
  limits: string[];
  /**
   * Where and why, an entry for each reason.
   */
  losses: Loss[];
  /**
   * I/Os known to be missing; `null`: not even that is known.
   */
  lost_ios: number | null;
  /**
   * As the user named it.
   */
  path: string;
  recorder: Recorder;
  /**
   * `ebpf`, `counters` or `import:KIND`.
   */
  source: string;
  /**
   * When the recording began, by the wall clock of the recorded machine, in UTC.
   */
  start_unix_s: number;
  /**
   * End, in seconds since the recording's start.
   */
  to_s: number;
}
/**
 * On which layer sums over devices count an I/O.
 */
export interface Layers {
  /**
   * Bytes of completed I/Os, in powers of 1000.
   */
  bytes: number | null;
  /**
   * The layer on which sums over devices count an I/O: always the bottom one that was recorded.
   */
  counted_on: string;
  /**
   * Of the devices that count; `null` if nothing says how many.
   */
  ios: number | null;
  /**
   * Devices above others that were recorded too: sums do not hold them, or an I/O would count twice.
   */
  left_out: LeftOut[];
}
/**
 * A device above others that were recorded too.
 */
export interface LeftOut {
  /**
   * The kernel's name of the disk or layer.
   */
  device: string;
  /**
   * Completed block I/Os, as the device saw them: after merging, before splitting by the driver.
   */
  ios: number;
  /**
   * Names of those.
   */
  on: string[];
}
/**
 * I/Os that are missing for one reason.
 */
export interface Loss {
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Stretches of time.
   */
  intervals: number | null;
  /**
   * `null` if not even their number is known.
   */
  ios: number | null;
  /**
   * I/Os that happened and could not be recorded, by reason. Their time is hatched in the charts where they can change a slot by more than 1 %: each is as likely at any moment of the time in which it may have completed.
   */
  reason: string | null;
  /**
   * Beginning, in seconds since the recording's start.
   */
  start_s: number;
}
export interface Recorder {
  /**
   * CPU time of the recorder while it recorded, start-up left out, with its BPF probes where they were measured, as a share of one CPU; its peak memory; the recording's size on disk.
   */
  bytes_per_io: number | null;
  /**
   * User space and probes together, of one core, while it recorded; the same apart, and what it took to start.
   */
  cpu_percent: number | null;
  /**
   * CPU time of the recorder while it recorded, start-up left out, with its BPF probes where they were measured, as a share of one CPU; its peak memory; the recording's size on disk.
   */
  cpu_s: number | null;
  /**
   * CPU time of the recorder while it recorded, start-up left out, with its BPF probes where they were measured, as a share of one CPU; its peak memory; the recording's size on disk.
   */
  disk_bytes: number | null;
  /**
   * CPU time of the recorder while it recorded, start-up left out, with its BPF probes where they were measured, as a share of one CPU; its peak memory; the recording's size on disk.
   */
  max_rss_bytes: number | null;
  /**
   * CPU time of the recorder while it recorded, start-up left out, with its BPF probes where they were measured, as a share of one CPU; its peak memory; the recording's size on disk.
   */
  probe_cpu_s: number | null;
  /**
   * CPU time of the recorder while it recorded, start-up left out, with its BPF probes where they were measured, as a share of one CPU; its peak memory; the recording's size on disk.
   */
  startup_cpu_s: number | null;
}
/**
 * A set of devices whose I/O is drawn together. Layers of one stack are never in one set.
 */
export interface ScopeBlock {
  /**
   * `null` for several devices together.
   */
  capacity: CapacityBlock | null;
  /**
   * Which devices, by name.
   */
  devices: string[];
  distributions: DistributionsBlock;
  /**
   * What a set of devices is called.
   */
  label: string;
  /**
   * The whole time, of counters and imported tables in several steps.
   */
  levels: LevelBlock[];
  /**
   * Why these, for people; shown under the selector.
   */
  note?: string | null;
}
/**
 * Over the whole recording.
 */
export interface DistributionsBlock {
  /**
   * Share of time with `k` I/Os in flight (`all`, `read`, `write`), exactly below 128 and thinned to 1/128 above; pairs of
   * distance, parts of the time in 1e-9.
   */
  concurrency: {
    [k: string]: string | undefined;
  };
  /**
   * Histograms by class and stage (`total`, `queue`, `device`), 8 buckets per octave of ns: packed lists of pairs: distance
   * to the last filled bucket (the first: to 0), count.
   */
  latency: {
    [k: string]:
      | {
          [k: string]: string | undefined;
        }
      | undefined;
  };
  /**
   * 50th, 90th and 99th percentile (nearest rank) in microseconds by class and stage: the numbers of the tables.
   */
  percentiles_us: {
    [k: string]:
      | {
          /**
           * @minItems 3
           * @maxItems 3
           */
          [k: string]: [number, number, number] | undefined;
        }
      | undefined;
  };
  /**
   * Request sizes by class: bucket `k` holds `[2^k, 2^(k+1))` bytes; triples of distance, I/Os, sectors.
   */
  size: {
    [k: string]: string | undefined;
  };
}
/**
 * A stretch of time cut into `slots` slots of `step_ns`: slot `i` is `[from_ns + i * step_ns, from_ns + (i + 1) * step_ns)`. An
 * I/O belongs to the slot in which it completes.
 */
export interface LevelBlock {
  /**
   * Packed columns by name, each `slots` items long; one that is missing is unknown, not zero. `ios`: completions, `sec`:
   * sectors of 512 bytes moved (spread from issue to completion); latencies from the block layer's start to done as log
   * codes of nanoseconds, absent in slots without I/O. `busy`: thousandths of the slot with at least one I/O in flight.
   * `q_mean`: time-weighted mean of I/Os in flight as log code of thousandths, `q_max` their maximum.
   */
  cols: {
    [k: string]: string | undefined;
  };
  /**
   * Beginning, in nanoseconds since the recording's start.
   */
  from_ns: number;
  /**
   * How many slots.
   */
  slots: number;
  /**
   * Width of a slot in nanoseconds.
   */
  step_ns: number;
  /**
   * End of the last slot, which may be cut short.
   */
  to_ns: number;
}
/**
 * Devices together: busy is any I/O on any of them.
 */
export interface DevicesBlock {
  /**
   * Share of time with at least one I/O of this class in flight; `both`: of reading and of writing at once.
   */
  busy_both_percent: number | null;
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. A device that serves many I/Os at once can be 100 % busy and far from its limit. Where slots are merged for the view, the light area behind reaches up to the highest of the finer slots.
   */
  busy_percent: number | null;
  /**
   * Share of time with at least one I/O of this class in flight; `both`: of reading and of writing at once.
   */
  busy_read_percent: number | null;
  /**
   * Share of time with at least one I/O of this class in flight; `both`: of reading and of writing at once.
   */
  busy_write_percent: number | null;
  concurrency: Concurrency;
  /**
   * Its members.
   */
  devices: string[];
  /**
   * Layers above them, whose I/Os would count twice.
   */
  left_out: string[];
  /**
   * Share of time with at least one I/O in flight on at least one of the devices, measured exactly. The mean over devices hides one hot device among idle ones; it is never more than the busiest, nor that more than all together.
   */
  max_busy_percent: number | null;
  /**
   * Share of time with at least one I/O in flight on at least one of the devices, measured exactly. The mean over devices hides one hot device among idle ones; it is never more than the busiest, nor that more than all together.
   */
  mean_busy_percent: number | null;
  /**
   * As the kernel or the program names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * As of a device.
   */
  slots: SlotsBlock | null;
}
/**
 * Devices whose data go through one link, with what it carries.
 */
export interface LinkBlock {
  /**
   * The devices it is about, in the order of their numbers.
   */
  devices: string[];
  /**
   * What the device or link can take: given by the user, or the highest throughput that this recording proves.
   */
  limit_bytes_per_s: number;
  limit_source: LimitSource;
  /**
   * As the kernel or the program names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * Reads and writes apart.
   */
  streams: LinkStreamBlock[];
}
/**
 * Reads or writes of all devices behind a link.
 */
export interface LinkStreamBlock {
  /**
   * Stretches of submissions beyond what the background explains; with a limit of yours, those that reach half of it.
   */
  bursts_found: number;
  /**
   * Bytes of completed I/Os, in powers of 1000.
   */
  bytes: number;
  class: Class;
  /**
   * The burst of most bytes.
   */
  largest: BurstBlock | null;
  /**
   * The resolution drawn now. Zooming in shows finer slots where they are kept: the whole recording coarsely, the surroundings of findings down to 1 ms.
   */
  slot_s: number;
}
/**
 * A burst of demand.
 */
export interface BurstBlock {
  /**
   * The background's rate of `measure`, per second.
   */
  baseline: number;
  /**
   * Depth of the token bucket that would absorb it at its own mean rate over one second.
   */
  bucket_bytes: number;
  /**
   * Of all its I/Os.
   */
  bytes: number;
  /**
   * It touches the edge of the recording: it may have been longer.
   */
  censored: boolean;
  /**
   * Slots of at least half of its peak, added up.
   */
  core_s: number;
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Whether its peak reaches 95 % of the limit.
   */
  exceeds_limit: boolean;
  /**
   * How many times less that is than the peak; `null` where such samples show nothing.
   */
  hidden_factor: number | null;
  /**
   * Completed block I/Os, as the device saw them: after merging, before splitting by the driver.
   */
  ios: number;
  /**
   * I/Os are missing in it.
   */
  lossy: boolean;
  /**
   * What one-second samples would have shown.
   */
  mean_1s_bytes_per_s: number;
  /**
   * Share of I/Os, or of bytes, by size of the request as the device saw it. A bar labelled 4 KiB holds 4 KiB up to less than 8 KiB.
   */
  mean_request_bytes: number;
  measure: Measure;
  /**
   * How many like it the background shows in the whole recording by chance, at most 1.
   */
  p: number;
  /**
   * The least that the highest throughput of the burst was: bytes of I/Os issued and completed inside a window of 10 ms or more. Of I/Os: the highest slot, where they were submitted.
   */
  peak_bytes_per_s: number;
  /**
   * The least that the highest throughput of the burst was: bytes of I/Os issued and completed inside a window of 10 ms or more. Of I/Os: the highest slot, where they were submitted.
   */
  peak_iops: number;
  /**
   * What the device or link can take: given by the user, or the highest throughput that this recording proves.
   */
  percent_of_limit: number;
  /**
   * Beginning, in seconds since the recording's start.
   */
  start_s: number;
}
/**
 * Tables of rates instead of single I/Os.
 */
export interface TablesBlock {
  /**
   * Missing if the log has no shares of processors: `user`, `nice`, `system`, `iowait`, `steal`, `idle`.
   */
  cpu?: ColumnsBlock | null;
  /**
   * In the order of the log.
   */
  devices: DeviceTable[];
  /**
   * How many rows of the log are one row here, because all of them would not fit; 1: each is itself.
   */
  merged: number;
}
/**
 * Rows as packed columns of equal length.
 */
export interface ColumnsBlock {
  /**
   * Hundredths, absent where the log says nothing: of I/Os or merges per second (`r_ios`, `r_merges`; `w`, `d`, `f`, and
   * `all` for all classes together), of bytes per second (`r_bytes`), of microseconds (`r_us`, `service_us`), of I/Os in
   * flight (`in_flight`), of percent (`util`).
   */
  cols: {
    [k: string]: string | undefined;
  };
  /**
   * Beginning of each row in milliseconds since the recording's start.
   */
  from: string;
  /**
   * The highest row behind each row, where several are one.
   */
  peaks?: {
    [k: string]: string | undefined;
  };
  /**
   * How many rows.
   */
  rows: number;
  /**
   * Its end.
   */
  to: string;
}
/**
 * The rows of a device.
 */
export interface DeviceTable {
  /**
   * Its name.
   */
  device: string;
  /**
   * What the log says of it.
   */
  table: ColumnsBlock;
}
/**
 * Where the page stands in what the server knows.
 */
export interface ViewBlock {
  /**
   * Beginning of the stretch that was requested.
   */
  from_unix_s: number;
  /**
   * It ends now, whenever that is.
   */
  live: boolean;
  /**
   * The server's clock.
   */
  now_unix_s: number;
  /**
   * A live page shows what is new after this.
   */
  refresh_s: number;
  /**
   * Its end.
   */
  to_unix_s: number;
}
