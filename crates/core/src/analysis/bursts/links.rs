//! A13 for several devices behind one link: what they move shares its bandwidth, so it is summed before bursts are looked
//! for. Half of a link on each of two devices at once fills it, and neither device's own series shows that.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::bursts::Limit;
use crate::analysis::bursts::cells::{Cells, Series};
use crate::analysis::bursts::detail::{BurstDetail, bursts_of, largest_alone};
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId};

/// Devices whose data go through one link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// Its members. Layers above others among them would count twice.
    pub devices: Vec<DevId>,
    /// What it carries, in each direction.
    pub limit: Limit,
}

/// Reads or writes of all devices behind a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkStream {
    /// Which.
    pub class: Class,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Slots in which bursts were looked for.
    pub slot_ns: i64,
    /// The bursts, in order of time: the largest.
    pub bursts: Vec<BurstDetail>,
    /// How many there were.
    pub bursts_found: usize,
}

/// What passed through a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkDetail {
    /// The link.
    pub link: Link,
    /// Reads and writes.
    pub streams: [LinkStream; 2],
}

/// Looks for bursts of the sums of `link`'s devices, in slots of `slot_ns`.
pub(in crate::analysis) fn detail(
    link: &Link,
    cells: &Cells,
    losses: &Losses,
    window: Window,
    slot_ns: i64,
) -> LinkDetail {
    let streams = [Class::Read, Class::Write].map(|class| {
        let own: Vec<Series> = link
            .devices
            .iter()
            .map(|dev| cells.series(*dev, class, slot_ns, window))
            .collect();
        let series = sum(&own, window, slot_ns);
        let lossy = |from_ns, to_ns| {
            link.devices
                .iter()
                .any(|dev| losses.overlap(*dev, from_ns, to_ns))
        };
        let cause = |from_ns, to_ns| {
            let slots = |s: &Series| {
                (
                    ((from_ns - s.from_ns) / s.dt_ns) as usize,
                    ((to_ns - s.from_ns) / s.dt_ns) as usize,
                )
            };
            let bytes = |s: &Series| s.sum(slots(s).0, slots(s).1);
            let (dev, _) = link
                .devices
                .iter()
                .zip(&own)
                .max_by_key(|(_, s)| bytes(s))?;
            cells.main_actor(*dev, class, &[(from_ns, to_ns)])
        };
        let bursts = bursts_of(&series, &link.limit, lossy, cause);
        LinkStream {
            class,
            bytes: link
                .devices
                .iter()
                .map(|dev| cells.bytes(*dev, class))
                .sum(),
            slot_ns: series.dt_ns,
            bursts_found: bursts.len(),
            bursts: largest_alone(bursts),
        }
    });
    LinkDetail {
        link: link.clone(),
        streams,
    }
}

/// Slot by slot.
fn sum(parts: &[Series], window: Window, slot_ns: i64) -> Series {
    let mut all: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for slot in parts.iter().flat_map(Series::filled) {
        let sum = all.entry(slot.at).or_default();
        *sum = (sum.0 + slot.bytes, sum.1 + slot.ios);
    }
    let (dt_ns, slots) = parts.first().map_or((slot_ns, 0), |s| (s.dt_ns, s.slots()));
    Series::new(
        window.from_ns,
        dt_ns,
        slots,
        all.into_iter().map(|(at, (bytes, ios))| (at, bytes, ios)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::bursts::LimitSource;
    use crate::analysis::findings::FindingKind;
    use crate::analysis::report::{ReportBuilder, ReportPlan};
    use crate::model::{Comm, Io, Op};

    const DISKS: [DevId; 2] = [DevId(8 << 20), DevId(8 << 20 | 16)];

    /// A minute in which each of two disks writes 0.3 GB/s for 100 ms every ten seconds, at the same time or in turn.
    fn report(apart_ns: i64, links: Vec<Link>) -> crate::analysis::report::Report {
        let mut ios = Vec::new();
        for (disk, dev) in DISKS.into_iter().enumerate() {
            for i in 0..6000 {
                let burst = i / 1000 * 10_000_000_000 + disk as i64 * apart_ns;
                let done_ns = 1_000_050_000 + burst + i % 1000 * 100_000;
                let io = Io::new(done_ns, dev, Op::WRITE, 30_000, Some(0), 50_000);
                ios.push(Io {
                    comm: Some(Comm::new(b"flusher")),
                    tgid: Some(7),
                    ..io
                });
            }
        }
        ios.sort_by_key(|io| io.done_ns);
        let window = Window::new(0, 60_000_000_000);
        let mut builder = ReportBuilder::with_plan(
            window,
            ReportPlan {
                links,
                ..ReportPlan::default()
            },
        );
        ios.iter().for_each(|io| builder.push(io));
        builder.finish(0)
    }

    #[test]
    fn what_meets_on_a_link_is_summed_first() {
        let limit = Limit {
            bytes_per_s: 0.6e9,
            source: LimitSource::User,
        };
        let link = Link {
            devices: DISKS.to_vec(),
            limit,
        };
        let together = report(0, vec![link.clone()]);
        let writes = &together.links[0].streams[1];
        assert_eq!(
            (
                writes.bursts_found,
                writes.bytes,
                together.links[0].streams[0].bursts_found
            ),
            (6, 360_000_000, 0)
        );
        let b = &writes.bursts[0].burst;
        assert!(
            (b.percent_of_limit - 100.0).abs() < 1.0 && b.exceeds_limit,
            "{b:?}"
        );
        assert_eq!((b.bytes, b.ios), (60_000_000, 2000));
        let reported = together
            .findings
            .iter()
            .find(|f| f.kind() == FindingKind::Microburst && f.dev.is_none());
        let reported = reported.expect("a finding of the link");
        assert_eq!(reported.link(), DISKS);
        let cause = reported
            .evidence
            .causes()
            .first()
            .map(|(key, cause)| (*key, cause.actor.comm, cause.actor.tgid));
        assert_eq!(cause, Some(("cause", Some(Comm::new(b"flusher")), Some(7))));
        // In turn each fills half of it; the same bytes in the same minute.
        let apart = report(5_000_000_000, vec![link]);
        let writes = &apart.links[0].streams[1];
        assert_eq!((writes.bursts_found, writes.bytes), (12, 360_000_000));
        assert!(
            writes
                .bursts
                .iter()
                .all(|b| !b.burst.exceeds_limit && b.burst.percent_of_limit < 51.0)
        );
        assert!(report(0, Vec::new()).links.is_empty());
    }
}
