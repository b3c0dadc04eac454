//! Maps numbers to names: block devices and their stacks from `/sys/block`, the host from `/proc` and `/sys`, the mount
//! table, and the disks below a path.
//!
//! Everything is read under a root, so a container's `/host` or a saved tree works like the live machine.

mod cgroups;
mod devices;
mod handle;
mod host;
mod mountpath;
mod mounts;
mod names;
mod pods;
mod process;
mod settings;
mod stack;

pub use cgroups::{CgroupMember, Cgroups};
pub use devices::{Lookup, Topology};
pub use host::Host;
pub use mountpath::{MountPath, Resolver};
pub use mounts::{Mount, MountTable, MountWatch, canonical_under, join_under};
pub use names::PathLookup;
pub use pods::Pods;
pub use process::{
    boottime_ns, lower_this_thread, make_this_thread_ordinary, own_cost, prefer_this_thread,
    return_freed_memory, thread_cpu_s, wall_clock_ns,
};
pub use settings::read_settings;
pub use stack::{Disk, Layer};

/// A made-up `/proc` and `/sys`: files by their paths below the root, with their content.
#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("temporary directory");
    for (path, content) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("mkdir");
        std::fs::write(path, content).expect("write");
    }
    root
}
