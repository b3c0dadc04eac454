//! `iolens lab fio`: its arguments, and the same in a TOML file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Deserialize;

use super::lab::ExperimentDir;
use crate::units::parse_size;

/// A sweep of fio over block sizes and other parameters, explained by the device's counters
///
/// All options but -o can also be in a TOML file (--plan), under the same names; the command line takes precedence.
///
/// Examples:
///   iolens lab fio sweep --bs 4k,64k,1M --rw randread --seconds 5
///   iolens lab fio -o cache --direct 0 --rw read --bs 512,4k,64k,1M
///   iolens lab fio -o loop --loop --iodepth 1,32 --engine libaio
///   iolens lab fio -o sweep --plan sweep.toml
#[derive(Debug, Default, Args)]
#[command(verbatim_doc_comment)]
pub struct LabFio {
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub output: ExperimentDir,
    /// TOML file with any of these options, e.g. bs = ["4k", "1M"] and direct = [0, 1]
    #[arg(long, value_name = "FILE.toml")]
    pub plan: Option<PathBuf>,
    /// Where the scratch file goes [default: .]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Give fio a loop device over the scratch file
    #[arg(long = "loop")]
    pub use_loop: bool,
    /// Let fio overwrite this block device instead of a scratch file; it must not be mounted or in use
    #[arg(long, value_name = "DEVICE", conflicts_with = "use_loop")]
    pub i_will_lose_data: Option<PathBuf>,
    /// Block sizes [default: 4k,16k,64k,256k,1M]
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = parse_size)]
    pub bs: Vec<u64>,
    /// Patterns: read, write, randread, randwrite, rw, randrw; read:4k skips 4k after each I/O [default: randread]
    #[arg(long, value_name = "RW,...", value_delimiter = ',')]
    pub rw: Vec<String>,
    /// fio's I/O engines [default: psync]
    #[arg(long, value_name = "ENGINE,...", value_delimiter = ',')]
    pub engine: Vec<String>,
    /// 1: direct I/O; 0: through the page cache [default: 1]
    #[arg(long, value_name = "0|1,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=1))]
    pub direct: Vec<u8>,
    /// I/Os in flight [default: 1]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub iodepth: Vec<u32>,
    /// Repetitions of everything [default: 3]
    #[arg(long, value_name = "N")]
    pub replicates: Option<u32>,
    /// Length of a run [default: 10]
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Size of the scratch file [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Seed of the random order [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// More options for fio, passed unchanged (after --); options that name files are refused
    #[arg(last = true, value_name = "FIO-OPTION")]
    pub extra: Vec<String>,
}

/// A sweep with everything decided.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each is the option of its name, see LabFio")]
pub struct FioSweep {
    pub output: PathBuf,
    pub dir: PathBuf,
    pub use_loop: bool,
    pub i_will_lose_data: Option<PathBuf>,
    pub bs: Vec<u64>,
    pub rw: Vec<String>,
    pub engine: Vec<String>,
    pub direct: Vec<bool>,
    pub iodepth: Vec<u32>,
    pub replicates: u32,
    pub seconds: f64,
    pub size: u64,
    pub seed: u64,
    pub extra: Vec<String>,
}

/// One value or several, as one likes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Several<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Several<T> {
    fn list(self) -> Vec<T> {
        match self {
            Several::One(v) => vec![v],
            Several::Many(v) => v,
        }
    }
}

/// `4096` or `"4k"`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes(&self) -> Result<u64, String> {
        match self {
            Size::Bytes(b) => Ok(*b),
            Size::Text(t) => parse_size(t),
        }
    }
}

/// `3` or `0.5`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Seconds {
    Whole(u32),
    Part(f64),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PlanFile {
    dir: Option<PathBuf>,
    #[serde(default, rename = "loop")]
    use_loop: bool,
    i_will_lose_data: Option<PathBuf>,
    bs: Option<Several<Size>>,
    rw: Option<Several<String>>,
    engine: Option<Several<String>>,
    direct: Option<Several<u8>>,
    iodepth: Option<Several<u32>>,
    replicates: Option<u32>,
    seconds: Option<Seconds>,
    size: Option<Size>,
    seed: Option<u64>,
    extra: Option<Several<String>>,
}

/// The first list that says something.
fn first<T: Clone>(
    given: &[T],
    planned: Option<Several<T>>,
    otherwise: impl FnOnce() -> Vec<T>,
) -> Vec<T> {
    match planned {
        _ if !given.is_empty() => given.to_vec(),
        Some(p) => p.list(),
        None => otherwise(),
    }
}

impl LabFio {
    /// These options, the plan file's where they are silent, and the defaults where both are.
    ///
    /// # Errors
    /// The plan cannot be read, or a value makes no sense.
    pub fn resolve(&self) -> Result<FioSweep> {
        let p = match &self.plan {
            Some(path) => read_plan(path)?,
            None => PlanFile::default(),
        };
        // Sizes of the plan are still text: what is wrong with one is said with the place where it was written.
        let place = match &self.plan {
            Some(file) => file.display().to_string(),
            None => "--size".to_owned(),
        };
        let bs: Option<Vec<u64>> =
            p.bs.map(|l| l.list().iter().map(Size::bytes).collect::<Result<_, _>>())
                .transpose()
                .map_err(|e| anyhow::anyhow!("{place}: {e}"))?;
        let size = p.size.map(|s| s.bytes()).transpose();
        let size = size.map_err(|e| anyhow::anyhow!("{place}: {e}"))?;
        let seconds = p.seconds.map(|s| match s {
            Seconds::Whole(n) => f64::from(n),
            Seconds::Part(x) => x,
        });
        // An option of the command line comes first, then the plan, then what is usual.
        let sweep = FioSweep {
            output: self.output.path().to_owned(),
            dir: self
                .dir
                .clone()
                .or(p.dir)
                .unwrap_or_else(|| PathBuf::from(".")),
            use_loop: self.use_loop || p.use_loop,
            i_will_lose_data: self.i_will_lose_data.clone().or(p.i_will_lose_data),
            bs: first(&self.bs, bs.map(Several::Many), || {
                vec![4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]
            }),
            rw: first(&self.rw, p.rw, || vec!["randread".to_owned()]),
            engine: first(&self.engine, p.engine, || vec!["psync".to_owned()]),
            direct: first(&self.direct, p.direct, || vec![1])
                .into_iter()
                .map(|d| d != 0)
                .collect(),
            iodepth: first(&self.iodepth, p.iodepth, || vec![1]),
            replicates: self.replicates.or(p.replicates).unwrap_or(3),
            seconds: self.seconds.or(seconds).unwrap_or(10.0),
            size: self.size.or(size).unwrap_or(256 << 20),
            seed: self.seed.or(p.seed).unwrap_or(1),
            extra: first(&self.extra, p.extra, Vec::new),
        };
        sweep.check()?;
        Ok(sweep)
    }
}

fn read_plan(path: &Path) -> Result<PlanFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(1, |s| {
            text[..s.start.min(text.len())].matches('\n').count() + 1
        });
        anyhow::anyhow!(
            "{}, line {line}: {}",
            path.display(),
            e.message().replace('\n', " ")
        )
    })
}

impl FioSweep {
    fn check(&self) -> Result<()> {
        for rw in &self.rw {
            let (pattern, skip) = rw
                .split_once(':')
                .map_or((rw.as_str(), None), |(p, s)| (p, Some(s)));
            let known =
                ["read", "write", "randread", "randwrite", "rw", "randrw"].contains(&pattern);
            if !known || skip.is_some_and(|s| parse_size(s).is_err()) {
                bail!("--rw {rw}: expected read, write, randread, randwrite, rw or randrw");
            }
        }
        for (name, empty) in [
            ("bs", self.bs.is_empty()),
            ("rw", self.rw.is_empty()),
            ("engine", self.engine.is_empty()),
            ("direct", self.direct.is_empty()),
            ("iodepth", self.iodepth.is_empty()),
        ] {
            if empty {
                bail!("{name} is an empty list: nothing would run");
            }
        }
        if !(self.seconds > 0.0 && self.seconds < 1e6)
            || self.replicates == 0
            || self.bs.contains(&0)
            || self.size == 0
        {
            bail!("--seconds, --replicates, --size and --bs must be above 0");
        }
        if self.use_loop && self.i_will_lose_data.is_some() {
            bail!(
                "loop and i-will-lose-data exclude each other: the one makes a device, the other names one"
            );
        }
        if let Some(bs) = self.bs.iter().find(|b| **b > self.size) {
            bail!("--bs {bs}: larger than the file (--size {})", self.size);
        }
        self.extra.iter().try_for_each(|w| harmless(w))
    }
}

/// Options by which fio would touch other files than ours, run programs, or run something else than the plan says.
const REFUSED: [&str; 44] = [
    "filename",
    "filename_format",
    "directory",
    "opendir",
    "name",
    "output",
    "include",
    "aux-path",
    "aux_path",
    "write_bw_log",
    "write_lat_log",
    "write_hist_log",
    "write_iops_log",
    "write_iolog",
    "read_iolog",
    "merge_blktrace_file",
    "replay_redirect",
    "exec_prerun",
    "exec_postrun",
    "verify_state_save",
    "unlink",
    "unlink_each_loop",
    "size",
    "filesize",
    "file_size",
    "fill_device",
    "fill_fs",
    "file_append",
    "io_size",
    "io_limit",
    "offset",
    "allow_mounted_write",
    "bs",
    "blocksize",
    "rw",
    "readwrite",
    "ioengine",
    "iodepth",
    "direct",
    "buffered",
    "runtime",
    "time_based",
    "client",
    "server",
];

fn harmless(word: &str) -> Result<()> {
    let Some(option) = word.strip_prefix('-') else {
        bail!("{word}: a job file or a value of its own is not taken; write --option=value");
    };
    let name = option
        .trim_start_matches('-')
        .split('=')
        .next()
        .unwrap_or_default();
    // fio takes abbreviations, and _ for -.
    let name = name.replace('-', "_");
    let refused = REFUSED
        .iter()
        .map(|r| r.replace('-', "_"))
        .any(|r| r.starts_with(&name));
    if name.is_empty() || refused {
        bail!(
            "{word}: would make fio touch other files or run something else than planned; use iolens' own options"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_plan(text: &str, given: LabFio) -> Result<FioSweep> {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("sweep.toml");
        std::fs::write(&path, text).expect("writes");
        LabFio {
            plan: Some(path),
            ..given
        }
        .resolve()
    }

    #[test]
    fn a_plan_equals_arguments_and_arguments_take_precedence() {
        let text = "bs = [\"4k\", 65536]\nrw = \"read\"\ndirect = [0, 1]\nseconds = 2\nsize = \"64M\"\nloop = true\n";
        let sweep = with_plan(
            text,
            LabFio {
                iodepth: vec![4],
                seconds: Some(0.5),
                ..LabFio::default()
            },
        )
        .expect("plan");
        assert_eq!(
            (sweep.bs, sweep.rw, sweep.direct),
            (
                vec![4096, 65536],
                vec!["read".to_owned()],
                vec![false, true]
            )
        );
        assert_eq!(
            (sweep.seconds, sweep.size, sweep.use_loop, sweep.iodepth),
            (0.5, 64 << 20, true, vec![4])
        );
        assert_eq!(
            (sweep.replicates, sweep.engine),
            (3, vec!["psync".to_owned()])
        );
    }

    #[test]
    fn a_bad_plan_is_one_line_with_its_place() {
        let said =
            |text: &str| format!("{:#}", with_plan(text, LabFio::default()).expect_err("bad"));
        let unknown = said("bs = \"4k\"\nblock = 3\n");
        assert!(
            unknown.contains("line 2") && unknown.contains("block") && !unknown.contains('\n'),
            "{unknown}"
        );
        assert!(said("bs = [").contains("line 1"));
        assert!(said("bs = \"4q\"").contains("sweep.toml"));
        assert!(said("rw = \"erase\"").contains("randread"));
        assert!(said("bs = []").contains("empty"));
        assert!(said("loop = true\ni-will-lose-data = \"/dev/x\"").contains("exclude"));
    }

    #[test]
    fn fio_options_cannot_change_the_target() {
        for word in [
            "--filename=/dev/sda",
            "-filename=/x",
            "--filen=/x",
            "job.fio",
            "--exec_prerun=rm",
            "--name=b",
            "--",
            "--bs=1",
        ] {
            assert!(harmless(word).is_err(), "{word}");
        }
        for word in [
            "--numjobs=2",
            "--fsync=1",
            "--thinktime=5",
            "--rate_iops=100",
            "--fadvise_hint=0",
        ] {
            assert!(harmless(word).is_ok(), "{word}");
        }
    }
}
