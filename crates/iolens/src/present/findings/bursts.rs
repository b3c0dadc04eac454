//! Bursts, and bursts that come back.

use iolens_core::analysis::bursts::reported::MAX_REPORTED_BURSTS;
use iolens_core::analysis::bursts::scan::Measure;
use iolens_core::analysis::findings::evidence::{MicroburstEvidence, PeriodicityEvidence};
use iolens_core::analysis::periodicity::Verdict;
use iolens_core::model::Class;

use super::Sentence;
use super::words::{name, plural, singular, time};
use crate::present::layout::{p_value, size};
use crate::present::times::Times;

impl Sentence for MicroburstEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let by = self
            .cause
            .as_ref()
            .map_or_else(String::new, |c| format!(", mostly by {}", name(c)));
        let moved = match self.measure {
            Measure::Bytes => self.bytes as f64,
            Measure::Ios => self.ios as f64,
        };
        let times = moved / self.duration_s / self.baseline_per_s;
        let usual = if times.is_finite() {
            format!(" ({times:.1}x the background)")
        } else {
            String::new()
        };
        let mut text = format!(
            "{} burst: {} ({} I/Os) in {}{usual}{by}. The device moved at least {}/s at its peak; a 1 s sample shows {}/s ({:.1}x lower).",
            singular(self.class),
            size(self.bytes as f64),
            self.ios,
            time(self.duration_s * 1e6),
            size(self.peak_bytes_per_s),
            size(self.mean_1s_bytes_per_s),
            self.hidden_factor,
        );
        if self.lossy {
            text.push_str(" Lower bound: some I/Os in this window were lost.");
        }
        if self.bursts_in_recording > MAX_REPORTED_BURSTS {
            text.push_str(&format!(
                " One of {} such bursts.",
                self.bursts_in_recording
            ));
        }
        if let Some(Some(us)) = self.other_class_mean_max_us {
            let other = if self.class == Class::Read {
                Class::Write
            } else {
                Class::Read
            };
            text.push_str(&format!(
                " {} took up to {} on average meanwhile.",
                plural(other),
                time(us)
            ));
        }
        if !self.link_devices.is_empty() {
            text.push_str(&format!(
                " Summed over the {} devices of one link.",
                self.link_devices.len()
            ));
        }
        text
    }
}

impl Sentence for PeriodicityEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let by = self
            .cause
            .as_ref()
            .map_or_else(String::new, |c| format!(", mostly from {}", name(c)));
        format!(
            "{} recur every {:.2} s{by}: {} beats over {:.1} periods, jitter {:.1}% ({}{}).",
            plural(self.class),
            self.period_s,
            self.onsets_in_step,
            self.cycles,
            100.0 * self.jitter,
            p_value(self.p_value),
            if self.verdict == Verdict::Periodic {
                ""
            } else {
                "; tentative: too few periods"
            },
        )
    }
}
