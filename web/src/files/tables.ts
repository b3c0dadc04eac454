// The columns of the tables of file-level requests by process and file, of calls by file, and of syncs.

import * as format from "../format";
import type { Column } from "../sections/table";
import type { CallSummary, FileCalls, FilesBlock, Group, SyncGroup } from "../generated/page";

function numeric<Row>(title: string, definition: string, key: (r: Row) => number | null, text: (v: number | null) => string): Column<Row> {
  return { title, definition, numeric: true, key, text: (r) => text(key(r)) };
}

const seconds = (v: number | null) => format.micros(v === null ? null : v * 1e6);

export const GROUP_COLUMNS: Column<Group>[] = [
  { title: "Name", key: (g) => g.name, text: (g) => g.name, cls: "name" },
  numeric("Requests", "files", (g) => g.requests, format.count),
  numeric("I/Os", "fileGap", (g) => g.data_ios, format.count),
  numeric("Read", "fileGap", (g) => g.bytes_in, format.bytes),
  numeric("Written", "fileGap", (g) => g.bytes_out, format.bytes),
  numeric("In calls", "fileGap", (g) => g.call_s, seconds),
  numeric("Block I/O inside", "fileGap", (g) => g.block_io_s, seconds),
  numeric("Hits", "fileGap", (g) => g.cache_hit_percent, format.percent),
  numeric("Median", "fileResponse", (g) => g.total_p50_us, format.micros),
];

export const SYNC_COLUMNS: Column<SyncGroup>[] = [
  { title: "Name", key: (g) => g.name, text: (g) => (g.low_n ? `${g.name} (few)` : g.name), cls: "name" },
  numeric("Syncs", "fileSync", (g) => g.n, format.count),
  numeric("p50", "fileSync", (g) => g.p50_us, format.micros),
  numeric("p95", "fileSync", (g) => g.p95_us, format.micros),
  numeric("p99", "fileSync", (g) => g.p99_us, format.micros),
  numeric("Max", "fileSync", (g) => g.max_us, format.micros),
  numeric("Waited", "fileSync", (g) => g.mean_us * g.n, format.micros),
  numeric("Failed", "fileSync", (g) => g.failed, format.count),
];

type Call = CallSummary & { name: string; call: string };

/** A row for each kind of call on each file. */
export function callRows(files: FileCalls[]): Call[] {
  return files.flatMap((f) => (["read", "write", "sync"] as const).flatMap((kind) => (f[kind] ? [{ ...f[kind], name: f.name, call: kind === "sync" ? "fsync" : kind }] : [])));
}

export const CALL_COLUMNS: Column<Call>[] = [
  { title: "File", key: (c) => c.name, text: (c) => (c.low_n ? `${c.name} (few)` : c.name), cls: "name" },
  { title: "Call", key: (c) => c.call, text: (c) => c.call },
  numeric("Calls", "fileCalls", (c) => c.n, format.count),
  numeric("Mean", "fileCalls", (c) => c.mean_us, format.micros),
  numeric("p50", "fileCalls", (c) => c.p50_us, format.micros),
  numeric("p99", "fileCalls", (c) => c.p99_us, format.micros),
  numeric("Max", "fileCalls", (c) => c.max_us, format.micros),
];

/** The devices' activity while syncs waited, and the attribution of the rest of the block I/O. */
export function syncText(d: FilesBlock): string {
  const sync = d.while_syncing
    .map((m) => `While syncs waited for ${m.device} (${format.span(m.syncing_s)}) it completed ${format.count(m.writes)} writes (${format.bytes(m.written_bytes)}), ${format.count(m.flushes)} flushes and ${format.count(m.reads)} reads. `)
    .join("");
  const rest = d.unattributed_percent;
  return rest === null ? sync : `${sync}${format.percent(rest)} of the bytes of block I/O belong to no request: writeback, metadata, processes that were not followed.`;
}
