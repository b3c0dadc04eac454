// Sums over several hosts how much time each pod or control group cost another.

import type { Wait } from "../app/data";

/** The time that a group lost to another, over all queried hosts. */
export interface Cost {
  culprit: string;
  victim: string;
  seconds: number;
  /** Each host with the time lost there, the largest first. */
  hosts: { host: string; seconds: number }[];
}

/** The waits of one host, and names of pods by the paths of their control groups. */
export interface HostWaits {
  host: string;
  waits: Wait[];
  pods: ReadonlyMap<string, string>;
}

const POD = /pod([0-9a-f]{8})[-_]?[0-9a-f]{4}/;

/** Display name of a control group: its pod, by name or by the first digits of its UID, or its path. */
export function groupName(cgroup: string | null | undefined, pods: ReadonlyMap<string, string>): string {
  if (!cgroup) return "the kernel";
  const known = pods.get(cgroup);
  if (known) return known;
  const pod = POD.exec(cgroup)?.[1];
  return pod ? `pod ${pod}…` : cgroup;
}

/** Who cost whom how much, the largest first. Waits of a group for itself are excluded. */
export function costs(answers: readonly HostWaits[]): Cost[] {
  const sums = new Map<string, { cost: Cost; hosts: Map<string, number> }>();
  for (const { host, waits, pods } of answers) {
    for (const wait of waits) {
      const victim = groupName(wait.victim.cgroup, pods);
      for (const b of wait.behind) {
        const culprit = groupName(b.cgroup, pods);
        if (culprit === victim || b.seconds <= 0) continue;
        const key = JSON.stringify([culprit, victim]);
        let sum = sums.get(key);
        if (!sum) {
          sum = { cost: { culprit, victim, seconds: 0, hosts: [] }, hosts: new Map() };
          sums.set(key, sum);
        }
        sum.cost.seconds += b.seconds;
        sum.hosts.set(host, (sum.hosts.get(host) ?? 0) + b.seconds);
      }
    }
  }
  const all = [...sums.values()].map(({ cost, hosts }) => ({ ...cost, hosts: [...hosts].map(([host, seconds]) => ({ host, seconds })).sort((a, b) => b.seconds - a.seconds) }));
  return all.sort((a, b) => b.seconds - a.seconds);
}
