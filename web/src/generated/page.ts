// Made from docs/schema/ by `make schema`; do not edit.

/**
 * How heavily a device is loaded, relative to its capacity.
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
 * Whether load is periodic.
 */
export type PeriodicityVerdict = "periodic" | "tentative" | "not-periodic" | "insufficient-data";
/**
 * The estimator of a kernel.
 */
export type Regime = "round-stats" | "allocated-too" | "touched-jiffy" | "start-touches" | "sampled";
/**
 * Verdict on the kernel's figure.
 */
export type UtilVerdict = "ok" | "biased-high" | "biased-low" | "impossible";
/**
 * The numbers behind a finding. The variant determines the kind; some kinds have a second form for sources
 * that provide less.
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
 * Source of a limit, most trustworthy first.
 */
export type LimitSource = "user" | "link" | "learned";
/**
 * The quantity of which a burst has more than the background.
 */
export type Measure = "bytes" | "ios";
/**
 * Scope of a stall.
 */
export type StallScope = "device" | "devices" | "array-member" | "array-members" | "array" | "host" | "all";
/**
 * The shortage of CPU time that explains why I/Os waited.
 */
export type CpuShortage = "late-timer" | "steal" | "pressure";
/**
 * How device time changes.
 */
export type LatencyChangeForm = "step" | "trend";
/**
 * Distribution of the slow requests.
 */
export type LatencyModeForm = "second-mode" | "tail";
/**
 * A model and how well it fits.
 */
export type Fit = {
  /**
   * Corrected Akaike criterion: smaller is better; differences below 2 are meaningless.
   */
  aicc: number;
  /**
   * How many bins there are, or a fit rests on.
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
      queueing_model: "mm1";
      /**
       * Mean service time; of an imported table the mean of the obsolete `svctm`.
       */
      service_us: number;
    }
  | {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      queueing_model: "md1";
      /**
       * Mean service time; of an imported table the mean of the obsolete `svctm`.
       */
      service_us: number;
    }
  | {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      queueing_model: "mmc";
      /**
       * Number of servers.
       */
      servers: number;
      /**
       * Mean service time; of an imported table the mean of the obsolete `svctm`.
       */
      service_us: number;
    }
  | (Usl & {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      queueing_model: "usl";
    });
/**
 * How it is known that a writer waits for syncs.
 */
export type SyncSource = "calls" | "ios";
/**
 * How a coarse row's mean latency was computed from the finer rows.
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
 * Kind of a finding.
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
   * Who did the I/O: a process, control group or file on each device, those with most I/O time first.
   */
  actors: ActorBlock[];
  /**
   * Devices in depth, those with most I/O first; not all of them if there are many.
   */
  depth: DepthBlock[];
  /**
   * The devices that it is about.
   */
  devices: DeviceStats[];
  /**
   * Requests to files, or the files that an entry is about, those with most time first.
   */
  files?: FilesBlock | null;
  /**
   * What was found, the most severe first.
   */
  findings: FindingBlock[];
  /**
   * Version of this document.
   */
  format: number;
  /**
   * The rows of imported tables; missing if the recording holds anything else.
   */
  imported_tables?: TablesBlock | null;
  /**
   * Of a file: what the application in it can be asked.
   */
  inside?: InsideBlock | null;
  /**
   * Intervals in which I/Os are missing from the recording.
   */
  lost_intervals: LossBlock[];
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
   * What can be shown: each device, or all of them together.
   */
  scopes: ScopeBlock[];
  /**
   * Devices together, and devices behind one link; none where no single I/O was recorded.
   */
  sets: SetOfPage[];
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
   * What an entry stands for: a process, a control group, a file or a class.
   */
  by: string;
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string | null;
  /**
   * What further identifies it: process ids or an inode.
   */
  identity: string | null;
  /**
   * Share of the sum of latencies of all I/Os that it is about.
   */
  io_time_percent: number | null;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * How the I/Os came to be, which says how far the process can be trusted as their cause.
   */
  origin: string | null;
  /**
   * What the object is about, of I/Os, or calls, that read data.
   */
  read: ActorFlow;
  /**
   * What the object is about, of I/Os that write data, also the empty one that carries a flush, or of calls that write.
   */
  write: ActorFlow;
}
/**
 * Reads or writes of one actor; latencies start to done, percentiles within 1/32.
 */
export interface ActorFlow {
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * The longest.
   */
  max_us: number | null;
  /**
   * Mean time from start to completion; of calls and syncs their mean duration.
   */
  mean_us: number | null;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number | null;
}
/**
 * What the analyses say of one device beside its row in the tables.
 */
export interface DepthBlock {
  /**
   * Mean latency by the second of completion beside that by the second of arrival: where they differ, a stall is shown later than it began.
   */
  attribution: AttributionBlock;
  /**
   * How the device ran, what it can do at most and what is left of that; `null` of several devices together.
   */
  capacity: CapacityBlock;
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string;
  /**
   * Whether reads and writes come back; those with any.
   */
  rhythm: Rhythm[];
  /**
   * Concurrency in slots of time, in groups.
   */
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
   * How many bins there are, or a fit rests on.
   */
  bins: number;
  /**
   * Mean latency of all I/Os, once in the second in which they were done (as iostat and the charts above do it) and once in the second in which they came. Where the curves part, a stall is shown later than it began.
   */
  completed: string;
  /**
   * Percent of the seconds with I/O in which the two means differ by more than 10 %.
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
   * Knee `N*`: how many I/Os the device works on at once. Beyond it, more concurrency only buys more waiting.
   */
  knee_in_flight: number | null;
  /**
   * The plateau of throughput against I/Os in flight, as far as it was observed.
   */
  max_ios_per_s: number | null;
  /**
   * How the device runs: idle, with room for more at once, near its knee, saturated; or not known.
   */
  state: CapacityState;
  /**
   * What it says, in words.
   */
  summary: string;
  /**
   * Mean latency at light load, while hardly anything else was in flight.
   */
  unloaded_us: number | null;
}
/**
 * Whether the load of one class comes back.
 */
export interface Rhythm {
  /**
   * How many bursts were found: submissions beyond what the background explains; with a limit of yours, those that reach half of it.
   */
  bursts_found: number;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Whether the load comes back.
   */
  periodicity: PeriodicityBlock;
}
/**
 * Whether a load comes back, also when it does not.
 */
export interface PeriodicityBlock {
  /**
   * Autocorrelation of the logarithm of KiB at the period of the surest clock; `null` of any other clock.
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
   * Beginnings of activity after quiet.
   */
  onsets: number;
  /**
   * Onsets that keep the clock's time: each a whole number of periods after the one before.
   */
  onsets_in_step: number;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number | null;
  /**
   * Upper end of the period's 95 % interval.
   */
  period_high_s: number | null;
  /**
   * Lower end of the period's 95 % interval.
   */
  period_low_s: number | null;
  /**
   * The period of the surest clock: time between returns, fitted to the onsets that keep step. Of a culprit from begin to begin, if at least five come back at one pace.
   */
  period_s: number | null;
  /**
   * Width of a slot of time; 0 for single I/Os.
   */
  slot_s: number;
  /**
   * What is concluded: of a periodicity, of the kernel's busy time, or of a condition.
   */
  verdict: PeriodicityVerdict;
}
/**
 * A clock: onsets that are one period apart.
 */
export interface Clock {
  /**
   * Periods from its first to its last beat.
   */
  cycles: number;
  /**
   * First beat, in seconds since the start of the window.
   */
  first_beat_s: number;
  /**
   * Standard deviation of the time between beats, as a share of the period.
   */
  jitter: number;
  /**
   * Last beat, in seconds since the start of the window.
   */
  last_beat_s: number;
  /**
   * Onsets that keep the clock's time: each a whole number of periods after the one before.
   */
  onsets_in_step: number;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number;
  /**
   * 95 % confidence interval of the period: for a schedule from the line through its beats, for a timer that
   * starts anew after each beat from its steps.
   *
   * @minItems 2
   * @maxItems 2
   */
  period_ci_s: [number, number] | null;
  /**
   * The period of the surest clock: time between returns, fitted to the onsets that keep step. Of a culprit from begin to begin, if at least five come back at one pace.
   */
  period_s: number;
}
/**
 * Concurrency in slots of time, in groups.
 */
export interface SlotsBlock {
  /**
   * What the object is about, of I/Os of all classes together; of requests to files: over the whole recording.
   */
  all: SlotGroupBlock[];
  /**
   * What the object is about, of I/Os, or calls, that read data.
   */
  read: SlotGroupBlock[];
  /**
   * Time is cut into slots of 2 ms, grouped by 20 minutes (or the whole recording). Each row gives the median and the upper quartile over the slots of its group; n is their number.
   */
  width_s: number;
  /**
   * What the object is about, of I/Os that write data, also the empty one that carries a flush, or of calls that write.
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
   * In flight at a slot's beginning.
   */
  sampled: SlotQuantiles;
  /**
   * How many slots: n of every figure beside it.
   */
  slot_count: number;
  /**
   * Most at once in a slot.
   */
  slot_max: SlotQuantiles;
  /**
   * Time-weighted mean in a slot.
   */
  slot_mean: SlotQuantiles;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * Requests that touch a slot.
   */
  touched: SlotQuantiles;
  /**
   * Share of slots that at least one I/O, or request to a file, touches: utilisation in the sense of slots. It exceeds the exact busy time.
   */
  touched_percent: number;
}
/**
 * Median, 75th percentile (nearest rank), mean and maximum over the slots of a group.
 */
export interface SlotQuantiles {
  /**
   * The largest value; of concurrency the highest level that lasted.
   */
  max: number;
  /**
   * Arithmetic mean; of concurrency over time.
   */
  mean: number;
  /**
   * Median; of concurrency over time, of requests over slots of 2 ms.
   */
  p50: number;
  /**
   * 75th percentile; of concurrency over time, of requests over slots of 2 ms.
   */
  p75: number;
}
/**
 * Stages, seek distances and queue depth at issue of one device.
 */
export interface StagesSummary {
  /**
   * Stages of single bios; `None` if the source saw requests only, as the tracer does.
   */
  bios: BioSummary | null;
  /**
   * Costs of reads and of writes that had the device to themselves (A18).
   *
   * @minItems 2
   * @maxItems 2
   */
  costs: [Cost | null, Cost | null];
  /**
   * Issued to the driver until completed.
   */
  d2c: Stage;
  /**
   * Mean number of requests already issued and not completed when a request is issued (queue depth at D, itself
   * not counted).
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
   * Requests with known sectors that follow another such request: n of the seek distances.
   */
  seeks: number;
  /**
   * Percent that begin where the previous one, of any class, ended.
   */
  sequential_any_class_percent: number | null;
  /**
   * Percent of issues that change from reading to writing or back.
   */
  turn_percent: number | null;
}
/**
 * Stages of bios, with the names of `btt`. A request counts once for each of its bios, as in `btt`.
 */
export interface BioSummary {
  /**
   * Issued to the driver until completed.
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
   * Queued to completed: the whole that the shares of the others refer to.
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
   * The longest.
   */
  max_us: number | null;
  /**
   * Mean time from start to completion; of calls and syncs their mean duration.
   */
  mean_us: number | null;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Median (nearest rank).
   */
  p50_us: number | null;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number | null;
  /**
   * Share of the summed time from start to completion (for bios, of Q2C), in percent.
   */
  share_percent: number | null;
}
/**
 * Cost of one I/O of a class.
 */
export interface Cost {
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Server time per I/O, in microseconds.
   */
  per_io_us: number;
  /**
   * Server time per KiB, in microseconds; 0 if all sizes were the same.
   */
  per_kib_us: number;
}
/**
 * The kernel's busy time of one device compared with the exact one (A2).
 */
export interface UtilCheck {
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O; of a fleet's host its busiest disk's. A device that serves many I/Os at once can be 100 % busy and far from its limit.
   */
  busy_percent: number;
  /**
   * Whether the kernel counted what its estimator should; `null` if that is not known. If it did not, the
   * estimator does not explain the difference: I/Os are lost, or the samples cover another time.
   */
  estimator_agrees: boolean | null;
  /**
   * What this kernel's way of counting must give for exactly these I/Os; `null` if the kernel or its HZ is not known.
   */
  expected_percent: number | null;
  /**
   * How this kernel counts busy time; `null` if it is not known.
   */
  regime: Regime | null;
  /**
   * By how many percentage points the kernel's figure scatters, one standard deviation; `null` if its clock is not known.
   */
  sigma_pp: number | null;
  /**
   * The kernel's own estimate of busy time, as iostat prints it. How far it is off depends on the kernel version; see data quality.
   */
  util_io_ticks_percent: number;
  /**
   * What is concluded: of a periodicity, of the kernel's busy time, or of a condition.
   */
  verdict: UtilVerdict;
}
/**
 * One device over the whole window.
 */
export interface DeviceStats {
  /**
   * What the object is about, of I/Os of all classes together; of requests to files: over the whole recording.
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
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O; of a fleet's host its busiest disk's. A device that serves many I/Os at once can be 100 % busy and far from its limit.
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
  /**
   * How many I/Os were in flight, weighted by time.
   */
  concurrency: Concurrency;
  /**
   * What the object is about, of discards (trim) and secure erases.
   */
  discard: ClassSummary;
  /**
   * What the object is about, of flushes of the device's cache.
   */
  flush: ClassSummary;
  /**
   * I/Os known to be missing, without those that a size limit removed; `null`: not even that is known.
   */
  lost_ios: number | null;
  /**
   * Major device number.
   */
  major: number;
  /**
   * Minor device number.
   */
  minor: number;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * What the object is about, of I/Os, or calls, that read data.
   */
  read: ClassSummary;
  /**
   * The kernel's own estimate of busy time, as iostat prints it. How far it is off depends on the kernel version; see data quality.
   */
  util_io_ticks_percent: number | null;
  /**
   * What the object is about, of I/Os that write data, also the empty one that carries a flush, or of calls that write.
   */
  write: ClassSummary;
}
/**
 * Values that a table gives for all classes of a device together.
 */
export interface AllClasses {
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number | null;
  /**
   * Mean time from start to completion; of calls and syncs their mean duration.
   */
  mean_us: number | null;
  /**
   * Mean service time; of an imported table the mean of the obsolete `svctm`.
   */
  service_us: number | null;
}
/**
 * Time-weighted distribution of the number in flight (A3), exact from events.
 */
export interface Concurrency {
  /**
   * The largest value; of concurrency the highest level that lasted.
   */
  max: number | null;
  /**
   * Arithmetic mean; of concurrency over time.
   */
  mean: number | null;
  /**
   * Median; of concurrency over time, of requests over slots of 2 ms.
   */
  p50: number | null;
  /**
   * 75th percentile; of concurrency over time, of requests over slots of 2 ms.
   */
  p75: number | null;
  /**
   * 99th percentile over time.
   */
  p99: number | null;
}
/**
 * Summary of one class of one device. Latencies are start to completion (S2C, what `iostat` calls await) unless
 * named otherwise. Quantiles are nearest rank, exact up to 65536 I/Os and within 1/256 beyond.
 */
export interface ClassSummary {
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number | null;
  /**
   * Mean time from issue to completion (D2C): driver, device and medium.
   */
  device_mean_us: number | null;
  /**
   * I/Os that failed; `null` if the source does not say.
   */
  errors: number | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number | null;
  /**
   * Fewer than 30: quantiles of so few say little.
   */
  low_n: boolean;
  /**
   * The longest.
   */
  max_us: number | null;
  /**
   * Mean time from start to completion; of calls and syncs their mean duration.
   */
  mean_us: number | null;
  /**
   * Merges into them, as the kernel counts them; `None` if the source does not say.
   */
  merges: number | null;
  /**
   * 95 % confidence interval of the median, from order statistics; `None` with too few I/Os to bound it.
   *
   * @minItems 2
   * @maxItems 2
   */
  p50_ci_us: [number, number] | null;
  /**
   * Median (nearest rank).
   */
  p50_us: number | null;
  /**
   * 75th percentile.
   */
  p75_us: number | null;
  /**
   * The same for the 90th percentile.
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
   * 95th percentile (nearest rank).
   */
  p95_us: number | null;
  /**
   * The same for the 99.9th percentile.
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
   * The same for the 99th percentile.
   *
   * @minItems 2
   * @maxItems 2
   */
  p99_ci_us: [number, number] | null;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number | null;
  /**
   * Mean time from start to issue, in the kernel's queues; `null` if the source has no start.
   */
  queue_mean_us: number | null;
  /**
   * Percent of I/Os that begin at the sector where the previous one of the same device and class, in order of
   * start, ended. `None` without sectors or with fewer than two I/Os.
   */
  sequential_percent: number | null;
}
/**
 * The part of a report of requests that the page draws.
 */
export interface FilesBlock {
  /**
   * Latency of reads, writes and syncs, call by call, of the files whose calls took longest.
   */
  calls: FileCalls[];
  /**
   * Requests to files by what they did: those classes that occurred.
   */
  classes: ClassReport[];
  /**
   * Requests to files, or the files that an entry is about, those with most time first.
   */
  files: Group[];
  /**
   * Requests to files by process, file, control group or class as `by` says, by time in calls.
   */
  groups: Group[];
  /**
   * Requests to files that are missing.
   */
  lost_requests: number;
  /**
   * Medians are of one request in so many.
   */
  one_in: number;
  /**
   * Requests to files over time.
   */
  over_time: FilesOverTime;
  /**
   * The busiest stretch.
   */
  peak_window: PeakWindow | null;
  /**
   * Requests to files, each from open to close; of a group syncs are among them, in the sums they are counted apart.
   */
  requests: number;
  /**
   * How many requests each flag is on.
   */
  requests_by_flag: {
    [k: string]: number | undefined;
  };
  /**
   * The requests that spent most time inside calls.
   */
  slowest: SlowRequest[];
  /**
   * The syncs that took longest.
   */
  slowest_syncs: SlowRequest[];
  /**
   * How many syncs.
   */
  syncs: number;
  /**
   * The files whose syncs took longest.
   */
  syncs_by_path: SyncGroup[];
  /**
   * The processes that waited longest for syncs.
   */
  syncs_by_process: SyncGroup[];
  /**
   * Percent of the bytes of block I/O that no request to a file asked for at that time: write-back, metadata.
   */
  unattributed_percent: number | null;
  /**
   * Requests whose opening was not seen: in sums, not in response times.
   */
  unknown_start: number;
  /**
   * What the devices under synced files did while syncs waited; empty without syncs or block I/Os.
   */
  while_syncing: Meanwhile[];
}
/**
 * The calls on one file.
 */
export interface FileCalls {
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * What the object is about, of I/Os, or calls, that read data.
   */
  read: CallSummary | null;
  /**
   * Durations of its syncs: `fsync`, `fdatasync`, `sync_file_range`, `syncfs`.
   */
  sync: CallSummary | null;
  /**
   * What the object is about, of I/Os that write data, also the empty one that carries a flush, or of calls that write.
   */
  write: CallSummary | null;
}
/**
 * Calls of one kind on one file. Percentiles are `null` unless all calls are known one by one or by a histogram. For
 * a descriptor with both reads and writes, mean and maximum come from the histogram of each kind.
 */
export interface CallSummary {
  /**
   * Fewer than 30: quantiles of so few say little.
   */
  low_n: boolean;
  /**
   * The longest.
   */
  max_us: number | null;
  /**
   * Mean time from start to completion; of calls and syncs their mean duration.
   */
  mean_us: number | null;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Median (nearest rank).
   */
  p50_us: number | null;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number | null;
  /**
   * Maximum error of the percentiles (and of other values from a histogram); 0 if they are exact. `None` without them.
   */
  quantile_error_percent: number | null;
  /**
   * Number of calls that are known one by one.
   */
  timed: number;
}
/**
 * Everything about one class.
 */
export interface ClassReport {
  /**
   * What the object is about, of I/Os of all classes together; of requests to files: over the whole recording.
   */
  all: ClassTable;
  /**
   * Duration of the second I/O of two-block requests by load (A11).
   */
  by_load: DurationByLoad | null;
  /**
   * Response time by size (A7).
   */
  by_size: SizeBin[];
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: string;
  /**
   * Over the peak; `None` without a peak.
   */
  peak: ClassTable | null;
  /**
   * Steps of the response time by size (A7), if there are any.
   */
  steps: Steps | null;
}
/**
 * The table of one class over the whole recording, or over its peak.
 */
export interface ClassTable {
  /**
   * Share of requests with a single I/O (A10).
   */
  atomic: AtomicShare | null;
  /**
   * Costs estimated from response time by size (A9); `None` if the estimate is not valid.
   */
  classical: Classical | null;
  /**
   * Whether that estimate is valid, and why; `None` without requests of one block, or of two.
   */
  classical_verdict: ClassicalVerdict | null;
  /**
   * Costs measured directly (A9).
   */
  direct: Direct;
  /**
   * Median first delay: from the open to the end of the first data I/O.
   */
  first_p50_us: number | null;
  /**
   * Requests to files per second.
   */
  per_s: number;
  /**
   * Requests to files, each from open to close; of a group syncs are among them, in the sums they are counted apart.
   */
  requests: number;
  /**
   * Median response time: from the open to the end of the last data I/O.
   */
  total_p50_us: number | null;
  /**
   * 95th percentile.
   */
  total_p95_us: number | null;
}
/**
 * A share with its confidence interval.
 */
export interface AtomicShare {
  /**
   * Percent of the requests with data that one data I/O served.
   */
  atomic_percent: number;
  /**
   * Its upper end.
   */
  high_percent: number;
  /**
   * Fewer than 30: quantiles of so few say little.
   */
  low_n: boolean;
  /**
   * Lower end of Wilson's 95 % confidence interval.
   */
  low_percent: number;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Percent of the response time spent in the other requests: upper bound of what pipelining could hide.
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
   * Another estimate of an I/O: median of response time minus first delay of two-block requests, in microseconds.
   */
  io2_us: number;
  /**
   * Cost of an I/O: the difference between requests of two blocks and of one, or the height of a step.
   */
  io_us: number;
  /**
   * Number of these requests.
   */
  one_block_n: number;
  /**
   * Median response time of requests of up to one block, in microseconds.
   */
  one_block_us: number;
  /**
   * Cost of everything but the I/O: one block less one I/O, or what is paid once; below zero if the first I/O costs less than those after it.
   */
  overhead_us: number;
  /**
   * Number of these requests.
   */
  two_blocks_n: number;
  /**
   * Median response time of requests of more than one and up to two blocks, in microseconds.
   */
  two_blocks_us: number;
}
/**
 * Whether the classical decomposition is valid.
 */
export interface ClassicalVerdict {
  /**
   * It is valid.
   */
  valid: boolean;
  /**
   * Why, or why not.
   */
  why: string;
}
/**
 * The direct decomposition; `None` for a part that no request has.
 */
export interface Direct {
  /**
   * Block I/O inside the calls.
   */
  block_io: CostPart | null;
  /**
   * Percent of synchronous reads that found their data in memory; `null` without such reads.
   */
  cache_hit_percent: number | null;
  /**
   * The close call.
   */
  close_call: CostPart | null;
  /**
   * The first data I/O.
   */
  first_io: CostPart | null;
  /**
   * Time of the program itself between calls.
   */
  gaps: CostPart | null;
  /**
   * The data I/Os after the first.
   */
  later_ios: CostPart | null;
  /**
   * The open call.
   */
  open_call: CostPart | null;
  /**
   * Percent of second data I/Os that found their data in memory.
   */
  second_hit_percent: number | null;
  /**
   * The second data I/O.
   */
  second_io: CostPart | null;
}
/**
 * Median and 95th percentile of one part of requests.
 */
export interface CostPart {
  /**
   * Fewer than 30: quantiles of so few say little.
   */
  low_n: boolean;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Median (nearest rank).
   */
  p50_us: number;
  /**
   * 95th percentile (nearest rank).
   */
  p95_us: number;
}
/**
 * Duration of I/Os by load.
 */
export interface DurationByLoad {
  /**
   * By deciles of the load; fewer if loads repeat.
   */
  deciles: Decile[];
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Slope in microseconds per (request per second): the Theil-Sen median of slopes. `None` if the load did not vary.
   */
  slope: number | null;
  /**
   * Its upper end.
   */
  slope_high: number | null;
  /**
   * Lower end of the slope's 95 % confidence interval (Sen 1968, by Kendall's variance).
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
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Median (nearest rank).
   */
  p50_us: number;
  /**
   * Requests to files per second.
   */
  per_s: number;
}
/**
 * Requests of a range of sizes.
 */
export interface SizeBin {
  /**
   * Median first delay: from the open to the end of the first data I/O.
   */
  first_p50_us: number;
  /**
   * Fewer than 30: quantiles of so few say little.
   */
  low_n: boolean;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Requests of more than this many bytes ...
   */
  over_bytes: number;
  /**
   * ... and at most this many.
   */
  to_bytes: number;
  /**
   * Its upper end.
   */
  total_high_us: number;
  /**
   * Lower end of the 95 % confidence interval of that median, from order statistics.
   */
  total_low_us: number;
  /**
   * Median response time: from the open to the end of the last data I/O.
   */
  total_p50_us: number;
}
/**
 * Response time as a step function of size: `overhead + ceil(size / block) * io`.
 */
export interface Steps {
  /**
   * How much the Bayesian information criterion (BIC) prefers this to a straight line; more than 10 is decisive.
   */
  bic_gain: number;
  /**
   * Bytes of one I/O.
   */
  block_bytes: number;
  /**
   * Cost of an I/O: the difference between requests of two blocks and of one, or the height of a step.
   */
  io_us: number;
  /**
   * Cost of everything but the I/O: one block less one I/O, or what is paid once; below zero if the first I/O costs less than those after it.
   */
  overhead_us: number;
}
/**
 * A group of requests.
 */
export interface Group {
  /**
   * Bytes of that block I/O.
   */
  block_io_bytes: number;
  /**
   * Seconds of block I/O inside those calls, as far as it can be attributed to them.
   */
  block_io_s: number;
  /**
   * Bytes read by calls.
   */
  bytes_in: number;
  /**
   * Bytes written by calls.
   */
  bytes_out: number;
  /**
   * Percent of synchronous reads that found their data in memory; `null` without such reads.
   */
  cache_hit_percent: number | null;
  /**
   * Seconds inside calls: open, data I/Os, sync, close.
   */
  call_s: number;
  /**
   * Number of data I/Os.
   */
  data_ios: number;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * Requests to files, each from open to close; of a group syncs are among them, in the sums they are counted apart.
   */
  requests: number;
  /**
   * Durations of its syncs: `fsync`, `fdatasync`, `sync_file_range`, `syncfs`.
   */
  sync: SyncSummary | null;
  /**
   * How many syncs.
   */
  syncs: number;
  /**
   * Median response time: from the open to the end of the last data I/O.
   */
  total_p50_us: number | null;
  /**
   * Data I/Os that waited for a device or slept for another reason.
   */
  waited_ios: number;
}
/**
 * Syncs of one group.
 */
export interface SyncSummary {
  /**
   * Number of failed syncs.
   */
  failed: number;
  /**
   * Fewer than 30: quantiles of so few say little.
   */
  low_n: boolean;
  /**
   * The longest.
   */
  max_us: number;
  /**
   * Mean time from start to completion; of calls and syncs their mean duration.
   */
  mean_us: number;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * Median (nearest rank).
   */
  p50_us: number;
  /**
   * 95th percentile (nearest rank).
   */
  p95_us: number;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number;
}
/**
 * Requests over time, in groups of `step_s` from `start_s` on; the last group may be shorter.
 */
export interface FilesOverTime {
  /**
   * Requests to files by what they did: those classes that occurred.
   */
  classes: ClassOverTime[];
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Width of a slot of time; 0 for single I/Os.
   */
  slot_s: number;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * Length of the stretch of time that a row or group stands for.
   */
  step_s: number;
  /**
   * Requests under way; `None` if there are more requests than are kept.
   */
  under_way: UnderWay[] | null;
}
/**
 * One class over time; the vectors have one item per group.
 */
export interface ClassOverTime {
  /**
   * Percent of the requests with data that one data I/O served.
   */
  atomic_percent: (number | null)[];
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: string;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number[];
  /**
   * Median (nearest rank).
   */
  p50_us: (number | null)[];
  /**
   * Requests to files per second.
   */
  per_s: number[];
}
/**
 * Requests under way over time; the vectors have one item per group.
 */
export interface UnderWay {
  /**
   * Median; of concurrency over time, of requests over slots of 2 ms.
   */
  p50: number[];
  /**
   * 75th percentile; of concurrency over time, of requests over slots of 2 ms.
   */
  p75: number[];
  /**
   * `all` (of data), `in` or `out`.
   */
  set: string;
  /**
   * Share of slots that at least one I/O, or request to a file, touches: utilisation in the sense of slots. It exceeds the exact busy time.
   */
  touched_percent: number[];
  /**
   * Percent of the time with at least one request under way, exactly.
   */
  under_way_percent: number[];
  /**
   * `touched_percent` over all groups.
   */
  whole_touched_percent: number;
  /**
   * `under_way_percent` over all groups.
   */
  whole_under_way_percent: number;
}
/**
 * The busiest interval (A12, by completed requests).
 */
export interface PeakWindow {
  /**
   * Length of time from start to end. A burst lasts from the first submission above the background to the last, a stall from the last completion, or the issue after idleness, to the next completion.
   */
  duration_s: number;
  /**
   * Rate of the busiest slot or stretch over the mean rate.
   */
  peak_to_mean: number;
  /**
   * Requests to files per second.
   */
  per_s: number;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
}
/**
 * One of the slowest requests, with the values needed to draw it.
 */
export interface SlowRequest {
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * The part of it inside calls (open and data I/Os), by which requests are ranked.
   */
  call_us: number;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: string;
  /**
   * Duration of the close call, in microseconds.
   */
  close_us: number | null;
  /**
   * Number of data I/Os.
   */
  data_ios: number;
  /**
   * From the open call to the end of the close call, in microseconds.
   */
  end_us: number;
  /**
   * Path of the file, or its inode number where the path is not known; `null` or absent where no file is known. Untrusted: escape it where it is shown.
   */
  file: string | null;
  /**
   * The first data I/Os.
   */
  first_ios: SlowIo[];
  /**
   * Names of its flags.
   */
  flags: string[];
  /**
   * Time of the program itself between calls, in microseconds.
   */
  gaps_us: number | null;
  /**
   * Duration of the open call, in microseconds.
   */
  open_us: number | null;
  /**
   * Number of the process; `null` if it is several, or not known.
   */
  pid: number | null;
  /**
   * Name of the process; `null` if it is not known, or if these are the I/Os of all further processes. Untrusted: escape it where it is shown.
   */
  process: string | null;
  /**
   * The slowest data I/O.
   */
  slowest_io: SlowIo | null;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * From the open call to the end of the last data I/O (for a sync, its duration), in microseconds.
   */
  total_us: number;
}
/**
 * One data I/O of a slow request.
 */
export interface SlowIo {
  /**
   * Start, in microseconds after the open call.
   */
  after_us: number;
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * Whether it was served from memory; `None` if that is not known.
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
   * Number of failed syncs.
   */
  failed: number;
  /**
   * Fewer than 30: quantiles of so few say little.
   */
  low_n: boolean;
  /**
   * The longest.
   */
  max_us: number;
  /**
   * Mean time from start to completion; of calls and syncs their mean duration.
   */
  mean_us: number;
  /**
   * How many observations the figures beside it rest on.
   */
  n: number;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * Median (nearest rank).
   */
  p50_us: number;
  /**
   * 95th percentile (nearest rank).
   */
  p95_us: number;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number;
}
/**
 * I/O that a device completed while at least one sync of a file on it was waiting.
 */
export interface Meanwhile {
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string;
  /**
   * Number of flushes completed in that time.
   */
  flushes: number;
  /**
   * Number of reads completed in that time, which competed with the syncs.
   */
  reads: number;
  /**
   * Seconds with a sync waiting.
   */
  syncing_s: number;
  /**
   * Writes; of a writer that waits for syncs those that it submitted.
   */
  writes: number;
  /**
   * Bytes written to the device.
   */
  written_bytes: number;
}
/**
 * A conclusion, with what it rests on.
 */
export interface FindingBlock {
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string | null;
  /**
   * Where it ends, as RFC 3339; `null` where the recording has no date.
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
  /**
   * What kind it is: of a finding, a story, a mark or a device.
   */
  kind: FindingKind;
  /**
   * How much it matters; of several the highest.
   */
  severity: Severity;
  /**
   * Where it begins, as RFC 3339; `null` where the recording has no date.
   */
  start: string | null;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * What it says, in words.
   */
  summary: string;
}
/**
 * A burst of one class of I/Os that one-second samples hide (A13).
 */
export interface MicroburstEvidence {
  /**
   * Bytes in the minute of its peak, divided by the seconds of that minute with any I/O, as cloud volumes estimate
   * micro-bursts.
   */
  active_second_bytes_per_s: number | null;
  /**
   * The stream's own rate outside its bursts, per second, in bytes or in I/Os as `measure` says.
   */
  baseline_per_s: number;
  /**
   * Depth of the token bucket that would absorb it at its own mean rate over one second.
   */
  bucket_bytes: number;
  /**
   * Number of bursts of this stream that one-second samples hide.
   */
  bursts_in_recording: number;
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * Who caused it: the process that moved most of these bytes or that waited, with its file where it is known.
   */
  cause: string | null;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Bytes in its core.
   */
  core_bytes: number;
  /**
   * Slots of at least half of the burst's own peak, added up.
   */
  core_s: number;
  /**
   * Length of time from start to end. A burst lasts from the first submission above the background to the last, a stall from the last completion, or the issue after idleness, to the next completion.
   */
  duration_s: number;
  /**
   * Whether its peak reaches 95 % of the limit.
   */
  exceeds_limit: boolean;
  /**
   * Expected number of such bursts in the whole recording if there were only the background.
   */
  expected_by_chance: number;
  /**
   * How many times less than its peak one-second samples show; `null` where they show nothing.
   */
  hidden_factor: number;
  /**
   * Its peak divided by the 15-second sample.
   */
  hidden_factor_15s: number | null;
  /**
   * Its peak divided by the one-minute sample.
   */
  hidden_factor_60s: number | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * What the device or link can take: given by the user, or the highest throughput that this recording proves.
   */
  limit_bytes_per_s: number | null;
  /**
   * Where the limit comes from: given by the user, or the highest throughput that this recording proves.
   */
  limit_source: LimitSource | null;
  /**
   * Names of the devices behind one link, if the burst is one of their sum. Absent for a burst of one device.
   */
  link_devices?: string[];
  /**
   * I/Os are missing from it: its numbers are lower bounds.
   */
  lossy: boolean;
  /**
   * Most in flight, on average in a window.
   */
  max_in_flight: number | null;
  /**
   * The highest 15-second sample of it; `null` in a shorter recording, and for bursts that are not among the largest.
   */
  mean_15s_bytes_per_s: number | null;
  /**
   * What one-second samples would have shown: the highest of them, in the middle of 100 phases of the sampler.
   */
  mean_1s_bytes_per_s: number;
  /**
   * The highest one-minute sample of it.
   */
  mean_60s_bytes_per_s: number | null;
  /**
   * Mean size of these I/Os.
   */
  mean_request_bytes: number;
  /**
   * What is measured: a burst has too many bytes or too many I/Os; of a comparison a rate or a latency.
   */
  measure: Measure;
  /**
   * Number of I/Os of the other class that overlap it; in a large recording estimated from a sample.
   */
  other_class_ios: number | null;
  /**
   * Longest latency of I/Os of the other class that overlap it.
   */
  other_class_max_us: number | null;
  /**
   * For a table: the highest mean latency of the other class in rows that overlap it. Absent if single I/Os are known.
   */
  other_class_mean_max_us?: number | null;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number;
  /**
   * The least that the burst's highest throughput was: bytes of I/Os issued and completed inside a window of 10 ms or more, over its length.
   */
  peak_bytes_per_s: number;
  /**
   * I/Os of the burst's highest slot, where they were submitted, per second.
   */
  peak_iops: number;
  /**
   * The burst's peak as a share of the limit.
   */
  percent_of_limit: number;
  /**
   * Width of a slot of time; 0 for single I/Os.
   */
  slot_s: number;
}
/**
 * Nothing completed for far longer than the device's service times explain.
 */
export interface StallEvidence {
  /**
   * Class of the first completion after it.
   */
  completed_after: Class;
  /**
   * Class of the last completion before it; `null` if the device was idle.
   */
  completed_before: Class | null;
  /**
   * Length of time from start to end. A burst lasts from the first submission above the background to the last, a stall from the last completion, or the issue after idleness, to the next completion.
   */
  duration_s: number;
  /**
   * The longest gap that the device's service times explain.
   */
  expected_s: number;
  /**
   * Whether a flush was in flight on the device.
   */
  flush_in_flight: boolean;
  /**
   * Name of the array, or of the controller or host, that the device belongs to.
   */
  group: string | null;
  /**
   * Number of devices of that group.
   */
  group_devices: number | null;
  /**
   * Number of them that stalled at the same time.
   */
  group_devices_stalled: number | null;
  /**
   * Pressure of the host at that time, which does not explain the stall; `null` if the recording does not hold it.
   */
  host_state: HostState | null;
  /**
   * I/Os with the device at the end of the gap without completions.
   */
  in_flight: number;
  /**
   * I/Os issued during it.
   */
  issued_meanwhile: number;
  /**
   * Names of the layers above that stalled with it.
   */
  layers_stalled: string[];
  /**
   * Other devices with I/O, without those stacked with it.
   */
  other_devices: number;
  /**
   * Other devices that stalled at the same time, without those stacked with it.
   */
  other_devices_stalled: number;
  /**
   * Scope of the stall.
   */
  scope: StallScope;
  /**
   * Number of stalls of this device.
   */
  stalls_in_recording: number;
}
/**
 * CPU and I/O pressure of the host in an interval.
 */
export interface HostState {
  /**
   * Percent of the time in which at least one task waited for a CPU (PSI); `null` if the kernel does not report it.
   */
  cpu_pressure_percent: number | null;
  /**
   * Percent of the time in which at least one task waited for I/O (PSI); `null` if the kernel does not report it.
   */
  io_pressure_percent: number | null;
  /**
   * Length of the samples that overlap the interval, in seconds: pressure and steal are means over them.
   */
  measured_s: number;
  /**
   * Maximum number of tasks that ran or waited for a CPU, per CPU; `null` if the kernel does not report it.
   */
  runnable_per_cpu: number | null;
  /**
   * Time that the hypervisor gave to others, summed over CPUs, in percent of the time; `null` if the kernel does
   * not report it.
   */
  steal_percent: number | null;
  /**
   * Longest delay of the recorder's own timer, in milliseconds; `null` if it waited for none.
   */
  timer_late_ms: number | null;
  /**
   * Percent of the interval in which that timer was overdue.
   */
  timer_late_percent: number;
}
/**
 * Device time rises or falls at equal load.
 */
export interface LatencyChangeEvidence {
  /**
   * When it happened, in seconds since the recording's start: a change's step or the beginning of its trend, a mark's instant.
   */
  at_s: number;
  /**
   * Number of blocks of time compared.
   */
  blocks: number;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * The shortage of CPU time at that moment that explains it: then it need not be the device.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Median device time after; for a trend, in the last quarter.
   */
  device_p50_after_us: number | null;
  /**
   * Median device time before; for a trend, in the first quarter.
   */
  device_p50_before_us: number | null;
  /**
   * 99th percentile of device time after; `null` with fewer than 100 I/Os.
   */
  device_p99_after_us: number | null;
  /**
   * 99th percentile of device time before; `null` with fewer than 100 I/Os.
   */
  device_p99_before_us: number | null;
  /**
   * Which form the change has (at once, or little by little) or the second mode (around a time of its own, or spread out).
   */
  form: LatencyChangeForm;
  /**
   * Pressure of the host after; `null` if the recording does not hold it.
   */
  host_after: HostState | null;
  /**
   * Pressure of the host before; `null` if the recording does not hold it.
   */
  host_before: HostState | null;
  /**
   * I/Os after the change, or of the other stretch.
   */
  ios_after: number;
  /**
   * I/Os before the change or the limit, or of the first stretch; `null` where that is not known.
   */
  ios_before: number;
  /**
   * I/Os issued per second after the change divided by those before.
   */
  load_ratio: number;
  /**
   * Corrected for all streams of the report: Student's t over blocks, times splits and streams; for a trend,
   * `p_value` times streams.
   */
  p_family: number;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number;
  /**
   * Device time after the change divided by that before, for I/Os of the same size with as many other I/Os and
   * bytes in flight; for a trend, end divided by beginning.
   */
  ratio_at_same_load: number;
  /**
   * Its 95 % confidence interval, over blocks of time.
   *
   * @minItems 2
   * @maxItems 2
   */
  ratio_at_same_load_ci: [number, number];
}
/**
 * Some I/Os of one class and size have a far longer device time than the rest.
 */
export interface LatencyModeEvidence {
  /**
   * Their sizes are below this.
   */
  below_bytes: number;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * The shortage of CPU time at that moment that explains it: then it need not be the device.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Which form the change has (at once, or little by little) or the second mode (around a time of its own, or spread out).
   */
  form: LatencyModeForm;
  /**
   * Minimum size of these I/Os.
   */
  min_bytes: number;
  /**
   * Sampled I/Os of this class and size.
   */
  sampled_ios: number;
  /**
   * Median device time of the slow I/Os.
   */
  slow_device_us: number;
  /**
   * Share of the slow I/Os that a shortage of CPU time explains; `null` if the recording does not hold the host's
   * pressure during most of them.
   */
  slow_in_cpu_shortage_percent: number | null;
  /**
   * Sampled slow I/Os.
   */
  slow_ios: number;
  /**
   * Share of slow I/Os.
   */
  slow_percent: number;
  /**
   * The sectors between which four fifths of the slow I/Os begin; `null` if these hold more than a fifth of all.
   *
   * @minItems 2
   * @maxItems 2
   */
  slow_sectors: [number, number] | null;
  /**
   * Share of the device time of this class and size that slow I/Os take.
   */
  slow_time_percent: number;
  /**
   * Stretches of time with such I/Os and without others between.
   */
  stretches: number;
  /**
   * Median device time of the other I/Os.
   */
  usual_device_us: number;
}
/**
 * One member of an array has a longer device time than each of its peers.
 */
export interface SlowMemberEvidence {
  /**
   * Name of the array.
   */
  array: string;
  /**
   * Number of blocks of time compared.
   */
  blocks: number;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Median device time of the member.
   */
  device_p50_us: number | null;
  /**
   * 99th percentile of its device time.
   */
  device_p99_us: number | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * Number of its members.
   */
  members: number;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number;
  /**
   * Sampled I/Os of all peers.
   */
  peers_ios: number;
  /**
   * Device time divided by that of the slowest peer, at the same time, size and direction.
   */
  ratio: number;
  /**
   * Its 95 % confidence interval, over blocks of time.
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
 * Throughput is at the limit of the device: more demand only adds waiting.
 */
export interface BandwidthSaturationEvidence {
  /**
   * Most in flight, on average in a window.
   */
  max_in_flight: number;
  /**
   * Mean number in flight, over time.
   */
  mean_in_flight: number;
  /**
   * Mean size of these I/Os.
   */
  mean_request_bytes: number;
  /**
   * Number in flight that the unloaded device needs for that rate.
   */
  needed_in_flight: number;
  /**
   * The rate that throughput hardly ever exceeds: the median of the windows at this limit.
   */
  plateau_bytes_per_s: number;
  /**
   * Mean latency in these windows.
   */
  plateau_mean_us: number;
  /**
   * Share of the time in these windows.
   */
  plateau_percent: number;
  /**
   * 5th and 95th percentile of the rate in these windows.
   *
   * @minItems 2
   * @maxItems 2
   */
  plateau_range_bytes_per_s: [number, number];
  /**
   * Mean latency at light load, while hardly anything else was in flight.
   */
  unloaded_us: number;
  /**
   * Length of a window.
   */
  window_s: number;
  /**
   * Windows with I/O that it was measured in; of a plateau those on it.
   */
  windows: number;
}
/**
 * The device or its driver accepts no more I/Os, and others wait in the kernel.
 */
export interface QueueFullEvidence {
  /**
   * Mean time from issue to completion (D2C): driver, device and medium.
   */
  device_mean_us: number;
  /**
   * I/Os issued in them.
   */
  full_ios: number;
  /**
   * Share of the recording with a full queue.
   */
  full_percent: number;
  /**
   * Time with a full queue.
   */
  full_s: number;
  /**
   * Number of stretches of at least 100 ms in which it was full.
   */
  full_stretches: number;
  /**
   * Length of the longest of them.
   */
  longest_full_s: number;
  /**
   * Queue depth: the most reads and writes ever in flight on the device.
   */
  queue_depth: number;
  /**
   * Longest time that one of them waited.
   */
  queue_max_us: number;
  /**
   * Mean time from start to issue, in the kernel's queues; `null` if the source has no start.
   */
  queue_mean_us: number;
}
/**
 * Periodic load of one class of I/Os (A15).
 */
export interface PeriodicityEvidence {
  /**
   * Autocorrelation of the logarithm of KiB at the period of the surest clock; `null` of any other clock.
   */
  autocorrelation: number | null;
  /**
   * Who caused it: the process that moved most of these bytes or that waited, with its file where it is known.
   */
  cause: string | null;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * 1 minus the p-value.
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
   * Onsets that keep the clock's time: each a whole number of periods after the one before.
   */
  onsets_in_step: number;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number;
  /**
   * Upper end of the period's 95 % interval.
   */
  period_high_s: number | null;
  /**
   * Lower end of the period's 95 % interval.
   */
  period_low_s: number | null;
  /**
   * The period of the surest clock: time between returns, fitted to the onsets that keep step. Of a culprit from begin to begin, if at least five come back at one pace.
   */
  period_s: number;
  /**
   * What is concluded: of a periodicity, of the kernel's busy time, or of a condition.
   */
  verdict: PeriodicityVerdict;
}
/**
 * A device at its capacity (A18).
 */
export interface SaturationEvidence {
  /**
   * The model that fits best.
   */
  fit: Fit | null;
  /**
   * What is left between the mean load and the highest throughput observed. Not extrapolated beyond what was seen.
   */
  headroom_percent: number | null;
  /**
   * Knee `N*`: how many I/Os the device works on at once. Beyond it, more concurrency only buys more waiting.
   */
  knee_in_flight: number;
  /**
   * Its 95 % confidence interval.
   *
   * @minItems 2
   * @maxItems 2
   */
  knee_in_flight_ci: [number, number] | null;
  /**
   * Most in flight, on average in a window.
   */
  max_in_flight: number;
  /**
   * The plateau of throughput against I/Os in flight, as far as it was observed.
   */
  max_ios_per_s: number;
  /**
   * Its 95 % confidence interval.
   *
   * @minItems 2
   * @maxItems 2
   */
  max_ios_per_s_ci: [number, number] | null;
  /**
   * Mean number in flight, over time.
   */
  mean_in_flight: number;
  /**
   * What the recorded mixture of I/Os takes of the device, from the cost of I/Os that had it to themselves; 100: all of it.
   */
  mix_load_percent: number | null;
  /**
   * Share of its busy time with more than twice as much in flight as it serves at once.
   */
  saturated_percent: number;
  /**
   * How the device runs: idle, with room for more at once, near its knee, saturated; or not known.
   */
  state: CapacityState;
  /**
   * Its 95 % confidence interval.
   *
   * @minItems 2
   * @maxItems 2
   */
  unloaded_ci_us: [number, number] | null;
  /**
   * Mean latency at light load, while hardly anything else was in flight.
   */
  unloaded_us: number;
  /**
   * Length of a window.
   */
  window_s: number;
  /**
   * Windows with I/O that it was measured in; of a plateau those on it.
   */
  windows: number;
}
/**
 * Gunther's universal scalability law: `X(N) = γ N / (1 + σ (N - 1) + κ N (N - 1))`.
 */
export interface Usl {
  /**
   * Throughput with one in flight, per second.
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
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O; of a fleet's host its busiest disk's. A device that serves many I/Os at once can be 100 % busy and far from its limit.
   */
  busy_percent: number;
  /**
   * What this kernel's way of counting must give for exactly these I/Os; `null` if the kernel or its HZ is not known.
   */
  expected_percent: number | null;
  /**
   * How this kernel counts busy time; `null` if it is not known.
   */
  regime: Regime | null;
  /**
   * By how many percentage points the kernel's figure scatters, one standard deviation; `null` if its clock is not known.
   */
  sigma_pp: number | null;
  /**
   * The kernel's own estimate of busy time, as iostat prints it. How far it is off depends on the kernel version; see data quality.
   */
  util_io_ticks_percent: number;
  /**
   * What is concluded: of a periodicity, of the kernel's busy time, or of a condition.
   */
  verdict: UtilVerdict;
}
/**
 * A writer that waits for its syncs most of the time.
 */
export interface FsyncBoundEvidence {
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number | null;
  /**
   * Who caused it: the process that moved most of these bytes or that waited, with its file where it is known.
   */
  cause: string | null;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number | null;
  /**
   * Number of the process; `null` if it is several, or not known.
   */
  pid: number | null;
  /**
   * Median duration of a sync.
   */
  sync_p50_us: number;
  /**
   * Source of this evidence: its sync calls, or its I/Os alone.
   */
  sync_source: SyncSource;
  /**
   * Share of its writing time in syncs.
   */
  sync_wait_percent: number;
  /**
   * Total time in syncs.
   */
  sync_wait_s: number;
  /**
   * How many syncs.
   */
  syncs: number;
  /**
   * Number of syncs during which it submitted something.
   */
  syncs_not_waited_for: number;
  /**
   * Syncs per second of its writing time.
   */
  syncs_per_s: number;
  /**
   * How many times as fast it could write without these waits (upper bound).
   */
  times_faster_at_most: number;
  /**
   * Writes; of a writer that waits for syncs those that it submitted.
   */
  writes: number | null;
  /**
   * Writes per sync.
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
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * Who caused it: the process that moved most of these bytes or that waited, with its file where it is known.
   */
  cause: string | null;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * Number of requests of that size that would move the same bytes.
   */
  ios_if_large: number;
  /**
   * Size that a request could have: 128 KiB, or the maximum of the device if that is less.
   */
  large_request_bytes: number;
  /**
   * Number of requests in the longest run.
   */
  longest_run_ios: number;
  /**
   * Share of the device's reads and writes.
   */
  percent_of_ios: number;
  /**
   * Number of the process; `null` if it is several, or not known.
   */
  pid: number | null;
  /**
   * Size of its requests.
   */
  request_bytes: number;
  /**
   * Number of runs of adjacent sectors.
   */
  runs: number;
}
/**
 * Single I/Os that took longer than a second.
 */
export interface SlowIoEvidence {
  /**
   * The shortage of CPU time at that moment that explains it: then it need not be the device.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Number of I/Os that took longer than a second.
   */
  ios_over_1s: number;
  /**
   * Size of the slowest.
   */
  slowest_bytes: number;
  /**
   * Class of the slowest.
   */
  slowest_class: Class;
  /**
   * Device time of the slowest.
   */
  slowest_device_us: number;
  /**
   * Completion of the slowest, in seconds since the recording's start.
   */
  slowest_done_s: number;
  /**
   * Name of the process that submitted it. Untrusted.
   */
  slowest_process: string | null;
  /**
   * First sector of the slowest, in units of 512 bytes.
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
   * Number by error number (`errno`).
   */
  by_error: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^-?\d+$".
     */
    [k: string]: number | undefined;
  };
  /**
   * Class of the first one.
   */
  first_class: Class;
  /**
   * Completion of the first one, in seconds since the recording's start.
   */
  first_done_s: number;
  /**
   * First sector of the first one, in units of 512 bytes.
   */
  first_sector: number | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
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
   * Number of reads of which it is known one by one whether they waited.
   */
  reads_looked_at: number;
  /**
   * Share of these reads that found all data in memory.
   */
  reads_without_wait_percent: number | null;
}
/**
 * The kernel writes later what programs wrote into the page cache (A16).
 */
export interface WrittenBackEvidence {
  /**
   * Bytes of these whose origin is known.
   */
  origin_known_bytes: number;
  /**
   * Bytes of these that the kernel wrote back.
   */
  written_back_bytes: number;
  /**
   * Share of the written bytes that the kernel wrote back.
   */
  written_back_percent: number;
  /**
   * Bytes written to the device.
   */
  written_bytes: number;
}
/**
 * Mean latencies of an imported table compared with finer rows of the same time (A25).
 */
export interface AveragedAveragesEvidence {
  /**
   * Number of them that are averages of averages.
   */
  averages_of_averages: number;
  /**
   * Number of means that finer rows cover.
   */
  checked: number;
  /**
   * One entry for each row.
   */
  rows: AuditRow[];
}
/**
 * The test of one class of one coarse row.
 */
export interface AuditRow {
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Whether I/Os and bytes per second of the coarse row agree with those of the finer rows within rounding.
   */
  counts_agree: boolean;
  /**
   * Number of finer rows that cover the interval.
   */
  finer_rows: number;
  /**
   * Beginning, in nanoseconds since the recording's start.
   */
  from_ns: number;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * Mean of their means, empty ones as 0, in microseconds.
   */
  mean_of_means_us: number;
  /**
   * Mean of the means of those with I/Os, in microseconds.
   */
  mean_of_non_empty_us: number | null;
  /**
   * The rule that reproduces the stated value.
   */
  rule: AveragingRule;
  /**
   * Mean latency that the coarse row states, in microseconds.
   */
  stated_us: number;
  /**
   * End, in nanoseconds since the recording's start.
   */
  to_ns: number;
  /**
   * How much the stated value is below the true mean, in percent of the latter.
   */
  understated_percent: number | null;
  /**
   * Σ n·v / Σ n over the finer rows: the true mean as far as they show it, in microseconds.
   */
  weighted_us: number | null;
}
/**
 * I/Os lost from the recording for one reason.
 */
export interface LostEventsEvidence {
  /**
   * Stretches of time: how many in which I/Os are missing, or each in which I/Os completed.
   */
  intervals: number;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number | null;
  /**
   * Their share of all I/Os.
   */
  lost_percent: number | null;
  /**
   * Why I/Os, or requests to files, are missing.
   */
  reason: LossReason;
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
   * The devices that it is about.
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
   * Columns packed as text, by name.
   */
  cols: {
    [k: string]: string | undefined;
  };
  /**
   * Its end.
   */
  ends: string;
  /**
   * The highest row behind each row, where several are one.
   */
  peaks?: {
    [k: string]: string | undefined;
  };
  /**
   * How many rows; `null` where a file does not say.
   */
  row_count: number;
  /**
   * Beginning of each row in milliseconds since the recording's start.
   */
  starts: string;
}
/**
 * The rows of a device.
 */
export interface DeviceTable {
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string;
  /**
   * What the log says of it.
   */
  table: ColumnsBlock;
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
   * Beginning of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Missing where there are no single I/Os.
   */
  heat?: HeatTiersBlock | null;
  /**
   * Single I/Os around the worst moments of stories.
   */
  moments: MomentBlock[];
  /**
   * What was left out to keep the file small.
   */
  omitted?: string[];
  /**
   * One entry for each row.
   */
  rows: RowsBlock[];
  /**
   * End of the stretch that was asked for or is known, in seconds since 1970 (UTC).
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
   * What can be shown: each device, or all of them together.
   */
  scopes: HeatScopeBlock[];
}
export interface HeatScopeBlock {
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string | null;
  /**
   * Whether its I/Os count in the sum of all devices.
   */
  is_in_sum: boolean;
  /**
   * The same at several resolutions, the finest first.
   */
  tiers: TierBlock[];
}
export interface TierBlock {
  /**
   * Columns of the whole time.
   */
  column_count: number;
  /**
   * Length of a column.
   */
  column_s: number;
  /**
   * Columns that a chunk of text holds; the last one may hold fewer.
   */
  columns_of_chunk: number;
  /**
   * What the object is about, of I/Os, or calls, that read data.
   */
  read: string[];
  /**
   * So many rows are one of this tier.
   */
  rows_together: number;
  /**
   * What the object is about, of I/Os that write data, also the empty one that carries a flush, or of calls that write.
   */
  write: string[];
}
export interface MomentBlock {
  /**
   * What it holds, packed: base64 of a zlib stream.
   */
  data: string;
  /**
   * Beginning of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * End of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
}
export interface RowsBlock {
  /**
   * What it holds, packed: base64 of a zlib stream.
   */
  data: string;
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string | null;
  /**
   * Beginning of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * How many rows; `null` where a file does not say.
   */
  row_count: number;
  /**
   * Length of the stretch of time that a row or group stands for.
   */
  step_s: number;
}
export interface LossBlock {
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string | null;
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number | null;
  /**
   * Whether a slot that it meets may be off by more than 1 %.
   */
  is_marked: boolean;
  /**
   * Why I/Os, or requests to files, are missing.
   */
  reason: string;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
}
export interface MarkBlock {
  /**
   * When it happened, in seconds since the recording's start: a change's step or the beginning of its trend, a mark's instant.
   */
  at_s: number;
  /**
   * What kind it is: of a finding, a story, a mark or a device.
   */
  kind: string;
  /**
   * What it says, in words.
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
   * What it says, in words.
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
   * Length of time from start to end. A burst lasts from the first submission above the background to the last, a stall from the last completion, or the issue after idleness, to the next completion.
   */
  duration_s: number;
  /**
   * Beginning, in seconds since the recording's start.
   */
  from_s: number;
  /**
   * Name of the machine.
   */
  host: string | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
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
   * I/Os that are missing, an entry for each reason.
   */
  losses: Loss[];
  /**
   * I/Os known to be missing, without those that a size limit removed; `null`: not even that is known.
   */
  lost_ios: number | null;
  /**
   * The recording, or the path on this machine, as the user named it or below the directory that the user named.
   */
  path: string;
  /**
   * What recording cost.
   */
  recorder: Recorder;
  /**
   * What recorded it: `ebpf`, `counters` or `import:KIND`.
   */
  source: string;
  /**
   * Start, in seconds since 1970 (UTC) by the wall clock of the recorded machine; `null` where the recording has no date.
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
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number | null;
  /**
   * The layer on which sums over devices count an I/O: always the bottom one that was recorded.
   */
  counted_on: string;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
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
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * Names of the devices: those that it is about, or those right under it.
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
   * Stretches of time: how many in which I/Os are missing, or each in which I/Os completed.
   */
  intervals: number | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number | null;
  /**
   * Why I/Os, or requests to files, are missing.
   */
  reason: string | null;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
}
export interface Recorder {
  /**
   * Bytes on disk for each I/O that is recorded; `null` without single I/Os.
   */
  bytes_per_io: number | null;
  /**
   * CPU time of the recorder's user space and probes, in percent of one CPU, while it recorded; without its start-up.
   */
  cpu_percent: number | null;
  /**
   * CPU time of its user space while it recorded, without its start-up.
   */
  cpu_s: number | null;
  /**
   * Size of the files on disk.
   */
  disk_bytes: number | null;
  /**
   * Peak resident memory of the recorder.
   */
  max_rss_bytes: number | null;
  /**
   * CPU time of its BPF probes; `null` where it was not measured.
   */
  probe_cpu_s: number | null;
  /**
   * CPU time that it took to start.
   */
  startup_cpu_s: number | null;
}
/**
 * A set of devices whose I/O is drawn together. Layers of one stack are never in one set.
 */
export interface ScopeBlock {
  /**
   * How the device ran, what it can do at most and what is left of that; `null` of several devices together.
   */
  capacity: CapacityBlock | null;
  /**
   * Names of the devices that it is about.
   */
  device_names: string[];
  distributions: DistributionsBlock;
  /**
   * What a set of devices is called, or a device of a stack beside its kernel's name.
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
  concurrency_shares: {
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
   * Columns packed as text, by name.
   */
  cols: {
    [k: string]: string | undefined;
  };
  /**
   * Beginning, in nanoseconds since the recording's start.
   */
  from_ns: number;
  /**
   * How many slots: n of every figure beside it.
   */
  slot_count: number;
  /**
   * Width of a slot in nanoseconds.
   */
  step_ns: number;
  /**
   * End, in nanoseconds since the recording's start.
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
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O; of a fleet's host its busiest disk's. A device that serves many I/Os at once can be 100 % busy and far from its limit.
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
  /**
   * How many I/Os were in flight, weighted by time.
   */
  concurrency: Concurrency;
  /**
   * Names of the devices that it is about.
   */
  device_names: string[];
  /**
   * Layers above them, whose I/Os would count twice.
   */
  left_out_names: string[];
  /**
   * Share of time with at least one I/O in flight on at least one of the devices, measured exactly. The mean over devices hides one hot device among idle ones; it is never more than the busiest, nor that more than all together.
   */
  max_busy_percent: number | null;
  /**
   * Share of time with at least one I/O in flight on at least one of the devices, measured exactly. The mean over devices hides one hot device among idle ones; it is never more than the busiest, nor that more than all together.
   */
  mean_busy_percent: number | null;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * Concurrency in slots of time, in groups.
   */
  slots: SlotsBlock | null;
}
/**
 * Devices whose data go through one link, with what it carries.
 */
export interface LinkBlock {
  /**
   * Names of the devices that it is about.
   */
  device_names: string[];
  /**
   * What the device or link can take: given by the user, or the highest throughput that this recording proves.
   */
  limit_bytes_per_s: number;
  /**
   * Where the limit comes from: given by the user, or the highest throughput that this recording proves.
   */
  limit_source: LimitSource;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
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
   * How many bursts were found: submissions beyond what the background explains; with a limit of yours, those that reach half of it.
   */
  bursts_found: number;
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * What the I/Os do: read, write, discard or flush; of requests to files in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * The burst of most bytes.
   */
  largest: BurstBlock | null;
  /**
   * Width of a slot of time; 0 for single I/Os.
   */
  slot_s: number;
}
/**
 * A burst of demand.
 */
export interface BurstBlock {
  /**
   * The stream's own rate outside its bursts, per second, in bytes or in I/Os as `measure` says.
   */
  baseline_per_s: number;
  /**
   * Depth of the token bucket that would absorb it at its own mean rate over one second.
   */
  bucket_bytes: number;
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * It touches the edge of the recording: it may have been longer.
   */
  censored: boolean;
  /**
   * Slots of at least half of the burst's own peak, added up.
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
   * How many times less than its peak one-second samples show; `null` where they show nothing.
   */
  hidden_factor: number | null;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * I/Os are missing from it: its numbers are lower bounds.
   */
  lossy: boolean;
  /**
   * What one-second samples would have shown: the highest of them, in the middle of 100 phases of the sampler.
   */
  mean_1s_bytes_per_s: number;
  /**
   * Mean size of these I/Os.
   */
  mean_request_bytes: number;
  /**
   * What is measured: a burst has too many bytes or too many I/Os; of a comparison a rate or a latency.
   */
  measure: Measure;
  /**
   * How likely chance alone shows something like it. Which test gives it, and what it is allowed for, is in docs/calibration.md.
   */
  p_value: number;
  /**
   * The least that the burst's highest throughput was: bytes of I/Os issued and completed inside a window of 10 ms or more, over its length.
   */
  peak_bytes_per_s: number;
  /**
   * I/Os of the burst's highest slot, where they were submitted, per second.
   */
  peak_iops: number;
  /**
   * The burst's peak as a share of the limit.
   */
  percent_of_limit: number;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
}
/**
 * Where the page stands in what the server knows.
 */
export interface ViewBlock {
  /**
   * Beginning of the stretch that was asked for or is known, in seconds since 1970 (UTC).
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
   * End of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
}
