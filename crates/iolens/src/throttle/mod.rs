//! The main loop of `iolens throttle`: starts the command, then measures, decides and acts until it ends.
//!
//! `iolens_control` measures, decides and throttles. This module handles the terminal, the signals and the log.

mod session;
mod start;
mod suspend;
mod trial;

pub use session::ThrottleSession;
pub use start::start;
pub use trial::Trial;
