import assert from "node:assert/strict";
import { test } from "node:test";
import { type Browser, Feed, type Said, type Slot } from "../src/live/feed";
import { Recent } from "../src/live/recent";
import { bars } from "../src/live/strip";

/** A server that remembers as long as the real one, its connections, and a clock that only the test advances. */
class World implements Browser {
  nowMs = 0;
  readonly connections: Connection[] = [];
  /** The events: time in seconds, kind, data. */
  readonly memory: [number, string, string][] = [];
  up = true;
  #timers = new Map<number, [number, () => void]>();
  #number = 0;

  readonly open = (address: string) => {
    const connection = new Connection(address);
    this.connections.push(connection);
    const up = this.up;
    this.after(1, () => {
      if (!up) return connection.say("error");
      connection.say("open");
      const since = Number(new URL(address, "http://h/").searchParams.get("since"));
      for (const [at, type, data] of this.memory) if (at > since) connection.say(type, data);
    });
    return connection;
  };
  readonly after = (ms: number, run: () => void) => {
    this.#timers.set(++this.#number, [this.nowMs + ms, run]);
    return this.#number;
  };
  readonly cancel = (timer: number) => void this.#timers.delete(timer);
  readonly now = () => this.nowMs;

  pass(ms: number): void {
    const until = this.nowMs + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, [at]]) => at <= until).sort((a, b) => a[1][0] - b[1][0])[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.nowMs = Math.max(this.nowMs, due[1][0]);
      due[1][1]();
    }
    this.nowMs = until;
  }

  /** An event at `at_s`: it is remembered, and sent to all connections. */
  happens(at_s: number, type: string, data: object): void {
    this.memory.push([at_s, type, JSON.stringify(data)]);
    if (this.up) for (const c of this.connections) if (!c.closed) c.say(type, JSON.stringify(data));
  }

  slot(time_s: number, device = "sda"): void {
    this.happens(time_s, "slot", { time_s, device, r_per_s: 10, w_per_s: 0, r_kib_per_s: 40, w_kib_per_s: 0 });
  }

  get last(): Connection {
    const connection = this.connections[this.connections.length - 1];
    assert.ok(connection);
    return connection;
  }
}

/** Like the browser's `EventSource`: a closed one sends nothing any more, unless a test makes it. */
class Connection {
  closed = false;
  readonly #listeners = new Map<string, ((event: { data?: string }) => void)[]>();
  constructor(readonly address: string) {}
  addEventListener(type: string, listener: (event: { data?: string }) => void): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }
  close(): void {
    this.closed = true;
  }
  say(type: string, data?: string): void {
    if (!this.closed) this.sayLate(type, data);
  }
  sayLate(type: string, data?: string): void {
    for (const listener of this.#listeners.get(type) ?? []) listener(data === undefined ? {} : { data });
  }
}

function followed(since_s: number, newest = new Map<string, number>()) {
  const world = new World();
  const slots: string[] = [];
  const findings: Said[] = [];
  const states: (number | null)[] = [];
  const feed = new Feed(since_s, newest, {
    slot: (slot) => slots.push(`${slot.device} ${slot.time_s}`),
    finding: (said) => findings.push(said),
    connected: (lostAt) => states.push(lostAt),
  }, world);
  feed.follow();
  world.pass(10);
  return { world, slots, findings, states, feed };
}

const said = (event: string, start = "2026-11-23T18:00:00Z"): Said =>
  ({ event, kind: "stall", severity: "warning", device: "sda", start, end: start, summary: "nothing completes" });

test("the first connection asks from where the page ends", () => {
  const { world, states } = followed(1000);
  assert.equal(world.last.address, "api/v1/live?since=999.000");
  assert.deepEqual(states, [null]);
});

test("over a break nothing is missed and nothing comes twice", () => {
  const { world, slots, findings, states } = followed(1000);
  world.slot(1000.1);
  world.slot(1000.1, "sdb");
  world.happens(1000.2, "finding", said("start"));
  world.slot(1000.2);
  world.up = false;
  world.last.say("error");
  assert.ok(world.last.closed, "the browser does not reconnect by itself, with the old address");
  // sdb's slot at the time of sda's last one arrives during the interruption.
  world.slot(1000.2, "sdb");
  world.happens(1000.25, "finding", said("end"));
  world.pass(20_000);
  const tries = world.connections.length;
  assert.ok(tries >= 4 && tries <= 6, `${tries} connections in 20 s: less and less often`);
  world.slot(1019.9);
  world.up = true;
  world.pass(31_000);
  world.slot(1020);
  assert.deepEqual(slots, ["sda 1000.1", "sdb 1000.1", "sda 1000.2", "sdb 1000.2", "sda 1019.9", "sda 1020"]);
  assert.deepEqual(findings.map((f) => f.event), ["start", "end"]);
  assert.equal(states[0], null);
  assert.equal(states.at(-1), null);
  assert.deepEqual(new Set(states.slice(1, -1)), new Set([10]), "lost since the first time that it failed");
});

test("each try asks from the last slot that was heard", () => {
  const { world } = followed(1000);
  world.slot(1234.5);
  world.last.say("error");
  world.pass(1100);
  assert.equal(world.last.address, "api/v1/live?since=1233.500");
  world.slot(1300);
  world.last.say("missed", "17");
  world.pass(1100);
  assert.equal(world.last.address, "api/v1/live?since=1299.000", "what a slow client missed is remembered");
  assert.equal(world.connections.filter((c) => !c.closed).length, 1);
});

test("what was lost to a slow client comes again", () => {
  const { world, slots } = followed(0);
  world.slot(1);
  world.memory.push([1.1, "slot", JSON.stringify({ time_s: 1.1, device: "sda" })]);
  world.last.say("missed", "1");
  world.pass(2000);
  world.slot(1.2);
  assert.deepEqual(slots, ["sda 1", "sda 1.1", "sda 1.2"]);
});

test("a connection that was given up is not heard any more", () => {
  const { world, slots } = followed(0);
  const first = world.last;
  first.say("error");
  first.sayLate("slot", JSON.stringify({ time_s: 5, device: "sda" }));
  first.sayLate("error");
  world.pass(1100);
  assert.deepEqual(slots, []);
  assert.equal(world.connections.length, 2);
});

test("silence is a break, slots are none", () => {
  const { world } = followed(0);
  for (let i = 1; i <= 60; i++) {
    world.pass(1000);
    world.slot(i);
  }
  assert.equal(world.connections.length, 1);
  world.pass(29_000);
  assert.equal(world.connections.length, 1);
  world.pass(3000);
  assert.equal(world.connections.length, 2);
  assert.ok(world.connections[0]?.closed);
});

test("a hidden page rests, and goes on where it was", () => {
  const { world, slots, states, feed } = followed(0);
  world.slot(1);
  feed.rest();
  assert.ok(world.last.closed);
  world.slot(2);
  world.pass(120_000);
  assert.equal(world.connections.length, 1);
  feed.follow();
  feed.follow();
  world.pass(10);
  world.slot(3);
  assert.equal(world.connections.length, 2);
  assert.deepEqual(slots, ["sda 1", "sda 2", "sda 3"]);
  world.last.say("error");
  assert.notEqual(states.at(-1), null);
  feed.rest();
  assert.equal(states.at(-1), null, "nothing is said of what is not tried");
  world.pass(120_000);
  assert.equal(world.connections.length, 2, "no try while it rests");
});

test("nonsense is left out", () => {
  const { world, slots, findings } = followed(0);
  for (const data of ["", "{", "null", "3", "{\"device\":\"sda\"}"]) {
    world.last.say("slot", data);
    world.last.say("finding", data);
  }
  world.slot(1);
  assert.deepEqual([slots, findings], [["sda 1"], []]);
});

const slot = (time_s: number, device: string, kib: number): Slot =>
  ({ time_s, device, r_per_s: 20, w_per_s: null, r_kib_per_s: kib, w_kib_per_s: null });

test("slots add up to seconds, and ten minutes are remembered", () => {
  const recent = new Recent();
  // Ends of slots are not exact in binary. The slot that ends with the second belongs to it.
  for (let i = 1; i <= 20; i++) recent.take(slot(5000 + i / 10, "sda", 10));
  recent.take(slot(5001.95, "sdb", 1000));
  const [[first, busiest] = ["", new Map()], [, seconds] = ["", new Map()]] = recent.devices();
  assert.deepEqual([first, [...busiest.keys()]], ["sdb", [5001]]);
  assert.deepEqual([...seconds.keys()], [5000, 5001]);
  for (const sum of seconds.values()) {
    assert.ok(Math.abs(sum.readBytes - 10 * 1024) < 1e-6 && Math.abs(sum.reads - 20) < 1e-9 && sum.writes === 0);
  }
  recent.take(slot(5601.5, "sda", 1));
  assert.deepEqual([...(recent.devices().find(([name]) => name === "sda")?.[1].keys() ?? [])], [5601]);
});

test("a page that is made anew goes on with what was known", () => {
  const recent = new Recent();
  recent.take(slot(5000.1, "sda", 10));
  recent.take(slot(5000.2, "sdb", 20));
  recent.say(said("start"));
  const back = Recent.restore(recent.kept(), 5100);
  assert.deepEqual([back.newest, [...back.ends], back.said], [5000.2, [["sdb", 5000.2], ["sda", 5000.1]], recent.said]);
  assert.deepEqual(back.devices().map(([name, s]) => [name, [...s.keys()]]), [["sdb", [5000]], ["sda", [5000]]]);
  for (const [text, now_s] of [[recent.kept(), 5601], [recent.kept(), 4000], ["{", 5100], ["{}", 5100], [null, 5100]] as const) {
    const none = Recent.restore(text, now_s);
    assert.deepEqual([none.newest, none.devices(), none.said], [0, [], []], `${text} at ${now_s}`);
  }
});

test("a finding is listed once, with its end, the newest first", () => {
  const recent = new Recent();
  for (let i = 0; i < 9; i++) recent.say(said("start", `2026-11-23T18:00:0${i}Z`));
  recent.say(said("end", "2026-11-23T18:00:07Z"));
  assert.deepEqual(recent.said.map((s) => `${s.start.slice(17, 19)} ${s.event}`), ["08 start", "07 end", "06 start", "05 start", "04 start"]);
});

test("bars stand where their seconds are", () => {
  const second = { readBytes: 5, writeBytes: 10, reads: 1, writes: 1 };
  const seconds = new Map([[399, second], [400, second], [999, second], [1000, second]]);
  assert.equal(bars(seconds, 1000, (x) => x.writeBytes / 10), "M0 14v14.00h1V14zM599 14v14.00h1V14z");
  assert.equal(bars(seconds, 1000, () => 0), "");
});
