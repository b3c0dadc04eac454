//! Starts the command: control groups, guardian, terminal.

use std::collections::HashSet;
use std::io::{PipeReader, PipeWriter, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};
use iolens_core::model::DevId;
use iolens_observe::terminal;
use iolens_observe::topology::{Layer, MountPath};
use rustix::process::Pid;

use crate::cli::{ActuatorChoice, ThrottlePlan};
use iolens_control::{
    Actuator, Background, DutyCycle, Group, Guardian, Hierarchy, Pacer, Rates, file_id,
};

/// A running command with all its resources. Fields are dropped in this order, so that it is released first.
pub struct Started {
    /// Duty cycle that holds the command.
    pub duty: DutyCycle,
    /// Resumes it if this process dies.
    pub guardian: Guardian,
    /// Knows its processes and files.
    pub background: Background,
    /// Writes its files back at its share, where the actuator does not hold what the kernel writes back.
    pub pacer: Option<Pacer>,
    /// Writes back its files at its share, if the actuator does not hold the kernel's write-back.
    pub file_systems: HashSet<i32>,
    /// Device numbers of the file systems on the protected disks. Files elsewhere do not matter.
    pub child: Child,
    /// Process group of the command.
    pub leader: Pid,
    /// The terminal's previous foreground process group.
    pub terminal_of: Option<Pid>,
    /// A control group that only marks its I/O.
    pub blkio: Option<Group>,
    /// Pipe that shows whether the command was started.
    refused: (PipeReader, Option<PipeWriter>),
}

impl Started {
    /// Whether the process that ended was never the command, because starting it failed.
    pub fn never_ran(&mut self) -> bool {
        // When the last writer is closed, there is either a byte or the end of the pipe, so this does not block.
        self.refused.1 = None;
        self.refused.0.read(&mut [0]).is_ok_and(|n| n == 1)
    }
}

/// Starts the command of `plan`, running freely.
///
/// # Errors
/// No mechanism to hold it is available, or the guardian cannot be started; without it nothing may be held.
pub fn start(plan: &ThrottlePlan, stacks: &[&MountPath]) -> Result<Started> {
    let disks: Vec<DevId> = stacks.iter().flat_map(|s| &s.disks).map(|d| d.id).collect();
    let actuator = choose(plan.actuator, &disks)?;
    let blkio = marking_group(&actuator);
    let groups: Vec<PathBuf> = actuator
        .group()
        .into_iter()
        .chain(&blkio)
        .map(|g| g.dir().to_owned())
        .collect();

    // The guardian knows what to undo before the command runs.
    let mut guardian = Guardian::start()
        .context("the guardian, which resumes the command if iolens dies, cannot be started")?;
    for dir in &groups {
        guardian.watch_group(dir).context("the guardian has died")?;
    }
    if plan.kill_with {
        guardian
            .end_with_iolens()
            .context("the guardian has died")?;
    }

    let (reader, writer) = std::io::pipe().context("no pipe to the command")?;
    let child = enter_command(plan, &actuator, &groups, &writer)
        .spawn()
        .context("the command cannot be started")?;
    let leader = Pid::from_child(&child);
    guardian
        .watch_leader(leader)
        .context("the guardian has died")?;

    // A command in its own session has no controlling terminal to hand over.
    let own_terminal = !actuator.needs_session();
    let terminal_of = if own_terminal {
        terminal::hand_over(std::io::stdin(), leader)
    } else {
        None
    };
    let ids = actuator
        .group()
        .into_iter()
        .chain(&blkio)
        .filter_map(Group::id);
    let background = Background::new(leader, ids);
    let pacer = (!actuator.holds_writeback()).then(Pacer::start);
    Ok(Started {
        duty: DutyCycle::start(actuator, leader),
        guardian,
        background,
        pacer,
        file_systems: stacks.iter().flat_map(|s| file_systems(s)).collect(),
        child,
        leader,
        terminal_of,
        blkio,
        refused: (reader, Some(writer)),
    })
}

/// Creates a control group that only marks the command's I/O. If version 1 has the block controller, I/O belongs to
/// groups of that hierarchy; the actuator may already have a group there.
fn marking_group(actuator: &Actuator) -> Option<Group> {
    let has_one = actuator
        .group()
        .is_some_and(|g| g.hierarchy() == Hierarchy::V1Blkio);
    if has_one {
        None
    } else {
        Group::new(Hierarchy::V1Blkio).ok()
    }
}

/// The command `iolens enter`, which joins `groups` and then executes the command of `plan`. It writes a byte to
/// `refused` if it fails.
fn enter_command(
    plan: &ThrottlePlan,
    actuator: &Actuator,
    groups: &[PathBuf],
    refused: &PipeWriter,
) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("iolens").arg("enter");
    for dir in groups {
        command.arg("--group").arg(dir);
    }
    // Passed by name, so that the command does not inherit an unknown descriptor.
    command.arg("--tell").arg(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        refused.as_raw_fd()
    ));
    if actuator.needs_session() {
        command.arg("--session");
    } else {
        command.process_group(0);
    }
    command.arg("--").args(&plan.command);
    command
}

/// `st_dev` of the files on these disks: of the mount, and of file systems stacked under it.
fn file_systems(stack: &MountPath) -> HashSet<i32> {
    fn add(layers: &[Layer], into: &mut HashSet<i32>) {
        for layer in layers {
            into.extend(layer.id.map(|id| id.0));
            add(&layer.below, into);
        }
    }
    let own = std::fs::metadata(&stack.path)
        .ok()
        .and_then(|m| file_id(&m))
        .map(|id| id.0);
    let mut all: HashSet<i32> = own
        .into_iter()
        .chain(stack.mount.as_ref().map(|m| m.dev.0))
        .collect();
    add(&stack.layers, &mut all);
    all
}

fn choose(choice: ActuatorChoice, disks: &[DevId]) -> Result<Actuator> {
    match choice {
        ActuatorChoice::Auto => Ok(Actuator::best(disks).0),
        ActuatorChoice::Signals => Ok(Actuator::Signals),
        ActuatorChoice::IoMax => match Rates::new(disks) {
            Ok(rates) => Ok(Actuator::Rates(rates)),
            Err(why) => bail!(
                "no limit of rates: {}; --actuator signals needs nothing",
                why.join("; ")
            ),
        },
        ActuatorChoice::Freezer => match Actuator::freezer() {
            Ok(a) => Ok(a),
            Err(why) => bail!(
                "no freezer: {}; --actuator signals needs nothing",
                why.join("; ")
            ),
        },
    }
}
