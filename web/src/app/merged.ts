// Merges stories with the same cause: after a restart or rotation, each recording contains the story anew, with the
// same identity.

import type { Story } from "./data";

/** The identity of a story across recordings: its cause and device. */
export const storyKey = (s: Pick<Story, "id" | "device">): string => `${s.id} ${s.device}`;

/** Merges stories of the same cause. The order is kept, except that merged stories move before those that lost less time. */
export function merged(list: Story[]): Story[] {
  const groups = new Map<string, Story[]>();
  for (const story of list) {
    const key = storyKey(story);
    const known = groups.get(key);
    if (known) known.push(story);
    else groups.set(key, [story]);
  }
  const out: Story[] = [];
  for (const parts of groups.values()) {
    const story = joined(parts);
    const ahead = parts.length > 1 ? out.findIndex((other) => isBefore(story, other)) : -1;
    if (ahead < 0) out.push(story);
    else out.splice(ahead, 0, story);
  }
  return out;
}

/** A program's own queue costs no time with fewer I/Os in flight, so such stories come last. */
const isOwnQueue = (s: Story): boolean => s.kind === "own-queue";

const lostOf = (s: Story): number => s.harm?.by_clock_s ?? s.harm?.seconds ?? 0;

const isBefore = (a: Story, b: Story): boolean => isOwnQueue(a) === isOwnQueue(b) && lostOf(a) > lostOf(b);

function joined(parts: Story[]): Story {
  const [first] = parts;
  if (!first || parts.length === 1) return first as Story;
  const byTime = [...parts].sort((a, b) => a.start_unix_s - b.start_unix_s);
  // Times in a story are relative to its recording; here they become relative to the earliest one.
  const since = Math.min(...parts.map((s) => s.recording_start_unix_s));
  const episodes = byTime.flatMap((s) => {
    const by = s.recording_start_unix_s - since;
    return s.episodes.map((e) => ({ start_s: e.start_s + by, end_s: e.end_s + by }));
  });
  const counted = parts.map((s) => s.times).filter((n) => n !== null);
  const advice = new Map(parts.flatMap((s) => s.advice ?? []).map((a) => [a.text, a]));
  return {
    ...first,
    start_unix_s: Math.min(...parts.map((s) => s.start_unix_s)),
    end_unix_s: Math.max(...parts.map((s) => s.end_unix_s)),
    recording_start_unix_s: since,
    harm: joinedHarm(parts, since),
    also: parts.flatMap((s) => s.also ?? []),
    times: counted.length > 0 ? counted.reduce((a, b) => a + b, 0) : null,
    episodes,
    doubts: parts.flatMap((s) => s.doubts ?? []),
    advice: [...advice.values()],
    parts: byTime,
  };
}

/** Sums of the harm, the worst I/O of all, and the common share of I/O time. */
function joinedHarm(parts: Story[], since: number): Story["harm"] {
  const known = parts.flatMap((s) => (s.harm ? [{ ...s.harm, by: s.recording_start_unix_s - since }] : []));
  const [first] = known;
  if (!first) return null;
  const sum = (of: (harm: (typeof known)[number]) => number) => known.reduce((n, harm) => n + of(harm), 0);
  const isShareKnown = known.every((harm) => (harm.lost_time_percent ?? 0) > 0);
  const seconds = sum((harm) => harm.seconds);
  const ioTime = sum((harm) => harm.seconds / ((harm.lost_time_percent ?? 0) / 100));
  const worst = known.reduce((a, b) => ((b.worst_us ?? 0) > (a.worst_us ?? 0) ? b : a));
  return {
    seconds,
    by_clock_s: known.every((harm) => typeof harm.by_clock_s === "number") ? sum((harm) => harm.by_clock_s ?? 0) : null,
    lost_time_percent: isShareKnown ? (100 * seconds) / ioTime : null,
    worst_at_s: worst.worst_at_s === null ? null : worst.worst_at_s + worst.by,
    worst_us: worst.worst_us,
  };
}
