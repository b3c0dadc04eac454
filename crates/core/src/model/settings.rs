//! Settings of the machine during a recording (queues, mounts, write-back). Advice refers to them, and they explain
//! waits that the block layer does not show.

use super::DevId;

/// `settings` of `meta.json`: the settings when the recording began, read again after devices appeared or disappeared.
/// A field is empty if the kernel does not provide it. The kernel's release is in [`super::RecordingMeta::kernel`].
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// CPUs that were online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Version of the cgroup hierarchy that has the io controller: 1 (`blkio`) or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_controller: Option<u32>,
    /// When dirty pages are written back.
    #[serde(default)]
    pub writeback: WritebackSettings,
    /// The queues of the recorded devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueSettings>,
    /// The file systems on recorded devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountSettings>,
    /// The btrfs file systems on recorded devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub btrfs: Vec<BtrfsSettings>,
}

impl Settings {
    /// The queue of a device.
    pub fn queue(&self, dev: DevId) -> Option<&QueueSettings> {
        self.queues.iter().find(|q| q.dev == dev)
    }

    /// The file systems that lie on a device, directly or through layers above it.
    pub fn mounts_on(&self, dev: DevId) -> impl Iterator<Item = &MountSettings> {
        self.mounts.iter().filter(move |m| m.devices.contains(&dev))
    }

    /// The mount of the file system with device number `fs_dev`, as I/Os have it.
    pub fn mount_of(&self, fs_dev: DevId) -> Option<&MountSettings> {
        self.mounts.iter().find(|m| m.fs_dev == fs_dev)
    }

    /// The devices that hold one btrfs together with `dev`; none if it has no other.
    pub fn btrfs_peers(&self, dev: DevId) -> &[DevId] {
        let together = self.btrfs.iter().find(|b| b.devices.contains(&dev));
        together.map_or(&[], |b| &b.devices)
    }

    /// Removes everything that names files: mount points, sources and labels of file systems.
    pub fn hide_names(&mut self) {
        for mount in &mut self.mounts {
            mount.mount_point = None;
            mount.source = None;
            mount.options = None;
        }
        for btrfs in &mut self.btrfs {
            btrfs.label = None;
        }
    }
}

/// `/proc/sys/vm/dirty_*`, by the kernel's names. Each limit exists as a ratio and in bytes; the one that is not 0
/// applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct WritebackSettings {
    /// Percent of the available memory that may be dirty before writers are throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_ratio: Option<u64>,
    /// The same in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_bytes: Option<u64>,
    /// Percent of the available memory above which background write-back runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_background_ratio: Option<u64>,
    /// The same in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_background_bytes: Option<u64>,
    /// Age in hundredths of a second after which dirty pages are written back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_expire_centisecs: Option<u64>,
    /// Interval in hundredths of a second at which write-back looks for such pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_writeback_centisecs: Option<u64>,
    /// The resulting limit for writers in bytes (`nr_dirty_threshold` of `/proc/vmstat`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_threshold_bytes: Option<u64>,
    /// The resulting limit for background write-back in bytes (`nr_dirty_background_threshold`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_background_threshold_bytes: Option<u64>,
}

/// `queue/` of a device in sysfs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueSettings {
    /// The device of the queue.
    pub dev: DevId,
    /// The active I/O scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Requests it may have in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u64>,
    /// `wbt_lat_usec`: write-back is throttled if reads take longer than this many microseconds; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wbt_lat_us: Option<i64>,
    /// Read-ahead window for sequential reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
    /// `write back` (the device has a volatile cache) or `write through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// Whether the disk spins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// CPU that completions run on (`rq_affinity`): 0 wherever they arrive, 1 in the group of the submitting CPU, 2 on
    /// that CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rq_affinity: Option<u64>,
    /// Largest request that the kernel sends it (`max_sectors_kb`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<u64>,
    /// iocost's line of this device in `io.cost.qos`, without its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iocost_qos: Option<String>,
    /// iocost's line of this device in `io.cost.model`, without its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iocost_model: Option<String>,
}

impl QueueSettings {
    /// A queue without known settings.
    pub fn of(dev: DevId) -> QueueSettings {
        QueueSettings {
            dev,
            scheduler: None,
            nr_requests: None,
            wbt_lat_us: None,
            read_ahead_bytes: None,
            write_cache: None,
            rotational: None,
            rq_affinity: None,
            max_request_bytes: None,
            iocost_qos: None,
            iocost_model: None,
        }
    }
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MountSettings {
    /// Its device number, as I/Os of its files have it.
    pub fs_dev: DevId,
    /// The devices below it: whole disks and all layers between.
    #[serde(default)]
    pub devices: Vec<DevId>,
    /// Mount point; of several, the one that shows most of the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// The mounted source, as given to mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `ext4`, `xfs`, `btrfs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs_type: Option<String>,
    /// Options of the mount and of the file system, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
}

/// A btrfs with its devices.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BtrfsSettings {
    /// Its UUID.
    pub uuid: String,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The devices that form it, as whole disks.
    #[serde(default)]
    pub devices: Vec<DevId>,
    /// How data is spread over them: `single`, `raid1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_profile: Option<String>,
    /// The same for metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_profile: Option<String>,
}

/// Limits of a control group with I/O, at one moment. There is one row for the group itself ([`CgroupSample::dev`] is
/// `None`) and one for each device with settings. A limit is `None` if it is not set.
///
/// Under cgroup v2 a group is identified by its id, as in I/Os. The limits of an ancestor apply to all its descendants
/// together. Under cgroup v1 I/Os do not carry the id of the limited group; it is identified by a process in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CgroupSample {
    /// When it was read, in nanoseconds since the recording's start.
    pub at_ns: i64,
    /// Its id under cgroup v2; under v1 that of the v2 group of process [`CgroupSample::tgid`].
    pub cgroup: Option<i64>,
    /// Under cgroup v1 a process in the group that did I/O; else `None`.
    pub tgid: Option<i32>,
    /// Path of the group within its hierarchy.
    pub path: String,
    /// For which device the limits hold; `None`: this row is of the group as a whole.
    pub dev: Option<DevId>,
    /// `rbps` of `io.max`: bytes read per second.
    pub read_bytes_per_s: Option<i64>,
    /// `wbps`: bytes written per second.
    pub write_bytes_per_s: Option<i64>,
    /// `riops`: reads per second.
    pub read_ios_per_s: Option<i64>,
    /// `wiops`: writes per second.
    pub write_ios_per_s: Option<i64>,
    /// Target of `io.latency` in nanoseconds.
    pub latency_target_ns: Option<i64>,
    /// `io.weight`, of the device or as the group's default.
    pub weight: Option<i64>,
    /// `memory.max` in bytes. This and all following fields are set in the group's row only.
    pub memory_max: Option<i64>,
    /// `memory.high` in bytes.
    pub memory_high: Option<i64>,
    /// How often the group's memory was about to exceed `memory.max` or `memory.high`, since the group was created;
    /// `None` without such a limit.
    pub memory_limit_hits: Option<i64>,
    /// Bytes that were evicted and read again (page cache and swap), since the group was created; `None` without such a
    /// limit.
    pub refaulted_bytes: Option<i64>,
    /// Time since boot in which at least one task of the group waited for I/O (`some` of `io.pressure`).
    pub io_some_ns: Option<i64>,
    /// Time since boot in which all tasks of the group that were not idle waited for I/O (`full`).
    pub io_full_ns: Option<i64>,
}

impl CgroupSample {
    /// Whether it sets a limit on rates of I/O.
    pub fn limits_rate(&self) -> bool {
        let limits = [
            self.read_bytes_per_s,
            self.write_bytes_per_s,
            self.read_ios_per_s,
            self.write_ios_per_s,
        ];
        limits.iter().any(Option::is_some)
    }

    /// Whether both have the same settings, regardless of reading times and counters.
    pub fn is_set_like(&self, other: &CgroupSample) -> bool {
        self.without_counters() == other.without_counters()
    }

    /// The settings alone, with time and counters cleared.
    fn without_counters(&self) -> CgroupSample {
        CgroupSample {
            at_ns: 0,
            memory_limit_hits: None,
            refaulted_bytes: None,
            io_some_ns: None,
            io_full_ns: None,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_not_known_are_left_out_and_read_as_unknown() {
        let unknown: Settings = serde_json::from_str("{}").expect("all fields are optional");
        assert_eq!(unknown, Settings::default());
        let text = serde_json::to_string(&unknown).expect("it is plain");
        assert_eq!(text, r#"{"writeback":{}}"#);
    }

    #[test]
    fn a_btrfs_says_which_devices_belong_together() {
        let [a, b, c] = [1, 2, 3].map(|minor| DevId::new(8, minor));
        let settings = Settings {
            btrfs: vec![BtrfsSettings {
                uuid: "u".to_owned(),
                label: None,
                devices: vec![a, b],
                data_profile: None,
                metadata_profile: None,
            }],
            ..Settings::default()
        };
        assert_eq!(settings.btrfs_peers(b), [a, b]);
        assert!(settings.btrfs_peers(c).is_empty());
    }

    #[test]
    fn hidden_names_leave_numbers_and_types() {
        let mut settings = Settings {
            mounts: vec![MountSettings {
                fs_dev: DevId::new(8, 1),
                devices: vec![DevId::new(8, 0)],
                mount_point: Some("/home/ann".to_owned()),
                source: Some("/dev/sda1".to_owned()),
                fs_type: Some("ext4".to_owned()),
                options: Some("rw,usrjquota=secret".to_owned()),
            }],
            ..Settings::default()
        };
        settings.hide_names();
        let mount = settings.mounts_on(DevId::new(8, 0)).next();
        assert_eq!(mount.and_then(|m| m.fs_type.as_deref()), Some("ext4"));
        let text = serde_json::to_string(&settings).expect("it is plain");
        assert!(!text.contains("ann") && !text.contains("secret"), "{text}");
    }
}
