//! `iolens serve`: the always-on recorder.

use std::io::IsTerminal as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use iolens_core::analysis::FindingKind;
use iolens_core::model::KindName;
use iolens_observe::topology::Topology;
use iolens_recorder::{FeedOptions, SessionOptions, SourceChoice};

use super::devices::choose_devices;
use crate::cli::{Compat, DEFAULT_FREEZE_KEEP, DEFAULT_KEEP, LogChoice, ServePlan};
use crate::serve::http::{self, Listen};
use crate::serve::{FreezeOptions, LogFormat, Service, read_address, read_token};
use crate::signals::Signals;

/// Connection timeout. A service on the same machine accepts faster.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// Runs the command.
///
/// # Errors
/// A one-line error that says what failed, where, and what to do.
pub fn run(plan: ServePlan) -> Result<u8> {
    let given_listen = plan.listen.clone();
    let plan = plan.with_config()?;
    let freeze_kinds = known_kinds(&plan.freeze_on)?;
    if plan.link {
        return print_link(&plan, given_listen);
    }
    let signals = Signals::catch()?;
    let topology = match plan.no_record {
        true => None,
        false => Some(
            Topology::read("/".as_ref())
                .context("/sys/block cannot be listed; is sysfs mounted?")?,
        ),
    };
    let service = Service {
        root: root_of(&plan)?,
        keep_bytes: plan.keep.unwrap_or(DEFAULT_KEEP),
        access: plan.access(),
        session: SessionOptions {
            always_on: true,
            devices: topology
                .as_ref()
                .map_or(Ok(None), |t| choose_devices(t, &plan.devices))?,
            output: PathBuf::new(),
            keep_bytes: None,
            access: plan.access(),
            feed: FeedOptions::new(plan.source.unwrap_or(SourceChoice::Auto)),
            command_line: std::env::args().collect(),
            idle_poll_ns: SessionOptions::SELDOM_IDLE_POLL_NS,
            until_ns: None,
        },
        on_finding: plan.on_finding,
        on_story: plan.on_story,
        muted: plan.muted.into_iter().collect(),
        log: log_format(plan.log),
        freeze: FreezeOptions {
            kinds: freeze_kinds,
            keep_bytes: plan.freeze_keep.unwrap_or(DEFAULT_FREEZE_KEEP),
        },
        ship: plan.ship,
        http: http::Options {
            socket: match (&plan.listen, plan.no_record) {
                (None, false) => usual_socket(),
                _ => None,
            },
            group: plan.share.group,
            public_names: plan.public_names,
            listen: plan.listen.unwrap_or(Listen::DEFAULT),
            public: plan.public,
            token_file: plan.token_file,
            allow_hosts: plan.allow_hosts,
            compat_node: plan.compat == Some(Compat::Node),
        },
    };
    match topology {
        Some(topology) => service.run(topology, &signals)?,
        None => service.show(&signals)?,
    }
    Ok(0)
}

/// Text on a terminal, else JSON, unless the user chose a format.
fn log_format(choice: Option<LogChoice>) -> LogFormat {
    match choice {
        Some(LogChoice::Text) => LogFormat::Text,
        Some(LogChoice::Json) => LogFormat::Json,
        None if std::io::stderr().is_terminal() => LogFormat::Text,
        None => LogFormat::Json,
    }
}

/// The root to record into or to show.
fn root_of(plan: &ServePlan) -> Result<PathBuf> {
    match &plan.rec {
        Some(dir) => Ok(dir.clone()),
        None => usual_root(),
    }
}

/// Prints the login link for a browser. `given` is the `--listen` of the command line.
fn print_link(plan: &ServePlan, given: Option<Listen>) -> Result<u8> {
    let root = root_of(plan)?;
    let token = match &plan.token_file {
        Some(file) => http::read_token(file)?,
        None => read_token(&root)?,
    };
    match service_place(&root, given, plan.listen.as_ref())? {
        Listen::Tcp(at) => println!("{}", http::link(at, &token)),
        place @ Listen::Unix(_) => {
            bail!("--link: no browser reaches {place}; through a socket names are shown")
        }
    }
    Ok(0)
}

/// The address of the service of `root`: as `given`, else as noted by the service in the root, else as configured.
fn service_place(
    root: &Path,
    given: Option<Listen>,
    configured: Option<&Listen>,
) -> Result<Listen> {
    if let Some(given) = given {
        return Ok(given);
    }
    let Some(noted) = read_address(root)? else {
        // The service is not running, or its version does not note its address.
        return configured.cloned().with_context(|| {
            format!(
                "{}: no service that records into it says where it listens; start it, or give --listen ADDR:PORT",
                root.display()
            )
        });
    };
    // A service that was killed leaves its address behind.
    if let Listen::Tcp(at) = &noted
        && let Err(e) = TcpStream::connect_timeout(at, CONNECT_TIME)
    {
        bail!(
            "{}: its service listened on {at}, where nothing answers ({e}); start it again, or give --listen ADDR:PORT",
            root.display()
        );
    }
    Ok(noted)
}

/// The additional socket: in the runtime directory of the service manager, of root, or of a user's session.
fn usual_socket() -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let socket = usual_socket_of(is_root)?;
    if is_root {
        // If the directory cannot be created, binding reports the error.
        let _ = std::fs::create_dir(socket.parent()?);
    }
    Some(socket)
}

/// The default socket of a service of root, or of a user.
pub fn usual_socket_of(is_root: bool) -> Option<PathBuf> {
    let dir = match std::env::var_os("RUNTIME_DIRECTORY") {
        Some(given) => PathBuf::from(given),
        None if is_root => PathBuf::from("/run/iolens"),
        None => PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?),
    };
    Some(dir.join("iolens.sock"))
}

fn known_kinds(given: &[String]) -> Result<Vec<KindName>> {
    let mut kinds = Vec::new();
    for name in given {
        let Some(kind) = FindingKind::from_name(name) else {
            let known: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
            bail!(
                "--freeze-on {name}: no such kind of finding; there are {}",
                known.join(", ")
            )
        };
        kinds.push(kind.into());
    }
    Ok(kinds)
}

/// The default root: the service manager's state directory, root's state directory, or one of the user.
pub fn usual_root() -> Result<PathBuf> {
    let given = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
    if let Some(dir) = given.filter(|d| d.is_absolute()) {
        return Ok(dir);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/iolens"));
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")));
    match state.filter(|s| s.is_absolute()) {
        Some(state) => Ok(state.join("iolens")),
        None => bail!("neither XDG_STATE_HOME nor HOME says where to record; give --rec DIR"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_link_leads_to_the_service_that_runs() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        let configured: Listen = "127.0.0.1:4711".parse().unwrap();
        let refusal = |configured| {
            let said = service_place(root, None, configured).unwrap_err();
            let said = format!("{said:#}");
            assert!(said.contains("--listen") && !said.contains('\n'), "{said}");
            said
        };
        refusal(None);
        let place = service_place(root, None, Some(&configured)).unwrap();
        assert_eq!(place, configured);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::fs::write(root.join("address"), format!("{at}\n")).unwrap();
        // Settings may have changed since it started.
        let place = service_place(root, None, Some(&configured)).unwrap();
        assert_eq!(place, Listen::Tcp(at));
        let given: Listen = "127.0.0.1:1".parse().unwrap();
        let place = service_place(root, Some(given.clone()), Some(&configured)).unwrap();
        assert_eq!(place, given);
        drop(listener);
        // A program that another test starts has a copy of the listener until it runs.
        while TcpStream::connect(at).is_ok() {
            std::thread::yield_now();
        }
        let said = refusal(Some(&configured));
        assert!(said.contains("nothing answers"), "{said}");
    }
}
