//! I/Os that failed or are missing, and tables that mislead.

use iolens_core::analysis::counters::audit::AuditRow;
use iolens_core::analysis::findings::evidence::{
    AveragedAveragesEvidence, IoErrorEvidence, LostEventsEvidence,
};
use iolens_core::model::{Class, LossReason};

use super::Sentence;
use super::words::by;
use crate::present::times::Times;

impl Sentence for IoErrorEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let most_often = self
            .by_error
            .iter()
            .max_by_key(|(_, n)| **n)
            .map_or(0, |(code, _)| *code);
        // As in the kernel's own messages: `Input/output error (os error 5)`.
        let named = std::io::Error::from_raw_os_error(most_often).to_string();
        let named = named.split(" (os error").next().unwrap_or_default();
        let at = self
            .first_sector
            .map_or_else(String::new, |s| format!(" at sector {s}"));
        format!(
            "The device failed {} I/O{}, most often with error {most_often} ({named}); the first was a {}{at}{}.",
            self.ios,
            if self.ios == 1 { "" } else { "s" },
            self.first_class.name(),
            by(self.first_process.as_deref(), self.first_pid)
        )
    }
}

impl Sentence for LostEventsEvidence {
    fn sentence(&self, _times: &Times) -> String {
        let what = match self.reason {
            LossReason::RingFull => {
                "ring buffer overflow: raise --ring or give the recorder more CPU"
            }
            LossReason::SlotClash => "two requests shared an entry of the tracer's table",
            LossReason::WriterBusy => {
                "the disk that holds the recording was too slow: record to another one"
            }
            LossReason::DiskFull => {
                "the disk that holds the recording was full: use --keep or another disk"
            }
            LossReason::Corrupt => "a block of the recording is damaged",
            LossReason::Unseen => "the completion event never reached the tracer",
            LossReason::Unaccounted => {
                "only the kernel's own counters hold them, its tracepoints did not report them; please report this"
            }
            LossReason::NotRecorded => "no recorder ran then",
            LossReason::Import => "the imported log is cut or damaged",
            // There are no findings about these.
            LossReason::Retention
            | LossReason::Censored
            | LossReason::RequestRingFull
            | LossReason::RequestTableFull
            | LossReason::RequestUnwritten => self.reason.name(),
        };
        let percent = match self.lost_percent {
            Some(s) if s < 0.01 => " (under 0.01 %)".to_owned(),
            Some(s) => format!(" ({s:.2} %)"),
            None => String::new(),
        };
        let number = match self.ios {
            None => "An unknown number of I/Os".to_owned(),
            Some(1) => "1 I/O".to_owned(),
            Some(n) => format!("{n} I/Os"),
        };
        format!(
            "{number} lost{percent}: {what}. Intervals that this can change by more than 1 % are marked."
        )
    }
}

impl Sentence for AveragedAveragesEvidence {
    fn sentence(&self, _times: &Times) -> String {
        averaged_averages(&self.rows).map_or_else(String::new, |s| s + ".")
    }
}

/// The result of an audit of averages as one sentence without full stop; `None` if there was nothing to test.
pub fn averaged_averages(rows: &[AuditRow]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let wrong: Vec<&AuditRow> = rows.iter().filter(|r| r.rule.is_wrong()).collect();
    if wrong.is_empty() {
        return Some(format!(
            "{} mean latencies were checked against finer rows: none is an average of averages",
            rows.len()
        ));
    }
    let mut text = format!(
        "{} of {} mean latencies are averages of averages",
        wrong.len(),
        rows.len()
    );
    for class in [Class::Read, Class::Write] {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for row in wrong.iter().filter(|r| r.class == class) {
            if let Some(percent) = row.understated_percent {
                low = low.min(percent);
                high = high.max(percent);
            }
        }
        // For a class without such a row, the bounds were never set.
        if low <= high {
            text.push_str(&format!(
                "; {} latency is understated by {low:.0} to {high:.0} %",
                class.name()
            ));
        }
    }
    Some(text)
}
