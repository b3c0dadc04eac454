//! The source of a recording: eBPF events if they are allowed, otherwise counters, with the reason.

use std::time::Duration;

use anyhow::{Context as _, Result};
use iolens_core::model::{Class, CounterSample, DevId, DeviceKind, Io, Lost, Request, Source};
use iolens_observe::counters::{Pace, Root, Sampler, Wake, monotonic_ns};
use iolens_observe::topology::Topology;
use iolens_observe::trace::{
    FilesFilter, FilesOptions, FilesTracer, FinishStats, TraceError, Tracer, TracerOptions,
    WbtThrottled,
};

use crate::pressure::TimerWake;

/// Which source to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceChoice {
    /// eBPF where it is allowed, else counters.
    Auto,
    /// eBPF, or fail without it.
    Ebpf,
    /// Counters only.
    Counters,
}

/// The result of one poll of a source.
#[derive(Debug, Default)]
pub struct Taken {
    /// I/Os, ordered by completion.
    pub ios: Vec<Io>,
    /// Losses among them.
    pub lost: Vec<Lost>,
    /// File-level requests, ordered by their ends.
    pub requests: Vec<Request>,
    /// Counters.
    pub counters: Vec<CounterSample>,
    /// Every I/O completed before this time has been taken; `None` if the source has no single I/Os.
    pub complete_to_ns: Option<i64>,
}

/// Options of observation.
#[derive(Debug, Clone)]
pub struct FeedOptions {
    /// Choice of the source.
    pub choice: SourceChoice,
    /// Look up process, cgroup and file of each I/O.
    pub attribution: bool,
    /// Total size of the kernel's event rings in bytes.
    pub ring_bytes: u32,
    /// Interval in nanoseconds at which the rings are emptied while there is I/O.
    pub poll_ns: i64,
    /// Step in nanoseconds of the counters if they are the source.
    pub counters_step_ns: i64,
    /// Filter of file-level requests to record; `None`: no requests. Needs events.
    pub files: Option<FilesFilter>,
    /// Let the kernel measure the run time of the probes, which costs about 60 ns per run.
    pub measure_probes: bool,
}

impl FeedOptions {
    /// Defaults that suit most machines.
    pub fn new(choice: SourceChoice) -> FeedOptions {
        FeedOptions {
            choice,
            attribution: true,
            ring_bytes: TracerOptions::usual_ring_bytes(),
            poll_ns: 10_000_000,
            counters_step_ns: 10_000_000,
            files: None,
            measure_probes: false,
        }
    }
}

enum FeedKind {
    Events {
        tracer: Box<Tracer>,
        counters: Option<Sampler>,
    },
    Counters {
        sampler: Sampler,
        pace: Pace,
        state: SampleState,
    },
    Ended,
}

/// State of the counters' sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleState {
    /// The next sample is due.
    Due,
    /// A sample was just taken.
    Taken,
    /// Time has passed since, and the next sample is not due yet.
    Waited,
}

/// How a wait of an idle source ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleEnd {
    /// The kernel signalled an event.
    Event,
    /// By its timer; `None` if there was nothing to wait for, or a signal came first.
    Timer(Option<TimerWake>),
}

/// An open source of observations.
pub struct Feed {
    kind: FeedKind,
    source: Source,
    limits: Vec<String>,
    devices: Option<Vec<DevId>>,
    start_ns: i64,
    files: Option<Box<FilesTracer>>,
    open_requests: u64,
}

/// The limits of recordings from counters, shown with each of them.
pub const COUNTERS_LIMIT: &str = "counters only: rates and mean latencies per step, no single I/O, no percentiles, no process, no exact busy time";

impl Feed {
    /// Opens the chosen source for `devices` (`None`: all).
    ///
    /// # Errors
    /// The chosen source is not available or, for `Auto`, counters are not available either.
    pub fn open(
        options: &FeedOptions,
        devices: Option<&[DevId]>,
        topology: &Topology,
    ) -> Result<Feed> {
        if options.choice == SourceChoice::Counters {
            return Feed::of_counters(options, devices, topology, "as requested");
        }
        match start_tracer(options, devices, topology) {
            Ok(tracer) => {
                let (counters, mut limits) = counters_beside_events(devices, topology);
                limits.extend_from_slice(tracer.limits());
                let events = FeedKind::Events {
                    tracer: Box::new(tracer),
                    counters,
                };
                let feed = Feed {
                    limits,
                    devices: devices.map(<[DevId]>::to_vec),
                    ..Feed::new(events, Source::Ebpf)
                };
                feed.with_files(options.files.as_ref())?.begin()
            }
            // Counters are no substitute here: they have neither single I/Os nor requests.
            Err(e) if options.choice == SourceChoice::Ebpf || options.files.is_some() => {
                Err(e.into())
            }
            Err(e) => Feed::of_counters(options, devices, topology, &e.to_string()),
        }
    }

    /// Opens the kernel's counters as the source. The first limit states the reason (`why_not`) and a remedy.
    fn of_counters(
        options: &FeedOptions,
        devices: Option<&[DevId]>,
        topology: &Topology,
        why_not: &str,
    ) -> Result<Feed> {
        let period =
            Duration::from_nanos(u64::try_from(options.counters_step_ns).unwrap_or(10_000_000));
        let sampler = sampler(devices, topology, period)
            .context("/proc/diskstats cannot be read; is proc mounted?")?;
        let mut limits = vec![
            format!("no eBPF, only the kernel's counters: {why_not}"),
            COUNTERS_LIMIT.to_owned(),
        ];
        limits.extend(not_accounted(devices, topology));
        let start_ns = monotonic_ns();
        let counters = FeedKind::Counters {
            sampler,
            pace: Pace::starting_at(start_ns, period),
            state: SampleState::Due,
        };
        Ok(Feed {
            limits,
            devices: devices.map(<[DevId]>::to_vec),
            start_ns,
            ..Feed::new(counters, Source::Counters)
        })
    }

    /// A feed of all devices, without limits and not started yet.
    fn new(kind: FeedKind, source: Source) -> Feed {
        Feed {
            kind,
            source,
            limits: Vec::new(),
            devices: None,
            start_ns: 0,
            files: None,
            open_requests: 0,
        }
    }

    /// Traces file-level requests, too.
    fn with_files(mut self, filter: Option<&FilesFilter>) -> Result<Feed> {
        if let Some(filter) = filter {
            let options = FilesOptions {
                filter: filter.clone(),
                ..FilesOptions::default()
            };
            match FilesTracer::start(&options) {
                Ok(tracer) => {
                    self.limits.extend_from_slice(tracer.limits());
                    self.files = Some(Box::new(tracer));
                }
                Err(e) if e.is_of_kernel() => self
                    .limits
                    .push(format!("file-level requests are not recorded: {e}")),
                Err(e) => return Err(e).context("file-level requests cannot be recorded"),
            }
        }
        Ok(self)
    }

    /// Called when the probes are attached and slow initialisation is over. Times count from here, and what the rings
    /// have collected so far is dropped.
    fn begin(mut self) -> Result<Feed> {
        if let FeedKind::Events { tracer, .. } = &mut self.kind {
            self.start_ns = tracer
                .begin()
                .context("the kernel's event rings cannot be read")?;
        }
        if let Some(files) = &mut self.files {
            files
                .begin(self.start_ns)
                .context("file-level requests cannot be read")?;
        }
        Ok(self)
    }

    /// The placeholder of a feed that has been finished.
    pub fn ended(source: Source) -> Feed {
        Feed::new(FeedKind::Ended, source)
    }

    /// The source of the observations.
    pub fn source(&self) -> Source {
        self.source.clone()
    }

    /// Limits of this source with their reasons, one line each.
    pub fn limits(&self) -> &[String] {
        &self.limits
    }

    /// Start of the recording in nanoseconds of `CLOCK_MONOTONIC`. With events, all I/Os are seen from then on.
    pub fn start_ns(&self) -> i64 {
        self.start_ns
    }

    /// Number of file-level requests that are open, and therefore not taken yet.
    pub fn open_requests(&self) -> u64 {
        self.open_requests
    }

    /// The open file-level requests with their sums so far.
    ///
    /// # Errors
    /// The kernel's table cannot be read any more.
    pub fn look_at_open_requests(&mut self) -> Result<Vec<Request>> {
        match &mut self.files {
            Some(files) => files
                .open_requests()
                .context("open file-level requests cannot be read"),
            None => Ok(Vec::new()),
        }
    }

    /// Takes everything available; of counters a sample if it is due.
    ///
    /// # Errors
    /// The rings or the counters cannot be read any more.
    pub fn drain(&mut self, taken: &mut Taken) -> Result<()> {
        if let Some(files) = &mut self.files {
            let stats = files.poll(&mut taken.requests, &mut taken.lost);
            self.open_requests = stats.context("file-level requests cannot be read")?.open;
        }
        match &mut self.kind {
            FeedKind::Events { tracer, .. } => {
                let stats = tracer.poll(&mut taken.ios, &mut taken.lost);
                taken.complete_to_ns = Some(
                    stats
                        .context("the kernel's event rings cannot be read")?
                        .complete_to_ns,
                );
            }
            FeedKind::Counters { sampler, state, .. } if *state == SampleState::Due => {
                sample(sampler, self.devices.as_deref(), self.start_ns, taken)?;
                *state = SampleState::Taken;
            }
            FeedKind::Counters { .. } | FeedKind::Ended => {}
        }
        Ok(())
    }

    /// Samples the counters in addition to events, so that the kernel's own counts can be compared.
    pub fn sample_counters_beside_events(&mut self, taken: &mut Taken) {
        if let FeedKind::Events {
            counters: Some(sampler),
            ..
        } = &mut self.kind
        {
            // The counters are only an addition here, so a sample that cannot be read is dropped.
            drop(sample(
                sampler,
                self.devices.as_deref(),
                self.start_ns,
                taken,
            ));
        }
    }

    /// Number of I/Os of a device and class that started during the recording and have no completion yet.
    pub fn outstanding(&self, dev: DevId, class: Class) -> i64 {
        match &self.kind {
            FeedKind::Events { tracer, .. } => tracer.outstanding(dev, class),
            _ => 0,
        }
    }

    /// Sleeps until `until_ns` of the monotonic clock, or until the counters' next deadline if that is earlier. Returns
    /// the timer's deadline and the time at which this thread ran; `None` if there was nothing to wait for or a signal
    /// arrived first.
    pub fn wait(&mut self, until_ns: i64) -> Option<TimerWake> {
        let before_ns = monotonic_ns();
        let due_ns = match &mut self.kind {
            FeedKind::Counters { pace, state, .. } if pace.next_ns() <= until_ns => {
                match pace.wait() {
                    Wake::Due { due_ns, .. } => {
                        *state = SampleState::Due;
                        due_ns
                    }
                    // The deadline is kept, but not waited for: the signal may request the end.
                    Wake::Interrupted => {
                        state.time_passes();
                        return None;
                    }
                }
            }
            kind => {
                if let FeedKind::Counters { state, .. } = kind {
                    state.time_passes();
                }
                let left_ns = u64::try_from(until_ns - before_ns).unwrap_or(0);
                std::thread::sleep(Duration::from_nanos(left_ns));
                until_ns
            }
        };
        // A deadline that had already passed shows nothing about the CPUs, because the work before took too long.
        (due_ns > before_ns).then(|| self.woke(due_ns))
    }

    /// The wake of a timer with deadline `due_ns` of the monotonic clock that has just fired.
    fn woke(&self, due_ns: i64) -> TimerWake {
        TimerWake {
            due_ns: due_ns - self.start_ns,
            woke_ns: monotonic_ns() - self.start_ns,
        }
    }

    /// Waits on a source that had nothing at the last poll. If the kernel signals events, or a deadline is known, it
    /// sleeps until then, at most until `seldom_ns` of the monotonic clock. Otherwise it sleeps until `often_ns`.
    ///
    /// # Errors
    /// Waiting for the rings failed.
    pub fn wait_idle(&mut self, seldom_ns: i64, often_ns: i64) -> Result<IdleEnd> {
        match &mut self.kind {
            FeedKind::Events { tracer, .. } if self.files.is_none() => {
                let before_ns = monotonic_ns();
                let left_ns = u64::try_from(seldom_ns - before_ns).unwrap_or(0);
                if tracer.wait_for_event(Duration::from_nanos(left_ns))? {
                    return Ok(IdleEnd::Event);
                }
                let timer = (seldom_ns > before_ns).then(|| self.woke(seldom_ns));
                Ok(IdleEnd::Timer(timer))
            }
            FeedKind::Counters { .. } => Ok(IdleEnd::Timer(self.wait(seldom_ns))),
            _ => Ok(IdleEnd::Timer(self.wait(often_ns))),
        }
    }

    /// Number of deadlines that were skipped because this process did not run; counters only.
    pub fn missed_samples(&self) -> u64 {
        match &self.kind {
            FeedKind::Counters { pace, .. } => pace.missed(),
            _ => 0,
        }
    }

    /// Attaches the probes for bio-based devices, if they are not attached yet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach_bio_based(&mut self) -> Result<(), TraceError> {
        match &mut self.kind {
            FeedKind::Events { tracer, .. } => tracer.attach_bio_based(),
            _ => Ok(()),
        }
    }

    /// Disks with I/O whose numbers the kernel does not show otherwise.
    pub fn hidden_disks(&self) -> Vec<(String, DevId)> {
        match &self.kind {
            FeedKind::Events { tracer, .. } => tracer.hidden_disks(),
            _ => Vec::new(),
        }
    }

    /// Devices whose write-back the kernel throttles above the block layer, if the kernel shows it.
    pub fn wbt_throttled(&self) -> Vec<(DevId, WbtThrottled)> {
        match &self.kind {
            FeedKind::Events { tracer, .. } => tracer.wbt_throttled(),
            _ => Vec::new(),
        }
    }

    /// CPU seconds of the block I/O probes so far; `None` if they are not measured.
    pub fn probe_cpu_s(&self) -> Option<f64> {
        match &self.kind {
            FeedKind::Events { tracer, .. } => Some(tracer.probe_cost()?.run_time_ns as f64 / 1e9),
            _ => None,
        }
    }

    /// Detaches the probes and takes the rest. For counters, takes a last sample if time has passed since the previous
    /// one.
    ///
    /// # Errors
    /// The rings or the counters cannot be read.
    pub fn finish(self, taken: &mut Taken) -> Result<Option<FinishStats>> {
        if let Some(files) = self.files {
            files
                .finish(&mut taken.requests, &mut taken.lost)
                .context("the last file-level requests cannot be read")?;
        }
        match self.kind {
            FeedKind::Events { tracer, .. } => Ok(Some(
                tracer
                    .finish(&mut taken.ios, &mut taken.lost)
                    .context("the last events cannot be read")?,
            )),
            FeedKind::Counters {
                mut sampler, state, ..
            } if state != SampleState::Taken => {
                sample(&mut sampler, self.devices.as_deref(), self.start_ns, taken)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

impl SampleState {
    /// Notes that time has passed since the last sample. A sample that is due stays due.
    fn time_passes(&mut self) {
        if *self == SampleState::Taken {
            *self = SampleState::Waited;
        }
    }
}

fn start_tracer(
    options: &FeedOptions,
    devices: Option<&[DevId]>,
    topology: &Topology,
) -> Result<Tracer, TraceError> {
    // The probes for bio-based devices run on every bio of every device, so they are attached only if such a device is
    // in use.
    let bio_based = topology
        .devices()
        .iter()
        .filter(|d| devices.is_none_or(|selected| selected.contains(&d.id)))
        .any(|d| d.kind == DeviceKind::Bio && d.size_bytes.unwrap_or(0) > 0);
    Tracer::start(TracerOptions {
        devices: devices.map(<[DevId]>::to_vec),
        ring_bytes: options.ring_bytes.max(4096).next_power_of_two(),
        attribution: options.attribution,
        bio_based,
        measure_cost: options.measure_probes,
        ..TracerOptions::default()
    })
}

fn counters_beside_events(
    devices: Option<&[DevId]>,
    topology: &Topology,
) -> (Option<Sampler>, Vec<String>) {
    match sampler(devices, topology, Duration::from_secs(1)) {
        Ok(sampler) => (Some(sampler), Vec::new()),
        Err(e) => (None, vec![format!("no counters beside the events: {e}")]),
    }
}

/// Message about disks that the kernel does not account, which must not look idle.
fn not_accounted(devices: Option<&[DevId]>, topology: &Topology) -> Option<String> {
    let uncounted = topology
        .devices()
        .iter()
        .filter(|d| d.iostats == Some(false) && d.size_bytes != Some(0));
    let names: Vec<&str> = uncounted
        .filter(|d| devices.is_none_or(|ids| ids.contains(&d.id)))
        .map(|d| d.name.as_str())
        .collect();
    let which = names.join(", ");
    (!names.is_empty())
        .then(|| format!("not accounted, so nothing is known of: {which} (queue/iostats is 0)"))
}

fn sampler(
    devices: Option<&[DevId]>,
    topology: &Topology,
    period: Duration,
) -> std::io::Result<Sampler> {
    let names: Option<Vec<&str>> = devices.map(|ids| {
        topology
            .devices()
            .iter()
            .filter(|d| ids.contains(&d.id))
            .map(|d| d.name.as_str())
            .collect()
    });
    Ok(Sampler::new(&Root::live(), names.as_deref(), period)?)
}

fn sample(
    sampler: &mut Sampler,
    devices: Option<&[DevId]>,
    start_ns: i64,
    taken: &mut Taken,
) -> Result<()> {
    let observations = sampler
        .now()
        .map_err(std::io::Error::from)
        .context("/proc/diskstats cannot be read any more")?;
    taken.counters.extend(
        observations
            .observations(start_ns)
            .filter(|c| devices.is_none_or(|d| d.contains(&c.dev))),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that no test waits for.
    const HOUR_NS: i64 = 3_600_000_000_000;

    fn counters(step_ns: i64) -> Feed {
        let options = FeedOptions {
            counters_step_ns: step_ns,
            ..FeedOptions::new(SourceChoice::Counters)
        };
        let topology = Topology::read("/".as_ref()).expect("sysfs");
        Feed::open(&options, None, &topology).expect("counters are there on every machine")
    }

    fn drained(feed: &mut Feed) -> Vec<CounterSample> {
        let mut taken = Taken::default();
        feed.drain(&mut taken).expect("read");
        taken.counters
    }

    fn finished(feed: Feed) -> Vec<CounterSample> {
        let mut taken = Taken::default();
        feed.finish(&mut taken).expect("read");
        taken.counters
    }

    #[test]
    fn an_end_before_the_next_deadline_is_not_waited_beyond_and_has_a_sample() {
        let mut feed = counters(HOUR_NS);
        let has_disks = !drained(&mut feed).is_empty();
        let until_ns = monotonic_ns() + 1_000_000;
        feed.wait(until_ns);
        assert!(monotonic_ns() >= until_ns);
        assert!(drained(&mut feed).is_empty(), "none is due");
        assert_eq!(!finished(feed).is_empty(), has_disks);
    }

    #[test]
    fn each_deadline_has_one_sample_and_the_end_adds_none_at_once() {
        let mut feed = counters(1_000_000);
        let has_disks = !drained(&mut feed).is_empty();
        assert!(drained(&mut feed).is_empty(), "one a deadline");
        feed.wait(i64::MAX);
        assert_eq!(!drained(&mut feed).is_empty(), has_disks);
        assert!(finished(feed).is_empty());
    }
}
