//! Rows of `time r/s Kr/s us/r w/s Kw/s us/w`: rates of a set of devices with the end of each interval in seconds.

use iolens_core::model::{Class, IntervalRates};

use super::log::Log;
use super::text::{Lines, number, seconds_ns, words};

/// Reads all tables of a file; a new heading begins a new one.
pub fn parse(log: &mut Log, bytes: &[u8]) {
    let dev = log.devices.aggregate("all");
    let mut table: Vec<IntervalRates> = Vec::new();
    let mut tables = 0;
    for line in Lines::new(bytes) {
        let cells: Vec<&[u8]> = words(line.bytes).collect();
        match cells.as_slice() {
            [] => {}
            [b"time", b"r/s", ..] => {
                tables += 1;
                close(log, &mut table);
            }
            _ if tables == 0 => {}
            [time, rest @ ..] if rest.len() == 6 && line.complete | (number(rest[5]).is_some()) => {
                match row(time, rest) {
                    Some(mut r) => {
                        r.dev = dev;
                        table.push(r);
                    }
                    None => log.damaged(line.number, "a cell is no number"),
                }
            }
            _ => log.damaged(line.number, "seven numbers are wanted: time r/s Kr/s us/r w/s Kw/s us/w"),
        }
    }
    close(log, &mut table);
    log.limit("source prints sums over its devices: no single device, no single I/O, no percentiles");
    if tables > 1 {
        log.limit("the file holds tables of several resolutions: where they overlap, rows count the same I/Os twice");
    }
}

fn row(time: &[u8], cells: &[&[u8]]) -> Option<IntervalRates> {
    let mut r = IntervalRates::new(0, seconds_ns(time)?, iolens_core::model::DevId(0));
    for (class, c) in [Class::Read, Class::Write].into_iter().zip(cells.chunks(3)) {
        let rates = &mut r.classes[class as usize];
        rates.ios_per_s = Some(number(c[0])?);
        rates.bytes_per_s = Some(number(c[1])? * 1024.0);
        // The table prints 0 as the mean of nothing.
        rates.mean_us = Some(number(c[2])?).filter(|_| rates.ios_per_s != Some(0.0));
    }
    Some(r)
}

/// Gives the rows of a table their beginnings: the time column labels ends.
fn close(log: &mut Log, table: &mut Vec<IntervalRates>) {
    let mut gaps: Vec<i64> =
        table.windows(2).map(|w| w[1].to_ns.saturating_sub(w[0].to_ns)).filter(|d| *d > 0).collect();
    gaps.sort_unstable();
    let step = log.options.interval_ns.or_else(|| gaps.get(gaps.len() / 2).copied()).unwrap_or(1_000_000_000);
    for mut r in table.drain(..) {
        r.from_ns = r.to_ns.saturating_sub(step);
        log.rates.push(r);
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::{ImportOptions, parse_bytes};
    use super::super::recognise::{Kind, recognise};
    use std::path::Path;

    const TABLE: &str = "    time         r/s     Kr/s     us/r         w/s     Kw/s     us/w
   153.7          10     1280     4082       13240  1993760    22143
   153.8          20     2560   136888        4150  2171420    82941
   153.9          40     damaged    13776        1350   286795    73533
   154.0          40     4000     8753       12890    99770     1640
   154.1           0        0        0           0        0        0
";

    #[test]
    fn times_label_ends_and_damage_costs_a_line() {
        assert_eq!(recognise(TABLE.as_bytes()), Some(Kind::RateTable));
        let got =
            parse_bytes(Kind::RateTable, Path::new("t"), TABLE.as_bytes(), ImportOptions::default()).expect("imports");
        assert_eq!(got.rates.len(), 4);
        let peak = &got.rates[1];
        assert_eq!((peak.from_ns, peak.to_ns), (153_700_000_000, 153_800_000_000));
        assert_eq!(peak.classes[0].ios(peak.interval_ns()), Some(2));
        assert_eq!(peak.classes[0].mean_us, Some(136_888.0));
        assert_eq!(peak.classes[1].bytes_per_s, Some(2_171_420.0 * 1024.0));
        assert_eq!(got.rates[3].classes[0].mean_us, None, "an empty interval has no mean");
        assert_eq!((got.damage.count, got.damage.places[0].at), (1, 4));
    }
}
