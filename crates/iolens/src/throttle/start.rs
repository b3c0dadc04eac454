//! Starting the command: its control groups, the guardian, the terminal.

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

/// A command that runs, and all that belongs to it. Fields are dropped in this order: first it is released.
pub struct Started {
    /// Duty cycle that holds the command.
    pub duty: DutyCycle,
    /// Resumes it if this process dies.
    pub guardian: Guardian,
    /// Knows its processes and files.
    pub background: Background,
    /// Writes its files back at its share, where the actuator does not hold what the kernel writes back.
    pub pacer: Option<Pacer>,
    /// Device numbers of the file systems on the disks that are spared: files elsewhere do not matter.
    pub file_systems: HashSet<i32>,
    /// The command's process.
    pub child: Child,
    /// Process group of the command.
    pub leader: Pid,
    /// Foreground process group of the terminal before.
    pub terminal_of: Option<Pid>,
    /// Makes its I/O known by a control group; nothing is done with it.
    pub blkio: Option<Group>,
    /// Says whether it ever ran.
    refused: (PipeReader, Option<PipeWriter>),
}

impl Started {
    /// Whether what ended was not the command but only the attempt to start it.
    pub fn never_ran(&mut self) -> bool {
        // With the last writer closed there is either a byte or the end of the pipe, and no wait.
        self.refused.1 = None;
        self.refused.0.read(&mut [0]).is_ok_and(|n| n == 1)
    }
}

/// Starts the command of `plan`, running freely.
///
/// # Errors
/// No way to hold it, or no guardian: without one nothing may be held.
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

    // The guardian knows what it has to undo before the command runs.
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

    // A command in a session of its own has no terminal that could be handed over.
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

/// A control group that only marks the command's I/O. Where version 1 has the block controller, the I/O's control group
/// is of that hierarchy; the actuator may have one there already.
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

/// `iolens enter`, which joins `groups` and becomes the command of `plan`. It writes a byte to `refused` if it cannot.
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
    // By its name, and not inherited: the command must not find a descriptor that it knows nothing of.
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

/// `st_dev` of the files on these disks: that of the mount, and of what is stacked under it.
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
