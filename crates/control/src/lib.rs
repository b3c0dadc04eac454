//! The signal and the throttle: how busy the disks under a path are, and how background work yields.
//!
//! `iolens throttle`, `iolens signal` and the C library use this crate. Dependencies: this crate reads the machine through
//! `iolens_observe` and computes with `iolens_core::analysis`; it knows no recording and nothing of the program.
//!
//! [`Utilisation`] reads it, [`Cached`] keeps a reading that costs nanoseconds, [`Controller`] decides, and the actuators
//! act. A server can use each of them alone:
//!
//! ```
//! use iolens_control::{Cadence, Controller, Limits, Observed, Utilisation};
//!
//! let signal = Utilisation::of_path("/")?.cached(Cadence::default());
//! let mut throttle = Controller::new(Limits::DEFAULT)?;
//! let begin = std::time::Instant::now();
//! let duty = throttle.decide(&Observed {
//!     at_ns: begin.elapsed().as_nanos() as i64,
//!     busy_percent: signal.percent(),
//!     ..Observed::default()
//! });
//! println!("background work may run {:.0} % of the time", duty.share * 100.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod actuator;
mod background;
mod cached;
mod carried;
mod cgroup;
mod decide;
mod events;
mod guardian;
mod lock;
mod meter;
mod pacer;
mod pause;
mod rates;
#[cfg(test)]
mod simulated_disk;
#[cfg(test)]
mod simulated_disk_tests;
mod utilisation;

pub use actuator::{Actuator, DutyCycle};
pub use background::{Background, FileId, file_id};
pub use cached::{Cached, CachedReading, Cadence};
pub use cgroup::{Group, Hierarchy};
pub use decide::{BadLimits, Controller, Duty, Limits, MIN_FOREGROUND_PERCENT, Mode, Observed};
pub use events::{DiskEvents, EventWindow, Events, Own};
pub use guardian::{Guardian, detach, enter_and_run, keep_watch};
pub use meter::Meter;
pub use pacer::Pacer;
pub use pause::{Pause, pause};
pub use rates::Rates;
pub use utilisation::{DiskReading, Reading, SignalError, Utilisation};
