//! Published and measured tables (`fixtures/golden`) as input give the numbers that are known to follow from them.

use iolens_core::analysis::bursts::cells::Series;
use iolens_core::analysis::bursts::envelope::{most_bytes, token_bucket_depth};
use iolens_core::analysis::bursts::{BurstRule, Limit, LimitSource, find, sampled_view};
use iolens_core::analysis::periodicity::{self, Periodicity, Verdict};
use iolens_core::analysis::stream::requests::Request;
use iolens_core::analysis::{FindingKind, Latencies, ReportBuilder, ReportPlan, Window};
use iolens_core::model::{Class, DevId, Io, Op, RecorderCost, RecordingMeta, Source};
use iolens_core::store::{IoColumns, Recording, RecordingWriter, WriterOptions};

/// The rows of a golden table, as numbers.
fn table(name: &str) -> Vec<Vec<f64>> {
    let path = format!(
        "{}/../../fixtures/golden/{name}.csv",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.lines()
        .skip(1)
        .map(|l| {
            l.split(',')
                .map(|v| v.parse().unwrap_or(f64::NAN))
                .collect()
        })
        .collect()
}

const KIB: f64 = 1024.0;
const GIB: f64 = KIB * KIB * KIB;

const DEV: DevId = DevId(8 << 20);
const START_NS: i64 = 153_000_000_000;
const TENTH_NS: i64 = 100_000_000;

/// The I/Os of a published table of rows of `slot_ns`: in each as many, of as many bytes, of that mean latency, evenly
/// spread.
fn published_ios(name: &str, slot_ns: i64) -> Vec<Io> {
    let mut ios = Vec::new();
    let slot_s = slot_ns as f64 / 1e9;
    for (slot, r) in table(name).iter().enumerate() {
        for (op, [per_s, kib_per_s, us]) in [
            (Op::READ, [r[1], r[2], r[3]]),
            (Op::WRITE, [r[4], r[5], r[6]]),
        ] {
            let n = (per_s * slot_s).round() as i64;
            let bytes = (kib_per_s * slot_s * KIB).round() as i64;
            ios.extend((0..n).map(|i| {
                let done_ns = slot as i64 * slot_ns + (2 * i + 1) * slot_ns / (2 * n);
                let share = bytes * (i + 1) / n - bytes * i / n;
                Io::new(done_ns, DEV, op, share, Some(0), (us * 1e3).round() as i64)
            }));
        }
    }
    ios.sort_by_key(|io| io.done_ns);
    ios
}

/// The I/Os of the published 10 Hz table after writing them to a recording on disk and reading them back.
fn recorded() -> Vec<Io> {
    through_disk(&published_ios("seed3_agg_10hz", TENTH_NS), 20 * TENTH_NS)
}

fn through_disk(ios: &[Io], end_ns: i64) -> Vec<Io> {
    let tmp = tempfile::tempdir().expect("a directory");
    let dir = tmp.path().join("seed3.iolens");
    let meta = RecordingMeta::new(Source::Import("table".to_owned()), 0);
    let mut writer =
        RecordingWriter::create(&dir, meta, WriterOptions::default()).expect("a recording");
    writer.push_ios(ios).expect("written");
    writer
        .finish(end_ns, RecorderCost::default())
        .expect("finished");
    let recording = Recording::open(&dir).expect("readable");
    recording
        .ios(0..i64::MAX, IoColumns::ALL)
        .flat_map(|batch| batch.expect("undamaged"))
        .collect()
}

/// Published rows as slots.
struct Slots {
    from_ns: i64,
    dt_ns: i64,
    bytes: Vec<u64>,
    ios: Vec<u64>,
}

impl Slots {
    fn series(&self) -> Series {
        Series::dense(self.from_ns, self.dt_ns, &self.bytes, &self.ios)
    }
}

/// Writes of the published 10 Hz table, from the recording made of it, in its own slots and by its own times, which are
/// completions.
fn writes_10hz() -> Slots {
    let mut series = Slots {
        from_ns: START_NS,
        dt_ns: TENTH_NS,
        bytes: vec![0; 20],
        ios: vec![0; 20],
    };
    for io in recorded().iter().filter(|io| io.class() == Class::Write) {
        series.bytes[(io.done_ns / TENTH_NS) as usize] += io.bytes as u64;
        series.ios[(io.done_ns / TENTH_NS) as usize] += 1;
    }
    series
}

fn limit(bytes_per_s: f64) -> Limit {
    Limit {
        bytes_per_s,
        source: LimitSource::Link,
    }
}

fn near(got: f64, expected: f64, half_a_digit: f64) {
    assert!(
        (got - expected).abs() <= half_a_digit,
        "got {got}, expected {expected}"
    );
}

#[test]
fn the_published_burst_has_its_known_size() {
    let series = writes_10hz();
    let found = find(&series.series(), &limit(2.4e9), &BurstRule::default());
    assert_eq!(found.len(), 1);
    let b = &found[0];
    // Peak slot 153.8.
    assert_eq!(b.peak_at_ns + series.dt_ns, 153_800_000_000);
    near(b.peak_bytes_per_s / KIB, 2_171_420.0, 0.5);
    near(b.peak_bytes_per_s / 1e9, 2.2235, 5e-5);
    near(b.percent_of_limit, 92.6, 0.05);
    near(b.peak_bytes_per_s / GIB, 2.071, 5e-4);
    near(100.0 * b.peak_bytes_per_s / 3e9, 74.1, 0.05);
    // Core: two slots, 406.8 MiB.
    assert_eq!(b.core_ns, 200_000_000);
    near(b.core_bytes as f64 / KIB, 416_518.0, 0.5);
    near(b.core_bytes as f64 / KIB / KIB, 406.8, 0.05);
    near(b.core_bytes as f64 / 1e6, 426.5, 0.05);
    near(b.core_bytes as f64 / 0.2 / 1e9, 2.1326, 5e-5);
    near(b.core_bytes as f64 / 0.2 / GIB, 1.986, 5e-4);
    // Extent at a tenth of 2.4 GB/s.
    assert_eq!((b.from_ns, b.to_ns), (153_500_000_000, 153_900_000_000));
    near(b.bytes as f64 / KIB, 478_360.0, 0.5);
    near(b.bytes as f64 / 1e6, 489.8, 0.05);
    near(b.bytes as f64 / 0.4 / 1e9, 1.2246, 5e-5);
    let all: u64 = series.bytes.iter().sum();
    near(100.0 * b.bytes as f64 / all as f64, 97.5, 0.05);
    // And at a tenth of 3 GB/s.
    let wide = &find(&series.series(), &limit(3e9), &BurstRule::default())[0];
    assert_eq!(
        (wide.from_ns, wide.to_ns),
        (153_500_000_000, 153_800_000_000)
    );
    near(wide.bytes as f64 / KIB, 449_680.5, 0.5);
    near(wide.bytes as f64 / 1e6, 460.5, 0.05);
    assert!(!b.exceeds_limit && !b.censored);
}

#[test]
fn the_whole_flush_and_the_core_in_the_one_second_sample() {
    let s = writes_10hz();
    let flush: u64 = s.bytes[5..10].iter().sum();
    near(flush as f64 / KIB, 488_337.0, 0.5);
    near(flush as f64 / KIB / KIB, 476.9, 0.05);
    near(flush as f64 / 1e6, 500.1, 0.05);
    assert_eq!(s.ios[5..10].iter().sum::<u64>(), 3917 + 1, "3918 writes");
    near(flush as f64 / KIB / 3918.0, 124.6, 0.05);
    near(
        s.bytes[10..12].iter().sum::<u64>() as f64 / KIB,
        2404.0,
        0.5,
    );
    let core: u64 = s.bytes[6..8].iter().sum();
    near(100.0 * core as f64 / flush as f64, 85.3, 0.05);
}

#[test]
fn the_envelope_is_the_published_one() {
    let s = writes_10hz();
    for row in table("seed3_write_envelope") {
        let slots = (row[0] / 0.1).round() as usize;
        let most = most_bytes(&s.series(), slots);
        near(most as f64 / KIB, row[1], 0.5);
        near(most as f64 / KIB / row[0], row[2], 5.0);
        near(most as f64 / row[0] / 1e9, row[3], 5e-5);
        if slots < 10 {
            let mut windows = s.bytes.windows(slots);
            let first = windows
                .position(|w| w.iter().sum::<u64>() == most)
                .expect("the window that holds most");
            near(s.series().at_ns(first) as f64 / 1e9 + 0.1, row[4], 1e-6);
            near(s.series().at_ns(first + slots) as f64 / 1e9, row[5], 1e-6);
        }
        if row[6].is_finite() {
            near(
                max_aligned(&s.bytes, slots) as f64 / KIB / row[0],
                row[6],
                5.0,
            );
        }
    }
    for (rate, megabytes) in [
        (500e6, 326.5),
        (1000e6, 226.5),
        (1500e6, 126.5),
        (2000e6, 26.5),
        (2400e6, 0.0),
    ] {
        near(
            token_bucket_depth(&s.bytes, 0.1, rate) / 1e6,
            megabytes,
            0.05,
        );
    }
}

/// The maximum over consecutive windows of `slots` slots: the value of a sampler with that period.
fn max_aligned(values: &[u64], slots: usize) -> u64 {
    values
        .chunks(slots)
        .map(|window| window.iter().sum())
        .max()
        .unwrap_or(0)
}

/// The fifteen published seconds at 10 Hz: the two seconds that were zoomed into as they were, the others spread evenly.
fn fifteen_seconds() -> Slots {
    let zoomed = writes_10hz();
    let mut bytes = Vec::new();
    let mut ios = Vec::new();
    for row in table("seed3_agg_1s") {
        match row[0] as i64 {
            154 => (
                bytes.extend(&zoomed.bytes[..10]),
                ios.extend(&zoomed.ios[..10]),
            ),
            155 => (
                bytes.extend(&zoomed.bytes[10..]),
                ios.extend(&zoomed.ios[10..]),
            ),
            _ => (
                bytes.extend((0..10).map(|_| (row[5] * KIB / 10.0).round() as u64)),
                ios.extend((0..10).map(|_| (row[4] / 10.0).round() as u64)),
            ),
        };
    }
    Slots {
        from_ns: 145_000_000_000,
        dt_ns: 100_000_000,
        bytes,
        ios,
    }
}

#[test]
fn coarse_samples_hide_bursts() {
    let s = fifteen_seconds();
    let burst = &find(&s.series(), &limit(2.4e9), &BurstRule::default())[0];
    let second = max_aligned(&s.bytes, 10) as f64;
    near(second / KIB, 488_337.0, 0.5);
    near(burst.peak_bytes_per_s / second, 4.45, 0.005);
    let quarter_minute = s.bytes.iter().sum::<u64>() as f64 / 15.0;
    near(burst.peak_bytes_per_s / quarter_minute, 65.5, 0.05);
    let view = sampled_view(&s.series(), burst, 1_000_000_000);
    assert!(view.min_bytes_per_s <= second && second <= view.max_bytes_per_s);
    assert!(view.hidden_factor >= 4.4, "{view:?}");
    // Fifteen seconds hold one period of fifteen, with the phase that the table had.
    let coarse = sampled_view(&s.series(), burst, 15_000_000_000);
    near(burst.peak_bytes_per_s / coarse.max_bytes_per_s, 65.5, 0.05);
    near(coarse.max_bytes_per_s, quarter_minute, 1.0);
    let minute = sampled_view(&s.series(), burst, 60_000_000_000);
    near(minute.max_bytes_per_s, quarter_minute / 4.0, 1.0);
    assert!(minute.hidden_factor > coarse.hidden_factor);
}

#[test]
fn the_published_reads_waited_and_the_writes_queued() {
    let rows = table("seed3_agg_10hz");
    // Peak at 153.8: two reads of 136.888 ms on average, beside the published second's and quarter minute's.
    let slot = |at_ns: i64| (at_ns / TENTH_NS) as usize;
    let mut reads = vec![Latencies::new(); 20];
    let mut writes = vec![Latencies::new(); 20];
    for io in recorded() {
        let to = if io.class() == Class::Read {
            &mut reads
        } else {
            &mut writes
        };
        to[slot(io.done_ns)].add(io.total_ns());
    }
    let (at, peak) = reads
        .iter()
        .enumerate()
        .filter_map(|(i, l)| Some((i, l.mean_us()?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .expect("reads");
    near(rows[at][0], 153.8, 1e-6);
    near(peak / 1e3, 136.888, 0.0005);
    assert!(reads[at].n() == 2 && reads[at].low_n());
    let second = table("seed3_agg_1s")
        .iter()
        .find(|r| r[0] == 154.0)
        .expect("the second")[3];
    near(peak / second, 7.70, 0.005);
    let quarter_minute = table("seed3_agg_15s")
        .iter()
        .find(|r| r[0] == 160.0)
        .expect("the quarter minute")[3];
    near(peak / quarter_minute, 28.0, 0.05);
    // Little: outstanding writes are rate times latency.
    for (i, outstanding) in [(6, 293.0), (7, 344.0), (8, 99.0)] {
        let l = writes[i].n() as f64 * 10.0 * writes[i].mean_us().expect("writes") / 1e6;
        near(l, outstanding, 0.5);
    }
}

#[test]
fn a_report_of_the_published_seconds_finds_the_burst_and_proves_nothing() {
    let limits = [(DEV, 2.4e9)].into();
    let window = Window::new(0, 20 * TENTH_NS);
    let mut builder = ReportBuilder::with_plan(
        window,
        ReportPlan {
            limits,
            ..ReportPlan::default()
        },
    );
    recorded().iter().for_each(|io| builder.push(io));
    let report = builder.finish(0);
    let stream = &report.details[0].streams[1];
    assert_eq!(stream.bursts.len(), 1, "{:?}", stream.bursts);
    let b = &stream.bursts[0].burst;
    // The table's 478,360 KiB are completions of four tenths of a second; the device moved them from issue on.
    assert!(
        b.from_ns == 5 * TENTH_NS && b.to_ns <= 9 * TENTH_NS,
        "{b:?}"
    );
    near(b.bytes as f64 / KIB, 478_360.0, 10_000.0);
    // 293, 344 and 99 outstanding in three tenths of a second; a window of 100 ms counts the part inside it.
    assert!(
        stream.bursts[0].in_flight > Some(250.0),
        "{:?}",
        stream.bursts[0]
    );
    for f in &report.findings {
        assert_ne!(
            f.kind(),
            FindingKind::Periodicity,
            "two seconds do not breathe: {f:?}"
        );
    }
}

/// Values of a report for reads and writes that completed in a window: count, KiB, mean latency in microseconds.
fn window_of(ios: &[Io], from_ns: i64, to_ns: i64) -> [(u64, f64, f64); 2] {
    let mut builder = ReportBuilder::new(Window::new(from_ns, to_ns));
    ios.iter().for_each(|io| builder.push(io));
    let report = builder.finish(to_ns);
    [Class::Read, Class::Write].map(|class| {
        let c = report.devices.devices[0].class(class);
        (
            c.ios.expect("counted"),
            c.bytes.expect("counted") as f64 / KIB,
            c.mean_us.expect("I/Os"),
        )
    })
}

#[test]
fn coarse_rows_by_aggregation_have_the_true_latencies() {
    // The published rows state 17770 and 18345, 6016 and 180: averages of averages, which the audit reproduces.
    let ios = recorded();
    let [reads, writes] = window_of(&ios, 0, 10 * TENTH_NS);
    assert_eq!((reads.0, writes.0), (23, 3918));
    assert_eq!((reads.1.trunc(), writes.1.round()), (2832.0, 488_337.0));
    near(reads.2, 18_506.3, 0.05);
    near(writes.2, 19_956.7, 0.05);
    let [reads, writes] = window_of(&ios, 10 * TENTH_NS, 20 * TENTH_NS);
    assert_eq!((reads.0, writes.0), (306, 138));
    assert_eq!((reads.1.trunc(), writes.1.trunc()), (37_275.0, 2404.0));
    near(reads.2, 8838.7, 0.05);
    near(writes.2, 886.7, 0.05);
    // The published quarter minute states 4881 and 5404.
    let second_ns = 10 * TENTH_NS;
    let ios = through_disk(&published_ios("seed3_agg_1s", second_ns), 15 * second_ns);
    let [reads, writes] = window_of(&ios, 0, 15 * second_ns);
    assert_eq!((reads.0 / 15, writes.0 / 15), (99, 302));
    assert_eq!(
        ((reads.1 / 15.0).trunc(), (writes.1 / 15.0).trunc()),
        (12_923.0, 33_146.0)
    );
    near(reads.2, 6634.1, 0.05);
    near(writes.2, 17_226.7, 0.05);
}

#[test]
fn ten_hertz_rows_sum_to_the_published_seconds() {
    let rows = table("seed3_agg_10hz");
    for (second, expected) in [
        (0..10, [23.0, 2832.0, 3918.0, 488_337.0]),
        (10..20, [306.0, 37275.0, 138.0, 2404.0]),
    ] {
        for (column, expected) in [1, 2, 4, 5].into_iter().zip(expected) {
            let sum: f64 = rows[second.clone()].iter().map(|r| r[column] * 0.1).sum();
            assert_eq!(sum.trunc(), expected);
        }
    }
    let seconds = table("seed3_agg_1s");
    for (column, expected) in [1, 2, 4, 5]
        .into_iter()
        .zip([99.0, 12923.0, 302.0, 33146.0])
    {
        assert_eq!(
            (seconds.iter().map(|r| r[column]).sum::<f64>() / 15.0).trunc(),
            expected
        );
    }
}

/// What the analysis says of bins of `dt_ns`, taken as it takes counters.
fn periodicity_of(bytes: &[u64], ios: &[u64], dt_ns: i64) -> Periodicity {
    let bins = bytes
        .iter()
        .zip(ios)
        .enumerate()
        .filter(|(_, (bytes, ios))| **bytes > 0 || **ios > 0);
    let requests: Vec<Request> = bins
        .flat_map(|(i, (b, n))| Request::spread(i as i64 * dt_ns, dt_ns, *n, *b))
        .collect();
    periodicity::find(&requests, (0, bytes.len() as i64 * dt_ns), dt_ns, &[])
}

#[test]
fn the_journal_commits_every_five_seconds() {
    let rows = table("measured_ext4_commit_10hz");
    let bytes: Vec<u64> = rows.iter().map(|r| (r[2] * KIB) as u64).collect();
    let ios: Vec<u64> = rows.iter().map(|r| u64::from(r[2] > 0.0)).collect();
    let p = periodicity_of(&bytes, &ios, TENTH_NS);
    assert_eq!(p.verdict, Verdict::Periodic, "{p:?}");
    near(p.period_s.expect("found"), 5.08, 0.05);
    near(p.acf.expect("found"), 0.53, 0.03);
    assert!(p.p_value.expect("tested") <= 0.0034, "{p:?}");
    near(p.cycles.expect("found"), 16.5, 0.6);
    assert!((17..=20).contains(&p.onsets), "{p:?}");
    assert_eq!(p.clocks.len(), 1, "{p:?}");
}

#[test]
fn fifteen_published_seconds_are_too_few_for_periodicity() {
    let bytes: Vec<u64> = table("seed3_agg_1s")
        .iter()
        .map(|r| (r[5] * KIB) as u64)
        .collect();
    assert_eq!(
        periodicity_of(&bytes, &[1; 15], 1_000_000_000).verdict,
        Verdict::InsufficientData
    );
}
