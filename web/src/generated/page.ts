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
 * The four I/O classes of the kernel's disk statistics.
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
   * Number of bins, or the number of bins that the model is fitted to.
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
       * Mean service time. Of an imported table: mean of the obsolete `svctm`.
       */
      service_us: number;
    }
  | {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      queueing_model: "md1";
      /**
       * Mean service time. Of an imported table: mean of the obsolete `svctm`.
       */
      service_us: number;
    }
  | {
      /**
       * Queueing model of throughput against I/Os in flight: mm1, md1, mmc, or Gunther's universal scalability law (usl).
       */
      queueing_model: "mmc";
      /**
       * Number of parallel servers in the model.
       */
      servers: number;
      /**
       * Mean service time. Of an imported table: mean of the obsolete `svctm`.
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
 * Data that shows that a writer waits for syncs.
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
 * How much a finding matters, from `info` to `critical`.
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
   * I/O by process, control group or file on each device, sorted by I/O time, largest first.
   */
  actors: ActorBlock[];
  /**
   * Detailed results per device, those with most I/O first. Not all devices are included if there are many.
   */
  depth: DepthBlock[];
  /**
   * Devices included.
   */
  devices: DeviceStats[];
  /**
   * File requests, or the files of an entry, sorted by time, largest first.
   */
  files?: FilesBlock | null;
  /**
   * Findings, most severe first.
   */
  findings: FindingBlock[];
  /**
   * Version of the document's layout.
   */
  format: number;
  /**
   * Rows of imported tables; absent if the recording holds anything else.
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
   * Marks on the time line, such as phases of an experiment and clock steps.
   */
  marks: MarkBlock[];
  /**
   * Limits of the data quality, as text.
   */
  quality: Note[];
  recording: Recording;
  /**
   * Selectable scopes: each device, and all devices together.
   */
  scopes: ScopeBlock[];
  /**
   * Sets of devices: all together, and those behind one link. Empty if the recording has no individual I/Os.
   */
  sets: SetOfPage[];
  /**
   * Of a page made by a server: the displayed part of the server's data.
   */
  view?: ViewBlock | null;
  /**
   * Program and version that wrote the recording.
   */
  writer: string;
}
/**
 * A row of the table.
 */
export interface ActorBlock {
  /**
   * Grouping of the entries: process, control group, file or class.
   */
  by: string;
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string | null;
  /**
   * Further identification: process IDs or an inode.
   */
  identity: string | null;
  /**
   * Share of the I/O time (sum of latencies) of all I/Os in the same scope.
   */
  io_time_percent: number | null;
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * Origin of the I/Os (such as `direct`, `readahead` or `writeback`). It determines how reliably the process is their cause.
   */
  origin: string | null;
  /**
   * Values for I/Os or calls that read data.
   */
  read: ActorFlow;
  /**
   * Values for I/Os or calls that write data, including the empty write that carries a flush.
   */
  write: ActorFlow;
}
/**
 * Reads or writes of one actor; latencies start to done, percentiles within 1/32.
 */
export interface ActorFlow {
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Maximum latency or duration.
   */
  max_us: number | null;
  /**
   * Mean latency from start to completion. Of calls and syncs: mean duration.
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
   * Mean latency by second of completion and by second of arrival. Where they differ, a chart by completion shows a stall later than it began.
   */
  attribution: AttributionBlock;
  /**
   * State of the device, its maximum throughput and its headroom; `null` for several devices together.
   */
  capacity: CapacityBlock;
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string;
  /**
   * Periodicity of reads and of writes. Only classes with I/Os are included.
   */
  rhythm: Rhythm[];
  /**
   * Concurrency per time slot, in groups.
   */
  slots: SlotsBlock;
  stages: StagesSummary;
  /**
   * The kernel's busy time compared with the exact one; `null` without counters or with losses.
   */
  util: UtilCheck | null;
}
/**
 * Mean latencies of all I/Os by the time of their completion and by that of their arrival, as packed log codes of ns,
 * where the two differ most.
 */
export interface AttributionBlock {
  /**
   * Mean latency of the I/Os by bin of their arrival, packed as text.
   */
  arrived: string;
  /**
   * Length of the bins of which the mean latencies are compared.
   */
  bin_ns: number;
  /**
   * Number of bins, or the number of bins that the model is fitted to.
   */
  bins: number;
  /**
   * Mean latency of the I/Os by bin of their completion, packed as text.
   */
  completed: string;
  /**
   * Percent of the seconds with I/O in which the two means differ by more than 10 %.
   */
  differ_percent: number | null;
  /**
   * Start, in nanoseconds since the recording's start.
   */
  from_ns: number;
}
/**
 * Capacity and headroom of one device (A18) as the page reads it.
 */
export interface CapacityBlock {
  /**
   * Difference between the highest observed throughput and the mean load, in percent of the former. Not extrapolated.
   */
  headroom_percent: number | null;
  /**
   * Knee `N*`: number of I/Os that the device serves in parallel. More I/Os in flight only add waiting time.
   */
  knee_in_flight: number | null;
  /**
   * Maximum throughput in I/Os per second: plateau of throughput against I/Os in flight, as far as observed.
   */
  max_ios_per_s: number | null;
  /**
   * State of the device: idle, with room for more in parallel, near its knee, saturated, throttled above the device, or not known because its capacity was not observed or the data are inconsistent.
   */
  state: CapacityState;
  /**
   * Summary, as text.
   */
  summary: string;
  /**
   * Mean latency at light load, with hardly any other I/O in flight.
   */
  unloaded_us: number | null;
}
/**
 * Whether the load of one class comes back.
 */
export interface Rhythm {
  /**
   * Number of bursts found. A burst is a short interval with more submissions than the background explains or, with a user-defined limit, one that reaches half of the limit.
   */
  bursts_found: number;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Periodicity of the load.
   */
  periodicity: PeriodicityBlock;
}
/**
 * Periodicity of a load, whether it is periodic or not.
 */
export interface PeriodicityBlock {
  /**
   * Autocorrelation of log(KiB) at the period of the most significant clock; `null` for all other clocks.
   */
  autocorrelation: number | null;
  /**
   * Detected clocks, most significant first.
   */
  clocks: Clock[];
  /**
   * Number of periods from the first to the last beat.
   */
  cycles: number | null;
  /**
   * Coefficient of variation of the time between onsets.
   */
  gap_cv: number | null;
  /**
   * Median absolute deviation of the time between onsets.
   */
  gap_mad_s: number | null;
  /**
   * Mean time from one onset of activity to the next.
   */
  gap_mean_s: number | null;
  /**
   * Number of onsets: starts of activity after a quiet period.
   */
  onsets: number;
  /**
   * Onsets that match the clock: each a whole number of periods after the one before.
   */
  onsets_in_step: number;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
   */
  p_value: number | null;
  /**
   * Upper end of the 95 % confidence interval of the period.
   */
  period_high_s: number | null;
  /**
   * Lower end of the 95 % confidence interval of the period.
   */
  period_low_s: number | null;
  /**
   * Period of the most significant clock, fitted to the onsets that match it. Of a culprit: time from start to start, if at least five are evenly spaced.
   */
  period_s: number | null;
  /**
   * Length of a time slot; 0 for individual I/Os.
   */
  slot_s: number;
  /**
   * Conclusion about the periodicity, the kernel's busy time, or the condition.
   */
  verdict: PeriodicityVerdict;
}
/**
 * A clock: onsets that are one period apart.
 */
export interface Clock {
  /**
   * Number of periods from the first to the last beat.
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
   * Onsets that match the clock: each a whole number of periods after the one before.
   */
  onsets_in_step: number;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
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
   * Period of the most significant clock, fitted to the onsets that match it. Of a culprit: time from start to start, if at least five are evenly spaced.
   */
  period_s: number;
}
/**
 * Concurrency in slots of time, in groups.
 */
export interface SlotsBlock {
  /**
   * Values for I/Os of all classes together. Of file requests: values over the whole recording.
   */
  all: SlotGroupBlock[];
  /**
   * Values for I/Os or calls that read data.
   */
  read: SlotGroupBlock[];
  /**
   * Length of a slot.
   */
  width_s: number;
  /**
   * Values for I/Os or calls that write data, including the empty write that carries a flush.
   */
  write: SlotGroupBlock[];
}
/**
 * Nearest-rank quantiles over the slots of one interval.
 */
export interface SlotGroupBlock {
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * I/Os in flight at the start of a slot.
   */
  sampled: SlotQuantiles;
  /**
   * Number of slots that the adjacent values are based on.
   */
  slot_count: number;
  /**
   * Maximum number of I/Os in flight within a slot.
   */
  slot_max: SlotQuantiles;
  /**
   * Time-weighted mean number of I/Os in flight within a slot.
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
   * Share of slots in which at least one I/O or file request is under way, even briefly. It is never less than the exact busy time.
   */
  touched_percent: number;
}
/**
 * Median, 75th percentile (nearest rank), mean and maximum over the slots of a group.
 */
export interface SlotQuantiles {
  /**
   * Maximum. Of concurrency: the highest level with a nonzero duration.
   */
  max: number;
  /**
   * Arithmetic mean. Of concurrency: weighted by time.
   */
  mean: number;
  /**
   * Median. Of concurrency: weighted by time. Of file requests: over slots of 2 ms.
   */
  p50: number;
  /**
   * 75th percentile. Of concurrency: weighted by time. Of file requests: over slots of 2 ms.
   */
  p75: number;
}
/**
 * Stages, seek distances and queue depth at issue of one device.
 */
export interface StagesSummary {
  /**
   * Stages of individual bios; `null` if the source saw requests only, as the tracer does.
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
   * Time from issue to the driver (D) to completion (C).
   */
  d2c: Stage;
  /**
   * Mean number of requests already issued and not completed when a request is issued (queue depth at D, itself
   * not counted).
   */
  depth_at_issue: number | null;
  /**
   * Time from start (S) to completion (C).
   */
  s2c: Stage;
  /**
   * Time from start (S) to issue to the driver (D).
   */
  s2d: Stage;
  /**
   * Median seek distance in sectors of 512 bytes.
   */
  seek_p50_sectors: number | null;
  /**
   * 90th percentile of the seek distance in sectors of 512 bytes.
   */
  seek_p90_sectors: number | null;
  /**
   * Number of seek distances: requests with known sectors that follow another such request.
   */
  seeks: number;
  /**
   * Percent of requests that begin where the previous one, of any class, ended.
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
   * Time from issue to the driver (D) to completion (C).
   */
  d2c: Stage;
  /**
   * Time from request allocation (G) to insertion into the I/O scheduler (I). Absent without a scheduler.
   */
  g2i: Stage;
  /**
   * Time from insertion into the I/O scheduler (I) to issue to the driver (D).
   */
  i2d: Stage;
  /**
   * Time from merging into a request (M) to issue to the driver (D).
   */
  m2d: Stage;
  /**
   * Time from queueing (Q) to completion (C). The shares of the other stages refer to it.
   */
  q2c: Stage;
  /**
   * Time from queueing (Q) to request allocation (G).
   */
  q2g: Stage;
  /**
   * Time from queueing (Q) to merging into an existing request (M).
   */
  q2m: Stage;
}
/**
 * One stage.
 */
export interface Stage {
  /**
   * Maximum latency or duration.
   */
  max_us: number | null;
  /**
   * Mean latency from start to completion. Of calls and syncs: mean duration.
   */
  mean_us: number | null;
  /**
   * Number of observations that the adjacent values are based on.
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
   * Share of this stage in the total time from start to completion (of bios: in Q2C), in percent.
   */
  share_percent: number | null;
}
/**
 * Cost of one I/O of a class.
 */
export interface Cost {
  /**
   * Number of observations that the adjacent values are based on.
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
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. Of a host: the value of its busiest disk. A device that serves many I/Os in parallel can be 100 % busy and far from its limit.
   */
  busy_percent: number;
  /**
   * Whether the kernel counted what its estimator should; `null` if that is not known. If `false`, the estimator does not
   * explain the difference: I/Os are lost, or the samples cover another time.
   */
  estimator_agrees: boolean | null;
  /**
   * Busy time that this kernel's counting method yields for exactly these I/Os; `null` if the kernel or its HZ is not known.
   */
  expected_percent: number | null;
  /**
   * How this kernel counts busy time; `null` if it is not known.
   */
  regime: Regime | null;
  /**
   * Standard deviation of the kernel's %util, in percentage points; `null` if the kernel's clock is not known.
   */
  sigma_pp: number | null;
  /**
   * The kernel's own estimate of busy time (%util of iostat). Its error depends on the kernel version, see data quality.
   */
  util_io_ticks_percent: number;
  /**
   * Conclusion about the periodicity, the kernel's busy time, or the condition.
   */
  verdict: UtilVerdict;
}
/**
 * One device over the whole window.
 */
export interface DeviceStats {
  /**
   * Values for I/Os of all classes together. Of file requests: values over the whole recording.
   */
  all?: AllClasses | null;
  /**
   * Share of time with reads and writes in flight at the same time.
   */
  busy_both_percent: number | null;
  /**
   * Share of time with at least one I/O issued to the driver and not yet completed, excluding time in the kernel's queues.
   */
  busy_device_percent: number | null;
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. Of a host: the value of its busiest disk. A device that serves many I/Os in parallel can be 100 % busy and far from its limit.
   */
  busy_percent: number | null;
  /**
   * Share of time with at least one read in flight.
   */
  busy_read_percent: number | null;
  /**
   * Share of time with at least one write in flight.
   */
  busy_write_percent: number | null;
  /**
   * Distribution of the number of I/Os in flight, weighted by time.
   */
  concurrency: Concurrency;
  /**
   * Values for discards (trim) and secure erases.
   */
  discard: ClassSummary;
  /**
   * Values for flushes of the device's cache.
   */
  flush: ClassSummary;
  /**
   * Number of lost I/Os, excluding those removed by a size limit; `null` if the number is not known.
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
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * Values for I/Os or calls that read data.
   */
  read: ClassSummary;
  /**
   * The kernel's own estimate of busy time (%util of iostat). Its error depends on the kernel version, see data quality.
   */
  util_io_ticks_percent: number | null;
  /**
   * Values for I/Os or calls that write data, including the empty write that carries a flush.
   */
  write: ClassSummary;
}
/**
 * Values that a table gives for all classes of a device together.
 */
export interface AllClasses {
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number | null;
  /**
   * Mean latency from start to completion. Of calls and syncs: mean duration.
   */
  mean_us: number | null;
  /**
   * Mean service time. Of an imported table: mean of the obsolete `svctm`.
   */
  service_us: number | null;
}
/**
 * Time-weighted distribution of the number in flight (A3), exact from events.
 */
export interface Concurrency {
  /**
   * Maximum. Of concurrency: the highest level with a nonzero duration.
   */
  max: number | null;
  /**
   * Arithmetic mean. Of concurrency: weighted by time.
   */
  mean: number | null;
  /**
   * Median. Of concurrency: weighted by time. Of file requests: over slots of 2 ms.
   */
  p50: number | null;
  /**
   * 75th percentile. Of concurrency: weighted by time. Of file requests: over slots of 2 ms.
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
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number | null;
  /**
   * Mean time from issue to completion (D2C): driver, device and medium.
   */
  device_mean_us: number | null;
  /**
   * I/Os that failed; `null` if the source does not report errors.
   */
  errors: number | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number | null;
  /**
   * Whether there are fewer than 30 values. Percentiles of so few are unreliable.
   */
  low_n: boolean;
  /**
   * Maximum latency or duration.
   */
  max_us: number | null;
  /**
   * Mean latency from start to completion. Of calls and syncs: mean duration.
   */
  mean_us: number | null;
  /**
   * Requests merged into these I/Os, as counted by the kernel; `null` if the source does not report merges.
   */
  merges: number | null;
  /**
   * 95 % confidence interval of the median, from order statistics; `null` with too few I/Os to bound it.
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
   * 95 % confidence interval of the 90th percentile, from order statistics; `null` with too few I/Os to bound it.
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
   * 95 % confidence interval of the 99.9th percentile, from order statistics; `null` with too few I/Os to bound it.
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
   * 95 % confidence interval of the 99th percentile, from order statistics; `null` with too few I/Os to bound it.
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
   * Mean time from start to issue, in the kernel's queues; `null` if the source does not report the start.
   */
  queue_mean_us: number | null;
  /**
   * Percent of I/Os that begin at the sector where the previous one of the same device and class, in order of start, ended.
   * `null` without sectors or with fewer than two I/Os.
   */
  sequential_percent: number | null;
}
/**
 * The part of a report of requests that the page draws.
 */
export interface FilesBlock {
  /**
   * Latency of single read, write and sync calls, for the files with the longest calls.
   */
  calls: FileCalls[];
  /**
   * File requests by class. Only classes that occurred are included.
   */
  classes: ClassReport[];
  /**
   * File requests, or the files of an entry, sorted by time, largest first.
   */
  files: Group[];
  /**
   * File requests grouped by process, file, control group or class (see `by`), sorted by time in calls.
   */
  groups: Group[];
  /**
   * Lost file requests.
   */
  lost_requests: number;
  /**
   * Sampling ratio: medians are based on one in this many requests.
   */
  one_in: number;
  /**
   * File requests over time.
   */
  over_time: FilesOverTime;
  /**
   * Busiest interval.
   */
  peak_window: PeakWindow | null;
  /**
   * File requests, each from open to close. Of a group: syncs are included; in sums they are counted separately.
   */
  requests: number;
  /**
   * Number of requests with each flag.
   */
  requests_by_flag: {
    [k: string]: number | undefined;
  };
  /**
   * File requests with the most time inside calls.
   */
  slowest: SlowRequest[];
  /**
   * Longest syncs.
   */
  slowest_syncs: SlowRequest[];
  /**
   * Number of syncs.
   */
  syncs: number;
  /**
   * Syncs by file, for the files with the longest syncs.
   */
  syncs_by_path: SyncGroup[];
  /**
   * Syncs by process, for the processes that waited longest for syncs.
   */
  syncs_by_process: SyncGroup[];
  /**
   * Percent of the bytes of block I/O that no file request asked for at that time, such as write-back and metadata.
   */
  unattributed_percent: number | null;
  /**
   * Requests whose open call was not recorded. They count in sums but not in response times.
   */
  unknown_start: number;
  /**
   * I/O of the devices below synced files while syncs waited. Empty without syncs or block I/Os.
   */
  while_syncing: Meanwhile[];
}
/**
 * The calls on one file.
 */
export interface FileCalls {
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * Values for I/Os or calls that read data.
   */
  read: CallSummary | null;
  /**
   * Durations of syncs: `fsync`, `fdatasync`, `sync_file_range`, `syncfs`.
   */
  sync: CallSummary | null;
  /**
   * Values for I/Os or calls that write data, including the empty write that carries a flush.
   */
  write: CallSummary | null;
}
/**
 * Calls of one kind on one file. Percentiles are `null` unless all calls are known one by one or by a histogram. For
 * a descriptor with both reads and writes, mean and maximum come from the histogram of each kind.
 */
export interface CallSummary {
  /**
   * Whether there are fewer than 30 values. Percentiles of so few are unreliable.
   */
  low_n: boolean;
  /**
   * Maximum latency or duration.
   */
  max_us: number | null;
  /**
   * Mean latency from start to completion. Of calls and syncs: mean duration.
   */
  mean_us: number | null;
  /**
   * Number of observations that the adjacent values are based on.
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
   * Maximum error of the percentiles (and of other values from a histogram); 0 if they are exact. `null` without them.
   */
  quantile_error_percent: number | null;
  /**
   * Number of calls recorded individually.
   */
  timed: number;
}
/**
 * Everything about one class.
 */
export interface ClassReport {
  /**
   * Values for I/Os of all classes together. Of file requests: values over the whole recording.
   */
  all: ClassTable;
  /**
   * Duration of the second data I/O of two-block requests by load (A11).
   */
  by_load: DurationByLoad | null;
  /**
   * Response time by size (A7).
   */
  by_size: SizeBin[];
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: string;
  /**
   * Values of the busiest interval; `null` without one.
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
   * Share of requests served by a single data I/O (A10).
   */
  atomic: AtomicShare | null;
  /**
   * Costs estimated from response time by size (A9); `null` if the estimate is not valid.
   */
  classical: Classical | null;
  /**
   * Whether the estimate in `classical` is valid, and why; `null` without requests of one block, or of two.
   */
  classical_verdict: ClassicalVerdict | null;
  /**
   * Costs measured directly (A9).
   */
  direct: Direct;
  /**
   * Median time from the open call to the end of the first data I/O.
   */
  first_p50_us: number | null;
  /**
   * File requests per second.
   */
  per_s: number;
  /**
   * File requests, each from open to close. Of a group: syncs are included; in sums they are counted separately.
   */
  requests: number;
  /**
   * Median response time: from the open call to the end of the last data I/O.
   */
  total_p50_us: number | null;
  /**
   * 95th percentile of the response time.
   */
  total_p95_us: number | null;
}
/**
 * A share with its confidence interval.
 */
export interface AtomicShare {
  /**
   * Percent of the requests with data that were served by a single data I/O.
   */
  atomic_percent: number;
  /**
   * Upper end of Wilson's 95 % confidence interval of the share.
   */
  high_percent: number;
  /**
   * Whether there are fewer than 30 values. Percentiles of so few are unreliable.
   */
  low_n: boolean;
  /**
   * Lower end of Wilson's 95 % confidence interval of the share.
   */
  low_percent: number;
  /**
   * Number of observations that the adjacent values are based on.
   */
  n: number;
  /**
   * Percent of the response time spent in requests with several data I/Os: upper bound of what pipelining could hide.
   */
  pipelining_bound_percent: number | null;
}
/**
 * The classical decomposition: `first delay = overhead + I/O`, `total(2 blocks) = first delay + I/O`.
 */
export interface Classical {
  /**
   * Size of one I/O in the estimate.
   */
  block_bytes: number;
  /**
   * Second estimate of the cost of an I/O: median of response time minus first delay of two-block requests, in microseconds.
   */
  io2_us: number;
  /**
   * Estimated cost of one I/O: difference between requests of two blocks and of one block, or the height of a step.
   */
  io_us: number;
  /**
   * Number of requests of up to one block.
   */
  one_block_n: number;
  /**
   * Median response time of requests of up to one block, in microseconds.
   */
  one_block_us: number;
  /**
   * Cost of a request apart from its I/Os: time of one block minus one I/O, or the constant part. Negative if the first I/O costs less than later ones.
   */
  overhead_us: number;
  /**
   * Number of requests of more than one and up to two blocks.
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
   * Whether the estimate is valid.
   */
  valid: boolean;
  /**
   * Reason why the estimate is valid or not.
   */
  why: string;
}
/**
 * The direct decomposition; `None` for a part that no request has.
 */
export interface Direct {
  /**
   * Time of block I/O inside the calls.
   */
  block_io: CostPart | null;
  /**
   * Percent of synchronous reads served from memory; `null` if there are none.
   */
  cache_hit_percent: number | null;
  /**
   * Duration of the close call.
   */
  close_call: CostPart | null;
  /**
   * Duration of the first data I/O.
   */
  first_io: CostPart | null;
  /**
   * Time between calls, spent in the program itself.
   */
  gaps: CostPart | null;
  /**
   * Duration of the data I/Os after the first.
   */
  later_ios: CostPart | null;
  /**
   * Duration of the open call.
   */
  open_call: CostPart | null;
  /**
   * Percent of second data I/Os that found their data in memory.
   */
  second_hit_percent: number | null;
  /**
   * Duration of the second data I/O.
   */
  second_io: CostPart | null;
}
/**
 * Median and 95th percentile of one part of requests.
 */
export interface CostPart {
  /**
   * Whether there are fewer than 30 values. Percentiles of so few are unreliable.
   */
  low_n: boolean;
  /**
   * Number of observations that the adjacent values are based on.
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
   * Durations by deciles of the load. Fewer than ten if loads repeat.
   */
  deciles: Decile[];
  /**
   * Number of observations that the adjacent values are based on.
   */
  n: number;
  /**
   * Change of the duration in microseconds per (request per second): the Theil-Sen median of slopes. `null` if the load did
   * not vary.
   */
  slope: number | null;
  /**
   * Upper end of the slope's 95 % confidence interval.
   */
  slope_high: number | null;
  /**
   * Lower end of the slope's 95 % confidence interval (Sen 1968, by Kendall's variance).
   */
  slope_low: number | null;
  /**
   * Spearman's rank correlation of duration and load.
   */
  spearman: number | null;
}
/**
 * I/Os of one tenth of the loads.
 */
export interface Decile {
  /**
   * Number of observations that the adjacent values are based on.
   */
  n: number;
  /**
   * Median (nearest rank).
   */
  p50_us: number;
  /**
   * File requests per second.
   */
  per_s: number;
}
/**
 * Requests in a range of sizes.
 */
export interface SizeBin {
  /**
   * Median time from the open call to the end of the first data I/O.
   */
  first_p50_us: number;
  /**
   * Whether there are fewer than 30 values. Percentiles of so few are unreliable.
   */
  low_n: boolean;
  /**
   * Number of observations that the adjacent values are based on.
   */
  n: number;
  /**
   * Lower bound of the request size, exclusive.
   */
  over_bytes: number;
  /**
   * Upper bound of the request size, inclusive.
   */
  to_bytes: number;
  /**
   * Upper end of the 95 % confidence interval of the median response time, from order statistics.
   */
  total_high_us: number;
  /**
   * Lower end of the 95 % confidence interval of the median response time, from order statistics.
   */
  total_low_us: number;
  /**
   * Median response time: from the open call to the end of the last data I/O.
   */
  total_p50_us: number;
}
/**
 * Response time as a step function of size: `overhead + ceil(size / block) * io`.
 */
export interface Steps {
  /**
   * How much the Bayesian information criterion (BIC) prefers steps to a straight line; more than 10 is decisive.
   */
  bic_gain: number;
  /**
   * Size of one I/O in the estimate.
   */
  block_bytes: number;
  /**
   * Estimated cost of one I/O: difference between requests of two blocks and of one block, or the height of a step.
   */
  io_us: number;
  /**
   * Cost of a request apart from its I/Os: time of one block minus one I/O, or the constant part. Negative if the first I/O costs less than later ones.
   */
  overhead_us: number;
}
/**
 * A group of requests.
 */
export interface Group {
  /**
   * Bytes of the block I/O in `block_io_s`.
   */
  block_io_bytes: number;
  /**
   * Time of block I/O inside the calls, as far as it can be attributed to them.
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
   * Percent of synchronous reads served from memory; `null` if there are none.
   */
  cache_hit_percent: number | null;
  /**
   * Time inside calls: open, data I/Os, sync, close.
   */
  call_s: number;
  /**
   * Number of data I/Os (calls that read or write data).
   */
  data_ios: number;
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * File requests, each from open to close. Of a group: syncs are included; in sums they are counted separately.
   */
  requests: number;
  /**
   * Durations of syncs: `fsync`, `fdatasync`, `sync_file_range`, `syncfs`.
   */
  sync: SyncSummary | null;
  /**
   * Number of syncs.
   */
  syncs: number;
  /**
   * Median response time: from the open call to the end of the last data I/O.
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
   * Whether there are fewer than 30 values. Percentiles of so few are unreliable.
   */
  low_n: boolean;
  /**
   * Maximum latency or duration.
   */
  max_us: number;
  /**
   * Mean latency from start to completion. Of calls and syncs: mean duration.
   */
  mean_us: number;
  /**
   * Number of observations that the adjacent values are based on.
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
   * File requests by class. Only classes that occurred are included.
   */
  classes: ClassOverTime[];
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Length of a time slot; 0 for individual I/Os.
   */
  slot_s: number;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * Length of the interval of a row or group.
   */
  step_s: number;
  /**
   * Number of requests in progress over time; `null` if there are more requests than are kept.
   */
  under_way: UnderWay[] | null;
}
/**
 * One class over time; the vectors have one item per group.
 */
export interface ClassOverTime {
  /**
   * Percent of the requests with data that were served by a single data I/O.
   */
  atomic_percent: (number | null)[];
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: string;
  /**
   * Number of observations that the adjacent values are based on.
   */
  n: number[];
  /**
   * Median (nearest rank).
   */
  p50_us: (number | null)[];
  /**
   * File requests per second.
   */
  per_s: number[];
}
/**
 * Requests under way over time; the vectors have one item per group.
 */
export interface UnderWay {
  /**
   * Median. Of concurrency: weighted by time. Of file requests: over slots of 2 ms.
   */
  p50: number[];
  /**
   * 75th percentile. Of concurrency: weighted by time. Of file requests: over slots of 2 ms.
   */
  p75: number[];
  /**
   * Set of requests: `all` (with data), `in` or `out`.
   */
  set: string;
  /**
   * Share of slots in which at least one I/O or file request is under way, even briefly. It is never less than the exact busy time.
   */
  touched_percent: number[];
  /**
   * Percent of the time with at least one request in progress, measured exactly.
   */
  under_way_percent: number[];
  /**
   * `touched_percent` over the whole recording.
   */
  whole_touched_percent: number;
  /**
   * `under_way_percent` over the whole recording.
   */
  whole_under_way_percent: number;
}
/**
 * The busiest interval (A12, by completed requests).
 */
export interface PeakWindow {
  /**
   * Length of the time range. Of a burst: from the first to the last submission above the background. Of a stall: from the last completion, or the first issue after idle time, to the next completion.
   */
  duration_s: number;
  /**
   * Rate of the busiest slot or interval divided by the mean rate.
   */
  peak_to_mean: number;
  /**
   * File requests per second.
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
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Part of the response time inside calls (open and data I/Os). Requests are ranked by it.
   */
  call_us: number;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: string;
  /**
   * Duration of the close call, in microseconds.
   */
  close_us: number | null;
  /**
   * Number of data I/Os (calls that read or write data).
   */
  data_ios: number;
  /**
   * From the open call to the end of the close call, in microseconds.
   */
  end_us: number;
  /**
   * Path of the file, or its inode number if the path is not known; `null` or absent if the file is not known. Untrusted: escape it when displaying.
   */
  file: string | null;
  /**
   * The first data I/Os of the request.
   */
  first_ios: SlowIo[];
  /**
   * Flags of the request, by name.
   */
  flags: string[];
  /**
   * Time between calls, spent in the program itself, in microseconds.
   */
  gaps_us: number | null;
  /**
   * Duration of the open call, in microseconds.
   */
  open_us: number | null;
  /**
   * Process ID; `null` if several processes share the entry, or if it is not known.
   */
  pid: number | null;
  /**
   * Name of the process; `null` if it is not known, or if the entry sums up all further processes. Untrusted: escape it when displaying.
   */
  process: string | null;
  /**
   * The slowest data I/O of the request.
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
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Whether it was served from memory; `null` if that is not known.
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
   * Whether there are fewer than 30 values. Percentiles of so few are unreliable.
   */
  low_n: boolean;
  /**
   * Maximum latency or duration.
   */
  max_us: number;
  /**
   * Mean latency from start to completion. Of calls and syncs: mean duration.
   */
  mean_us: number;
  /**
   * Number of observations that the adjacent values are based on.
   */
  n: number;
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
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
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string;
  /**
   * Number of flushes completed while a sync was waiting.
   */
  flushes: number;
  /**
   * Number of reads completed while a sync was waiting. They compete with the syncs.
   */
  reads: number;
  /**
   * Time during which at least one sync was waiting.
   */
  syncing_s: number;
  /**
   * Number of writes. Of a writer that waits for syncs: the writes that it submitted.
   */
  writes: number;
  /**
   * Bytes written to the device.
   */
  written_bytes: number;
}
/**
 * A finding with its evidence.
 */
export interface FindingBlock {
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string | null;
  /**
   * End time as RFC 3339; `null` if the recording has no date.
   */
  end: string | null;
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Measurements that support the finding; its keys depend on `kind`. Keys end with their unit (`_us`, `_s`, `_bytes`, `_percent`, `_per_s`).
   */
  evidence: Evidence;
  /**
   * Kind of the finding, story, mark or device.
   */
  kind: FindingKind;
  /**
   * Severity. Of several findings: the highest.
   */
  severity: Severity;
  /**
   * Start time as RFC 3339; `null` if the recording has no date.
   */
  start: string | null;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
  /**
   * Summary, as text.
   */
  summary: string;
}
/**
 * A burst of one class of I/Os that one-second samples hide (A13).
 */
export interface MicroburstEvidence {
  /**
   * Bytes in the minute of the peak divided by the seconds of that minute with any I/O, as cloud volumes estimate
   * micro-bursts.
   */
  active_second_bytes_per_s: number | null;
  /**
   * Rate of the stream outside its bursts, per second: bytes or I/Os, see `measure`.
   */
  baseline_per_s: number;
  /**
   * Token bucket depth that would absorb the burst at the stream's own mean rate over one second.
   */
  bucket_bytes: number;
  /**
   * Number of bursts of this stream that one-second samples hide.
   */
  bursts_in_recording: number;
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Process (with its file if known) that the finding is attributed to: the one that moved most of these bytes, or the one that waited.
   */
  cause: string | null;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Bytes in the burst's core (see `core_s`).
   */
  core_bytes: number;
  /**
   * Total length of the burst's intervals with a rate of at least half of its peak.
   */
  core_s: number;
  /**
   * Length of the time range. Of a burst: from the first to the last submission above the background. Of a stall: from the last completion, or the first issue after idle time, to the next completion.
   */
  duration_s: number;
  /**
   * Whether the burst's peak reaches 95 % of the limit.
   */
  exceeds_limit: boolean;
  /**
   * Expected number of such bursts in the whole recording if there were only the background.
   */
  expected_by_chance: number;
  /**
   * Ratio of the peak to the highest one-second sample; `null` if one-second samples show nothing.
   */
  hidden_factor: number;
  /**
   * Ratio of the burst's peak to the highest 15-second sample.
   */
  hidden_factor_15s: number | null;
  /**
   * Ratio of the burst's peak to the highest one-minute sample.
   */
  hidden_factor_60s: number | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Maximum throughput of the device or link: given by the user, or the highest throughput observed in this recording.
   */
  limit_bytes_per_s: number | null;
  /**
   * Source of the limit: given by the user, or the highest throughput observed in this recording.
   */
  limit_source: LimitSource | null;
  /**
   * Names of the devices behind one link if the burst is in the sum of their I/O. Absent for a burst of one device.
   */
  link_devices?: string[];
  /**
   * Whether I/Os are missing from it. If so, its values are lower bounds.
   */
  lossy: boolean;
  /**
   * Highest mean number of I/Os in flight in any window.
   */
  max_in_flight: number | null;
  /**
   * Highest 15-second sample of the burst; `null` in a shorter recording, and for bursts that are not among the largest.
   */
  mean_15s_bytes_per_s: number | null;
  /**
   * Peak rate that one-second sampling shows: the highest sample, median over 100 sampling phases.
   */
  mean_1s_bytes_per_s: number;
  /**
   * Highest one-minute sample of the burst; `null` in a shorter recording, and for bursts that are not among the largest.
   */
  mean_60s_bytes_per_s: number | null;
  /**
   * Mean size of these I/Os.
   */
  mean_request_bytes: number;
  /**
   * Measured quantity. Of a burst: bytes or I/Os. Of a comparison: a rate or a latency.
   */
  measure: Measure;
  /**
   * Number of I/Os of the other class that overlap the burst. In a large recording: estimated from a sample.
   */
  other_class_ios: number | null;
  /**
   * Longest latency of I/Os of the other class that overlap the burst.
   */
  other_class_max_us: number | null;
  /**
   * Of an imported table: highest mean latency of the other class in rows that overlap the burst. Absent if individual I/Os
   * are known.
   */
  other_class_mean_max_us?: number | null;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
   */
  p_value: number;
  /**
   * Lower bound of the burst's peak throughput: bytes of I/Os both issued and completed inside a window of at least 10 ms, divided by the window's length.
   */
  peak_bytes_per_s: number;
  /**
   * Submission rate in the burst's highest slot, in I/Os per second.
   */
  peak_iops: number;
  /**
   * Peak of the burst in percent of the limit.
   */
  percent_of_limit: number;
  /**
   * Length of a time slot; 0 for individual I/Os.
   */
  slot_s: number;
}
/**
 * Nothing completed for far longer than the device's service times explain.
 */
export interface StallEvidence {
  /**
   * Class of the first completion after the stall.
   */
  completed_after: Class;
  /**
   * Class of the last completion before the stall; `null` if the device was idle.
   */
  completed_before: Class | null;
  /**
   * Length of the time range. Of a burst: from the first to the last submission above the background. Of a stall: from the last completion, or the first issue after idle time, to the next completion.
   */
  duration_s: number;
  /**
   * Longest gap between completions that the device's service times explain.
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
   * Number of devices in `group`.
   */
  group_devices: number | null;
  /**
   * Number of devices in `group` that stalled at the same time.
   */
  group_devices_stalled: number | null;
  /**
   * Pressure of the host at that time, which does not explain the stall; `null` if the recording does not hold it.
   */
  host_state: HostState | null;
  /**
   * I/Os in flight on the device: of a stall, at the end of the gap without completions; of an interval, at its end.
   */
  in_flight: number;
  /**
   * I/Os issued during the stall.
   */
  issued_meanwhile: number;
  /**
   * Names of the layers above that stalled with the device.
   */
  layers_stalled: string[];
  /**
   * Number of other devices with I/O, excluding those stacked with this one.
   */
  other_devices: number;
  /**
   * Number of other devices that stalled at the same time, excluding those stacked with this one.
   */
  other_devices_stalled: number;
  /**
   * Scope of the stall.
   */
  scope: StallScope;
  /**
   * Number of stalls of this device in the recording.
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
   * Length of the samples that overlap the interval, in seconds. Pressure and steal are means over them.
   */
  measured_s: number;
  /**
   * Maximum number of tasks that ran or waited for a CPU, per CPU; `null` if the kernel does not report it.
   */
  runnable_per_cpu: number | null;
  /**
   * CPU time taken by the hypervisor (steal), summed over CPUs, in percent of the time; `null` if the kernel does not report
   * it.
   */
  steal_percent: number | null;
  /**
   * Longest delay of the recorder's own timer, in milliseconds; `null` if no timer ended in the interval.
   */
  timer_late_ms: number | null;
  /**
   * Percent of the interval in which the recorder's own timer was overdue.
   */
  timer_late_percent: number;
}
/**
 * Device time rises or falls at equal load.
 */
export interface LatencyChangeEvidence {
  /**
   * Time of the event, in seconds since the recording's start. Of a latency change: the step, or the start of the trend.
   */
  at_s: number;
  /**
   * Number of blocks of time compared.
   */
  blocks: number;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Shortage of CPU time at that time that explains the latency. If present, the device may not be the cause.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Median device time after the change. Of a trend: in the last quarter.
   */
  device_p50_after_us: number | null;
  /**
   * Median device time before the change. Of a trend: in the first quarter.
   */
  device_p50_before_us: number | null;
  /**
   * 99th percentile of device time after the change; `null` with fewer than 100 I/Os.
   */
  device_p99_after_us: number | null;
  /**
   * 99th percentile of device time before the change; `null` with fewer than 100 I/Os.
   */
  device_p99_before_us: number | null;
  /**
   * Form of a latency change (a sudden step or a gradual trend), or of a second mode (around a latency of its own, or spread out).
   */
  form: LatencyChangeForm;
  /**
   * Pressure of the host after the change; `null` if the recording does not hold it.
   */
  host_after: HostState | null;
  /**
   * Pressure of the host before the change; `null` if the recording does not hold it.
   */
  host_before: HostState | null;
  /**
   * I/Os after the change. In a comparison: I/Os of the second time range.
   */
  ios_after: number;
  /**
   * I/Os before the change or before the limit. In a comparison: I/Os of the first time range. `null` if the number is not known.
   */
  ios_before: number;
  /**
   * Ratio of the I/Os issued per second after the change to those before.
   */
  load_ratio: number;
  /**
   * p-value corrected for all streams of the report: Student's t over blocks, times splits and streams. Of a trend:
   * `p_value` times streams.
   */
  p_family: number;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
   */
  p_value: number;
  /**
   * Ratio of device time after the change to that before, for I/Os of the same size with as many other I/Os and bytes in
   * flight. Of a trend: end to beginning.
   */
  ratio_at_same_load: number;
  /**
   * 95 % confidence interval of `ratio_at_same_load`, over blocks of time.
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
   * Sizes of the I/Os are less than this.
   */
  below_bytes: number;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Shortage of CPU time at that time that explains the latency. If present, the device may not be the cause.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Form of a latency change (a sudden step or a gradual trend), or of a second mode (around a latency of its own, or spread out).
   */
  form: LatencyModeForm;
  /**
   * Minimum size of the I/Os.
   */
  min_bytes: number;
  /**
   * Number of sampled I/Os of this class and size.
   */
  sampled_ios: number;
  /**
   * Median device time of the slow I/Os.
   */
  slow_device_us: number;
  /**
   * Share of the slow I/Os that a shortage of CPU time explains; `null` if the recording does not hold the host's pressure
   * during most of them.
   */
  slow_in_cpu_shortage_percent: number | null;
  /**
   * Number of slow I/Os in the sample.
   */
  slow_ios: number;
  /**
   * Share of slow I/Os in the sample.
   */
  slow_percent: number;
  /**
   * Sector range in which four fifths of the slow I/Os begin; `null` if it holds more than a fifth of all I/Os.
   *
   * @minItems 2
   * @maxItems 2
   */
  slow_sectors: [number, number] | null;
  /**
   * Share of the device time of this class and size that slow I/Os account for.
   */
  slow_time_percent: number;
  /**
   * Number of uninterrupted sequences of such I/Os. Of a culprit: with gaps of less than 0.1 s. Of a second mode: consecutive slow I/Os.
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
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Median device time of the member.
   */
  device_p50_us: number | null;
  /**
   * 99th percentile of the member's device time.
   */
  device_p99_us: number | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Number of members of the array.
   */
  members: number;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
   */
  p_value: number;
  /**
   * Sampled I/Os of all other members.
   */
  peers_ios: number;
  /**
   * Ratio of the member's device time to that of the slowest peer, at the same time, size and direction.
   */
  ratio: number;
  /**
   * 95 % confidence interval of `ratio`, over blocks of time.
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
   * 99th percentile of the slowest peer's device time.
   */
  slowest_peer_p99_us: number | null;
}
/**
 * Throughput is at the limit of the device: more demand only adds waiting.
 */
export interface BandwidthSaturationEvidence {
  /**
   * Highest mean number of I/Os in flight in any window.
   */
  max_in_flight: number;
  /**
   * Time-weighted mean number of I/Os in flight.
   */
  mean_in_flight: number;
  /**
   * Mean size of these I/Os.
   */
  mean_request_bytes: number;
  /**
   * Number of I/Os in flight that the unloaded device needs for the plateau's rate.
   */
  needed_in_flight: number;
  /**
   * Rate that throughput hardly ever exceeds: median over the windows on the plateau.
   */
  plateau_bytes_per_s: number;
  /**
   * Mean latency in the windows on the plateau.
   */
  plateau_mean_us: number;
  /**
   * Share of the time that windows on the plateau cover.
   */
  plateau_percent: number;
  /**
   * 5th and 95th percentile of the rate in the windows on the plateau.
   *
   * @minItems 2
   * @maxItems 2
   */
  plateau_range_bytes_per_s: [number, number];
  /**
   * Mean latency at light load, with hardly any other I/O in flight.
   */
  unloaded_us: number;
  /**
   * Length of a window.
   */
  window_s: number;
  /**
   * Number of windows with I/O that the values are based on. Of a plateau: number of windows on it.
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
   * I/Os issued while the queue was full.
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
   * Number of intervals of at least 100 ms in which the queue was full.
   */
  full_stretches: number;
  /**
   * Length of the longest interval in which the queue was full.
   */
  longest_full_s: number;
  /**
   * Queue depth: the largest number of reads and writes ever in flight on the device.
   */
  queue_depth: number;
  /**
   * Longest queue time of the I/Os issued while the queue was full.
   */
  queue_max_us: number;
  /**
   * Mean time from start to issue, in the kernel's queues; `null` if the source does not report the start.
   */
  queue_mean_us: number;
}
/**
 * Periodic load of one class of I/Os (A15).
 */
export interface PeriodicityEvidence {
  /**
   * Autocorrelation of log(KiB) at the period of the most significant clock; `null` for all other clocks.
   */
  autocorrelation: number | null;
  /**
   * Process (with its file if known) that the finding is attributed to: the one that moved most of these bytes, or the one that waited.
   */
  cause: string | null;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * 1 minus the p-value.
   */
  confidence: number;
  /**
   * Number of periods from the first to the last beat.
   */
  cycles: number;
  /**
   * Standard deviation of the time between beats, as a share of the period.
   */
  jitter: number;
  /**
   * Number of onsets: starts of activity after a quiet period.
   */
  onsets: number;
  /**
   * Onsets that match the clock: each a whole number of periods after the one before.
   */
  onsets_in_step: number;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
   */
  p_value: number;
  /**
   * Upper end of the 95 % confidence interval of the period.
   */
  period_high_s: number | null;
  /**
   * Lower end of the 95 % confidence interval of the period.
   */
  period_low_s: number | null;
  /**
   * Period of the most significant clock, fitted to the onsets that match it. Of a culprit: time from start to start, if at least five are evenly spaced.
   */
  period_s: number;
  /**
   * Conclusion about the periodicity, the kernel's busy time, or the condition.
   */
  verdict: PeriodicityVerdict;
}
/**
 * A device at its capacity (A18).
 */
export interface SaturationEvidence {
  /**
   * The best-fitting model.
   */
  fit: Fit | null;
  /**
   * Difference between the highest observed throughput and the mean load, in percent of the former. Not extrapolated.
   */
  headroom_percent: number | null;
  /**
   * Knee `N*`: number of I/Os that the device serves in parallel. More I/Os in flight only add waiting time.
   */
  knee_in_flight: number;
  /**
   * 95 % confidence interval of the knee.
   *
   * @minItems 2
   * @maxItems 2
   */
  knee_in_flight_ci: [number, number] | null;
  /**
   * Highest mean number of I/Os in flight in any window.
   */
  max_in_flight: number;
  /**
   * Maximum throughput in I/Os per second: plateau of throughput against I/Os in flight, as far as observed.
   */
  max_ios_per_s: number;
  /**
   * 95 % confidence interval of the maximum throughput.
   *
   * @minItems 2
   * @maxItems 2
   */
  max_ios_per_s_ci: [number, number] | null;
  /**
   * Time-weighted mean number of I/Os in flight.
   */
  mean_in_flight: number;
  /**
   * Utilisation of the device by the recorded mix of I/Os, computed from the cost of I/Os that had the device to themselves. 100: fully utilised.
   */
  mix_load_percent: number | null;
  /**
   * Share of its busy windows with at least twice as many I/Os in flight as the device serves in parallel.
   */
  saturated_percent: number;
  /**
   * State of the device: idle, with room for more in parallel, near its knee, saturated, throttled above the device, or not known because its capacity was not observed or the data are inconsistent.
   */
  state: CapacityState;
  /**
   * 95 % confidence interval of the mean latency at light load.
   *
   * @minItems 2
   * @maxItems 2
   */
  unloaded_ci_us: [number, number] | null;
  /**
   * Mean latency at light load, with hardly any other I/O in flight.
   */
  unloaded_us: number;
  /**
   * Length of a window.
   */
  window_s: number;
  /**
   * Number of windows with I/O that the values are based on. Of a plateau: number of windows on it.
   */
  windows: number;
}
/**
 * Gunther's universal scalability law: `X(N) = γ N / (1 + σ (N - 1) + κ N (N - 1))`.
 */
export interface Usl {
  /**
   * Throughput with one I/O in flight, per second.
   */
  gamma: number;
  /**
   * Coherency coefficient.
   */
  kappa: number;
  /**
   * Contention coefficient.
   */
  sigma: number;
}
/**
 * The kernel's %util and the exact busy time differ (A2).
 */
export interface UtilDisagreementEvidence {
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. Of a host: the value of its busiest disk. A device that serves many I/Os in parallel can be 100 % busy and far from its limit.
   */
  busy_percent: number;
  /**
   * Busy time that this kernel's counting method yields for exactly these I/Os; `null` if the kernel or its HZ is not known.
   */
  expected_percent: number | null;
  /**
   * How this kernel counts busy time; `null` if it is not known.
   */
  regime: Regime | null;
  /**
   * Standard deviation of the kernel's %util, in percentage points; `null` if the kernel's clock is not known.
   */
  sigma_pp: number | null;
  /**
   * The kernel's own estimate of busy time (%util of iostat). Its error depends on the kernel version, see data quality.
   */
  util_io_ticks_percent: number;
  /**
   * Conclusion about the periodicity, the kernel's busy time, or the condition.
   */
  verdict: UtilVerdict;
}
/**
 * A writer that waits for its syncs most of the time.
 */
export interface FsyncBoundEvidence {
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number | null;
  /**
   * Process (with its file if known) that the finding is attributed to: the one that moved most of these bytes, or the one that waited.
   */
  cause: string | null;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
   */
  p_value: number | null;
  /**
   * Process ID; `null` if several processes share the entry, or if it is not known.
   */
  pid: number | null;
  /**
   * Median duration of a sync.
   */
  sync_p50_us: number;
  /**
   * Data that this evidence is based on: the sync calls of the writer, or its I/Os.
   */
  sync_source: SyncSource;
  /**
   * Share of the writing time spent in syncs.
   */
  sync_wait_percent: number;
  /**
   * Total time in syncs.
   */
  sync_wait_s: number;
  /**
   * Number of syncs.
   */
  syncs: number;
  /**
   * Number of syncs during which the writer submitted something.
   */
  syncs_not_waited_for: number;
  /**
   * Syncs per second of writing time.
   */
  syncs_per_s: number;
  /**
   * How many times as fast the writer could be without waiting for syncs (upper bound).
   */
  times_faster_at_most: number;
  /**
   * Number of writes. Of a writer that waits for syncs: the writes that it submitted.
   */
  writes: number | null;
  /**
   * Writes per sync.
   */
  writes_per_sync: number | null;
  /**
   * Writing time: from the end of each sync to the end of the next, excluding pauses of more than a second.
   */
  writing_s: number;
}
/**
 * A sequential stream cut into small requests.
 */
export interface SmallSequentialEvidence {
  /**
   * Total time of the runs, at most the time that their requests were in flight.
   */
  busy_s: number;
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Process (with its file if known) that the finding is attributed to: the one that moved most of these bytes, or the one that waited.
   */
  cause: string | null;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Number of requests of `large_request_bytes` that would move the same bytes.
   */
  ios_if_large: number;
  /**
   * Possible request size: 128 KiB, or the maximum of the device if that is less.
   */
  large_request_bytes: number;
  /**
   * Number of requests in the longest run.
   */
  longest_run_ios: number;
  /**
   * Share of these requests in the device's reads and writes.
   */
  percent_of_ios: number;
  /**
   * Process ID; `null` if several processes share the entry, or if it is not known.
   */
  pid: number | null;
  /**
   * Size of the stream's requests.
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
   * Shortage of CPU time at that time that explains the latency. If present, the device may not be the cause.
   */
  cpu_shortage: CpuShortage | null;
  /**
   * Number of I/Os that took longer than a second.
   */
  ios_over_1s: number;
  /**
   * Size of the slowest I/O.
   */
  slowest_bytes: number;
  /**
   * Class of the slowest I/O.
   */
  slowest_class: Class;
  /**
   * Device time of the slowest I/O.
   */
  slowest_device_us: number;
  /**
   * Completion of the slowest I/O, in seconds since the recording's start.
   */
  slowest_done_s: number;
  /**
   * Name of the process that submitted the slowest I/O. Untrusted: escape it when displaying.
   */
  slowest_process: string | null;
  /**
   * First sector of the slowest I/O, in units of 512 bytes.
   */
  slowest_sector: number | null;
  /**
   * Latency of the slowest I/O.
   */
  slowest_us: number;
}
/**
 * I/Os that the device failed.
 */
export interface IoErrorEvidence {
  /**
   * Number of failed I/Os by error number (`errno`).
   */
  by_error: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^-?\d+$".
     */
    [k: string]: number | undefined;
  };
  /**
   * Class of the first failed I/O.
   */
  first_class: Class;
  /**
   * Completion of the first failed I/O, in seconds since the recording's start.
   */
  first_done_s: number;
  /**
   * First sector of the first failed I/O, in units of 512 bytes.
   */
  first_sector: number | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
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
   * Share of the bytes read by programs that came from the page cache: 1 − device ÷ programs.
   */
  hit_percent: number;
  /**
   * Bytes that programs read through files, excluding `O_DIRECT` and device nodes.
   */
  program_read_bytes: number;
  /**
   * Number of reads recorded individually, so that it is known whether they waited.
   */
  reads_looked_at: number;
  /**
   * Share of the individually recorded reads that found all data in memory.
   */
  reads_without_wait_percent: number | null;
}
/**
 * The kernel writes later what programs wrote into the page cache (A16).
 */
export interface WrittenBackEvidence {
  /**
   * Written bytes whose origin is known.
   */
  origin_known_bytes: number;
  /**
   * Written bytes that come from the kernel's write-back.
   */
  written_back_bytes: number;
  /**
   * Share of the written bytes that come from the kernel's write-back.
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
   * Number of checked means that are averages of averages.
   */
  averages_of_averages: number;
  /**
   * Number of means that were checked because finer rows cover their interval.
   */
  checked: number;
  /**
   * Rows, one entry each.
   */
  rows: AuditRow[];
}
/**
 * The test of one class of one coarse row.
 */
export interface AuditRow {
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
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
   * Start, in nanoseconds since the recording's start.
   */
  from_ns: number;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Mean of the means of the finer rows, with rows without I/O as 0, in microseconds.
   */
  mean_of_means_us: number;
  /**
   * Mean of the means of the finer rows with I/Os, in microseconds.
   */
  mean_of_non_empty_us: number | null;
  /**
   * Averaging rule that reproduces the stated value.
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
   * How far the stated value is below the true mean, in percent of the true mean.
   */
  understated_percent: number | null;
  /**
   * Mean of the finer rows weighted by their I/Os (Σ n·v / Σ n): the true mean as far as they show it, in microseconds.
   */
  weighted_us: number | null;
}
/**
 * I/Os lost from the recording for one reason.
 */
export interface LostEventsEvidence {
  /**
   * Of losses: number of intervals with lost I/Os. Of waits: the intervals in which I/Os completed.
   */
  intervals: number;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number | null;
  /**
   * Share of all I/Os that are lost.
   */
  lost_percent: number | null;
  /**
   * Reason why I/Os or file requests are missing.
   */
  reason: LossReason;
}
/**
 * Tables of rates instead of single I/Os.
 */
export interface TablesBlock {
  /**
   * CPU shares `user`, `nice`, `system`, `iowait`, `steal` and `idle`; absent if the log has none.
   */
  cpu?: ColumnsBlock | null;
  /**
   * Devices included.
   */
  devices: DeviceTable[];
  /**
   * Number of rows of the log that are merged into one row to limit the size; 1 if none are merged.
   */
  merged: number;
}
/**
 * Rows as packed columns of equal length.
 */
export interface ColumnsBlock {
  /**
   * Columns by name, packed as text.
   */
  cols: {
    [k: string]: string | undefined;
  };
  /**
   * End of each row in milliseconds since the recording's start.
   */
  ends: string;
  /**
   * Maximum of the merged rows for each row, if several rows of the log are merged.
   */
  peaks?: {
    [k: string]: string | undefined;
  };
  /**
   * Number of rows; `null` if the file does not state it.
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
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string;
  /**
   * Rows of the log for the device.
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
   * Start of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Heat map; absent if the recording has no individual I/Os.
   */
  heat?: HeatTiersBlock | null;
  /**
   * Individual I/Os around the worst moments of stories.
   */
  moments: MomentBlock[];
  /**
   * Data omitted to keep the file small.
   */
  omitted?: string[];
  /**
   * Rows, one entry each.
   */
  rows: RowsBlock[];
  /**
   * End of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
}
/**
 * Latencies of reads and writes over time.
 */
export interface HeatTiersBlock {
  /**
   * Latency bounds of the rows. One more than the number of rows.
   */
  latency_us: number[];
  /**
   * Selectable scopes: each device, and all devices together.
   */
  scopes: HeatScopeBlock[];
}
export interface HeatScopeBlock {
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string | null;
  /**
   * Whether its I/Os count in the sum of all devices.
   */
  is_in_sum: boolean;
  /**
   * The heat map at several resolutions, finest first.
   */
  tiers: TierBlock[];
}
export interface TierBlock {
  /**
   * Number of columns over the whole time.
   */
  column_count: number;
  /**
   * Length of a column's interval.
   */
  column_s: number;
  /**
   * Number of columns in a chunk of text. The last chunk may have fewer.
   */
  columns_of_chunk: number;
  /**
   * Values for I/Os or calls that read data.
   */
  read: string[];
  /**
   * Number of base rows in a row of this tier.
   */
  rows_together: number;
  /**
   * Values for I/Os or calls that write data, including the empty write that carries a flush.
   */
  write: string[];
}
export interface MomentBlock {
  /**
   * Packed content: base64 of a zlib stream.
   */
  data: string;
  /**
   * Start of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * End of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
}
export interface RowsBlock {
  /**
   * Packed content: base64 of a zlib stream.
   */
  data: string;
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string | null;
  /**
   * Start of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Number of rows; `null` if the file does not state it.
   */
  row_count: number;
  /**
   * Length of the interval of a row or group.
   */
  step_s: number;
}
export interface LossBlock {
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string | null;
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number | null;
  /**
   * Whether an overlapping slot may be off by more than 1 %.
   */
  is_marked: boolean;
  /**
   * Reason why I/Os or file requests are missing.
   */
  reason: string;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
}
export interface MarkBlock {
  /**
   * Time of the event, in seconds since the recording's start. Of a latency change: the step, or the start of the trend.
   */
  at_s: number;
  /**
   * Kind of the finding, story, mark or device.
   */
  kind: string;
  /**
   * The message, as text.
   */
  text: string;
}
/**
 * A remark on the quality of the data.
 */
export interface Note {
  /**
   * Severity of the note.
   */
  level: NoteLevel;
  /**
   * The message, as text.
   */
  text: string;
  /**
   * Topic of the note.
   */
  topic: string;
}
export interface Recording {
  /**
   * I/Os in flight for longer than busy time can be traced back; 0 in nearly all recordings.
   */
  busy_time_cut_ios: number;
  /**
   * Time in flight of the I/Os in `busy_time_cut_ios` that is missing from busy times and numbers in flight, in seconds.
   */
  busy_time_cut_s: number;
  /**
   * I/Os that were in flight at the start or end of the recording, so that their latency is not known.
   */
  censored_ios: number;
  /**
   * Length of the time range. Of a burst: from the first to the last submission above the background. Of a stall: from the last completion, or the first issue after idle time, to the next completion.
   */
  duration_s: number;
  /**
   * Start, in seconds since the recording's start.
   */
  from_s: number;
  /**
   * Host name.
   */
  host: string | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number | null;
  /**
   * Kernel release of the recorded machine. The accuracy of %util depends on it.
   */
  kernel: string | null;
  /**
   * Layer on which sums over devices count an I/O, and the devices that they leave out.
   */
  layers: Layers;
  /**
   * Data that this kernel or source does not provide, as text.
   */
  limits: string[];
  /**
   * Lost I/Os, one entry per reason.
   */
  losses: Loss[];
  /**
   * Number of lost I/Os, excluding those removed by a size limit; `null` if the number is not known.
   */
  lost_ios: number | null;
  /**
   * Path of the recording or on this machine: as named by the user, or relative to the directory that the user named.
   */
  path: string;
  /**
   * Resources used by the recorder.
   */
  recorder: Recorder;
  /**
   * Source of the data: `ebpf`, `counters` or `import:KIND`.
   */
  source: string;
  /**
   * Start, in seconds since 1970 (UTC) by the wall clock of the recorded machine; `null` if the recording has no date.
   */
  start_unix_s: number;
  /**
   * End, in seconds since the recording's start.
   */
  to_s: number;
}
/**
 * Layer on which sums over devices count an I/O.
 */
export interface Layers {
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number | null;
  /**
   * Layer on which sums over devices count an I/O: always the lowest recorded one.
   */
  counted_on: string;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number | null;
  /**
   * Recorded devices above other recorded devices. Sums exclude them because an I/O would count twice.
   */
  left_out: LeftOut[];
}
/**
 * A recorded device above other recorded devices.
 */
export interface LeftOut {
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Names of the devices concerned, or of the devices directly below.
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
   * Of losses: number of intervals with lost I/Os. Of waits: the intervals in which I/Os completed.
   */
  intervals: number | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number | null;
  /**
   * Reason why I/Os or file requests are missing.
   */
  reason: string | null;
  /**
   * Start, in seconds since the recording's start.
   */
  start_s: number;
}
export interface Recorder {
  /**
   * Size on disk divided by the number of recorded I/Os; `null` if the recording has no individual I/Os.
   */
  bytes_per_io: number | null;
  /**
   * CPU time of the recorder (user space and BPF probes) while recording, in percent of one CPU. Start-up is excluded.
   */
  cpu_percent: number | null;
  /**
   * CPU time of the recorder's user space while recording. Start-up is excluded.
   */
  cpu_s: number | null;
  /**
   * Size of the recording's files on disk.
   */
  disk_bytes: number | null;
  /**
   * Peak resident memory of the recorder.
   */
  max_rss_bytes: number | null;
  /**
   * CPU time of the recorder's BPF probes; `null` if it was not measured.
   */
  probe_cpu_s: number | null;
  /**
   * CPU time of the recorder's start-up.
   */
  startup_cpu_s: number | null;
}
/**
 * A set of devices whose I/O is drawn together. Layers of one stack are never in one set.
 */
export interface ScopeBlock {
  /**
   * State of the device, its maximum throughput and its headroom; `null` for several devices together.
   */
  capacity: CapacityBlock | null;
  /**
   * Names of the devices involved.
   */
  device_names: string[];
  distributions: DistributionsBlock;
  /**
   * Label of a set of devices, or of a device in addition to its kernel name.
   */
  label: string;
  /**
   * The whole time, of counters and imported tables in several steps.
   */
  levels: LevelBlock[];
  /**
   * Explanation of the selection, shown below the selector.
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
   * Columns by name, packed as text.
   */
  cols: {
    [k: string]: string | undefined;
  };
  /**
   * Start, in nanoseconds since the recording's start.
   */
  from_ns: number;
  /**
   * Number of slots that the adjacent values are based on.
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
 * Several devices together. They are busy while any of them has an I/O in flight.
 */
export interface DevicesBlock {
  /**
   * Share of time with reads and writes in flight at the same time.
   */
  busy_both_percent: number | null;
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. Of a host: the value of its busiest disk. A device that serves many I/Os in parallel can be 100 % busy and far from its limit.
   */
  busy_percent: number | null;
  /**
   * Share of time with at least one read in flight.
   */
  busy_read_percent: number | null;
  /**
   * Share of time with at least one write in flight.
   */
  busy_write_percent: number | null;
  /**
   * Distribution of the number of I/Os in flight, weighted by time.
   */
  concurrency: Concurrency;
  /**
   * Names of the devices involved.
   */
  device_names: string[];
  /**
   * Devices left out because they are layers above the others: their I/Os would count twice.
   */
  left_out_names: string[];
  /**
   * Busy time of the busiest device.
   */
  max_busy_percent: number | null;
  /**
   * Mean of the devices' busy times. It hides one busy device among idle ones.
   */
  mean_busy_percent: number | null;
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * Concurrency per time slot, in groups.
   */
  slots: SlotsBlock | null;
}
/**
 * Devices that share one link, with the I/O on it.
 */
export interface LinkBlock {
  /**
   * Names of the devices involved.
   */
  device_names: string[];
  /**
   * Maximum throughput of the device or link: given by the user, or the highest throughput observed in this recording.
   */
  limit_bytes_per_s: number;
  /**
   * Source of the limit: given by the user, or the highest throughput observed in this recording.
   */
  limit_source: LimitSource;
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * Reads and writes separately.
   */
  streams: LinkStreamBlock[];
}
/**
 * Reads or writes of all devices behind a link.
 */
export interface LinkStreamBlock {
  /**
   * Number of bursts found. A burst is a short interval with more submissions than the background explains or, with a user-defined limit, one that reaches half of the limit.
   */
  bursts_found: number;
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Class of the I/Os: read, write, discard or flush. Of file requests: in (only read), out (wrote), mixed, none or sync.
   */
  class: Class;
  /**
   * The burst with the most bytes.
   */
  largest: BurstBlock | null;
  /**
   * Length of a time slot; 0 for individual I/Os.
   */
  slot_s: number;
}
/**
 * A burst of submitted I/O.
 */
export interface BurstBlock {
  /**
   * Rate of the stream outside its bursts, per second: bytes or I/Os, see `measure`.
   */
  baseline_per_s: number;
  /**
   * Token bucket depth that would absorb the burst at the stream's own mean rate over one second.
   */
  bucket_bytes: number;
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Whether it touches the start or end of the recording, so that it may have been longer.
   */
  censored: boolean;
  /**
   * Total length of the burst's intervals with a rate of at least half of its peak.
   */
  core_s: number;
  /**
   * End, in seconds since the recording's start.
   */
  end_s: number;
  /**
   * Whether the burst's peak reaches 95 % of the limit.
   */
  exceeds_limit: boolean;
  /**
   * Ratio of the peak to the highest one-second sample; `null` if one-second samples show nothing.
   */
  hidden_factor: number | null;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Whether I/Os are missing from it. If so, its values are lower bounds.
   */
  lossy: boolean;
  /**
   * Peak rate that one-second sampling shows: the highest sample, median over 100 sampling phases.
   */
  mean_1s_bytes_per_s: number;
  /**
   * Mean size of these I/Os.
   */
  mean_request_bytes: number;
  /**
   * Measured quantity. Of a burst: bytes or I/Os. Of a comparison: a rate or a latency.
   */
  measure: Measure;
  /**
   * Probability that chance alone produces a result at least this extreme. Tests and corrections: docs/calibration.md.
   */
  p_value: number;
  /**
   * Lower bound of the burst's peak throughput: bytes of I/Os both issued and completed inside a window of at least 10 ms, divided by the window's length.
   */
  peak_bytes_per_s: number;
  /**
   * Submission rate in the burst's highest slot, in I/Os per second.
   */
  peak_iops: number;
  /**
   * Peak of the burst in percent of the limit.
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
   * Start of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Whether the time range ends at the present time and moves with it.
   */
  live: boolean;
  /**
   * Time of the server's clock.
   */
  now_unix_s: number;
  /**
   * Refresh interval of a live page.
   */
  refresh_s: number;
  /**
   * End of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
}
