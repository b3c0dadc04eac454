// The application's stories, findings, table "Who waited for whom" and table of actors.

import { h, refill } from "../dom";
import * as format from "../format";
import { type Actor, type Amount, type Finding, type NotProven, type Story, type Wait, type Who, NOT_KNOWN, actorName, isNameless, knownName, lacksIos, leavesOutNames, nameOf } from "./data";
import { storyKey } from "./merged";
import type { Class, Filter, Subject } from "./view";

export interface Ways {
  look(from: number, to: number): void;
  /** Shows a time of a story, which stays in the list. */
  lookAt(story: Story, from: number, to: number): void;
  filter(filter: Filter | null): void;
  cls(cls: Class): void;
  device(name: string): void;
}

const seconds = (s: number) => format.micros(s * 1e6);
const CLASSES: readonly string[] = ["read", "write", "discard", "flush"];

/** A segment of a bar. Its width is set by script, because the page's policy allows no style in markup. */
function piece(cls: string, share: number, title: string): HTMLElement {
  const e = h("i", { class: cls, title });
  e.style.width = `${(100 * Math.max(0, share)).toFixed(2)}%`;
  return e;
}

function button(cls: string, text: string, title: string, onclick: () => void): HTMLElement {
  return h("button", { type: "button", class: cls, text, title, onclick: (e: Event) => { e.stopPropagation(); onclick(); } });
}

/** The title of a column: numeric, or only for screen readers. */
export interface Title {
  text: string;
  kind?: "num" | "spoken";
}

/** A table whose rows become blocks of labelled cells on narrow screens. Roles keep it a table for screen readers. */
export function table(titles: Title[], rows: HTMLElement[][], classes: string[] = []): HTMLElement {
  const head = titles.map((t) => h("th", { class: t.kind === "num" ? "num" : "", scope: "col", role: "columnheader" }, t.kind === "spoken" ? h("span", { class: "spoken", text: t.text }) : t.text));
  const body = rows.map((cells, i) => {
    cells.forEach((cell, c) => {
      cell.setAttribute("role", "cell");
      cell.dataset["label"] = titles[c]?.text ?? "";
      // On narrow screens, cells without a value are hidden.
      if (cell.textContent === format.ABSENT) cell.classList.add("absent");
    });
    return h("tr", { role: "row", class: classes[i] ?? "" }, ...cells);
  });
  return h("table", { role: "table" }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...head)), h("tbody", { role: "rowgroup" }, ...body));
}

/**
 * The filter for the I/Os of a group; `null` if there is none. Threads may have their own names, so a process is
 * selected by its number.
 */
export function filterOf(w: Who, by: Subject): Filter | null {
  const name = by === "process" && typeof w.pid === "number" ? String(w.pid) : knownName(w, by);
  return name === null || isOfAll(by, name) ? null : { by, name };
}

/** Whether the group is the root, which contains all control groups. */
const isOfAll = (by: Subject, name: string): boolean => by === "cgroup" && name === "/";

/** The tooltip of a name that filters. */
const onlyOf = (by: Subject, name: string): string => `Show only ${name}${by === "cgroup" ? " and what is below it" : ""}`;

/** Whether a filter includes an actor. A process selected by number has an actor for each name of its threads. */
export function hasActor(filter: Filter | null, by: Subject, name: string): boolean {
  if (filter === null || filter.by !== by) return false;
  return name === filter.name || (by === "process" && name.endsWith(`[${filter.name}]`));
}

/** A filter as text, with the names of processes from the table of waits. */
export function filterText({ by, name }: Filter, waits: readonly Wait[]): string {
  const isNumber = by === "process" && /^\d+$/.test(name);
  const parties = isNumber ? waits.flatMap((w): Who[] => [w.victim, ...w.behind]) : [];
  const named = parties.find((who) => who.pid === Number(name) && who.process);
  return named?.process ? `${named.process}[${name}]` : name;
}

/** A group that can be clicked, with its class. */
function who(w: Who, by: Subject, ways: Ways): HTMLElement {
  const filter = filterOf(w, by);
  const label = by === "process" && w.process && typeof w.pid === "number" ? `${w.process}[${w.pid}]` : nameOf(w, by);
  // Readers who may not see names may not filter by them either.
  const shown = filter !== null && w.leftOut !== true
    ? button("name", label, onlyOf(by, label), () => ways.filter(filter))
    : h("span", { class: "name", text: label });
  return h("span", { class: `who ${w.class ?? ""}` }, shown, w.class ? h("small", { text: w.origin === "writeback" ? "write-back" : w.class }) : null);
}

/** The text shown if nothing was found; only the notes if they say that nothing could be found. */
export function nothingFound(text: string, notes: string[]): { cls: string; text: string }[] {
  const found = lacksIos(notes) ? [] : [{ cls: "empty", text }];
  return [...found, ...notes.map((note) => ({ cls: "note", text: note }))];
}

const paragraphs = (said: { cls: string; text: string }[]): HTMLElement[] => said.map(({ cls, text }) => h("p", { class: cls, text }));

/** The culprits of a story as text. */
export function culpritsOf({ culprits }: Pick<Story, "culprits">): string {
  const known = culprits.filter((c) => !isNameless(c)).map((c) => nameOf(c));
  const nameless = culprits.length - known.length;
  if (nameless > 0) known.push(nameless > 1 ? "other processes" : "another process");
  return known.join(" and ");
}

/** The delayed I/Os of a story as text. */
export function victimOf({ victim, culprits }: Pick<Story, "victim" | "culprits">): string {
  if (victim === null) return "";
  const what = victim.class ? `${victim.class}s`.replace(/hs$/, "hes") : "";
  if (!isNameless(victim)) return `${nameOf(victim)} ${what}`.trim();
  // Where the culprit is "another process", the victim is one beside it.
  const whose = culprits.length > 0 && !culprits.some(isNameless) ? "another process" : "a process";
  return what === "" ? whose : `${what} of ${whose}`;
}

/**
 * Number of episodes without a mark: a story lists only those in which most was lost. Without any, its worst moment
 * is marked.
 */
export const unmarkedOf = ({ times, episodes }: Pick<Story, "times" | "episodes">): number => (episodes.length === 0 ? 0 : Math.max(0, (times ?? 0) - episodes.length));

/** Notes are above a list, because they qualify it and would be out of sight below it. */
const notesOf = (notes: string[]): HTMLElement[] => notes.map((text) => h("p", { class: "note", text }));

const kindOf = ({ kind }: Story): string => kind.replaceAll("-", " ").replace("writeback", "write-back");

/** The harm of a story as text: share of I/O time lost, longest latency, number of episodes. */
function harmOf({ harm, times }: Story): string {
  if (!harm) return "";
  const share = typeof harm.lost_time_percent === "number" ? format.percent(harm.lost_time_percent) : null;
  const worst = typeof harm.worst_us === "number" ? `up to ${format.micros(harm.worst_us)}` : null;
  const often = (times ?? 0) > 1 ? `${times} times` : null;
  return [share, worst, often].filter((part) => part !== null).join(", ");
}

/** The heading of a story: who delays whom, as far as it is known. */
function headOf(story: Story): string {
  const known = [culpritsOf(story), victimOf(story)].filter((who) => who !== "");
  return known.length > 0 ? known.join(" delays ") : story.device;
}

/** The description of a story, shown at the marks of its episodes. */
export function storyLines(story: Story): [string, string][] {
  const lost = story.harm ? [`${seconds(story.harm.seconds)} lost`, harmOf(story)].filter((part) => part !== "").join(", ") : "";
  return [[kindOf(story), headOf(story)], ...(lost === "" ? [] : [["", lost] as [string, string]])];
}

/** Opens a story in the list, and scrolls to it. */
export function openStory(root: HTMLElement, story: Story): void {
  const details = [...root.querySelectorAll("details")].find((d) => d.dataset["key"] === storyKey(story));
  if (!details) return;
  details.open = true;
  details.querySelector("summary")?.focus({ preventScroll: true });
  details.scrollIntoView({ block: "nearest" });
}

/** The summaries of a story, one per recording, with the time if there are several. */
function summaries({ summary, parts }: Story): HTMLElement[] {
  if (!parts) return [h("p", { text: summary })];
  const isOneDay = new Set(parts.flatMap((p) => [format.date(p.start_unix_s), format.date(p.end_unix_s)])).size === 1;
  const time = (s: number) => `${isOneDay ? "" : `${format.date(s)} `}${format.clock(s, 1)}`;
  return parts.map((p) => h("p", {}, h("small", { text: `${time(p.start_unix_s)} to ${time(p.end_unix_s)} UTC: ` }), p.summary));
}

/** The list of stories, worst first: one line each, which expands to the whole story. */
export function stories(root: HTMLElement, list: Story[], unknown: NotProven[], notes: string[], ways: Ways, open: Set<string>): void {
  if (list.length === 0) {
    // If it is not known whether a program waited, the page must not say that none did.
    const found = unknown.length > 0
      ? [...unknown.map(({ summary }) => ({ cls: "empty", text: summary })), ...notes.map((text) => ({ cls: "note", text }))]
      : nothingFound("No story in this time: no program made another one wait noticeably.", notes);
    refill(root, ...paragraphs(found));
    return;
  }
  const most = Math.max(...list.map((s) => s.harm?.seconds ?? 0), 1e-9);
  const rows = list.map((story) => {
    const key = storyKey(story);
    const harm = story.harm;
    const culprits = culpritsOf(story);
    const victim = victimOf(story);
    const headline = culprits && victim ? [h("b", { class: "culprit", text: culprits }), " delays ", h("b", { class: "victim", text: victim })] : [h("b", { text: victim || culprits || story.device })];
    const details = h("details", { class: "story", "data-key": key },
      h("summary", {},
        h("span", { class: "line", title: headOf(story) }, h("span", { class: "kind", text: kindOf(story) }), ...headline),
        h("span", { class: "harm" },
          h("b", { text: harm ? `${seconds(harm.seconds)} lost` : "" }),
          h("small", { title: "Share of the victim's I/O time, longest latency, how often", text: harm ? ` ${harmOf(story)}` : "" })),
        h("span", { class: "amount" }, piece("harm-bar", (harm?.seconds ?? 0) / most, ""))),
      ...summaries(story),
      unmarkedOf(story) > 0 ? h("p", { class: "note", text: `Below the heat map ${story.episodes.length} of its ${format.count(story.times)} episodes are marked: those in which most was lost. Of a shorter time more are known.` }) : null,
      ...(story.advice ?? []).map((a) => h("p", { class: "advice" }, "Try: ", h("code", { text: a.text }), a.now ? ` (now ${a.now})` : "")),
      h("p", { class: "ways" },
        button("", "Show its time", "Zoom to the whole story", () => ways.lookAt(story, ...margin(story.start_unix_s, story.end_unix_s))),
        typeof harm?.worst_at_s === "number" && button("", "Show the worst moment, I/O by I/O", "", () => {
          const at = story.recording_start_unix_s + (harm.worst_at_s ?? 0);
          const worst = (harm.worst_us ?? 0) / 1e6;
          const span = Math.min(0.049, Math.max(0.004, 2.5 * worst));
          // Includes the time before it started, as far as the view still shows single I/Os.
          const before = Math.min(span * 0.95, Math.max(span * 0.7, 1.1 * worst));
          ways.lookAt(story, at - before, at + span - before);
        }),
        button("", story.device, `Show only ${story.device}`, () => ways.device(story.device))));
    details.dataset["story"] = key;
    details.open = open.has(key);
    details.addEventListener("toggle", () => (details.open ? open.add(key) : open.delete(key)));
    return details;
  });
  // How to see names comes first, because it would be out of sight below the list.
  const first = notes.filter((n) => leavesOutNames([n]));
  const last = notes.filter((n) => !first.includes(n));
  const paragraph = (n: string) => h("p", { class: "note", text: n });
  refill(root, ...first.map(paragraph), ...rows, ...last.map(paragraph));
}

/** The findings about devices and I/Os, one line each, leading to their time. Facts are only counted. */
export function findings(root: HTMLDetailsElement, list: Finding[], ways: Ways): void {
  const grave = list.filter((f) => f.severity !== "info");
  const facts = list.length - grave.length;
  root.hidden = list.length === 0;
  const counted = facts > 0 ? `${facts} ${facts === 1 ? "fact" : "facts"}` : "";
  const rows = grave.map((f) => h("p", {},
    h("span", { class: `severity ${f.severity}`, text: f.severity }), " ",
    button("name", f.device === null ? f.kind : `${f.kind}, ${f.device}`, "Show its time", () => ways.look(...margin(f.start_unix_s, f.end_unix_s))), ` ${f.summary}`));
  refill(root,
    h("summary", { text: `Findings: ${[grave.length > 0 ? String(grave.length) : "", counted].filter(Boolean).join(" and ")}` }),
    ...rows, facts > 0 ? h("p", { class: "note", text: `${counted}, such as bursts and periods: see the full report.` }) : null);
}

function margin(from: number, to: number): [number, number] {
  const by = Math.max(0.05, (to - from) * 0.05);
  return [from - by, to + by];
}

const behindOf = (w: Wait) => w.behind.reduce((sum, b) => sum + b.seconds, 0);

const PARTS: readonly [cls: string, name: string][] = [["p-undisturbed", "undisturbed"], ["p-behind", "behind other I/O"], ["p-own", "own queue"], ["p-held", "held"], ["p-device", "device"], ["p-unknown", "unknown"]];

/** The legend of the parts of I/O time. */
export const legendOfParts = (): HTMLElement => h("span", { class: "legend" }, ...PARTS.map(([cls, name]) => h("span", {}, h("i", { class: cls }), name)));

/** Victims by lost time, with the parts of their I/O time and what they waited behind, which may be the same program. */
export function waits(root: HTMLElement, list: Wait[], notes: string[], by: Subject, ways: Ways): void {
  const ranked = list.filter((w) => w.io_time_s > 0).sort((a, b) => behindOf(b) - behindOf(a) || b.io_time_s - a.io_time_s).slice(0, 20);
  if (ranked.length === 0) {
    refill(root, ...paragraphs(nothingFound("No I/O waited in this time.", notes)));
    return;
  }
  const rows = ranked.map((w) => {
    const behind = behindOf(w);
    const first = w.behind[0];
    const share = (s: number) => s / w.io_time_s;
    const parts: [string, number, string][] = [
      ["p-undisturbed", w.undisturbed_s, "undisturbed"], ["p-behind", behind, "behind other I/O"], ["p-own", w.own_s, "behind its own"],
      ["p-held", w.held_s, "held above the device"], ["p-device", w.device_s, "the device itself"], ["p-unknown", w.unknown_s, "unknown"],
    ];
    const spoken = parts.filter(([, s]) => s > 0).map(([, s, name]) => `${name} ${seconds(s)}`).join(", ");
    return [
      h("td", {}, who(w.victim, by, ways), h("small", { class: "dev", text: ` ${w.device}` })),
      h("td", { class: "num", text: seconds(w.io_time_s) }),
      h("td", {}, h("span", { class: "parts", role: "img", "aria-label": spoken, title: spoken }, ...parts.map(([cls, s, name]) => piece(cls, share(s), `${name} ${seconds(s)}`)))),
      h("td", { class: "num", text: behind > 0 ? seconds(behind) : format.ABSENT }),
      h("td", {}, first && behind > 0 ? who(first, by, ways) : format.ABSENT, w.behind.length > 1 && behind > 0 ? h("small", { text: ` ${format.percent((100 * first!.seconds) / behind)}`, title: w.behind.map((b) => `${nameOf(b, by)} ${seconds(b.seconds)}`).join("\n") }) : null),
    ];
  });
  const titles: Title[] = [{ text: "Victim" }, { text: "I/O time", kind: "num" }, { text: "Parts of it", kind: "spoken" }, { text: "Behind other I/O", kind: "num" }, { text: "Behind whom" }];
  refill(root, ...notesOf(notes), table(titles, rows));
}

/** Processes, control groups or files with the most I/O time. */
export function actors(root: HTMLElement, list: Actor[], others: Actor | null, notes: string[], by: Subject, chosen: Filter | null, ways: Ways): void {
  const all = [...list, ...(others && others.io_time_s > 0 ? [others] : [])];
  if (all.length === 0) {
    refill(root, ...notesOf(notes), h("p", { class: "empty", text: "No I/O completed in this time." }));
    return;
  }
  const most = Math.max(...all.map((a) => a.io_time_s), 1e-9);
  const mayChoose = !leavesOutNames(notes);
  const amount = (a: Amount, cls: string) => [
    h("td", { class: `num ${cls}`, text: a.ios > 0 ? format.count(a.ios) : format.ABSENT }),
    h("td", { class: `num ${cls}`, text: a.ios > 0 ? format.bytes(a.bytes) : format.ABSENT }),
    h("td", { class: `num ${cls}`, text: format.micros(a.mean_us) }),
  ];
  const rows = all.map((a) => {
    const known = a === others ? null : actorName(a);
    const name = a === others ? "others together" : known ?? NOT_KNOWN;
    const filter = known !== null && mayChoose && !isOfAll(by, known) ? button("name", name, onlyOf(by, name), () => ways.filter({ by, name })) : h("span", { class: "name", text: name });
    return [
      h("td", { class: "actor" }, filter),
      h("td", { class: "num", text: seconds(a.io_time_s) }),
      h("td", {}, h("span", { class: "amount" }, piece("time-bar", a.io_time_s / most, ""))),
      ...amount(a.read, "read"), ...amount(a.write, "write"),
      h("td", { class: "num", text: a.flush.ios > 0 ? format.count(a.flush.ios) : format.ABSENT }),
    ];
  });
  const numbers = ["Reads", "Bytes read", "Mean of reads", "Writes", "Bytes written", "Mean of writes", "Flushes"].map((text): Title => ({ text, kind: "num" }));
  const titles: Title[] = [{ text: by === "process" ? "Process" : by === "cgroup" ? "Control group" : "File" }, { text: "I/O time", kind: "num" }, { text: "Beside the others", kind: "spoken" }, ...numbers];
  refill(root, ...notesOf(notes), table(titles, rows, all.map((a) => (a.name !== null && hasActor(chosen, by, a.name) ? "chosen" : ""))));
}

export { CLASSES };
