//! Who waited for whom (A28), as keys of the report's document and as a table.

use std::collections::BTreeMap;

use iolens_core::analysis::Report;
use iolens_core::analysis::waits::{
    Behind, DeviceVictims, Group, OwnedTime, Service, Victim, WaitBin,
};
use iolens_core::model::{Class, DevId, Origin, RecordingMeta};
use serde::Serialize;

use super::NOT_KNOWN;
use super::actors::{cgroup_name, file_name};
use super::escape::terminal;
use super::layout::{Layout, count_of, number};
use super::report_json::device_name;
use super::rows_shown::RowsShown;
use iolens_core::model::Names;

/// Entries of the document; a report of thousands of processes stays readable.
const MAX_ENTRIES: usize = 200;

/// The same of one interval of many.
const MAX_INTERVAL_ENTRIES: usize = 20;

/// Groups that an entry names; the time behind all others is one more entry without a name.
const MAX_CAUSES: usize = 20;

/// I/O time of one group by cause. The parts, including those of `behind`, add up to `io_time_s`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitEntry {
    /// Name of the device.
    device: String,
    /// How the device serves concurrent I/Os, as far as the waits show it; `null` if only sums are kept.
    service: Option<Service>,
    /// Group of the I/Os.
    victim: GroupEntry,
    /// Completed I/Os.
    ios: u64,
    /// I/Os that took more than twice their undisturbed latency.
    delayed_ios: u64,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
    /// I/O time that the same I/Os would have taken undisturbed.
    undisturbed_s: f64,
    /// Time behind I/Os of their own group. Includes what queues up behind the first victims of another group.
    own_s: f64,
    /// Time above the driver while the device had room: in the I/O scheduler, by a limit of a control group, or for lack of
    /// tags.
    held_s: f64,
    /// Time caused by the device itself, such as a pause, garbage collection, firmware or a hypervisor.
    device_s: f64,
    /// Time of unknown owner: I/Os are missing, or the wait began more than a minute before it ended.
    unknown_s: f64,
    /// Latency of the I/O that waited longest.
    worst_us: f64,
    /// Completion of the I/O that waited longest, in seconds since the recording's start.
    worst_at_s: f64,
    /// Undisturbed latency of the I/O that waited longest.
    worst_undisturbed_us: f64,
    /// Excess I/O time behind other groups, sorted by time, largest first (lower bounds).
    behind: Vec<BehindEntry>,
}

/// I/Os of one process, or of several of one name in one control group.
#[derive(Debug, Serialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupEntry {
    /// Name of the process; `null` if it is not known, or if the entry sums up all further processes.
    process: Option<String>,
    /// Process ID; `null` if several processes share the entry, or if it is not known.
    pid: Option<i32>,
    /// Path of the control group, or its number where the path is not known.
    cgroup: Option<String>,
    /// Reads, writes, discards or flushes.
    class: Class,
    /// Origin of the I/Os.
    origin: &'static str,
    /// Where I/Os are grouped by files: of which file; not there if that is not known, and elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// Time that I/Os waited behind one group.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BehindEntry {
    #[serde(flatten)]
    group: GroupEntry,
    /// Lost time, summed over the I/Os that waited.
    seconds: f64,
    /// Number of I/Os that waited.
    ios: u64,
}

/// Sum of all victims that no entry includes.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OtherWaits {
    /// Completed I/Os.
    ios: u64,
    /// Sum of the latencies from start to completion.
    io_time_s: f64,
    /// I/O time beyond the undisturbed latency.
    excess_s: f64,
}

/// A victim on its device.
struct Placed<'a> {
    dev: DevId,
    service: Option<Service>,
    victim: &'a Victim,
}

/// Who waited for whom, as documents have it.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitsBlock {
    /// Entries, those that lost most first.
    pub waits: Vec<WaitEntry>,
    /// What they leave out.
    #[serde(rename = "waits_others")]
    pub others: OtherWaits,
}

/// The victims of a device.
fn placed(dev: DevId, service: Service, victims: &[Victim]) -> impl Iterator<Item = Placed<'_>> {
    victims.iter().map(move |victim| Placed {
        dev,
        service: Some(service),
        victim,
    })
}

/// All victims, the most excess first.
fn ordered(waits: &[DeviceVictims]) -> Vec<Placed<'_>> {
    let mut all = Vec::new();
    for device in waits {
        all.extend(placed(device.dev, device.service, &device.victims));
    }
    order(&mut all);
    all
}

/// The most excess first.
fn order(all: &mut [Placed]) {
    all.sort_by_key(|p| {
        (
            std::cmp::Reverse(p.victim.time.excess_ns()),
            p.dev,
            p.victim.group,
        )
    });
}

impl WaitsBlock {
    /// Of one recording.
    pub fn of(waits: &[DeviceVictims], meta: &RecordingMeta, names: &Names) -> WaitsBlock {
        WaitsBlock::of_victims(&ordered(waits), MAX_ENTRIES, meta, names)
    }

    /// Of sums, of which it is not known how the devices serve.
    pub fn of_sums(waits: &[DeviceVictims], meta: &RecordingMeta, names: &Names) -> WaitsBlock {
        let mut victims = ordered(waits);
        victims.iter_mut().for_each(|placed| placed.service = None);
        WaitsBlock::of_victims(&victims, MAX_ENTRIES, meta, names)
    }

    /// Of one interval, by device.
    pub fn of_interval(bins: &[WaitBin], meta: &RecordingMeta, names: &Names) -> WaitsBlock {
        let mut all = Vec::new();
        for bin in bins {
            all.extend(placed(bin.dev, bin.service, &bin.victims));
        }
        order(&mut all);
        WaitsBlock::of_victims(&all, MAX_INTERVAL_ENTRIES, meta, names)
    }

    fn of_victims(
        victims: &[Placed],
        most: usize,
        meta: &RecordingMeta,
        names: &Names,
    ) -> WaitsBlock {
        let mut block = WaitsBlock::default();
        for placed in victims {
            if block.waits.len() < most {
                block.waits.push(entry(placed, meta, names));
            } else {
                block.others.add(placed.victim);
            }
        }
        block
    }

    /// Adds those of a recording that began `later_s` after this one's.
    pub fn add(&mut self, later: WaitsBlock, later_s: f64) {
        for mut entry in later.waits {
            entry.worst_at_s += later_s;
            let known = self
                .waits
                .iter_mut()
                .find(|e| e.device == entry.device && e.victim == entry.victim);
            match known {
                Some(known) => known.merge(entry),
                None => self.waits.push(entry),
            }
        }
        self.waits
            .sort_by(|a, b| b.excess_s().total_cmp(&a.excess_s()));
        for entry in self.waits.drain(MAX_ENTRIES.min(self.waits.len())..) {
            self.others.ios += entry.ios;
            self.others.io_time_s += entry.io_time_s;
            self.others.excess_s += entry.excess_s();
        }
        self.others.ios += later.others.ios;
        self.others.io_time_s += later.others.io_time_s;
        self.others.excess_s += later.others.excess_s;
    }
}

impl OtherWaits {
    fn add(&mut self, victim: &Victim) {
        self.ios += victim.ios;
        self.io_time_s += seconds(victim.time.total_ns());
        self.excess_s += seconds(victim.time.excess_ns());
    }
}

impl WaitEntry {
    /// What of its I/O time was not undisturbed.
    fn excess_s(&self) -> f64 {
        self.io_time_s - self.undisturbed_s
    }

    fn worst_excess_us(&self) -> f64 {
        self.worst_us - self.worst_undisturbed_us
    }

    /// Adds the same victim's of a later recording.
    fn merge(&mut self, later: WaitEntry) {
        if later.worst_excess_us() > self.worst_excess_us() {
            self.worst_us = later.worst_us;
            self.worst_at_s = later.worst_at_s;
            self.worst_undisturbed_us = later.worst_undisturbed_us;
        }
        self.service = later.service.or(self.service);
        self.ios += later.ios;
        self.delayed_ios += later.delayed_ios;
        self.io_time_s += later.io_time_s;
        self.undisturbed_s += later.undisturbed_s;
        self.own_s += later.own_s;
        self.held_s += later.held_s;
        self.device_s += later.device_s;
        self.unknown_s += later.unknown_s;
        for cause in later.behind {
            match self.behind.iter_mut().find(|b| b.group == cause.group) {
                Some(known) => {
                    known.seconds += cause.seconds;
                    known.ios += cause.ios;
                }
                None => self.behind.push(cause),
            }
        }
        self.behind.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn entry(placed: &Placed, meta: &RecordingMeta, names: &Names) -> WaitEntry {
    let victim = placed.victim;
    let mut behind = Vec::new();
    for cause in victim.behind.iter().take(MAX_CAUSES) {
        behind.push(behind_entry(cause, meta, names));
    }
    let unnamed = &victim.behind[behind.len()..];
    if let Some(first) = unnamed.first() {
        behind.push(BehindEntry {
            group: GroupEntry {
                process: None,
                pid: None,
                cgroup: None,
                class: first.group.class,
                origin: Origin::Unknown.name(),
                file: None,
            },
            seconds: seconds(unnamed.iter().map(|b| b.ns).sum()),
            ios: unnamed.iter().map(|b| b.ios).sum(),
        });
    }
    let time = &victim.time;
    WaitEntry {
        device: device_name(meta, placed.dev),
        service: placed.service,
        victim: group_entry(&victim.group, meta, names),
        ios: victim.ios,
        delayed_ios: victim.delayed_ios,
        io_time_s: seconds(time.total_ns()),
        undisturbed_s: seconds(time.undisturbed_ns),
        own_s: seconds(time.own_ns),
        held_s: seconds(time.held_ns),
        device_s: seconds(time.device_ns),
        unknown_s: seconds(time.unknown_ns),
        worst_us: victim.worst.latency_ns as f64 / 1e3,
        worst_at_s: seconds(victim.worst.done_ns),
        worst_undisturbed_us: victim.worst.undisturbed_ns as f64 / 1e3,
        behind,
    }
}

fn behind_entry(cause: &Behind, meta: &RecordingMeta, names: &Names) -> BehindEntry {
    BehindEntry {
        group: group_entry(&cause.group, meta, names),
        seconds: seconds(cause.ns),
        ios: cause.ios,
    }
}

fn group_entry(group: &Group, meta: &RecordingMeta, names: &Names) -> GroupEntry {
    let program = group.program;
    let comm = program.and_then(|p| p.comm);
    let cgroup = program.and_then(|p| p.cgroup);
    GroupEntry {
        process: comm.map(|comm| comm.to_text().into_owned()),
        pid: program.and_then(|p| p.tgid),
        cgroup: cgroup.map(|id| cgroup_name(id, names)),
        class: group.class,
        origin: group.origin.name(),
        file: group.file.map(|file| file_name(&file, meta, names)),
    }
}

const COLUMNS: [&str; 9] = [
    "Who waited",
    "device",
    "class",
    "time s",
    "undisturbed",
    "own",
    "held",
    "device's",
    "behind",
];
/// Columns that identify a row: who waited, device, class.
const KEYS: usize = 3;
/// Columns that are left out on a narrow terminal, the first one first: held, own, the device's, undisturbed. Without one of the
/// `KEYS`, rows could look alike.
const DROPPABLE: [usize; 4] = [6, 5, 7, 4];

/// A row must have lost at least this share of its I/O time to others, to a queue above the driver, or to its device.
const MIN_SHARE: f64 = 0.05;

/// Causes that a row names: those behind which at least this share of its excess was waited.
const MIN_CAUSE_SHARE: f64 = 0.1;
const MAX_ROW_CAUSES: usize = 2;

/// A row of the table: I/Os of one name and class, however they came to be and in whatever control group.
#[derive(Debug)]
struct TableRow {
    who: String,
    dev: DevId,
    class: Class,
    time: OwnedTime,
    /// Behind whom, in words.
    behind: Vec<(String, i64)>,
}

impl TableRow {
    fn add(&mut self, victim: &Victim) {
        let mut own_ns = victim.time.own_ns;
        for cause in &victim.behind {
            let group = &cause.group;
            let who = label(group);
            // Behind another origin of what is this row.
            if who == self.who && group.class == self.class {
                own_ns += cause.ns;
                continue;
            }
            let how = match group.origin {
                Origin::Writeback => "write-back",
                _ => group.class.name(),
            };
            let what = format!("{who} {how}");
            match self.behind.iter_mut().find(|(known, _)| *known == what) {
                Some((_, ns)) => *ns += cause.ns,
                None => self.behind.push((what, cause.ns)),
            }
        }
        self.time.add(&victim.time.with_own(own_ns));
    }

    /// Whether it lost enough to others, to a queue above the driver, or to its device.
    fn lost_much(&self) -> bool {
        let lost_ns = self.time.excess_ns() - self.time.own_ns;
        lost_ns > 0 && lost_ns as f64 >= MIN_SHARE * self.time.total_ns() as f64
    }

    fn cells(&self, meta: &RecordingMeta) -> Vec<String> {
        vec![
            self.who.clone(),
            terminal(&device_name(meta, self.dev)).into_owned(),
            self.class.name().to_owned(),
            seconds_cell(self.time.total_ns()),
            seconds_cell(self.time.undisturbed_ns),
            seconds_cell(self.time.own_ns),
            seconds_cell(self.time.held_ns),
            seconds_cell(self.time.device_ns),
            self.causes(),
        ]
    }

    fn causes(&self) -> String {
        let least_ns = (MIN_CAUSE_SHARE * self.time.excess_ns() as f64) as i64;
        let mut causes: Vec<&(String, i64)> = self.behind.iter().collect();
        causes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let mut named = Vec::new();
        for (what, ns) in causes.into_iter().take(MAX_ROW_CAUSES) {
            if *ns < least_ns {
                break;
            }
            named.push(format!("{what} {}", number(Some(seconds(*ns)), 3)));
        }
        if named.is_empty() {
            return "-".to_owned();
        }
        named.join(", ")
    }
}

fn seconds_cell(ns: i64) -> String {
    number(Some(seconds(ns)), 3)
}

/// All rows, the most excess first.
fn table_rows(waits: &[DeviceVictims]) -> Vec<TableRow> {
    let mut places: BTreeMap<(DevId, String, Class), usize> = BTreeMap::new();
    let mut rows: Vec<TableRow> = Vec::new();
    for placed in ordered(waits) {
        let group = &placed.victim.group;
        let who = label(group);
        let key = (placed.dev, who.clone(), group.class);
        let place = *places.entry(key).or_insert(rows.len());
        if place == rows.len() {
            rows.push(TableRow {
                who,
                dev: placed.dev,
                class: group.class,
                time: OwnedTime::default(),
                behind: Vec::new(),
            });
        }
        rows[place].add(placed.victim);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.time.excess_ns()));
    rows
}

/// The table; nothing where no process lost a twentieth of its I/O time.
pub(super) fn table(
    report: &Report,
    meta: &RecordingMeta,
    shown: &RowsShown,
    layout: Layout,
) -> String {
    let mut rows = Vec::new();
    let mut left_out = 0;
    for row in table_rows(&report.waits) {
        if !shown.has(row.dev) || !row.lost_much() {
            continue;
        }
        if rows.len() < shown.max_rows {
            rows.push(row.cells(meta));
        } else {
            left_out += 1;
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let titles = COLUMNS.map(str::to_owned);
    // These columns hold words; all others hold seconds.
    let mut out =
        layout.table_that_fits(&titles, &rows, KEYS, |i| matches!(i, 0..=2 | 8), &DROPPABLE);
    if left_out > 0 {
        let more = count_of(left_out, "more row");
        out.push_str(&format!("  and {more} that lost less\n"));
    }
    out
}

/// `NAME[PID]`, as in the table of processes.
fn label(group: &Group) -> String {
    let Some(program) = group.program else {
        return "(others)".to_owned();
    };
    let name = match &program.comm {
        Some(comm) => terminal(&comm.to_text()).into_owned(),
        None => NOT_KNOWN.to_owned(),
    };
    match program.tgid {
        Some(tgid) => format!("{name}[{tgid}]"),
        None => name,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report_json::RecordingFacts;
    use super::*;
    use iolens_core::analysis::{ReportBuilder, Window};
    use iolens_core::model::{Comm, Device, Io, Op, Source};

    const MS: i64 = 1_000_000;

    /// A shop reads every 25 ms and takes 0.1 ms; at every fourth read a backup writes for 19 ms first.
    pub fn shop_behind_backup() -> (Report, RecordingMeta, Names) {
        shop_behind(|write| Io {
            comm: Some(Comm::new(b"backup")),
            tgid: Some(12),
            origin: Origin::Writeback,
            ..write
        })
    }

    /// The same where `made` says whose the writes are.
    pub fn shop_behind(made: impl Fn(Io) -> Io) -> (Report, RecordingMeta, Names) {
        let sda = DevId::new(8, 0);
        let mut meta = RecordingMeta::new(Source::Ebpf, 0);
        meta.devices = vec![Device::named("sda", sda)];
        let mut ios = Vec::new();
        for i in 1..400 {
            let at_ns = i * 25 * MS;
            let waits = i % 4 == 0;
            let latency_ns = if waits { 20 * MS } else { MS / 10 };
            let read = Io::new(at_ns + latency_ns, sda, Op::READ, 4096, Some(0), latency_ns);
            ios.push(Io {
                comm: Some(Comm::new(b"shop\x1b[31m")),
                tgid: Some(77),
                cgroup: Some(5),
                origin: Origin::Direct,
                ..read
            });
            if waits {
                let done_ns = at_ns + latency_ns - MS / 10;
                let write = Io::new(done_ns, sda, Op::WRITE, 1 << 20, Some(0), 19 * MS);
                ios.push(made(write));
            }
        }
        ios.sort_by_key(|io| io.done_ns);
        let mut builder = ReportBuilder::new(Window::new(0, 10_000 * MS));
        for io in &ios {
            builder.push(io);
        }
        let mut names = Names::default();
        names.cgroups.insert(5, "/shop".to_owned());
        (builder.finish(10_000 * MS), meta, names)
    }

    #[test]
    fn an_entry_says_who_waited_and_behind_whom_and_its_parts_add_up() {
        let (report, meta, names) = shop_behind_backup();
        let block = WaitsBlock::of(&report.waits, &meta, &names);
        let entries = serde_json::to_value(block.waits).expect("plain structs");
        let worst = &entries[0];
        assert_eq!(worst["device"], "sda");
        assert_eq!(
            worst["victim"],
            serde_json::json!({
                "process": "shop\x1b[31m", "pid": 77, "cgroup": "/shop", "class": "read", "origin": "direct"
            })
        );
        let behind = &worst["behind"][0];
        assert_eq!(behind["process"], "backup");
        assert_eq!(behind["origin"], "writeback");
        assert_eq!(behind["ios"], 99);
        let mut parts = behind["seconds"].as_f64().expect("a number");
        assert!(parts > 1.8, "{worst}");
        for part in ["undisturbed_s", "own_s", "held_s", "device_s", "unknown_s"] {
            parts += worst[part].as_f64().expect("a number");
        }
        let io_time_s = worst["io_time_s"].as_f64().expect("a number");
        assert!((parts - io_time_s).abs() < 1e-9, "{worst}");
    }

    #[test]
    fn two_recordings_add_up_and_the_worst_moment_is_that_of_either() {
        let (report, meta, names) = shop_behind_backup();
        let mut both = WaitsBlock::of(&report.waits, &meta, &names);
        let one = serde_json::to_value(&both.waits).expect("plain structs");
        let mut later = WaitsBlock::of(&report.waits, &meta, &names);
        later.waits[0].worst_us += 1.0;
        both.add(later, 100.0);
        let sum = serde_json::to_value(&both.waits).expect("plain structs");
        let numbers = |waits: &serde_json::Value, key: &str| waits[0][key].as_f64().expect("one");
        for key in ["ios", "io_time_s", "undisturbed_s", "device_s"] {
            let twice = 2.0 * numbers(&one, key);
            assert!((numbers(&sum, key) - twice).abs() < 1e-9, "{key}: {sum}");
        }
        assert_eq!(sum[0]["behind"].as_array().expect("a list").len(), 1);
        assert_eq!(sum[0]["behind"][0]["ios"], 198);
        let shift = numbers(&sum, "worst_at_s") - numbers(&one, "worst_at_s");
        assert!((shift - 100.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn the_table_names_the_culprit_fits_the_terminal_and_escapes_names() {
        let (report, meta, _) = shop_behind_backup();
        let mut facts = RecordingFacts::default();
        let shown = RowsShown::of_all(&facts, 8);
        let layout = Layout {
            width: 80,
            colour: false,
        };
        let text = table(&report, &meta, &shown, layout);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
        let titles: Vec<&str> = text.split_whitespace().take(4).collect();
        assert_eq!(titles, ["Who", "waited", "device", "class"], "{text}");
        let first = text.lines().nth(1).expect("a row");
        assert!(
            first.contains("shop") && first.contains("backup[12] write-back"),
            "{text}"
        );
        // I/Os of another origin make no other row.
        let rows = table_rows(&report.waits);
        let mut twice = report.waits.clone();
        let mut buffered = twice[0].victims[0].clone();
        buffered.group.origin = Origin::BufferedRead;
        twice[0].victims.push(buffered);
        let rows_of_twice = table_rows(&twice);
        assert_eq!(rows_of_twice.len(), rows.len());
        assert_eq!(
            rows_of_twice[0].time.total_ns(),
            2 * rows[0].time.total_ns()
        );
        facts
            .layers
            .insert(DevId::new(8, 0), vec!["sdb".to_owned()]);
        let without = RowsShown::of_all(&facts, 8);
        assert_eq!(table(&report, &meta, &without, layout), "");
    }
}
