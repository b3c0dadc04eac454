use super::*;
use crate::model::{Comm, Inode, KernelThread, LossReason, Op, Raid};
use proptest::prelude::*;

const SDA: DevId = DevId(8 << 20);
const CRYPT: DevId = DevId(253 << 20);
const MD: DevId = DevId(9 << 20);
/// Offset in sectors of the upper device's data on the disk.
const OFFSET: i64 = 4096;

fn device(name: &str, id: DevId, slaves: &[&str]) -> Device {
    Device {
        slaves: slaves.iter().map(|s| (*s).to_owned()).collect(),
        ..Device::named(name, id)
    }
}

fn crypt() -> Vec<Device> {
    vec![device("dm-0", CRYPT, &["sda"]), device("sda", SDA, &[])]
}

/// A write of `sectors` at `sector`, in flight from `from` to `done`.
fn write(
    dev: DevId,
    (from, done): (i64, i64),
    sector: i64,
    sectors: i64,
    comm: &str,
    tgid: i32,
) -> Io {
    let file = Inode {
        fs_dev: 1,
        ino: 100 + i64::from(tgid),
        generation: None,
    };
    let thread = KernelThread::of(comm.as_bytes());
    let knows_file = !thread.is_some_and(KernelThread::submits_for_others);
    Io {
        sector: Some(sector),
        comm: Some(Comm::new(comm.as_bytes())),
        tgid: Some(tgid),
        cgroup: Some(i64::from(tgid)),
        flags: Some(0),
        origin: if knows_file {
            Origin::Direct
        } else {
            Origin::Unknown
        },
        ino: knows_file.then_some(file.ino),
        fs_dev: knows_file.then_some(file.fs_dev),
        ..Io::new(done, dev, Op::WRITE, sectors * 512, Some(0), done - from)
    }
}

fn join(devices: &[Device], lost: &[Lost], ios: Vec<Io>) -> Vec<Io> {
    join_reported(devices, lost, ios, true)
}

/// `knows_starts`: whether the recording knows the starts of later I/Os, unlike that of a killed recorder.
fn join_reported(
    devices: &[Device],
    lost: &[Lost],
    mut ios: Vec<Io>,
    knows_starts: bool,
) -> Vec<Io> {
    ios.sort_by_key(|io| io.done_ns);
    let mut join = StackJoin::new(devices, lost).expect("a stack");
    let mut out = Vec::new();
    let mut promised = i64::MIN;
    let mut rest = ios.clone();
    while !rest.is_empty() {
        let batch: Vec<Io> = rest.drain(..rest.len().min(64)).collect();
        let later_ns = match rest.iter().map(Io::start_ns).min() {
            Some(ns) => {
                if knows_starts {
                    ns
                } else {
                    i64::MIN
                }
            }
            None => i64::MAX,
        };
        let (decided, kept) = join.push(batch, later_ns);
        assert!(
            decided.iter().all(|io| io.start_ns() >= promised),
            "an I/O began earlier than promised"
        );
        out.extend(decided);
        promised = kept;
    }
    let strip = |io: &Io| (io.done_ns, io.dev, io.bytes, io.sector);
    assert!(
        out.iter().map(strip).eq(ios.iter().map(strip)),
        "every I/O once, in order"
    );
    out
}

/// Processes of the I/Os on the disk, by completion; `None`: no process.
fn on_disk(ios: &[Io]) -> Vec<Option<i32>> {
    ios.iter()
        .filter(|io| io.dev == SDA)
        .map(|io| io.tgid)
        .collect()
}

/// `n` writes above, 100 ns apart and 1000 ns long, by processes 1 and 2 in turn, and the worker's I/O for each.
fn two_writers(n: i64) -> Vec<Io> {
    let of = |i: i64| {
        let from = i * 100;
        let sector = (i * i * 7919 % 100_003) * 8;
        let tgid = 1 + (i % 2) as i32;
        let above = write(
            CRYPT,
            (from, from + 1000),
            sector,
            8,
            ["a", "b"][(i % 2) as usize],
            tgid,
        );
        [
            above,
            write(
                SDA,
                (from + 300, from + 900),
                sector + OFFSET,
                8,
                "dmcrypt_write/2",
                99,
            ),
        ]
    };
    (0..n).flat_map(of).collect()
}

#[test]
fn a_worker_stands_for_the_process_above() {
    let out = join(&crypt(), &[], two_writers(100));
    let expected: Vec<_> = (0..100).map(|i| Some(1 + i % 2)).collect();
    assert_eq!(on_disk(&out), expected);
    let below = out.iter().find(|io| io.dev == SDA).expect("one");
    assert_eq!(
        (below.origin, below.ino, below.cgroup),
        (Origin::Above, Some(101), Some(1))
    );
    assert_eq!(below.comm, Some(Comm::new(b"a")));
}

#[test]
fn without_knowledge_of_what_comes_only_places_name() {
    let slow = |io: &Io| Io {
        done_ns: io.done_ns * 1_000_000,
        device_ns: io.device_ns * 1_000_000,
        ..*io
    };
    let ios: Vec<Io> = two_writers(400).iter().map(slow).collect();
    let out = join_reported(&crypt(), &[], ios, false);
    let named = on_disk(&out);
    let is_right = |(i, tgid): (usize, &Option<i32>)| tgid.is_none_or(|t| t == 1 + (i % 2) as i32);
    assert!(named.iter().enumerate().all(is_right), "{named:?}");
    assert!(named.iter().flatten().count() > 350, "{named:?}");
}

#[test]
fn without_places_the_size_must_match_and_the_process_be_alone() {
    let scene = |others: &[Io], sectors: i64| {
        let mut ios = others.to_vec();
        ios.push(write(CRYPT, (0, 1000), 80, 16, "a", 1));
        ios.push(write(SDA, (300, 900), 7000, sectors, "kworker/u8:1", 99));
        on_disk(&join(&crypt(), &[], ios))
    };
    assert_eq!(scene(&[], 16), [Some(1)]);
    assert_eq!(
        scene(&[], 8),
        [None],
        "something else may have been written"
    );
    assert_eq!(
        scene(&[write(CRYPT, (100, 1100), 400, 16, "a", 1)], 16),
        [Some(1)],
        "the same process"
    );
    assert_eq!(
        scene(&[write(CRYPT, (100, 1100), 400, 16, "b", 2)], 16),
        [None],
        "two processes"
    );
    assert_eq!(
        scene(&[write(CRYPT, (950, 1100), 400, 16, "b", 2)], 16),
        [Some(1)],
        "not in flight together"
    );
    assert_eq!(
        scene(&[write(CRYPT, (0, 850), 400, 16, "b", 2)], 16),
        [Some(1)],
        "done before it"
    );
}

#[test]
fn what_a_worker_does_on_its_own_stays_its_own() {
    let mut ios = two_writers(100);
    ios.push(write(SDA, (2000, 2500), 16, 8, "dmcrypt_write/2", 99));
    ios.push(write(SDA, (50_000, 50_500), 16, 8, "kworker/0:1", 98));
    ios.push(write(SDA, (3000, 3500), 90, 8, "dd", 7));
    let out = join(&crypt(), &[], ios);
    let own: Vec<_> = out
        .iter()
        .filter(|io| io.dev == SDA && io.origin != Origin::Above)
        .collect();
    assert_eq!(
        own.iter().map(|io| io.tgid).collect::<Vec<_>>(),
        [Some(99), Some(7), Some(98)]
    );
}

#[test]
fn what_may_be_missing_above_names_nobody() {
    let lost = Lost {
        dev: Some(CRYPT),
        ..Lost::somewhere(500, 2000, LossReason::RingFull)
    };
    let one = vec![
        write(CRYPT, (0, 1000), 80, 8, "a", 1),
        write(SDA, (300, 900), 7000, 8, "dmcrypt_write/2", 99),
    ];
    assert_eq!(on_disk(&join(&crypt(), &[lost], one)), [None]);
    let lost = Lost {
        dev: Some(CRYPT),
        ..Lost::somewhere(0, 100_000, LossReason::RingFull)
    };
    let out = join(&crypt(), &[lost], two_writers(100));
    assert!(
        on_disk(&out)[50..].iter().all(|t| matches!(t, Some(1 | 2))),
        "its place shows whose it is"
    );
}

#[test]
fn pieces_merges_and_two_layers_are_followed() {
    let devices = [
        device("md1", MD, &["dm-0"]),
        device("dm-0", CRYPT, &["sda"]),
        device("sda", SDA, &[]),
    ];
    let of = |i: i64| {
        let from = i * 2000;
        let sector = (i * i * 7919 % 100_003) * 64;
        let tgid = 1 + (i % 3) as i32;
        let elsewhere = (i * i * 104_729 % 99_991) * 64 + (1 << 30);
        let other = write(MD, (from, from + 1900), elsewhere, 32, "x", 50 + tgid);
        [
            write(MD, (from, from + 1800), sector, 32, "w", tgid),
            other,
            write(
                CRYPT,
                (from + 100, from + 1700),
                sector + 64,
                16,
                "md1_raid1",
                90,
            ),
            write(
                CRYPT,
                (from + 100, from + 1650),
                sector + 80,
                16,
                "md1_raid1",
                90,
            ),
            write(
                SDA,
                (from + 300, from + 1600),
                sector + 64 + OFFSET,
                32,
                "dmcrypt_write/2",
                99,
            ),
        ]
    };
    let out = join(&devices, &[], (0..60).flat_map(of).collect());
    let expected: Vec<_> = (0..60).map(|i| Some(1 + i % 3)).collect();
    assert_eq!(on_disk(&out), expected);
}

#[test]
fn members_of_a_raid5_belong_to_who_wrote_the_stripe() {
    let raid = Raid {
        level: "raid5".to_owned(),
        disks: 3,
        chunk_bytes: 65_536,
        layout: 2,
    };
    let devices = [
        Device {
            raid: Some(raid),
            ..device("md5", MD, &["sda"])
        },
        device("sda", SDA, &[]),
    ];
    let of = |i: i64| {
        let from = i * 500;
        let sector = (i * i * 7919 % 100_003) * 8;
        let tgid = 1 + (i % 2) as i32;
        let member = sector / 256 * 128 + sector % 128 + OFFSET;
        let read = Io {
            op: Op::READ,
            ..write(SDA, (from + 100, from + 400), member, 8, "md5_raid5", 99)
        };
        [
            write(MD, (from, from + 1000), sector, 8, "w", tgid),
            read,
            write(SDA, (from + 500, from + 900), member, 8, "md5_raid5", 99),
        ]
    };
    let out = join(&devices, &[], (0..100).flat_map(of).collect());
    let named = |op| {
        out.iter()
            .filter(move |io| io.dev == SDA && io.op == op)
            .map(|io| io.tgid)
    };
    assert!(named(Op::WRITE).eq((0..100).map(|i| Some(1 + i % 2))));
    assert!(named(Op::READ).eq((0..100).map(|i| Some(1 + i % 2))));
}

#[test]
fn a_number_that_is_given_again_is_another_device() {
    let later = 200_000;
    let devices = [
        Device {
            removed_ns: Some(later),
            ..device("dm-0", CRYPT, &["sda"])
        },
        Device {
            added_ns: Some(later),
            ..device("dm-0", CRYPT, &["sda"])
        },
        device("sda", SDA, &[]),
    ];
    let moved = |io: Io| match io.dev {
        SDA => Io {
            done_ns: io.done_ns + later,
            sector: io.sector.map(|s| s + (1 << 20)),
            ..io
        },
        _ => Io {
            done_ns: io.done_ns + later,
            ..io
        },
    };
    let ios: Vec<Io> = two_writers(100)
        .into_iter()
        .chain(two_writers(100).into_iter().map(moved))
        .collect();
    assert!(
        on_disk(&join(&devices, &[], ios))
            .into_iter()
            .eq((0..200).map(|i| Some(1 + i % 2)))
    );
}

#[test]
fn devices_without_a_layer_between_need_no_join() {
    let disk = Device {
        partitions: vec![("sda1".to_owned(), DevId(SDA.0 + 1))],
        ..device("sda", SDA, &[])
    };
    // A loop device on a file in memory is on no disk.
    assert!(StackJoin::new(&[disk, device("loop0", DevId(7 << 20), &[])], &[]).is_none());
}

const GUEST: DevId = DevId(7 << 20);
/// The backing file of a guest's loop device.
const IMAGE: Inode = Inode {
    fs_dev: 2,
    ino: 7,
    generation: None,
};

fn guest() -> Vec<Device> {
    vec![device("loop0", GUEST, &["sda"]), device("sda", SDA, &[])]
}

/// Runs [`two_writers`] in a guest.
fn in_guest(mut ios: Vec<Io>) -> Vec<Io> {
    for io in &mut ios {
        if io.dev == CRYPT {
            io.dev = GUEST;
        } else {
            io.comm = Some(Comm::new(b"kworker/u8:1"));
            io.ino = Some(IMAGE.ino);
            io.fs_dev = Some(IMAGE.fs_dev);
        }
    }
    ios
}

/// Reads of a guest's file become I/O of the loop device's backing file, which is another file.
#[test]
fn a_guest_in_a_file_is_named_on_the_disk() {
    let out = join(&guest(), &[], in_guest(two_writers(100)));
    let expected: Vec<_> = (0..100).map(|i| Some(1 + i % 2)).collect();
    assert_eq!(on_disk(&out), expected);
    let below = out.iter().find(|io| io.dev == SDA).expect("one");
    assert_eq!((below.origin, below.inode()), (Origin::Above, Some(IMAGE)));
}

/// A file has many extents; the position is known for only one of them.
#[test]
fn where_no_place_is_known_the_size_names_who_uses_a_file_past_the_page_cache() {
    let mut ios = in_guest(two_writers(200));
    for (i, both) in ios.chunks_mut(2).enumerate() {
        if i % 2 == 1 {
            both.iter_mut().for_each(|io| io.bytes = 64 * 512);
        }
        if i >= 150 {
            both[1].sector = both[1].sector.map(|sector| sector + 5000 * i as i64);
        }
        both[1].origin = Origin::Direct;
    }
    let expected: Vec<_> = (0..200).map(|i| Some(1 + i % 2)).collect();
    assert_eq!(on_disk(&join(&guest(), &[], ios.clone())), expected);
    // Through the page cache, I/Os have any size; only at the end a single process is left.
    for io in &mut ios {
        io.origin = Origin::BufferedRead;
    }
    let cached = on_disk(&join(&guest(), &[], ios));
    assert_eq!(cached[..150], expected[..150]);
    assert_eq!(cached[150..199], [Some(99); 49]);
}

fn readahead_in(ios: &[Io]) -> Io {
    let mut larger = ios.iter().filter(|io| io.bytes == 64 * 512);
    *larger.next().expect("one")
}

/// For read-ahead of a loop device through the page cache the file is known; below dm nothing is.
#[test]
fn what_is_ambiguous_stays_the_loop_devices() {
    let mut ios = two_writers(4);
    ios.push(write(SDA, (450, 950), 1_000_000, 64, "kworker/u8:1", 99));
    let below_dm = readahead_in(&join(&crypt(), &[], ios.clone()));
    assert_eq!((below_dm.tgid, below_dm.origin), (None, Origin::Above));
    let below_loop = readahead_in(&join(&guest(), &[], in_guest(ios)));
    assert_eq!(
        (below_loop.tgid, below_loop.inode()),
        (Some(99), Some(IMAGE))
    );
}

proptest! {
    /// Whatever the positions: a named process had an I/O in flight on the device above during the whole device time of
    /// the lower I/O, and nothing but the attribution changes.
    #[test]
    fn nobody_is_named_who_has_nothing_open(
        above in prop::collection::vec((0i64..3000, 1i64..400, 0i64..40, 1i64..4, 1i32..4), 0..60),
        below in prop::collection::vec((0i64..3000, 1i64..200, 0i64..40, 1i64..4, any::<bool>()), 0..60),
        lost in prop::collection::vec((0i64..3000, 1i64..100), 0..2),
    ) {
        let mut ios: Vec<Io> = above
            .iter()
            .map(|(from, len, at, n, tgid)| write(CRYPT, (*from, from + len), at * 8, n * 8, "p", *tgid))
            .collect();
        ios.extend(below.iter().map(|(from, len, at, n, worker)| {
            let comm = if *worker { "dmcrypt_write/2" } else { "dd" };
            write(SDA, (*from, from + len), at * 8 + OFFSET, n * 8, comm, 99)
        }));
        let lost: Vec<Lost> = lost
            .iter()
            .map(|(from, len)| Lost { dev: Some(CRYPT), ..Lost::somewhere(*from, from + len, LossReason::Unseen) })
            .collect();
        let out = join(&crypt(), &lost, ios.clone());
        for io in out.iter().filter(|io| io.origin == Origin::Above) {
            let open = |u: &&Io| u.dev == CRYPT && u.start_ns() <= io.issue_ns() && u.done_ns >= io.done_ns;
            prop_assert!(io.dev == SDA);
            if let Some(tgid) = io.tgid {
                prop_assert!(ios.iter().filter(open).any(|u| u.tgid == Some(tgid)));
            }
        }
    }
}
