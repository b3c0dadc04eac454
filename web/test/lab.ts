import type { LabPage } from "../src/generated/lab";

const HOSTILE = `</script><img src=x onerror="document.title='owned'">`;

/** An experiment with both kinds of chart, points without a logarithm, and hostile names. */
export function experiment(): LabPage {
  const stats = { q1: 1, median: 2, q3: 3, whisker_low: 0.5, whisker_high: 4, mean: 2.2, max: 100, outliers: [100] };
  return {
    format: 1,
    writer: "iolens test",
    title: `A sweep ${HOSTILE}`,
    setup: [["Host", HOSTILE]],
    method: ["Each run was recorded."],
    sections: [
      {
        title: "Throughput",
        paragraphs: ["First."],
        figures: [
          {
            chart: {
            x: "Block size",
            y: "MB/s",
            x_scale: "log-bytes",
            y_scale: "log",
            curves: [
              { name: HOSTILE, is_model: false, points: [[4096, 10], [65536, 80], [1048576, 200], [0, 5]] },
              { name: "model", is_model: true, points: [[4096, 11], [1048576, 190]] },
            ],
            },
          },
          { box_chart: { y: "pp", y_scale: "linear", group_names: ["6.1"], boxes: [{ name: "100 ms\nsda", group_index: 0, stats }], lines: [["budget", 1.4]] } },
        ],
        tables: [
          { caption: null, folded: false, columns: ["name", "value"], words: [true, false], cells: [[HOSTILE, "1.5"]] },
          { caption: "Closer", folded: true, columns: ["n"], words: [false], cells: [["12"]] },
        ],
        links: [["a cell", "cells/0/report.html"]],
      },
    ],
    attachments: [{ name: "results.csv", media: "text/csv", bytes: 4, base64: "MSwyCg==" }],
  };
}
