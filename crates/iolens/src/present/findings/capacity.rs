//! Devices at their limits, and how busy they are.

use iolens_core::analysis::counters::io_ticks::Verdict;
use iolens_core::analysis::findings::evidence::{
    BandwidthSaturationEvidence, QueueFullEvidence, SaturationEvidence, UtilDisagreementEvidence,
};

use super::Sentence;
use super::words::time;
use crate::present::estimator::about;
use crate::present::layout::size;
use crate::present::times::Times;

impl Sentence for SaturationEvidence {
    fn sentence(&self, _times: &Times) -> String {
        format!(
            "In {:.0} % of its busy time the device had more than twice what it serves at once ({:.1}) in flight, \
         up to {:.0}: more load only waited. It does not get beyond {:.0} I/Os per second; unloaded, one takes {}.",
            self.saturated_percent,
            self.knee_in_flight.max(1.0),
            self.max_in_flight,
            self.max_ios_per_s,
            time(self.unloaded_us),
        )
    }
}

impl Sentence for BandwidthSaturationEvidence {
    fn sentence(&self, _times: &Times) -> String {
        format!(
            "Throughput stays at {}/s in {:.0} % of the time while {:.0} I/Os are in flight (up to {:.0}), where {:.1} would do: \
         more demand only waits. Latency there is {}, at light load {}.",
            size(self.plateau_bytes_per_s),
            self.plateau_percent,
            self.mean_in_flight,
            self.max_in_flight,
            self.needed_in_flight,
            time(self.plateau_mean_us),
            time(self.unloaded_us),
        )
    }
}

impl Sentence for QueueFullEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let stretches = match self.full_stretches {
            1 => "1 stretch".to_owned(),
            n => format!("{n} stretches"),
        };
        format!(
            "The device's queue was full for {:.1} s, {:.0} % of the time, in {stretches}: it had {} at once, never more, \
         and the next ones waited {} in the kernel (at most {}), beside {} with the device.",
            self.full_s,
            self.full_percent,
            self.queue_depth,
            time(self.queue_mean_us),
            time(f64::from(self.queue_max_us)),
            time(self.device_mean_us),
        )
    }
}

impl Sentence for UtilDisagreementEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let way = match self.verdict {
            Verdict::Ok => "right",
            Verdict::BiasedHigh => "too high",
            Verdict::BiasedLow => "too low",
            Verdict::Impossible => "impossible",
        };
        let why = self
            .regime
            .map_or_else(String::new, |r| format!(" ({})", about(r)));
        format!(
            "The kernel's %util says {:.1} %, which is {way}: the device was busy {:.1} % of the time{why}.",
            self.util_io_ticks_percent, self.busy_percent
        )
    }
}
