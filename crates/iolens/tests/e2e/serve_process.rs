//! The service as a process: privileges that it drops after its start, and its messages to systemd.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::machine::{LoopDevice, ebpf, wait_until};
use super::serve::{Serve, serve_arguments, while_reading};

/// The messages to systemd, until one contains `wanted`.
fn hear(socket: &UnixDatagram, wanted: &str) -> Vec<String> {
    let mut heard = Vec::new();
    while !heard.iter().any(|h| h == wanted) {
        let mut text = [0; 4096];
        let n = match socket.recv(&mut text) {
            // Of another test's timer or child.
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            received => {
                received.unwrap_or_else(|e| panic!("{wanted} is missing after {heard:?}: {e}"))
            }
        };
        heard.push(String::from_utf8_lossy(&text[..n]).trim().to_owned());
    }
    heard
}

/// The line `key` of each thread's status.
fn of_threads(child: &Child, key: &str) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let status = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = |key: &str| {
            text.lines()
                .find_map(|l| l.strip_prefix(key))
                .map(|l| l.trim().to_owned())
        };
        line("Name:").zip(line(key))
    };
    tasks.flatten().filter_map(status).collect()
}

fn start(root: &Path, device: &LoopDevice, socket: &Path) -> Child {
    let lake = socket.with_extension("lake");
    std::fs::create_dir_all(&lake).unwrap();
    // Like systemd: the watchdog's process is identified by its ID.
    Command::new("sh")
        .args([
            "-c",
            "WATCHDOG_PID=$$ exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_iolens"),
        ])
        .args(serve_arguments(root, device))
        .args(["--on-finding", "true", "--ship"])
        .arg(lake)
        .arg("--listen")
        .arg(format!("unix:{}.http", socket.display()))
        .env("NOTIFY_SOCKET", socket)
        .env("WATCHDOG_USEC", "300000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Privileges that threads still have but do not need, a line each.
fn privileges_to_spare(service: &Child) -> Vec<String> {
    let mut spare = Vec::new();
    // CAP_DAC_READ_SEARCH 2, CAP_SYS_NICE 23, CAP_BPF 39
    let recorders: u64 = 1 << 2 | 1 << 23 | 1 << 39;
    let threads = of_threads(service, "CapPrm:");
    for name in [
        "iolens-http",
        "iolens-command",
        "iolens-ship",
        "iolens-writer",
    ] {
        if !threads.iter().any(|(n, _)| n.starts_with(name)) {
            spare.push(format!("{name} is missing"));
        }
    }
    for (name, held) in threads {
        let held = u64::from_str_radix(&held, 16).unwrap();
        let is_beside = |n: &str| {
            n.starts_with("iolens-http") || ["iolens-command", "iolens-ship"].contains(&n)
        };
        let needed = if is_beside(&name) { 0 } else { recorders };
        if held & !needed != 0 {
            spare.push(format!("{name}: capabilities {held:x}"));
        }
    }
    for (name, mode) in of_threads(service, "Seccomp:") {
        // The thread that counts signals was started before the filter, and has no capabilities. 2: calls are
        // filtered.
        if mode != "2" && name != "iolens-signals" {
            spare.push(format!("{name}: system calls are not filtered"));
        }
    }
    spare
}

#[test]
fn systemd_hears_of_the_service_and_its_threads_have_no_privileges_to_spare() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut service = start(&dir.path().join("root"), &device, &path);
    hear(&socket, "READY=1");
    hear(&socket, "WATCHDOG=1");
    hear(&socket, "WATCHDOG=1");

    // Threads that answer requests drop more once they run.
    let begin = Instant::now();
    loop {
        let spare = privileges_to_spare(&service);
        if spare.is_empty() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{spare:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    for (name, set) in of_threads(&service, "NoNewPrivs:") {
        assert_eq!(set, "1", "thread {name}");
    }

    kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
    hear(&socket, "STOPPING=1");
    assert!(service.wait().unwrap().success());
}

/// The directory of the one host in `root`.
fn host_directory(root: &Path) -> PathBuf {
    let entries = std::fs::read_dir(root).unwrap().flatten();
    let is_host = |e: &std::fs::DirEntry| e.file_name().to_string_lossy().starts_with("host=");
    entries.filter(is_host).map(|e| e.path()).next().unwrap()
}

#[test]
fn a_service_that_cannot_make_its_place_again_does_not_say_that_it_lives() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let minute = Some(Duration::from_secs(60));
    socket.set_read_timeout(minute).unwrap();
    let root = dir.path().join("root");
    let mut service = start(&root, &device, &path);
    hear(&socket, "WATCHDOG=1");

    let place = host_directory(&root);
    std::fs::rename(&place, dir.path().join("moved")).unwrap();
    // No directory can be created in place of a file.
    std::fs::write(&place, "").unwrap();
    // It sent ten messages per second.
    socket
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    let mut text = [0; 4096];
    loop {
        match socket.recv(&mut text) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            _ => {}
        }
    }
    assert!(service.try_wait().unwrap().is_none(), "it still runs");

    std::fs::remove_file(&place).unwrap();
    socket.set_read_timeout(minute).unwrap();
    hear(&socket, "WATCHDOG=1");
    assert!(place.is_dir(), "made again");
    kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
    assert!(service.wait().unwrap().success());
}

fn is_written(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))
}

#[test]
fn a_service_that_is_ended_waits_for_no_command_of_a_finding() {
    let (Some(()), Some(device)) = (ebpf(), LoopDevice::new(16)) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let pids = root.join("pids");
    // A shell and its children, each of which would run longer than any test.
    let command = format!("sleep 100000 & echo $$ $! > {}; wait", pids.display());
    let serve = Serve::start_with(&root, &device, &["--on-finding", &command]);
    while_reading(&device, || {
        let begin = Instant::now();
        while !is_written(&pids) && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    if !is_written(&pids) {
        eprintln!("SKIP: nothing stood out in a minute of reading");
        return;
    }
    serve.terminate();
    // They have been killed; their exit may take a moment.
    let pids = std::fs::read_to_string(&pids).unwrap();
    wait_until("they are gone", || !pids.split_whitespace().any(runs));
}

/// Whether the process is there and no zombie, which another process may have to collect.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !(state.is_empty() || state.starts_with(['Z', 'X']))
}
