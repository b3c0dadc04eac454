#![allow(clippy::unwrap_used)]
use super::*;
use crate::model::{Comm, Op};
use proptest::prelude::*;

const S: i64 = 1_000_000_000;
const DEV: DevId = DevId(8 << 20);
const OTHER: DevId = DevId(9 << 20);

fn group(path: &str, id: i64) -> CgroupSample {
    CgroupSample {
        cgroup: Some(id),
        path: path.to_owned(),
        ..CgroupSample::default()
    }
}

fn reads_per_s(of: &CgroupSample, limit: i64) -> CgroupSample {
    CgroupSample {
        dev: Some(DEV),
        read_ios_per_s: Some(limit),
        ..of.clone()
    }
}

/// What tasks waited by the beginning, every ten seconds, and by the end.
fn pressure(of: &CgroupSample, end_ns: i64, share: f64) -> Vec<CgroupSample> {
    let mut times: Vec<i64> = (0..end_ns / (10 * S)).map(|i| i * 10 * S).collect();
    times.push(end_ns);
    let at = |at_ns: i64| CgroupSample {
        at_ns,
        io_some_ns: Some(7 * S + (at_ns as f64 * share) as i64),
        ..of.clone()
    };
    times.into_iter().map(at).collect()
}

fn read(done_ns: i64, device_ns: i64, cgroup: i64) -> Io {
    let mut io = Io::new(done_ns, DEV, Op::READ, 4096, Some(0), device_ns);
    io.cgroup = Some(cgroup);
    io.tgid = Some(77);
    io
}

/// Reads at an even pace, each `device_ns` in flight.
fn paced(per_s: f64, end_ns: i64, device_ns: i64, cgroup: i64) -> Vec<Io> {
    let step_ns = 1e9 / per_s;
    let n = (end_ns as f64 / step_ns) as i64;
    let at = |i: i64| ((i + 1) as f64 * step_ns) as i64;
    (0..n).map(|i| read(at(i), device_ns, cgroup)).collect()
}

fn judge(samples: &[CgroupSample], ios: &[Io]) -> Vec<OwnLimit> {
    let mut builder = OwnLimitsBuilder::new(samples, Window::OPEN);
    builder.consume(ios, i64::MIN);
    builder.finish()
}

fn held(samples: &[CgroupSample], ios: &[Io]) -> Held {
    let limits = judge(samples, ios);
    assert_eq!(limits.len(), 1, "{limits:?}");
    limits[0].held
}

#[test]
fn a_group_at_its_limit_that_waits_above_the_block_layer_is_held() {
    let a = group("/a", 7);
    let mut samples = vec![a.clone(), reads_per_s(&a, 100)];
    samples.extend(pressure(&a, 30 * S, 0.98));
    let limits = judge(&samples, &paced(100.0, 30 * S, S / 5000, 7));
    assert_eq!(limits.len(), 1);
    let limit = &limits[0];
    assert_eq!((limit.held, limit.limit_per_s), (Held::Yes, 100));
    assert_eq!(
        (limit.rate, limit.rate.key()),
        (LimitedRate::ReadIos, "riops")
    );
    assert!((limit.rate_per_s - 100.0).abs() < 1.5, "{limit:?}");
    assert!(limit.flat_ns() >= 28 * S, "{limit:?}");
    assert_eq!(limit.flat_ns_in(Window::new(5 * S, 9 * S)), 4 * S);
    assert!((limit.waited_share.unwrap() - 0.98).abs() < 0.01);
    // 2 % of the time are reads in flight.
    assert!((limit.unseen_share.unwrap() - 0.96 / 0.98).abs() < 0.02);
}

#[test]
fn a_device_that_is_as_fast_as_the_limit_is_what_is_waited_for() {
    let a = group("/a", 7);
    let mut samples = vec![a.clone(), reads_per_s(&a, 100)];
    samples.extend(pressure(&a, 30 * S, 0.98));
    let ios = paced(100.0, 30 * S, S / 100, 7);
    assert_eq!(held(&samples, &ios), Held::NotWaiting);
}

#[test]
fn a_group_that_does_not_wait_is_not_held_and_one_without_pressure_probably() {
    let a = group("/a", 7);
    let mut samples = vec![a.clone(), reads_per_s(&a, 100)];
    let ios = paced(100.0, 30 * S, S / 5000, 7);
    assert_eq!(held(&samples, &ios), Held::Probably);
    samples.extend(pressure(&a, 30 * S, 0.1));
    assert_eq!(held(&samples, &ios), Held::NotWaiting);
}

#[test]
fn groups_below_count_together_and_others_do_not() {
    let top = group("/a", 7);
    let mut samples = vec![reads_per_s(&top, 100)];
    samples.extend([group("/a/b", 8), group("/a/c", 9), group("/ab", 10)]);
    let mut ios = paced(50.0, 20 * S, S / 5000, 8);
    ios.extend(paced(50.0, 20 * S, S / 5000, 9));
    ios.extend(paced(500.0, 20 * S, S / 5000, 10));
    let mut elsewhere = paced(500.0, 20 * S, S / 5000, 8);
    elsewhere.iter_mut().for_each(|io| io.dev = OTHER);
    ios.extend(elsewhere);
    ios.sort_by_key(|io| io.done_ns);
    let limits = judge(&samples, &ios);
    assert_eq!(limits.len(), 1, "{limits:?}");
    assert_eq!(limits[0].held, Held::Probably);
    assert!((limits[0].rate_per_s - 100.0).abs() < 3.0, "{limits:?}");
}

#[test]
fn under_v1_the_process_says_which_group_is_limited() {
    let v1 = CgroupSample {
        tgid: Some(77),
        ..group("/backup", 1)
    };
    let samples = [v1.clone(), reads_per_s(&v1, 100)];
    let mut ios = paced(100.0, 20 * S, S / 5000, 1);
    assert_eq!(held(&samples, &ios), Held::Probably);
    for io in ios.iter_mut().step_by(6) {
        io.tgid = Some(9);
        io.comm = Some(Comm::new(b"kworker/1:2"));
    }
    assert_eq!(
        held(&samples, &ios),
        Held::Probably,
        "what was held back is handed on by a worker"
    );
    ios.iter_mut().for_each(|io| {
        io.tgid = Some(78);
        io.comm = None;
    });
    assert!(
        judge(&samples, &ios).is_empty(),
        "another process of that v2 group"
    );
}

#[test]
fn a_limit_that_changes_is_the_one_of_its_time() {
    let a = group("/a", 7);
    let later = CgroupSample {
        at_ns: 10 * S,
        ..reads_per_s(&a, 200)
    };
    let samples = [reads_per_s(&a, 100), later];
    let mut ios = paced(100.0, 10 * S, S / 5000, 7);
    let mut second = paced(200.0, 10 * S, S / 5000, 7);
    second.iter_mut().for_each(|io| io.done_ns += 10 * S);
    ios.extend(second);
    let limits = judge(&samples, &ios);
    assert!(limits[0].flat_ns() >= 18 * S, "{limits:?}");
    assert_eq!(limits[0].limit_per_s, 200);
}

#[test]
fn merged_ios_count_as_the_kernel_charges_them() {
    let a = group("/a", 7);
    let mut ios = paced(25.0, 20 * S, S / 5000, 7);
    ios.iter_mut().for_each(|io| io.merges = Some(3));
    assert_eq!(held(&[reads_per_s(&a, 100)], &ios), Held::Probably);
}

#[test]
fn busy_time_is_the_union_of_what_is_in_flight() {
    let mut busy = BusyTime::default();
    busy.add(5, 6);
    busy.add(2, 3);
    busy.add(0, 10);
    busy.add(S - 4, S + 6);
    let seconds = busy.finish();
    assert_eq!(seconds, BTreeMap::from([(0, 14), (1, 6)]));
    let mut many = BusyTime::default();
    (0..3 * 4096).for_each(|i| many.add(i * 10, i * 10 + 4));
    assert_eq!(many.finish().values().sum::<i64>(), 3 * 4096 * 4);
}

proptest! {
    /// The tolerance: within half of it a rate is flat at the limit, beyond one and a half it is not.
    #[test]
    fn rates_are_at_the_limit_within_the_tolerance(limit in 3i64..3000, off in -0.04f64..0.04, below in 0.3f64..0.85) {
        let a = group("/a", 7);
        let samples = [reads_per_s(&a, limit)];
        let bin_s = bin_length_s(limit, 1).unwrap();
        let end_ns = 8 * bin_s * S;
        let at_limit = judge(&samples, &paced(limit as f64 * (1.0 + off), end_ns, 1000, 7));
        prop_assert_eq!(at_limit[0].held, Held::Probably);
        prop_assert!(at_limit[0].flat_ns() >= 7 * bin_s * S);
        let slower = judge(&samples, &paced(limit as f64 * below, end_ns, 1000, 7));
        prop_assert_eq!(slower[0].held, Held::No);
        prop_assert!(slower[0].flat.is_empty());
    }

    /// Limits of bytes, with I/Os of any size that come in any grouping which the kernel's slices of 100 ms allow.
    #[test]
    fn bytes_are_at_the_limit_however_they_come_within_a_slice(
        ios_per_slice in 3i64..40,
        bytes in 512i64..262_144,
        late_ns in prop::collection::vec(0i64..90_000_000, 64),
    ) {
        let limit = ios_per_slice * bytes * 10;
        let limited = CgroupSample { dev: Some(DEV), read_bytes_per_s: Some(limit), ..group("/a", 7) };
        let mut ios = Vec::new();
        for slice in 0..100 {
            for i in 0..ios_per_slice {
                let late = late_ns[((slice + i) % 64) as usize];
                let mut io = read(slice * S / 10 + late, 1000, 7);
                io.bytes = bytes;
                ios.push(io);
            }
        }
        ios.sort_by_key(|io| io.done_ns);
        let limits = judge(&[limited], &ios);
        prop_assert_eq!(limits[0].held, Held::Probably);
        prop_assert!((limits[0].rate_per_s / limit as f64 - 1.0).abs() < 0.02);
    }
}

/// A bio of 8 MiB waits as one and becomes sixteen requests at once: one second lets two pass, the next one three.
#[test]
fn bios_of_megabytes_pass_a_limit_of_bytes_one_by_one() {
    let a = group("/a", 7);
    let limit = CgroupSample {
        dev: Some(DEV),
        read_bytes_per_s: Some(20 << 20),
        ..a.clone()
    };
    let mut ios = Vec::new();
    for bio in 1..150 {
        for request in 0..16 {
            let mut io = read(bio * 2 * S / 5 + request * 50_000, S / 5000, 7);
            io.bytes = 512 << 10;
            ios.push(io);
        }
    }
    assert_eq!(held(&[a, limit], &ios), Held::Probably);
}
