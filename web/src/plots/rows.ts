// The rows of an imported log by device. Columns are unpacked when a chart needs them.

import { unpackColumn } from "../codec";
import type { ColumnsBlock, TablesBlock } from "../generated/page";

/** The rows of one device (or of the processors), whose columns are unpacked on first use. */
export class Rows {
  readonly n: number;
  /** Start and end of each row in seconds since the recording's start. */
  readonly from: Float64Array;
  readonly to: Float64Array;
  readonly #block: ColumnsBlock;
  readonly #columns = new Map<string, Float64Array | null>();

  constructor(block: ColumnsBlock) {
    this.#block = block;
    this.n = block.row_count;
    this.from = unpackColumn(block.starts, block.row_count).map((ms) => ms / 1000);
    this.to = unpackColumn(block.ends, block.row_count).map((ms) => ms / 1000);
  }

  /** A column in the log's own unit, absent values as NaN; `null` if the log lacks it. */
  column(name: string): Float64Array | null {
    return this.#unpacked(this.#block.cols, name, name);
  }

  /** The maximum of the rows behind each row; `null` if rows are not aggregated. */
  peaks(name: string): Float64Array | null {
    return this.#unpacked(this.#block.peaks ?? {}, name, `peak ${name}`);
  }

  #unpacked(from: { [name: string]: string | undefined }, name: string, key: string): Float64Array | null {
    let column = this.#columns.get(key);
    if (column === undefined) {
      const packed = from[name];
      column = packed === undefined ? null : unpackColumn(packed, this.n).map((v) => v / 100);
      this.#columns.set(key, column);
    }
    return column;
  }

  /** A column calculated from several; absent where one of them is. */
  combined(names: string[], of: (...values: number[]) => number): Float64Array | null {
    const columns = names.map((name) => this.column(name));
    if (columns.some((c) => c === null)) return null;
    return new Float64Array(this.n).map((_, i) => of(...columns.map((c) => c?.[i] ?? NaN)));
  }

  /** First and last + 1 row that overlap the time from `from` to `to`. */
  within(from: number, to: number): [number, number] {
    let a = 0;
    while (a < this.n && (this.to[a] ?? 0) <= from) a++;
    let b = a;
    while (b < this.n && (this.from[b] ?? 0) < to) b++;
    return [a, b];
  }
}

/** All tables of a page, each unpacked on first use. */
export class Tables {
  readonly #opened = new Map<string, Rows>();
  readonly cpu: Rows | null;

  constructor(readonly block: TablesBlock) {
    this.cpu = block.cpu ? new Rows(block.cpu) : null;
  }

  /** The rows of a device; `null` if the log has none. */
  of(device: string): Rows | null {
    let rows = this.#opened.get(device);
    const block = this.block.devices.find((d) => d.device === device);
    if (!rows && block) {
      rows = new Rows(block.table);
      this.#opened.set(device, rows);
    }
    return rows ?? null;
  }
}
