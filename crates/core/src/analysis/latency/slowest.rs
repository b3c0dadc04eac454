//! The slowest I/O of one process beside its median ones: the delay of a reader while others write.

use crate::model::{Class, Histogram, Io};

/// The slowest I/O, and the median latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowestIo {
    /// Its completion time.
    pub done_ns: i64,
    /// From start to done.
    pub total_ns: i64,
    /// Time since the previous completion of the same process and class, in which nothing completed. `None` for the first one.
    pub gap_ns: Option<i64>,
    /// Median latency of all I/Os.
    pub median_ns: i64,
    /// Number of I/Os.
    pub ios: u64,
}

/// Finds the slowest I/O of one class of one process; the first of equally slow ones.
#[derive(Debug)]
pub struct SlowestFinder {
    tgid: i32,
    class: Class,
    latencies: Histogram,
    last_done_ns: Option<i64>,
    slowest: Option<Candidate>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    done_ns: i64,
    total_ns: i64,
    gap_ns: Option<i64>,
}

impl SlowestFinder {
    /// For I/Os of `class` by the process `tgid`.
    pub fn new(tgid: i32, class: Class) -> SlowestFinder {
        SlowestFinder {
            tgid,
            class,
            latencies: Histogram::new(),
            last_done_ns: None,
            slowest: None,
        }
    }

    /// Takes the next completed I/O, in order of completion; I/Os of other processes or classes are ignored.
    pub fn push(&mut self, io: &Io) {
        if io.tgid != Some(self.tgid) || io.class() != self.class {
            return;
        }
        let total_ns = io.total_ns();
        self.latencies.add(total_ns);
        let gap_ns = self.last_done_ns.map(|last_ns| io.done_ns - last_ns);
        self.last_done_ns = Some(io.done_ns);
        if self.slowest.is_none_or(|s| total_ns > s.total_ns) {
            self.slowest = Some(Candidate {
                done_ns: io.done_ns,
                total_ns,
                gap_ns,
            });
        }
    }

    /// The result; `None` if the process did no such I/O.
    pub fn finish(self) -> Option<SlowestIo> {
        let slowest = self.slowest?;
        Some(SlowestIo {
            done_ns: slowest.done_ns,
            total_ns: slowest.total_ns,
            gap_ns: slowest.gap_ns,
            median_ns: self.latencies.quantile(0.5)?,
            ios: self.latencies.n(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DevId, Op};

    fn io(tgid: i32, done_ns: i64, op: Op, total_ns: i64) -> Io {
        Io {
            tgid: Some(tgid),
            ..Io::new(done_ns, DevId(1), op, 4096, Some(0), total_ns)
        }
    }

    #[test]
    fn the_slowest_read_of_the_process_is_found_with_the_time_in_which_none_completed() {
        let mut finder = SlowestFinder::new(7, Class::Read);
        for i in 0..100 {
            finder.push(&io(7, i * 2_500_000, Op::READ, 90_000));
        }
        finder.push(&io(8, 250_000_000, Op::READ, 90_000_000));
        finder.push(&io(7, 260_000_000, Op::WRITE, 90_000_000));
        finder.push(&io(7, 272_200_000, Op::READ, 22_200_000));
        finder.push(&io(7, 275_000_000, Op::READ, 90_000));
        let found = finder.finish().expect("reads");
        assert_eq!((found.done_ns, found.total_ns), (272_200_000, 22_200_000));
        assert_eq!(found.gap_ns, Some(272_200_000 - 99 * 2_500_000));
        assert!((found.median_ns - 90_000).abs() <= 90_000 / 256);
        assert_eq!(found.ios, 102);
    }

    #[test]
    fn without_reads_there_is_none() {
        assert_eq!(SlowestFinder::new(7, Class::Read).finish(), None);
    }
}
