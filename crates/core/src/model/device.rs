//! Block devices: identity, limits, and stacking.

use std::collections::BTreeSet;

use super::Below;

/// A device number as recordings store it: `major << 20 | minor`, as inside the kernel (`MKDEV`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct DevId(pub i32);

impl DevId {
    /// From major and minor number.
    pub fn new(major: u32, minor: u32) -> DevId {
        DevId((major << 20 | (minor & 0xf_ffff)) as i32)
    }

    /// Major number.
    pub fn major(self) -> u32 {
        (self.0 as u32) >> 20
    }

    /// Minor number.
    pub fn minor(self) -> u32 {
        self.0 as u32 & 0xf_ffff
    }
}

impl std::fmt::Display for DevId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major(), self.minor())
    }
}

/// Text that is no `MAJOR:MINOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no device number; it is MAJOR:MINOR")]
pub struct NoDevId;

impl std::str::FromStr for DevId {
    type Err = NoDevId;

    /// From what [`Display`](std::fmt::Display) and sysfs write: `MAJOR:MINOR`.
    fn from_str(text: &str) -> Result<DevId, NoDevId> {
        let (major, minor) = text.split_once(':').ok_or(NoDevId)?;
        let major = major.parse().map_err(|_| NoDevId)?;
        let minor = minor.parse().map_err(|_| NoDevId)?;
        Ok(DevId::new(major, minor))
    }
}

/// How a device takes I/O, which decides how it can be traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// Through blk-mq requests (disks, loop, virtio, nvme).
    Request,
    /// Through bios only (dm, md, zram, brd, multipath heads).
    Bio,
    /// The source did not say.
    Unknown,
}

/// How an md array spreads its data over its members (`/sys/block/mdN/md`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Raid {
    /// `raid0`, `raid1`, `raid5` and so on, as the kernel writes it.
    pub level: String,
    /// Members that it has when none is missing.
    pub disks: u32,
    /// Chunk size in bytes: how much is stored on one member before the next; 0 if the array is not striped.
    #[serde(default)]
    pub chunk_bytes: u64,
    /// The RAID level's own number for the layout of parity or copies.
    #[serde(default)]
    pub layout: u32,
}

impl Raid {
    /// raid10 with two copies side by side.
    const NEAR_2: u32 = 0x102;

    /// Number of data chunks side by side in a stripe; `None` if the array is not striped or its layout is not
    /// supported here.
    pub fn data_disks(&self) -> Option<u32> {
        let disks = match self.level.as_str() {
            "raid0" => self.disks,
            "raid4" | "raid5" => self.disks.checked_sub(1)?,
            "raid6" => self.disks.checked_sub(2)?,
            "raid10" if self.layout == Self::NEAR_2 && self.disks.is_multiple_of(2) => {
                self.disks / 2
            }
            _ => return None,
        };
        (disks > 0).then_some(disks)
    }

    /// Whether the level has parity, so that a write may have to read first.
    pub fn has_parity(&self) -> bool {
        matches!(self.level.as_str(), "raid4" | "raid5" | "raid6")
    }
}

/// A whole disk (or a layer that acts as one), as known when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// Kernel name (`nvme0n1`). Untrusted in imports: escape it where it is shown.
    pub name: String,
    /// Device number (major:minor).
    pub id: DevId,
    /// How it takes I/O.
    pub kind: DeviceKind,
    /// A name that survives reboots: wwid, serial, dm or md name, loop backing file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_id: Option<String>,
    /// Model string from sysfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Capacity in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether the disk spins (`queue/rotational`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Logical block size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_block_bytes: Option<u32>,
    /// Largest request that the kernel sends it (`queue/max_sectors_kb`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<u64>,
    /// Requests it may have in flight (`queue/nr_requests`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// The active I/O scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// `queue/iostats`: whether the kernel accounts its I/O at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iostats: Option<bool>,
    /// Names of the devices right under it (dm, md, loop's disk).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slaves: Vec<String>,
    /// Of an md array, how it spreads its data over those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
    /// Names of its partitions with their device numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<(String, DevId)>,
    /// When it appeared, in nanoseconds since the recording's start; `None`: before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ns: Option<i64>,
    /// When it went away, in nanoseconds since the recording's start; `None`: it was there at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_ns: Option<i64>,
}

impl Device {
    /// A device with only name and number known.
    pub fn named(name: impl Into<String>, id: DevId) -> Device {
        Device {
            name: name.into(),
            id,
            kind: DeviceKind::Unknown,
            stable_id: None,
            model: None,
            size_bytes: None,
            rotational: None,
            logical_block_bytes: None,
            max_request_bytes: None,
            nr_requests: None,
            scheduler: None,
            iostats: None,
            slaves: Vec::new(),
            raid: None,
            partitions: Vec::new(),
            added_ns: None,
            removed_ns: None,
        }
    }
}

impl Device {
    /// Whether I/O of this device passes through `lower`: it is stacked on `lower` or on a partition of it, or it is a
    /// partition of `lower`. Devices of imported tables have names only, so their names decide.
    pub fn is_above(&self, lower: &Device) -> bool {
        self.slaves.iter().any(|slave| lower.contains(slave))
            || lower.partitions.iter().any(|(_, id)| *id == self.id)
            || (!self.is_sum() && !lower.is_sum() && self.is_called_above(lower))
    }

    /// Whether `name` is that of the device or of one of its partitions.
    fn contains(&self, name: &str) -> bool {
        self.name == name || self.partitions.iter().any(|(part, _)| part == name)
    }

    fn is_called_above(&self, lower: &Device) -> bool {
        is_partition_name(&self.name, &lower.name)
            || (self.is_imported()
                && lower.is_imported()
                && is_layer_above(&self.name, &lower.name))
    }

    /// The controller or host through which the device is reached, if its name shows it: `nvme0` for `nvme0n1`, or the
    /// host in a log of several hosts.
    pub fn behind(&self) -> Option<&str> {
        let (host, name) = host_and_name(&self.name);
        host.or_else(|| nvme_controller(name))
    }

    /// Whether the number is made up, because the imported log knows only the name.
    pub(super) fn is_imported(&self) -> bool {
        self.id.major() == 0
    }

    /// Whether this is not a device but an aggregate: a table's sum over devices, or the application's view of its
    /// files.
    pub fn is_sum(&self) -> bool {
        self.stable_id
            .as_deref()
            .is_some_and(|s| s.starts_with("aggregate:"))
    }
}

/// `nvme0` of `nvme0n1`.
fn nvme_controller(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("nvme")?;
    let number = &rest[..rest.find('n')?];
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| &name[.."nvme".len() + number.len()])
}

/// Maximum number of lower devices that are listed by name.
const MAX_NAMED: usize = 24;

/// The devices that sums over all devices must leave out, each with the names of the recorded devices below it (at most
/// 24, then `...`). An I/O through a stack is seen on each layer. It is counted on the lowest recorded one, so a device
/// is left out if any device below it, directly or through other layers, is `recorded`.
pub fn layers_above(
    devices: &[Device],
    recorded: impl Fn(DevId) -> bool,
) -> Vec<(&Device, Vec<&str>)> {
    let below = Below::new(devices);
    let mut above = Vec::new();
    for device in devices {
        let mut met = BTreeSet::from([device.id]);
        let mut under = Vec::new();
        let mut upper = vec![device];
        while let Some(layer) = upper.pop().filter(|_| under.len() <= MAX_NAMED) {
            for lower in below.of(layer) {
                if under.len() > MAX_NAMED || !met.insert(lower.id) {
                    continue;
                }
                if recorded(lower.id) {
                    under.push(if under.len() < MAX_NAMED {
                        &*lower.name
                    } else {
                        "..."
                    });
                } else {
                    upper.push(lower);
                }
            }
        }
        if !under.is_empty() {
            above.push((device, under));
        }
    }
    above
}

/// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`, `ata-NAME-part1` of `ata-NAME`.
fn is_partition_name(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else {
        return false;
    };
    let digits = match rest.strip_prefix("-part") {
        Some(digits) => Some(digits),
        None if disk.ends_with(|c: char| c.is_ascii_digit()) => rest.strip_prefix('p'),
        None => Some(rest),
    };
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

/// The names for which [`is_partition_name`] can be true.
pub(super) fn disks_of_partition_name(name: &str) -> impl Iterator<Item = &str> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let disks = [
        Some(base),
        base.strip_suffix("-part"),
        base.strip_suffix('p'),
    ];
    disks
        .into_iter()
        .flatten()
        .filter(move |_| base.len() < name.len())
}

/// Whether `upper` is named like a layer (dm, LVM, md, loop) and `lower` like a disk of the same host. Imported tables
/// do not list how devices are stacked, but I/O of a layer reaches disks.
fn is_layer_above(upper: &str, lower: &str) -> bool {
    const LAYERS: [&str; 10] = [
        "dm-", "md", "bcache", "drbd", "loop", "emcpower", "mpath", "luks-", "lvm-", "zd",
    ];
    let (host, upper) = host_and_name(upper);
    let (other_host, lower) = host_and_name(lower);
    // `md` and `zd` are followed by a number, or by a hyphen in stable names. LVM names contain a hyphen in the middle.
    let layer = LAYERS
        .iter()
        .filter_map(|l| upper.strip_prefix(l))
        .any(|rest| !rest.starts_with(char::is_alphabetic));
    let named = upper.contains('-') || upper.starts_with("dm-") || upper.starts_with("mpath");
    host == other_host && is_disk_name(lower) && !is_disk_name(upper) && (layer || named)
}

/// Splits a name at the host that imports of several hosts put in front (`HOST/NAME`). `cciss/c0d0` has no host.
pub(super) fn host_and_name(name: &str) -> (Option<&str>, &str) {
    const DIRECTORIES: [&str; 3] = ["cciss", "ida", "rd"];
    match name.split_once('/') {
        Some((host, rest)) if !DIRECTORIES.contains(&host) => (Some(host), rest),
        _ => (None, name),
    }
}

/// Whether a name is one that the kernel or udev (stable names) gives to disks.
pub(super) fn is_disk_name(name: &str) -> bool {
    const STABLE: [&str; 7] = ["ata-", "scsi-", "wwn-", "nvme-", "usb-", "virtio-", "pci-"];
    const LETTERED: [&str; 5] = ["sd", "hd", "vd", "xvd", "dasd"];
    const NUMBERED: [&str; 7] = ["nvme", "mmcblk", "rbd", "nbd", "pmem", "cciss/c", "ida/c"];
    STABLE.iter().any(|s| name.starts_with(s))
        || LETTERED
            .iter()
            .filter_map(|l| name.strip_prefix(l))
            .any(is_lower_case)
        || NUMBERED
            .iter()
            .filter_map(|l| name.strip_prefix(l))
            .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_lower_case(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_imports_identify_partitions_and_layers() {
        let is_above = |upper: &str, lower: &str| {
            Device::named(upper, DevId::new(0, 1)).is_above(&Device::named(lower, DevId::new(0, 2)))
        };
        for (upper, lower) in [
            ("sda1", "sda"),
            ("nvme0n1p3", "nvme0n1"),
            ("ata-X_1-part2", "ata-X_1"),
            ("dm-0", "sda"),
            ("vg0-root", "nvme0n1"),
            ("mpatha", "sdb"),
            ("md127", "sdb"),
            ("loop3", "vda"),
            ("dm-1", "cciss/c0d0"),
            ("a/dm-0", "a/sda"),
        ] {
            assert!(is_above(upper, lower), "{upper} on {lower}");
            assert!(!is_above(lower, upper), "{lower} on {upper}");
        }
        for (upper, lower) in [
            ("sdaa", "sda"),
            ("sda", "sdb"),
            ("dm-0", "dm-1"),
            ("a/dm-0", "b/sda"),
            ("dm-0", "sr0"),
            ("sr0", "sda"),
            ("zram0", "sda"),
            ("md10", "sd0"),
        ] {
            assert!(!is_above(upper, lower), "{upper} on {lower}");
        }
        let real = Device::named("dm-0", DevId::new(253, 0));
        assert!(
            !real.is_above(&Device::named("sda", DevId::new(8, 0))),
            "recorded devices list their lower devices"
        );
    }

    #[test]
    fn an_io_counts_on_the_lowest_layer_that_was_recorded() {
        let device = |name: &str, minor, slaves: &[&str]| Device {
            slaves: slaves.iter().map(|s| (*s).to_owned()).collect(),
            ..Device::named(name, DevId::new(8, minor))
        };
        let mut disk = device("sda", 0, &[]);
        disk.partitions = vec![("sda2".to_owned(), DevId::new(8, 2))];
        let stack = [
            device("loop0", 7, &["dm-0"]),
            device("dm-0", 9, &["md0"]),
            device("md0", 8, &["sda2", "sdb"]),
            disk,
            device("sdb", 16, &[]),
        ];
        let left_out = |recorded: &[u32]| {
            let above = layers_above(&stack, |dev| recorded.contains(&dev.minor()));
            above
                .into_iter()
                .map(|(d, under)| format!("{} on {}", d.name, under.join(" ")))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            left_out(&[0, 7, 8, 9, 16]),
            ["loop0 on dm-0", "dm-0 on md0", "md0 on sda sdb"]
        );
        assert_eq!(
            left_out(&[7, 9, 16]),
            ["loop0 on dm-0", "dm-0 on sdb", "md0 on sdb"],
            "past a layer not recorded"
        );
        assert_eq!(
            left_out(&[9]),
            ["loop0 on dm-0"],
            "disks that are listed only hide nothing"
        );
        assert_eq!(left_out(&[]), [""; 0]);
    }

    #[test]
    fn arrays_know_how_many_members_hold_data() {
        let raid = |level: &str, disks, layout| Raid {
            level: level.to_owned(),
            disks,
            chunk_bytes: 65_536,
            layout,
        };
        let data = |level, disks, layout| raid(level, disks, layout).data_disks();
        assert_eq!(
            [
                data("raid0", 2, 0),
                data("raid4", 3, 0),
                data("raid5", 3, 2)
            ],
            [Some(2), Some(2), Some(2)]
        );
        assert_eq!(
            [
                data("raid6", 6, 2),
                data("raid10", 4, 0x102),
                data("raid1", 2, 0)
            ],
            [Some(4), Some(2), None]
        );
        assert_eq!(
            [
                data("raid10", 4, 0x201),
                data("raid10", 3, 0x102),
                data("raid5", 1, 2)
            ],
            [None; 3]
        );
        assert!(raid("raid6", 4, 2).has_parity() && !raid("raid1", 2, 0).has_parity());
    }

    #[test]
    fn numbers_survive_the_round_trip() {
        for (major, minor) in [(254, 0), (7, 1_048_575), (259, 17), (2047, 5)] {
            let id = DevId::new(major, minor);
            assert_eq!((id.major(), id.minor()), (major, minor));
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "8", "8:", ":0", "8:x", "8:0:1", "-1:0"] {
            assert_eq!(text.parse::<DevId>(), Err(NoDevId), "{text:?}");
        }
    }
}
