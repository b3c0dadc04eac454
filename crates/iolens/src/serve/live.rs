//! Slots of 100 ms for those who watch; without a client nothing is computed.

use iolens_core::analysis::Window;
use iolens_core::analysis::stream::order::Hold;
use iolens_core::analysis::timeline::{GroupBy, Timeline, TimelinePlan};
use iolens_core::model::Device;
use iolens_recorder::Seen;
use tokio::sync::broadcast::Sender;

use crate::engine::rows::{device_keys, group_name};
use crate::present::html::Names;
use crate::present::zoom::{Format, ZoomWriter};

/// Length of a slot.
pub const STEP_NS: i64 = 100_000_000;
/// A slot waits so long for I/Os that were in flight in it; longer ones count from then on.
const MAX_WAIT: Hold = Hold { spans: 1 << 18, ns: 1_000_000_000 };
/// Rows that a watcher may be late: half a minute of ten devices.
const MAX_WAITING: usize = 4096;

/// What those who watch hear of.
#[derive(Debug, Clone)]
pub struct Happened {
    /// `slot` or `finding`.
    pub event: &'static str,
    /// A JSON object.
    pub data: String,
}

/// Makes rows while a client listens.
#[derive(Debug)]
pub struct Live {
    rows: Sender<Happened>,
    timeline: Option<Timeline>,
    devices: Vec<Device>,
    /// Of the session's time.
    start_unix_ns: i64,
}

impl Live {
    /// Of a session that began at this Unix time.
    pub fn new(start_unix_ns: i64) -> Live {
        let rows = Sender::new(MAX_WAITING);
        Live { rows, timeline: None, devices: Vec::new(), start_unix_ns }
    }

    /// Gives others rows, JSON objects, one for each device and slot.
    pub fn sender(&self) -> Sender<Happened> {
        self.rows.clone()
    }

    /// Takes a look at the source.
    pub fn take(&mut self, seen: &Seen) {
        if let Some(devices) = &seen.devices {
            self.devices.clone_from(devices);
        }
        let Some(complete_to_ns) = seen.complete_to_ns.filter(|_| self.rows.receiver_count() > 0) else {
            self.timeline = None;
            return;
        };
        if self.timeline.is_none() {
            let from_ns = complete_to_ns.div_euclid(STEP_NS) * STEP_NS + STEP_NS;
            let plan = TimelinePlan {
                by: GroupBy::Device,
                extended: true,
                always: device_keys(&self.devices, GroupBy::Device),
                ..TimelinePlan::new(Window::new(from_ns, i64::MAX), STEP_NS)
            };
            self.timeline = Timeline::with_hold(plan, MAX_WAIT).ok();
        }
        let Some(timeline) = &mut self.timeline else { return };
        seen.lost.iter().for_each(|l| timeline.lost(l));
        let pushed = seen.ios.iter().try_for_each(|io| timeline.push(io));
        if pushed.and_then(|()| timeline.advance(complete_to_ns)).is_err() {
            self.timeline = None;
            return;
        }
        let mut writer = ZoomWriter::new(Format::Ndjson, GroupBy::Device, true, STEP_NS);
        while let Some(mut row) = timeline.next_row() {
            row.from_ns += self.start_unix_ns;
            row.to_ns += self.start_unix_ns;
            let name = group_name(&self.devices, &Names::default(), row.key);
            // All clients may have left.
            drop(self.rows.send(Happened { event: "slot", data: writer.row(&row, &name).trim_end().to_owned() }));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{DevId, Io, Op};

    const S: i64 = 1_000_000_000;

    #[test]
    fn rows_come_for_those_who_listen_and_only_then() {
        let mut live = Live::new(1_795_000_000 * S);
        let dev = DevId::new(8, 0);
        let io = |done_ns| Io::new(done_ns, dev, Op::READ, 4096, Some(1_000_000), 1_000_000);
        let seen = |ios: &[i64], complete_to_ns| Seen {
            ios: ios.iter().map(|ns| io(*ns)).collect(),
            complete_to_ns: Some(complete_to_ns),
            devices: Some(vec![Device::named("sda", dev)]),
            ..Seen::default()
        };
        live.take(&seen(&[S / 2], S));
        assert!(live.timeline.is_none(), "no client listens");
        let mut rows = live.sender().subscribe();
        live.take(&seen(&[], S));
        live.take(&seen(&[S + 150_000_000, S + 160_000_000], 4 * S));
        let mut found = Vec::new();
        while let Ok(row) = rows.try_recv() {
            found.push(serde_json::from_str::<serde_json::Value>(&row.data).unwrap());
        }
        let first = found.iter().find(|r| r["r_per_s"].as_f64() > Some(0.0)).unwrap();
        assert_eq!(first["device"], "sda");
        assert!(found.iter().filter(|r| r["r_per_s"].as_f64() == Some(0.0)).count() > 10, "idle slots have rows, too");
        assert_eq!((first["r_per_s"].as_f64(), first["r_us"].as_f64()), (Some(20.0), Some(2000.0)), "{found:?}");
        assert_eq!(first["time_s"].as_f64(), Some(1_795_000_001.2));
        assert!(found.iter().all(|r| r["time_s"].as_f64() > Some(1_795_000_001.0)), "from when it listens");
        drop(rows);
        live.take(&seen(&[5 * S], 6 * S));
        assert!(live.timeline.is_none());
    }
}
