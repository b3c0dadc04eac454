//! Prints the file-level requests of a command: `files_requests [--all] [--cost] CMD...` (as root).
//!
//! `--all` records every process, `--comm NAME` those with that name; by default the command and its children are
//! recorded. `--cost` prints the cost of the probes instead of the requests.

use std::{process::Command, time::Duration};

use iolens_core::model::Comm;
use iolens_observe::trace::{FilesFilter, FilesOptions, FilesTracer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1).peekable();
    let mut options = FilesOptions {
        filter: FilesFilter {
            children: true,
            ..FilesFilter::default()
        },
        ..FilesOptions::default()
    };
    while let Some(flag) = words.next_if(|w| w.starts_with("--")) {
        match flag.as_str() {
            "--all" => options.filter.children = false,
            "--cost" => options.measure_cost = true,
            "--comm" => {
                let name = words.next().ok_or("--comm needs a name")?;
                options.filter = FilesFilter {
                    comm: Some(Comm::new(name.as_bytes())),
                    ..FilesFilter::default()
                };
            }
            other => return Err(format!("{other}: unknown").into()),
        }
    }
    let mut tracer = FilesTracer::start(&options)?;
    eprintln!("attached");
    let mut child = Command::new(words.next().ok_or("which command?")?)
        .args(words)
        .spawn()?;
    let mut out = Vec::new();
    let mut lost = Vec::new();
    while child.try_wait()?.is_none() {
        tracer.poll(&mut out, &mut lost)?;
        std::thread::sleep(Duration::from_millis(5));
    }
    let cost = tracer.probe_cost();
    let stats = tracer.finish(&mut out, &mut lost)?;
    if let Some(cost) = cost {
        for (name, runs, ns) in cost.programs {
            eprintln!(
                "{name:>16} {runs:>9} runs {:>7.1} ns each",
                ns as f64 / runs.max(1) as f64
            );
        }
    } else {
        for r in &out {
            println!("{r:?}");
        }
    }
    eprintln!("{stats:?} {lost:?}");
    Ok(())
}
