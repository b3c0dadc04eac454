//! Live data in slots of 100 ms: the last ten minutes in memory, and new slots as they complete.

mod events;

use std::sync::Arc;

use iolens_core::analysis::Window;
use iolens_core::analysis::stream::order::Hold;
use iolens_core::analysis::timeline::{GroupBy, GroupKey, Row, SlotTime, Timeline, TimelinePlan};
use iolens_core::model::{DevId, Device};
use iolens_recorder::Seen;

use crate::engine::rows::{device_keys, group_name};
use crate::present::fields::ShownColumns;
use crate::present::zoom::{Format, ZoomWriter};
pub use events::{Happened, LiveEvents, Since};
use iolens_core::model::Names;

/// Length of a slot.
pub const STEP_NS: i64 = 100_000_000;
/// How long a slot waits for I/Os that were in flight in it; longer ones count from then on.
const MAX_WAIT: Hold = Hold {
    spans: 1 << 18,
    ns: 1_000_000_000,
};
/// Computes the rows.
#[derive(Debug)]
pub struct Live {
    events: Arc<LiveEvents>,
    timeline: Option<Timeline>,
    devices: Vec<Device>,
    /// Start of the session in Unix time.
    start_unix_ns: i64,
}

impl Live {
    /// For a session that started at this Unix time.
    pub fn new(start_unix_ns: i64) -> Live {
        Live {
            events: LiveEvents::new(),
            timeline: None,
            devices: Vec::new(),
            start_unix_ns,
        }
    }

    /// The destination of the rows: JSON objects, one per device and slot.
    pub fn events(&self) -> Arc<LiveEvents> {
        Arc::clone(&self.events)
    }

    /// Adds what the recorder has seen. Returns the in-flight time of the slots that are complete now.
    pub fn update(&mut self, seen: &Seen) -> Vec<InFlight> {
        if let Some(devices) = &seen.devices {
            self.devices.clone_from(devices);
            if let Some(timeline) = &mut self.timeline {
                timeline.set_always(present_keys(devices));
            }
        }
        if let Some(start_unix_ns) = seen.start_unix_ns {
            self.start_unix_ns = start_unix_ns;
        }
        let Some(complete_to_ns) = seen.complete_to_ns else {
            self.timeline = None;
            return Vec::new();
        };
        if self.timeline.is_none() {
            let plan = TimelinePlan {
                by: GroupBy::Device,
                extended: true,
                endless: true,
                always: present_keys(&self.devices),
                ..TimelinePlan::new(Window::new(0, i64::MAX), STEP_NS)
            };
            self.timeline = Timeline::with_hold(plan, MAX_WAIT).ok();
        }
        let Some(timeline) = &mut self.timeline else {
            return Vec::new();
        };
        seen.lost.iter().for_each(|l| timeline.lost(l));
        let pushed = seen.ios.iter().try_for_each(|io| timeline.push(io));
        if pushed
            .and_then(|()| timeline.advance(complete_to_ns))
            .is_err()
        {
            self.timeline = None;
            return Vec::new();
        }
        let mut in_flight = Vec::new();
        let mut writer = ZoomWriter::new(Format::Ndjson, GroupBy::Device, true, STEP_NS)
            .with_columns(ShownColumns::of_chart(true));
        while let Some(mut row) = timeline.next_row() {
            row.from_ns += self.start_unix_ns;
            row.to_ns += self.start_unix_ns;
            in_flight.extend(InFlight::of(&row));
            let name = group_name(&self.devices, &Names::default(), row.key);
            let most = row
                .extended
                .as_ref()
                .and_then(|x| x.inflight_max)
                .unwrap_or(0);
            let is_idle = row.flows.iter().all(|f| f.ios == 0) && most == 0 && !row.lossy;
            self.events.publish(
                row.to_ns,
                "slot",
                writer.row(&row, &name).trim_end(),
                is_idle,
            );
        }
        in_flight
    }
}

/// The devices that are currently present: they get slots while they are idle, too.
fn present_keys(devices: &[Device]) -> Vec<GroupKey> {
    let mut present = devices.to_vec();
    present.retain(|device| device.removed_ns.is_none());
    device_keys(&present, GroupBy::Device)
}

/// In-flight time of a device in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// The device.
    pub dev: DevId,
    /// Nanoseconds with any I/O in flight.
    pub busy_ns: i64,
    /// Integral of the number of I/Os in flight over time, in nanoseconds.
    pub area_ns: i64,
}

impl InFlight {
    /// `None` if nothing was in flight, or if that is not known.
    fn of(row: &Row) -> Option<InFlight> {
        let GroupKey::Device(dev) = row.key else {
            return None;
        };
        let x = row.extended.as_ref()?;
        let (Some(SlotTime::Sum { ns: busy_ns, .. }), Some(SlotTime::Sum { ns: area_ns, .. })) =
            (x.busy, x.in_flight)
        else {
            return None;
        };
        let busy_ns = i64::try_from(busy_ns).ok()?;
        let area_ns = i64::try_from(area_ns).ok()?;
        (area_ns > 0).then_some(InFlight {
            dev,
            busy_ns,
            area_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    use iolens_core::model::{Io, LossReason, Lost, Op};

    const S: i64 = 1_000_000_000;

    #[test]
    fn rows_come_for_those_who_listen_and_those_with_ios_for_those_who_come_later() {
        let mut live = Live::new(1_795_000_000 * S);
        let dev = DevId::new(8, 0);
        let io = |done_ns| Io::new(done_ns, dev, Op::READ, 4096, Some(1_000_000), 1_000_000);
        let seen = |ios: &[i64], complete_to_ns| Seen {
            ios: ios.iter().map(|ns| io(*ns)).collect(),
            complete_to_ns: Some(complete_to_ns),
            devices: Some(vec![Device::named("sda", dev)]),
            ..Seen::default()
        };
        assert!(live.update(&seen(&[], S)).is_empty());
        let events = live.events();
        let (before, mut rows) = events.watch(Since::Time(0));
        assert!(
            before.is_empty(),
            "a slot is complete when nothing that began in it can come"
        );
        let in_flight = live.update(&seen(&[S + 150_000_000, S + 151_000_000], 4 * S));
        assert_eq!(
            in_flight,
            [InFlight {
                dev,
                busy_ns: 3_000_000,
                area_ns: 4_000_000
            }]
        );
        let mut found = Vec::new();
        while let Ok(row) = rows.try_recv() {
            found.push(serde_json::from_str::<serde_json::Value>(&row.data).unwrap());
        }
        let first = found
            .iter()
            .find(|r| r["r_per_s"].as_f64() > Some(0.0))
            .unwrap();
        assert_eq!(first["device"], "sda");
        assert!(
            found
                .iter()
                .filter(|r| r["r_per_s"].as_f64() == Some(0.0))
                .count()
                > 10,
            "idle slots have rows, too"
        );
        assert_eq!(
            (first["r_per_s"].as_f64(), first["r_us"].as_f64()),
            (Some(20.0), Some(2000.0)),
            "{found:?}"
        );
        assert_eq!(first["time_s"].as_f64(), Some(1_795_000_001.2));
        assert!(
            found
                .iter()
                .all(|r| r["time_s"].as_f64() > Some(1_795_000_000.0)),
            "from the session's start"
        );
        let later = |since_ns: i64| events.watch(Since::Time(1_795_000_000 * S + since_ns)).0;
        assert_eq!(later(0).len(), 1, "idle slots are left out");
        assert_eq!(
            (later(S).len(), later(S + 200_000_000).len()),
            (1, 0),
            "it ends 1.2 s after the start"
        );
        live.update(&seen(&[620 * S + 50_000_000], 625 * S));
        assert_eq!(later(0).len(), 1, "ten minutes later it is forgotten");
    }

    #[test]
    fn rows_have_the_new_time_once_the_clock_was_set() {
        let mut live = Live::new(1_000 * S);
        let (_, mut rows) = live.events().watch(Since::Now);
        let mut newest_s = |complete_to_ns, start_unix_ns| {
            live.update(&Seen {
                complete_to_ns: Some(complete_to_ns),
                devices: Some(vec![Device::named("sda", DevId::new(8, 0))]),
                start_unix_ns,
                ..Seen::default()
            });
            let mut newest_s = None;
            while let Ok(row) = rows.try_recv() {
                let row: serde_json::Value = serde_json::from_str(&row.data).unwrap();
                newest_s = row["time_s"].as_f64();
            }
            newest_s.unwrap()
        };
        // The last second is not known yet.
        assert!((1_001.0..=1_003.0).contains(&newest_s(3 * S, None)));
        assert!((4_603.0..=4_605.0).contains(&newest_s(5 * S, Some(4_600 * S))));
        assert!((4_605.0..=4_607.0).contains(&newest_s(7 * S, None)));
    }

    #[test]
    fn a_slot_of_which_the_view_missed_ios_is_lossy_and_not_idle() {
        let mut live = Live::new(0);
        let dev = DevId::new(8, 0);
        live.update(&Seen {
            complete_to_ns: Some(S),
            devices: Some(vec![Device::named("sda", dev)]),
            ..Seen::default()
        });
        let missed = Lost {
            ios: Some(5),
            ..Lost::somewhere(S + 110_000_000, S + 190_000_000, LossReason::WriterBusy)
        };
        live.update(&Seen {
            lost: vec![missed],
            complete_to_ns: Some(4 * S),
            ..Seen::default()
        });
        let (rows, _) = live.events().watch(Since::Time(0));
        assert_eq!(rows.len(), 1, "idle slots are left out: {rows:?}");
        let row: serde_json::Value = serde_json::from_str(&rows[0].data).unwrap();
        assert_eq!(row["lossy"], true);
        assert_eq!(row["time_s"].as_f64(), Some(1.2));
    }

    #[test]
    fn idle_slots_are_those_of_devices_that_are_there() {
        let mut live = Live::new(0);
        let (_, mut rows) = live.events().watch(Since::Now);
        let mut names_after = |devices: Vec<Device>, complete_to_ns| {
            live.update(&Seen {
                complete_to_ns: Some(complete_to_ns),
                devices: Some(devices),
                ..Seen::default()
            });
            let mut names = BTreeSet::new();
            while let Ok(row) = rows.try_recv() {
                let row: serde_json::Value = serde_json::from_str(&row.data).unwrap();
                names.insert(row["device"].as_str().unwrap().to_owned());
            }
            names.into_iter().collect::<Vec<_>>()
        };
        let old = Device::named("sda", DevId::new(8, 0));
        let new = Device::named("sdb", DevId::new(8, 16));
        let gone = Device {
            removed_ns: Some(4 * S),
            ..old.clone()
        };
        assert_eq!(names_after(vec![old.clone()], 3 * S), ["sda"]);
        assert_eq!(names_after(vec![old, new.clone()], 5 * S), ["sda", "sdb"]);
        assert_eq!(names_after(vec![gone, new], 7 * S), ["sdb"]);
    }
}
