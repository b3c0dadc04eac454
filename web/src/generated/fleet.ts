// Made from docs/schema/ by `make schema`; do not edit.

/**
 * How much it matters.
 */
export type Severity = "info" | "warning" | "critical";

/**
 * All hosts of a recording root over a stretch of time.
 */
export interface FleetDocument {
  /**
   * Disks: slow ones first, then those that lost most I/O time; the layers above them (dm, md) and loop devices are left out.
   */
  devices: DeviceRow[];
  /**
   * What was reported while it was recorded, the most harmful first: at most 20 of a host and 1000 in all.
   */
  findings: FindingRow[];
  /**
   * Findings that are not listed.
   */
  findings_left_out: number;
  /**
   * Beginning of the stretch.
   */
  from_unix_s: number;
  /**
   * Hosts: those with slow disks first, then those that lost most I/O time.
   */
  hosts: HostRow[];
  /**
   * Hosts that there was no time to read: a further request goes on with them.
   */
  hosts_left_out: number;
  /**
   * Hosts that have no row because what they recorded could not be read, and why.
   */
  hosts_unread: UnreadHost[];
  /**
   * What the findings are, and on how many hosts: the most harmful first.
   */
  kinds: KindRow[];
  /**
   * Remarks for people.
   */
  notes: string[];
  /**
   * Version of the layout of this document.
   */
  schema_version: number;
  /**
   * Its end.
   */
  to_unix_s: number;
}
/**
 * A disk.
 */
export interface DeviceRow {
  /**
   * Time with any I/O in flight.
   */
  busy_percent: number | null;
  /**
   * Bytes moved.
   */
  bytes: number;
  /**
   * Its name there.
   */
  device: string;
  /**
   * I/Os that failed.
   */
  errors: number | null;
  /**
   * Whose it is.
   */
  host: string;
  /**
   * I/Os completed.
   */
  ios: number;
  /**
   * I/Os known to be missing in the recordings.
   */
  lost_ios: number | null;
  /**
   * I/O time beyond that of the median disk of its model for as many I/Os of each class at the same load (bytes in the minute,
   * size of an I/O); `null`: fewer than three to compare.
   */
  lost_s: number | null;
  /**
   * Its model.
   */
  model: string | null;
  /**
   * The 99th percentile of the time from start to completion, at most 3 % off.
   */
  p99_us: number | null;
  /**
   * Mean time of a read from start to completion.
   */
  read_us: number | null;
  /**
   * Its time in the device is above 1.4 times that of the median disk, and beyond what healthy disks of its model differ by.
   */
  slow: boolean;
  /**
   * Its time in the device by that of the median disk of its model for as many I/Os of each class at the same load.
   */
  slow_factor: number | null;
  /**
   * What stays when the name changes.
   */
  stable_id: string | null;
  /**
   * Start of the minute in which most time was spent in flight.
   */
  worst_unix_s: number | null;
  /**
   * Mean time of a write from start to completion.
   */
  write_us: number | null;
}
/**
 * What stood out on a host.
 */
export interface FindingRow {
  /**
   * The device, or the devices behind one link; `null` if it is about all.
   */
  device: string | null;
  /**
   * When it ended, as far as it was seen.
   */
  end_unix_s: number;
  /**
   * Where.
   */
  host: string;
  /**
   * What was found.
   */
  kind: string;
  /**
   * It had not ended when that was written.
   */
  open: boolean;
  /**
   * How much it matters.
   */
  severity: Severity;
  /**
   * When it began.
   */
  start_unix_s: number;
  /**
   * One line for people.
   */
  summary: string;
}
/**
 * A host.
 */
export interface HostRow {
  /**
   * Of its busiest disk: time with any I/O in flight.
   */
  busy_percent: number | null;
  /**
   * Bytes moved.
   */
  bytes: number;
  /**
   * How many disks it has.
   */
  disks: number;
  /**
   * I/Os that failed.
   */
  errors: number | null;
  /**
   * What was reported of it while it was recorded: how many findings.
   */
  findings: number;
  /**
   * Beginning of what is recorded of it.
   */
  from_unix_s: number;
  /**
   * Its name.
   */
  host: string;
  /**
   * I/Os completed.
   */
  ios: number;
  /**
   * I/Os known to be missing in the recordings.
   */
  lost_ios: number | null;
  /**
   * I/O time of its disks beyond that of the median disk of the same model at the same load; `null`: there is none to compare
   * with.
   */
  lost_s: number | null;
  /**
   * The 99th percentile of the time from start to completion, at most 3 % off.
   */
  p99_us: number | null;
  /**
   * Recordings that have something of the stretch.
   */
  recordings: number;
  /**
   * How many of them are slow.
   */
  slow_disks: number;
  /**
   * Its end.
   */
  to_unix_s: number;
  /**
   * Start of the minute in which most time was spent in flight on its worst disk.
   */
  worst_unix_s: number | null;
}
/**
 * A host that could not be read.
 */
export interface UnreadHost {
  /**
   * Its name.
   */
  host: string;
  /**
   * What is wrong with each of its recordings of the time, or with its newest.
   */
  reasons: string[];
}
/**
 * Findings of a kind on all hosts.
 */
export interface KindRow {
  /**
   * How many findings, also those that are not listed.
   */
  findings: number;
  /**
   * On how many hosts.
   */
  hosts: number;
  /**
   * What was found.
   */
  kind: string;
  /**
   * The highest of its findings.
   */
  severity: Severity;
}
