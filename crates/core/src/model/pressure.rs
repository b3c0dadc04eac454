//! CPU and I/O pressure of the host during a recording: kernel counters and the recorder's own timer.

use super::known_sum;

/// Pressure of the host between two readings of its counters.
///
/// Fields are `None` where the kernel does not provide them: pressure needs `CONFIG_PSI`, and a container may hide
/// `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PressureSample {
    /// Beginning, in nanoseconds since the recording's start.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// CPUs that were online.
    pub cpus: Option<i32>,
    /// Time in which at least one task waited for a CPU (`some` of `/proc/pressure/cpu`).
    pub cpu_some_ns: Option<i64>,
    /// Time in which at least one task waited for I/O (`some` of `/proc/pressure/io`).
    pub io_some_ns: Option<i64>,
    /// Time in which all tasks that were not idle waited for I/O (`full`).
    pub io_full_ns: Option<i64>,
    /// Time in which a CPU of this machine had work but the hypervisor ran others (steal), summed over CPUs.
    pub steal_ns: Option<i64>,
    /// Largest number of tasks found running or waiting for a CPU, without the recorder's own.
    pub runnable: Option<i32>,
    /// The deadline of the recorder's most overdue timer; `None` if no timer ended in the interval.
    pub timer_due_ns: Option<i64>,
    /// How long after that deadline the recorder ran, in nanoseconds.
    pub timer_late_ns: Option<i64>,
}

impl PressureSample {
    /// Length of the interval in nanoseconds.
    pub fn len_ns(&self) -> i64 {
        self.to_ns - self.from_ns
    }

    /// Joins both intervals into one; `later` directly follows this one.
    #[must_use]
    pub fn joined(&self, later: &PressureSample) -> PressureSample {
        let later_timer = later.timer_late_ns > self.timer_late_ns;
        let timer = if later_timer { later } else { self };
        PressureSample {
            from_ns: self.from_ns,
            to_ns: later.to_ns,
            cpus: later.cpus.or(self.cpus),
            cpu_some_ns: known_sum(self.cpu_some_ns, later.cpu_some_ns),
            io_some_ns: known_sum(self.io_some_ns, later.io_some_ns),
            io_full_ns: known_sum(self.io_full_ns, later.io_full_ns),
            steal_ns: known_sum(self.steal_ns, later.steal_ns),
            runnable: self.runnable.max(later.runnable),
            timer_due_ns: timer.timer_due_ns,
            timer_late_ns: timer.timer_late_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_samples_sum_times_and_keep_the_latest_timer() {
        let first = PressureSample {
            from_ns: 0,
            to_ns: 100,
            cpu_some_ns: Some(10),
            steal_ns: Some(3),
            runnable: Some(4),
            timer_due_ns: Some(50),
            timer_late_ns: Some(20),
            ..PressureSample::default()
        };
        let second = PressureSample {
            from_ns: 100,
            to_ns: 250,
            cpu_some_ns: Some(30),
            runnable: Some(2),
            timer_due_ns: Some(180),
            timer_late_ns: Some(7),
            ..PressureSample::default()
        };
        let whole = first.joined(&second);
        assert_eq!((whole.from_ns, whole.to_ns, whole.len_ns()), (0, 250, 250));
        assert_eq!(whole.cpu_some_ns, Some(40));
        assert_eq!(whole.steal_ns, None, "half of it is not known");
        assert_eq!(whole.runnable, Some(4));
        assert_eq!(whole.timer_due_ns, Some(50));
        assert_eq!(whole.timer_late_ns, Some(20));
    }
}
