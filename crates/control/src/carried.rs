//! I/O that kernel worker threads submit to disks on behalf of a layer above (dm-crypt, parity RAID, loop).
//!
//! On the disks below such a layer the submitting task is a worker, not the process that caused the I/O. On the layer
//! itself the process is known. The owner is therefore read on the layer, and I/O of workers on the disks below counts
//! as the layer's, up to the amount that the layer was asked for. Anything beyond that has no known owner.

use std::collections::HashSet;
use std::path::Path;

use iolens_core::analysis::stacks::join::is_by_worker;
use iolens_core::model::{DevId, Io};
use iolens_observe::topology::Layer;

/// Kinds of layers through which an I/O keeps its task, its control group or at least its pages.
const TRANSPARENT: [&str; 9] = [
    "disk", "part", "lvm", "mpath", "path", "linear", "raid0", "raid1", "raid10",
];

/// Bytes that a layer and the file system below it may write for themselves in a window: superblocks, bitmaps, a
/// journal.
const OWN_BYTES: u64 = 256 << 10;

/// Bytes requested from a layer that may reach the disk in a later window: a loop device writes through the page
/// cache.
const MAX_DELAYED_BYTES: u64 = 1 << 30;

/// A layer whose I/O kernel workers submit to the disks below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carrier {
    /// Device number of the layer.
    pub dev: DevId,
    /// The disks at the bottom of the stack.
    pub disks: HashSet<DevId>,
    /// Upper bound of the bytes moved below per byte requested.
    factor: u64,
    /// Whether it has no requests of its own, so that its I/O is only visible as bios.
    pub is_bio_based: bool,
}

/// The topmost such layers of a stack; `None` if one of them has no device number and so cannot be traced.
pub fn carriers(layers: &[Layer]) -> Option<Vec<Carrier>> {
    let mut found = Vec::new();
    for layer in layers {
        if is_transparent(layer) {
            found.extend(carriers(&layer.below)?);
            continue;
        }
        let mut disks = HashSet::new();
        bottom(layer, &mut disks);
        found.push(Carrier {
            dev: layer.id?,
            disks,
            factor: factor(layer),
            is_bio_based: !Path::new("/sys/block")
                .join(&layer.name)
                .join("mq")
                .is_dir(),
        });
    }
    Some(found)
}

/// Whether an I/O on the device below still carries its submitter.
fn is_transparent(layer: &Layer) -> bool {
    let is_lowest_loop = layer.kind == "loop" && layer.below.is_empty();
    is_lowest_loop || TRANSPARENT.contains(&layer.kind.as_str())
}

fn bottom(layer: &Layer, into: &mut HashSet<DevId>) {
    if layer.below.is_empty() {
        into.extend(layer.id);
    }
    layer.below.iter().for_each(|l| bottom(l, into));
}

/// Upper bound of the bytes below per byte above. A small write to an array with parity reads and writes the data and
/// each parity block. A loop device reads ahead. The factors multiply in stacked layers.
fn factor(layer: &Layer) -> u64 {
    let own = match layer.kind.as_str() {
        "raid6" => 6,
        kind if kind.starts_with("raid") => 4,
        "loop" => 2,
        _ => 1,
    };
    let below = layer.below.iter().map(factor).max().unwrap_or(1);
    if layer.below.is_empty() {
        1
    } else {
        own * below
    }
}

/// Bytes requested from the layers, and bytes that workers moved below them, in a window.
#[derive(Debug, Default)]
pub struct Carried {
    carriers: Vec<Carrier>,
    asked_bytes: u64,
    worked_bytes: u64,
    /// Bytes carried over from earlier windows.
    delayed_bytes: u64,
}

impl Carried {
    pub fn new(carriers: Vec<Carrier>) -> Carried {
        Carried {
            carriers,
            ..Carried::default()
        }
    }

    /// Counts `io` if it is on such a layer. Returns the disks below that layer.
    pub fn asked(&mut self, io: &Io) -> Option<&HashSet<DevId>> {
        let carrier = self.carriers.iter().find(|c| c.dev == io.dev)?;
        let bytes = u64::try_from(io.bytes).unwrap_or(0);
        self.asked_bytes += bytes * carrier.factor;
        Some(&carrier.disks)
    }

    /// Whether a worker submitted this I/O to a disk below such a layer. If so, counts it.
    pub fn worked(&mut self, io: &Io) -> bool {
        let is_below = self.carriers.iter().any(|c| c.disks.contains(&io.dev));
        if !is_below || !is_by_worker(io) {
            return false;
        }
        self.worked_bytes += u64::try_from(io.bytes).unwrap_or(0);
        true
    }

    /// Whether workers moved more than the layers explain.
    pub fn is_more_than_asked(&self) -> bool {
        self.worked_bytes > self.asked_bytes + self.delayed_bytes + OWN_BYTES
    }

    /// Starts the next window.
    pub fn next_window(&mut self) {
        let asked = std::mem::take(&mut self.asked_bytes) + self.delayed_bytes;
        let left = asked.saturating_sub(std::mem::take(&mut self.worked_bytes));
        self.delayed_bytes = left.min(MAX_DELAYED_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(kind: &str, minor: u32, below: Vec<Layer>) -> Layer {
        Layer {
            name: format!("{kind}{minor}"),
            id: Some(DevId::new(9, minor)),
            kind: kind.to_owned(),
            label: None,
            below,
        }
    }

    #[test]
    fn the_topmost_layer_that_hides_submitters_is_watched() {
        let disks = || vec![layer("disk", 1, vec![]), layer("disk", 2, vec![])];
        assert_eq!(carriers(&disks()), Some(vec![]));
        assert_eq!(carriers(&[layer("raid1", 3, disks())]), Some(vec![]));
        assert_eq!(carriers(&[layer("loop", 3, vec![])]), Some(vec![]));
        let array = layer("raid5", 3, disks());
        let crypt = layer("crypt", 4, vec![array]);
        let found = carriers(&[layer("lvm", 5, vec![crypt])]).expect("a number each");
        let [carrier] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((carrier.dev, carrier.factor), (DevId::new(9, 4), 4));
        assert_eq!(
            carrier.disks,
            [DevId::new(9, 1), DevId::new(9, 2)].into(),
            "all of the array"
        );
        let hidden = Layer {
            id: None,
            ..layer("crypt", 4, disks())
        };
        assert_eq!(carriers(&[hidden]), None);
    }
}
