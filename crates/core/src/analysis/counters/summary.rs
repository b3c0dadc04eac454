//! What kernel counters alone say of a device: counts, bytes, mean latencies, no percentiles (A1 summed up).

use std::collections::BTreeMap;

use crate::analysis::bursts::cells::{CLASSES, other};
use crate::analysis::device::summary::{ClassSummary, Concurrency, DeviceSummary};
use crate::analysis::findings::conclusions::period_finding;
use crate::analysis::findings::evidence::{Evidence, MeansSource, StarvationOfMeansEvidence};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::periodicity;
use crate::analysis::starvation::demand::demand;
use crate::analysis::starvation::{self, Family, Starvation, Verdict};
use crate::analysis::stream::latencies::LOW_N;
use crate::analysis::stream::requests::Request;
use crate::analysis::stream::window::Window;
use crate::analysis::timeline::{CounterRates, Flow};
use crate::model::{Class, DevId};

/// Intervals with I/O that are kept of a class, for its clocks: a day at one a second, with up to eight submissions each.
const MAX_INTERVALS: usize = 8 * 86_400;

/// I/Os of a class that stand for all of them where one class is judged by the other.
const MAX_SPREAD: usize = 1 << 20;

/// Clocks (A15), and suggestive starvation (A14) among all the devices together, in what their counters or tables say; nothing
/// was counted in the gaps of a device.
pub(in crate::analysis) fn findings(
    counted: &BTreeMap<DevId, Counted>,
    means: MeansSource,
    window: Window,
    gaps: impl Fn(DevId) -> Vec<(i64, i64)>,
) -> Vec<Finding> {
    let family = 2 * counted.len();
    let of = |(dev, c): (&DevId, &Counted)| {
        let gaps = gaps(*dev);
        let mut found = c.periods(*dev, window, &gaps);
        found.extend(
            c.starvation(window, &gaps, family)
                .and_then(|(class, s)| suggestion(*dev, class, &s, means)),
        );
        found
    };
    counted.iter().flat_map(of).collect()
}

/// Differences of one device's counters, added up.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Counted {
    flows: [Option<Flow>; 4],
    /// What reads and writes did in each interval, as submissions at its beginning, for the first [`MAX_INTERVALS`] with any.
    submitted: [Vec<Request>; 2],
    /// Beginning, length and flow of those intervals.
    intervals: [Vec<(i64, i64, Flow)>; 2],
    /// Length of the shortest interval; 0 without any.
    shortest_ns: i64,
    busy: (i64, i64),
    area: (i64, i64),
}

impl Counted {
    pub fn add(&mut self, rates: &CounterRates) {
        for (sum, flow) in self.flows.iter_mut().zip(&rates.flows) {
            if let Some(flow) = flow {
                sum.get_or_insert_default().add(flow);
            }
        }
        let span_ns = rates.to_ns - rates.from_ns;
        self.shortest_ns = if self.shortest_ns > 0 {
            self.shortest_ns.min(span_ns)
        } else {
            span_ns
        };
        for (submitted, flow) in self.submitted.iter_mut().zip(&rates.flows) {
            if let Some(flow) = flow.filter(|f| f.ios > 0 && submitted.len() < MAX_INTERVALS) {
                submitted.extend(Request::spread(
                    rates.from_ns,
                    span_ns,
                    flow.ios,
                    flow.bytes,
                ));
            }
        }
        for (intervals, flow) in self.intervals.iter_mut().zip(&rates.flows) {
            if let Some(flow) =
                flow.filter(|f| f.ios > 0 && f.total_ns > 0 && intervals.len() < MAX_INTERVALS)
            {
                intervals.push((rates.from_ns, span_ns, flow));
            }
        }
        for (sum, ns) in [
            (&mut self.busy, rates.busy_ns),
            (&mut self.area, rates.area_ns),
        ] {
            if let Some(ns) = ns {
                *sum = (sum.0 + ns, sum.1 + span_ns);
            }
        }
    }

    /// Clocks (A15) in what the counters say of reads and writes; nothing was counted in `gaps`.
    fn periods(&self, dev: DevId, window: Window, gaps: &[(i64, i64)]) -> Vec<Finding> {
        let mut found = Vec::new();
        for (class, submitted) in CLASSES.into_iter().zip(&self.submitted) {
            let p = periodicity::find(
                submitted,
                (window.from_ns, window.to_ns),
                self.shortest_ns,
                gaps,
            );
            let bytes = self.flows[class as usize].map_or(0, |f| f.bytes);
            found.extend(
                p.clocks
                    .iter()
                    .filter_map(|c| period_finding((dev, class), (&p, c), bytes, None, window)),
            );
        }
        found
    }

    /// Reads that are slower in the intervals in which writes ask for much, or the reverse (A14). Means of intervals hide who came
    /// first: suggestive at most, and the surer direction only. `family` streams are judged in all.
    fn starvation(
        &self,
        window: Window,
        gaps: &[(i64, i64)],
        family: usize,
    ) -> Option<(Class, Starvation)> {
        let family = Family {
            streams: family,
            spares_shifts: true,
        };
        let both = CLASSES.map(|class| self.spread(class));
        let of = |class: Class| {
            let (window, others) = ((window.from_ns, window.to_ns), &both[other(class) as usize]);
            let demand = demand(others, window)?;
            let aggressors = (other(class), &others[..], &demand);
            let s = starvation::test(&both[class as usize], aggressors, gaps, window, family)?;
            (s.verdict == Verdict::Starvation).then_some((class, s))
        };
        let mut found: Vec<(Class, Starvation)> = CLASSES.into_iter().filter_map(of).collect();
        found.sort_by(|a, b| b.1.t.total_cmp(&a.1.t));
        found.into_iter().next()
    }

    /// The I/Os of each interval, spread over it, at the mean latency; at most 64 of one.
    fn spread(&self, class: Class) -> Vec<Request> {
        let intervals = &self.intervals[class as usize];
        let most = (MAX_SPREAD / intervals.len().max(1)).clamp(1, 64) as u64;
        let of = |(from_ns, span_ns, flow): &(i64, i64, Flow)| {
            let (from_ns, span_ns, n) = (*from_ns, *span_ns, flow.ios.min(most) as i64);
            let mean_ns = flow.total_ns / flow.ios.max(1) as i64;
            let bytes = u32::try_from(flow.bytes / n.max(1) as u64).unwrap_or(u32::MAX);
            (0..n)
                .map(move |k| from_ns + k * span_ns / n)
                .map(move |at| Request {
                    start_ns: at,
                    issue_ns: at,
                    done_ns: at + mean_ns,
                    bytes,
                    tgid: 0,
                })
        };
        intervals.iter().flat_map(of).collect()
    }

    /// (the kernel's busy time, time that samples cover) in nanoseconds; `None` without samples.
    pub fn ticks(&self) -> Option<(i64, i64)> {
        Some(self.busy).filter(|b| b.1 > 0)
    }

    /// As far as counters can tell; `None` if nothing completed.
    pub fn summary(&self, dev: DevId) -> Option<DeviceSummary> {
        let any = self.flows.iter().flatten().any(|f| f.ios > 0);
        any.then(|| DeviceSummary {
            dev,
            classes: Class::ALL.map(|c| class_summary(self.flows[c as usize])),
            busy_percent: None,
            busy_read_percent: None,
            busy_write_percent: None,
            busy_both_percent: None,
            busy_device_percent: None,
            concurrency: Concurrency {
                mean: (self.area.1 > 0).then(|| self.area.0 as f64 / self.area.1 as f64),
                ..Concurrency::default()
            },
            lost_ios: Some(0),
        })
    }
}

fn suggestion(dev: DevId, class: Class, s: &Starvation, means: MeansSource) -> Option<Finding> {
    let (first, last) = s.episodes.first().zip(s.episodes.last())?;
    let (ratio_typical, ratio_typical_ci) = s.ratio.zip(s.ratio_ci)?;
    Some(Finding {
        dev: Some(dev),
        from_ns: first.0,
        to_ns: last.1,
        severity: Severity::Info,
        evidence: Evidence::StarvationOfMeans(StarvationOfMeansEvidence {
            victim: class,
            aggressor: s.aggressor,
            verdict: Verdict::Suggestive,
            source: means,
            ratio_typical,
            ratio_typical_ci,
            excess_us: s.excess_us,
            excess_us_ci: s.excess_us_ci,
            own_load_ratio: s.own_load_ratio,
            p_value: s.p_value,
            p_value_episodes: s.p_episodes,
            bursts: s.bursts,
        }),
    })
}

fn class_summary(flow: Option<Flow>) -> ClassSummary {
    ClassSummary {
        ios: flow.map(|f| f.ios),
        bytes: flow.map(|f| f.bytes),
        // Below the resolution of the kernel's sums nothing is known, and 0 is no latency.
        mean_us: flow.filter(|f| f.total_ns > 0).and_then(|f| f.mean_us()),
        low_n: flow.is_none_or(|f| f.ios < LOW_N),
        ..ClassSummary::default()
    }
}
