//! Progress of an experiment on the terminal.

use std::cell::OnceCell;
use std::io::IsTerminal as _;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use iolens_lab::run::Watcher;

use crate::signals::Signals;

/// Shows a warning on standard error.
pub const WARN: iolens_lab::Warn = |line| eprintln!("iolens: {line}");

/// A progress bar, and handling of Ctrl-C.
pub struct Console {
    signals: Signals,
    bar: OnceCell<ProgressBar>,
}

impl Console {
    /// Starts catching signals.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn open() -> Result<Console> {
        Ok(Console {
            signals: Signals::catch()?,
            bar: OnceCell::new(),
        })
    }
}

impl Watcher for Console {
    fn begin(&self, runs: usize, seconds_per_run: f64) {
        self.bar.get_or_init(|| bar(runs, seconds_per_run));
    }

    fn run(&self, label: &str) {
        self.bar
            .get()
            .into_iter()
            .for_each(|bar| bar.set_message(label.to_owned()));
    }

    fn run_done(&self) {
        self.bar.get().into_iter().for_each(|bar| bar.inc(1));
    }

    fn end(&self) {
        self.bar
            .get()
            .into_iter()
            .for_each(ProgressBar::finish_and_clear);
    }

    fn interrupted(&self) -> bool {
        self.signals.caught() > 0
    }
}

/// A bar with the time left, on terminals only. `planned_s` is the expected time per cell; once cells are done, their
/// measured time is used instead.
fn bar(cells: usize, planned_s: f64) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64);
    let plain =
        std::env::var("TERM").is_ok_and(|t| t == "dumb") || !std::io::stderr().is_terminal();
    if plain {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        return bar;
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({left} left)") {
        bar.set_style(style.with_key(
            "left",
            move |s: &indicatif::ProgressState, w: &mut dyn std::fmt::Write| {
                let elapsed_s = s.elapsed().as_secs_f64();
                let seconds = time_left_s(s.pos(), s.len().unwrap_or(0), elapsed_s, planned_s);
                let about = indicatif::HumanDuration(std::time::Duration::from_secs_f64(seconds));
                // Errors of drawing the progress bar are ignored.
                let _ = write!(w, "about {about:#}");
            },
        ));
    }
    bar.enable_steady_tick(std::time::Duration::from_secs(1));
    bar
}

/// Estimates the seconds until all `cells` are done, given that `done` cells took `elapsed_s`; a running cell counts
/// as half.
fn time_left_s(done: u64, cells: u64, elapsed_s: f64, planned_s: f64) -> f64 {
    let per_cell = if done == 0 {
        planned_s
    } else {
        elapsed_s / (done as f64 + 0.5)
    };
    (cells as f64 * per_cell - elapsed_s).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_plan_first_and_experience_later() {
        assert_eq!(time_left_s(0, 10, 2.0, 5.0), 48.0);
        assert_eq!(time_left_s(4, 10, 45.0, 5.0), 55.0);
        assert_eq!(time_left_s(0, 1, 9.0, 5.0), 0.0);
    }
}
