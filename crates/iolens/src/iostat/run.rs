//! The main loop: sample, report, wait.

use super::exact::{self, Exact, POLL, Watch};
use super::list::DeviceList;
use super::reader::{Reader, Selection};
use super::repaint::Repaint;
use super::rows::{Filter, ShownNames, in_order, mapper_failure, rows, shown, sum_groups};
use super::signals::ReportSignals;
use super::style::style;
use super::words::Setup;
use super::{Failure, output, reason, records};
use crate::cli::iostat::{IostatFormat, IostatPlan, Options, Stamp, Step};
use crate::present::iostat::records::{csv_cpu_heading, csv_device_heading};
use crate::present::iostat::{Banner, IostatReport, Style, exact as columns, json, plain};
use iolens_core::analysis::counters::rates::iostat::{cpu_percent, interval_cs};
use iolens_core::model::CpuCounters;
use iolens_observe::counters::{
    LocalTime, Locale, Pace, Root, SystemFiles, Wake, monotonic_ns, process, processors,
    system_names, unix_time_s,
};
use rustix::io::Errno;
use std::path::PathBuf;

/// The state of the whole machine at one instant.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    uptime_cs: u64,
    monotonic_ns: i64,
    cpu: CpuCounters,
}

/// State of a run.
#[derive(Debug)]
pub struct Run {
    options: Options,
    style: Style,
    layout: plain::Layout,
    locale: Locale,
    iso: bool,
    cpu: bool,
    devices: bool,
    filter: Filter,
    names: ShownNames,
    list: DeviceList,
    selection: Selection,
    reader: Reader,
    system: SystemFiles,
    /// Single I/Os, if requested and available, and their statistics over the last interval.
    watch: Option<Box<Watch>>,
    exact: Exact,
    root: Root,
    samples: std::vec::IntoIter<PathBuf>,
    count: Option<u64>,
    fractional: bool,
    skips_first: bool,
    pace: Option<Pace>,
    signals: ReportSignals,
    instants: [Moment; 2],
    out: Vec<u8>,
    /// The last report, if the next one may patch it, and whether it already has been patched.
    repaint: Option<Repaint>,
    painted: bool,
    /// Text that is written before the next report, or part of it before the end.
    pending: PendingReport,
}

/// The separator between two reports is written when the second one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingReport {
    Nothing,
    Line,
    CommaLine,
}

impl Run {
    /// Counts processors, prints the banner and prepares the loop.
    pub fn start(
        plan: &IostatPlan,
        setup: Setup,
        root: Root,
        samples: Vec<PathBuf>,
    ) -> Result<Run, Failure> {
        let options = plan.options.clone();
        let locale = Locale::from_environment();
        let fractional = !setup.whole_seconds();
        let grouped = plan.steps.iter().any(|s| matches!(s, Step::Group(_)));
        let both = !options.cpu && !options.disk;
        let devices = both
            || options.disk
            || setup.selection.everything
            || options.extended
            || setup.unfiltered;
        let processors = processors(&root).map_err(|e| Failure {
            code: 1,
            message: format!(
                "Cannot open {}: {}",
                root.path("/proc/stat").display(),
                reason(e)
            ),
        })?;
        let style = style(&options, &locale);
        let mut run = Run {
            layout: plain::Layout::new(&style),
            style,
            iso: std::env::var_os("S_TIME_FORMAT").is_some_and(|v| v == "ISO"),
            cpu: both || options.cpu,
            devices,
            filter: Filter {
                unfiltered: setup.unfiltered,
                omit_idle: options.omit_idle,
                hide_members: options.hide_members && grouped,
            },
            names: ShownNames::new(options.mapper_names, setup.persistent),
            list: setup.list,
            selection: setup.selection,
            reader: setup.reader,
            system: SystemFiles::new(&root),
            watch: None,
            exact: Exact::default(),
            samples: samples.into_iter(),
            count: setup.count,
            fractional,
            skips_first: options.omit_first && setup.interval.is_some(),
            pace: None,
            signals: ReportSignals::default(),
            instants: [Moment::default(); 2],
            out: Vec::new(),
            repaint: None,
            painted: false,
            pending: PendingReport::Nothing,
            locale,
            root,
            options,
        };
        run.banner(processors);
        match setup.interval {
            Some(interval) if !run.root.is_recorded() => {
                process::raise_file_limit();
                run.signals = ReportSignals::catch();
                process::let_go_of_code();
                run.watch = exact::watch(&run.options, false, true);
                run.pace = Some(Pace::new(interval));
            }
            _ => run.watch = exact::watch(&run.options, run.root.is_recorded(), false),
        }
        run.samples.next();
        Ok(run)
    }

    fn banner(&mut self, processors: usize) {
        let names = system_names(&self.root);
        let time = self.now();
        let banner = Banner {
            sysname: names.sysname,
            release: names.release,
            nodename: names.nodename,
            machine: names.machine,
            date: self.format(time, if self.iso { "%Y-%m-%d" } else { "%x" }),
            processors,
        };
        match self.options.format {
            IostatFormat::Plain => {
                plain::banner(&mut self.out, &banner);
                if !self.skips_first {
                    self.out.push(b'\n');
                }
            }
            IostatFormat::Json => json::banner(&mut self.out, &banner),
            IostatFormat::Csv if self.devices => {
                let more = columns::fields(self.options.exact, self.options.percentiles);
                csv_device_heading(&mut self.out, &more);
            }
            IostatFormat::Csv => csv_cpu_heading(&mut self.out),
            IostatFormat::Ndjson => {}
        }
        if self.skips_first {
            // The first report is later and finds out whether stdout has a reader.
            output::write(&self.out);
            self.out.clear();
        }
    }

    /// Current time in seconds since the epoch, of the machine or of the recorded sample.
    fn now(&mut self) -> i64 {
        if self.root.is_recorded() {
            self.system.recorded_time_s(&self.root).unwrap_or(0)
        } else {
            unix_time_s()
        }
    }

    fn format(&self, unix_s: i64, format: &str) -> Vec<u8> {
        LocalTime::at(unix_s)
            .map(|t| self.locale.format(&t, format))
            .unwrap_or_default()
    }

    /// Reports until the count is reached, a signal arrives, or the recorded samples end. The document is completed
    /// even after an error, so that JSON is always valid.
    pub fn reports(mut self) -> Result<(), Failure> {
        let mut sample = 0;
        let mut skip = self.skips_first;
        loop {
            let slot = 1 - (sample % 2) as usize;
            let step = self.sample(slot, sample).and_then(|()| match skip {
                true => self.check_names(slot),
                false => self.report(slot, sample),
            });
            if let Err(failure) = step {
                self.close_after();
                return Err(failure);
            }
            if !skip {
                self.count = self.count.map(|c| c - 1);
            }
            let last = self.count == Some(0);
            if last {
                self.take_painted();
                self.end();
            }
            if !skip {
                self.flush()?;
            }
            if last {
                return Ok(());
            }
            if !self.wait() {
                self.end();
                output::write(&self.out);
                self.signals.die_if_meant();
                return Ok(());
            }
            let comma = self.options.format == IostatFormat::Json && !skip;
            self.pending = if comma {
                PendingReport::CommaLine
            } else {
                PendingReport::Line
            };
            skip = false;
            sample += 1;
        }
    }

    /// Reads one sample into `slot`.
    fn sample(&mut self, slot: usize, sample: u64) -> Result<(), Failure> {
        let own_clock = self.system.has_own_clock();
        let mut uptime_cs = if own_clock { 0 } else { self.uptime_cs()? };
        // This file is expensive for the kernel: a live run without CPU statistics reads it only once.
        let cpu = if self.cpu || sample == 0 || self.root.is_recorded() {
            self.system.cpu().map_err(|e| Failure {
                code: 2,
                message: format!(
                    "Cannot open {}: {}",
                    self.root.path("/proc/stat").display(),
                    reason(e)
                ),
            })?
        } else {
            CpuCounters::default()
        };
        // Read as close to the devices' counters as possible, now that the CPU counters have been read.
        if let Some(cs) = self.system.clock_cs() {
            uptime_cs = cs;
        }
        self.instants[slot] = Moment {
            uptime_cs,
            monotonic_ns: monotonic_ns(),
            cpu,
        };
        let scan = &mut self.reader.kernel_scan;
        self.painted = self
            .repaint
            .as_mut()
            .is_some_and(|r| r.sample(scan, &mut self.list, slot, sample));
        if !self.painted {
            self.repaint = None;
        }
        if self.devices && !self.painted {
            self.reader
                .read(&mut self.list, &self.selection, slot, sample);
            sum_groups(&mut self.list, slot, sample, self.filter.unfiltered);
        }
        if let (Some(watch), Some(pace)) = (&mut self.watch, &self.pace) {
            let at_ns = self.instants[slot].monotonic_ns;
            self.exact = watch.close(at_ns, pace.period(), &self.list, slot);
        }
        Ok(())
    }

    fn uptime_cs(&mut self) -> Result<u64, Failure> {
        match self.system.uptime_cs() {
            Ok(Some(cs)) => Ok(cs),
            _ => {
                let message = format!("Cannot read {}", self.root.path("/proc/uptime").display());
                Err(Failure { code: 2, message })
            }
        }
    }

    /// Hundredths of a second since the previous sample; since boot, for the first. Based on the kernel's uptime, as
    /// in the reference, or measured with a finer resolution for intervals that the reference does not support.
    fn interval_cs(&self, slot: usize, sample: u64) -> f64 {
        let now = self.instants[slot];
        let before = self.instants[1 - slot];
        if self.fractional && sample > 0 && !self.root.is_recorded() {
            return (now.monotonic_ns - before.monotonic_ns).max(1) as f64 / 1e7;
        }
        interval_cs(before.uptime_cs, now.uptime_cs) as f64
    }

    fn report(&mut self, slot: usize, sample: u64) -> Result<(), Failure> {
        let before = self.out.len();
        let repeats = before == 0 && self.pending == PendingReport::Line && self.may_repaint();
        let itv = self.interval_cs(slot, sample);
        let cpu = self
            .cpu
            .then(|| cpu_percent(&self.instants[1 - slot].cpu, &self.instants[slot].cpu));
        if self.painted {
            self.paint(slot, itv, cpu);
            return Ok(());
        }
        self.separate();
        if matches!(
            self.options.format,
            IostatFormat::Ndjson | IostatFormat::Csv
        ) {
            self.records(slot, sample, itv, cpu);
            return Ok(());
        }
        let stamp = self.stamp();
        let mut error = None;
        let rows = self.devices.then(|| {
            let (rows, e) = rows(
                &self.list,
                slot,
                itv,
                self.filter,
                &mut self.names,
                &self.root,
                &self.exact,
            );
            error = e;
            rows
        });
        let report = IostatReport {
            stamp,
            cpu,
            rows,
            cut: error.is_some(),
        };
        match self.options.format {
            IostatFormat::Json => json::report(&mut self.out, &self.style, &report),
            _ => {
                let places = plain::report(&mut self.out, &self.style, &self.layout, &report);
                if repeats {
                    self.keep(places, slot);
                }
            }
        }
        if let Some(e) = error {
            if self.options.format == IostatFormat::Json {
                // An incomplete report would make the document invalid.
                self.out.truncate(before);
            }
            return Err(mapper_failure(e));
        }
        Ok(())
    }

    /// A name that cannot be determined ends the program even if the report is not shown.
    fn check_names(&mut self, slot: usize) -> Result<(), Failure> {
        if !self.devices || self.names.are_own() {
            return Ok(());
        }
        let (_, error) = rows(
            &self.list,
            slot,
            1.0,
            self.filter,
            &mut self.names,
            &self.root,
            &self.exact,
        );
        error.map_or(Ok(()), |e| Err(mapper_failure(e)))
    }

    /// Whether the shape of reports only depends on the devices, and only `/proc/diskstats` is read.
    fn may_repaint(&self) -> bool {
        let Selection {
            everything,
            all,
            patterns,
            alternate,
            ..
        } = &self.selection;
        let scanned =
            self.devices && *all && !everything && patterns.is_empty() && alternate.is_none();
        let plain = self.options.format == IostatFormat::Plain && self.layout.has_one_table();
        scanned && plain && self.names.are_own() && !self.filter.omit_idle && self.watch.is_none()
    }

    /// Keeps the report that was just written, so that the next one can patch it.
    fn keep(&mut self, places: plain::Places, slot: usize) {
        let shown = in_order(&self.list).map(|placed| shown(&placed, slot, self.filter));
        self.repaint = Repaint::of(
            self.out.clone(),
            places,
            &self.list,
            &self.reader.kernel_scan,
            shown,
        );
    }

    fn paint(
        &mut self,
        slot: usize,
        itv: f64,
        cpu: Option<iolens_core::analysis::counters::rates::iostat::CpuPercent>,
    ) {
        self.pending = PendingReport::Nothing;
        let stamp = self.stamp();
        let Some(repaint) = &mut self.repaint else {
            return;
        };
        if let Some(stamp) = stamp {
            repaint.stamp(&stamp);
        }
        if let Some(cpu) = cpu {
            repaint.processors(&self.style, &cpu);
        }
        repaint.rows(&self.style, &self.layout, &self.list, slot, itv);
    }

    /// Continues with a patched report like with a written one.
    fn take_painted(&mut self) {
        if let Some(repaint) = self.repaint.take().filter(|_| self.painted) {
            self.out.extend_from_slice(repaint.text());
        }
        self.painted = false;
    }

    fn records(
        &mut self,
        slot: usize,
        sample: u64,
        itv: f64,
        cpu: Option<iolens_core::analysis::counters::rates::iostat::CpuPercent>,
    ) {
        let unix_ns = if self.root.is_recorded() {
            self.now().saturating_mul(1_000_000_000)
        } else {
            let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            t.tv_sec
                .saturating_mul(1_000_000_000)
                .saturating_add(t.tv_nsec)
        };
        let live = sample > 0 && !self.root.is_recorded();
        let measured = self.instants[slot].monotonic_ns - self.instants[1 - slot].monotonic_ns;
        let span_ns = if live { measured } else { (itv * 1e7) as i64 };
        let at = records::Interval {
            sample,
            slot,
            span_ns,
            unix_ns,
        };
        let fields = columns::fields(self.options.exact, self.options.percentiles);
        let input = records::ReportInput {
            root: &self.root,
            list: &self.list,
            exact: &self.exact,
            fields: &fields,
        };
        records::report(
            &mut self.out,
            self.options.format,
            &input,
            at,
            self.filter,
            cpu.as_ref(),
            self.devices,
        );
    }

    fn stamp(&mut self) -> Option<Vec<u8>> {
        let time = match self.options.stamp {
            Stamp::No => return None,
            _ => self.now(),
        };
        Some(match self.options.stamp {
            Stamp::Epoch => time.to_string().into_bytes(),
            _ if self.iso => self.format(time, "%FT%T%z"),
            _ => self.format(time, "%x %X"),
        })
    }

    fn separate(&mut self) {
        if matches!(
            self.options.format,
            IostatFormat::Plain | IostatFormat::Json
        ) {
            let text: &[u8] = match self.pending {
                PendingReport::Nothing => b"",
                PendingReport::Line => b"\n",
                PendingReport::CommaLine => b",\n",
            };
            self.out.extend_from_slice(text);
        }
        self.pending = PendingReport::Nothing;
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = match &self.repaint {
            Some(repaint) if self.painted => output::try_write(repaint.text()),
            _ => output::try_write(&self.out),
        };
        self.out.clear();
        written.map_err(|e: Errno| Failure {
            code: 6,
            message: format!("stdout: {}", reason(e)),
        })
    }

    /// Waits for the next sample. `false`: a signal arrived or the recorded samples ended.
    fn wait(&mut self) -> bool {
        if self.root.is_recorded() {
            let Some(next) = self.samples.next() else {
                return false;
            };
            self.root = Root::recorded(next);
            self.reader = Reader::new(&self.root, self.selection.alternate.as_ref());
            self.system = SystemFiles::new(&self.root);
            self.list.close_files();
            return true;
        }
        let Some(pace) = &mut self.pace else {
            return false;
        };
        while !self.signals.end() {
            if self.signals.take_alarm() {
                *pace = Pace::new(pace.period());
                return true;
            }
            if let Some(watch) = &mut self.watch
                && pace.next_ns() - monotonic_ns() > 2 * POLL.as_nanos() as i64
            {
                std::thread::sleep(POLL);
                watch.poll();
                continue;
            }
            if let Wake::Due { .. } = pace.wait() {
                return !self.signals.end();
            }
        }
        false
    }

    /// Writes the empty line after the last report, and completes the document.
    fn end(&mut self) {
        match self.options.format {
            IostatFormat::Plain => self.out.push(b'\n'),
            IostatFormat::Json => {
                self.out.push(b'\n');
                json::end(&mut self.out);
            }
            IostatFormat::Ndjson | IostatFormat::Csv => {}
        }
    }

    /// Writes what precedes an error, and completes the document.
    fn close_after(&mut self) {
        match self.options.format {
            IostatFormat::Json => self.end(),
            _ => self.separate(),
        }
        output::write(&self.out);
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
