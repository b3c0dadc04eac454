//! The recorder as a library: what `record`, `live`, `lab`, `demo` and `iostat --true` share.
//!
//! A [`Feed`] is an open source of observations: eBPF events if the kernel allows them, otherwise counters.
//! [`SelfCheck`] compares what the feed yields with the kernel's own counts. [`Session`] records a feed into a
//! directory: it passes batches to a writer on its own thread, watches clocks and devices, and looks up names
//! ([`NameLookup`]). [`Session::rotate`] continues in another directory without a gap, for recorders that never stop.
//! Start at [`Session::start`]; a program that only reads I/Os starts at [`Feed::open`].
//!
//! Users: any crate above `observe`. This crate uses `iolens_core::{model, rollup, store}` and `iolens_observe`; it
//! knows no analysis, no command line and no terminal. [`Session::run`] reports progress through a callback, and
//! [`Feed::limits`] reports what a source cannot see.

mod actors;
mod clock;
mod excerpt;
mod feed;
mod known_devices;
mod losses;
mod name_lookup;
mod outputs;
mod pipeline;
mod pressure;
mod rebuild;
mod rollups;
mod self_check;
mod session;
mod settings_watch;
mod viewer;
mod waits;
mod wbt_watch;

pub use excerpt::{Excerpt, excerpt_meta};
pub use feed::{COUNTERS_LIMIT, Feed, FeedOptions, IdleEnd, SourceChoice, Taken};
pub use known_devices::KnownDevices;
pub use losses::{LossCounts, LossTally};
pub use name_lookup::NameLookup;
pub use outputs::{Closed, devices_from, moved};
pub use pressure::{PressureWatch, TimerWake};
pub use rebuild::complete_rollups;
pub use self_check::SelfCheck;
pub use session::{Outcome, Progress, RecordSummary, Session, SessionOptions};
pub use viewer::{Seen, View, Viewer, view};
