//! Follows a running `serve` on this machine through its API. No second recorder and no privileges are needed.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use iolens_core::model::{
    Comm, DevId, Device, Inode, Io, MS_NS, Name, Named, Observation, Op, Origin, SECOND_NS,
};
use iolens_observe::topology::wall_clock_ns;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::source::SharedQueue;
use crate::serve::http::Listen;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response: 100,000 I/Os are about 20 MiB.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// Interval between requests.
const POLL: Duration = Duration::from_millis(500);
/// Maximum time range of a request.
const MAX_PIECE_NS: i64 = SECOND_NS;
/// Minimum time range of a request, used if there are very many I/Os.
const MIN_PIECE_NS: i64 = 10 * MS_NS;
const MAX_IOS: usize = 100_000;
/// `serve` has stored everything after this delay, even small amounts.
const STORED_AFTER_NS: i64 = 2 * SECOND_NS;
/// Times in responses are rounded to less than this.
const ROUNDED_NS: i64 = 1000;
/// How much time before the start is shown.
pub const BEFORE_NS: i64 = 10 * SECOND_NS;
/// A name is reported again after this time, so that it is not dropped from the cache.
const SAY_AGAIN_NS: i64 = 300 * SECOND_NS;
/// Maximum number of names with a number; beyond it, numbering starts over.
const MAX_NUMBERED: usize = 1 << 16;

/// A client of a running `serve`.
#[derive(Debug, Clone)]
pub struct ServeClient {
    place: Listen,
    /// The selected devices; empty: all.
    devices: Vec<String>,
}

/// The response of `/healthz`.
#[derive(Debug, Deserialize)]
struct HealthAnswer {
    recording: bool,
    source: Option<String>,
    lost_ios: Option<i64>,
}

/// The response of `/api/v1/recordings`.
#[derive(Debug, Deserialize)]
struct RecordingsAnswer {
    /// The recording root; `None`: hidden from this client.
    root: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct DevicesAnswer {
    devices: Vec<ServedDevice>,
}

#[derive(Debug, Deserialize)]
struct ServedDevice {
    name: String,
    major: u32,
    minor: u32,
    size_bytes: Option<u64>,
    on: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct IosAnswer {
    columns: ServedColumns,
}

/// The columns of `/api/v1/ios`.
#[derive(Debug, Default, Deserialize)]
struct ServedColumns {
    done_unix_s: Vec<f64>,
    device: Vec<String>,
    op: Vec<i32>,
    sector: Vec<Option<i64>>,
    bytes: Vec<i64>,
    queue_us: Vec<Option<f64>>,
    device_us: Vec<f64>,
    error: Vec<Option<i32>>,
    pid: Vec<Option<i32>>,
    process: Vec<Option<String>>,
    cgroup: Vec<Option<String>>,
    file: Vec<Option<String>>,
    origin: Vec<String>,
}

/// A response with its status.
struct Reply {
    status: u16,
    body: Vec<u8>,
}

/// The result of a request for I/Os.
enum Piece {
    Ios(Box<ServedColumns>),
    /// The range contains more I/Os than a response may have.
    TooMany,
    /// Nothing of this time is stored yet.
    NotYet,
}

impl ServeClient {
    /// Finds a service on one of these sockets or at the default address that records every I/O.
    pub fn find(sockets: Vec<PathBuf>, devices: &[String]) -> Option<ServeClient> {
        for place in places(sockets) {
            let client = ServeClient {
                place,
                devices: devices.to_vec(),
            };
            let health = client.get::<HealthAnswer>("/healthz");
            if health.is_ok_and(|h| h.recording && h.source.as_deref() == Some("ebpf")) {
                return Some(client);
            }
        }
        None
    }

    /// The root of a service on one of these sockets or at the default address, if it records and reports its root.
    pub fn find_root(sockets: Vec<PathBuf>) -> Option<PathBuf> {
        for place in places(sockets) {
            let client = ServeClient {
                place,
                devices: Vec::new(),
            };
            let health = client.get::<HealthAnswer>("/healthz");
            if !health.is_ok_and(|h| h.recording) {
                continue;
            }
            if let Ok(answer) = client.get::<RecordingsAnswer>("/api/v1/recordings")
                && answer.root.is_some()
            {
                return answer.root;
            }
        }
        None
    }

    /// Its address.
    pub fn place(&self) -> String {
        self.place.to_string()
    }

    /// The devices that it knows.
    ///
    /// # Errors
    /// It does not answer.
    pub fn known_devices(&self) -> Result<Vec<Device>> {
        let answer: DevicesAnswer = self.get("/api/v1/devices")?;
        let known = answer.devices.into_iter();
        let mut devices: Vec<Device> = known.map(device).collect();
        if !self.devices.is_empty() {
            devices.retain(|d| self.devices.contains(&d.name));
        }
        Ok(devices)
    }

    fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A> {
        let reply = self.ask(path)?;
        if reply.status != 200 {
            bail!("{} answers {} to {path}", self.place, reply.status);
        }
        serde_json::from_slice(&reply.body)
            .with_context(|| format!("{} answers {path} with something else", self.place))
    }

    fn ask(&self, path: &str) -> Result<Reply> {
        self.connect_and_ask(path)
            .with_context(|| format!("{} cannot be asked", self.place))
    }

    /// Sends a request by HTTP/1.0, so that the end of the connection ends the response.
    fn connect_and_ask(&self, path: &str) -> Result<Reply> {
        match &self.place {
            Listen::Unix(socket) => {
                let stream = UnixStream::connect(socket)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                exchange(stream, path)
            }
            Listen::Tcp(at) => {
                let stream = TcpStream::connect_timeout(at, TIMEOUT)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                exchange(stream, path)
            }
        }
    }

    fn piece(&self, from_unix_ns: i64, to_unix_ns: i64) -> Result<Piece> {
        let from = Timestamp::from_nanosecond(from_unix_ns.into())?;
        let to = Timestamp::from_nanosecond(to_unix_ns.into())?;
        let mut path = format!("/api/v1/ios?from={from}&to={to}&limit={MAX_IOS}");
        for device in &self.devices {
            path.push_str("&device=");
            path.push_str(&encoded(device));
        }
        let reply = self.ask(&path)?;
        match reply.status {
            200 => {
                let answer: IosAnswer = serde_json::from_slice(&reply.body)
                    .with_context(|| format!("{} sends something else than I/Os", self.place))?;
                answer.columns.check()?;
                Ok(Piece::Ios(Box::new(answer.columns)))
            }
            422 if String::from_utf8_lossy(&reply.body).contains("more than") => Ok(Piece::TooMany),
            422 => Ok(Piece::NotYet),
            status => bail!("{} answers {status}", self.place),
        }
    }
}

/// The addresses to try, in this order.
fn places(sockets: Vec<PathBuf>) -> impl Iterator<Item = Listen> {
    let sockets = sockets.into_iter().map(Listen::Unix);
    sockets.chain([Listen::DEFAULT])
}

/// Percent-encodes text for a query string.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn exchange(mut stream: impl Read + Write, path: &str) -> Result<Reply> {
    let head =
        format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.context("no HTTP answer")?;
    let first = answer[..end]
        .split(|b| *b == b'\r')
        .next()
        .unwrap_or_default();
    let first = String::from_utf8_lossy(first).into_owned();
    let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
    Ok(Reply {
        status: status.context("no HTTP answer")?,
        body: answer.split_off(end + 4),
    })
}

fn device(served: ServedDevice) -> Device {
    Device {
        size_bytes: served.size_bytes,
        slaves: served.on,
        ..Device::named(served.name, DevId::new(served.major, served.minor))
    }
}

impl ServedColumns {
    /// Checks that all columns have the same length.
    fn check(&self) -> Result<()> {
        let n = self.done_unix_s.len();
        let lengths = [
            self.device.len(),
            self.op.len(),
            self.sector.len(),
            self.bytes.len(),
            self.queue_us.len(),
            self.device_us.len(),
            self.error.len(),
            self.pid.len(),
            self.process.len(),
            self.cgroup.len(),
            self.file.len(),
            self.origin.len(),
        ];
        if lengths.iter().any(|length| *length != n) {
            bail!("columns of different lengths");
        }
        Ok(())
    }
}

/// Assigns numbers to names, as recordings do.
#[derive(Debug, Default)]
struct Numbered {
    numbers: HashMap<String, (i64, i64)>,
    last: i64,
}

impl Numbered {
    /// The number of `text`, and whether its name must be reported at `at_ns`.
    fn number(&mut self, text: &str, at_ns: i64) -> (i64, bool) {
        if let Some((number, said_ns)) = self.numbers.get_mut(text) {
            let is_due = at_ns - *said_ns >= SAY_AGAIN_NS;
            if is_due {
                *said_ns = at_ns;
            }
            return (*number, is_due);
        }
        if self.numbers.len() >= MAX_NUMBERED {
            self.numbers.clear();
        }
        self.last += 1;
        self.numbers.insert(text.to_owned(), (self.last, at_ns));
        (self.last, true)
    }
}

/// Converts columns to I/Os with times since the start.
struct Translator {
    start_unix_ns: i64,
    devices: HashMap<String, DevId>,
    cgroups: Numbered,
    files: Numbered,
    names: Vec<Observation>,
}

fn ns_of_us(us: f64) -> i64 {
    (us * 1e3).round() as i64
}

impl Translator {
    /// Whether the columns contain unknown devices.
    fn meets_new(&self, columns: &ServedColumns) -> bool {
        let mut names = columns.device.iter();
        names.any(|name| !self.devices.contains_key(name))
    }

    fn learn(&mut self, devices: &[Device]) {
        self.devices
            .extend(devices.iter().map(|d| (d.name.clone(), d.id)));
    }

    fn ios(&mut self, columns: &ServedColumns) -> Vec<Io> {
        let mut ios = Vec::with_capacity(columns.done_unix_s.len());
        for row in 0..columns.done_unix_s.len() {
            // An I/O of a device that is not known is left out.
            if let Some(dev) = self.devices.get(&columns.device[row]).copied() {
                ios.push(self.io(columns, row, dev));
            }
        }
        ios
    }

    fn io(&mut self, columns: &ServedColumns, row: usize, dev: DevId) -> Io {
        // Seconds and fraction are converted separately: their product with 1e9 would lose digits in an f64.
        let done_s = columns.done_unix_s[row];
        let whole_ns = (done_s.floor() as i64).saturating_mul(SECOND_NS);
        let done_unix_ns = whole_ns.saturating_add((done_s.fract() * 1e9).round() as i64);
        let done_ns = done_unix_ns.saturating_sub(self.start_unix_ns);
        let mut io = Io::new(
            done_ns,
            dev,
            Op(columns.op[row]),
            columns.bytes[row],
            columns.queue_us[row].map(ns_of_us),
            ns_of_us(columns.device_us[row]),
        );
        io.sector = columns.sector[row];
        io.error = columns.error[row];
        io.tgid = columns.pid[row];
        io.comm = columns.process[row]
            .as_ref()
            .map(|name| Comm::new(name.as_bytes()));
        let origin = Origin::ALL
            .into_iter()
            .find(|o| o.name() == columns.origin[row]);
        io.origin = origin.unwrap_or(Origin::Unknown);
        if let Some(text) = &columns.cgroup[row] {
            let (id, is_new) = self.cgroups.number(text, done_ns);
            io.cgroup = Some(id);
            if is_new {
                self.say(done_ns, Named::Cgroup(id), text);
            }
        }
        if let Some(text) = &columns.file[row] {
            let (ino, is_new) = self.files.number(text, done_ns);
            io.fs_dev = Some(0);
            io.ino = Some(ino);
            if is_new {
                let inode = Inode {
                    fs_dev: 0,
                    ino,
                    generation: None,
                };
                self.say(done_ns, Named::File(inode), text);
            }
        }
        io
    }

    fn say(&mut self, at_ns: i64, of: Named, text: &str) {
        self.names.push(Observation::Name(Name {
            at_ns,
            of,
            text: text.to_owned(),
        }));
    }
}

/// Requests new I/Os periodically until `ends`. Times count from `start_unix_ns`.
pub fn follow(
    client: &ServeClient,
    devices: &[Device],
    start_unix_ns: i64,
    shared: &SharedQueue,
    ends: &AtomicBool,
) {
    let mut translator = Translator {
        start_unix_ns,
        devices: HashMap::new(),
        cgroups: Numbered::default(),
        files: Numbered::default(),
        names: Vec::new(),
    };
    translator.learn(devices);
    let mut at_unix_ns = start_unix_ns;
    let mut piece_ns = MAX_PIECE_NS;
    while !ends.load(Ordering::Relaxed) {
        let now_ns = wall_clock_ns();
        let to_ns = (at_unix_ns + piece_ns).min(now_ns);
        // Times were rounded to some hundred nanoseconds: I/Os at the boundary are requested twice and used once.
        match client.piece(at_unix_ns - ROUNDED_NS, to_ns.max(at_unix_ns + MS_NS)) {
            Ok(Piece::TooMany) if piece_ns > MIN_PIECE_NS => {
                piece_ns = (piece_ns / 4).max(MIN_PIECE_NS);
                continue;
            }
            Ok(Piece::TooMany) => {
                // There are too many I/Os even for the shortest range. The screen shows that they are missing.
                shared.miss(MAX_IOS as u64);
                at_unix_ns = to_ns;
                continue;
            }
            Ok(Piece::NotYet) => at_unix_ns = at_unix_ns.max(now_ns - STORED_AFTER_NS),
            Ok(Piece::Ios(columns)) => {
                if translator.meets_new(&columns)
                    && let Ok(devices) = client.known_devices()
                {
                    translator.learn(&devices);
                    shared.devices(devices);
                }
                let asked_ns = at_unix_ns - start_unix_ns..to_ns - start_unix_ns;
                let now_ns = now_ns - start_unix_ns;
                let complete_ns = add_ios(&mut translator, shared, &columns, asked_ns, now_ns);
                at_unix_ns = start_unix_ns + complete_ns;
                // A small response allows a longer range next time.
                if columns.done_unix_s.len() < MAX_IOS / 2 {
                    piece_ns = (piece_ns * 2).min(MAX_PIECE_NS);
                }
            }
            Err(e) => {
                shared.trouble(Some(format!("{e:#}")));
                std::thread::sleep(POLL);
                continue;
            }
        }
        shared.trouble(None);
        shared.complete(at_unix_ns - start_unix_ns);
        // A client that lags behind catches up without waiting.
        if now_ns - at_unix_ns < MAX_PIECE_NS + STORED_AFTER_NS {
            if let Ok(health) = client.get::<HealthAnswer>("/healthz") {
                let health_ns = wall_clock_ns() - start_unix_ns;
                shared.lost_of_last_minute(health.lost_ios.unwrap_or(0), health_ns);
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Adds the I/Os of a response for `asked_ns` to `shared`. Returns the time up to which they are complete. Later I/Os
/// are left out, because they are requested again. All times are nanoseconds since the start.
fn add_ios(
    translator: &mut Translator,
    shared: &SharedQueue,
    columns: &ServedColumns,
    asked_ns: Range<i64>,
    now_ns: i64,
) -> i64 {
    let mut ios = translator.ios(columns);
    let complete_ns = complete_to(&ios, asked_ns.end, now_ns).max(asked_ns.start);
    ios.retain(|io| (asked_ns.start..complete_ns).contains(&io.done_ns));
    shared.add(ios, std::mem::take(&mut translator.names));
    complete_ns
}

/// The time up to which everything is known: I/Os are stored in order, so all before the last one are there, and old
/// time is complete.
fn complete_to(ios: &[Io], to_ns: i64, now_ns: i64) -> i64 {
    let old_ns = (now_ns - STORED_AFTER_NS).min(to_ns);
    let last_ns = ios.last().map_or(i64::MIN, |io| io.done_ns / MS_NS * MS_NS);
    last_ns.min(to_ns).max(old_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Answers one question after the other with these bodies.
    fn answer(listener: &UnixListener, bodies: [&str; 2]) {
        for body in bodies {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut question = [0; 1024];
            let read_bytes = stream.read(&mut question).expect("a question");
            assert!(read_bytes > 0);
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").expect("it reads");
        }
    }

    #[test]
    fn the_root_of_a_service_that_records_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("iolens.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let service = std::thread::spawn(move || {
            let health = r#"{"recording": true, "source": "counters", "lost_ios": 0}"#;
            let recordings = r#"{"root": "/srv/io", "recordings": [], "notes": []}"#;
            answer(&listener, [health, recordings]);
        });
        let nowhere = dir.path().join("nowhere.sock");
        let root = ServeClient::find_root(vec![nowhere, socket]);
        service.join().expect("both were asked");
        assert_eq!(root, Some(PathBuf::from("/srv/io")));
    }
}
