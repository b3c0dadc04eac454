import type { FleetDocument } from "../generated/fleet";

/** A host of which nothing could be read, and why. */
export interface Unread {
  host: string;
  reasons: string[];
}

/** Where a remark is about: a recording by its place in the root (docs/recording-format.md, "Recording roots"). */
const PLACE = /(?:^|\/)host=([^/]+)\/start_ns=\d+/;

/** Hosts that have no row because remarks say what is wrong with their recordings; and the other remarks. */
export function unread(data: Pick<FleetDocument, "hosts" | "notes">): { hosts: Unread[]; notes: string[] } {
  const shown = new Set(data.hosts.map((x) => x.host));
  const found = new Map<string, string[]>();
  const notes: string[] = [];
  for (const note of data.notes) {
    const host = named(note);
    if (host === null || shown.has(host)) notes.push(note);
    else found.set(host, [...(found.get(host) ?? []), note]);
  }
  return { hosts: [...found].map(([host, reasons]) => ({ host, reasons })), notes };
}

function named(note: string): string | null {
  const written = PLACE.exec(note)?.[1];
  if (written === undefined) return null;
  try {
    return decodeURIComponent(written);
  } catch {
    // Bytes that are no text stay as they are written.
    return written;
  }
}
