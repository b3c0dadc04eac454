import type { Definition } from "../definitions";

const REQUEST = "A request is a file from open to close of its last descriptor. Class in only read, out wrote (or created, truncated or appended), mixed did both; a sync is one fsync, fdatasync, sync_file_range or syncfs.";
const UNDER_WAY = "A request is under way from its opening to the end of its last data I/O, so one that is kept open and used again counts all that time.";

export const FILES: Record<string, Definition> = {
  files: { title: "File-level requests", text: REQUEST, id: "A8" },
  fileRates: { title: "Requests per second", text: `Requests by the time at which they ended. ${REQUEST}`, formula: "requests ÷ length of the group", id: "A5" },
  fileResponse: { title: "Response time", text: "Median time from the entry of the open to the end of the last data I/O; of a sync its duration. Files that were open before recording began are left out.", id: "A6" },
  fileConcurrent: {
    title: "Concurrent requests",
    text: `How many requests touch a slot of 2 ms: median and upper quartile over the slots of each group. Short slots make this a number of requests at once, not per second. ${UNDER_WAY}`,
    id: "A3",
  },
  fileUtil: {
    title: "Utilisation by requests",
    text: `Share of time with at least one request under way, of all classes, of reading and of writing ones: exactly, or as share of 2 ms slots that a request touches (never less). It says how often programs were busy with files, not how busy a disk was. ${UNDER_WAY}`,
    id: "A4",
  },
  fileSize: {
    title: "Response time by size",
    text: "Medians of requests by the bytes that they moved: total (open to the end of the last data I/O, with its 95 % interval) and first delay (to the end of the first). Bins of 1 KiB up to 16 KiB, then doubling until each holds 30 requests. Steps in the total show the size of one I/O; their height is its cost.",
    id: "A7",
  },
  fileLoad: {
    title: "I/O duration by load",
    text: "The second data I/O of requests of two blocks (total less first delay) against the request rate of its group: medians by tenths of the load, and Theil and Sen's slope with its 95 % interval.",
    id: "A11",
  },
  fileAtomic: {
    title: "Atomic requests",
    text: "Share of requests with data that were served by a single data I/O: nothing in them could be pipelined. The interval is Wilson's, at 95 %.",
    id: "A10",
  },
  fileCosts: {
    title: "Where the time goes",
    text: "The classical decomposition takes I/O = total of two blocks − total of one block, and overhead = total of one block − I/O; it is valid only if every I/O costs the same. Beside it stand the measured parts. Medians.",
    formula: "VALID: |I/O − second I/O| ≤ 20 % and at most 10 % of second I/Os from memory",
    id: "A9",
  },
  fileSlow: {
    title: "Slowest requests",
    text: "The requests that spent most time inside calls. Each bar is one request from its opening on. Of its data I/Os the first four and the slowest are kept one by one; the others are somewhere in the shaded rest. What is empty is the program's own time.",
    id: "A8",
  },
  fileSync: { title: "Syncs", text: "Durations of fsync, fdatasync, sync_file_range and syncfs, as their callers waited.", id: "A8" },
  fileGap: {
    title: "Programs and devices",
    text: "Time inside calls (open, data I/O, sync, close), and the block I/O inside them: of what the same process submitted for the same file meanwhile. Hits are synchronous reads that neither submitted block I/O nor slept.",
    id: "A23",
  },
};
