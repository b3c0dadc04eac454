//! Everything that a report says, in one pass.

use std::collections::BTreeMap;

use super::devices::{Devices, DevicesSummary};
use super::findings::{self, Finding};
use super::timeline::CounterRates;
use super::trouble::Trouble;
use super::window::Window;
use crate::model::{DevId, Io, Lost};

/// All answers about one window of one recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// By device and class.
    pub devices: DevicesSummary,
    /// The kernel's own estimate of busy time (`io_ticks`), in percent of the time that counter samples cover.
    pub util_io_ticks_percent: BTreeMap<DevId, f64>,
    /// What a person should hear first, most severe first.
    pub findings: Vec<Finding>,
}

/// Accumulates a [`Report`].
#[derive(Debug)]
pub struct ReportBuilder {
    devices: Devices,
    trouble: Trouble,
    ticks: BTreeMap<DevId, (i64, i64)>,
    window: Window,
}

impl ReportBuilder {
    /// For `window`, which may be open.
    pub fn new(window: Window) -> ReportBuilder {
        ReportBuilder { devices: Devices::new(window), trouble: Trouble::new(window), ticks: BTreeMap::new(), window }
    }

    /// Takes the next completed I/O, in the order of completion.
    pub fn push(&mut self, io: &Io) {
        self.devices.push(io);
        self.trouble.push(io);
    }

    /// Takes what is missing.
    pub fn lost(&mut self, lost: &Lost) {
        self.devices.lost(lost);
        self.trouble.lost(lost);
    }

    /// Takes the next difference of kernel counters: only for the comparison with `io_ticks`.
    pub fn counters(&mut self, rates: &CounterRates) {
        if let Some(busy_ns) =
            rates.busy_ns.filter(|_| self.window.contains(rates.from_ns) && rates.to_ns <= self.window.to_ns)
        {
            let sum = self.ticks.entry(rates.dev).or_default();
            sum.0 += busy_ns;
            sum.1 += rates.to_ns - rates.from_ns;
        }
    }

    /// The answers. `end_ns` is the recording's end, which closes an open window.
    pub fn finish(self, end_ns: i64) -> Report {
        let devices = self.devices.finish(end_ns);
        let mut found = self.trouble.finish(devices.ios);
        findings::sort(&mut found);
        let util_io_ticks_percent = self
            .ticks
            .into_iter()
            .filter(|(_, (_, covered_ns))| *covered_ns > 0)
            .map(|(dev, (busy_ns, covered_ns))| (dev, 100.0 * busy_ns as f64 / covered_ns as f64))
            .collect();
        Report { devices, util_io_ticks_percent, findings: found }
    }
}
