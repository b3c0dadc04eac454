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
 * Scale of an axis.
 */
export type Scale = "linear" | "log" | "bytes" | "log-bytes";

/**
 * What a page of an experiment is made of: the JSON document embedded in it.
 */
export interface LabPage {
  /**
   * Files attached to the page, for download.
   */
  attachments: FileBlock[];
  /**
   * Version of the document's layout.
   */
  format: number;
  /**
   * Method of measurement.
   */
  method: string[];
  /**
   * Sections of the page, in reading order.
   */
  sections: SectionBlock[];
  /**
   * Machine, source and extent of the measurement: pairs of label and value.
   */
  setup: [string, string][];
  /**
   * Heading of the page or section.
   */
  title: string;
  /**
   * Program and version that wrote the recording.
   */
  writer: string;
}
/**
 * A file that the page holds.
 */
export interface FileBlock {
  /**
   * Content of the file in base64 (RFC 4648, with padding).
   */
  base64: string;
  /**
   * Bytes moved by these I/Os or by this request. In a burst: bytes submitted during it. Of an attached file: its size. `null` if the source does not report bytes.
   */
  bytes: number;
  /**
   * Media type of the file.
   */
  media: string;
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
}
/**
 * A section with its tables and charts.
 */
export interface SectionBlock {
  /**
   * Charts of the section.
   */
  figures: Figure[];
  /**
   * (text, relative address) of documents beside this one.
   */
  links: [string, string][];
  /**
   * Text before the charts and tables.
   */
  paragraphs: string[];
  /**
   * Tables, in order of display.
   */
  tables: TableBlock[];
  /**
   * Heading of the page or section.
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
   * Quantity on the x axis.
   */
  x: string;
  /**
   * Scale of the x axis.
   */
  x_scale: Scale;
  /**
   * Quantity on the y axis.
   */
  y: string;
  /**
   * Scale of the y axis.
   */
  y_scale: Scale;
}
/**
 * A curve with a mark at every point.
 */
export interface Curve {
  /**
   * Whether it is a model, not a measurement. Models are drawn dashed and without marks.
   */
  is_model: boolean;
  /**
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * Points as (x, y) pairs of finite numbers.
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
   * Horizontal lines with labels, such as limits and budgets.
   */
  lines: [string, number][];
  /**
   * Quantity on the y axis.
   */
  y: string;
  /**
   * Scale of the y axis.
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
   * Name given by the kernel, the program or the user. Untrusted: escape it when displaying.
   */
  name: string;
  /**
   * Values of the box.
   */
  stats: BoxNumbers;
}
/**
 * Values of a box: quartiles, whiskers at 1.5 interquartile ranges, mean, and a sample of the values beyond the whiskers.
 */
export interface BoxNumbers {
  /**
   * Maximum. Of concurrency: the highest level with a nonzero duration.
   */
  max: number;
  /**
   * Arithmetic mean. Of concurrency: weighted by time.
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
   * Columns of a table by name, or its column headings.
   */
  columns: string[];
  /**
   * Whether the table is folded initially because it holds details.
   */
  folded: boolean;
  /**
   * Whether each column holds text, which is aligned left.
   */
  words: boolean[];
}
