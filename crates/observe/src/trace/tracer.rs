//! [`Tracer`]: attach, poll, finish.

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, PerCpuHashMap},
    sys::Stats,
};
use iolens_core::model::{Class, DevId, Io, Lost};

use super::{
    cpu_rings::{CpuRings, RingSizes},
    error::{TraceError, refused},
    event::{DiskName, IoEvent, RawWbtThrottled, WbtThrottled, text_of_disk_name},
    filter::DeviceFilter,
    load::{self, BIO_PROBES, Config, Features, Probe},
    loss::LossReader,
    order::ReorderBuffer,
    process_name::ProcessNameReader,
    program_info::{ProgramInfo, program_info},
    ring::Drained,
    slots::Slots,
    unmatched::{InFlightBefore, unmatched},
};
use crate::heap;

/// Upper bound of the time after which stores of one CPU are visible to others; see `order.rs`.
pub(super) const SLACK_NS: u64 = 20_000;

/// Options of the tracer.
#[derive(Debug, Clone)]
pub struct TracerOptions {
    /// Only these whole disks; `None`: all, including those that appear later.
    pub devices: Option<Vec<DevId>>,
    /// Size of the rings between kernel and user space, of all CPUs together, in bytes: a power of two, whole pages.
    /// Each CPU gets the same number of events of 104 bytes, a power of two.
    pub ring_bytes: u32,
    /// Look up process, cgroup and file of each I/O (costs some 35 ns more per I/O), and remember which processes dirty pages.
    pub attribution: bool,
    /// Trace bio-based devices (dm, md, zram, brd) from the start. This costs time on every bio of request-based
    /// devices, too.
    pub bio_based: bool,
    /// `CLOCK_MONOTONIC` of the recording's start in nanoseconds: all times count from here. See also
    /// [`Tracer::begin`].
    pub start_monotonic_ns: i64,
    /// I/Os that may be in flight at once; rounded up to a power of two. Some 200 bytes of kernel memory each.
    pub slots: u32,
    /// Measure the time spent in the probes (see [`Tracer::probe_cost`]); costs some 60 ns per probe itself.
    pub measure_cost: bool,
    /// Trace as if the kernel had no `block_io_start` (before 6.5): to see what older kernels would show.
    pub without_io_start: bool,
    /// Trace as if the kernel's BPF had no atomic operations that return a value (before 5.12).
    pub without_fetch: bool,
    /// Trace as if the kernel had no tracepoint for dirtied pages.
    pub without_dirtiers: bool,
}

impl TracerOptions {
    /// Default size of the rings: 8 MiB, or 256 KiB per CPU if that is more.
    pub fn usual_ring_bytes() -> u32 {
        let cpus = load::cpus().unwrap_or(1).next_power_of_two() as u32;
        cpus.saturating_mul(256 << 10).clamp(8 << 20, 1 << 30)
    }

    /// Minimum size of the rings: 64 KiB per CPU, enough for 50,000 I/Os per second and CPU at polls 10 ms apart.
    pub fn min_ring_bytes() -> u32 {
        let cpus = load::cpus().unwrap_or(1).next_power_of_two() as u32;
        cpus.saturating_mul(64 << 10).min(1 << 30)
    }

    /// Number of events per CPU that rings of `ring_bytes` in total hold.
    pub fn events_per_cpu(ring_bytes: u32) -> u64 {
        1 << RingSizes::of(ring_bytes, load::cpus().unwrap_or(1)).shift
    }
}

impl Default for TracerOptions {
    fn default() -> TracerOptions {
        TracerOptions {
            devices: None,
            ring_bytes: TracerOptions::usual_ring_bytes(),
            attribution: true,
            bio_based: false,
            start_monotonic_ns: 0,
            slots: 1 << 14,
            measure_cost: false,
            without_io_start: false,
            without_fetch: false,
            without_dirtiers: false,
        }
    }
}

/// Result of one [`Tracer::poll`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PollStats {
    /// Events taken from the rings.
    pub drained: u64,
    /// How full the fullest ring was, 0 to 1.
    pub fill_fraction: f64,
    /// Events so far that arrived after younger ones had been returned; 0 unless the kernel violates an assumption.
    pub late: u64,
    /// Every I/O completed before this time has been returned or lost, in nanoseconds since the recording's start.
    pub complete_to_ns: i64,
}

/// Result of [`Tracer::finish`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FinishStats {
    /// Events taken from the rings by `finish`.
    pub drained: u64,
    /// Late events of the whole run, see [`PollStats::late`].
    pub late: u64,
    /// I/Os started while tracing that had not completed at its end.
    pub in_flight: u64,
}

/// Cost of the probes while statistics were on.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeCost {
    /// CPU time of all probes in nanoseconds, including the cost of the statistics (about 60 ns per run).
    pub run_time_ns: u64,
    /// Each program: name, runs, nanoseconds.
    pub programs: Vec<(String, u64, u64)>,
}

/// A running tracer. Dropping it detaches everything.
pub struct Tracer {
    bpf: Ebpf,
    features: Features,
    limits: Vec<String>,
    rings: CpuRings,
    slots: Slots,
    buffer: ReorderBuffer<IoEvent>,
    losses: LossReader,
    process_names: ProcessNameReader,
    attached: HashSet<&'static str>,
    filter: Option<DeviceFilter>,
    disk_names: HashMap<MapData, u32, DiskName>,
    wbt_throttled: HashMap<MapData, u32, RawWbtThrottled>,
    start_monotonic_ns: i64,
    attached_ns: u64,
    _stats: Option<OwnedFd>,
}

impl Tracer {
    /// Loads and attaches the programs. From its return on, every I/O that starts is recorded.
    ///
    /// # Errors
    /// A missing privilege, type information or tracepoint; the message has the reason and a remedy.
    pub fn start(options: TracerOptions) -> Result<Tracer, TraceError> {
        if !options.ring_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&options.ring_bytes)
        {
            return Err(TraceError::RingSize(options.ring_bytes));
        }

        // The features of this kernel, minus those that the options exclude.
        let mut features = Features::read()?;
        features.io_start &= !options.without_io_start;
        features.dirty = features.dirty.filter(|_| !options.without_dirtiers);

        // The newest variant of the programs that this kernel accepts.
        let sizes = RingSizes::of(options.ring_bytes, load::cpus()?);
        let config = Config {
            rings: sizes,
            attribution: options.attribution,
            filtered: options.devices.is_some(),
            slots: options.slots,
            without_fetch: options.without_fetch,
            cgroup_of_bio: load::io_controller_is_v2(Path::new("/proc/cgroups")),
        };
        let load::Loaded {
            mut bpf,
            features,
            limits,
        } = load::load(config, features)?;
        heap::release_freed();

        // The maps that user space reads or fills.
        let rings = map_rings(&bpf, sizes)?;
        let slots = map_slots(&bpf, options.slots)?;
        let losses = open_losses(&mut bpf)?;
        let filter = match &options.devices {
            Some(devices) => Some(open_filter(&mut bpf, devices)?),
            None => None,
        };
        let disk_names = HashMap::try_from(take_map(&mut bpf, "disk_names")?)
            .map_err(|e| refused("open its map disk_names", &e))?;
        let wbt_throttled = HashMap::try_from(take_map(&mut bpf, "wbt_throttled")?)
            .map_err(|e| refused("open its map wbt_throttled", &e))?;
        let stats = if options.measure_cost {
            Some(
                aya::sys::enable_stats(Stats::RunTime)
                    .map_err(|e| refused("switch on run-time statistics", &e))?,
            )
        } else {
            None
        };

        let mut tracer = Tracer {
            bpf,
            features,
            limits,
            rings,
            slots,
            buffer: ReorderBuffer::new(),
            losses,
            process_names: ProcessNameReader::new(),
            attached: HashSet::new(),
            filter,
            disk_names,
            wbt_throttled,
            start_monotonic_ns: options.start_monotonic_ns,
            attached_ns: 0,
            _stats: stats,
        };

        // Programs that explain I/Os are attached before those that record them. A kernel without ext4 or wbt does not
        // have these tracepoints, and nothing is missing then.
        if features.syncs {
            let _ = load::attach_sync_probes(&mut tracer.bpf);
        }
        let _ = load::attach_wbt_probe(&mut tracer.bpf);
        tracer.attach(load::request_probes(features))?;
        if options.bio_based {
            tracer.attach_bio_based()?;
        }
        tracer.attached_ns = now_ns();
        Ok(tracer)
    }

    fn attach(&mut self, probes: impl IntoIterator<Item = Probe>) -> Result<(), TraceError> {
        for probe in probes {
            if self.attached.insert(probe.program) {
                load::program(&mut self.bpf, probe)?.attach().map_err(|e| {
                    refused(format!("attach to the tracepoint {}", probe.tracepoint), &e)
                })?;
            }
        }
        Ok(())
    }

    /// Restarts the recording: I/Os that completed or were lost since the probes were attached are dropped. Returns the
    /// new start of times, in nanoseconds of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// The losses cannot be read.
    pub fn begin(&mut self) -> Result<i64, TraceError> {
        self.poll(&mut Vec::new(), &mut Vec::new())?;
        self.attached_ns = now_ns();
        self.start_monotonic_ns = self.attached_ns as i64;
        Ok(self.start_monotonic_ns)
    }

    /// Limits of this kernel with their reasons, one line each.
    pub fn limits(&self) -> &[String] {
        &self.limits
    }

    /// Starts to trace bio-based devices, too. Does nothing on a second call, or if the kernel refuses the programs for
    /// it ([`Tracer::limits`] reports that).
    ///
    /// # Errors
    /// The kernel refuses to attach.
    pub fn attach_bio_based(&mut self) -> Result<(), TraceError> {
        let probes = BIO_PROBES.into_iter().filter(|_| self.features.bio_based);
        self.attach(probes.collect::<Vec<_>>())
    }

    /// Replaces the list of traced devices. I/Os in flight on a newly listed device are censored.
    ///
    /// # Errors
    /// [`TraceError::NotFiltered`] if the tracer was started for all devices; [`TraceError::TooManyDevices`].
    pub fn set_devices(&mut self, devices: &[DevId]) -> Result<(), TraceError> {
        self.filter
            .as_mut()
            .ok_or(TraceError::NotFiltered)?
            .set(devices)
    }

    /// Takes the events that are ready. Appends to `out` the I/Os whose position in the order of completion is final,
    /// and to `lost` what was lost or censored since the last call.
    ///
    /// # Errors
    /// The losses cannot be read any more.
    pub fn poll(
        &mut self,
        out: &mut Vec<Io>,
        lost: &mut Vec<Lost>,
    ) -> Result<PollStats, TraceError> {
        let now = now_ns();
        let drained = self.drain();
        let watermark = if drained.complete {
            now.saturating_sub(SLACK_NS)
        } else {
            0
        };
        self.release(watermark, out);
        self.losses.read(self.start_monotonic_ns, lost)?;
        Ok(PollStats {
            drained: drained.records,
            fill_fraction: drained.fill,
            late: self.buffer.late(),
            complete_to_ns: self.buffer.watermark() as i64 - self.start_monotonic_ns,
        })
    }

    /// Name and number of disks with I/O whose numbers the kernel does not show (paths of NVMe multipath before 5.17).
    pub fn hidden_disks(&self) -> Vec<(String, DevId)> {
        let entries = self.disk_names.iter().flatten();
        entries
            .map(|(dev, name)| (text_of_disk_name(&name), DevId(dev as i32)))
            .collect()
    }

    /// Devices whose write-back the kernel has throttled above the block layer (wbt) since the probes were attached.
    pub fn wbt_throttled(&self) -> Vec<(DevId, WbtThrottled)> {
        let mut all = Vec::new();
        for (dev, [windows, max_step]) in self.wbt_throttled.iter().flatten() {
            all.push((DevId(dev as i32), WbtThrottled { windows, max_step }));
        }
        all
    }

    /// Number of I/Os of a device and class that were issued since the probes were attached and have no completion:
    /// they are in flight, or will be counted as lost. Reads all slots, which takes some milliseconds.
    pub fn outstanding(&self, dev: DevId, class: Class) -> i64 {
        let slots = self
            .slots
            .outstanding()
            .into_iter()
            .filter(|io| io.dev == dev && io.class == class);
        let in_slots = slots.filter(|io| io.start_ns >= self.attached_ns).count() as i64;
        let without = self
            .losses
            .outstanding()
            .into_iter()
            .filter(|io| io.dev == dev && io.class == Some(class));
        in_slots + without.map(|io| io.ios as i64).sum::<i64>()
    }

    /// Sleeps until an event is ready, at most for `timeout`; returns whether there is one. Meant for idle times: under
    /// a moderate load a reader that always waits this way would be woken for every event.
    ///
    /// # Errors
    /// Waiting for the rings failed.
    pub fn wait_for_event(&mut self, timeout: Duration) -> Result<bool, TraceError> {
        self.rings
            .wait(timeout)
            .map_err(|e| refused("wait for its rings", &e))
    }

    fn drain(&mut self) -> Drained {
        let buffer = &mut self.buffer;
        self.rings.drain(|event| buffer.push(*event))
    }

    fn release(&mut self, watermark: u64, out: &mut Vec<Io>) {
        let start = self.start_monotonic_ns;
        let since_start = self
            .buffer
            .release(watermark)
            .filter(|event| event.done_ns as i64 >= start);
        for event in since_start {
            let mut io = event.to_io(start);
            io.comm = self.process_names.name(io.tgid, io.comm, io.done_ns);
            out.push(io);
        }
    }

    /// Detaches the programs and returns all remaining events.
    ///
    /// # Errors
    /// The losses cannot be read any more.
    pub fn finish(
        mut self,
        out: &mut Vec<Io>,
        lost: &mut Vec<Lost>,
    ) -> Result<FinishStats, TraceError> {
        // I/Os that complete while the programs are detached are seen by no probe. They count as in flight at the end,
        // not as lost, so the number in flight is determined before.
        let in_flight_before = self.in_flight_before();
        // Detach the programs that write events first. From then on, an I/O has either its event or still its slot.
        let ends: Vec<Probe> = [load::COMPLETE, load::BIO_COMPLETE]
            .into_iter()
            .filter(|p| self.attached.contains(p.program))
            .collect();
        for probe in ends {
            load::program(&mut self.bpf, probe)?
                .unload()
                .map_err(|e| refused(format!("detach {}", probe.program), &e))?;
        }
        let end = now_ns();
        let mut drained = 0;
        // Detached programs may still run on other CPUs for a moment.
        loop {
            let d = self.drain();
            drained += d.records;
            if d.complete && now_ns() > end + SLACK_NS {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        self.release(u64::MAX, out);
        self.losses.read(self.start_monotonic_ns, lost)?;
        let traced = self.attached_ns..=end;
        let slots = self
            .slots
            .outstanding()
            .into_iter()
            .filter(|io| traced.contains(&io.start_ns));
        let without_slot = self
            .losses
            .outstanding()
            .into_iter()
            .filter(|io| traced.contains(&io.first_ns));
        let left = unmatched(slots, without_slot, &in_flight_before);
        lost.extend(
            left.unseen
                .iter()
                .map(|io| io.until(end, self.start_monotonic_ns)),
        );
        Ok(FinishStats {
            drained,
            late: self.buffer.late(),
            in_flight: left.in_flight,
        })
    }

    /// Determines the number in flight on each device that has I/Os without a completion.
    fn in_flight_before(&self) -> InFlightBefore {
        let slots = self.slots.outstanding().into_iter().map(|io| io.dev);
        let counted = self.losses.outstanding().into_iter().map(|io| io.dev);
        InFlightBefore::count(now_ns(), slots.chain(counted))
    }

    fn info(&self, probe: Probe) -> io::Result<ProgramInfo> {
        let program = self
            .bpf
            .program(probe.program)
            .ok_or(io::ErrorKind::NotFound)?;
        let fd = program.fd().map_err(io::Error::other)?;
        program_info(fd.as_fd())
    }

    /// Cost of the probes so far; `None` unless the tracer was started with [`TracerOptions::measure_cost`].
    pub fn probe_cost(&self) -> Option<ProbeCost> {
        self._stats.as_ref()?;
        let programs: Vec<(String, u64, u64)> = load::probes(self.features)
            .filter(|p| self.attached.contains(p.program))
            .filter_map(|p| {
                self.info(p)
                    .ok()
                    .map(|i| (p.program.to_owned(), i.runs, i.run_time_ns))
            })
            .collect();
        Some(ProbeCost {
            run_time_ns: programs.iter().map(|p| p.2).sum(),
            programs,
        })
    }
}

pub(super) fn missing_map(name: &str) -> TraceError {
    TraceError::Refused {
        what: format!("find the map {name}"),
        why: "not in the object".into(),
    }
}

pub(super) fn take_map(bpf: &mut Ebpf, name: &str) -> Result<aya::maps::Map, TraceError> {
    bpf.take_map(name).ok_or_else(|| missing_map(name))
}

/// The descriptor of a map that user space maps.
pub(super) fn map_fd<'a>(bpf: &'a Ebpf, name: &str) -> Result<BorrowedFd<'a>, TraceError> {
    match bpf.map(name) {
        Some(aya::maps::Map::Array(map) | aya::maps::Map::RingBuf(map)) => Ok(map.fd().as_fd()),
        _ => Err(missing_map(name)),
    }
}

fn map_rings(bpf: &Ebpf, sizes: RingSizes) -> Result<CpuRings, TraceError> {
    CpuRings::new(
        map_fd(bpf, "rings")?,
        map_fd(bpf, "entries")?,
        map_fd(bpf, "wakes")?,
        sizes,
    )
    .map_err(|e| refused("map its rings", &e))
}

/// The counts of lost events.
fn open_losses(bpf: &mut Ebpf) -> Result<LossReader, TraceError> {
    Ok(LossReader::new(
        Array::try_from(take_map(bpf, ".bss")?).map_err(|e| refused("open its map .bss", &e))?,
        Array::try_from(take_map(bpf, ".data")?).map_err(|e| refused("open its map .data", &e))?,
        PerCpuHashMap::try_from(take_map(bpf, "losses")?)
            .map_err(|e| refused("open its map losses", &e))?,
    ))
}

/// The device filter of the programs, set to `devices`.
fn open_filter(bpf: &mut Ebpf, devices: &[DevId]) -> Result<DeviceFilter, TraceError> {
    let map = Array::try_from(take_map(bpf, "devices")?)
        .map_err(|e| refused("open its map devices", &e))?;
    let mut filter = DeviceFilter::new(map);
    filter.set(devices)?;
    Ok(filter)
}

fn map_slots(bpf: &Ebpf, slots: u32) -> Result<Slots, TraceError> {
    Slots::new(
        map_fd(bpf, "slots")?,
        map_fd(bpf, "slot_notes")?,
        map_fd(bpf, "slot_ends")?,
        load::slot_count(slots) as usize,
    )
    .map_err(|e| refused("map its slots", &e))
}

/// `CLOCK_MONOTONIC`, as `bpf_ktime_get_ns()` counts it.
pub(super) fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
