// Made from docs/schema/ by `make schema`; do not edit.

/**
 * All hosts of a recording root over a stretch of time.
 */
export interface FleetDocument {
  /**
   * Disks that lost most I/O time first; the layers above them (dm, md) and loop devices are left out.
   */
  devices: DeviceRow[];
  /**
   * Beginning of the stretch.
   */
  from_unix_s: number;
  /**
   * Hosts, those that lost most I/O time first.
   */
  hosts: HostRow[];
  /**
   * Hosts that there was no time to read: a further request goes on with them.
   */
  hosts_left_out: number;
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
   * I/O time beyond that of the median disk of its model for as many I/Os of each class; `null`: fewer than three to compare.
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
   * I/O time of its disks beyond that of the median disk of the same model; `null`: there is none to compare with.
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
   * Its end.
   */
  to_unix_s: number;
  /**
   * Start of the minute in which most time was spent in flight on its worst disk.
   */
  worst_unix_s: number | null;
}
