//! Output of `strace -f -y -ttt -T` about files, parsed into calls.

use std::{collections::HashMap, path::Path};

/// A system call on files below the directory of interest.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub name: String,
    /// Entry, as `strace` saw it: microseconds of the wall clock.
    pub start_us: f64,
    /// Duration by `-T`, which starts slightly after the stamp of the entry.
    pub duration_us: f64,
    /// The thread's next stamp; the call was over by then.
    pub over_us: f64,
    /// Return value; negative for a failure, including one that leads to a restart (`? ERESTARTSYS`).
    pub result: i64,
    /// Interrupted by a signal, and restarted if its handler allows it.
    pub restarts: bool,
    /// Files behind descriptors among its arguments, relative to the directory.
    pub files: Vec<String>,
    /// The file behind the descriptor that it returned.
    pub opened: Option<String>,
}

/// The calls of a log that touch files below `below`, and all that were restarted, in the order of their starts.
pub fn calls(log: &str, below: &Path) -> Vec<Call> {
    let mut unfinished: HashMap<&str, (f64, String)> = HashMap::new();
    // The last call of each thread.
    let mut latest: HashMap<&str, usize> = HashMap::new();
    let mut out: Vec<Call> = Vec::new();
    for line in log.lines() {
        let Some((pid, rest)) = line.trim_start().split_once(char::is_whitespace) else {
            continue;
        };
        let Some((stamp, text)) = rest.trim_start().split_once(' ') else {
            continue;
        };
        let start_us = stamp.parse::<f64>().expect("a time stamp") * 1e6;
        if let Some(at) = latest.remove(pid) {
            out[at].over_us = start_us;
        }
        if let Some(head) = text.strip_suffix(" <unfinished ...>") {
            unfinished.insert(pid, (start_us, head.to_owned()));
            continue;
        }
        let (start_us, text) = match text
            .strip_prefix("<... ")
            .and_then(|t| t.split_once(" resumed>"))
        {
            Some((_, tail)) => {
                let Some((start_us, head)) = unfinished.remove(pid) else {
                    continue;
                };
                (start_us, head + tail)
            }
            None => (start_us, text.to_owned()),
        };
        if let Some(call) = call(start_us, &text, below) {
            latest.insert(pid, out.len());
            out.push(call);
        }
    }
    out.sort_by(|a, b| a.start_us.total_cmp(&b.start_us));
    out
}

/// `name(arguments) = result <duration>`
fn call(start_us: f64, text: &str, below: &Path) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let (result, duration) = result.rsplit_once(" <")?;
    let duration_us = duration.strip_suffix('>')?.parse::<f64>().ok()? * 1e6;
    let restarts = result.starts_with("? ERESTART");
    let number: String = result
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '-')
        .collect();
    let number = if restarts {
        Some(-1)
    } else {
        number.parse().ok()
    };
    let files: Vec<String> = descriptors(arguments, below);
    let opened = descriptors(result, below).pop();
    let name = name.to_owned();
    let over_us = f64::INFINITY;
    let result = number?;
    let call = Call {
        name,
        start_us,
        duration_us,
        over_us,
        result,
        restarts,
        files,
        opened,
    };
    (!call.files.is_empty() || call.opened.is_some() || restarts).then_some(call)
}

/// `3</path>`: a descriptor and its file.
fn descriptors(text: &str, below: &Path) -> Vec<String> {
    let below = format!("{}/", below.display());
    let mut out = Vec::new();
    for (at, _) in text.match_indices('<') {
        if !text[..at].ends_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let path = text[at + 1..].split_once('>').map_or("", |(path, _)| path);
        out.extend(path.strip_prefix(&below).map(str::to_owned));
    }
    out
}
