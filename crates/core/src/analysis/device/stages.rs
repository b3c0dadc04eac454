//! Time of requests in each stage of the block layer, and seek distances (A24).
//!
//! Names are those of `btt`: S2D is start to issue (the kernel's queues, S2C - D2C), D2C issue to completion, S2C
//! their sum. Imported traces also have the stages of bios (Q2G, G2I, Q2M, I2D, M2D), counted per bio as `btt` does.
//! The seek distance is `|first sector - end of the previous request|`, in order of issue.

use serde::Serialize;

use crate::analysis::capacity::mix::{Alone, Cost};
use crate::analysis::stream::latencies::Latencies;
use crate::analysis::stream::order::{End, Span, Sweep};
use crate::analysis::stream::window::Window;
use crate::model::{BioStages, Class, Histogram, Io};

/// One stage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stage {
    /// Requests: n of everything.
    pub n: u64,
    /// Mean.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Longest.
    pub max_us: Option<f64>,
    /// Share of this stage in the total time from start to completion (of bios: in Q2C), in percent.
    pub share_percent: Option<f64>,
}

impl Stage {
    /// Summary of `l`; `whole_ns` is the sum of latencies that the share refers to.
    fn of(l: &mut Latencies, whole_ns: f64) -> Stage {
        Stage {
            n: l.n(),
            mean_us: l.mean_us(),
            p50_us: l.quantile_us(0.5),
            p99_us: l.quantile_us(0.99),
            max_us: l.max_us(),
            share_percent: (whole_ns > 0.0 && l.n() > 0)
                .then(|| 100.0 * l.sum_ns() as f64 / whole_ns),
        }
    }
}

/// Stages, seek distances and queue depth at issue of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StagesSummary {
    /// Time from start (S) to issue to the driver (D).
    pub s2d: Stage,
    /// Issue to completion.
    pub d2c: Stage,
    /// Time from start (S) to completion (C).
    pub s2c: Stage,
    /// Mean number of requests already issued and not completed when a request is issued (queue depth at D, itself
    /// not counted).
    pub depth_at_issue: Option<f64>,
    /// Number of seek distances: requests with known sectors that follow another such request.
    pub seeks: u64,
    /// Median seek distance in sectors of 512 bytes.
    pub seek_p50_sectors: Option<i64>,
    /// 90th percentile of the seek distance in sectors of 512 bytes.
    pub seek_p90_sectors: Option<i64>,
    /// Percent of requests that begin where the previous one, of any class, ended.
    pub sequential_any_class_percent: Option<f64>,
    /// Percent of issues that change from reading to writing or back.
    pub turn_percent: Option<f64>,
    /// Stages of individual bios; `null` if the source saw requests only, as the tracer does.
    pub bios: Option<BioSummary>,
    /// Costs of reads and of writes that had the device to themselves (A18).
    pub costs: [Option<Cost>; 2],
}

/// Stages of bios, with the names of `btt`. A request counts once for each of its bios, as in `btt`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BioSummary {
    /// Time from queueing (Q) to request allocation (G).
    pub q2g: Stage,
    /// Time from request allocation (G) to insertion into the I/O scheduler (I). Absent without a scheduler.
    pub g2i: Stage,
    /// Time from queueing (Q) to merging into an existing request (M).
    pub q2m: Stage,
    /// Time from insertion into the I/O scheduler (I) to issue to the driver (D).
    pub i2d: Stage,
    /// Time from merging into a request (M) to issue to the driver (D).
    pub m2d: Stage,
    /// Issued to completed.
    pub d2c: Stage,
    /// Time from queueing (Q) to completion (C). The shares of the other stages refer to it.
    pub q2c: Stage,
}

/// Accumulates [`BioSummary`] of one device.
#[derive(Debug, Clone)]
pub struct Bios([Latencies; 7]);

impl Default for Bios {
    fn default() -> Bios {
        Bios(std::array::from_fn(|_| Latencies::new()))
    }
}

impl Bios {
    /// Adds the stages of one bio.
    pub fn push(&mut self, b: &BioStages) {
        let ways = [
            b.q2g_ns,
            b.g2i_ns,
            b.q2m_ns,
            b.i2d_ns,
            b.m2d_ns,
            Some(b.d2c_ns),
            b.q2c_ns,
        ];
        for (stage, ns) in self.0.iter_mut().zip(ways) {
            if let Some(ns) = ns {
                stage.add(ns);
            }
        }
    }

    /// The summary.
    pub fn finish(mut self) -> BioSummary {
        let whole = self.0[6].sum_ns() as f64;
        let [q2g, g2i, q2m, i2d, m2d, d2c, q2c] =
            std::array::from_fn(|i| Stage::of(&mut self.0[i], whole));
        BioSummary {
            q2g,
            g2i,
            q2m,
            i2d,
            m2d,
            d2c,
            q2c,
        }
    }
}

/// Accumulates the stages of one device; swept in the order of issue.
#[derive(Debug, Clone)]
pub struct Stages {
    window: Window,
    s2d: Latencies,
    d2c: Latencies,
    level: i64,
    issues: u64,
    depths: u64,
    end: Option<i64>,
    class: Option<Class>,
    turns: u64,
    sequential: u64,
    distances: Histogram,
    alone: Alone,
}

impl Stages {
    /// For I/Os that complete inside `window`.
    pub fn new(window: Window) -> Stages {
        Stages {
            window,
            s2d: Latencies::new(),
            d2c: Latencies::new(),
            level: 0,
            issues: 0,
            depths: 0,
            end: None,
            class: None,
            turns: 0,
            sequential: 0,
            distances: Histogram::new(),
            alone: Alone::default(),
        }
    }

    /// An I/O completes.
    pub fn complete(&mut self, io: &Io) {
        if let Some(queue_ns) = io.queue_ns {
            self.s2d.add(queue_ns);
        }
        self.d2c.add(io.device_ns);
    }

    /// The summary. `s2c` holds the latencies of the same I/Os, start to completion.
    pub fn finish(mut self, mut s2c: Latencies) -> StagesSummary {
        let whole = s2c.sum_ns() as f64;
        let seeks = self.distances.n();
        StagesSummary {
            s2d: Stage::of(&mut self.s2d, whole),
            d2c: Stage::of(&mut self.d2c, whole),
            s2c: Stage::of(&mut s2c, whole),
            depth_at_issue: (self.issues > 0).then(|| self.depths as f64 / self.issues as f64),
            seeks,
            seek_p50_sectors: self.distances.quantile(0.5),
            seek_p90_sectors: self.distances.quantile(0.9),
            sequential_any_class_percent: percent(self.sequential, seeks),
            turn_percent: percent(self.turns, self.issues.saturating_sub(1)),
            bios: None,
            costs: self.alone.finish(),
        }
    }

    fn issue(&mut self, span: &Span) {
        if !self.window.contains(span.done_ns) {
            return;
        }
        self.issues += 1;
        self.depths += self.level.max(0) as u64;
        if matches!(span.class, Class::Read | Class::Write) {
            self.turns += u64::from(self.class.is_some_and(|c| c != span.class));
            self.class = Some(span.class);
        }
        if span.sector >= 0 {
            if let Some(end) = self.end {
                self.distances.add((span.sector - end).abs());
                self.sequential += u64::from(span.sector == end);
            }
            self.end = Some(span.sector + i64::from(span.sectors));
        }
    }
}

/// `part` in percent of `of`; `None` if `of` is 0.
fn percent(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * part as f64 / of as f64)
}

impl Sweep for Stages {
    fn start(&mut self, span: &Span) {
        self.issue(span);
        self.alone.issue(span, self.level, self.window);
        self.level += 1;
    }

    fn done(&mut self, _: &End) {
        self.level -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::stream::order::{Hold, StartOrder};
    use crate::model::{DevId, Op};

    #[test]
    fn stages_seeks_and_turns_of_a_small_case() {
        // issue, done, sector: 0-10 at 0, 5-20 at 8 (sequential), 30-40 at 1000, written.
        let ios = [
            (0, 10, 0, Op::READ),
            (5, 20, 8, Op::READ),
            (30, 40, 1000, Op::WRITE),
        ];
        let mut s = Stages::new(Window::OPEN);
        let mut order = StartOrder::new(Hold::RECORDING);
        let mut s2c = Latencies::new();
        for (issue, done, sector, op) in ios {
            let io = Io {
                sector: Some(sector),
                ..Io::new(done, DevId(1), op, 4096, Some(5), done - issue)
            };
            s.complete(&io);
            s2c.add(io.total_ns());
            order.push(
                Span {
                    start_ns: issue,
                    ..Span::of(&io, 0)
                },
                &mut s,
            );
        }
        order.finish(&mut s);
        let a = s.finish(s2c);
        assert_eq!(
            (a.s2d.n, a.s2d.mean_us, a.d2c.max_us),
            (3, Some(0.005), Some(0.015))
        );
        assert_eq!(a.s2d.share_percent.map(f64::round), Some(30.0));
        assert_eq!(
            (a.seeks, a.sequential_any_class_percent, a.turn_percent),
            (2, Some(50.0), Some(50.0))
        );
        assert_eq!(
            (a.seek_p50_sectors, a.seek_p90_sectors),
            (Some(0), Some(984))
        );
        assert_eq!(a.depth_at_issue, Some(1.0 / 3.0));
    }
}
