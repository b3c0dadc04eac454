//! Block devices: identity, limits, and what lies under what.

/// A device number as recordings store it: `major << 20 | minor`, as inside the kernel (`MKDEV`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
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
        let number = |n: &str| n.parse().map_err(|_| NoDevId);
        Ok(DevId::new(number(major)?, number(minor)?))
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

/// A whole disk (or a layer that acts as one), as known when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Device {
    /// Kernel name (`nvme0n1`). Untrusted in imports: escape it where it is shown.
    pub name: String,
    /// Device number.
    pub id: DevId,
    /// How it takes I/O.
    pub kind: DeviceKind,
    /// A name that survives reboots: wwid, serial, dm or md name, loop backing file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_id: Option<String>,
    /// Model string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Spinning disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Logical block size.
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
    /// A device of which only name and number are known.
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
            partitions: Vec::new(),
            added_ns: None,
            removed_ns: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
