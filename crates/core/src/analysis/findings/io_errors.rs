//! Failed I/Os, very slow I/Os, and lost I/Os.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::analysis::counters::pressure::{CpuShortage, HostPressure};
use crate::analysis::findings::evidence::{
    Evidence, IoErrorEvidence, LostEventsEvidence, SlowIoEvidence,
};
use crate::analysis::findings::{Finding, Severity};
use crate::analysis::stream::device_index::DeviceIndex;
use crate::analysis::stream::window::Window;
use crate::model::{Class, Comm, DevId, Io, LossReason, Lost};

/// Latency from which on a single I/O is worth a finding: people notice the wait.
pub const SLOW_NS: i64 = 1_000_000_000;

/// Latency from which on drivers begin to abort and reset (SCSI and NVMe timeouts are 30 s; hung-task warnings follow).
pub const VERY_SLOW_NS: i64 = 10_000_000_000;

/// Number of a device's slowest I/Os that are compared with the host's pressure.
const MAX_COMPARED: usize = 256;

/// One slow or failed I/O.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Case {
    done_ns: i64,
    total_ns: i64,
    device_ns: i64,
    class: Class,
    bytes: i64,
    sector: Option<i64>,
    error: Option<i32>,
    tgid: Option<i32>,
    comm: Option<Comm>,
}

impl Case {
    fn of(io: &Io) -> Case {
        Case {
            done_ns: io.done_ns,
            total_ns: io.total_ns(),
            device_ns: io.device_ns,
            class: io.class(),
            bytes: io.bytes,
            sector: io.sector,
            error: io.error.filter(|_| io.has_failed()),
            tgid: io.tgid,
            comm: io.comm,
        }
    }

    fn process(&self) -> Option<String> {
        self.comm.map(|c| c.to_text().into_owned())
    }
}

#[derive(Debug, Default)]
struct PerDevice {
    slow: u64,
    slow_span: Option<(i64, i64)>,
    slowest: Option<Case>,
    /// (latency, completion) of the slowest ones; the least slow one is on top.
    compared: BinaryHeap<Reverse<(i64, i64)>>,
    errors: BTreeMap<i32, u64>,
    error_span: Option<(i64, i64)>,
    first_error: Option<Case>,
}

fn widen(span: &mut Option<(i64, i64)>, from_ns: i64, to_ns: i64) {
    *span = Some(span.map_or((from_ns, to_ns), |(a, b)| (a.min(from_ns), b.max(to_ns))));
}

/// Accumulates the findings `slow-io`, `io-error` and `lost-events`.
#[derive(Debug)]
pub struct ErrorCounts {
    window: Window,
    index: DeviceIndex,
    devices: Vec<PerDevice>,
    lost: BTreeMap<LossReason, LossSum>,
}

#[derive(Debug, Clone, Copy, Default)]
struct LossSum {
    intervals: u64,
    ios: u64,
    unknown: bool,
    span: Option<(i64, i64)>,
}

impl ErrorCounts {
    /// For I/Os that complete inside `window`.
    pub fn new(window: Window) -> ErrorCounts {
        ErrorCounts {
            window,
            index: DeviceIndex::default(),
            devices: Vec::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Takes the next completed I/O.
    pub fn push(&mut self, io: &Io) {
        let stands_out = io.total_ns() >= SLOW_NS || io.has_failed();
        if stands_out && self.window.contains(io.done_ns) {
            self.take(io);
        }
    }

    #[cold]
    fn take(&mut self, io: &Io) {
        let total_ns = io.total_ns();
        let i = self.index.number(io.dev) as usize;
        if i == self.devices.len() {
            self.devices.push(PerDevice::default());
        }
        let d = &mut self.devices[i];
        let case = Case::of(io);
        if total_ns >= SLOW_NS {
            d.slow += 1;
            widen(&mut d.slow_span, io.start_ns(), io.done_ns);
            d.compared.push(Reverse((total_ns, io.done_ns)));
            if d.compared.len() > MAX_COMPARED {
                d.compared.pop();
            }
            if d.slowest.is_none_or(|s| s.total_ns < total_ns) {
                d.slowest = Some(case);
            }
        }
        if let Some(error) = case.error {
            *d.errors.entry(error).or_default() += 1;
            widen(&mut d.error_span, io.done_ns, io.done_ns);
            d.first_error = d.first_error.or(Some(case));
        }
    }

    /// Adds a loss.
    pub fn lost(&mut self, lost: &Lost) {
        if !lost.reason.is_loss()
            || lost.to_ns < self.window.from_ns
            || lost.from_ns >= self.window.to_ns
        {
            return;
        }
        let sum = self.lost.entry(lost.reason).or_default();
        sum.intervals += 1;
        sum.ios += lost.ios.unwrap_or(0).max(0) as u64;
        sum.unknown |= lost.ios.is_none();
        widen(&mut sum.span, lost.from_ns, lost.to_ns);
    }

    /// The findings. `ios` is the number of I/Os that are not lost; `host` is the pressure of the host.
    pub fn finish(self, ios: u64, host: &HostPressure) -> Vec<Finding> {
        let mut found: Vec<Finding> = self
            .lost
            .iter()
            .filter_map(|(reason, sum)| loss_finding(*reason, sum, ios))
            .collect();
        for (dev, d) in self.index.devices().iter().zip(&self.devices) {
            found.extend(slow_finding(*dev, d, host));
            found.extend(error_finding(*dev, d));
        }
        found
    }
}

/// The latency of the slowest I/O that no shortage of CPU time explains. If there is no such I/O, the shortage that
/// explains the slowest one.
fn unexplained_ns(d: &PerDevice, host: &HostPressure) -> Result<i64, CpuShortage> {
    let mut of_slowest = None;
    let mut compared: Vec<(i64, i64)> = d.compared.iter().map(|c| c.0).collect();
    compared.sort_unstable_by_key(|c| Reverse(*c));
    for (total_ns, done_ns) in compared {
        let Some(shortage) = host.cpu_shortage(done_ns - total_ns, done_ns) else {
            return Ok(total_ns);
        };
        of_slowest = of_slowest.or(Some(shortage));
    }
    // I/Os beyond the compared ones are slow as well, and may be unexplained.
    match of_slowest {
        Some(shortage) if d.slow <= MAX_COMPARED as u64 => Err(shortage),
        _ => Ok(SLOW_NS),
    }
}

/// The finding. I/Os that a shortage of CPU time explains are no warning about the device.
fn slow_finding(dev: DevId, d: &PerDevice, host: &HostPressure) -> Option<Finding> {
    let (slowest, (from_ns, to_ns)) = d.slowest.zip(d.slow_span)?;
    let unexplained_ns = unexplained_ns(d, host);
    Some(Finding {
        dev: Some(dev),
        from_ns,
        to_ns,
        severity: match unexplained_ns {
            Ok(VERY_SLOW_NS..) => Severity::Critical,
            Ok(_) => Severity::Warning,
            Err(_) => Severity::Info,
        },
        evidence: Evidence::SlowIo(SlowIoEvidence {
            ios_over_1s: d.slow,
            slowest_us: slowest.total_ns as f64 / 1e3,
            slowest_device_us: slowest.device_ns as f64 / 1e3,
            slowest_done_s: slowest.done_ns as f64 / 1e9,
            slowest_class: slowest.class,
            slowest_bytes: slowest.bytes,
            slowest_sector: slowest.sector,
            slowest_process: slowest.process(),
            slowest_pid: slowest.tgid,
            cpu_shortage: unexplained_ns.err(),
        }),
    })
}

fn error_finding(dev: DevId, d: &PerDevice) -> Option<Finding> {
    let (first, (from_ns, to_ns)) = d.first_error.zip(d.error_span)?;
    Some(Finding {
        dev: Some(dev),
        from_ns,
        to_ns,
        severity: Severity::Critical,
        evidence: Evidence::IoError(IoErrorEvidence {
            ios: d.errors.values().sum(),
            by_error: d.errors.clone(),
            first_class: first.class,
            first_sector: first.sector,
            first_done_s: first.done_ns as f64 / 1e9,
            first_process: first.process(),
            first_pid: first.tgid,
        }),
    })
}

fn loss_finding(reason: LossReason, sum: &LossSum, ios: u64) -> Option<Finding> {
    let (from_ns, to_ns) = sum.span?;
    let percent = (!sum.unknown).then(|| 100.0 * sum.ios as f64 / (sum.ios + ios).max(1) as f64);
    Some(Finding {
        dev: None,
        from_ns,
        to_ns,
        severity: if percent.is_none_or(|s| s > 1.0) {
            Severity::Warning
        } else {
            Severity::Info
        },
        evidence: Evidence::LostEvents(LostEventsEvidence {
            reason,
            ios: (!sum.unknown).then_some(sum.ios),
            intervals: sum.intervals,
            lost_percent: percent,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;

    const A: DevId = DevId(8 << 20);

    #[test]
    fn the_slowest_is_named_with_its_process_and_place() {
        let mut t = ErrorCounts::new(Window::OPEN);
        let slow = |done_s: i64, s: i64| Io {
            comm: Some(Comm::new(b"fio")),
            tgid: Some(7),
            ..Io::new(
                done_s * 1_000_000_000,
                A,
                Op::WRITE,
                4096,
                Some(1),
                s * 1_000_000_000,
            )
        };
        [slow(5, 2), slow(20, 12), slow(21, 1)]
            .iter()
            .for_each(|io| t.push(io));
        t.push(&Io::new(30, A, Op::READ, 4096, None, 999_999_999));
        let f = &t.finish(4, &HostPressure::default())[0];
        assert_eq!(
            (f.from_ns / 1_000_000_000, f.to_ns / 1_000_000_000),
            (2, 21)
        );
        let Evidence::SlowIo(e) = &f.evidence else {
            panic!("{f:?}")
        };
        assert_eq!(
            (f.severity, e.ios_over_1s, e.slowest_class),
            (Severity::Critical, 3, Class::Write)
        );
        assert!(
            (e.slowest_us - 12e6).abs() < 1.0 && e.slowest_device_us <= e.slowest_us,
            "{e:?}"
        );
        assert_eq!(
            (e.slowest_process.as_deref(), e.slowest_pid),
            (Some("fio"), Some(7))
        );
    }

    #[test]
    fn slow_ios_while_the_cpus_are_short_are_no_warning_about_the_device() {
        use crate::model::PressureSample;
        const S: i64 = 1_000_000_000;
        let severity_and_shortage = |ios: &[(i64, i64)]| {
            let mut t = ErrorCounts::new(Window::OPEN);
            for (done_s, total_s) in ios {
                t.push(&Io::new(done_s * S, A, Op::WRITE, 4096, None, total_s * S));
            }
            // The hypervisor takes most of the CPUs in the first 20 s only.
            let mut host = HostPressure::default();
            for (from_s, stolen_s) in [(0, 15), (20, 0)] {
                host.push(&PressureSample {
                    from_ns: from_s * S,
                    to_ns: (from_s + 20) * S,
                    cpus: Some(2),
                    steal_ns: Some(stolen_s * S),
                    ..PressureSample::default()
                });
            }
            let found = t.finish(4, &host).remove(0);
            let Evidence::SlowIo(e) = found.evidence else {
                panic!("{found:?}")
            };
            (found.severity, e.cpu_shortage)
        };
        let is_cpu = (Severity::Info, Some(CpuShortage::Steal));
        assert_eq!(severity_and_shortage(&[(18, 12), (19, 2)]), is_cpu);
        // One of them is slow while nothing is stolen: the others do not excuse it, and do not make it worse.
        let is_device = |severity| (severity, None);
        let mixed = severity_and_shortage(&[(18, 12), (30, 2)]);
        assert_eq!(mixed, is_device(Severity::Warning));
        let mixed = severity_and_shortage(&[(18, 2), (35, 12)]);
        assert_eq!(mixed, is_device(Severity::Critical));
        // Nothing is known of the host after 40 s.
        let unknown = severity_and_shortage(&[(90, 2)]);
        assert_eq!(unknown, is_device(Severity::Warning));
        let many = vec![(18, 2); MAX_COMPARED + 1];
        assert_eq!(severity_and_shortage(&many), is_device(Severity::Warning));
    }

    #[test]
    fn failures_are_counted_by_error() {
        let mut t = ErrorCounts::new(Window::OPEN);
        // The last one says that the device does not offer it.
        for (i, e) in [5, 5, 28, 0, 95].into_iter().enumerate() {
            t.push(&Io {
                error: Some(e),
                sector: Some(64),
                ..Io::new(i as i64, A, Op::READ, 512, None, 1)
            });
        }
        let f = &t.finish(5, &HostPressure::default())[0];
        let Evidence::IoError(e) = &f.evidence else {
            panic!("{f:?}")
        };
        assert_eq!(
            (e.ios, &e.by_error, e.first_sector),
            (3, &BTreeMap::from([(5, 2), (28, 1)]), Some(64))
        );
    }

    #[test]
    fn censored_and_retired_ios_are_no_losses() {
        let mut t = ErrorCounts::new(Window::OPEN);
        for reason in LossReason::ALL {
            t.lost(&Lost {
                from_ns: 1,
                to_ns: 2,
                dev: None,
                class: None,
                reason,
                ios: Some(1),
                bytes: None,
                merges: None,
            });
        }
        assert_eq!(
            t.finish(100, &HostPressure::default()).len(),
            LossReason::ALL.iter().filter(|r| r.is_loss()).count()
        );
    }
}
