//! What kernel counters alone say of a device: counts, bytes, mean latencies, no percentiles (A1 summed up).

use super::device_summary::{ClassSummary, Concurrency, DeviceSummary};
use super::latencies::LOW_N;
use super::timeline::{CounterRates, Flow};
use crate::model::{Class, DevId};

/// Differences of one device's counters, added up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    flows: [Option<Flow>; 4],
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
        for (sum, ns) in [(&mut self.busy, rates.busy_ns), (&mut self.area, rates.area_ns)] {
            if let Some(ns) = ns {
                *sum = (sum.0 + ns, sum.1 + span_ns);
            }
        }
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

fn class_summary(flow: Option<Flow>) -> ClassSummary {
    ClassSummary {
        ios: flow.map(|f| f.ios),
        bytes: flow.map(|f| f.bytes),
        mean_us: flow.and_then(|f| f.mean_us()),
        low_n: flow.is_none_or(|f| f.ios < LOW_N),
        ..ClassSummary::default()
    }
}
