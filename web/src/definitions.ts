/** What a number means: title, words, formula, and the id of its definition in the documentation of the analyses. */
export interface Definition {
  title: string;
  text: string;
  formula?: string;
  id?: string;
}

const LATENCY = "From the moment the block layer accounts the I/O (block_io_start) to its last completion, as iostat's await.";

const PEAK = "Where slots are merged for the view, the light area behind reaches up to the highest of the finer slots.";

export const DEFINITIONS: Record<string, Definition> = {
  iops: {
    title: "IOPS",
    text: `I/Os completed per second. An I/O belongs to the slot in which it completes. Merged requests count once. ${PEAK}`,
    formula: "completions ÷ slot length",
    id: "A5",
  },
  throughput: {
    title: "Throughput",
    text: `Bytes of completed I/Os per second, in powers of 1000 (1 MB = 1 000 000 bytes). ${PEAK}`,
    formula: "bytes ÷ slot length",
    id: "A5",
  },
  latency: {
    title: "Latency",
    text: `${LATENCY} Percentiles are nearest-rank within each slot; slots without I/O have none. A p99 of fewer than 100 I/Os is close to their maximum: the number of I/Os stands beside it.`,
    formula: "S2C = done − start",
    id: "A6",
  },
  mean: {
    title: "Mean latency",
    text: `${LATENCY} Means are sums divided by counts over all I/Os, never means of means.`,
    formula: "Σ(done − start) ÷ I/Os",
    id: "A6",
  },
  p50: { title: "p50, the median", text: "Half of the I/Os took at most this long (nearest rank).", id: "A6" },
  p90: { title: "p90", text: "Nine of ten I/Os took at most this long (nearest rank).", id: "A6" },
  p99: { title: "p99", text: "99 of 100 I/Os took at most this long (nearest rank). Of fewer than 100 it is their maximum.", id: "A6" },
  p999: { title: "p99.9", text: "999 of 1000 I/Os took at most this long (nearest rank).", id: "A6" },
  max: { title: "Maximum", text: "The slowest I/O, exact.", id: "A6" },
  queue: {
    title: "Queue time",
    text: "From the block layer's start to the hand-over to the driver: waiting in the kernel's scheduler and plug lists.",
    formula: "S2D = issue − start",
    id: "A24",
  },
  device: {
    title: "Device time",
    text: "From the hand-over to the driver to completion: the driver, the device's own queue and the medium.",
    formula: "D2C = done − issue",
    id: "A24",
  },
  busy: {
    title: "Busy time",
    text: `Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. A device that serves many I/Os at once can be 100 % busy and far from its limit. ${PEAK}`,
    formula: "measure of ∪ [start, done) ÷ time",
    id: "A2",
  },
  util: {
    title: "%util by io_ticks",
    text: "The kernel's own estimate of busy time, as iostat prints it. How far it is off depends on the kernel version; see data quality.",
    formula: "Δio_ticks ÷ time",
    id: "A2",
  },
  inflight: {
    title: "I/Os in flight",
    text: `How many I/Os were started and not yet done: time-weighted mean and maximum of each slot (aqu-sz, but exact). ${PEAK}`,
    formula: "mean = ∫N(t)dt ÷ time",
    id: "A3",
  },
  concurrency: {
    title: "Concurrency distribution",
    text: "Share of time with at least so many I/Os in flight, over the whole recording.",
    formula: "time with N(t) ≥ k ÷ time",
    id: "A3",
  },
  heat: {
    title: "Latency heat map",
    text: "Each cell counts the I/Os that completed in that stretch of time with that latency (four rows per factor of two). Colour grows with the logarithm of the count.",
    id: "A6",
  },
  latencyDistribution: {
    title: "Latency distribution",
    text: "Share of I/Os per latency bucket, eight buckets per factor of two, over the whole recording.",
    id: "A6",
  },
  size: {
    title: "Request size",
    text: "Share of I/Os, or of bytes, by size of the request as the device saw it. A bar labelled 4 KiB holds 4 KiB up to less than 8 KiB.",
    id: "A5",
  },
  load: {
    title: "Latency versus load",
    text: "Each dot is a window of about a second: mean latency of its I/Os against mean I/Os in flight. Flat while the device works in parallel, rising with the load beyond the knee.",
    id: "A18",
  },
  knee: {
    title: "Knee N*",
    text: "How many I/Os the device works on at once. Beyond it, more concurrency only buys more waiting.",
    formula: "N* = highest throughput × latency at light load (Little's law)",
    id: "A18",
  },
  headroom: {
    title: "Headroom",
    text: "What is left between the mean load and the highest throughput observed. Not extrapolated beyond what was seen.",
    id: "A18",
  },
  sequential: {
    title: "Sequential",
    text: "Share of I/Os that begin at the sector where the one before them on this device and of this class ended.",
    id: "A24",
  },
  ios: { title: "I/Os", text: "Completed block I/Os, as the device saw them: after merging, before splitting by the driver.", id: "A5" },
  bytes: { title: "Bytes", text: "Bytes of completed I/Os, in powers of 1000.", id: "A5" },
  timeShare: {
    title: "Share of I/O time",
    text: "Sum of the latencies of this one's I/Os as a share of the sum over all I/Os of the same device.",
    formula: "Σ latency ÷ Σ latency of all",
  },
  origin: {
    title: "Origin",
    text: "How far the name can be trusted as the cause. direct: the submitter wanted it. writeback: page cache written back later, found by the file's pages. metadata: file system or journal. unknown: the kernel could not tell.",
  },
  findings: {
    title: "Findings",
    text: "What stands out in this recording, with the numbers that speak for it. Choosing one zooms the charts to its time.",
  },
  microburst: {
    title: "Microburst",
    text: "Throughput far above what sampling once a second would have shown. Begins at half of the limit and ends below a tenth of it, in slots of 1 ms and coarser.",
    id: "A13",
  },
  starvation: {
    title: "Starvation",
    text: "I/Os of one class that meet a burst of the other wait longer than those that do not. Tested by shifting the bursts in time; fewer than 5 bursts are at most suggestive.",
    id: "A14",
  },
  periodicity: {
    title: "Periodicity",
    text: "Load that comes back at regular intervals: autocorrelation of the slot series against random placement of the same bursts.",
    id: "A15",
  },
  saturation: { title: "Saturation", text: "Concurrency at or beyond the knee: more load only makes I/Os wait.", id: "A18" },
  "util-disagreement": {
    title: "%util disagrees",
    text: "The kernel's io_ticks estimate and the exact busy time differ by more than this kernel's expected error.",
    id: "A2",
  },
  "slow-io": { title: "Slow I/O", text: "Single I/Os far slower than the rest of their class.", id: "A6" },
  "io-error": { title: "I/O errors", text: "I/Os that the device failed." },
  "page-cache": { title: "Page cache", text: "How the page cache stood between programs and the device." },
  "averaged-averages": {
    title: "Averages of averages",
    text: "Imported tables of two resolutions: is a coarse mean the finer rows' Σ n·v ÷ Σ n (right), or the plain mean of their means, in which a busy interval weighs no more than an idle one?",
    id: "A25",
  },
  "lost-events": { title: "Lost events", text: "I/Os that happened and are missing from the recording." },
  source: {
    title: "Source",
    text: "ebpf: every I/O, from kernel tracepoints. counters: rates and means between samples only. import: another tool's log.",
  },
  lost: {
    title: "Lost I/Os",
    text: "I/Os that happened and could not be recorded, by reason. Their time is hatched in the charts and left out of percentiles.",
  },
  cost: {
    title: "The recorder's cost",
    text: "CPU time of the recorder including its kernel probes, as a share of one CPU; its peak memory; the recording's size on disk.",
  },
  severity: { title: "Severity", text: "info: worth knowing. warning: somebody waited. critical: data or service is at risk." },
  step: {
    title: "Slot length",
    text: "The resolution drawn now. Zooming in shows finer slots where they are kept: the whole recording coarsely, the surroundings of findings down to 1 ms.",
  },
  view: { title: "In view", text: "Sums and counts over the stretch of time on screen, at the resolution drawn now." },
};
