/**
 * Packs integers into text: base64 VLQ as in source maps (5 bits per character, low bits first, bit 5 means that more
 * follow), with two additional characters: `.` is an absent value, and `~` followed by an unsigned VLQ `n` repeats
 * the previous item `n` more times.
 *
 * Columns contain zigzag deltas to the last present value (0 at first); lists contain plain unsigned numbers.
 */
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const DOT = 46;
const TILDE = 126;

const DIGIT = new Int8Array(128).fill(-1);
for (let i = 0; i < 64; i++) DIGIT[ALPHABET.charCodeAt(i)] = i;

class Cursor {
  at = 0;
  constructor(readonly text: string) {}

  /** The unsigned number at the cursor. It multiplies instead of shifting, because values exceed 31 bits. */
  number(): number {
    let value = 0;
    let unit = 1;
    for (;;) {
      const digit = DIGIT[this.text.charCodeAt(this.at++)] ?? -1;
      if (digit < 0) throw new Error(`damaged column at character ${this.at}`);
      value += (digit & 31) * unit;
      if (digit < 32) return value;
      unit *= 32;
    }
  }
}

/** Unpacks a column of `n` values; absent ones are NaN. */
export function unpackColumn(text: string, n: number): Float64Array {
  const out = new Float64Array(n);
  const cursor = new Cursor(text);
  let at = 0;
  let last = 0;
  let item = NaN;
  while (cursor.at < text.length) {
    const c = text.charCodeAt(cursor.at);
    let times = 1;
    if (c === DOT) {
      cursor.at++;
      item = NaN;
    } else if (c === TILDE) {
      cursor.at++;
      times = cursor.number();
    } else {
      const z = cursor.number();
      item = z % 2 === 0 ? z / 2 : -(z + 1) / 2;
    }
    if (at + times > n) throw new Error(`column longer than its ${n} slots`);
    for (; times > 0; times--) out[at++] = Number.isNaN(item) ? NaN : (last += item);
  }
  if (at !== n) throw new Error(`column of ${at} values, expected ${n}`);
  return out;
}

/** Unpacks a list of unsigned numbers. */
export function unpackList(text: string): number[] {
  const out: number[] = [];
  const cursor = new Cursor(text);
  while (cursor.at < text.length) out.push(cursor.number());
  return out;
}

function packNumber(value: number): string {
  let out = "";
  do {
    const digit = value % 32;
    value = Math.floor(value / 32);
    out += ALPHABET[value > 0 ? digit + 32 : digit];
  } while (value > 0);
  return out;
}

/** Packs a column; `null` and NaN become absent. */
export function packColumn(values: ArrayLike<number | null>): string {
  let out = "";
  let last = 0;
  let previous = "";
  let repeats = 0;
  const flush = () => {
    const short = previous.repeat(repeats);
    const run = repeats > 0 ? `~${packNumber(repeats)}` : "";
    out += short.length <= run.length ? short : run;
    repeats = 0;
  };
  for (let i = 0; i < values.length; i++) {
    const v = values[i] ?? NaN;
    let item = ".";
    if (!Number.isNaN(v)) {
      const d = v - last;
      item = packNumber(d >= 0 ? 2 * d : -2 * d - 1);
      last = v;
    }
    if (item === previous) {
      repeats++;
    } else {
      flush();
      out += item;
      previous = item;
    }
  }
  flush();
  return out;
}

/** Packs a list of unsigned numbers. */
export function packList(values: Iterable<number>): string {
  let out = "";
  for (const v of values) out += packNumber(v);
  return out;
}

/** Log codes per octave. */
export const CODES_PER_OCTAVE = 64;

/** Value of a log code: 0 is exactly 0, code `c` is `2^((c - 1) / 64)`. */
export function fromLogCode(code: number): number {
  return code === 0 ? 0 : 2 ** ((code - 1) / CODES_PER_OCTAVE);
}

/** Log code nearest to `value`. */
export function toLogCode(value: number): number {
  return value <= 0 ? 0 : 1 + Math.max(0, Math.round(CODES_PER_OCTAVE * Math.log2(value)));
}
