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
   * The devices that it is about.
   */
  devices: DeviceRow[];
  /**
   * What was found, the most severe first.
   */
  findings: FindingRow[];
  /**
   * Findings that are not listed.
   */
  findings_left_out: number;
  /**
   * Beginning of the stretch that was asked for or is known, in seconds since 1970 (UTC).
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
   * Version of the documents' layout; it rises when a key changes its meaning or goes away.
   */
  schema_version: number;
  /**
   * End of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
}
/**
 * A disk.
 */
export interface DeviceRow {
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O; of a fleet's host its busiest disk's. A device that serves many I/Os at once can be 100 % busy and far from its limit.
   */
  busy_percent: number | null;
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string;
  /**
   * I/Os that failed; `null` if the source does not say.
   */
  errors: number | null;
  /**
   * Name of the machine.
   */
  host: string;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * I/Os known to be missing, without those that a size limit removed; `null`: not even that is known.
   */
  lost_ios: number | null;
  /**
   * I/O time beyond that of the median disk of the same model for as many I/Os of each class at the same load; `null`: there are none to compare with.
   */
  lost_s: number | null;
  /**
   * Name of the device's model.
   */
  model: string | null;
  /**
   * 99th percentile (nearest rank).
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
   * A name of the device that stays when the kernel's name changes.
   */
  stable_id: string | null;
  /**
   * Start of the minute in which most time was spent in flight, in seconds since 1970 (UTC); of a host on its worst disk.
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
   * The kernel's name of the disk or layer, or its number where the name is not known; of a link the names of its devices. `null` if it is about all or several.
   */
  device: string | null;
  /**
   * End, in seconds since 1970 (UTC); of what goes on, as far as it was seen.
   */
  end_unix_s: number;
  /**
   * Name of the machine.
   */
  host: string;
  /**
   * What kind it is: of a finding, a story, a mark or a device.
   */
  kind: string;
  /**
   * It has no end yet: it goes on, or its recorder was killed.
   */
  open: boolean;
  /**
   * How much it matters; of several the highest.
   */
  severity: Severity;
  /**
   * Start, in seconds since 1970 (UTC) by the wall clock of the recorded machine; `null` where the recording has no date.
   */
  start_unix_s: number;
  /**
   * What it says, in words.
   */
  summary: string;
}
/**
 * A host.
 */
export interface HostRow {
  /**
   * Share of time with at least one I/O in flight, measured exactly from start and completion of every I/O; of a fleet's host its busiest disk's. A device that serves many I/Os at once can be 100 % busy and far from its limit.
   */
  busy_percent: number | null;
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * Disks: how many a host has, or those below a path.
   */
  disks: number;
  /**
   * I/Os that failed; `null` if the source does not say.
   */
  errors: number | null;
  /**
   * How many findings were reported while it was recorded, also those that are not listed.
   */
  finding_count: number;
  /**
   * Beginning of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  from_unix_s: number;
  /**
   * Name of the machine.
   */
  host: string;
  /**
   * Completed block I/Os, as the device saw them; of a burst those submitted in it, of losses those that are missing, of a wait those that waited. `null` if nothing says how many.
   */
  ios: number;
  /**
   * I/Os known to be missing, without those that a size limit removed; `null`: not even that is known.
   */
  lost_ios: number | null;
  /**
   * I/O time beyond that of the median disk of the same model for as many I/Os of each class at the same load; `null`: there are none to compare with.
   */
  lost_s: number | null;
  /**
   * 99th percentile (nearest rank).
   */
  p99_us: number | null;
  /**
   * Recordings that have something of the stretch.
   */
  recording_count: number;
  /**
   * How many of them are slow.
   */
  slow_disks: number;
  /**
   * End of the stretch that was asked for or is known, in seconds since 1970 (UTC).
   */
  to_unix_s: number;
  /**
   * Start of the minute in which most time was spent in flight, in seconds since 1970 (UTC); of a host on its worst disk.
   */
  worst_unix_s: number | null;
}
/**
 * A host that could not be read.
 */
export interface UnreadHost {
  /**
   * Name of the machine.
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
   * How many findings were reported while it was recorded, also those that are not listed.
   */
  finding_count: number;
  /**
   * On how many hosts.
   */
  host_count: number;
  /**
   * What kind it is: of a finding, a story, a mark or a device.
   */
  kind: string;
  /**
   * How much it matters; of several the highest.
   */
  severity: Severity;
}
