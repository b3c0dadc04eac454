//! Computes waits, actors and stories from the I/Os in memory, on a thread of its own that uses a small share of one
//! CPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iolens_core::analysis::Window;
use iolens_core::analysis::counters::pressure::HostPressure;
use iolens_core::analysis::heat::TimePart;
use iolens_core::analysis::stories::{self, GroupLimits, NotProven, Scene, Story};
use iolens_core::analysis::timeline::{GroupBy, GroupKey};
use iolens_core::analysis::waits::{
    DeviceVictims, Group, Grouping, IoWait, IoWaitsBuilder, OwnedTime, Program, Victim,
    WaitsBuilder, can_have_thread,
};
use iolens_core::model::{Class, Comm, DevId, Device, Inode, Io, Lost, Names};

use super::history::{ColumnLatencies, Pick, part_ns};
use super::worker::Worker;
use crate::engine::browse::BrowsedStretch;
use crate::engine::caller::Caller;
use crate::engine::rows::group_name;
use crate::engine::window;
use crate::present::query_text::{self, Spelling};
use crate::present::zoom::shown_name;

/// I/Os this long before the time in view are used to learn undisturbed latencies.
pub const WARM_UP_NS: i64 = 10_000_000_000;
/// I/Os that complete this long after the time in view were in flight in it.
pub const IN_FLIGHT_NS: i64 = 1_000_000_000;
/// Maximum number of I/Os listed for a cell.
pub const MAX_LISTED: usize = 500;
/// Name of a job, for messages.
pub const TABLES: &str = "tables";
/// Name of a job, for messages.
pub const STORIES: &str = "stories";
/// Name of a job, for messages.
pub const LIST: &str = "list of I/Os";
/// If a column contains more I/Os than this, their waits are not computed.
const MAX_WITH_WAITS: usize = 500_000;
/// While watching live I/O, the thread works at most one of this many parts of the time.
pub const LIVE_SHARE: u32 = 150;
/// The same for a recording, which usually is not of the machine in use.
pub const RECORDED_SHARE: u32 = 2;
/// Minimum pause between results.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The selection of I/Os.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// By device, class and part of the latency.
    pub pick: Pick,
    /// Only I/Os of these groups: a process, and then one of its files.
    pub groups: Vec<GroupKey>,
    /// Text that must occur in the name of the process, file, control group or device, in lower case; empty: all.
    pub text: String,
}

impl Selection {
    /// Whether it can only be evaluated on single I/Os.
    pub fn needs_ios(&self) -> bool {
        !self.groups.is_empty() || !self.text.is_empty()
    }
}

/// Evaluates a selection for each I/O, and caches the result for names.
pub struct Matcher<'a> {
    selection: &'a Selection,
    devices: &'a [Device],
    names: &'a Names,
    known: HashMap<GroupKey, bool>,
}

impl<'a> Matcher<'a> {
    /// Uses `names` to look up names.
    pub fn new(selection: &'a Selection, devices: &'a [Device], names: &'a Names) -> Self {
        Matcher {
            selection,
            devices,
            names,
            known: HashMap::new(),
        }
    }

    /// Whether the I/O is selected.
    pub fn has(&mut self, io: &Io) -> bool {
        self.selection.pick.has(io.dev, io.class()) && self.is_of_groups(io) && self.has_text(io)
    }

    fn is_of_groups(&self, io: &Io) -> bool {
        self.selection.groups.iter().all(|key| match key {
            GroupKey::Process(tgid, comm) => is_of_process((*tgid, *comm), (io.tgid, io.comm)),
            _ => group_by(key).key(io) == *key,
        })
    }

    fn has_text(&mut self, io: &Io) -> bool {
        if self.selection.text.is_empty() {
            return true;
        }
        let all = [
            GroupBy::Process,
            GroupBy::File,
            GroupBy::Cgroup,
            GroupBy::Device,
        ];
        all.into_iter().any(|by| self.is_named(by.key(io)))
    }

    fn is_named(&mut self, key: GroupKey) -> bool {
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let name = group_name(self.devices, self.names, key);
        let shown = shown_name(key, &name).to_lowercase();
        let found = shown.contains(&self.selection.text);
        self.known.insert(key, found);
        found
    }
}

/// The ID and the name of a process or of one of its threads.
type NamedProcess = (Option<i32>, Option<Comm>);

/// Whether `one` belongs to the row of `row`, as waits merge processes: all threads of a process are one, whatever they are called,
/// and a row without an ID stands for all processes of its name. Threads of the kernel are not merged.
fn is_of_process(row: NamedProcess, one: NamedProcess) -> bool {
    if row == one {
        return true;
    }
    let (Some(name), Some(thread)) = (row.1, one.1) else {
        return false;
    };
    if name.is_of_kernel() || thread.is_of_kernel() {
        return false;
    }
    match row.0 {
        Some(tgid) => tgid > 0 && one.0 == Some(tgid),
        None => can_have_thread(&name, &thread),
    }
}

/// By what a group was made.
pub fn group_by(key: &GroupKey) -> GroupBy {
    match key {
        GroupKey::All => GroupBy::All,
        GroupKey::Device(_) => GroupBy::Device,
        GroupKey::Process(..) => GroupBy::Process,
        GroupKey::Cgroup(_) => GroupBy::Cgroup,
        GroupKey::File(_) => GroupBy::File,
    }
}

/// The source of the I/Os to analyse.
#[derive(Clone)]
pub enum IoSource {
    /// In memory, in the order of completion.
    Memory(Vec<Arc<Vec<Io>>>),
    /// In a recording.
    Recording(Arc<BrowsedStretch>),
}

/// The input of a job.
#[derive(Clone)]
pub struct Material {
    /// The I/Os.
    pub source: IoSource,
    /// Losses.
    pub lost: Vec<Lost>,
    /// The time in view.
    pub window: Window,
    /// How long before the window a recording is read, in nanoseconds.
    pub warm_up_ns: i64,
    /// Set when the result is not needed any more.
    pub is_cancelled: Arc<AtomicBool>,
}

impl Material {
    /// Calls `consume` with each I/O, in order of completion.
    fn each(&self, mut consume: impl FnMut(&Io)) -> Result<(), Unanswered> {
        let stretch = match &self.source {
            IoSource::Memory(chunks) => {
                chunks.iter().flat_map(|c| c.iter()).for_each(consume);
                return Ok(());
            }
            IoSource::Recording(stretch) => stretch,
        };
        // As in a report: I/Os in flight at the end of the window count.
        let from_ns = self.window.from_ns.saturating_sub(self.warm_up_ns);
        let range = window::with_in_flight(&(from_ns..self.window.to_ns));
        let read = stretch.each_batch(&range, &Caller::without_notes(), |ios| {
            ios.iter().for_each(&mut consume);
            !self.is_cancelled.load(Ordering::Relaxed)
        });
        match read {
            Ok(read) if read.is_whole => Ok(()),
            Ok(_) => Err(Unanswered::Cancelled),
            Err(e) => Err(Unanswered::Unread(query_text::error(&e, Spelling::Flags))),
        }
    }
}

/// Why a job has no result.
#[derive(Debug)]
enum Unanswered {
    /// The result is not needed any more.
    Cancelled,
    /// The I/Os could not be read; the reason as text.
    Unread(String),
}

/// A job of the analyst.
pub enum Job {
    /// Compute both tables.
    Tables {
        material: Material,
        selection: Selection,
        by: GroupBy,
        devices: Vec<Device>,
        names: Arc<Names>,
    },
    /// Find stories.
    Stories {
        material: Material,
        above: BTreeSet<DevId>,
        host: HostPressure,
    },
    /// List the I/Os of a cell of the heat map.
    Cell {
        material: Material,
        selection: Selection,
        devices: Vec<Device>,
        names: Arc<Names>,
        /// The latency buckets of the cell.
        buckets: std::ops::Range<u16>,
    },
}

/// The result of a job.
pub enum Outcome {
    /// Of [`Job::Tables`].
    Tables(MadeTables),
    /// Of [`Job::Stories`].
    Stories(FoundStories),
    /// Of [`Job::Cell`].
    Cell(CellIos),
    /// The result is not needed any more.
    Cancelled,
    /// The I/Os could not be read: the name of the job, and the reason as text.
    Failed(&'static str, String),
}

impl Outcome {
    /// The name of the job.
    pub fn of(&self) -> Option<&'static str> {
        match self {
            Outcome::Tables(_) => Some(TABLES),
            Outcome::Stories(_) => Some(STORIES),
            Outcome::Cell(_) => Some(LIST),
            Outcome::Cancelled | Outcome::Failed(..) => None,
        }
    }
}

/// A panic of the thread during a job.
#[derive(Debug)]
pub struct AnalystPanic {
    /// The ticket of the job.
    pub ticket: Ticket,
    /// The name of the job.
    pub of: &'static str,
    /// The message of the panic.
    pub text: String,
}

/// The stories in a stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundStories {
    /// Ordered by harm, largest first.
    pub stories: Vec<Story>,
    /// If there is no story: a program for which it is not known whether it waited.
    pub not_proven: Option<NotProven>,
    /// Whether the machine was short of CPU time in the stretch.
    pub is_short_of_cpu: bool,
}

/// Both tables for a stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeTables {
    /// The stretch.
    pub window: Window,
    /// The grouping of the rows.
    pub by: GroupBy,
    /// Who waited, ordered by lost time, largest first.
    pub waits: Vec<WaitRow>,
    /// Who did the I/O, ordered by I/O time, largest first.
    pub actors: Vec<ActorRow>,
    /// The pattern of all selected I/Os.
    pub pattern: Pattern,
}

/// The owner of I/Os: a program or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whose {
    /// `None`: the sum of all programs without a group of their own.
    pub program: Option<Program>,
    /// The file, if I/Os are grouped by file.
    pub file: Option<Inode>,
}

/// The cause of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitCause {
    /// I/Os of another program or file.
    Others(Whose),
    /// Its own I/Os.
    Own,
    /// Held above the driver.
    Held,
    /// The device itself.
    Device,
    /// Not known.
    Unknown,
}

/// The I/O time of one owner and class, divided by cause.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitRow {
    /// The device.
    pub dev: DevId,
    /// The owner.
    pub who: Whose,
    /// The class.
    pub class: Class,
    /// Number of completed I/Os.
    pub ios: u64,
    /// The parts of the total latency by owner.
    pub time: OwnedTime,
    /// Lost time by cause, in nanoseconds, largest first.
    pub causes: Vec<(WaitCause, i64)>,
}

/// The key of a row: device, owner and class.
type WaitKey = (DevId, Whose, Class);
/// Time lost to each cause, in nanoseconds.
type Causes = BTreeMap<WaitCause, i64>;

/// The I/O of one actor.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorRow {
    /// The actor.
    pub key: GroupKey,
    /// Number of I/Os by class.
    pub ios: [u64; 4],
    /// Bytes by class.
    pub bytes: [u64; 4],
    /// Sum of the latencies, in nanoseconds.
    pub io_time_ns: i64,
    /// Sum of the device times, in nanoseconds.
    pub device_ns: i64,
    /// Latencies of reads, and of all other classes.
    pub latencies: [ColumnLatencies; 2],
}

/// The access pattern of some I/Os.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pattern {
    /// Number of I/Os.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Distribution of sizes in bytes.
    pub sizes: ColumnLatencies,
    /// Bytes that start where the previous I/O of the same device and class ended.
    pub sequential_bytes: u64,
    /// Bytes of I/Os whose sector is known.
    pub placed_bytes: u64,
}

/// The I/Os of a cell of the heat map.
#[derive(Debug, Clone, PartialEq)]
pub struct CellIos {
    /// The time in which they completed.
    pub window: Window,
    /// Total number, which may be larger than the number listed.
    pub n: u64,
    /// The slowest I/Os, slowest first, each with its wait.
    pub ios: Vec<(Io, Option<IoWait>)>,
}

impl Job {
    fn material(&self) -> &Material {
        match self {
            Job::Tables { material, .. }
            | Job::Stories { material, .. }
            | Job::Cell { material, .. } => material,
        }
    }

    /// Runs the job.
    pub fn run(self) -> Outcome {
        let of = self.of();
        self.answer().unwrap_or_else(|no| match no {
            Unanswered::Cancelled => Outcome::Cancelled,
            Unanswered::Unread(text) => Outcome::Failed(of, text),
        })
    }

    /// The name of the job.
    fn of(&self) -> &'static str {
        match self {
            Job::Tables { .. } => TABLES,
            Job::Stories { .. } => STORIES,
            Job::Cell { .. } => LIST,
        }
    }

    fn answer(self) -> Result<Outcome, Unanswered> {
        Ok(match self {
            Job::Tables {
                material,
                selection,
                by,
                devices,
                names,
            } => Outcome::Tables(tables(&material, &selection, by, &devices, &names)?),
            Job::Stories {
                material,
                above,
                host,
            } => Outcome::Stories(find_stories(&material, &above, &host)?),
            Job::Cell {
                material,
                selection,
                devices,
                names,
                buckets,
            } => {
                let mut matcher = Matcher::new(&selection, &devices, &names);
                let part = selection.pick.part;
                Outcome::Cell(cell(&material, &mut matcher, part, &buckets)?)
            }
        })
    }
}

fn find_stories(
    material: &Material,
    above: &BTreeSet<DevId>,
    host: &HostPressure,
) -> Result<FoundStories, Unanswered> {
    let window = material.window;
    let mut builder = WaitsBuilder::new(window);
    material.lost.iter().for_each(|l| builder.lost(l));
    material.each(|io| builder.push(io))?;
    let waits = builder.finish();
    let scene = Scene {
        window,
        details: &[],
        layers: above,
        host,
        has_losses: !material.lost.is_empty(),
    };
    let found = stories::stories(&waits, &scene, GroupLimits::default());
    let shortage = host.cpu_shortage(window.from_ns, window.to_ns);
    Ok(FoundStories {
        not_proven: stories::not_proven(&waits, &found, None),
        stories: found,
        is_short_of_cpu: shortage.is_some(),
    })
}

fn tables(
    material: &Material,
    selection: &Selection,
    by: GroupBy,
    devices: &[Device],
    names: &Names,
) -> Result<MadeTables, Unanswered> {
    let grouping = match by {
        GroupBy::Cgroup => Grouping::Cgroup,
        GroupBy::File => Grouping::File,
        _ => Grouping::Process,
    };
    let mut builder = WaitsBuilder::by(grouping, material.window);
    material.lost.iter().for_each(|l| builder.lost(l));
    let mut matcher = Matcher::new(selection, devices, names);
    let mut actors: HashMap<GroupKey, ActorRow> = HashMap::new();
    let mut pattern = Pattern::default();
    let mut ends: HashMap<(DevId, Class), i64> = HashMap::new();
    material.each(|io| {
        builder.push(io);
        if !material.window.contains(io.done_ns) || !matcher.has(io) {
            return;
        }
        let key = by.key(io);
        let row = actors.entry(key).or_insert_with(|| ActorRow::none(key));
        row.count(io);
        let end = ends.entry((io.dev, io.class())).or_insert(-1);
        pattern.count(io, end);
    })?;
    let mut actors: Vec<ActorRow> = actors.into_values().collect();
    actors.sort_by_key(|a| (std::cmp::Reverse(a.io_time_ns), a.key));
    Ok(MadeTables {
        window: material.window,
        by,
        waits: wait_rows(&builder.finish(), selection, devices, names),
        actors,
        pattern,
    })
}

impl ActorRow {
    fn none(key: GroupKey) -> ActorRow {
        ActorRow {
            key,
            ios: [0; 4],
            bytes: [0; 4],
            io_time_ns: 0,
            device_ns: 0,
            latencies: Default::default(),
        }
    }

    fn count(&mut self, io: &Io) {
        let class = io.class() as usize;
        self.ios[class] += 1;
        self.bytes[class] += u64::try_from(io.bytes).unwrap_or(0);
        self.io_time_ns += io.total_ns();
        self.device_ns += io.device_ns;
        let of_class = usize::from(io.class() != Class::Read);
        self.latencies[of_class].add(ColumnLatencies::bucket(io.total_ns()), 1);
    }
}

impl Pattern {
    fn count(&mut self, io: &Io, end: &mut i64) {
        let bytes = u64::try_from(io.bytes).unwrap_or(0);
        self.ios += 1;
        self.bytes += bytes;
        self.sizes.add(ColumnLatencies::bucket(io.bytes), 1);
        let Some(sector) = io.sector.filter(|_| bytes > 0) else {
            return;
        };
        self.placed_bytes += bytes;
        if sector == *end {
            self.sequential_bytes += bytes;
        }
        *end = sector + io.bytes / iolens_core::model::SECTOR_BYTES;
    }
}

/// Merges the victims of all devices into rows by program and class, over all origins of their I/Os.
fn wait_rows(
    waits: &[DeviceVictims],
    selection: &Selection,
    devices: &[Device],
    names: &Names,
) -> Vec<WaitRow> {
    let mut rows: BTreeMap<WaitKey, (WaitRow, Causes)> = BTreeMap::new();
    for device in waits {
        for victim in &device.victims {
            if !selection.pick.has(device.dev, victim.group.class)
                || !is_selected(&victim.group, device.dev, selection, devices, names)
            {
                continue;
            }
            let who = who(&victim.group);
            let empty = WaitRow {
                dev: device.dev,
                who,
                class: victim.group.class,
                ios: 0,
                time: OwnedTime::default(),
                causes: Vec::new(),
            };
            let (row, causes) = rows
                .entry((device.dev, who, victim.group.class))
                .or_insert_with(|| (empty, BTreeMap::new()));
            row.ios += victim.ios;
            row.time.add(&victim.time);
            add_causes(causes, victim, who);
        }
    }
    let mut all = Vec::new();
    for (mut row, causes) in rows.into_values() {
        row.causes = causes.into_iter().filter(|c| c.1 > 0).collect();
        row.causes.sort_by_key(|c| (std::cmp::Reverse(c.1), c.0));
        all.push(row);
    }
    all.sort_by_key(|r| (std::cmp::Reverse(r.time.excess_ns()), r.dev, r.who));
    all
}

fn add_causes(causes: &mut BTreeMap<WaitCause, i64>, victim: &Victim, own: Whose) {
    for (cause, ns) in [
        (WaitCause::Own, victim.time.own_ns),
        (WaitCause::Held, victim.time.held_ns),
        (WaitCause::Device, victim.time.device_ns),
        (WaitCause::Unknown, victim.time.unknown_ns),
    ] {
        *causes.entry(cause).or_default() += ns;
    }
    // Groups are finer than rows, so a group may have waited behind another group of its own row.
    for behind in &victim.behind {
        let other = who(&behind.group);
        let cause = if other == own {
            WaitCause::Own
        } else {
            WaitCause::Others(other)
        };
        *causes.entry(cause).or_default() += behind.ns;
    }
}

fn who(group: &Group) -> Whose {
    Whose {
        program: group.program,
        file: group.file,
    }
}

/// The group key of a row's owner.
pub fn key_of(who: &Whose, by: GroupBy) -> GroupKey {
    let program = who.program.unwrap_or_default();
    match by {
        GroupBy::File => GroupKey::File(who.file),
        GroupBy::Cgroup => GroupKey::Cgroup(program.cgroup),
        _ => GroupKey::Process(program.tgid, program.comm),
    }
}

fn is_selected(
    group: &Group,
    dev: DevId,
    selection: &Selection,
    devices: &[Device],
    names: &Names,
) -> bool {
    if !selection.groups.iter().all(|key| is_of(key, group, dev)) {
        return false;
    }
    if selection.text.is_empty() {
        return true;
    }
    // The text may occur in any name by which the group is known.
    let who = who(group);
    let mut keys = vec![key_of(&who, GroupBy::Process), GroupKey::Device(dev)];
    if group.program.is_some_and(|p| p.cgroup.is_some()) {
        keys.push(key_of(&who, GroupBy::Cgroup));
    }
    if who.file.is_some() {
        keys.push(key_of(&who, GroupBy::File));
    }
    keys.into_iter().any(|key| {
        let name = group_name(devices, names, key);
        let shown = shown_name(key, &name).to_lowercase();
        shown.contains(&selection.text)
    })
}

/// Whether I/O of `group` on `dev` belongs to `key`.
fn is_of(key: &GroupKey, group: &Group, dev: DevId) -> bool {
    let program = group.program.unwrap_or_default();
    match key {
        GroupKey::Process(tgid, comm) => {
            is_of_process((*tgid, *comm), (program.tgid, program.comm))
        }
        GroupKey::Cgroup(id) => program.cgroup == *id,
        GroupKey::Device(wanted) => *wanted == dev,
        GroupKey::File(_) => group.file.is_some() && GroupKey::File(group.file) == *key,
        GroupKey::All => true,
    }
}

/// The slowest I/Os of the column `material.window` whose latency is in `buckets`.
fn cell(
    material: &Material,
    matcher: &mut Matcher,
    part: TimePart,
    buckets: &std::ops::Range<u16>,
) -> Result<CellIos, Unanswered> {
    let mut builder = Some(IoWaitsBuilder::new(material.window));
    if let Some(builder) = &mut builder {
        material.lost.iter().for_each(|l| builder.lost(l));
    }
    // Index of the current I/O within the column: the waits contain one entry per I/O, in the same order.
    let mut inside = 0;
    let mut n = 0;
    let mut found: Vec<(usize, Io)> = Vec::new();
    material.each(|io| {
        if let Some(builder) = &mut builder {
            builder.push(io);
        }
        if !material.window.contains(io.done_ns) {
            return;
        }
        let place = inside;
        inside += 1;
        if inside > MAX_WITH_WAITS {
            builder = None;
        }
        let is_in_row =
            part_ns(part, io).is_some_and(|ns| buckets.contains(&ColumnLatencies::bucket(ns)));
        if is_in_row && matcher.has(io) {
            n += 1;
            found.push((place, *io));
            if found.len() >= 16 * MAX_LISTED {
                keep_slowest(&mut found, part);
            }
        }
    })?;
    keep_slowest(&mut found, part);
    let waits = builder.map(IoWaitsBuilder::finish).unwrap_or_default();
    let found = found.into_iter();
    Ok(CellIos {
        window: material.window,
        n,
        ios: found
            .map(|(place, io)| (io, waits.get(place).copied()))
            .collect(),
    })
}

fn keep_slowest(found: &mut Vec<(usize, Io)>, part: TimePart) {
    found.sort_by_key(|(_, io)| (std::cmp::Reverse(part_ns(part, io)), io.done_ns));
    found.truncate(MAX_LISTED);
}

/// The analyst thread.
pub struct Analyst {
    worker: Worker<(Ticket, Job), (Ticket, Outcome)>,
    share: u32,
    next: Instant,
    /// The current job: its ticket, its name, and its cancellation flag.
    current: Option<(Ticket, &'static str, Arc<AtomicBool>)>,
}

/// Identifies the request that a result belongs to.
pub type Ticket = u64;

impl Analyst {
    /// Starts the thread. Except for jobs that the user requested, it works at most one of `share` parts of the time.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(share: u32) -> std::io::Result<Analyst> {
        Ok(Analyst {
            worker: Worker::start("analyst", |(ticket, job): (Ticket, Job)| {
                (ticket, job.run())
            })?,
            share,
            next: Instant::now(),
            current: None,
        })
    }

    /// Whether it is idle.
    pub fn is_idle(&self) -> bool {
        self.worker.is_idle()
    }

    /// Whether its share of the time allows another job.
    pub fn is_due(&self) -> bool {
        self.is_idle() && Instant::now() >= self.next
    }

    /// Starts a job.
    pub fn ask(&mut self, ticket: Ticket, job: Job) {
        let is_cancelled = Arc::clone(&job.material().is_cancelled);
        self.current = Some((ticket, job.of(), is_cancelled));
        self.worker.ask((ticket, job));
    }

    /// Cancels the current job unless its ticket is one of `tickets`.
    pub fn cancel_unless(&self, tickets: &[Ticket]) {
        if let Some((.., is_cancelled)) = self.current.as_ref().filter(|c| !tickets.contains(&c.0))
        {
            is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// The result of the job, or its panic.
    pub fn result(&mut self) -> Option<Result<(Ticket, Outcome), AnalystPanic>> {
        let answer = self.worker.answer()?;
        let asked = self.current.take();
        self.next = Instant::now() + (answer.took * self.share).max(MIN_PAUSE);
        Some(answer.result.map_err(|text| AnalystPanic {
            ticket: asked.as_ref().map_or(0, |asked| asked.0),
            of: asked.as_ref().map_or(TABLES, |asked| asked.1),
            text,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::Op;

    const MS: i64 = 1_000_000;

    fn io(done_us: i64, us: i64, who: &str, pid: i32, op: Op) -> Io {
        let mut io = Io::new(
            done_us * 1000,
            DevId::new(8, 0),
            op,
            4096,
            Some(0),
            us * 1000,
        );
        io.comm = Some(Comm::new(who.as_bytes()));
        io.tgid = Some(pid);
        io
    }

    /// A read each millisecond takes 0.1 ms; each 100th waits behind a write of 20 ms.
    fn shop_behind_backup() -> Material {
        let mut ios = Vec::new();
        for n in 1..1000 {
            let at_us = n * 1000;
            if n % 100 == 50 {
                ios.push(io(at_us + 500, 20_000, "backup", 812, Op::WRITE));
                ios.push(io(at_us + 600, 19_000, "shop", 77, Op::READ));
            } else if n % 100 < 30 || n % 100 > 50 {
                ios.push(io(at_us + 100, 100, "shop", 77, Op::READ));
            }
        }
        ios.sort_by_key(|io| io.done_ns);
        Material {
            source: IoSource::Memory(vec![Arc::new(ios)]),
            lost: Vec::new(),
            window: Window::new(0, 2000 * MS),
            warm_up_ns: 0,
            is_cancelled: Arc::default(),
        }
    }

    fn selection(text: &str, groups: &[GroupKey]) -> Selection {
        Selection {
            pick: Pick {
                part: TimePart::Total,
                dev: None,
                class: None,
                above: Vec::new(),
            },
            groups: groups.to_vec(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_reader_waits_behind_the_writer_and_the_parts_add_up() {
        let names = Names::default();
        let material = shop_behind_backup();
        let tables = tables(
            &material,
            &selection("", &[]),
            GroupBy::Process,
            &[],
            &names,
        );
        let tables = tables.expect("in memory");
        let shop = tables.waits.iter().find(|r| r.class == Class::Read);
        let shop = shop.expect("reads waited");
        // Behind a single large I/O that is served alone, some of the wait counts as the device's.
        let behind = shop.causes.iter().find_map(|(cause, ns)| match cause {
            WaitCause::Others(other) => Some((other.program.and_then(|p| p.tgid), *ns)),
            _ => None,
        });
        let (culprit, behind_ns) = behind.expect("it waited for the writer");
        assert_eq!(culprit, Some(812));
        assert!(3 * behind_ns > shop.time.excess_ns(), "{shop:?}");
        let parts: i64 = shop.causes.iter().map(|c| c.1).sum();
        assert_eq!(parts, shop.time.excess_ns());
        assert_eq!(tables.actors.len(), 2);
        assert_eq!(tables.pattern.ios, 809);
    }

    #[test]
    fn a_selection_leaves_out_the_others() {
        let names = Names::default();
        let backup = GroupKey::Process(Some(812), Some(Comm::new(b"backup")));
        for selection in [selection("", &[backup]), selection("backup", &[])] {
            let tables = tables(
                &shop_behind_backup(),
                &selection,
                GroupBy::Process,
                &[],
                &names,
            );
            let tables = tables.expect("in memory");
            assert_eq!(tables.actors.len(), 1);
            assert_eq!(tables.actors[0].key, backup);
            assert!(tables.waits.iter().all(|r| r.class == Class::Write));
        }
    }

    /// Each of `programs` does a read each 10 ms, under one thread name after the other.
    fn readers(programs: &[(i32, &[&str])]) -> Material {
        let mut ios = Vec::new();
        for n in 1..100 {
            for (i, (pid, threads)) in programs.iter().enumerate() {
                let thread = threads[n % threads.len()];
                let at_us = n as i64 * 10_000 + i as i64;
                ios.push(io(at_us, 100, thread, *pid, Op::READ));
            }
        }
        Material {
            source: IoSource::Memory(vec![Arc::new(ios)]),
            lost: Vec::new(),
            window: Window::new(0, 2000 * MS),
            warm_up_ns: 0,
            is_cancelled: Arc::default(),
        }
    }

    /// What is shown of `material` when the row of `name` is opened: the row, and both tables.
    fn opened(material: &Material, name: &str) -> (GroupKey, MadeTables) {
        let names = Names::default();
        let by = GroupBy::Process;
        let all = tables(material, &selection("", &[]), by, &[], &names).expect("in memory");
        let comm = Some(Comm::new(name.as_bytes()));
        let mut keys = all.waits.iter().map(|row| key_of(&row.who, by));
        let key = keys.find(|key| matches!(key, GroupKey::Process(_, name) if *name == comm));
        let key = key.expect("a row");
        let one = tables(material, &selection("", &[key]), by, &[], &names);
        (key, one.expect("in memory"))
    }

    #[test]
    fn a_program_of_many_processes_is_opened_with_all_of_them() {
        let one: &[&str] = &["pool"];
        let two: &[&str] = &["pool-worker-1", "pool-worker-2"];
        let other: &[&str] = &["poolside"];
        for (threads, name) in [(one, "pool"), (two, "pool-worker")] {
            let mut programs = vec![(77, other)];
            programs.extend((801..807).map(|pid| (pid, threads)));
            let (key, tables) = opened(&readers(&programs), name);
            let comm = Some(Comm::new(name.as_bytes()));
            assert_eq!(key, GroupKey::Process(None, comm));
            assert_eq!(tables.pattern.ios, 6 * 99);
            let of_row: u64 = tables.waits.iter().map(|row| row.ios).sum();
            assert_eq!(of_row, 6 * 99);
            let mut of_actors = 0;
            for actor in &tables.actors {
                assert!(matches!(actor.key, GroupKey::Process(Some(801..=806), _)));
                of_actors += actor.ios.iter().sum::<u64>();
            }
            assert_eq!(of_actors, 6 * 99);
        }
    }

    #[test]
    fn a_process_is_opened_with_all_of_its_threads() {
        let threads: &[&str] = &["conn1", "conn2", "log"];
        let other: &[&str] = &["conn1"];
        let material = readers(&[(77, threads), (78, other)]);
        let names = Names::default();
        let by = GroupBy::Process;
        let key = GroupKey::Process(Some(77), Some(Comm::new(b"conn2")));
        let tables = tables(&material, &selection("", &[key]), by, &[], &names);
        let tables = tables.expect("in memory");
        assert_eq!(tables.pattern.ios, 99);
        assert_eq!(tables.actors.len(), 3);
        let of_row: u64 = tables.waits.iter().map(|row| row.ios).sum();
        assert_eq!(of_row, 99);
    }

    #[test]
    fn threads_of_the_kernel_are_opened_by_name() {
        let flush = (Some(300), Some(Comm::new(b"kworker/u4:1-f")));
        let other = (Some(300), Some(Comm::new(b"kworker/u4:1-e")));
        assert!(is_of_process(flush, flush));
        assert!(!is_of_process(flush, other));
        let all = (None, Some(Comm::new(b"kworker")));
        assert!(!is_of_process(all, flush));
    }

    #[test]
    fn a_cell_lists_its_ios_with_what_they_waited_for() {
        let mut material = shop_behind_backup();
        material.window = Window::new(500 * MS, 600 * MS);
        let job = Job::Cell {
            material,
            selection: selection("shop", &[]),
            devices: Vec::new(),
            names: Arc::default(),
            buckets: ColumnLatencies::bucket(18 * MS)..ColumnLatencies::bucket(22 * MS),
        };
        let Outcome::Cell(cell) = job.run() else {
            panic!()
        };
        assert_eq!(cell.n, 1);
        let (io, wait) = &cell.ios[0];
        let wait = wait.expect("its wait is known");
        assert_eq!(io.total_ns(), 19 * MS);
        let behind = wait.behind.and_then(|g| g.program).and_then(|p| p.tgid);
        assert_eq!(behind, Some(812), "{wait:?}");
    }
}
