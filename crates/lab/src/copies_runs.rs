//! Runs the copies of an experiment: creates their targets, and runs one cell after another.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use iolens_core::private::{Access, write_file};

use crate::bracket::Disk;
use crate::copies::{CopiesPlan, CopyCell, Target, measure};
use crate::copies_files::{averages_file, data_file};
use crate::experiment::{Experiment, Plan, random_order};
use crate::registry::Registry;
use crate::run::{Watcher, recorded, space_for_a_run};
use crate::scratch::{LoopDisk, Mount, ScratchFile, ScratchTree, driver, has_program, need_room};

/// Space for a file system's own structures; XFS needs at least 300 MiB.
const FS_OVERHEAD: u64 = 320 << 20;

/// Whether a file system can be created and mounted here.
///
/// # Errors
/// The reason why not.
pub fn usable(fs: &str) -> Result<(), String> {
    if !["ext4", "xfs", "btrfs", "vfat", "ntfs"].contains(&fs) {
        return Err("expected ext4, xfs, btrfs, vfat or ntfs".to_owned());
    }
    if !has_program(&format!("mkfs.{fs}")) {
        return Err(format!("mkfs.{fs} is not installed"));
    }
    match driver(fs) {
        Some(_) => Ok(()),
        None => Err(format!(
            "there is no driver for {fs} here, in the kernel or outside"
        )),
    }
}

/// A directory to copy to, removed when dropped. The order of the fields is the order of removal.
struct CopyPlace {
    mount: Option<Mount>,
    folder: Option<ScratchTree>,
}

impl CopyPlace {
    fn dir(&self) -> &Path {
        let folder = self.folder.as_ref().map(|f| f.path.as_path());
        self.mount
            .as_ref()
            .map(Mount::point)
            .or(folder)
            .unwrap_or(Path::new("."))
    }
}

/// Runs the remaining copies, each cell on a new scratch file system or in a folder of the user's directory.
///
/// # Errors
/// A target cannot be created, a copy failed, or the user interrupted.
pub fn run(experiment: &Experiment, whole: &Plan<CopiesPlan>, watcher: &dyn Watcher) -> Result<()> {
    let plan = &whole.plan;
    let replicates: Vec<u32> = plan.cells.iter().map(|c| c.replicate).collect();
    let left: Vec<usize> = random_order(&replicates, whole.seed)
        .into_iter()
        .filter(|i| !experiment.is_done(*i))
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let registry = experiment.registry();
    let most = u64::from(plan.cells.iter().map(|c| c.copies).max().unwrap_or(1)) * plan.file_bytes;
    let makes_disks = plan.targets.iter().any(|t| matches!(t, Target::Loop(_)));
    let disk_bytes = if makes_disks {
        most + most / 4 + FS_OVERHEAD
    } else {
        0
    };
    need_room(&plan.dir, plan.file_bytes + disk_bytes)?;
    for target in &plan.targets {
        if let Target::Dir(d) = target {
            need_room(d, most)?;
        }
    }
    let source = registry.file(
        &plan
            .dir
            .join(format!("iolens-lab-{}.source", std::process::id())),
        plan.file_bytes,
    )?;
    // One device for all scratch file systems: each cell creates its own on it.
    let scratch = makes_disks.then(|| {
        let backing = plan
            .dir
            .join(format!("iolens-lab-{}.disk", std::process::id()));
        registry
            .loop_disk(&backing, disk_bytes)
            .context("no loop device can be made")
    });
    let scratch = scratch.transpose()?;
    watcher.begin(left.len(), 10.0);
    for id in left {
        let cell = &plan.cells[id];
        let label = format!(
            "{} copies to {}",
            cell.copies,
            plan.targets[cell.target].label()
        );
        watcher.run(&label);
        space_for_a_run(experiment.dir())?;
        let dir = experiment.fresh_cell(id)?;
        let place = place(experiment, &registry, plan, cell, scratch.as_ref())?;
        let disk = match &scratch {
            Some(d) if place.mount.is_some() => Disk::under(&d.device)?,
            _ => Disk::under(place.dir())?,
        };
        // The target should limit the copies, so in every cell the source is read from memory.
        read_through(&source)?;
        let mut watched = vec![disk.dev];
        if place.mount.is_some() {
            // The I/O of a loop device is done by the disk under its file.
            watched.extend(Disk::under(&plan.dir).ok().map(|d| d.dev));
        }
        let (mut result, _) = recorded(dir.join("rec.iolens"), watched, watcher, &label, |stop| {
            measure(plan, cell, &source.path, place.dir(), &disk, stop)
        })?;
        result.user_space_driver = match &plan.targets[cell.target] {
            Target::Loop(fs) => driver(fs).is_some_and(|d| d.ends_with("-3g")),
            Target::Dir(_) => false,
        };
        save(&dir.join("data"), &data_file(&result))?;
        save(&dir.join("averages"), &averages_file(&result))?;
        experiment.finish_cell(id, &result)?;
        watcher.run_done();
    }
    watcher.end();
    Ok(())
}

fn place(
    experiment: &Experiment,
    registry: &Registry,
    plan: &CopiesPlan,
    cell: &CopyCell,
    scratch: Option<&LoopDisk>,
) -> Result<CopyPlace> {
    match (&plan.targets[cell.target], scratch) {
        (Target::Loop(fs), Some(disk)) => {
            let mount = registry.mount(disk, fs, &experiment.dir().join("mnt"))?;
            Ok(CopyPlace {
                mount: Some(mount),
                folder: None,
            })
        }
        (Target::Dir(dir), _) => {
            need_room(dir, u64::from(cell.copies) * plan.file_bytes)?;
            let folder =
                registry.folder(&dir.join(format!("iolens-lab-{}", std::process::id())))?;
            Ok(CopyPlace {
                mount: None,
                folder: Some(folder),
            })
        }
        (Target::Loop(fs), None) => bail!("there is no loop device for {fs}"),
    }
}

fn read_through(source: &ScratchFile) -> Result<()> {
    std::io::copy(
        &mut std::fs::File::open(&source.path)?,
        &mut std::io::sink(),
    )?;
    Ok(())
}

fn save(path: &Path, content: &str) -> Result<()> {
    write_file(path, content.as_bytes(), Access::OWNER)
        .with_context(|| format!("{} cannot be written", path.display()))
}
