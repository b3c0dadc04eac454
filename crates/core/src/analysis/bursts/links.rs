//! Bursts of several devices behind one link (A13). They share the link's bandwidth, so their throughput is summed
//! before bursts are searched: two devices at half of the link's rate fill it, and neither device's own series shows
//! that.

use serde::Serialize;

use crate::analysis::bursts::Limit;
use crate::analysis::bursts::cells::{CLASSES, Cells, CellsOf};
use crate::analysis::bursts::detail::{BurstDetail, bursts_of, largest_alone};
use crate::analysis::stream::losses::Losses;
use crate::analysis::stream::window::Window;
use crate::model::{Class, DevId};

/// Devices whose data go through one link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// Its members. A device stacked on another member would count twice.
    pub devices: Vec<DevId>,
    /// Its bandwidth in each direction.
    pub limit: Limit,
}

/// Reads or writes of all devices behind a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkStream {
    /// Reads or writes.
    pub class: Class,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Width of the slots in which bursts were searched, in nanoseconds.
    pub slot_ns: i64,
    /// The largest bursts, in order of time.
    pub bursts: Vec<BurstDetail>,
    /// Number of bursts found.
    pub bursts_found: usize,
}

/// Throughput and bursts of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkDetail {
    /// The link.
    pub link: Link,
    /// Reads and writes.
    pub streams: [LinkStream; 2],
}

/// Finds bursts in the sum of what `link`'s devices moved, in slots of `slot_ns`. `number` is the link's index in `cells`.
pub(in crate::analysis) fn detail(
    number: usize,
    link: &Link,
    cells: &Cells,
    losses: &Losses,
    window: Window,
    slot_ns: i64,
) -> LinkDetail {
    let of = CellsOf::Link(number);
    let streams = CLASSES.map(|class| {
        let series = cells.series(of, class, slot_ns, window);
        // I/Os lost on one device are missing from the sum of all.
        let bursts = bursts_of(
            &series,
            &link.limit,
            |from_ns, to_ns| {
                let mut devices = link.devices.iter();
                devices.any(|dev| losses.overlap(*dev, from_ns, to_ns))
            },
            |from_ns, to_ns| cells.main_actor(of, class, &[(from_ns, to_ns)]),
        );
        LinkStream {
            class,
            bytes: cells.bytes(of, class),
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
