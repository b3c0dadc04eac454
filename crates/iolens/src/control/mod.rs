//! The signal and the brake: how busy the disks under a path are, and what background work should do about it.
//!
//! [`Utilisation`] reads it, [`Cached`] keeps a reading that costs nanoseconds, [`Controller`] decides, and the actuators
//! act. A server can use each of them alone:
//!
//! ```
//! use iolens::control::{Cadence, Controller, Limits, Observed, Utilisation};
//!
//! let signal = Utilisation::of_path("/")?.cached(Cadence::default());
//! let mut brake = Controller::new(Limits::DEFAULT)?;
//! let begin = std::time::Instant::now();
//! let duty = brake.decide(&Observed {
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
mod cgroup;
mod decide;
mod events;
mod guardian;
mod lock;
mod meter;
mod pause;
#[cfg(test)]
mod plant;
#[cfg(test)]
mod plant_tests;
mod rates;
mod trickle;
mod utilisation;

pub use actuator::{Actuator, DutyCycle};
pub use background::{Background, FileId, file_id};
pub use cached::{Cached, CachedReading, Cadence};
pub use cgroup::{Group, Hierarchy};
pub use decide::{BadLimits, Controller, Duty, Limits, Mode, Observed};
pub use events::{DiskEvents, EventWindow, Events, Own};
pub use guardian::{Guardian, enter_and_run, keep_watch};
pub use meter::Meter;
pub use pause::{Pause, pause};
pub use rates::Rates;
pub use trickle::Trickle;
pub use utilisation::{DiskReading, Reading, SignalError, Utilisation};
