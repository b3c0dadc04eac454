// Made from docs/schema/ by `make schema`; do not edit.

/**
 * A chart.
 */
export type Figure =
  | {
      chart: Chart;
    }
  | {
      box_chart: BoxChart;
    };
/**
 * How an axis is divided.
 */
export type Scale = "linear" | "log" | "bytes" | "log-bytes";

/**
 * What a page of an experiment is made of: the JSON document embedded in it.
 */
export interface LabPage {
  /**
   * Files that can be taken out of the page.
   */
  attachments: FileBlock[];
  /**
   * Version of this document.
   */
  format: number;
  /**
   * How it was measured.
   */
  method: string[];
  /**
   * Its parts, in the order in which they are read.
   */
  sections: SectionBlock[];
  /**
   * Machine, source, extent: (what, value).
   */
  setup: [string, string][];
  /**
   * Heading.
   */
  title: string;
  /**
   * Program and version that wrote it.
   */
  writer: string;
}
/**
 * A file that the page holds.
 */
export interface FileBlock {
  /**
   * Its content (RFC 4648, with padding).
   */
  base64: string;
  /**
   * Bytes that these I/Os, or this request, moved; of a burst those submitted in it, of a file to take out its size. `null` if the source does not say.
   */
  bytes: number;
  /**
   * Media type.
   */
  media: string;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
}
/**
 * A section with its tables and charts.
 */
export interface SectionBlock {
  /**
   * Charts.
   */
  figures: Figure[];
  /**
   * (text, relative address) of documents beside this one.
   */
  links: [string, string][];
  /**
   * Sentences before the charts and tables.
   */
  paragraphs: string[];
  /**
   * Its tables, in their order.
   */
  tables: TableBlock[];
  /**
   * Heading.
   */
  title: string;
}
/**
 * Curves over a common pair of axes.
 */
export interface Chart {
  /**
   * The curves.
   */
  curves: Curve[];
  /**
   * What the x axis shows.
   */
  x: string;
  /**
   * Its division.
   */
  x_scale: Scale;
  /**
   * What the y axis shows.
   */
  y: string;
  /**
   * Division of the y axis.
   */
  y_scale: Scale;
}
/**
 * A curve with a mark at every point.
 */
export interface Curve {
  /**
   * Drawn dashed and without marks: a model, not a measurement.
   */
  is_model: boolean;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * (x, y), finite.
   */
  points: [number, number][];
}
/**
 * Boxes side by side.
 */
export interface BoxChart {
  /**
   * The boxes.
   */
  boxes: BoxMark[];
  /**
   * Names of the groups.
   */
  group_names: string[];
  /**
   * Horizontal lines with their names: limits, budgets.
   */
  lines: [string, number][];
  /**
   * What the y axis shows.
   */
  y: string;
  /**
   * Division of the y axis.
   */
  y_scale: Scale;
}
/**
 * A box of a box plot.
 */
export interface BoxMark {
  /**
   * Index of its group, which gives the colour.
   */
  group_index: number;
  /**
   * As the kernel, the program or the user names it. Untrusted: escape it where it is shown.
   */
  name: string;
  /**
   * Its numbers.
   */
  stats: BoxNumbers;
}
/**
 * The numbers of a box: quartiles, whiskers at 1.5 interquartile ranges, mean, and what lies beyond the whiskers (thinned).
 */
export interface BoxNumbers {
  /**
   * The largest value; of concurrency the highest level that lasted.
   */
  max: number;
  /**
   * Arithmetic mean; of concurrency over time.
   */
  mean: number;
  /**
   * Median.
   */
  median: number;
  /**
   * Values beyond the whiskers; at most 80, evenly chosen.
   */
  outliers: number[];
  /**
   * First quartile.
   */
  q1: number;
  /**
   * Third quartile.
   */
  q3: number;
  /**
   * Highest value within 1.5 interquartile ranges of the third quartile.
   */
  whisker_high: number;
  /**
   * Lowest value within 1.5 interquartile ranges of the first quartile.
   */
  whisker_low: number;
}
/**
 * A table; numbers are printed already.
 */
export interface TableBlock {
  /**
   * `null` where the section's title says it.
   */
  caption: string | null;
  /**
   * Cells, a row after the other.
   */
  cells: string[][];
  /**
   * The columns of a table: each by its name, or the headings alone.
   */
  columns: string[];
  /**
   * For those who want to look closer.
   */
  folded: boolean;
  /**
   * Whether each column holds words, which are aligned left.
   */
  words: boolean[];
}
