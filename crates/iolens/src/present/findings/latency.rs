//! Devices and I/Os that take long.

use iolens_core::analysis::counters::pressure::HostState;
use iolens_core::analysis::findings::evidence::{
    LatencyChangeEvidence, LatencyModeEvidence, SlowIoEvidence, SlowMemberEvidence, StallEvidence,
    StallScope,
};
use iolens_core::analysis::latency::{change as changes, mode as modes};

use super::Sentence;
use super::words::{by, plural, time};
use crate::present::layout::{p_value, size};
use crate::present::times::Times;

impl Sentence for StallEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let after = plural(self.completed_after).to_lowercase();
        let around = match self.completed_before {
            None => format!("The device was idle before it; {after} completed after it"),
            Some(c) => format!("{} completed before it, {after} after it", plural(c)),
        };
        let count = if self.stalls_in_recording > 1 {
            format!(" One of {} stalls.", self.stalls_in_recording)
        } else {
            String::new()
        };
        format!(
            "Device stalled: nothing completed for {} with {} I/Os in flight ({} issued meanwhile); its service times \
         explain gaps of up to {}. {around}{}.{}{count}{}",
            seconds(self.duration_s),
            self.in_flight,
            self.issued_meanwhile,
            seconds(self.expected_s),
            if self.flush_in_flight {
                "; a flush was in flight"
            } else {
                ""
            },
            reach(self),
            self.host_state.as_ref().map(host).unwrap_or_default(),
        )
    }
}

/// A time in seconds, rounded to nanoseconds to remove the digits that floating point adds.
fn seconds(s: f64) -> String {
    time((s * 1e9).round() / 1e3)
}

/// A median; zero means that it is not known.
fn median(us: Option<f64>) -> String {
    time(us.unwrap_or(0.0))
}

/// The state of the host's CPUs, which does not explain the stall.
fn host(state: &HostState) -> String {
    let mut known = Vec::new();
    if let Some(percent) = state.cpu_pressure_percent {
        known.push(format!("CPU pressure {percent:.1} %"));
    }
    if let Some(percent) = state.steal_percent {
        known.push(format!("steal {percent:.1} %"));
    }
    if let Some(ms) = state.timer_late_ms {
        let late = time(ms * 1e3);
        known.push(format!("iolens' own timer at most {late} late"));
    }
    if known.is_empty() {
        return String::new();
    }
    format!(" Not the host's CPUs: {}.", known.join(", "))
}

/// How many devices a stall affected, and which layers stopped with it.
fn reach(e: &StallEvidence) -> String {
    let group = e
        .group
        .as_deref()
        .zip(e.group_devices)
        .zip(e.group_devices_stalled);
    let n = e.other_devices_stalled;
    let m = e.other_devices;
    let mut text = match (e.scope, group) {
        (StallScope::ArrayMember, Some(((name, m), _))) => {
            format!(" Of the {m} members of {name} only this one stopped.")
        }
        (StallScope::ArrayMembers, Some(((name, m), n))) => {
            format!(" {n} of the {m} members of {name} stopped at the same time.")
        }
        (StallScope::Array, Some(((name, m), _))) => {
            format!(" All {m} members of {name} stopped at the same time.")
        }
        (StallScope::Device, Some(((name, m), _))) => {
            format!(" Of the {m} devices behind {name} only this one stopped.")
        }
        (StallScope::Host, Some(((name, m), _))) => {
            format!(" All {m} devices behind {name} stopped, others did not.")
        }
        (_, Some(((name, m), n))) => {
            format!(" {n} of the {m} devices behind {name} stopped at the same time.")
        }
        (StallScope::Device, None) if m == 0 => String::new(),
        (StallScope::Device, None) => " Other devices went on.".to_owned(),
        (StallScope::All, None) => " All devices stopped at the same time.".to_owned(),
        (_, None) => format!(" {n} of the {m} other devices stopped at the same time."),
    };
    if !e.layers_stalled.is_empty() {
        text += &format!(" {} stood still with it.", e.layers_stalled.join(", "));
    }
    text
}

/// Whether a change of the CPUs' load coincides with the change of latency.
fn with_cpus(e: &LatencyChangeEvidence) -> &'static str {
    match (e.cpu_shortage, e.ratio_at_same_load > 1.0) {
        (None, _) => "",
        (Some(_), true) => {
            " The CPUs became short at the same time: the device need not be the cause."
        }
        (Some(_), false) => " The CPUs were short until then: the device need not be the cause.",
    }
}

impl Sentence for LatencyChangeEvidence {
    fn sentence(&self, times: &Times) -> String {
        let word = if self.ratio_at_same_load > 1.0 {
            "slower"
        } else {
            "faster"
        };
        let p99 = self.device_p99_before_us.zip(self.device_p99_after_us);
        let p99 = p99.map_or_else(String::new, |(b, a)| {
            format!(", p99 {} and {}", time(b), time(a))
        });
        // A step has a time; a trend is described by its two ends.
        let (how, when) = match self.form {
            changes::Form::Step => {
                let at = times.instant_to((self.at_s * 1e9) as i64, 1);
                (format!("{word} at {at}"), ["before", "after"])
            }
            changes::Form::Trend => (
                format!("{word} little by little"),
                ["in the first quarter", "in the last"],
            ),
        };
        format!(
            "{} became {how}: at the same load the device takes {:.2} times as long (95 % interval {:.2} to {:.2}; {}). \
         Median {} {} and {} {}{p99}; n = {} and {}.{}",
            plural(self.class),
            self.ratio_at_same_load,
            self.ratio_at_same_load_ci.0,
            self.ratio_at_same_load_ci.1,
            p_value(self.p_value.max(self.p_family)),
            median(self.device_p50_before_us),
            when[0],
            median(self.device_p50_after_us),
            when[1],
            self.ios_before,
            self.ios_after,
            with_cpus(self),
        )
    }
}

impl Sentence for LatencyModeEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let slow = match self.form {
            modes::Form::SecondMode => format!("take about {}", time(self.slow_device_us)),
            modes::Form::Tail => format!(
                "form a heavy tail, in the middle {}",
                time(self.slow_device_us)
            ),
        };
        let place = self.slow_sectors.map_or_else(String::new, |(a, b)| {
            format!(" Most of them lie between sectors {a} and {b}.")
        });
        let short = self
            .cpu_shortage
            .and(self.slow_in_cpu_shortage_percent)
            .map(|percent| {
                format!(
                    " During {percent:.0} % of the slow ones the CPUs were short: the device need not be the cause."
                )
            });
        let cpus = short.unwrap_or_default();
        // Isolated slow I/Os are not mentioned; several in a row suggest a common cause.
        let in_a_row = self.slow_ios as f64 / self.stretches as f64;
        let row = if in_a_row >= 3.0 {
            format!(", about {in_a_row:.0} in a row")
        } else {
            String::new()
        };
        format!(
            "{} of {:.1} to {:.1} KiB are not all alike: {:.2} % {slow} with the device, where the others take \
         {}. They come in {} stretches{row}, and take {:.0} % of the device time (n = {} of {}).{place}{cpus}",
            plural(self.class),
            self.min_bytes as f64 / 1024.0,
            self.below_bytes as f64 / 1024.0,
            self.slow_percent,
            time(self.usual_device_us),
            self.stretches,
            self.slow_time_percent,
            self.slow_ios,
            self.sampled_ios,
        )
    }
}

impl Sentence for SlowMemberEvidence {
    fn sentence(&self, _times: &Times) -> String {
        format!(
            "{} of {}, one of the {} members of {}, take {} with the device, those of {}, the slowest of the others, {} \
         (p50; {:.2}x at the same size, 95 % interval {:.2} to {:.2}; {}; n = {} vs {}).",
            plural(self.class),
            self.member,
            self.members,
            self.array,
            median(self.device_p50_us),
            self.slowest_peer,
            median(self.slowest_peer_p50_us),
            self.ratio,
            self.ratio_ci.0,
            self.ratio_ci.1,
            p_value(self.p_value),
            self.ios,
            self.slowest_peer_ios,
        )
    }
}

impl Sentence for SlowIoEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let place = if self.slowest_device_us * 2.0 >= self.slowest_us {
            "in the device"
        } else {
            "in the kernel's queue"
        };
        let others = match self.ios_over_1s {
            n if n > 1 => format!("{n} I/Os took longer than 1 s; the slowest, a"),
            _ => "A".to_owned(),
        };
        let comma = if self.ios_over_1s > 1 { "," } else { "" };
        let cpus = match self.cpu_shortage {
            Some(_) => " The CPUs were short meanwhile: the device need not be the cause.",
            None => "",
        };
        format!(
            "{others} {} of {}{}{comma} took {:.2} s, most of it {place}.{cpus}",
            self.slowest_class.name(),
            size(self.slowest_bytes as f64),
            by(self.slowest_process.as_deref(), self.slowest_pid),
            self.slowest_us / 1e6,
        )
    }
}
