/** Colours that canvases need, read from the style sheet so that they are defined in one place. */
export interface Theme {
  text: string;
  muted: string;
  grid: string;
  paper: string;
  read: string;
  write: string;
  readFill: string;
  writeFill: string;
  busy: string;
  busyFill: string;
  inflight: string;
  inflightFill: string;
  mark: string;
  lossy: string;
  ok: string;
  critical: string;
  flush: string;
  discard: string;
  /** For items without a colour of their own, such as processes. */
  series: string[];
  heat: { read: string[]; write: string[]; flush: string[]; discard: string[] };
}

let cached: Theme | null = null;

/** The colours of the current theme. */
export function theme(): Theme {
  cached ??= read();
  return cached;
}

function read(): Theme {
  const style = getComputedStyle(document.documentElement);
  const v = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const list = (name: string) => v(name).split(/\s+/);
  return {
    text: v("text"),
    muted: v("muted"),
    grid: v("grid"),
    paper: v("card"),
    read: v("read"),
    write: v("write"),
    readFill: v("read-fill"),
    writeFill: v("write-fill"),
    busy: v("busy"),
    busyFill: v("busy-fill"),
    inflight: v("inflight"),
    inflightFill: v("inflight-fill"),
    mark: v("mark"),
    lossy: v("lossy"),
    ok: v("ok"),
    critical: v("critical"),
    flush: v("flush"),
    discard: v("discard"),
    series: list("series"),
    heat: { read: list("heat-read"), write: list("heat-write"), flush: list("heat-flush"), discard: list("heat-discard") },
  };
}

type Choice = "light" | "dark";

const listeners: (() => void)[] = [];

/** Registers a function that is called after the colours changed. */
export function onTheme(f: () => void): void {
  listeners.push(f);
}

function announce(): void {
  cached = null;
  for (const f of listeners) f();
}

const system = () => matchMedia("(prefers-color-scheme: dark)");

let choice: Choice | null = null;

/** Light or dark as chosen by the user, else the system's preference. */
export function current(): Choice {
  return choice ?? (system().matches ? "dark" : "light");
}

export function choose(next: Choice): void {
  choice = next;
  wear(next);
}

function wear(look: Choice): void {
  document.documentElement.dataset["theme"] = look;
  announce();
}

/** Follows the system unless the user chose a theme. Always prints in light colours. */
export function watch(): void {
  system().addEventListener("change", () => wear(current()));
  addEventListener("beforeprint", () => wear("light"));
  addEventListener("afterprint", () => wear(current()));
  document.documentElement.dataset["theme"] = current();
}

/** A colour ramp as `size` RGBA words for image data, interpolated between hex stops. */
export function ramp(stops: string[], size: number): Uint8ClampedArray {
  const out = new Uint8ClampedArray(size * 4);
  const rgb = stops.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  for (let i = 0; i < size; i++) {
    const x = (i / (size - 1)) * (rgb.length - 1);
    const a = Math.min(Math.floor(x), rgb.length - 2);
    const lo = rgb[Math.max(a, 0)] ?? [0, 0, 0];
    const hi = rgb[a + 1] ?? lo;
    for (let c = 0; c < 3; c++) out[i * 4 + c] = (lo[c] ?? 0) + ((hi[c] ?? 0) - (lo[c] ?? 0)) * (x - a);
    out[i * 4 + 3] = 255;
  }
  return out;
}
