//! Opens files, recognises their formats, and calls the parsers.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use super::content::Content;
use super::finish::finish;
use super::log::{ImportError, ImportOptions, Imported, Log, Shared};
use super::recognise::{LogFormat, recognise, table_kind};
use super::text::{Line, Lines};
use super::{
    biosnoop, blktrace, block_events, diskstats, fio_json, fio_log, iostat_json, iostat_text,
    rate_table, sadf, sadf_json, sar_text, unrecognised,
};

/// Imports files as one recording. Files of blktrace are read together, CPU by CPU; other files one after the other.
///
/// # Errors
/// A file cannot be read, has an unknown format or no content; or [`ImportOptions::strict`] and something is damaged.
pub fn import_files(files: &[PathBuf], options: ImportOptions) -> Result<Imported, ImportError> {
    let mut shared = Shared::default();
    let mut logs = Vec::new();
    let mut traces: Vec<blktrace::Cursor> = Vec::new();
    let mut heads: HashMap<Vec<u8>, &Path> = HashMap::new();
    let mut seen: HashMap<_, &Path> = HashMap::new();
    let mut notes = Vec::new();
    let mut empty: Vec<&Path> = Vec::new();
    for file in files {
        let (mut content, head) = Content::open(file)?;
        let Some(kind) = recognise(&head) else {
            let broken = content
                .is_broken_at_start()
                .then(|| "its compression is damaged".to_owned());
            if head.is_empty() && files.len() > 1 && broken.is_none() {
                empty.push(file);
                continue;
            }
            return Err(ImportError::Unknown(
                file.clone(),
                broken.or_else(|| unrecognised::explanation(&head)),
            ));
        };
        let first = if kind == LogFormat::Blktrace {
            // Each record has its time and its number, so files that begin alike are the same file.
            let first = heads.insert(head, file);
            if first.is_none() {
                traces.push(blktrace::Cursor::new(file, content));
            }
            first
        } else {
            let damage = shared.damage.clone();
            let read = read(kind, file, &mut content, options, &mut shared)?;
            // The name of a fio log determines what its values are.
            let name = file.file_name().filter(|_| kind == LogFormat::FioLog);
            let first = seen.insert((content.identity(), name.map(ToOwned::to_owned)), file);
            match first {
                None => logs.extend(read),
                Some(_) => shared.damage = damage,
            }
            first
        };
        if let Some(first) = first {
            notes.push(format!(
                "{} was left out: it is the same log as {}",
                file.display(),
                first.display()
            ));
        }
    }
    // blktrace leaves an empty file for a CPU without events; of any other tool it is a log without content.
    if traces.is_empty() {
        note_empty(&empty, logs.is_empty(), &mut notes)?;
    }
    if let Some(first) = traces.first() {
        let mut log = Log::new(&first.path, options, shared);
        blktrace::parse(&mut log, traces)?;
        shared = log.share();
        logs.push((LogFormat::Blktrace, log));
    }
    finish(logs, shared, notes, options)
}

/// Names the files without content, which are an error if nothing else was given.
fn note_empty(files: &[&Path], is_all: bool, notes: &mut Vec<String>) -> Result<(), ImportError> {
    if is_all && let Some(first) = files.first() {
        let why = unrecognised::explanation(&[]);
        return Err(ImportError::Unknown(first.to_path_buf(), why));
    }
    for file in files {
        notes.push(format!("{} was left out: it is empty", file.display()));
    }
    Ok(())
}

/// The logs in one file that is not a trace of blktrace: several if it contains tables of several tools.
fn read(
    kind: LogFormat,
    file: &Path,
    content: &mut Content,
    options: ImportOptions,
    shared: &mut Shared,
) -> Result<Vec<(LogFormat, Log)>, ImportError> {
    let log = Log::new(file, options, std::mem::take(shared));
    let mut logs = match kind {
        LogFormat::IostatJson | LogFormat::FioJson | LogFormat::SadfJson => {
            parse_whole(log, kind, &content.whole())
        }
        _ => parse_lines(log, kind, &mut content.buffered()),
    };
    if let Some((_, log)) = logs.last_mut() {
        *shared = log.share();
    }
    if let Some((at, why)) = content.close(file)? {
        shared.damage.record(file, at, why);
    }
    Ok(logs)
}

/// Imports the content of one file that was read already; the path is for messages (and selects the kind of fio log).
///
/// # Errors
/// Those of [`import_files`], for one file in memory.
pub fn parse_bytes(
    kind: LogFormat,
    file: &Path,
    bytes: &[u8],
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let mut log = Log::new(file, options, Shared::default());
    let mut logs = match kind {
        LogFormat::IostatJson | LogFormat::FioJson | LogFormat::SadfJson => {
            parse_whole(log, kind, bytes)
        }
        LogFormat::Blktrace => {
            blktrace::parse(
                &mut log,
                vec![blktrace::Cursor::new(file, Content::of_bytes(bytes))],
            )?;
            vec![(kind, log)]
        }
        _ => parse_lines(log, kind, &mut &*bytes),
    };
    let shared = logs
        .last_mut()
        .map(|(_, log)| log.share())
        .unwrap_or_default();
    finish(logs, shared, Vec::new(), options)
}

fn parse_whole(mut log: Log, kind: LogFormat, bytes: &[u8]) -> Vec<(LogFormat, Log)> {
    match kind {
        LogFormat::FioJson => fio_json::parse(&mut log, bytes),
        LogFormat::SadfJson => sadf_json::parse(&mut log, bytes),
        _ => iostat_json::parse(&mut log, bytes),
    }
    vec![(kind, log)]
}

pub(super) fn parse_lines(
    mut log: Log,
    kind: LogFormat,
    source: &mut dyn BufRead,
) -> Vec<(LogFormat, Log)> {
    let lines = &mut Lines::new(source);
    match kind {
        LogFormat::FioLog => fio_log::parse(&mut log, lines),
        LogFormat::Biosnoop => biosnoop::parse(&mut log, lines),
        LogFormat::BlockEvents => block_events::parse(&mut log, lines),
        LogFormat::SarText => sar_text::parse(&mut log, lines),
        LogFormat::Sadf => sadf::parse(&mut log, lines),
        LogFormat::Diskstats => diskstats::parse(&mut log, lines),
        _ => return parse_tables(log, kind, lines),
    }
    vec![(kind, log)]
}

enum Tables {
    Iostat(Box<iostat_text::Parser>),
    Rates(rate_table::Parser),
}

impl Tables {
    fn new(kind: LogFormat) -> Tables {
        match kind {
            LogFormat::RateTable => Tables::Rates(rate_table::Parser::default()),
            _ => Tables::Iostat(Box::new(iostat_text::Parser::new(kind))),
        }
    }

    fn line(&mut self, log: &mut Log, line: Line<'_>) {
        match self {
            Tables::Iostat(p) => p.line(log, line),
            Tables::Rates(p) => p.line(log, line),
        }
    }

    fn finish(self, log: &mut Log) {
        match self {
            Tables::Iostat(p) => p.finish(log),
            Tables::Rates(p) => p.finish(log),
        }
    }
}

/// Articles and tickets contain several tools' output below each other. A heading of another kind ends one log, and
/// begins or continues another.
fn parse_tables(log: Log, kind: LogFormat, lines: &mut Lines<'_>) -> Vec<(LogFormat, Log)> {
    let mut all = vec![(kind, log, Tables::new(kind))];
    let mut now = 0;
    while let Some(line) = all[now].1.next_line(lines) {
        if let Some(other) = table_kind(line.bytes).filter(|k| *k != all[now].0) {
            let shared = all[now].1.share();
            now = all.iter().position(|a| a.0 == other).unwrap_or_else(|| {
                let log = Log::new(&all[0].1.file, all[0].1.options, Shared::default());
                all.push((other, log, Tables::new(other)));
                all.len() - 1
            });
            all[now].1.devices = shared.devices;
            all[now].1.damage = shared.damage;
        }
        let (_, log, tables) = &mut all[now];
        tables.line(log, line);
    }
    let mut shared = all[now].1.share();
    let mut logs = Vec::new();
    for (kind, mut log, tables) in all {
        log.devices = shared.devices;
        log.damage = shared.damage;
        tables.finish(&mut log);
        shared = log.share();
        logs.push((kind, log));
    }
    // With several kinds of tables, one may consist of only a heading.
    if logs.iter().any(|(_, log)| log.first_ns().is_some()) {
        logs.retain(|(_, log)| log.first_ns().is_some());
    }
    if let Some((_, last)) = logs.last_mut() {
        last.devices = shared.devices;
        last.damage = shared.damage;
    }
    logs
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    fn empty_files(dir: &Path) -> [PathBuf; 2] {
        ["e1", "e2"].map(|name| {
            let path = dir.join(name);
            std::fs::write(&path, b"").expect("written");
            path
        })
    }

    fn notes_of_empty(files: &[PathBuf]) -> usize {
        let got = import_files(files, ImportOptions::default()).expect("imports");
        let limits = got.meta.limits.iter();
        limits.filter(|l| l.contains("it is empty")).count()
    }

    #[test]
    fn several_empty_files_are_no_recording() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = empty_files(dir.path());
        let refused = import_files(&files, ImportOptions::default());
        let message = refused.expect_err("refused").to_string();
        assert!(message.starts_with(&files[0].display().to_string()));
        assert!(message.ends_with("it is empty"), "{message}");
    }

    #[test]
    fn an_empty_file_beside_a_log_is_named_and_beside_a_trace_belongs_to_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let [first, second] = empty_files(dir.path());
        let log = fixtures::path("iostat-x.txt");
        assert_eq!(notes_of_empty(&[first.clone(), log, second.clone()]), 2);
        let traces = ["loop.blktrace.0", "loop.blktrace.1"].map(fixtures::path);
        let [of_first, of_second] = traces;
        assert_eq!(notes_of_empty(&[first, of_first, of_second, second]), 0);
    }
}
