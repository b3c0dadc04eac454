//! `iolens repair`: writes what a damaged recording still holds to a new recording.

use anyhow::Result;

use crate::cli::RepairPlan;
use crate::copies::output::{refuse_existing, write_whole};
use crate::copies::repair::{DamagedRecording, repair};
use crate::engine::error::QueryError;
use crate::present::copy_text;

/// Runs `iolens repair`.
///
/// # Errors
/// It is not a recording, none of its I/Os can be read, the output exists, or writing fails.
pub fn run(plan: &RepairPlan) -> Result<u8> {
    // Checked first, because an existing output is not a write error.
    refuse_existing(&plan.output)?;
    let damaged = DamagedRecording::open(&plan.recording)?;
    let repaired = write_whole(&plan.output, "repairing", |to, interrupt| {
        let repaired = repair(damaged, to, plan.share.access(), interrupt)?;
        match repaired.ruined_by() {
            Some(damage) => Err(QueryError::NothingReadable {
                damage: damage.to_owned(),
                repairable: None,
            }
            .into()),
            None => Ok(repaired),
        }
    })?;
    print!("{}", copy_text::repaired(&plan.output, &repaired));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use iolens_core::model::{DevId, Io, Op, RecorderCost, RecordingMeta, Source};
    use iolens_core::store::{RecordingWriter, WriterOptions};

    use super::*;
    use crate::cli::ShareArgs;
    use crate::engine::caller::Caller;
    use crate::engine::source;
    use crate::present::query_text::{Spelling, failure};

    fn record(path: &Path, ios: &[Io]) {
        let meta = RecordingMeta::new(Source::Ebpf, 0);
        let mut writer =
            RecordingWriter::create(path, meta, WriterOptions::default()).expect("a recording");
        writer.push_ios(ios).expect("written");
        writer
            .finish(20_000, RecorderCost::default())
            .expect("finished");
    }

    /// A plan that repairs `recording` beside itself.
    fn plan(recording: &Path) -> RepairPlan {
        RepairPlan {
            recording: recording.to_owned(),
            output: recording.with_extension("repaired"),
            share: ShareArgs::default(),
        }
    }

    #[test]
    fn a_recording_without_a_readable_io_is_refused_and_an_idle_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let ruined = dir.path().join("ruined");
        let io = Io::new(1000, DevId::new(8, 0), Op::READ, 512, Some(5), 10);
        record(&ruined, &[io]);
        std::fs::write(ruined.join("io/000001.parquet"), "no Parquet").expect("written");
        let idle = dir.path().join("idle");
        record(&idle, &[]);
        let refused = run(&plan(&ruined)).expect_err("no I/O of it is left");
        let line = failure(&refused, Spelling::Flags);
        assert!(
            line.contains("ruined/io/000001.parquet") && !line.contains("could not be written"),
            "{line}"
        );
        assert!(line.contains("no I/O of it can be read"), "{line}");
        let left = std::fs::read_dir(dir.path()).expect("listed").count();
        assert_eq!(left, 2, "no recording, and nothing unfinished");
        assert_eq!(run(&plan(&idle)).expect("nothing is lost"), 0);
    }

    #[test]
    fn a_repair_is_advised_where_it_saves_something() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        let device = DevId::new(8, 0);
        let ios: Vec<Io> = (1..=50)
            .map(|i| Io::new(i * 100, device, Op::READ, 512, Some(i), 10))
            .collect();
        record(&path, &ios);
        let segment = path.join("io/000001.parquet");
        let bytes = std::fs::read(&segment).expect("read");
        let mut are_advised = 0;
        for at in (4..bytes.len() / 2).step_by(16) {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            std::fs::write(&segment, &bad).expect("written");
            let opened = source::open(&path, &Caller::without_notes());
            let Err(QueryError::NothingReadable { repairable, .. }) = opened else {
                continue;
            };
            let plan = RepairPlan {
                output: dir.path().join(format!("to-{at}")),
                ..plan(&path)
            };
            assert_eq!(repairable.is_some(), run(&plan).is_ok(), "byte {at}");
            are_advised += usize::from(repairable.is_some());
        }
        assert!(are_advised > 0);
    }
}
