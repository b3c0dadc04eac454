//! No importer panics on any log; it counts unreadable lines and reports their numbers.
#![allow(clippy::unwrap_used)]
use std::path::Path;

use iolens_core::model::{LossReason, Observation};
use proptest::prelude::*;

use super::devices::MAX_DEVICES;
use super::files::parse_bytes;
use super::fixtures;
use super::log::{ImportError, ImportOptions, Imported};
use super::recognise::{LogFormat, recognise};

const SOLARIS: &str = "                    extended device statistics\n\
    device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b\n\
    sd0      12.3    0.0 1735.2    0.0  0.0  0.1    7.0   0   9\n\
    sd1       1.0    2.0    3.0    4.0  0.0  0.1    5.0   0   1\n\
    sd2       1.0    2.0    3.0    4.0  0.0  0.1    5.0   0   1\n";
const FREEBSD: &str = "                        extended device statistics  \n\
    device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b  \n\
    ada0           1       2     29.0     54.5     0     1     0     1    0   0 \n\
    ada1           1       2     29.0     54.5     0     1     0     1    0   0 \n";
const TABLE: &str = "time r/s Kr/s us/r w/s Kw/s us/w\n153.7 10 1280 4082 13240 1993760 22143\n\
    153.8 20 2560 136888 4150 2171420 82941\n153.9 40 4000 8753 12890 99770 1640\n";
const ZOOMED: &str = "time device r/s Kr/s us/r w/s Kw/s us/w\n2026-11-29 UTC\n14:22:09.096 loop0 0 0 - 5 20 <3\n\
    14:22:10.096 loop0 300 19200 34 0 0 - *\n14:22:11.096 loop0 - - - - - -\n14:22:11.099 loop0 7 28 3 0 0 - ~\n";
const ZOOMED_CSV: &str = "time,time_unix_s,time_s,r_per_s,r_kib_per_s,r_us,w_per_s,w_kib_per_s,w_us,lossy\n\
    2026-11-29T14:22:09.096794624Z,1795962129.096794624,1,0,0,,0,0,,0\n\
    2026-11-29T14:22:10.096794624Z,1795962130.096794624,2,300,19200,33.643,0,0,,1\n\
    2026-11-29T14:22:11.096794624Z,1795962131.096794624,3,,,,,,,0\n";
const SNOOP: &str = "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n\
    0.000000    postgres: wal  1188    nvme0n1 WS   3145728    8192      0.012   0.345\n\
    0.001500    kworker/u4:2   77      nvme0n1 FWFS 99         4096     -1.000   1.500\n\
    0.002000    fio            9       sdb     RA   0          131072    0.100  12.000\n";

/// Lines that name one device after the other, and how many of them were read.
struct ManyNames {
    heading: &'static [u8],
    line: fn(u64) -> String,
    made: u64,
    left: Vec<u8>,
}

impl ManyNames {
    fn new(heading: &'static str, line: fn(u64) -> String) -> ManyNames {
        ManyNames {
            heading: heading.as_bytes(),
            line,
            made: 0,
            left: Vec::new(),
        }
    }
}

impl std::io::Read for ManyNames {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.left.is_empty() {
            self.left = if self.made >= 4 * MAX_DEVICES as u64 {
                return Ok(0);
            } else if self.heading.is_empty() {
                self.made += 1;
                (self.line)(self.made).into_bytes()
            } else {
                std::mem::take(&mut self.heading).to_vec()
            };
        }
        let n = into.len().min(self.left.len());
        into[..n].copy_from_slice(&self.left[..n]);
        self.left.drain(..n);
        Ok(n)
    }
}

#[test]
fn logs_are_read_no_further_than_where_they_name_too_many_devices() {
    let endless: [(LogFormat, ManyNames); 5] = [
        (
            LogFormat::Diskstats,
            ManyNames::new("1700000000.5\n", |i| {
                format!(
                    "{} {} sd{i} 1 0 8 1 0 0 0 0 0 1 1\n",
                    8 + (i >> 20),
                    i & 0xf_ffff
                )
            }),
        ),
        (
            LogFormat::Sadf,
            ManyNames::new(
                "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util\n",
                |i| {
                    format!(
                        "h;1;2026-11-26 12:00:00 UTC;sd{i};1.00;4.00;0.00;0.00;4.00;0.00;0.10;0.10\n"
                    )
                },
            ),
        ),
        (
            LogFormat::Biosnoop,
            ManyNames::new(
                "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n",
                |i| format!("{i}.000000    dd  1  sd{i}  R 8 4096 0.10\n"),
            ),
        ),
        (
            LogFormat::IostatText,
            ManyNames::new(
                "Device: r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n",
                |i| format!("sd{i} 179.00 0.00 716.00 0.00 8.00 1.00 5.59 5.59 0.00 5.58 99.80\n"),
            ),
        ),
        (
            LogFormat::SarText,
            ManyNames::new(
                "Linux 6.18.44 (vm) \t2026-11-26 \t_x86_64_\t(2 CPU)\n\n\
                 12:04:17 tps rkB/s wkB/s dkB/s areq-sz aqu-sz await %util DEV\n",
                |i| format!("12:04:18 1.00 4.00 0.00 0.00 4.00 0.00 0.10 0.10 sd{i}\n"),
            ),
        ),
    ];
    for (kind, mut names) in endless {
        let log =
            super::log::Log::new(Path::new("x"), ImportOptions::default(), Default::default());
        super::files::parse_lines(log, kind, &mut std::io::BufReader::new(&mut names));
        assert!(
            (MAX_DEVICES as u64..2 * MAX_DEVICES as u64).contains(&names.made),
            "{kind:?}: {} lines",
            names.made
        );
    }
}

/// A sound log of each kind; the name matters to fio's logs only.
fn samples() -> Vec<(LogFormat, &'static str, Vec<u8>)> {
    vec![
        (
            LogFormat::IostatText,
            "i.txt",
            fixtures::bytes("iostat-xt.txt"),
        ),
        (
            LogFormat::IostatText,
            "h.txt",
            fixtures::bytes("iostat-human-x.txt"),
        ),
        (
            LogFormat::IostatJson,
            "i.json",
            fixtures::bytes("iostat-x.json"),
        ),
        (LogFormat::SolarisIostat, "s.txt", SOLARIS.into()),
        (LogFormat::RateTable, "t.txt", TABLE.into()),
        (
            LogFormat::FioJson,
            "f.json",
            fixtures::bytes("fio-mix.json"),
        ),
        (
            LogFormat::FioLog,
            "mix_bw.1.log",
            fixtures::bytes("fio-mix_bw.1.log"),
        ),
        (
            LogFormat::FioLog,
            "mix_clat.1.log",
            b"3, 181000, 0, 4096, 0, 0\n5, 99000, 1, 8192, 4096, 0\n".to_vec(),
        ),
        (
            LogFormat::Blktrace,
            "b.blktrace.0",
            [
                fixtures::bytes("loop.blktrace.0"),
                fixtures::bytes("loop.blktrace.1"),
            ]
            .concat(),
        ),
        (LogFormat::Biosnoop, "b.txt", SNOOP.into()),
        (
            LogFormat::BlockEvents,
            "p.txt",
            fixtures::bytes("perf-script-ns.txt")[..12_000].to_vec(),
        ),
        (LogFormat::FreebsdIostat, "f.txt", FREEBSD.into()),
        (LogFormat::SarText, "sar.txt", fixtures::bytes("sar-d.txt")),
        (LogFormat::Sadf, "sadf.csv", fixtures::bytes("sadf.csv")),
        (LogFormat::Sadf, "sadf.txt", fixtures::bytes("sadf.txt")),
        (
            LogFormat::SadfJson,
            "sadf.json",
            fixtures::bytes("sadf.json"),
        ),
        (
            LogFormat::Diskstats,
            "d.txt",
            fixtures::bytes("diskstats.txt"),
        ),
        (LogFormat::RateTable, "z.txt", ZOOMED.into()),
        (LogFormat::RateTable, "z.csv", ZOOMED_CSV.into()),
    ]
}

fn import(
    kind: LogFormat,
    name: &str,
    bytes: &[u8],
    strict: bool,
) -> Result<Imported, ImportError> {
    parse_bytes(
        kind,
        Path::new(name),
        bytes,
        ImportOptions {
            strict,
            ..ImportOptions::default()
        },
    )
}

/// What holds for everything that an importer gives, however damaged its log was.
fn assert_sound(got: &Imported, what: &str) {
    assert!(
        got.observations.is_sorted_by_key(Observation::at_ns),
        "{what}: not in order"
    );
    assert!(got.damage.places.len() as u64 <= got.damage.count, "{what}");
    let lost = |o: &Observation| matches!(o, Observation::Lost(l) if l.reason == LossReason::Import && l.ios.is_none());
    assert_eq!(
        got.observations.iter().any(lost),
        got.damage.count > 0,
        "{what}: damage is loss"
    );
    let devices: Vec<_> = got.meta.devices.iter().map(|d| d.id).collect();
    let is_fio = got.kinds.contains(&LogFormat::FioJson);
    for r in got.rates.iter() {
        assert!(
            devices.contains(&r.dev),
            "{what}: a row of a device that is not listed"
        );
        for c in r.classes.iter().chain([&r.all]) {
            let all = [c.ios_per_s, c.bytes_per_s, c.merges_per_s, c.mean_us];
            assert!(
                all.into_iter()
                    .flatten()
                    .all(|v| v.is_finite() && (is_fio || v >= 0.0)),
                "{what}: {c:?}"
            );
        }
    }
    for io in got.ios() {
        assert!(
            devices.contains(&io.dev) && io.bytes >= 0 && io.device_ns >= 0,
            "{what}: {io:?}"
        );
        assert!(io.queue_ns.is_none_or(|q| q >= 0), "{what}: {io:?}");
    }
}

#[test]
fn sound_samples_are_recognised_and_hold_no_damage() {
    for (kind, name, bytes) in samples() {
        assert_eq!(recognise(&bytes), Some(kind), "{name}");
        // One is cut out of a longer file, inside a line.
        let is_piece = kind == LogFormat::BlockEvents;
        let got = import(kind, name, &bytes, !is_piece).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            got.damage.count <= u64::from(is_piece),
            "{name}: {:?}",
            got.damage
        );
        assert_sound(&got, name);
    }
    assert!(
        LogFormat::ALL
            .iter()
            .all(|k| samples().iter().any(|s| s.0 == *k)),
        "every kind has a sample"
    );
}

/// Where an invalid line may be inserted, counted from 1, and which kind is not taken for a remark there.
fn tables() -> Vec<(usize, &'static str)> {
    vec![
        (0, "loop0 is %% not a row"),
        (0, "loop0 1 2"),
        (0, "rubbish"),
        (3, "one-long-word-of-rubbish"),
        (4, "words of rubbish"),
        (10, "words of rubbish"),
        (1, "loop0 is %% not a row"),
        (3, "sd1 is %% not a row"),
        (4, "153.85 20 what is this"),
        (6, "500, 1208, zero, 0"),
        (9, "this is no row of it"),
        (10, "fio 1 [000] 1.5: block:block_rq_issue: 7,0 R 40"),
        (12, "12:02:50        loop0    430.00   12"),
        (12, "words of rubbish"),
        (13, "host;1;2026-11-24 12:02:50 UTC;loop0;430.00"),
        (14, "words of rubbish"),
        (16, "   7       0 loop0 372 0 2976 12"),
        (17, "14:22:10.5 loop0 20 what is this"),
        (18, "2026-11-29T14:22:10Z,,2,x"),
    ]
}

proptest! {
    #[test]
    fn a_damaged_line_costs_that_line_and_is_named(which in 0usize..19, place in 0.0f64..1.0) {
        let (sample, rubbish) = tables()[which];
        let (kind, name, bytes) = samples().swap_remove(sample);
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        let whole = import(kind, name, text.as_bytes(), false).unwrap();
        // Only below the first heading is a line known to be none of the table.
        let first = lines.iter().position(|l| l.contains("/s") || l.contains("TIME(")).map_or(1, |i| i + 2);
        let at = first + ((lines.len() - first) as f64 * place) as usize;
        // The line of numbers that follows `avg-cpu` is known by its place alone.
        prop_assume!(!lines[at - 1].starts_with("avg-cpu"));
        lines.insert(at, rubbish);
        let damaged = lines.join("\n") + "\n";
        let got = import(kind, name, damaged.as_bytes(), false).unwrap();
        let own: Vec<u64> = got.damage.places.iter().map(|p| p.at).collect();
        prop_assert!(own.contains(&(at as u64 + 1)), "{name}: line {} of\n{damaged}\n{own:?}", at + 1);
        prop_assert_eq!(got.damage.count, whole.damage.count + 1);
        prop_assert_eq!(got.ios(), whole.ios());
        prop_assert_eq!(&got.rates, &whole.rates);
        let refused = import(kind, name, damaged.as_bytes(), true).unwrap_err().to_string();
        prop_assert!(refused.contains(&format!("{name}: line ")), "{refused}");
    }

    #[test]
    fn mutated_logs_never_panic(
        which in 0usize..19,
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..80, proptest::collection::vec(any::<u8>(), 0..20)), 0..6),
        end in any::<prop::sample::Index>(),
    ) {
        let (kind, name, mut bytes) = samples().swap_remove(which);
        for (at, length, put) in cuts {
            let from = at.index(bytes.len() + 1);
            let to = (from + length).min(bytes.len());
            bytes.splice(from..to, put);
        }
        bytes.truncate(bytes.len() - end.index(bytes.len() / 4 + 1));
        let _ = recognise(&bytes);
        if let Ok(got) = import(kind, name, &bytes, false) {
            assert_sound(&got, name);
        }
    }

    #[test]
    fn any_bytes_as_any_kind_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        text in "[ -~\n\t]{0,400}",
        which in 0usize..LogFormat::ALL.len(),
    ) {
        let kind = LogFormat::ALL[which];
        for bytes in [&bytes[..], text.as_bytes()] {
            let _ = recognise(bytes);
            if let Ok(got) = import(kind, "x_lat.1.log", bytes, false) {
                assert_sound(&got, "any bytes");
            }
        }
    }
}
