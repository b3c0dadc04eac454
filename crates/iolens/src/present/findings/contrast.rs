//! One load that slows another.

use iolens_core::analysis::findings::Cause;
use iolens_core::analysis::findings::evidence::{
    Contrast, InterferenceEvidence, MeansSource, StarvationEvidence, StarvationOfMeansEvidence,
};
use iolens_core::analysis::math::lead_lag::Direction;
use iolens_core::analysis::starvation::{MIN_EPISODES, Verdict};

use super::Sentence;
use super::words::{name, plural, singular, time};
use crate::present::layout::p_value;
use crate::present::times::Times;

impl Sentence for StarvationEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let by = self
            .cause
            .as_ref()
            .map_or_else(String::new, |c| format!(" from {}", name(c)));
        let head = format!(
            "{} latency rises during {} bursts{by}",
            singular(self.contrast.victim),
            self.aggressor.name()
        );
        contrast(&head, &self.contrast)
    }
}

impl Sentence for InterferenceEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let who = |c: &Option<Cause>| c.as_ref().map_or_else(|| "a process".to_owned(), name);
        let (victim, aggressor) = (who(&self.victim_process), who(&self.aggressor_process));
        let head = format!(
            "{} latency of {victim} rises during bursts of {aggressor}",
            singular(self.contrast.victim)
        );
        contrast(&head, &self.contrast)
    }
}

/// `head` says whose latency rises during whose bursts.
fn contrast(head: &str, c: &Contrast) -> String {
    let bursts = if c.bursts == 1 {
        "1 burst".to_owned()
    } else {
        format!("{} bursts", c.bursts)
    };
    let p99s = c
        .read_p99_during_us
        .or(c.write_p99_during_us)
        .zip(c.read_p99_outside_us.or(c.write_p99_outside_us));
    let (quantile, during, outside) = match p99s {
        Some((during, outside)) => ("p99", during, outside),
        None => (
            "p50",
            c.p50_during_us.unwrap_or(0.0),
            c.p50_outside_us.unwrap_or(0.0),
        ),
    };
    let interval = c.ratio_typical_ci.map_or_else(String::new, |(low, high)| {
        format!(", 95% interval {low:.2} to {high:.2}")
    });
    let certainty = match c.verdict {
        Verdict::Starvation => p_value(c.p_value.unwrap_or(1.0)),
        _ => format!("inconclusive: only {bursts}, {MIN_EPISODES} needed"),
    };
    let order = match c.direction {
        Direction::LatencyFirst => " Latency rises before the bursts: they are not its only cause.",
        Direction::BurstFirst | Direction::Unclear => "",
    };
    format!(
        "{head}: {quantile} {} during {bursts} vs {} otherwise ({:.1}x; typically {:.2}x{interval}; {certainty}; n = {} vs {}).{order}",
        time(during),
        time(outside),
        during / outside.max(f64::MIN_POSITIVE),
        c.ratio_typical.unwrap_or(1.0),
        c.ios_during,
        c.ios_outside,
    )
}

impl Sentence for StarvationOfMeansEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let inconclusive = match self.source {
            MeansSource::Counters => "Counters are",
            MeansSource::Table => "Means of a table are",
        };
        format!(
            "{} are slower in intervals in which {} ask for much: typically {:.2} times the mean latency of their neighbours \
         (95% interval {:.2} to {:.2}; {} more; {} bursts). {inconclusive} inconclusive: record single I/Os to confirm.",
            plural(self.victim),
            plural(self.aggressor).to_lowercase(),
            self.ratio_typical,
            self.ratio_typical_ci.0,
            self.ratio_typical_ci.1,
            time(self.excess_us.unwrap_or(0.0)),
            self.bursts,
        )
    }
}
