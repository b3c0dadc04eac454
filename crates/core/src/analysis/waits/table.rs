//! Waits as rows of a table, and back: of what was recorded when single I/Os are gone.

use std::collections::BTreeMap;

use super::bins::WaitBin;
use super::groups::{Group, Program};
use super::victims::{Behind, Victim};
use super::{DeviceFelt, DeviceVictims, Service};
use crate::model::{DevId, TimeOwner, WaitParty, WaitSums, WorstWait, floor_to};

/// Lengths of the table's slots in seconds.
pub const WAIT_STEPS_S: [i32; 2] = [10, 600];

/// Maximum number of groups per device and slot with rows of their own (those that lost most), and of groups that each
/// of them waited behind.
const MAX_PARTIES: usize = 20;

/// The key of a row: device, victim, owner of the time, and culprit.
type WaitRowKey = (DevId, WaitParty, TimeOwner, Option<WaitParty>);

/// The rows of one slot.
#[derive(Debug, Default)]
struct TableSlot(BTreeMap<WaitRowKey, WaitSums>);

impl TableSlot {
    fn add(&mut self, row: WaitSums) {
        let key = (row.dev, row.victim, row.cause, row.culprit);
        match self.0.get_mut(&key) {
            None => {
                self.0.insert(key, row);
            }
            Some(sum) => {
                sum.ns += row.ns;
                sum.ios = added(sum.ios, row.ios);
                sum.delayed_ios = added(sum.delayed_ios, row.delayed_ios);
                sum.worst = worse(sum.worst, row.worst);
            }
        }
    }

    /// The rows; parties beyond the most important ones are summed.
    fn rows(self) -> Vec<WaitSums> {
        let mut lost_ns: BTreeMap<(DevId, WaitParty), i64> = BTreeMap::new();
        let mut behind_ns: BTreeMap<(DevId, WaitParty), Vec<(i64, WaitParty)>> = BTreeMap::new();
        for row in self.0.values() {
            let victim = (row.dev, row.victim);
            let lost = lost_ns.entry(victim).or_default();
            if row.cause != TimeOwner::Undisturbed {
                *lost += row.ns;
            }
            if let Some(culprit) = row.culprit {
                behind_ns.entry(victim).or_default().push((row.ns, culprit));
            }
        }
        let mut by_device: BTreeMap<DevId, Vec<(i64, WaitParty)>> = BTreeMap::new();
        for ((dev, victim), ns) in lost_ns {
            by_device.entry(dev).or_default().push((ns, victim));
        }
        by_device.values_mut().for_each(keep_most);
        behind_ns.values_mut().for_each(keep_most);

        let mut kept = TableSlot::default();
        for mut row in self.0.into_values() {
            let culprits = behind_ns.get(&(row.dev, row.victim));
            if let Some(culprit) = &mut row.culprit
                && !has(culprits, culprit)
            {
                *culprit = WaitParty::others(culprit.class);
            }
            if !has(by_device.get(&row.dev), &row.victim) {
                row.victim = WaitParty::others(row.victim.class);
            }
            kept.add(row);
        }
        kept.0.into_values().collect()
    }
}

fn keep_most(parties: &mut Vec<(i64, WaitParty)>) {
    parties.sort_by_key(|(ns, party)| (std::cmp::Reverse(*ns), *party));
    parties.truncate(MAX_PARTIES);
}

fn has(parties: Option<&Vec<(i64, WaitParty)>>, party: &WaitParty) -> bool {
    parties.is_some_and(|all| all.iter().any(|(_, known)| known == party))
}

fn added(sum: Option<i64>, more: Option<i64>) -> Option<i64> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum + more),
        (known, None) | (None, known) => known,
    }
}

fn worse(a: Option<WorstWait>, b: Option<WorstWait>) -> Option<WorstWait> {
    a.into_iter().chain(b).max_by_key(WorstWait::excess_ns)
}

/// Sums intervals of a device into the rows of one slot.
pub fn wait_rows(bins: &[WaitBin], step_s: i32, at_ns: i64) -> Vec<WaitSums> {
    let mut slot = TableSlot::default();
    for bin in bins {
        for victim in &bin.victims {
            let row = WaitSums {
                step_s,
                at_ns,
                dev: bin.dev,
                victim: party(&victim.group),
                cause: TimeOwner::Undisturbed,
                culprit: None,
                ns: victim.time.undisturbed_ns,
                ios: Some(victim.ios as i64),
                delayed_ios: Some(victim.delayed_ios as i64),
                worst: Some(victim.worst),
            };
            slot.add(row);
            for behind in &victim.behind {
                slot.add(WaitSums {
                    cause: TimeOwner::Others,
                    culprit: Some(party(&behind.group)),
                    ns: behind.ns,
                    ios: Some(behind.ios as i64),
                    delayed_ios: None,
                    worst: None,
                    ..row
                });
            }
            for cause in [
                TimeOwner::Own,
                TimeOwner::Held,
                TimeOwner::Device,
                TimeOwner::Unknown,
            ] {
                let ns = victim.time.ns(cause);
                if ns > 0 {
                    slot.add(WaitSums {
                        cause,
                        ns,
                        ios: None,
                        delayed_ios: None,
                        worst: None,
                        ..row
                    });
                }
            }
        }
    }
    slot.rows()
}

/// Sums rows into longer slots, sorted by time.
pub fn coarser_waits(rows: &[WaitSums], step_s: i32) -> Vec<WaitSums> {
    let step_ns = i64::from(step_s) * 1_000_000_000;
    let mut slots: BTreeMap<i64, TableSlot> = BTreeMap::new();
    for row in rows {
        let at_ns = floor_to(row.at_ns, step_ns);
        slots.entry(at_ns).or_default().add(WaitSums {
            step_s,
            at_ns,
            ..*row
        });
    }
    slots.into_values().flat_map(TableSlot::rows).collect()
}

/// Sums rows over all slots into victims by device.
pub fn victims_of_rows(rows: impl IntoIterator<Item = WaitSums>) -> Vec<DeviceVictims> {
    let mut devices: BTreeMap<DevId, BTreeMap<Group, Victim>> = BTreeMap::new();
    for row in rows {
        let group = group(&row.victim);
        let victim = devices
            .entry(row.dev)
            .or_default()
            .entry(group)
            .or_insert_with(|| Victim::none(group));
        add(victim, &row);
    }
    let mut all = Vec::new();
    for (dev, victims) in devices {
        all.push(DeviceVictims {
            dev,
            service: Service::InTurn,
            victims: Victim::ordered(victims.into_values().collect()),
            felt: DeviceFelt::default(),
        });
    }
    all
}

fn add(victim: &mut Victim, row: &WaitSums) {
    let time = &mut victim.time;
    match row.cause {
        TimeOwner::Undisturbed => {
            time.undisturbed_ns += row.ns;
            victim.ios += count(row.ios);
            victim.delayed_ios += count(row.delayed_ios);
            if let Some(worst) = row.worst {
                victim.worst.keep_worse(&worst);
            }
        }
        TimeOwner::Own => time.own_ns += row.ns,
        TimeOwner::Held => time.held_ns += row.ns,
        TimeOwner::Device => time.device_ns += row.ns,
        TimeOwner::Unknown => time.unknown_ns += row.ns,
        TimeOwner::Others => match &row.culprit {
            Some(culprit) => {
                time.others_ns += row.ns;
                victim.add_behind(Behind {
                    group: group(culprit),
                    ns: row.ns,
                    ios: count(row.ios),
                });
            }
            None => time.unknown_ns += row.ns,
        },
    }
}

fn count(n: Option<i64>) -> u64 {
    u64::try_from(n.unwrap_or(0)).unwrap_or(0)
}

fn party(group: &Group) -> WaitParty {
    let Some(program) = group.program else {
        return WaitParty::others(group.class);
    };
    WaitParty {
        is_others: false,
        tgid: program.tgid,
        comm: program.comm,
        cgroup: program.cgroup,
        class: group.class,
        origin: group.origin,
    }
}

fn group(party: &WaitParty) -> Group {
    let program = Program {
        tgid: party.tgid,
        comm: party.comm,
        cgroup: party.cgroup,
    };
    Group {
        program: (!party.is_others).then_some(program),
        class: party.class,
        origin: party.origin,
        file: None,
    }
}
