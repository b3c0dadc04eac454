//! Starting the command: its control groups, the guardian, the terminal.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};
use iolens_observe::terminal;
use rustix::process::Pid;

use crate::cli::{ActuatorChoice, ThrottlePlan};
use crate::control::{Actuator, Background, DutyCycle, Group, Guardian, Hierarchy};

/// A command that runs, and all that belongs to it. Fields are dropped in this order: first it is released.
pub struct Started {
    /// Holds it.
    pub duty: DutyCycle,
    /// Resumes it if this process dies.
    pub guardian: Guardian,
    /// Knows its processes and files.
    pub background: Background,
    /// The command.
    pub child: Child,
    /// Its process group.
    pub leader: Pid,
    /// Who had the terminal before.
    pub terminal_of: Option<Pid>,
    /// Makes its I/O known by a control group; nothing is done with it.
    _blkio: Option<Group>,
}

/// Starts the command of `plan`, running freely.
///
/// # Errors
/// No way to hold it, or no guardian: without one nothing may be held.
pub fn start(plan: &ThrottlePlan) -> Result<Started> {
    let actuator = choose(plan.actuator)?;
    // Where version 1 has the block controller, the I/O's control group is of that hierarchy.
    let blkio = Group::new(Hierarchy::V1Blkio).ok();
    let mut guardian =
        Guardian::start().context("the guardian, which resumes the command if iolens dies, cannot be started")?;
    let groups: Vec<PathBuf> = actuator.group().into_iter().chain(&blkio).map(|g| g.dir().to_owned()).collect();
    for dir in &groups {
        guardian.watch_group(dir).context("the guardian has died")?;
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("iolens").arg("enter").args(groups.iter().flat_map(|g| ["--group".as_ref(), g.as_os_str()]));
    if actuator.needs_session() {
        command.arg("--session");
    } else {
        command.process_group(0);
    }
    let child = command.arg("--").args(&plan.command).spawn().context("the command cannot be started")?;
    let leader = Pid::from_child(&child);
    guardian.watch_leader(leader).context("the guardian has died")?;
    let own_terminal = !actuator.needs_session();
    let terminal_of = if own_terminal { terminal::hand_over(std::io::stdin(), leader) } else { None };
    let ids = actuator.group().into_iter().chain(&blkio).filter_map(Group::id);
    let background = Background::new(leader, ids);
    Ok(Started {
        duty: DutyCycle::start(actuator, leader),
        guardian,
        background,
        child,
        leader,
        terminal_of,
        _blkio: blkio,
    })
}

fn choose(choice: ActuatorChoice) -> Result<Actuator> {
    match choice {
        ActuatorChoice::Auto => Ok(Actuator::best().0),
        ActuatorChoice::Signals => Ok(Actuator::Signals),
        ActuatorChoice::Freezer => match Actuator::freezer() {
            Ok(a) => Ok(a),
            Err(why) => bail!("no freezer: {}; --actuator signals needs nothing", why.join("; ")),
        },
    }
}
