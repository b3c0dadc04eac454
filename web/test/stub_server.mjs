// A server that answers like the program, with fixed data.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { here } from "./chromium.mjs";

export const NOW_S = 1_795_000_000;
export const EVIL = "<img src=x onerror=alert(1)>\u202e";

let template;
const servers = [];

/** Stops all servers that were started. */
export function stop() {
  for (const server of servers) server.close();
}

export const amount = (ios) => ({ ios, bytes: ios * 4096, mean_us: ios > 0 ? 100 : null });
export const group = (process, cls) => ({ process, pid: process === null ? null : 7, cgroup: "/", class: cls, origin: "direct" });

/** Documents of the API for a time range: reads of `evil` at 100 us, writes of dd at 20 ms. */
export const DOCUMENTS = {
  devices: () => ({ devices: [{ name: "sda", model: "<b>disk</b>", size_bytes: 1e12 }, { name: "sdb", model: null, size_bytes: 1e9 }] }),
  stories: ({ from }) => ({
    stories: [1, 2].map((n) => ({
      id: "same", kind: "writeback-flush", device: "sda", summary: `Story ${n} of ${EVIL}`, start_unix_s: from, end_unix_s: from + 1,
      recording_start_unix_s: from - n, victim: group(EVIL, "read"), culprits: [group("dd", "write")],
      harm: { seconds: 3 - n, lost_time_percent: 50, worst_at_s: 1, worst_us: 9000 }, times: 3, episodes: [{ start_s: n, end_s: n + 0.5 }], advice: [],
    })),
    notes: [],
  }),
  waits: () => ({
    waits: [
      { device: "sda", victim: group(null, "write"), ios: 10, io_time_s: 9, undisturbed_s: 1, own_s: 8, held_s: 0, device_s: 0, unknown_s: 0, behind: [] },
      { device: "sda", victim: group(EVIL, "read"), ios: 10, io_time_s: 4, undisturbed_s: 1, own_s: 0, held_s: 0, device_s: 1, unknown_s: 0, behind: [{ ...group("dd", "write"), seconds: 2, ios: 5 }] },
    ],
    notes: [],
  }),
  // Only the last minute of the hour is recorded for the device `part`.
  heatmap: ({ from, to, width, device, process, cgroup, file }) => ({
    from_unix_s: device === "part" ? NOW_S - 60 : from, column_s: (device === "part" ? 60 : to - from) / width, latency_us: [10, 100, 1000, 10000], notes: [],
    counts: Array.from({ length: width }, (_, i) => (cgroup || file || process === "nobody" ? [0, 0, 0] : process === "dd" ? [0, i % 10 === 0 ? 3 : 0, 0] : [i % 3, 5, i % 7 === 0 ? 1 : 0])),
  }),
  series: ({ from, to }) => ({
    step_s: (to - from) / 2, notes: [],
    columns: {
      time_unix_s: [(from + to) / 2, to], slot_s: [(to - from) / 2, (to - from) / 2], r_kib_per_s: [100, 200], w_kib_per_s: [0, 50],
      r_per_s: [25, 50], w_per_s: [0, 10], d_per_s: [0, 0], d_kib_per_s: [0, 0], f_per_s: [0, 4], r_p50_us: [90, 95], w_p50_us: [null, 2000], r_p90_us: [150, 160], w_p90_us: [null, 5000],
      busy_percent: [30, 45], busy_read_percent: [30, 20], busy_write_percent: [0, 30], busy_discard_percent: [0, 0], busy_flush_percent: [0, 5],
      inflight_mean: [1, 2], inflight_max: [3, 4], lossy: [false, false], process: [`${EVIL}[7]`, "dd[7]"],
    },
  }),
  ios: ({ from, to }) => {
    const n = 40;
    const fill = (of) => Array.from({ length: n }, (_, i) => of(i));
    // Inside the visible range, whatever is requested beyond its end.
    const end = to - from > 1 && to - from < 1.1 ? to - 1 : to;
    const since = Math.floor(from) - 1;
    const done = fill((i) => Math.round((from - since + ((end - from) * (i + 1)) / (n + 1)) * 1e9));
    return {
      ios: n, since_unix_s: since, notes: [],
      columns: {
        start_ns: fill((i) => done[i] - (i % 4 ? 100_000 : 5_000_000)), done_ns: done, flags: fill(() => 1 << 3), device: fill(() => "sda"), class: fill((i) => (i % 4 ? "read" : "write")), sector: fill((i) => i * 8), bytes: fill(() => 4096),
        undisturbed_us: fill(() => 90), wait_others_us: fill((i) => (i % 4 ? 10 : 4000)), wait_own_us: fill(() => 0), wait_held_us: fill(() => 0),
        wait_device_us: fill((i) => (i % 4 ? 0 : 910)), wait_unknown_us: fill(() => 0), wait_behind_us: fill((i) => (i % 4 ? 10 : 4000)), wait_behind_pid: fill(() => 12),
        wait_behind_process: fill(() => EVIL), wait_behind_class: fill(() => "write"), wait_behind_origin: fill(() => "writeback"),
        queue_us: fill(() => 50), device_us: fill((i) => (i % 4 ? 50 : 4950)), total_us: fill((i) => (i % 4 ? 100 : 5000)), error: fill(() => 0), pid: fill(() => 7),
        process: fill((i) => (i % 4 ? EVIL : "dd")), cgroup: fill(() => "/"), file: fill((i) => (i % 4 ? null : "/wal")), origin: fill(() => "direct"),
      },
    };
  },
  findings: ({ from }) => ({
    findings: [
      { kind: "microburst", severity: "info", device: "sda", start_unix_s: from, end_unix_s: from + 1, summary: "a burst", evidence: {} },
      { kind: "periodicity", severity: "info", device: "sda", start_unix_s: from + 7, end_unix_s: from + 90, summary: "a period", evidence: { period_s: 30.0004, class: "write" } },
      { kind: "stall", severity: "warning", device: "sda", start_unix_s: from + 20, end_unix_s: from + 21, summary: `No I/O of ${EVIL} completed`, evidence: {} },
    ],
    notes: [],
  }),
  actors: ({ by }) => ({
    by, notes: ["A note of the server."],
    actors: [{ name: by === "process" ? `${EVIL}[7]` : `/${by}`, read: amount(90), write: amount(0), discard: amount(0), flush: amount(0), io_time_s: 4, io_time_percent: 40 }],
    others: { name: null, read: amount(0), write: amount(0), discard: amount(0), flush: amount(0), io_time_s: 0, io_time_percent: 0 },
  }),
};

/**
 * A server with these properties: `delayMs` before each API answer, parts that `fail` this many times, and the
 * reason why it will `refuse` all.
 */
export async function serve(habits = {}) {
  const state = { asked: [], aborted: [], fail: {}, refuse: null, delayMs: 0, recording: false, watchers: new Set(), documents: DOCUMENTS, ...habits };
  template ??= await readFile(new URL("dist/app.html", here), "utf8");
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://h");
    if (url.pathname === "/") {
      const data = JSON.stringify({ format: 1, now_unix_s: NOW_S, recording: state.recording });
      const page = template.replace("__TITLE__", "t").replace("__DATA__", () => data);
      const policy = /Content-Security-Policy" content="([^"]*)"/.exec(page)[1];
      response.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": `${policy}; frame-ancestors 'none'` });
      response.end(page);
      return;
    }
    const name = url.pathname.replace("/api/v1/", "");
    state.asked.push(`${name}${url.search}`);
    if (name === "live") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(": hello\n\n");
      state.watchers.add(response);
      return;
    }
    const query = Object.fromEntries(url.searchParams);
    const numbers = { ...query, from: Number(query.from), to: Number(query.to), width: Number(query.width) };
    response.on("close", () => response.writableEnded || state.aborted.push(name));
    setTimeout(() => {
      if (response.destroyed) return;
      if (state.fail[name] > 0) {
        state.fail[name]--;
        response.writeHead(503, { "content-type": "application/problem+json" });
        response.end(JSON.stringify({ type: "about:blank", status: 503, title: "x", detail: "this takes too long: ask for a shorter stretch" }));
        return;
      }
      if (state.refuse !== null) {
        response.writeHead(422, { "content-type": "application/problem+json" });
        response.end(JSON.stringify({ type: "about:blank", status: 422, title: "x", detail: state.refuse }));
        return;
      }
      response.writeHead(state.documents[name] ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(state.documents[name]?.(numbers) ?? { detail: "nothing" }));
    }, state.delayMs);
  });
  servers.push(server);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  state.url = `http://127.0.0.1:${server.address().port}/`;
  return state;
}
