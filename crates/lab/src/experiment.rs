//! An experiment's directory: the plan, and a folder per cell.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use iolens_core::private::{Access, PrivateDir, write_file};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Warn;
use super::registry::{self, Registry};

const PLAN: &str = "experiment.json";
const CELL: &str = "cell.json";

/// What was planned, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan<P> {
    /// Version of this layout.
    pub schema_version: u32,
    /// `fio`, `copies` or `poll`.
    pub kind: String,
    /// Seed of the random order.
    pub seed: u64,
    /// Host, kernel and clock tick.
    pub machine: Machine,
    /// The experiment's own part.
    pub plan: P,
}

/// The part of a plan that all kinds have in common.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// The machine of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// `CONFIG_HZ`.
    pub hz: Option<u32>,
    /// Number of processors.
    pub cpus: usize,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Machine {
        let h = iolens_observe::topology::Host::read("/".as_ref());
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Machine {
            host: h.name,
            kernel: h.kernel,
            hz: h.hz,
            cpus,
        }
    }
}

/// The directory of an experiment.
#[derive(Debug)]
pub struct Experiment {
    dir: PathBuf,
    warn: Warn,
    /// Locked while the experiment runs; `None` if it is only read.
    running: Option<fs::File>,
}

/// Takes the experiment's lock, which the system gives back when the process ends, however it ends.
///
/// # Errors
/// Another process runs the experiment.
pub fn lock(dir: &Path) -> Result<fs::File> {
    let file =
        fs::File::open(dir).with_context(|| format!("{} cannot be opened", dir.display()))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
        |_| {
            anyhow::anyhow!(
                "{}: the experiment is running; wait for its end",
                dir.display()
            )
        },
    )?;
    Ok(file)
}

/// Whether any cell of the experiment in `dir` is complete.
fn has_results(dir: &Path) -> Result<bool> {
    for cell in fs::read_dir(dir.join("cells"))
        .with_context(|| format!("{}/cells cannot be listed", dir.display()))?
    {
        if cell?.path().join(CELL).is_file() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Experiment {
    /// Begins an experiment in `dir`, or goes on with the same one after an interruption. `warn` shows what is left out,
    /// and what cannot be undone.
    ///
    /// # Errors
    /// The directory holds something else, or another experiment.
    pub fn begin<P>(dir: &Path, plan: &Plan<P>, warn: Warn) -> Result<Experiment>
    where
        P: Serialize + DeserializeOwned + PartialEq,
    {
        let path = dir.join(PLAN);
        if path.is_file() {
            // What is in it decides what is removed and run again.
            PrivateDir::open_own(dir, Access::OWNER)
                .with_context(|| format!("{}: this experiment cannot be resumed", dir.display()))?;
            // The plan of another kind has other fields.
            let Kind { kind } = read_json(&path)?;
            if kind != plan.kind {
                bail!(
                    "{}: holds an experiment of kind `{kind}`; choose another directory",
                    dir.display()
                );
            }
            let old: Plan<P> = read_json(&path)?;
            if old.plan != plan.plan && has_results(dir)? {
                bail!(
                    "{}: holds an experiment with other options; choose another directory",
                    dir.display()
                );
            }
            if old.plan != plan.plan {
                // It failed before its first run: options that could not work must not lock the directory.
                drop(lock(dir)?);
                write_json(&path, plan)?;
            }
        } else {
            if dir.exists() && fs::read_dir(dir)?.next().is_some() {
                bail!(
                    "{}: is not empty and holds no experiment; choose another directory",
                    dir.display()
                );
            }
            make_dirs(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
            write_json(&path, plan)?;
        }
        let running = lock(dir)?;
        // What a killed run left behind would be in this one's way.
        let (done, left) = registry::clean(&Registry::open(dir, warn))?;
        done.iter()
            .for_each(|d| warn(&format!("removed what an earlier run left: {d}")));
        if let Some(first) = left.first() {
            bail!("what an earlier run left behind cannot be removed: {first}");
        }
        Ok(Experiment {
            dir: dir.canonicalize()?,
            warn,
            running: Some(running),
        })
    }

    /// Opens a finished or interrupted experiment for reading.
    ///
    /// # Errors
    /// There is none.
    pub fn open(dir: &Path) -> Result<(Experiment, serde_json::Value)> {
        let plan = read_json(&dir.join(PLAN))
            .with_context(|| format!("{} holds no experiment", dir.display()))?;
        // A reader makes nothing that it could not undo.
        Ok((
            Experiment {
                dir: dir.to_owned(),
                warn: |_| (),
                running: None,
            },
            plan,
        ))
    }

    /// Directory of the experiment.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The list of what it makes on the machine.
    pub(super) fn registry(&self) -> Registry {
        Registry::open(&self.dir, self.warn)
    }

    /// Shows a warning.
    pub(super) fn warn(&self, line: &str) {
        (self.warn)(line);
    }

    /// The folder of cell `id`.
    pub fn cell_dir(&self, id: usize) -> PathBuf {
        self.dir.join("cells").join(format!("{id:04}"))
    }

    /// The folder of the cell that [`Experiment::results`] calls `name`.
    pub fn cell_dir_named(&self, name: &str) -> PathBuf {
        self.dir.join("cells").join(name)
    }

    /// Whether cell `id` is complete.
    pub fn is_done(&self, id: usize) -> bool {
        self.cell_dir(id).join(CELL).is_file()
    }

    /// An empty folder for cell `id`; what an interrupted attempt left in it is removed.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn fresh_cell(&self, id: usize) -> Result<PathBuf> {
        let dir = self.cell_dir(id);
        if dir.exists() {
            fs::remove_dir_all(&dir)
                .with_context(|| format!("{} cannot be removed", dir.display()))?;
        }
        PrivateDir::create(&dir, Access::OWNER)
            .with_context(|| format!("{} cannot be made", dir.display()))?;
        Ok(dir)
    }

    /// Writes a cell's result, which makes it complete.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn finish_cell(&self, id: usize, result: &impl Serialize) -> Result<()> {
        write_json(&self.cell_dir(id).join(CELL), result)
    }

    /// The results of all complete cells with their folders' names, in the order of their numbers.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn results<R: DeserializeOwned>(&self) -> Result<Vec<(String, R)>> {
        let mut dirs: Vec<PathBuf> = fs::read_dir(self.dir.join("cells"))?
            .flatten()
            .map(|e| e.path())
            .collect();
        dirs.sort();
        let mut results = Vec::new();
        for dir in dirs {
            let cell = dir.join(CELL);
            if !cell.is_file() {
                continue;
            }
            let name = dir.file_name().unwrap_or_default();
            results.push((name.to_string_lossy().into_owned(), read_json(&cell)?));
        }
        Ok(results)
    }
}

/// Makes the directory of an experiment, if it is not there, and the one of its cells.
fn make_dirs(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir.parent().unwrap_or(dir))?;
    let own = if dir.exists() {
        PrivateDir::open_own(dir, Access::OWNER)?
    } else {
        PrivateDir::create(dir, Access::OWNER)?
    };
    own.make_dir("cells")?;
    Ok(())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))
}

/// Whole or not at all: a kill in between leaves the old state.
fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value)?;
    write_file(path, &bytes, Access::OWNER)
        .with_context(|| format!("{} cannot be written", path.display()))
}

impl Drop for Experiment {
    fn drop(&mut self) {
        // All is undone by now, or stays on the list for `clean`.
        if self.running.is_some()
            && let Err(e) = registry::clean(&self.registry())
        {
            self.warn(&format!(
                "{}: the list of scratch things stays: {e}",
                self.dir.display()
            ));
        }
    }
}

/// The order in which cells run: shuffled within each replicate, so that drift of the disk does not look like a factor.
pub fn random_order(replicate_of: &[u32], seed: u64) -> Vec<usize> {
    let mut random = iolens_core::analysis::math::stats::Shuffler::new(seed);
    let mut order: Vec<(u32, u64, usize)> = replicate_of
        .iter()
        .enumerate()
        .map(|(i, r)| (*r, random.bits(), i))
        .collect();
    order.sort_unstable();
    order.into_iter().map(|o| o.2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing here is worth a warning.
    const WARN: Warn = |line| panic!("{line}");

    fn plan(words: &str) -> Plan<String> {
        Plan {
            schema_version: 1,
            kind: "fio".to_owned(),
            seed: 1,
            machine: Machine::here(),
            plan: words.to_owned(),
        }
    }

    #[test]
    fn an_interrupted_experiment_goes_on_and_another_one_is_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let e = Experiment::begin(&dir.path().join("x"), &plan("a"), WARN).expect("begins");
        e.fresh_cell(0).expect("makes");
        e.finish_cell(0, &7).expect("writes");
        fs::write(e.fresh_cell(1).expect("makes").join("half"), "").expect("writes");
        drop(e);
        let again = Experiment::begin(&dir.path().join("x"), &plan("a"), WARN).expect("goes on");
        assert!(again.is_done(0) && !again.is_done(1));
        assert!(lock(&dir.path().join("x")).is_err(), "one at a time");
        assert_eq!(
            again.results::<i32>().expect("reads"),
            [("0000".to_owned(), 7)]
        );
        assert_eq!(
            fs::read_dir(again.fresh_cell(1).expect("makes"))
                .expect("lists")
                .count(),
            0
        );
        assert!(Experiment::begin(&dir.path().join("x"), &plan("b"), WARN).is_err());
        assert!(
            Experiment::begin(dir.path(), &plan("a"), WARN).is_err(),
            "not empty, no experiment"
        );
    }

    #[test]
    fn an_experiment_of_another_kind_is_named() {
        let dir = tempfile::tempdir().expect("temporary directory");
        drop(Experiment::begin(dir.path(), &plan("a"), WARN).expect("begins"));
        // Another kind has a plan of other fields.
        let copies = Plan {
            schema_version: 1,
            kind: "copies".to_owned(),
            seed: 1,
            machine: Machine::here(),
            plan: 7,
        };
        let refused = Experiment::begin(dir.path(), &copies, WARN).expect_err("another kind");
        let sentence = format!(
            "{}: holds an experiment of kind `fio`; choose another directory",
            dir.path().display()
        );
        assert_eq!(format!("{refused:#}"), sentence);
        fs::write(dir.path().join(PLAN), "{").expect("writes");
        let damaged = Experiment::begin(dir.path(), &plan("a"), WARN).expect_err("damaged");
        assert!(format!("{damaged:#}").contains("experiment.json is damaged"));
    }

    #[test]
    fn options_that_could_not_work_do_not_lock_the_directory() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let failed = Experiment::begin(dir.path(), &plan("too large"), WARN).expect("begins");
        failed.fresh_cell(0).expect("makes");
        assert!(
            Experiment::begin(dir.path(), &plan("a"), WARN).is_err(),
            "while it runs"
        );
        drop(failed);
        let other =
            Experiment::begin(dir.path(), &plan("a"), WARN).expect("nothing was measured yet");
        other.finish_cell(0, &7).expect("writes");
        drop(other);
        assert!(Experiment::begin(dir.path(), &plan("too large"), WARN).is_err());
        assert!(
            Experiment::begin(dir.path(), &plan("a"), WARN).is_ok(),
            "the plan was replaced"
        );
    }

    #[test]
    fn order_is_shuffled_within_replicates() {
        let order = random_order(&[0, 0, 0, 0, 1, 1, 1, 1], 42);
        assert!(order[..4].iter().all(|i| *i < 4) && order[4..].iter().all(|i| *i >= 4));
        assert_eq!(
            order,
            random_order(&[0, 0, 0, 0, 1, 1, 1, 1], 42),
            "the same seed, the same order"
        );
        assert_ne!(order, random_order(&[0, 0, 0, 0, 1, 1, 1, 1], 43));
    }
}
