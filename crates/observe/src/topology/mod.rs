//! Names for numbers: block devices and their stacks from `/sys/block`, the host from `/proc` and `/sys`.
//!
//! Everything is read under a root, so that a container's `/host` or a saved tree works like the live machine.

mod devices;
mod handle;
mod host;
mod mounts;
mod names;
mod process;

pub use devices::{Lookup, Topology};
pub use host::Host;
pub use names::Names;
pub use process::{boottime_ns, own_cost, prefer_this_thread, wall_clock_ns};
