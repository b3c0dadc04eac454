//! The screen of `live` in terminals: pseudo-terminals of script(1), which are closed when it is killed, and tmux,
//! which shows the visible text.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::machine::{LoopDevice, StopOnDrop, TIMEOUT, ebpf, read_in_sequence, wait_until};

const POLL: Duration = Duration::from_millis(10);
/// Leaving the alternate screen, and showing the cursor.
const LEAVES: &str = "\x1b[?1049l";
const ENTERS: &str = "\x1b[?1049h";
const SHOWS_CURSOR: &str = "\x1b[?25h";
const LIVE: &str = "live ▸";

fn has_program(name: &str, version: &str) -> bool {
    let found = Command::new(name)
        .arg(version)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("SKIP: no {name}");
    }
    found.is_ok()
}

/// `iolens live` in a shell on a pseudo-terminal.
struct Session {
    script: Child,
    keys: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
    /// How many bytes of its output are read per second; 0: without limit.
    bytes_per_s: Arc<AtomicUsize>,
    reader: Option<JoinHandle<()>>,
}

impl Session {
    /// Starts it, and waits for the first picture; `None`, with a message, where there is no script(1).
    fn start(device: &LoopDevice) -> Option<Session> {
        if !has_program("script", "--version") {
            return None;
        }
        let command = format!(
            "stty rows 24 cols 80; echo tty=$(tty) .; echo before=$(stty -g) .; \
             sh -c 'echo pid=$$ .; exec \"$IOLENS\" live -d {}'; \
             echo status=$? .; echo after=$(stty -g) .",
            device.name()
        );
        let mut script = Command::new("script")
            .args(["-q", "-f", "-e", "-c", &command, "/dev/null"])
            .env("IOLENS", env!("CARGO_BIN_EXE_iolens"))
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = script.stdin.take().unwrap();
        let mut drawn = script.stdout.take().unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let bytes_per_s = Arc::new(AtomicUsize::new(0));
        let shared = Arc::clone(&output);
        let rate = Arc::clone(&bytes_per_s);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 14];
            loop {
                let per_s = rate.load(Ordering::Relaxed);
                let room = if per_s == 0 {
                    buffer.len()
                } else {
                    std::thread::sleep(Duration::from_millis(50));
                    per_s / 20
                };
                match drawn.read(&mut buffer[..room]) {
                    Ok(0) | Err(_) => return,
                    Ok(n) => shared.lock().unwrap().extend_from_slice(&buffer[..n]),
                }
            }
        });
        let session = Session {
            script,
            keys,
            output,
            bytes_per_s,
            reader: Some(reader),
        };
        session.wait_for(LIVE, 0);
        Some(session)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    /// Waits until `words` are drawn after the first `from` bytes of the text; returns the position after them.
    fn wait_for(&self, words: &str, from: usize) -> usize {
        let begin = Instant::now();
        loop {
            let text = self.text();
            let at = text.get(from..).and_then(|t| t.find(words));
            if let Some(at) = at {
                return from + at + words.len();
            }
            let shown = || text.chars().rev().take(2000).collect::<Vec<_>>();
            assert!(
                begin.elapsed() < TIMEOUT,
                "no {words:?} after {TIMEOUT:?}:\n{}",
                shown().into_iter().rev().collect::<String>().escape_debug()
            );
            std::thread::sleep(POLL);
        }
    }

    /// The shell's output after `name=`.
    fn said(&self, name: &str) -> String {
        let begin = self.wait_for(&format!("{name}="), 0);
        let end = self.wait_for(" .", begin);
        self.text()[begin..end - 2].to_owned()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.said("pid").parse().unwrap()).unwrap()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn resize(&self, rows: u16, columns: u16) {
        let rows = rows.to_string();
        let columns = columns.to_string();
        let out = Command::new("stty")
            .args(["-F", &self.said("tty"), "rows", &rows, "cols", &columns])
            .status();
        assert!(out.unwrap().success());
    }

    /// The program has ended, and the terminal's settings are restored.
    fn assert_left_clean(&mut self, status: i32) {
        let text_before = self.said("before");
        assert_eq!(self.said("status"), status.to_string());
        assert_eq!(self.said("after"), text_before, "modes of the terminal");
        let text = self.text();
        let left = text.rfind(LEAVES).expect("the alternate screen is left");
        assert!(left > text.rfind(ENTERS).unwrap());
        let cursor = text.rfind("\x1b[?25").unwrap();
        assert!(text[cursor..].starts_with(SHOWS_CURSOR), "the cursor");
        let mouse = text.rfind("\x1b[?1000").unwrap();
        assert!(text[mouse..].starts_with("\x1b[?1000l"), "the mouse");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.bytes_per_s.store(0, Ordering::Relaxed);
        self.script.kill().ok();
        self.script.wait().ok();
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
    }
}

fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // A zombie no longer runs.
    stat.is_ok_and(|s| state_of(&s) != 'Z')
}

/// The letter after the name, which may contain any characters.
fn state_of(stat: &str) -> char {
    let after = stat.rsplit(") ").next().unwrap();
    after.chars().next().unwrap()
}

fn state(pid: Pid) -> char {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    state_of(&std::fs::read_to_string(path).unwrap())
}

fn memory_kb(pid: Pid, field: &str) -> u64 {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find(|l| l.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A device, and the privileges to observe it.
fn device() -> Option<LoopDevice> {
    ebpf()?;
    LoopDevice::new(16)
}

#[test]
fn the_terminal_is_given_back_after_quit_and_after_sigterm() {
    let Some(device) = device() else { return };
    let Some(mut session) = Session::start(&device) else {
        return;
    };
    session.press("q");
    session.assert_left_clean(0);
    let Some(mut session) = Session::start(&device) else {
        return;
    };
    kill_process(session.pid(), Signal::TERM).unwrap();
    session.assert_left_clean(0);
}

#[test]
fn a_stopped_screen_gives_the_terminal_back_and_comes_again() {
    let Some(device) = device() else { return };
    let Some(mut session) = Session::start(&device) else {
        return;
    };
    let pid = session.pid();
    kill_process(pid, Signal::TSTP).unwrap();
    let left = session.wait_for(LEAVES, 0);
    wait_until("it has stopped", || state(pid) == 'T');
    kill_process(pid, Signal::CONT).unwrap();
    let entered = session.wait_for(ENTERS, left);
    session.wait_for(LIVE, entered);
    // The key as well: the kernel does not interpret it, because the terminal is raw.
    session.press("\x1a");
    let left = session.wait_for(LEAVES, entered);
    wait_until("it has stopped again", || state(pid) == 'T');
    kill_process(pid, Signal::CONT).unwrap();
    let entered = session.wait_for(ENTERS, left);
    session.wait_for(LIVE, entered);
    session.press("q");
    session.assert_left_clean(0);
}

#[test]
fn a_closed_terminal_ends_it() {
    let Some(device) = device() else { return };
    let Some(mut session) = Session::start(&device) else {
        return;
    };
    let pid = session.pid();
    assert!(is_running(pid));
    session.script.kill().unwrap();
    session.script.wait().unwrap();
    wait_until("it has ended", || !is_running(pid));
}

#[test]
fn a_slow_terminal_loses_nothing() {
    const IOS: u64 = 100_000;
    /// A full ring loses thousands; a kernel may hide some few from the tracer.
    const MAX_HIDDEN: f64 = 100.0;
    const MAX_KB: u64 = 128 << 10;
    let Some(device) = device() else { return };
    let Some(mut session) = Session::start(&device) else {
        return;
    };
    let pid = session.pid();
    let before = device.stat()[0];
    session.bytes_per_s.store(1000, Ordering::Relaxed);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _stop = StopOnDrop(&stop);
        s.spawn(|| read_in_sequence(&device, 4096, &stop));
        wait_until("the load has done its I/Os", || {
            device.stat()[0] - before > IOS || session.script.try_wait().unwrap().is_some()
        });
    });
    assert!(is_running(pid));
    let peak_kb = memory_kb(pid, "VmHWM");
    assert!(peak_kb < MAX_KB, "{peak_kb} kB");
    // The unlimited terminal catches up, and a redraw in another size shows the losses.
    session.bytes_per_s.store(0, Ordering::Relaxed);
    session.resize(30, 120);
    let mut screen = Vec::new();
    wait_until("a picture of the new size", || {
        screen = screen_of(&session.text(), 30, 120);
        is_whole(&screen, 120, 30)
    });
    let lost = screen[0].split(" lost").next().unwrap();
    let lost = lost.rsplit(' ').next().unwrap();
    let lost: f64 = lost.parse().unwrap_or_else(|_| panic!("{screen:#?}"));
    assert!(lost < MAX_HIDDEN, "{}", screen[0]);
    assert!(!screen[0].contains("not shown"), "{}", screen[0]);
    session.press("q");
    session.assert_left_clean(0);
}

/// The screen of a terminal of this size after this output. It interprets characters, cursor positions, clearing, and
/// deletion of characters in a line, which is sufficient for output drawn by cells.
fn screen_of(text: &str, rows: usize, columns: usize) -> Vec<String> {
    let mut cells = vec![vec![' '; columns]; rows];
    let mut row = 0;
    let mut column = 0;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\r' => column = 0,
            '\n' => row = (row + 1).min(rows - 1),
            '\x1b' if characters.next() == Some('[') => {
                let mut numbers = String::new();
                let end = characters.by_ref().find(|c| {
                    numbers.push(*c);
                    c.is_ascii_alphabetic()
                });
                numbers.pop();
                match end {
                    Some('H') => {
                        let mut at = numbers.split(';').map(|n| n.parse().unwrap_or(1));
                        row = at.next().unwrap_or(1) - 1;
                        column = at.next().unwrap_or(1) - 1;
                    }
                    Some('P') => {
                        let n: usize = numbers.parse().unwrap();
                        let line = &mut cells[row];
                        line.drain(column..column + n);
                        line.resize(columns, ' ');
                    }
                    Some('J') => cells.iter_mut().for_each(|l| l.fill(' ')),
                    _ => {}
                }
            }
            c if c.is_control() => {}
            c => {
                let cell = cells.get_mut(row).and_then(|l| l.get_mut(column));
                if let Some(cell) = cell {
                    *cell = c;
                }
                column += 1;
            }
        }
    }
    let lines = cells.into_iter().map(|l| l.into_iter().collect::<String>());
    lines.map(|l| l.trim_end().to_owned()).collect()
}

/// A tmux server of its own; ends when dropped.
struct Tmux(String);

impl Tmux {
    fn run(&self, arguments: &[&str]) -> String {
        let out = Command::new("tmux")
            .args(["-L", &self.0, "-f", "/dev/null"])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env("IOLENS", env!("CARGO_BIN_EXE_iolens"))
            .env_remove("NO_COLOR")
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn shown(&self) -> Vec<String> {
        let text = self.run(&["capture-pane", "-p"]);
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn resizing_leaves_a_whole_screen() {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Some(device) = device() else { return };
    if !has_program("tmux", "-V") {
        return;
    }
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let tmux = Tmux(format!("iolens-e2e-{}-{n}", std::process::id()));
    let command = format!("exec \"$IOLENS\" live -d {}", device.name());
    tmux.run(&["new-session", "-d", "-x", "80", "-y", "24", &command]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _stop = StopOnDrop(&stop);
        s.spawn(|| read_in_sequence(&device, 4096, &stop));
        for (width, height) in [(80, 24), (60, 16), (200, 50), (40, 10), (120, 40), (80, 24)] {
            let columns = width.to_string();
            let lines = height.to_string();
            tmux.run(&["resize-window", "-x", &columns, "-y", &lines]);
            wait_until(&format!("whole at {width}x{height}"), || {
                is_whole(&tmux.shown(), width, height)
            });
        }
        tmux.run(&["send-keys", "q"]);
        wait_until("it has ended", || tmux.shown().is_empty());
    });
}

/// Whether the first and last line of the screen are in their places, and one edge of the picture between them.
fn is_whole(lines: &[String], width: usize, height: usize) -> bool {
    if width < 60 {
        return lines.first().is_some_and(|l| l.contains("too small"));
    }
    let Some(first) = lines.first() else {
        return false;
    };
    // tmux omits spaces at the end of a line.
    let is_first =
        first.starts_with(" iolens") && first.ends_with(LIVE) && first.chars().count() == width - 1;
    let last = lines.get(height - 1);
    let is_last = lines.len() == height && last.is_some_and(|l| l.starts_with(" ? help"));
    let edges = lines.iter().filter(|l| l.chars().nth(7) == Some('│'));
    let corners = lines.iter().filter(|l| l.chars().nth(7) == Some('└'));
    let titles = lines.iter().filter(|l| l.ends_with("100 ms a column"));
    is_first && is_last && edges.count() >= 3 && corners.count() == 1 && titles.count() == 1
}
