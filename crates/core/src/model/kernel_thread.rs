//! Recognises kernel threads by their names; recordings hold no flag for them.

/// The purpose of a kernel thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelThread {
    /// `kworker`: writes back, and works for file systems, layers, loop devices and network servers.
    Worker,
    /// `flush-8:0` of old kernels: writes back.
    Flusher,
    /// `kswapd`: frees memory.
    Swapper,
    /// `jbd2/sda1-8`: ext4's journal.
    Journal,
    /// `xfsaild`: XFS's log.
    XfsLog,
    /// Others of XFS.
    Xfs,
    /// Of Btrfs.
    Btrfs,
    /// Of ZFS: its transaction groups.
    Zfs,
    /// Of F2FS.
    F2fs,
    /// `ext4lazyinit`.
    Ext4Init,
    /// `md1_raid5`: submits the I/O that was requested of the array.
    Raid,
    /// `md1_resync`: synchronises the members of an array.
    RaidSync,
    /// `dmcrypt_write`: submits the I/O that was requested of the layer.
    DmCrypt,
    /// Others of the device mapper.
    DeviceMapper,
    /// Of a deduplicating volume.
    Vdo,
    /// `loop7` of old kernels: reads and writes the file of a loop device.
    Loop,
    /// The scheduler and memory management. I/O without a known process may be attributed to them.
    Other,
}

/// Name prefixes. Prefixes so short that names of programs begin with them are handled in [`KernelThread::of`].
const PREFIXES: [(&[u8], KernelThread); 17] = [
    (b"kworker", KernelThread::Worker),
    (b"kswapd", KernelThread::Swapper),
    (b"jbd2/", KernelThread::Journal),
    (b"xfsaild", KernelThread::XfsLog),
    (b"xfs-", KernelThread::Xfs),
    (b"btrfs-", KernelThread::Btrfs),
    (b"txg_sync", KernelThread::Zfs),
    (b"z_wr", KernelThread::Zfs),
    (b"f2fs_", KernelThread::F2fs),
    (b"ext4lazyinit", KernelThread::Ext4Init),
    (b"dmcrypt", KernelThread::DmCrypt),
    (b"dm-", KernelThread::DeviceMapper),
    (b"vdo", KernelThread::Vdo),
    (b"swapper/", KernelThread::Other),
    (b"ksoftirqd", KernelThread::Other),
    (b"kcompactd", KernelThread::Other),
    (b"khugepaged", KernelThread::Other),
];

impl KernelThread {
    /// The kernel thread with this name; `None` for programs such as `mdadm`, `md5sum` or `loopback`.
    pub fn of(name: &[u8]) -> Option<KernelThread> {
        if let Some(array) = name.strip_prefix(b"md") {
            return of_array(array);
        }
        if let Some(number) = name.strip_prefix(b"loop") {
            let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
            return is_number.then_some(KernelThread::Loop);
        }
        if let Some(device) = name.strip_prefix(b"flush-") {
            let is_device = device.first().is_some_and(u8::is_ascii_digit);
            return is_device.then_some(KernelThread::Flusher);
        }
        let (_, thread) = PREFIXES
            .iter()
            .find(|(prefix, _)| name.starts_with(prefix))?;
        Some(*thread)
    }

    /// Whether it submits I/O for programs that use the device above.
    pub fn submits_for_others(self) -> bool {
        match self {
            KernelThread::Worker
            | KernelThread::Raid
            | KernelThread::DmCrypt
            | KernelThread::DeviceMapper
            | KernelThread::Vdo => true,
            KernelThread::Flusher
            | KernelThread::Swapper
            | KernelThread::Journal
            | KernelThread::XfsLog
            | KernelThread::Xfs
            | KernelThread::Btrfs
            | KernelThread::Zfs
            | KernelThread::F2fs
            | KernelThread::Ext4Init
            | KernelThread::RaidSync
            | KernelThread::Loop
            | KernelThread::Other => false,
        }
    }
}

/// The array thread whose name continues like this after `md`: `1_raid5`, `_home_raid1`, `127_resync`.
fn of_array(name: &[u8]) -> Option<KernelThread> {
    if name.windows(5).any(|word| word == b"_raid") {
        return Some(KernelThread::Raid);
    }
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_task = digits > 0 && name.get(digits) == Some(&b'_');
    is_task.then_some(KernelThread::RaidSync)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_recognised_by_their_names() {
        for (name, thread) in [
            ("kworker/u4:1", KernelThread::Worker),
            ("kworker", KernelThread::Worker),
            ("jbd2/sda1-8", KernelThread::Journal),
            ("xfsaild/dm-0", KernelThread::XfsLog),
            ("btrfs-transacti", KernelThread::Btrfs),
            ("loop7", KernelThread::Loop),
            ("md127_raid1", KernelThread::Raid),
            ("md_home_raid10", KernelThread::Raid),
            ("md0_resync", KernelThread::RaidSync),
            ("flush-8:0", KernelThread::Flusher),
            ("kswapd0", KernelThread::Swapper),
            ("dmcrypt_write/2", KernelThread::DmCrypt),
            ("dm-thin", KernelThread::DeviceMapper),
            ("swapper/3", KernelThread::Other),
        ] {
            assert_eq!(KernelThread::of(name.as_bytes()), Some(thread), "{name}");
        }
    }

    #[test]
    fn programs_whose_names_begin_alike_are_none() {
        for name in [
            "postgres",
            "loopback",
            "loop",
            "mdadm",
            "md5sum",
            "mdatp",
            "dd",
            "fio",
            "flush-logs",
            "jbd2",
            "",
        ] {
            assert_eq!(KernelThread::of(name.as_bytes()), None, "{name}");
        }
    }
}
