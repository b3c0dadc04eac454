//! The progress line of a recording: on terminals only, a few times a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iolens_recorder::Progress;

use crate::present::record_text;

const SHOW_EVERY_NS: i64 = 250_000_000;

/// A line on stderr that is overwritten repeatedly.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    shown: Progress,
}

impl ProgressLine {
    /// Draws nothing if `quiet` is set, or if stderr is not a terminal or a dumb one.
    pub fn new(quiet: bool) -> ProgressLine {
        let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
        let bar = (!quiet && !dumb && console_is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template("{msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar
        });
        ProgressLine {
            bar,
            shown: Progress::default(),
        }
    }

    /// Shows `now`, if the last update was long enough ago.
    pub fn show(&mut self, now: &Progress) {
        let Some(bar) = &self.bar else { return };
        let gap_ns = now.at_ns - self.shown.at_ns;
        if gap_ns < SHOW_EVERY_NS {
            return;
        }
        let ios_per_s = (now.ios - self.shown.ios) as f64 * 1e9 / gap_ns as f64;
        bar.set_message(record_text::progress(
            now.at_ns,
            ios_per_s,
            now.ios,
            now.losses.ios(),
            now.disk_bytes,
            now.disk_full,
        ));
        bar.tick();
        self.shown = *now;
    }

    /// Clears the line.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn console_is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}
