// The axes of the charts of experiments (`iolens lab`): linear, logarithmic, or of bytes.

import { even, logTicks, ticks } from "../charts/svg";
import { binaryBytes, short } from "../format";
import type { Scale } from "../generated/lab";

/** An axis of a chart of experiments: maps values to positions, and has labels. */
export class Axis {
  private constructor(readonly low: number, readonly high: number, readonly scale: Scale) {}

  /** The axis for the range of `values`, without those that the scale cannot show. */
  static of(values: number[], scale: Scale): Axis {
    const seen = values.filter((v) => usable(v, scale)).map((v) => position(v, scale));
    if (seen.length === 0) return new Axis(0, 1, scale);
    let low = Infinity;
    let high = -Infinity;
    for (const v of seen) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    if (isLog(scale)) {
      const margin = 0.06 * Math.max(high - low, 0.5);
      [low, high] = [low - margin, high + margin];
    } else {
      low = Math.min(low, 0);
      high += 0.05 * (high - low);
    }
    return new Axis(low, high > low ? high : low + 1, scale);
  }

  /** Position of a value along the axis, 0 to 1. */
  share(v: number): number {
    return (position(v, this.scale) - this.low) / (this.high - this.low);
  }

  ticks(): number[] {
    switch (this.scale) {
      case "linear":
        return even(this.low, this.high, ticks(this.high - this.low, 5)[1] ?? 1);
      case "bytes":
        return even(this.low, this.high, 2 ** Math.ceil(Math.log2((this.high - this.low) / 5)));
      case "log-bytes": {
        const step = Math.max(1, Math.ceil((this.high - this.low) / 8));
        return even(Math.ceil(this.low), this.high, step, Math.ceil(this.low)).map((e) => 2 ** e);
      }
      case "log":
        return logTicks(10 ** this.low, 10 ** this.high);
    }
  }

  label(v: number): string {
    return this.scale === "bytes" || this.scale === "log-bytes" ? binaryBytes(v) : short(v);
  }
}

/** Whether the scale can show the value; JSON has `null` for NaN and infinity. */
export function usable(v: number | null, scale: Scale): v is number {
  return v !== null && Number.isFinite(v) && (v > 0 || !isLog(scale));
}

function isLog(scale: Scale): boolean {
  return scale === "log" || scale === "log-bytes";
}

function position(v: number, scale: Scale): number {
  return scale === "log" ? Math.log10(v) : scale === "log-bytes" ? Math.log2(v) : v;
}
