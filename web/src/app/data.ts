// The types of the API's answers: heat maps, series, single I/Os, waits, stories, findings, actors, devices.

import type { Class, Subject } from "./view";

/** Documents of the API, as described in docs/serve.md, reduced to the fields that this page uses. */

export interface Heat {
  from_unix_s: number;
  column_s: number;
  latency_us: number[];
  counts: number[][];
  /** Recorded seconds of each column; absent: all of it. */
  recorded_s?: number[];
  notes: string[];
}

export type Column = (number | null)[];

export interface Series {
  step_s: number;
  columns: Record<string, Column> & { process?: string[]; cgroup?: string[]; file?: string[] };
  notes: string[];
}

/** The parts of the I/Os' time, and what they waited behind longest. */
export interface WaitColumns {
  undisturbed_us: Column; wait_others_us: Column; wait_own_us: Column; wait_held_us: Column; wait_device_us: Column; wait_unknown_us: Column;
  wait_behind_us: Column; wait_behind_pid: Column; wait_behind_process: (string | null)[]; wait_behind_class: (string | null)[]; wait_behind_origin: (string | null)[];
}

export interface Ios {
  ios: number;
  /** The Unix second to which `start_ns` and `done_ns` are relative. */
  since_unix_s: number;
  columns: {
    start_ns: number[]; done_ns: number[]; flags?: Column; device: string[]; class: Class[]; sector: Column; bytes: number[];
    queue_us: Column; device_us: Column; total_us: number[]; error: Column; pid: Column;
    process: (string | null)[]; cgroup: (string | null)[]; file: (string | null)[]; origin: (string | null)[];
  } & Partial<WaitColumns>;
  notes: string[];
}

/** Start of an I/O in seconds since the epoch. A number holds this to 0.2 us. */
export const startOf = (ios: Ios, i: number): number => ios.since_unix_s + (ios.columns.start_ns[i] ?? 0) / 1e9;
export const doneOf = (ios: Ios, i: number): number => ios.since_unix_s + (ios.columns.done_ns[i] ?? 0) / 1e9;

export interface Who {
  process?: string | null;
  pid?: number | null;
  cgroup?: string | null;
  file?: string | null;
  class?: string | null;
  origin?: string | null;
  /** Its name may be hidden from this reader. */
  leftOut?: boolean;
}

export interface Wait {
  device: string;
  victim: Who;
  ios: number;
  io_time_s: number;
  undisturbed_s: number;
  own_s: number;
  held_s: number;
  device_s: number;
  unknown_s: number;
  behind: (Who & { seconds: number; ios: number })[];
}

/** A program for which the recording does not show whether it waited. */
export interface NotProven {
  summary: string;
}

/** The answer of `stories`. */
export interface Stories {
  stories: Story[];
  not_proven?: NotProven[];
  notes: string[];
}

export interface Story {
  id: string;
  kind: string;
  device: string;
  summary: string;
  start_unix_s: number;
  end_unix_s: number;
  recording_start_unix_s: number;
  victim: Who | null;
  culprits: Who[];
  harm: { seconds: number; by_clock_s?: number | null; lost_time_percent: number | null; worst_at_s: number | null; worst_us: number | null } | null;
  /** Other I/Os of the victim that were hurt by the same cause. */
  also?: (Who & { class: string; harm_s: number })[];
  /** Number of episodes; `null` if the cause is not a program. */
  times: number | null;
  episodes: { start_s: number; end_s: number }[];
  doubts?: unknown[];
  advice?: { text: string; now: string | null }[];
  /** The stories of several recordings that the page merged into this one, in order of time. */
  parts?: Story[];
}

export interface Finding {
  kind: string;
  /** `info`: a fact that harmed no program that is known. */
  severity: string;
  device: string | null;
  start_unix_s: number;
  end_unix_s: number;
  summary: string;
  /** Of a finding of a period. */
  evidence: { period_s?: number; class?: Class };
}

export interface Amount {
  ios: number;
  bytes: number;
  mean_us: number | null;
}

export interface Actor {
  name: string | null;
  read: Amount;
  write: Amount;
  discard: Amount;
  flush: Amount;
  io_time_s: number;
  io_time_percent: number | null;
}

export interface Device {
  name: string;
  model: string | null;
  size_bytes: number | null;
}

/** Whether a group's name may be hidden from this reader, and it has no number either. */
export const isNameless = (who: Who): boolean => who.leftOut === true && !who.file && !who.process && typeof who.pid !== "number";

/** Shown for an unknown process, control group or file, as in the program's own tables. */
export const NOT_KNOWN = "(not known)";

/** The same in the program's answers about actors. */
const UNKNOWN_ACTOR = "unknown";

/** The name of a group; `null` if it is not known. A group of a file has no process, and vice versa. */
export function knownName(who: Who, by: Subject = "process"): string | null {
  if (by === "file") return who.file ?? null;
  if (by === "cgroup") return who.cgroup ?? null;
  if (who.process) return who.process;
  return typeof who.pid === "number" ? `[${who.pid}]` : null;
}

/** The name of a group as text. */
export function nameOf(who: Who, by: Subject = "process"): string {
  return knownName(who, by) ?? (by === "process" && isNameless(who) ? "a process" : NOT_KNOWN);
}

/** A group and its class as text. */
export const spoken = (who: Who, by: Subject = "process"): string => `${nameOf(who, by)} ${who.origin === "writeback" ? "write-back" : who.class ?? ""}`.trim();

/** The name of an actor; `null` if it is not known. */
export const actorName = (actor: Actor): string | null => (actor.name === UNKNOWN_ACTOR ? null : actor.name);

/** Whether a note says that names are hidden from this reader. Then a missing name may be known to others. */
export const leavesOutNames = (notes: string[]): boolean => notes.some((note) => note.startsWith("names of files and processes are left out"));

/** Whether a note says that there are no single I/Os. Then the absence of stories or waits means nothing. */
export const lacksIos = (notes: string[]): boolean => notes.some((note) => note.startsWith("there are no single I/Os of this time"));

/** Marks the groups of waits or of a story as possibly having hidden names. */
export const leftOut = <T extends Who>(who: T): T => ({ ...who, leftOut: true });

/** A process as the tables of actors and series name it. */
export function processName(process: string | null, pid: number | null): string {
  if (process === null) return pid === null ? NOT_KNOWN : `[${pid}]`;
  return pid === null ? process : `${process}[${pid}]`;
}
