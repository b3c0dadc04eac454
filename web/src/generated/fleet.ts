// Made from docs/schema/ by `make schema`; do not edit.

/**
 * How much a finding matters, from `info` to `critical`.
 */
export type Severity = "info" | "warning" | "critical";

/**
 * All hosts of a recording root over a time range.
 */
export interface FleetDocument {
  /**
   * Devices included.
   */
  devices: DeviceRow[];
  /**
   * Findings, most severe first.
   */
  findings: FindingRow[];
  /**
   * Number of findings that are not listed.
   */
  findings_left_out: number;
  /**
   * Start of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Hosts. Those with slow disks come first, then those with the most lost I/O time.
   */
  hosts: HostRow[];
  /**
   * Number of hosts not read for lack of time. The next request continues with them.
   */
  hosts_left_out: number;
  /**
   * Hosts without a row because their recordings could not be read, and why.
   */
  hosts_unread: UnreadHost[];
  /**
   * Findings by kind with the number of hosts affected, most harmful first.
   */
  kinds: KindRow[];
  /**
   * Remarks on the result, as text.
   */
  notes: string[];
  /**
   * Version of the document's layout. It is incremented when a key is removed or changes its meaning.
   */
  schema_version: number;
  /**
   * End of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
}
/**
 * A disk.
 */
export interface DeviceRow {
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. Of a host: the value of its busiest disk. A device that serves many I/Os in parallel can be 100 % busy and far from its limit.
   */
  busy_percent: number | null;
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string;
  /**
   * I/Os that failed; `null` if the source does not report errors.
   */
  errors: number | null;
  /**
   * Host name.
   */
  host: string;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Number of lost I/Os, excluding those removed by a size limit; `null` if the number is not known.
   */
  lost_ios: number | null;
  /**
   * I/O time beyond that of the median disk of the same model for the same number of I/Os per class at the same load; `null` if there are too few disks to compare with.
   */
  lost_s: number | null;
  /**
   * Model name of the device.
   */
  model: string | null;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number | null;
  /**
   * Mean read latency from start to completion.
   */
  read_us: number | null;
  /**
   * Whether its device time exceeds 1.4 times that of the median disk of its model, and the variation among healthy disks of
   * the model.
   */
  slow: boolean;
  /**
   * Ratio of its device time to that of the median disk of its model, for the same number of I/Os per class at the same
   * load.
   */
  slow_factor: number | null;
  /**
   * Identifier of the device that remains when its kernel name changes.
   */
  stable_id: string | null;
  /**
   * Start of the minute with the most time in flight, in seconds since 1970 (UTC). Of a host: on its worst disk.
   */
  worst_unix_s: number | null;
  /**
   * Mean write latency from start to completion.
   */
  write_us: number | null;
}
/**
 * A finding of a host.
 */
export interface FindingRow {
  /**
   * Kernel name of the disk or layer, or its number if the name is not known. Of a link: the names of its devices. `null` if several or all devices are meant.
   */
  device: string | null;
  /**
   * End, in seconds since 1970 (UTC). If it has not ended: the last time observed.
   */
  end_unix_s: number;
  /**
   * Host name.
   */
  host: string;
  /**
   * Kind of the finding, story, mark or device.
   */
  kind: string;
  /**
   * Whether it has no end yet: it is still in progress, or its recorder was killed.
   */
  open: boolean;
  /**
   * Severity. Of several findings: the highest.
   */
  severity: Severity;
  /**
   * Start, in seconds since 1970 (UTC) by the wall clock of the recorded machine; `null` if the recording has no date.
   */
  start_unix_s: number;
  /**
   * Summary, as text.
   */
  summary: string;
}
/**
 * A host.
 */
export interface HostRow {
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O. Of a host: the value of its busiest disk. A device that serves many I/Os in parallel can be 100 % busy and far from its limit.
   */
  busy_percent: number | null;
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Of a host: number of disks. Of a path: the disks that hold it.
   */
  disks: number;
  /**
   * I/Os that failed; `null` if the source does not report errors.
   */
  errors: number | null;
  /**
   * Number of findings reported while recording, including those that are not listed.
   */
  finding_count: number;
  /**
   * Start of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Host name.
   */
  host: string;
  /**
   * Completed block I/Os, as seen by the device. In a burst: I/Os submitted during it. In losses: lost I/Os. In waits: I/Os that waited. `null` if the number is not known.
   */
  ios: number;
  /**
   * Number of lost I/Os, excluding those removed by a size limit; `null` if the number is not known.
   */
  lost_ios: number | null;
  /**
   * I/O time beyond that of the median disk of the same model for the same number of I/Os per class at the same load; `null` if there are too few disks to compare with.
   */
  lost_s: number | null;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number | null;
  /**
   * Number of recordings that cover some of the time range.
   */
  recording_count: number;
  /**
   * Number of the host's disks that are slow.
   */
  slow_disks: number;
  /**
   * End of the requested or recorded time range, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
  /**
   * Start of the minute with the most time in flight, in seconds since 1970 (UTC). Of a host: on its worst disk.
   */
  worst_unix_s: number | null;
}
/**
 * A host that could not be read.
 */
export interface UnreadHost {
  /**
   * Host name.
   */
  host: string;
  /**
   * What is wrong with each of the host's recordings of the time range, or with its newest.
   */
  reasons: string[];
}
/**
 * Findings of a kind on all hosts.
 */
export interface KindRow {
  /**
   * Number of findings reported while recording, including those that are not listed.
   */
  finding_count: number;
  /**
   * Number of hosts with findings of this kind.
   */
  host_count: number;
  /**
   * Kind of the finding, story, mark or device.
   */
  kind: string;
  /**
   * Severity. Of several findings: the highest.
   */
  severity: Severity;
}
