//! Attribution against what would have happened without the culprit, and its bookkeeping.

pub(in crate::analysis) mod simulator;

use proptest::prelude::*;

use super::*;
use crate::analysis::timeline::GroupKey;
use crate::model::{Class, Comm, LossReason, Op, Origin};
use simulator::{Device, Job, Limit, MS, Order, SECONDS, bursts, dev, poisson, requests};

/// Reads of 4 KiB at random places that take a little more or less than `work_ns`.
fn victims(per_s: f64, work_ns: i64) -> Vec<Job> {
    requests(7, "shop", Op::READ, per_s, work_ns)
}

/// A stream of reads that takes `load` of one server.
fn scan(load: f64, work_ns: i64) -> Vec<Job> {
    let per_s = load * 1e9 / work_ns as f64;
    poisson(11, SECONDS, per_s, |_, at_ns| Job {
        at_ns,
        work_ns,
        bytes: 256 << 10,
        op: Op::READ,
        sector: at_ns / 1000,
        who: "scan",
    })
}

fn waits(ios: &[Io]) -> DeviceVictims {
    let mut builder = WaitsBuilder::new(Window::new(0, i64::MAX));
    for io in ios {
        builder.push(io);
    }
    let mut devices = builder.finish();
    assert_eq!(devices.len(), 1);
    devices.remove(0)
}

/// Sums over the I/Os of one program.
#[derive(Debug, Default)]
struct Felt {
    io_time_s: f64,
    behind_s: f64,
    own_s: f64,
    held_s: f64,
    device_s: f64,
}

fn felt_by(who: &str, behind: &str, waits: &DeviceVictims) -> Felt {
    let is = |group: &Group, name: &str| {
        let comm = group.program.and_then(|p| p.comm);
        comm.is_some_and(|c| c.as_bytes() == name.as_bytes())
    };
    let mut felt = Felt::default();
    for victim in waits.victims.iter().filter(|v| is(&v.group, who)) {
        felt.io_time_s += victim.time.total_ns() as f64 / 1e9;
        felt.own_s += victim.time.own_ns as f64 / 1e9;
        felt.held_s += victim.time.held_ns as f64 / 1e9;
        felt.device_s += victim.time.device_ns as f64 / 1e9;
        for cause in victim.behind.iter().filter(|b| is(&b.group, behind)) {
            felt.behind_s += cause.ns as f64 / 1e9;
        }
    }
    felt
}

fn io_time_s(ios: &[Io], who: &str) -> f64 {
    let mut sum = 0.0;
    for io in ios {
        if io.comm.is_some_and(|c| c.as_bytes() == who.as_bytes()) {
            sum += io.total_ns() as f64 / 1e9;
        }
    }
    sum
}

/// (harm by intervention, what was attributed) of `culprit` to "shop".
fn harm_and_felt(device: &Device, victims: Vec<Job>, culprit: Vec<Job>) -> (f64, Felt) {
    let who = culprit[0].who;
    let without = device.serve(victims.clone());
    let mut all = victims;
    all.extend(culprit);
    let with = device.serve(all);
    let harm_s = io_time_s(&with, "shop") - io_time_s(&without, "shop");
    (harm_s, felt_by("shop", who, &waits(&with)))
}

fn assert_agrees(model: &str, device: &Device, victims: Vec<Job>, culprit: Vec<Job>) {
    let (harm_s, felt) = harm_and_felt(device, victims, culprit);
    let share = felt.behind_s / harm_s;
    println!("{model}: harm {harm_s:.2} s, {felt:.2?}, share {share:.2}");
    assert!(
        (0.6..=1.05).contains(&share),
        "{model}: {harm_s} s, {felt:?}"
    );
}

#[test]
fn what_bursts_cost_is_attributed_to_them_on_every_device_model() {
    let fifo = Device::fifo(1);
    let sharing = Device {
        order: Order::Sharing,
        ..Device::fifo(1)
    };
    let elevator = Device {
        order: Order::Elevator,
        ..Device::fifo(1)
    };
    let batched = Device {
        batch: 16,
        ..Device::fifo(1)
    };
    let tags = Device {
        tags: 8,
        ..Device::fifo(1)
    };
    let few_tags = Device {
        tags: 2,
        ..Device::fifo(1)
    };
    let devices = [
        ("fifo", fifo),
        ("sharing", sharing),
        ("elevator", elevator),
        ("batched", batched),
        ("8 tags", tags),
        ("2 tags", few_tags),
        ("4 servers", Device::fifo(4)),
    ];
    for (model, device) in &devices {
        let reads = victims(100.0, MS);
        assert_agrees(model, device, reads, bursts(20, 2500 * MS, 5 * MS));
    }
}

#[test]
fn what_a_scan_costs_is_attributed_to_it() {
    for load in [0.2, 0.48, 0.6] {
        let reads = victims(100.0, MS);
        let model = format!("scan at {load}");
        assert_agrees(&model, &Device::fifo(1), reads, scan(load, 5 * MS));
    }
}

#[test]
fn what_a_queue_costs_on_a_volume_out_of_credit_is_attributed_to_it() {
    for per_s in [100.0, 1000.0] {
        let device = Device {
            limit: Some(Limit {
                burst_ios: 2000.0,
                interval_ns: 1e9 / per_s,
            }),
            ..Device::fifo(1)
        };
        let reads = victims(30.0, MS / 10);
        let model = format!("volume of {per_s} I/Os a second");
        assert_agrees(&model, &device, reads, bursts(3000, 25_000 * MS, MS / 10));
    }
}

#[test]
fn writes_beside_a_device_that_prefers_reads_wait_for_them() {
    let device = Device {
        order: Order::ReadsFirst,
        ..Device::fifo(1)
    };
    let mut writes = victims(100.0, MS);
    for job in &mut writes {
        job.op = Op::WRITE;
    }
    assert_agrees("reads first", &device, writes, scan(0.5, 5 * MS));
}

#[test]
fn on_many_servers_no_process_is_blamed() {
    let device = Device::fifo(32);
    let reads = victims(2000.0, MS);
    let (harm_s, felt) = harm_and_felt(&device, reads, bursts(8, 500 * MS, 5 * MS));
    println!("32 servers: harm {harm_s:.3} s, {felt:.3?}");
    assert!(harm_s.abs() < 0.01 * felt.io_time_s);
    assert!(felt.behind_s < 0.03 * felt.io_time_s, "{felt:?}");
}

/// What its program noticed of the excess of all reads of "player", of the part of its file that is read ahead every 60 ms, and what
/// they had. A part comes late behind writes of `work_ns` each that come five at a time.
fn noticed_and_excess_s(work_ns: i64) -> (f64, f64) {
    let sectors = 256;
    let mut jobs = bursts(5, 400 * MS, work_ns);
    for part in 0..SECONDS * 1000 / 60 {
        jobs.push(Job {
            at_ns: part * 60 * MS,
            work_ns: 2 * MS,
            bytes: 512 * sectors,
            op: Op::READ,
            sector: part * sectors,
            who: "player",
        });
    }
    let mut ios = Device::fifo(1).serve(jobs);
    for io in ios.iter_mut().filter(|io| io.op == Op::READ) {
        io.origin = Origin::Readahead;
    }
    let waits = waits(&ios);
    let mut effects = waits.felt.effects.iter();
    let reads = effects
        .find(|e| e.class == Class::Read)
        .expect("what was noticed");
    assert_eq!(
        reads.sums.time.total_ns(),
        (io_time_s(&ios, "player") * 1e9).round() as i64
    );
    let mut victims = waits.victims.iter();
    let all = victims
        .find(|v| v.group.class == Class::Read)
        .expect("waits of reads");
    let noticed_s = reads.sums.time.excess_ns() as f64 / 1e9;
    let excess_s = all.time.excess_ns() as f64 / 1e9;
    (noticed_s, excess_s)
}

#[test]
fn what_is_read_ahead_is_late_only_if_its_program_gets_there_before() {
    // 58 ms are to spare.
    let (noticed_s, excess_s) = noticed_and_excess_s(6 * MS);
    println!("up to 30 ms late: {noticed_s:.3} of {excess_s:.2} s");
    assert!(noticed_s < 0.02 * excess_s && excess_s > 0.5);
    let (noticed_s, excess_s) = noticed_and_excess_s(30 * MS);
    println!("up to 150 ms late: {noticed_s:.3} of {excess_s:.2} s");
    assert!((0.3..0.8).contains(&(noticed_s / excess_s)));
}

#[test]
fn a_pause_is_the_devices_own() {
    let device = Device {
        pauses: vec![(20_000 * MS, 300 * MS), (40_000 * MS, 300 * MS)],
        ..Device::fifo(1)
    };
    let reads = victims(100.0, MS);
    let mut all = reads.clone();
    all.extend(scan(0.1, MS));
    let calm = io_time_s(&Device::fifo(1).serve(all.clone()), "shop");
    let with = device.serve(all);
    let harm_s = io_time_s(&with, "shop") - calm;
    let felt = felt_by("shop", "scan", &waits(&with));
    println!("pause: harm {harm_s:.2} s, {felt:.2?}");
    // What queued up meanwhile is worked off afterwards: that part of the harm is waited behind each other.
    assert!(felt.device_s > 0.7 * harm_s, "{harm_s} {felt:?}");
    assert!(felt.behind_s < 0.25 * harm_s, "{harm_s} {felt:?}");
}

#[test]
fn a_forced_write_that_completes_with_its_flush_takes_none_of_the_flushs_work() {
    let mut ios = Vec::new();
    let mut add = |who: &str, op: Op, bytes: i64, from_us: i64, to_us: i64| {
        let latency_ns = (to_us - from_us) * 1000;
        let mut io = Io::new(to_us * 1000, dev(), op, bytes, Some(0), latency_ns);
        io.comm = Some(Comm::new(who.as_bytes()));
        io.tgid = Some(if who == "shop" { 1 } else { 2 });
        ios.push(io);
    };
    for round in 0..200 {
        let at_us = 50_000 * round;
        add("shop", Op::READ, 4096, at_us, at_us + 300);
        for write in 1..6 {
            let from_us = at_us + 1000 * write;
            add("logger", Op::WRITE, 4096, from_us, from_us + 300);
        }
        add("logger", Op::FLUSH, 0, at_us + 10_000, at_us + 20_000);
        add("logger", Op::WRITE, 4096, at_us + 9_900, at_us + 20_050);
        add("shop", Op::READ, 4096, at_us + 12_000, at_us + 20_400);
    }
    let felt = felt_by("shop", "logger", &waits(&ios));
    // It waited for 8 ms each time.
    assert!((1.4..=1.62).contains(&felt.behind_s), "{felt:?}");
    assert!(felt.device_s < 0.2, "{felt:?}");
}

#[test]
fn workers_of_a_pool_become_one_group_and_a_few_processes_stay_apart() {
    let mut builder = WaitsBuilder::new(Window::new(0, i64::MAX));
    for i in 0..1000i64 {
        for (comm, processes) in [("pool", 20), ("few", 3)] {
            let mut io = Io::new((i + 1) * MS, dev(), Op::READ, 4096, Some(0), MS / 4);
            io.comm = Some(Comm::new(comm.as_bytes()));
            io.tgid = Some((i % processes) as i32);
            builder.push(&io);
        }
    }
    let devices = builder.finish();
    let named = |name: &str| {
        let is_it = |v: &&Victim| {
            v.group
                .program
                .and_then(|p| p.comm)
                .is_some_and(|c| c.as_bytes() == name.as_bytes())
        };
        devices[0].victims.iter().filter(is_it).count()
    };
    assert_eq!(named("pool"), 1);
    assert_eq!(named("few"), 3);
}

#[test]
fn processes_without_names_stay_apart() {
    let mut builder = WaitsBuilder::new(Window::new(0, i64::MAX));
    for i in 0..1000i64 {
        let mut io = Io::new((i + 1) * MS, dev(), Op::READ, 4096, Some(0), MS / 4);
        io.tgid = Some((i % 20) as i32);
        io.cgroup = Some(5);
        builder.push(&io);
    }
    let devices = builder.finish();
    let mut numbers = Vec::new();
    for victim in &devices[0].victims {
        numbers.extend(victim.group.program.and_then(|p| p.tgid));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<i32>>());
}

#[test]
fn what_waits_through_a_loss_has_no_known_cause() {
    let mut builder = WaitsBuilder::new(Window::new(0, i64::MAX));
    let quiet = |at_ms: i64| Io::new(at_ms * MS, dev(), Op::READ, 4096, Some(0), MS / 10);
    for at_ms in 1..100 {
        builder.push(&quiet(at_ms));
    }
    builder.lost(&Lost::somewhere(110 * MS, 120 * MS, LossReason::RingFull));
    builder.push(&Io::new(150 * MS, dev(), Op::READ, 4096, Some(0), 45 * MS));
    let devices = builder.finish();
    let victim = &devices[0].victims[0];
    assert_eq!(victim.time.device_ns, 0);
    assert_eq!(victim.time.unknown_ns, 45 * MS - MS / 10);
}

/// An I/O that lasts: (start after the one before it, queue, device, bytes, who).
fn any_ios() -> impl Strategy<Value = Vec<Io>> {
    let one = (
        0i64..2_000_000,
        prop_oneof![Just(0i64), 0i64..10_000_000],
        prop_oneof![0i64..100_000, 0i64..50_000_000],
        0usize..3,
        0u8..40,
        prop_oneof![Just(Op::READ), Just(Op::WRITE), Just(Op::FLUSH)],
    );
    prop::collection::vec(one, 1..600).prop_map(|all| {
        let mut at_ns = 0;
        let mut ios = Vec::new();
        for (gap_ns, queue_ns, device_ns, size, who, op) in all {
            at_ns += gap_ns;
            let bytes = [4096, 65_536, 1 << 20][size];
            let done_ns = at_ns + queue_ns + device_ns;
            let mut io = Io::new(done_ns, dev(), op, bytes, Some(queue_ns), device_ns);
            io.comm = Some(Comm::new(&[b'a' + who]));
            ios.push(io);
        }
        ios.sort_by_key(|io| io.done_ns);
        ios
    })
}

proptest! {
    #[test]
    fn the_parts_add_up_to_the_latencies_to_the_nanosecond(
        ios in any_ios(),
        lost_at in prop::option::of(0i64..500_000_000),
    ) {
        let mut builder = WaitsBuilder::new(Window::new(0, i64::MAX));
        if let Some(at_ns) = lost_at {
            builder.lost(&Lost::somewhere(at_ns, at_ns + 1_000_000, LossReason::RingFull));
        }
        for io in &ios {
            builder.push(io);
        }
        let devices = builder.finish();
        let mut io_time_ns = 0;
        let mut seen = 0;
        for victim in devices.iter().flat_map(|d| &d.victims) {
            let behind_ns: i64 = victim.behind.iter().map(|b| b.ns).sum();
            let parts = [
                victim.time.undisturbed_ns,
                behind_ns,
                victim.time.own_ns,
                victim.time.held_ns,
                victim.time.device_ns,
                victim.time.unknown_ns,
            ];
            prop_assert!(parts.iter().all(|p| *p >= 0), "{victim:?}");
            prop_assert_eq!(parts.iter().sum::<i64>(), victim.time.total_ns());
            io_time_ns += victim.time.total_ns();
            seen += victim.ios;
        }
        prop_assert_eq!(seen, ios.len() as u64);
        let total_ns: i64 = ios.iter().map(Io::total_ns).sum();
        prop_assert_eq!(io_time_ns, total_ns);
    }

    #[test]
    fn parts_that_each_see_some_devices_find_the_same_as_one_that_sees_all(
        ios in any_ios(),
        disks in 1i32..6,
        parts in 1u32..5,
        lost_at in prop::option::of(0i64..500_000_000),
    ) {
        let window = Window::new(0, i64::MAX);
        let mut whole = WaitsBuilder::new(window);
        let mut divided = WaitsOfSome::parts(window, parts);
        if let Some(at_ns) = lost_at {
            let lost = Lost::somewhere(at_ns, at_ns + 1_000_000, LossReason::RingFull);
            whole.lost(&lost);
            divided.iter_mut().for_each(|part| part.lost(&lost));
        }
        for mut io in ios {
            // So few programs that stretches are kept of each pair.
            io.comm = Some(Comm::new(&[b'a' + io.bytes.ilog2() as u8 % 4]));
            io.dev = DevId((io.device_ns % i64::from(disks)) as i32);
            whole.push(&io);
            for part in &mut divided {
                part.consume(&[io], i64::MIN);
            }
        }
        prop_assert_eq!(WaitsOfSome::finish(divided), whole.finish());
    }
}

/// Reads of a shop, of which some wait behind a scan.
fn shop_and_scan() -> Vec<Io> {
    let mut jobs = victims(100.0, MS);
    jobs.extend(scan(0.4, 5 * MS));
    jobs.sort_by_key(|job| job.at_ns);
    Device::fifo(1).serve(jobs)
}

/// The parts of a victim, those behind others as one.
fn parts_of(victim: &Victim) -> [i64; 7] {
    [
        victim.ios as i64,
        victim.time.undisturbed_ns,
        victim.behind.iter().map(|b| b.ns).sum(),
        victim.time.own_ns,
        victim.time.held_ns,
        victim.time.device_ns,
        victim.time.unknown_ns,
    ]
}

fn add_parts<'a>(victims: impl IntoIterator<Item = &'a Victim>) -> [i64; 7] {
    let mut sums = [0; 7];
    for victim in victims {
        for (sum, part) in sums.iter_mut().zip(parts_of(victim)) {
            *sum += part;
        }
    }
    sums
}

#[test]
fn intervals_and_single_ios_add_up_to_the_same_as_all_of_it() {
    let ios = shop_and_scan();
    let window = Window::new(3_000 * MS, 9_000 * MS);
    let mut all = WaitsBuilder::new(window);
    let mut bins = WaitBinsBuilder::new(window, Grouping::Process, 0, 700 * MS);
    let mut singles = IoWaitsBuilder::new(window);
    for io in &ios {
        all.push(io);
        bins.push(io);
        singles.push(io);
    }
    let all = all.finish().remove(0);
    let bins = bins.finish();
    assert!(
        bins.len() == 9 && bins[1].from_ns == 3_500 * MS,
        "{}",
        bins.len()
    );
    let of_bins = bins.iter().flat_map(|b| &b.victims);
    assert_eq!(add_parts(of_bins), add_parts(&all.victims));

    let inside: Vec<&Io> = ios
        .iter()
        .filter(|io| window.contains(io.done_ns))
        .collect();
    let waits = singles.finish();
    assert_eq!(waits.len(), inside.len());
    let mut sums = [0; 7];
    for (io, wait) in inside.iter().zip(&waits) {
        let parts = [
            1,
            wait.time.undisturbed_ns,
            wait.time.others_ns,
            wait.time.own_ns,
            wait.time.held_ns,
            wait.time.device_ns,
            wait.time.unknown_ns,
        ];
        assert_eq!(parts[1..].iter().sum::<i64>(), io.total_ns(), "{io:?}");
        assert_eq!(wait.behind.is_some(), wait.time.others_ns > 0);
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum += part;
        }
    }
    assert_eq!(sums, add_parts(&all.victims));
    assert!(sums[2] > 0, "nothing waited for the scan: {sums:?}");
}

#[test]
fn by_files_and_by_control_groups_those_are_who_waits() {
    let mut ios = shop_and_scan();
    for io in &mut ios {
        let is_shop = io.comm.is_some_and(|c| c.as_bytes() == b"shop");
        io.cgroup = Some(if is_shop { 7 } else { 8 });
        io.fs_dev = Some(8);
        io.ino = Some(if is_shop { 70 } else { 80 });
    }
    let by = |grouping| {
        let mut builder = WaitsBuilder::by(grouping, Window::new(0, i64::MAX));
        ios.iter().for_each(|io| builder.push(io));
        builder.finish().remove(0)
    };
    let by_file = by(Grouping::File);
    let worst = &by_file.victims[0];
    let ino = |group: &Group| group.file.map(|file| file.ino);
    assert_eq!(ino(&worst.group), Some(70));
    assert_eq!(ino(&worst.behind[0].group), Some(80));
    let by_cgroup = by(Grouping::Cgroup);
    let worst = &by_cgroup.victims[0];
    let program = |group: &Group| group.program.expect("a program");
    assert_eq!(program(&worst.group).cgroup, Some(7));
    assert_eq!(program(&worst.group).comm, None);
    assert_eq!(program(&worst.behind[0].group).cgroup, Some(8));
}

/// The sums of all intervals, by device, class and cause.
fn totals(bins: &[WaitBin]) -> WaitTotals {
    let mut totals = WaitTotals::default();
    for bin in bins {
        totals.add(bin);
    }
    totals
}

/// Intervals of a second that leave while the stream runs, and the rest.
fn taken_while_running(ios: &[Io]) -> Vec<WaitBin> {
    let mut builder = WaitBinsBuilder::running(1000 * MS);
    let mut bins = Vec::new();
    for io in ios {
        builder.push(io);
        bins.extend(builder.take_until(io.done_ns));
    }
    bins.extend(builder.finish());
    bins
}

#[test]
fn intervals_that_leave_while_the_stream_runs_hold_what_all_together_hold() {
    let mut jobs = victims(100.0, MS);
    jobs.extend(bursts(20, 2500 * MS, 5 * MS));
    let ios = Device::fifo(1).serve(jobs);
    let mut builder = WaitBinsBuilder::new(
        Window::new(i64::MIN, i64::MAX),
        Grouping::Process,
        0,
        1000 * MS,
    );
    for io in &ios {
        builder.push(io);
    }
    let whole = totals(&builder.finish());
    let running = totals(&taken_while_running(&ios));
    let latency_ns: i64 = ios.iter().map(Io::total_ns).sum();
    let mut sum_ns = 0;
    for class in Class::ALL {
        for cause in TimeOwner::ALL {
            let expected = whole.ns(dev(), class, cause);
            let ns = running.ns(dev(), class, cause);
            sum_ns += ns;
            // While it runs, the levels are learned from fewer I/Os ahead.
            let difference = (ns - expected).abs() as f64;
            let most = 0.03 * latency_ns as f64;
            assert!(difference < most, "{class:?} {cause:?}: {ns} {expected}");
        }
    }
    assert_eq!(sum_ns, latency_ns);
    assert!(running.ns(dev(), Class::Read, TimeOwner::Others) > 1000 * MS);
}

#[test]
fn an_io_that_takes_longer_than_it_is_held_waits_for_the_device_and_not_above_it() {
    let io = |done_ns, device_ns| Io::new(done_ns, dev(), Op::READ, 4096, Some(0), device_ns);
    let mut ios: Vec<Io> = (1..2000).map(|i| io(i * 10 * MS, MS)).collect();
    ios.insert(999, io(10_001 * MS, 7_000 * MS));
    let totals = totals(&taken_while_running(&ios));
    let device_ns = totals.ns(dev(), Class::Read, TimeOwner::Device);
    assert!(device_ns > 5_000 * MS, "{totals:?}");
    assert_eq!(totals.ns(dev(), Class::Read, TimeOwner::Held), 0);
}

#[test]
fn a_stream_that_never_ends_has_room_for_ever_new_processes() {
    // Each second another process writes; one reads all the time and waits for it.
    let mut jobs = Vec::new();
    let mut ios = Vec::new();
    let seconds = 12_000;
    for second in 0..seconds {
        let at_ns = second * 1000 * MS;
        for i in 0..5 {
            let latency_ns = if i == 3 { 100 * MS } else { MS };
            let done_ns = at_ns + i * 150 * MS + latency_ns;
            jobs.push((done_ns, latency_ns, Op::READ, 1));
        }
        jobs.push((
            at_ns + 550 * MS - MS,
            99 * MS,
            Op::WRITE,
            100 + second as i32,
        ));
    }
    for (done_ns, latency_ns, op, tgid) in jobs {
        let io = Io::new(done_ns, dev(), op, 4096, Some(0), latency_ns);
        ios.push(Io {
            tgid: Some(tgid),
            comm: Some(Comm::new(format!("p{tgid}").as_bytes())),
            ..io
        });
    }
    ios.sort_by_key(|io| io.done_ns);
    let bins = taken_while_running(&ios);
    let last = bins
        .iter()
        .rfind(|b| b.from_ns == (seconds - 3) * 1000 * MS);
    let victims = &last.expect("an interval").victims;
    let reader = victims.iter().find(|v| v.group.class == Class::Read);
    let behind = &reader.expect("it read").behind;
    let culprit = behind[0].group.program.expect("not the others");
    assert_eq!(culprit.tgid, Some(100 + seconds as i32 - 3));
    // Both complete together, so that they share the time of the device.
    assert!(behind[0].ns > 40 * MS, "{behind:?}");
}

#[test]
fn waits_of_subjects_are_the_sums_of_those_of_their_ios_and_of_no_others() {
    let mut jobs = victims(100.0, MS);
    jobs.extend(bursts(20, 2500 * MS, 5 * MS));
    let ios = Device::fifo(1).serve(jobs);
    let window = Window::new(3_000 * MS, 20_000 * MS);
    let step_ns = 700 * MS;
    let is_shop = |io: &Io| io.comm == Some(Comm::new(b"shop"));
    let shop = GroupKey::Process(None, Some(Comm::new(b"shop")));
    let mut subjects = SubjectWaitsBuilder::new(window, step_ns, |io| is_shop(io).then_some(shop));
    let mut singles = IoWaitsBuilder::of(window, is_shop);
    for io in &ios {
        subjects.push(io);
        singles.push(io);
    }
    let subjects = subjects.finish();
    let mut waits = singles.finish().into_iter();
    let mut intervals: std::collections::BTreeMap<i64, i64> = Default::default();
    for io in ios
        .iter()
        .filter(|io| is_shop(io) && window.contains(io.done_ns))
    {
        let wait = waits.next().expect("one for each");
        let number = (io.done_ns - window.from_ns) / step_ns;
        *intervals.entry(number).or_default() += wait.time.others_ns;
    }
    assert!(waits.next().is_none());
    let mut sum_ns = 0;
    for (number, others_ns) in intervals {
        let from_ns = window.from_ns + number * step_ns;
        let time = subjects.at(from_ns, shop);
        assert_eq!(time.ns(TimeOwner::Others), others_ns, "{number}");
        sum_ns += others_ns;
        let backup = GroupKey::Process(None, Some(Comm::new(b"backup")));
        assert_eq!(subjects.at(from_ns, backup), OwnedTime::default());
    }
    assert!(sum_ns > 1_000 * MS, "{sum_ns}");
}
