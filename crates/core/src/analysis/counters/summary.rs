//! Summary of a device from kernel counters alone (A1): counts, bytes and mean latencies, no percentiles.

use std::collections::BTreeMap;

use crate::analysis::bursts::cells::CLASSES;
use crate::analysis::device::summary::{ClassSummary, DeviceSummary};
use crate::analysis::findings::Finding;
use crate::analysis::findings::conclusions::period_finding;
use crate::analysis::periodicity;
use crate::analysis::stream::latencies::LOW_N;
use crate::analysis::stream::requests::Request;
use crate::analysis::stream::window::Window;
use crate::analysis::timeline::{CounterRates, Flow};
use crate::model::{Class, DevId};

/// Maximum number of submissions kept of a class, for the search for periods: a day of one-second intervals with up
/// to eight submissions each.
const MAX_INTERVALS: usize = 8 * 86_400;

/// Periodic load (A15) in counters or tables of devices. `gaps` returns when nothing was counted for a device.
pub(in crate::analysis) fn findings(
    counted: &BTreeMap<DevId, Counted>,
    window: Window,
    gaps: impl Fn(DevId) -> Vec<(i64, i64)>,
) -> Vec<Finding> {
    let periods = counted
        .iter()
        .map(|(dev, c)| c.periods(*dev, window, &gaps(*dev)));
    periods.flatten().collect()
}

/// Differences of one device's counters, added up.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Counted {
    flows: [Option<Flow>; 4],
    /// Reads and writes as submissions spread over each interval, until there are [`MAX_INTERVALS`].
    submitted: [Vec<Request>; 2],
    /// Length of the shortest interval in nanoseconds; 0 without any.
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
        for (sum, ns) in [
            (&mut self.busy, rates.busy_ns),
            (&mut self.area, rates.area_ns),
        ] {
            if let Some(ns) = ns {
                *sum = (sum.0 + ns, sum.1 + span_ns);
            }
        }
    }

    /// Periodic load (A15) among the counted reads and writes; nothing was counted in `gaps`.
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

    /// (the kernel's busy time, time that samples cover) in nanoseconds; `None` without samples.
    pub fn ticks(&self) -> Option<(i64, i64)> {
        Some(self.busy).filter(|b| b.1 > 0)
    }

    /// Summary as far as counters give one; `None` if nothing completed.
    pub fn summary(&self, dev: DevId) -> Option<DeviceSummary> {
        let any = self.flows.iter().flatten().any(|f| f.ios > 0);
        any.then(|| {
            let classes = Class::ALL.map(|c| class_summary(self.flows[c as usize]));
            let in_flight = (self.area.1 > 0).then(|| self.area.0 as f64 / self.area.1 as f64);
            DeviceSummary::of_counters(dev, classes, in_flight)
        })
    }
}

fn class_summary(flow: Option<Flow>) -> ClassSummary {
    ClassSummary {
        ios: flow.map(|f| f.ios),
        bytes: flow.map(|f| f.bytes),
        // Below the resolution of the kernel's sums the mean is unknown; 0 would be no latency.
        mean_us: flow.filter(|f| f.total_ns > 0).and_then(|f| f.mean_us()),
        low_n: flow.is_none_or(|f| f.ios < LOW_N),
        ..ClassSummary::default()
    }
}
