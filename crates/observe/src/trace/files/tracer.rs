//! [`FilesTracer`]: attach, poll, finish.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData},
    sys::Stats,
};
use iolens_core::model::{CallHistogram, Comm, LossReason, Lost, Request, RequestFlags};

use super::super::{
    ProbeCost,
    error::{TraceError, refused},
    load::{Probe, program},
    order::ReorderBuffer,
    process_name::{ProcessNameReader, sees_all_processes},
    program_info::program_info,
    ring::{Drained, Ring},
    tracer::{SLACK_NS, map_fd, missing_map, now_ns, take_map},
};
use super::{
    event::{FileName, FileRequest, FileSet, FilesState},
    histograms::Histograms,
    load::{self, Config, Loaded},
    names::FileNames,
};
use crate::heap;

const NAMES_BYTES: u32 = 2 << 20;

/// Selects the processes whose requests are recorded. All given conditions must hold. The recorder's own requests are
/// never recorded.
#[derive(Debug, Clone, Default)]
pub struct FilesFilter {
    /// These processes; empty: any.
    pub pids: Vec<i32>,
    /// Tasks of this name.
    pub comm: Option<Comm>,
    /// Tasks in this control group (a directory of cgroup v2) and those below it.
    pub cgroup: Option<PathBuf>,
    /// Processes that this process starts from now on, and their descendants.
    pub children: bool,
}

impl FilesFilter {
    /// Checks that the filter can match a task, so that a wrong filter is an error rather than an empty recording.
    /// Returns the control group's number and depth.
    fn check(&self) -> Result<Option<(u64, u32)>, TraceError> {
        self.pids.iter().try_for_each(|pid| running(*pid))?;
        self.cgroup.as_deref().map(cgroup_of).transpose()
    }
}

/// Options of the files tracer.
#[derive(Debug, Clone)]
pub struct FilesOptions {
    /// Selects the processes whose requests are recorded.
    pub filter: FilesFilter,
    /// Size of the ring of finished requests in bytes: a power of two, whole pages. A request takes 280.
    pub ring_bytes: u32,
    /// Number of files that may be open at once before requests are lost; about 410 bytes of kernel memory each. One in
    /// 16 of them may have a histogram of its reads, or of its writes.
    pub open_files: u32,
    /// `CLOCK_MONOTONIC` of the recording's start in nanoseconds: all times count from here.
    pub start_monotonic_ns: i64,
    /// Measure the time spent in the probes (see [`FilesTracer::probe_cost`]).
    pub measure_cost: bool,
}

impl Default for FilesOptions {
    fn default() -> FilesOptions {
        FilesOptions {
            filter: FilesFilter::default(),
            ring_bytes: 4 << 20,
            // Sets of eight entries fill at random. With half as many entries, 10,000 open files lose one in 1 of 25
            // cases.
            open_files: 1 << 17,
            start_monotonic_ns: 0,
            measure_cost: false,
        }
    }
}

/// Counts of the files tracer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilesStats {
    /// File requests returned so far.
    pub requests: u64,
    /// Requests open now.
    pub open: u64,
    /// Names of files that did not fit into the ring; their requests have no path.
    pub names_lost: u64,
    /// Events that arrived after younger ones had been returned; 0 unless the kernel violates an assumption.
    pub late: u64,
}

/// A running tracer of file-level requests. Dropping it detaches everything.
pub struct FilesTracer {
    bpf: Ebpf,
    probes: Vec<Probe>,
    limits: Vec<String>,
    ring: Ring<FileRequest>,
    names_ring: Ring<FileName>,
    names: FileNames,
    process_names: ProcessNameReader,
    histograms: Histograms,
    buffer: ReorderBuffer<FileRequest>,
    state: Array<MapData, FilesState>,
    before: FilesState,
    looked_ns: i64,
    start_monotonic_ns: i64,
    handed_out: u64,
    _stats: Option<OwnedFd>,
}

impl FilesTracer {
    /// Loads and attaches the programs. From its return on, every file that is opened is traced.
    ///
    /// # Errors
    /// A missing privilege, type information, tracepoint or control group; the message has the reason and a remedy.
    pub fn start(options: &FilesOptions) -> Result<FilesTracer, TraceError> {
        if !options.ring_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&options.ring_bytes)
        {
            return Err(TraceError::RingSize(options.ring_bytes));
        }
        let cgroup = options.filter.check()?.unwrap_or_default();
        let config = Config {
            ring_bytes: options.ring_bytes,
            open_files: options.open_files,
            filter: &options.filter,
            cgroup,
        };
        let Loaded {
            mut bpf,
            probes,
            limits,
            histograms,
        } = load::load(&config)?;
        heap::release_freed();
        let stats = if options.measure_cost {
            Some(
                aya::sys::enable_stats(Stats::RunTime)
                    .map_err(|e| refused("switch on run-time statistics", &e))?,
            )
        } else {
            None
        };
        let ring = map_ring(&bpf, "file_events", options.ring_bytes)?;
        let names_ring = map_ring(&bpf, "file_names", NAMES_BYTES)?;
        let histograms = Histograms::new(map_fd(&bpf, "histograms")?, histograms)
            .map_err(|e| refused("map its table of histograms", &e))?;
        let state = Array::try_from(take_map(&mut bpf, ".bss")?)
            .map_err(|e| refused("open its map .bss", &e))?;
        let mut tracer = FilesTracer {
            bpf,
            probes,
            limits,
            ring,
            names_ring,
            names: FileNames::default(),
            process_names: ProcessNameReader::new(),
            histograms,
            buffer: ReorderBuffer::new(),
            state,
            before: FilesState::default(),
            looked_ns: now_ns() as i64 - options.start_monotonic_ns,
            start_monotonic_ns: options.start_monotonic_ns,
            handed_out: 0,
            _stats: stats,
        };
        tracer.let_through(&options.filter.pids)?;
        for probe in tracer.probes.clone() {
            program(&mut tracer.bpf, probe)?.attach().map_err(|e| {
                refused(format!("attach to the tracepoint {}", probe.tracepoint), &e)
            })?;
        }
        Ok(tracer)
    }

    fn let_through(&mut self, pids: &[i32]) -> Result<(), TraceError> {
        let map = self
            .bpf
            .map_mut("processes")
            .ok_or_else(|| missing_map("processes"))?;
        let mut map: HashMap<&mut MapData, u32, u8> =
            HashMap::try_from(map).map_err(|e| refused("open its map processes", &e))?;
        for pid in pids {
            map.insert(*pid as u32, 1, 0)
                .map_err(|e| refused(format!("record process {pid}"), &e))?;
        }
        Ok(())
    }

    /// Restarts the recording: requests that ended or were lost so far are dropped, and times count from
    /// `start_monotonic_ns`.
    ///
    /// # Errors
    /// The losses cannot be read.
    pub fn begin(&mut self, start_monotonic_ns: i64) -> Result<(), TraceError> {
        self.poll(&mut Vec::new(), &mut Vec::new())?;
        self.looked_ns += self.start_monotonic_ns - start_monotonic_ns;
        self.start_monotonic_ns = start_monotonic_ns;
        self.handed_out = 0;
        Ok(())
    }

    /// Limits of this kernel, a line each.
    pub fn limits(&self) -> &[String] {
        &self.limits
    }

    /// Takes the events that are ready. Appends to `out` the requests whose position in the order of ends is final, and
    /// to `lost` the numbers of requests that could not be recorded since the last call.
    ///
    /// # Errors
    /// The losses cannot be read any more.
    pub fn poll(
        &mut self,
        out: &mut Vec<Request>,
        lost: &mut Vec<Lost>,
    ) -> Result<FilesStats, TraceError> {
        let now = now_ns();
        let drained = self.drain();
        let watermark = if drained.complete {
            now.saturating_sub(SLACK_NS)
        } else {
            0
        };
        self.release(watermark, out);
        self.read_losses(lost)?;
        Ok(self.stats())
    }

    fn stats(&self) -> FilesStats {
        FilesStats {
            requests: self.handed_out,
            open: self.before.tracked,
            names_lost: self.before.lost[2],
            late: self.buffer.late(),
        }
    }

    fn drain(&mut self) -> Drained {
        let buffer = &mut self.buffer;
        let drained = self.ring.drain(|event| buffer.push(event));
        // After the requests, because a request's name is in the other ring before the request itself is in this one.
        let names = &mut self.names;
        self.names_ring.drain(|name| names.learn(&name));
        drained
    }

    fn release(&mut self, watermark: u64, out: &mut Vec<Request>) {
        let before = out.len();
        let start = self.start_monotonic_ns;
        for e in self.buffer.release(watermark) {
            let of = self.histograms.of(&e);
            if !RequestFlags(e.flags as i32).has(RequestFlags::STILL_OPEN) {
                self.histograms.free(&e);
            }
            if e.close_exit_ns as i64 >= start {
                let request = named_request(e, start, of, &mut self.names, &mut self.process_names);
                out.push(request);
            }
        }
        self.handed_out += (out.len() - before) as u64;
    }

    fn read_losses(&mut self, lost: &mut Vec<Lost>) -> Result<(), TraceError> {
        let state = self
            .state
            .get(&0, 0)
            .map_err(|e| refused("read its losses", &e))?;
        let now_ns = now_ns() as i64 - self.start_monotonic_ns;
        // If two threads hash to the same entry, a request loses an I/O. This is counted together with full tables.
        let ring = state.lost[0] - self.before.lost[0];
        let table = state.lost[1] + state.lost[3] - self.before.lost[1] - self.before.lost[3];
        for (n, reason) in [
            (ring, LossReason::RequestRingFull),
            (table, LossReason::RequestTableFull),
        ] {
            if n > 0 {
                lost.push(Lost {
                    ios: Some(n as i64),
                    ..Lost::somewhere(self.looked_ns, now_ns, reason)
                });
            }
        }
        self.before = state;
        self.looked_ns = now_ns;
        Ok(())
    }

    /// Detaches the programs and returns all remaining requests; open ones are flagged.
    ///
    /// # Errors
    /// The tables cannot be read any more.
    pub fn finish(
        mut self,
        out: &mut Vec<Request>,
        lost: &mut Vec<Lost>,
    ) -> Result<FilesStats, TraceError> {
        for probe in std::mem::take(&mut self.probes) {
            program(&mut self.bpf, probe)?
                .unload()
                .map_err(|e| refused(format!("detach {}", probe.program), &e))?;
        }
        let end = now_ns();
        // Detached programs may still run on other CPUs for a moment.
        while !self.drain().complete || now_ns() <= end + SLACK_NS {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        self.read_losses(lost)?;
        self.take_open(now_ns())?;
        self.release(u64::MAX, out);
        Ok(self.stats())
    }

    fn take_open(&mut self, end: u64) -> Result<(), TraceError> {
        for (_, open) in self.still_open(end)? {
            self.buffer.push(open);
        }
        Ok(())
    }

    /// The open requests with their keys in the table, as if all ended at `end`.
    fn still_open(&self, end: u64) -> Result<Vec<(u64, FileRequest)>, TraceError> {
        let map = self
            .bpf
            .map("requests")
            .ok_or_else(|| missing_map("requests"))?;
        let sets: Array<&MapData, FileSet> =
            Array::try_from(map).map_err(|e| refused("open its map requests", &e))?;
        let mut left = self.before.tracked;
        let mut all = Vec::new();
        for set in sets.iter() {
            if left == 0 {
                break;
            }
            let set = set.map_err(|e| refused("read its map requests", &e))?;
            for mut open in set.0.into_iter().filter(|r| r.key != 0) {
                let key = std::mem::replace(&mut open.key, 1);
                open.flags |= RequestFlags::STILL_OPEN.0 as u32;
                open.close_exit_ns = end;
                all.push((key, open));
                left = left.saturating_sub(1);
            }
        }
        Ok(all)
    }

    /// The open requests with their sums so far, flagged as open and ending now. The kernel continues to count
    /// meanwhile, so an I/O may be in one of a request's sums and not in another. Reads the whole table, which takes
    /// about 10 ms.
    ///
    /// # Errors
    /// The table cannot be read any more.
    pub fn open_requests(&mut self) -> Result<Vec<Request>, TraceError> {
        let open = self.still_open(now_ns())?;
        let mut requests = Vec::with_capacity(open.len());
        for (key, event) in open {
            let of = self.histograms.of_open(&event, key);
            let start = self.start_monotonic_ns;
            let request = named_request(event, start, of, &mut self.names, &mut self.process_names);
            requests.push(request);
        }
        Ok(requests)
    }

    /// Cost of the probes so far; `None` unless the tracer was started with [`FilesOptions::measure_cost`].
    pub fn probe_cost(&self) -> Option<ProbeCost> {
        self._stats.as_ref()?;
        let info = |p: &Probe| {
            let program = self.bpf.program(p.program).ok_or(io::ErrorKind::NotFound)?;
            let info = program_info(program.fd().map_err(io::Error::other)?.as_fd())?;
            Ok::<_, io::Error>((p.program.to_owned(), info.runs, info.run_time_ns))
        };
        let programs: Vec<(String, u64, u64)> =
            self.probes.iter().filter_map(|p| info(p).ok()).collect();
        Some(ProbeCost {
            run_time_ns: programs.iter().map(|p| p.2).sum(),
            programs,
        })
    }
}

fn map_ring<T: Copy>(bpf: &Ebpf, name: &str, bytes: u32) -> Result<Ring<T>, TraceError> {
    Ring::new(map_fd(bpf, name)?, bytes).map_err(|e| refused(format!("map its ring {name}"), &e))
}

/// The programs see process ids of the host, not of a container.
fn running(pid: i32) -> Result<(), TraceError> {
    let no = |why: String| TraceError::NoProcess { pid, why };
    if !sees_all_processes() {
        return Err(no(
            "process numbers of a container are not those that the kernel traces by".to_owned(),
        ));
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|_| no("there is none".to_owned()))?;
    match status
        .lines()
        .find_map(|l| l.strip_prefix("Tgid:"))
        .map(str::trim)
    {
        Some(tgid) if tgid != pid.to_string() => {
            Err(no(format!("it is a thread of process {tgid}")))
        }
        _ => Ok(()),
    }
}

/// Number (inode of its directory) and depth of a control group; the root has depth 0.
fn cgroup_of(dir: &Path) -> Result<(u64, u32), TraceError> {
    const CGROUP_MAGIC: u64 = 0x0027_e0eb; // include/uapi/linux/magic.h
    const CGROUP2_MAGIC: u64 = 0x6367_7270;
    let no = |why: String| TraceError::NoCgroup {
        path: dir.to_owned(),
        why,
    };
    let dir_meta = std::fs::metadata(dir).map_err(|e| no(e.to_string()))?;
    match rustix::fs::statfs(dir)
        .map_err(|e| no(e.to_string()))?
        .f_type as u64
    {
        CGROUP2_MAGIC if dir_meta.is_dir() => {}
        CGROUP_MAGIC => {
            return Err(no(
                "it is a control group of version 1, by which tasks cannot be chosen".to_owned(),
            ));
        }
        _ => return Err(no("it is no control group".to_owned())),
    }
    let path = dir.canonicalize().map_err(|e| no(e.to_string()))?;
    // The root has no cgroup.type (cgroup-v2.rst); every group below it has.
    let level = path
        .ancestors()
        .take_while(|a| a.join("cgroup.type").exists())
        .count();
    Ok((dir_meta.ino(), level as u32))
}

/// Converts a request, with the path of its file and the name of its process.
fn named_request(
    event: FileRequest,
    start_monotonic_ns: i64,
    histograms: [Option<CallHistogram>; 2],
    names: &mut FileNames,
    process_names: &mut ProcessNameReader,
) -> Request {
    let path = names.path(event.ino, event.generation, event.fs_dev);
    let mut request = event.to_request(start_monotonic_ns, path, histograms);
    request.comm = process_names.name(request.tgid, request.comm, request.end_ns);
    request
}
