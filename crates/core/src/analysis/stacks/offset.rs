//! Learns from a recording how the sectors of a dm or md device map to those of a device under it.
//!
//! A lower I/O is a whole upper I/O, a part of one, or several merged ones. In each case a pair of I/Os bounds the
//! offset between the sectors of the two devices. The true offset lies within the bounds of nearly all lower I/Os, a
//! wrong one within those of few.

use std::collections::VecDeque;

use crate::model::{Device, Io, SECTOR_BYTES};

/// Maximum number of pairs of I/Os whose bounds are kept; older ones are dropped.
const MAX_SAMPLES: usize = 4096;

/// Minimum number of lower I/Os that must agree on an offset; they must also be more than half of those compared.
const MIN_AGREE: usize = 8;

/// Maximum number of pieces of a striped I/O that are compared.
const MAX_PIECES: usize = 1024;

/// Range of possible offsets of a lower I/O from an upper one, in sectors, both ends included.
#[derive(Debug, Clone, Copy)]
struct OffsetSample {
    /// Number of the lower I/O.
    lower: u64,
    low: i64,
    high: i64,
}

/// Mapping of sectors from one device to another.
#[derive(Debug, Default)]
pub(in crate::analysis) struct Placement {
    /// Chunk size in sectors, and number of data chunks per stripe.
    stripes: Option<(i64, i64)>,
    samples: VecDeque<OffsetSample>,
    offset: Option<i64>,
}

/// First sector and number of sectors; `None` without data.
fn extent(io: &Io) -> Option<(i64, i64)> {
    let sectors = io.bytes / SECTOR_BYTES;
    io.sector
        .filter(|_| sectors > 0)
        .map(|sector| (sector, sectors))
}

impl Placement {
    /// The mapping from `upper` to a device under it.
    pub fn under(upper: &Device) -> Placement {
        let stripes = upper.raid.as_ref().and_then(|r| {
            let chunk = i64::try_from(r.chunk_bytes).ok()? / SECTOR_BYTES;
            Some((chunk, i64::from(r.data_disks()?))).filter(|(chunk, _)| *chunk > 0)
        });
        Placement {
            stripes,
            ..Placement::default()
        }
    }

    /// Whether the offset is known.
    pub fn is_known(&self) -> bool {
        self.offset.is_some()
    }

    /// Splits an extent of the upper device into its pieces on a member: first sector relative to the member's data,
    /// and number of sectors.
    fn pieces(&self, (mut sector, mut left): (i64, i64)) -> impl Iterator<Item = (i64, i64)> {
        let stripes = self.stripes;
        std::iter::from_fn(move || {
            if left <= 0 {
                return None;
            }
            let (at, n) = match stripes {
                Some((chunk, disks)) => {
                    let within = sector % chunk;
                    (
                        sector / chunk / disks * chunk + within,
                        left.min(chunk - within),
                    )
                }
                None => (sector, left),
            };
            sector += n;
            left -= n;
            Some((at, n))
        })
        .take(MAX_PIECES)
    }

    /// Notes that `lower`, the `n`-th of its kind, may come from `upper`.
    pub fn sample(&mut self, n: u64, upper: &Io, lower: &Io) {
        let Some(((sector, sectors), above)) = extent(lower).zip(extent(upper)) else {
            return;
        };
        let mut pieces = self.pieces(above);
        let (Some((at, len)), None) = (pieces.next(), pieces.next()) else {
            return;
        };
        drop(pieces);
        let first = sector - at;
        let last = sector + sectors - at - len;
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(OffsetSample {
            lower: n,
            low: first.min(last),
            high: first.max(last),
        });
    }

    /// Sets the offset to the one that most samples allow, if there is exactly one and enough samples agree.
    pub fn learn(&mut self) {
        let mut lowers: Vec<u64> = self.samples.iter().map(|s| s.lower).collect();
        lowers.sort_unstable();
        lowers.dedup();
        let mut edges: Vec<(i64, i32)> = self
            .samples
            .iter()
            .flat_map(|s| [(s.low, 1), (s.high + 1, -1)])
            .collect();
        edges.sort_unstable();
        let mut covered = 0;
        let mut best = (0, None);
        let mut at = 0;
        for (i, (edge, change)) in edges.iter().enumerate() {
            covered += change;
            let next = edges.get(i + 1).map_or(*edge, |e| e.0);
            if next == *edge {
                continue;
            }
            if covered > best.0 {
                best = (covered, (next == edge + 1).then_some(*edge));
                at = 1;
            } else if covered == best.0 {
                at += 1;
            }
        }
        let agree = usize::try_from(best.0).unwrap_or(0);
        if let (Some(offset), 1) = (best.1, at)
            && agree >= MIN_AGREE
            && 2 * agree > lowers.len()
        {
            self.offset = Some(offset);
        }
    }

    /// Whether the sectors of `lower` overlap those that `upper` maps to; `false` while the offset is not known.
    pub fn meets(&self, upper: &Io, lower: &Io) -> bool {
        let (Some(offset), Some((sector, sectors)), Some(above)) =
            (self.offset, extent(lower), extent(upper))
        else {
            return false;
        };
        self.pieces(above)
            .any(|(at, n)| at + offset < sector + sectors && sector < at + offset + n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Op, Raid};
    use proptest::prelude::*;

    fn io(sector: i64, sectors: i64) -> Io {
        Io {
            sector: Some(sector),
            ..Io::new(0, DevId(1), Op::WRITE, sectors * SECTOR_BYTES, None, 0)
        }
    }

    proptest! {
        /// Each I/O above comes out whole, in pieces or merged, beside others in flight.
        #[test]
        fn the_distance_is_found(
            offset in 0i64..1 << 30,
            starts in prop::collection::vec(0i64..1 << 30, 40..80),
            pieces in 1i64..4,
            merged in 1i64..4,
        ) {
            let mut placement = Placement::default();
            let mut n = 0;
            for both in starts.windows(2) {
                for at in 0..pieces {
                    let lower = io(both[0] * 8 + offset + at * 8, 8 * merged);
                    n += 1;
                    for i in 0..merged {
                        placement.sample(n, &io(both[0] * 8 + 8 * i, 8 * pieces), &lower);
                    }
                    placement.sample(n, &io(both[1] * 8, 8), &lower);
                }
            }
            placement.learn();
            // A merge of pieces leaves room for several distances.
            if pieces == 1 || merged == 1 {
                prop_assert_eq!(placement.offset, Some(offset));
            }
            let own = io(1 << 40, 8);
            let other = io((1 << 40) + offset, 8);
            prop_assert!(placement.offset.is_none() || placement.meets(&own, &other));
        }
    }

    #[test]
    fn chance_is_no_distance() {
        let mut placement = Placement::default();
        for n in 0..100 {
            placement.sample(
                n,
                &io(n as i64 * n as i64 * 8, 8),
                &io(n as i64 * 977 * 8, 8),
            );
        }
        placement.learn();
        assert_eq!(placement.offset, None);
        assert!(!placement.meets(&io(0, 8), &io(0, 8)), "nothing is known");
    }

    #[test]
    fn stripes_are_laid_over_the_members() {
        let raid = Raid {
            level: "raid5".to_owned(),
            disks: 3,
            chunk_bytes: 65_536,
            layout: 2,
        };
        let md = Device {
            raid: Some(raid),
            ..Device::named("md5", DevId::new(9, 5))
        };
        let mut placement = Placement::under(&md);
        // Chunks of 128 sectors, two of data in a stripe: sector 300 is 44 into the first chunk of the second stripe.
        assert_eq!(
            placement.pieces((300, 8)).collect::<Vec<_>>(),
            [(128 + 44, 8)]
        );
        assert_eq!(
            placement.pieces((120, 256)).collect::<Vec<_>>(),
            [(120, 8), (0, 128), (128, 120)]
        );
        for n in 0..20 {
            let above = 8 * (n as i64 * 37 % 500);
            let (at, _) = placement.pieces((above, 8)).next().expect("a piece");
            placement.sample(n, &io(above, 8), &io(at + 2048, 8));
        }
        placement.learn();
        assert_eq!(placement.offset, Some(2048));
        assert!(
            placement.meets(&io(120, 256), &io(2048 + 130, 2))
                && !placement.meets(&io(0, 8), &io(2048 + 130, 2))
        );
    }
}
