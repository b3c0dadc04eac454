//! CPU and I/O pressure of the host at a given time. Analyses use it to find out whether I/Os waited for a CPU rather
//! than for a device.
//!
//! A completion needs a CPU: for the interrupt, for the worker of a loop device, for the thread that waits. Three
//! signs show that CPUs were scarce, from the strongest to the weakest: the recorder's own timer fired late, the
//! hypervisor took the CPUs away (steal), and tasks waited for a CPU (pressure, PSI).

use serde::Serialize;

use crate::model::PressureSample;

/// Beyond this number, samples are joined in pairs. It allows two days at ten per second.
const MAX_SAMPLES: usize = 1 << 21;

/// Minimum share of the time that a shortage must last to be the cause of what happened in it.
const MOST: f64 = 0.5;

/// Longest wait of an I/O per task that runs or waits for a CPU: six time slices of 10 ms, since it can pass through
/// the worker that submits it, threads of a program that serves it, the worker that completes it, and the thread that
/// waits for it. Disks that are served by programs were seen to pause for 17 to 57 ms per task.
const WAIT_FOR_EACH_NS: f64 = 60e6;

/// The host's pressure over a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostPressure {
    /// In order of time, without overlap.
    samples: Vec<PressureSample>,
}

/// CPU and I/O pressure of the host in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostState {
    /// Percent of the time in which at least one task waited for a CPU (PSI); `null` if the kernel does not report it.
    pub cpu_pressure_percent: Option<f64>,
    /// Percent of the time in which at least one task waited for I/O (PSI); `null` if the kernel does not report it.
    pub io_pressure_percent: Option<f64>,
    /// CPU time taken by the hypervisor (steal), summed over CPUs, in percent of the time; `null` if the kernel does not report
    /// it.
    pub steal_percent: Option<f64>,
    /// Maximum number of tasks that ran or waited for a CPU, per CPU; `null` if the kernel does not report it.
    pub runnable_per_cpu: Option<f64>,
    /// Longest delay of the recorder's own timer, in milliseconds; `null` if no timer ended in the interval.
    pub timer_late_ms: Option<f64>,
    /// Percent of the interval in which the recorder's own timer was overdue.
    pub timer_late_percent: f64,
    /// Length of the samples that overlap the interval, in seconds. Pressure and steal are means over them.
    pub measured_s: f64,
}

/// The shortage of CPU time that explains why I/Os waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuShortage {
    /// The recorder itself, which waits for no device, was late for at least half of the interval.
    LateTimer,
    /// The hypervisor took at least half of the time, or as much time around the interval as the interval lasted.
    Steal,
    /// Tasks waited for a CPU for at least half of the time, so many that each can wait as long as the interval.
    Pressure,
}

impl HostPressure {
    /// Adds the next sample, in order of time.
    pub fn push(&mut self, sample: &PressureSample) {
        let ends_ns = self.samples.last().map_or(i64::MIN, |s| s.to_ns);
        if sample.from_ns < ends_ns || sample.len_ns() <= 0 {
            return;
        }
        self.samples.push(*sample);
        if self.samples.len() >= MAX_SAMPLES {
            self.join_pairs();
        }
    }

    /// Joins adjacent samples in pairs, but not across a gap.
    fn join_pairs(&mut self) {
        let mut joined: Vec<PressureSample> = Vec::with_capacity(self.samples.len() / 2 + 1);
        let mut may_grow = false;
        for sample in &self.samples {
            match joined.last_mut() {
                Some(last) if may_grow && last.to_ns == sample.from_ns => {
                    *last = last.joined(sample);
                    may_grow = false;
                }
                _ => {
                    joined.push(*sample);
                    may_grow = true;
                }
            }
        }
        self.samples = joined;
    }

    /// The host's state from `from_ns` to `to_ns`; `None` if samples cover less than half of it, as in recordings of
    /// earlier versions and of other programs.
    pub fn between(&self, from_ns: i64, to_ns: i64) -> Option<HostState> {
        let first = self.samples.partition_point(|s| s.to_ns <= from_ns);
        let after = self.samples.partition_point(|s| s.from_ns < to_ns);
        let samples = self.samples.get(first..after)?;
        let mut whole: Option<PressureSample> = None;
        let mut measured_ns = 0;
        let mut covered_ns = 0;
        let mut late_ns = 0;
        for sample in samples {
            measured_ns += sample.len_ns();
            covered_ns += sample.to_ns.min(to_ns) - sample.from_ns.max(from_ns);
            late_ns += overdue_ns(sample, from_ns, to_ns);
            whole = Some(whole.map_or(*sample, |w| w.joined(sample)));
        }
        let len_ns = to_ns - from_ns;
        let whole = whole.filter(|_| 2 * covered_ns >= len_ns)?;
        // Samples extend beyond the interval, so their sums are divided by the time that they cover. Only the timer's
        // delay is measured within the interval.
        Some(HostState {
            cpu_pressure_percent: whole.cpu_some_ns.map(|ns| percent(ns, measured_ns)),
            io_pressure_percent: whole.io_some_ns.map(|ns| percent(ns, measured_ns)),
            steal_percent: whole.steal_ns.map(|ns| percent(ns, measured_ns)),
            runnable_per_cpu: whole
                .runnable
                .zip(whole.cpus)
                .map(|(tasks, cpus)| f64::from(tasks) / f64::from(cpus.max(1))),
            timer_late_ms: whole.timer_late_ns.map(|ns| ns as f64 / 1e6),
            timer_late_percent: percent(late_ns.min(len_ns), len_ns),
            measured_s: measured_ns as f64 / 1e9,
        })
    }

    /// The shortage of CPU time that explains that nothing completed from `from_ns` to `to_ns`; `None` if there is
    /// none, or if nothing is known.
    pub fn cpu_shortage(&self, from_ns: i64, to_ns: i64) -> Option<CpuShortage> {
        self.between(from_ns, to_ns)?.cpu_shortage(to_ns - from_ns)
    }
}

fn percent(ns: i64, of_ns: i64) -> f64 {
    100.0 * ns as f64 / of_ns.max(1) as f64
}

/// Time of the interval during which the sample's timer was due and the recorder did not run, in nanoseconds.
fn overdue_ns(sample: &PressureSample, from_ns: i64, to_ns: i64) -> i64 {
    let Some((due_ns, late_ns)) = sample.timer_due_ns.zip(sample.timer_late_ns) else {
        return 0;
    };
    let woke_ns = due_ns.saturating_add(late_ns);
    (woke_ns.min(to_ns) - due_ns.max(from_ns)).max(0)
}

impl HostState {
    /// The shortage of CPU time that explains that nothing happened for `len_ns`, the length of the interval.
    pub fn cpu_shortage(&self, len_ns: i64) -> Option<CpuShortage> {
        let longest_wait_ns = WAIT_FOR_EACH_NS * self.runnable_per_cpu.unwrap_or(0.0);
        // The samples extend beyond the interval, and all of the stolen time can be inside it.
        let stolen_ns = self.steal_percent.unwrap_or(0.0) / 100.0 * self.measured_s * 1e9;
        if self.timer_late_percent >= 100.0 * MOST {
            Some(CpuShortage::LateTimer)
        } else if is_most(self.steal_percent) || stolen_ns >= len_ns as f64 {
            Some(CpuShortage::Steal)
        } else if is_most(self.cpu_pressure_percent) && len_ns as f64 <= longest_wait_ns {
            Some(CpuShortage::Pressure)
        } else {
            None
        }
    }
}

/// Whether a percentage of the time is enough to be the cause of what happened in it.
fn is_most(percent: Option<f64>) -> bool {
    percent.is_some_and(|p| p >= 100.0 * MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// 100 ms from `from_ms` on, of which tasks waited for a CPU for `pressure_ms`; eight tasks on two CPUs.
    fn sample(from_ms: i64, pressure_ms: i64) -> PressureSample {
        PressureSample {
            from_ns: from_ms * MS,
            to_ns: (from_ms + 100) * MS,
            cpus: Some(2),
            cpu_some_ns: Some(pressure_ms * MS),
            io_some_ns: Some(0),
            io_full_ns: Some(0),
            steal_ns: Some(0),
            runnable: Some(8),
            timer_due_ns: Some(from_ms * MS),
            timer_late_ns: Some(0),
        }
    }

    fn of(samples: &[PressureSample]) -> HostPressure {
        let mut pressure = HostPressure::default();
        samples.iter().for_each(|s| pressure.push(s));
        pressure
    }

    #[test]
    fn an_interval_has_the_means_of_the_samples_around_it() {
        let pressure = of(&[sample(0, 10), sample(100, 50), sample(200, 70)]);
        let state = pressure.between(150 * MS, 250 * MS).expect("known");
        assert_eq!(state.cpu_pressure_percent, Some(60.0));
        assert_eq!(state.runnable_per_cpu, Some(4.0));
        assert_eq!(state.measured_s, 0.2);
        let before = pressure.between(20 * MS, 40 * MS).expect("known");
        assert_eq!(before.cpu_pressure_percent, Some(10.0));
    }

    #[test]
    fn what_was_not_looked_at_is_not_known() {
        assert_eq!(HostPressure::default().between(0, 100 * MS), None);
        let pressure = of(&[sample(0, 10), sample(500, 10)]);
        assert_eq!(pressure.between(90 * MS, 190 * MS), None);
        assert!(pressure.between(40 * MS, 160 * MS).is_some());
        assert_eq!(pressure.cpu_shortage(90 * MS, 190 * MS), None);
    }

    #[test]
    fn a_timer_that_was_late_for_half_of_the_interval_explains_it() {
        let late = PressureSample {
            timer_due_ns: Some(30 * MS),
            timer_late_ns: Some(25 * MS),
            ..sample(0, 10)
        };
        let pressure = of(&[late]);
        assert_eq!(
            pressure.cpu_shortage(20 * MS, 60 * MS),
            Some(CpuShortage::LateTimer)
        );
        assert_eq!(pressure.cpu_shortage(20 * MS, 90 * MS), None, "25 of 70 ms");
        assert_eq!(pressure.cpu_shortage(60 * MS, 90 * MS), None, "not then");
    }

    #[test]
    fn stolen_time_explains_a_gap() {
        let stolen = PressureSample {
            steal_ns: Some(60 * MS),
            ..sample(0, 0)
        };
        let shortage = of(&[stolen]).cpu_shortage(0, 40 * MS);
        assert_eq!(shortage, Some(CpuShortage::Steal));
    }

    #[test]
    fn less_stolen_time_explains_a_gap_that_it_fills() {
        let stolen = PressureSample {
            steal_ns: Some(37 * MS),
            ..sample(0, 0)
        };
        let pressure = of(&[stolen, sample(100, 0)]);
        let of_short = pressure.cpu_shortage(20 * MS, 51 * MS);
        assert_eq!(of_short, Some(CpuShortage::Steal));
        assert_eq!(pressure.cpu_shortage(20 * MS, 60 * MS), None);
        assert_eq!(pressure.cpu_shortage(90 * MS, 130 * MS), None);
        assert_eq!(pressure.cpu_shortage(110 * MS, 141 * MS), None);
    }

    #[test]
    fn pressure_explains_no_gap_that_is_longer_than_a_task_waits_for_its_turn() {
        let pressure = of(&[sample(0, 90), sample(100, 90), sample(200, 90)]);
        assert_eq!(
            pressure.cpu_shortage(10 * MS, 70 * MS),
            Some(CpuShortage::Pressure)
        );
        assert_eq!(pressure.cpu_shortage(10 * MS, 290 * MS), None);
        assert_eq!(of(&[sample(0, 20)]).cpu_shortage(10 * MS, 70 * MS), None);
    }

    #[test]
    fn too_many_samples_are_joined_in_pairs() {
        let mut pressure = of(&[sample(0, 10), sample(100, 30), sample(300, 50)]);
        pressure.join_pairs();
        let lengths: Vec<i64> = pressure.samples.iter().map(|s| s.len_ns() / MS).collect();
        assert_eq!(lengths, [200, 100], "what has a gap before it stays alone");
        let state = pressure.between(0, 200 * MS).expect("known");
        assert_eq!(state.cpu_pressure_percent, Some(20.0));
    }
}
