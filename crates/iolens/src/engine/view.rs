//! The rows of `zoom`: planned of one recording, and shown from single I/Os, tables or rollups.

use std::ops::Range;

use anyhow::{Result, bail};
use iolens_core::analysis::Window;
use iolens_core::analysis::timeline::{GroupBy, GroupKey, MIN_STEP_NS, Row, TimelinePlan};
use iolens_core::model::{IntervalRates, RecordingMeta, Source};
use iolens_core::store::Recording;

use super::choose::Chosen;
use super::filter::{FilterPlan, IoFilter};
use super::layers::Layers;
use super::rows::{DeviceFilter, device_keys, each_row_of, group_by, group_name};
use super::{names, rollups, tables, window};
use crate::cli::RowArgs;
use crate::present::escape;
use crate::present::html::Names;

/// The rows of one recording, planned.
pub struct View {
    /// Open for reading.
    pub recording: Recording,
    range: Range<i64>,
    /// The rows of an imported table.
    pub tables: Option<Vec<IntervalRates>>,
    /// The rollups that stand for single I/Os.
    rolled: Option<Rolled>,
    devices: DeviceFilter,
    filter: IoFilter,
    /// Which rows.
    pub timeline: TimelinePlan,
}

/// Which source answers where several could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Single I/Os where they are left: exact.
    Finest,
    /// Rollups where they carry the step: fast.
    Coarsest,
}

/// Rollups, and up to where they answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rolled {
    step_s: i32,
    until_ns: i64,
}

impl View {
    /// What `rows` asks of a recording, checked; says on stderr what the recording cannot show.
    ///
    /// # Errors
    /// A window outside the recording, more rows than anybody can want, or what the recording does not know.
    pub fn of(chosen: Chosen, rows: &RowArgs) -> Result<View> {
        View::of_tier(chosen, rows, Tier::Finest)
    }

    /// The same of a source.
    ///
    /// # Errors
    /// As [`View::of`].
    pub fn of_tier(
        Chosen {
            recording,
            window: asked,
        }: Chosen,
        rows: &RowArgs,
        tier: Tier,
    ) -> Result<View> {
        let mut range = window::resolve(&recording, &asked)?;
        let by = group_by(rows.by);
        let tables = tables::of(&recording)?;
        let own_step = tables.as_deref().and_then(tables::own_step_ns);
        let step_ns = match rows.step.or(own_step) {
            Some(step_ns) => step_ns,
            None => {
                rollups::left(&recording)?.map_or(rows.step_ns(), |s| i64::from(s) * 1_000_000_000)
            }
        };
        let rollup_s = rollups::left_for(&recording, step_ns, &range)?;
        let mut rolled = None;
        if let Some(step_s) = rollup_s {
            range = rollups::window(step_s, step_ns, by, &range)?;
            rolled = Some(Rolled {
                step_s,
                until_ns: i64::MAX,
            });
        } else if tier == Tier::Coarsest
            && let Some((step_s, until_ns)) =
                rollups::carrying(&recording, step_ns, by, &mut range)?
        {
            rolled = Some(Rolled { step_s, until_ns });
        }
        if let Some(tables) = &tables {
            range = tables::window(tables, &asked, range);
        }
        let always = device_keys(&recording.meta().devices, by);
        let window = Window::new(range.start, range.end);
        let timeline = TimelinePlan {
            by,
            always,
            extended: rows.extended,
            ..TimelinePlan::new(window, step_ns)
        };
        timeline.check()?;
        if recording.meta().source != Source::Counters && rollup_s.is_none() {
            let filled = tables
                .as_ref()
                .map_or(recording.ios_stored(), |t| t.len() as u64);
            tables::refuse_mostly_empty(&recording.meta().source, &range, step_ns, filled)?;
        }
        if !matches!(by, GroupBy::All | GroupBy::Device) {
            if recording.meta().source == Source::Counters {
                bail!("--by: this recording was made from counters, which know devices only");
            }
            if tables.is_some() {
                bail!("--by: this recording was imported from tables, which know devices only");
            }
        }
        say_source(recording.meta());
        if let Some(own) = own_step.filter(|own| step_ns < *own) {
            eprintln!(
                "iolens: the tables have averages over {} s: finer rows repeat them",
                own as f64 / 1e9
            );
        }
        Ok(View {
            recording,
            range,
            tables,
            rolled,
            devices: DeviceFilter::default(),
            filter: IoFilter::default(),
            timeline,
        })
    }

    /// Of these devices only.
    pub fn of_devices(mut self, devices: DeviceFilter) -> View {
        self.timeline
            .always
            .retain(|key| !matches!(key, GroupKey::Device(dev) if !devices.has(*dev)));
        View { devices, ..self }
    }

    /// Of the I/Os that `plan` asks for only.
    ///
    /// # Errors
    /// The recording has no single I/Os here.
    pub fn of_ios(mut self, plan: &FilterPlan) -> Result<View> {
        if plan.is_all() {
            return Ok(self);
        }
        let asked = "--process, --cgroup, --file, --class";
        if self.recording.meta().source == Source::Counters {
            bail!("{asked}: this recording was made from counters, which know devices only");
        }
        if self.tables.is_some() {
            bail!("{asked}: this recording was imported from tables, which know devices only");
        }
        if self.rolled.is_some() {
            bail!("{asked}: the size limit left only sums by device of this time, no single I/Os");
        }
        let names = if plan.wants_names() {
            names::read(&self.recording, self.range.end)?
        } else {
            Names::default()
        };
        self.filter = IoFilter::new(plan, &names);
        Ok(self)
    }

    /// Whether no I/O can be shown, because the recording has no name that was asked for.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// What is shown, in nanoseconds since the recording's start.
    pub fn range(&self) -> Range<i64> {
        self.range.clone()
    }

    /// Gives one row of each subject, over the whole time and with the plain columns, to `show`.
    ///
    /// # Errors
    /// As [`View::show`].
    pub fn each_subject(&self, show: impl FnMut(&Row, &str) -> Result<()>) -> Result<()> {
        let timeline = TimelinePlan {
            step_ns: (self.range.end - self.range.start).max(MIN_STEP_NS),
            extended: false,
            ..self.timeline.clone()
        };
        self.show_as(&timeline, &self.layers()?, 0, show)
    }

    /// Gives every row with its name to `show`, `shift_ns` later than the recording says.
    ///
    /// # Errors
    /// The recording cannot be read, or `show` failed.
    pub fn show(&self, shift_ns: i64, show: impl FnMut(&Row, &str) -> Result<()>) -> Result<()> {
        let layers = self.layers()?;
        layers.say();
        self.show_as(&self.timeline, &layers, shift_ns, show)
    }

    /// Which devices count once.
    fn layers(&self) -> Result<Layers> {
        // Who names devices means them, whatever they are above.
        if self.devices.is_all() {
            Layers::of(&self.recording, self.timeline.by)
        } else {
            Ok(Layers::default())
        }
    }

    fn show_as(
        &self,
        timeline: &TimelinePlan,
        layers: &Layers,
        shift_ns: i64,
        mut show: impl FnMut(&Row, &str) -> Result<()>,
    ) -> Result<()> {
        let View {
            recording,
            range,
            tables,
            rolled,
            devices,
            filter,
            ..
        } = self;
        let (meta, by) = (recording.meta(), timeline.by);
        let names = match by {
            GroupBy::Cgroup | GroupBy::File => names::read(recording, range.end)?,
            GroupBy::All | GroupBy::Device | GroupBy::Process => Names::default(),
        };
        let counts = |dev| layers.counts(dev) && devices.has(dev);
        let mut shifted = |row: Row| {
            let (from_ns, to_ns) = (row.from_ns + shift_ns, row.to_ns + shift_ns);
            show(
                &Row {
                    from_ns,
                    to_ns,
                    ..row
                },
                &group_name(&meta.devices, &names, row.key),
            )
        };
        let mut rest = range.clone();
        if let Some(Rolled { step_s, until_ns }) = *rolled {
            let end_ns = rest.end.min(until_ns);
            let plan = TimelinePlan {
                window: Window::new(rest.start, end_ns),
                ..timeline.clone()
            };
            rollups::rows(recording, step_s, &plan, counts, end_ns)?
                .into_iter()
                .try_for_each(&mut shifted)?;
            rest.start = end_ns;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let timeline = TimelinePlan {
            window: Window::new(rest.start, rest.end),
            ..timeline.clone()
        };
        match tables {
            Some(tables) => tables::rows(recording, tables, &timeline, counts, rest.end)?
                .into_iter()
                .try_for_each(shifted),
            None => each_row_of(recording, rest, timeline, counts, filter, shifted),
        }
    }
}

/// Data goes to stdout; where it came from and what it cannot show, to stderr.
fn say_source(meta: &RecordingMeta) {
    if meta.source != Source::Ebpf {
        eprintln!(
            "iolens: source: {}",
            escape::terminal(&meta.source.to_string())
        );
        for limit in &meta.limits {
            eprintln!("iolens: {}", escape::terminal(limit));
        }
    }
}
