//! Looks up the names of files and cgroups of I/Os on a separate thread; they are written when found and when they
//! change.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use iolens_core::model::{Container, Io, Name, Named, Observation, Origin};
use iolens_observe::topology::{PathLookup, Pods};

/// Maximum number of waiting lookups. Further ones are requested again at the next I/O.
const MAX_WAITING: usize = 256;
/// Pause after each lookup (which takes some ten microseconds), so that there are at most 500 per second under any
/// load.
const REST: Duration = Duration::from_millis(2);
/// How long the end of the recording waits for open lookups.
const MAX_FINISH_WAIT: Duration = Duration::from_millis(500);
/// Interval after which a name is looked up again, because the file may have been renamed. (A file that reuses the
/// inode number has another generation, and is another [`Named`].)
const ASK_AGAIN_NS: i64 = 10_000_000_000;
/// Interval after which an unchanged name is written again, because the size limit may have removed it.
const WRITE_AGAIN_NS: i64 = 300_000_000_000;
/// Interval after which a failed lookup is repeated.
const TRY_AGAIN_NS: i64 = 5_000_000_000;
/// Numbers remembered in each of two generations. Those not seen during the life of the younger generation are
/// forgotten.
const MAX_GENERATION: usize = 1 << 14;

struct Question {
    of: Named,
    tgid: Option<i32>,
}

struct Answer {
    of: Named,
    text: Option<String>,
}

/// What is known about a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct KnownName {
    /// Time at which to look it up (again).
    ask_ns: i64,
    /// Time at which its name was last written, and the hash of the name.
    written: Option<(i64, u64)>,
}

/// The loop of the thread. It ends when no more questions can come or no one receives answers. It pauses between
/// questions unless it is to `hurry`.
fn look_up_all(
    asked: Receiver<Question>,
    answers: SyncSender<Answer>,
    mut pods: Pods,
    hurry: &AtomicBool,
) {
    let mut names = PathLookup::new();
    for q in asked {
        let text = match q.of {
            Named::File(inode) => names.file(inode, q.tgid),
            Named::Cgroup(id) => names.cgroup(id),
            Named::Pod(id) => pod(names.cgroup(id), &mut pods),
            Named::Unknown => None,
        };
        if answers.send(Answer { of: q.of, text }).is_err() {
            return;
        }
        if !hurry.load(Ordering::Relaxed) {
            std::thread::sleep(REST);
        }
    }
}

/// Collects unknown numbers on the writer's thread. Lookups run on their own thread, because a path on a hanging disk
/// may never be found, and such disks are what gets recorded.
pub struct NameLookup {
    questions: Option<SyncSender<Question>>,
    answers: Receiver<Answer>,
    hurry: Arc<AtomicBool>,
    waiting: usize,
    /// Whether this machine runs Kubernetes pods.
    pods: bool,
    young: HashMap<Named, KnownName>,
    old: HashMap<Named, KnownName>,
    hasher: RandomState,
}

impl NameLookup {
    /// Starts the thread. If that fails, no names are found.
    pub fn start() -> NameLookup {
        let (ask, asked) = sync_channel::<Question>(MAX_WAITING);
        let (answer, answers) = sync_channel(MAX_WAITING);
        let hurry = Arc::new(AtomicBool::new(false));
        let hurried = Arc::clone(&hurry);
        let pods = Pods::new(Path::new("/"));
        let has_pods = pods.are_here();
        let thread = std::thread::Builder::new()
            .name("iolens-names".to_owned())
            .spawn(move || look_up_all(asked, answer, pods, &hurried));
        NameLookup {
            questions: thread.is_ok().then_some(ask),
            answers,
            hurry,
            waiting: 0,
            pods: has_pods,
            young: HashMap::new(),
            old: HashMap::new(),
            hasher: RandomState::new(),
        }
    }

    /// Requests the names of files and groups that are new in `ios`. An I/O like the previous one costs one comparison.
    pub fn note(&mut self, ios: &[Io], now_ns: i64) {
        // Reset for each batch, because a file with continuous I/O must be looked up again eventually.
        let mut last_file = None;
        let mut last_cgroup = None;
        for io in ios {
            let file = io
                .inode()
                .filter(|_| !matches!(io.origin, Origin::Metadata | Origin::Journal));
            if file != last_file {
                last_file = file;
                if let Some(inode) = file {
                    self.ask(Named::File(inode), io.tgid, now_ns);
                }
            }
            if io.cgroup != last_cgroup {
                last_cgroup = io.cgroup;
                if let Some(id) = io.cgroup {
                    self.ask(Named::Cgroup(id), None, now_ns);
                    if self.pods {
                        self.ask(Named::Pod(id), None, now_ns);
                    }
                }
            }
        }
    }

    fn ask(&mut self, of: Named, tgid: Option<i32>, now_ns: i64) {
        let known = self.known(of);
        if known.is_some_and(|k| now_ns < k.ask_ns) || self.waiting >= MAX_WAITING {
            return;
        }
        if self
            .questions
            .as_ref()
            .is_some_and(|q| q.try_send(Question { of, tgid }).is_ok())
        {
            self.waiting += 1;
            // Valid until the answer arrives.
            self.remember(
                of,
                KnownName {
                    ask_ns: now_ns + ASK_AGAIN_NS,
                    ..known.unwrap_or_default()
                },
            );
        }
    }

    /// What is known about `of`; this also moves it to the younger generation.
    fn known(&mut self, of: Named) -> Option<KnownName> {
        self.young.get(&of).copied().or_else(|| {
            let known = self.old.remove(&of)?;
            self.remember(of, known);
            Some(known)
        })
    }

    fn remember(&mut self, of: Named, known: KnownName) {
        if self.young.len() >= MAX_GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(of, known);
    }

    /// The names found since the last call.
    pub fn found(&mut self, now_ns: i64) -> Vec<Observation> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let answers: Vec<Answer> = self.answers.try_iter().collect();
        answers
            .into_iter()
            .filter_map(|a| self.take(a, now_ns))
            .collect()
    }

    fn take(&mut self, answer: Answer, now_ns: i64) -> Option<Observation> {
        self.waiting -= 1;
        let known = self.known(answer.of).unwrap_or_default();
        let Some(text) = answer.text else {
            self.remember(
                answer.of,
                KnownName {
                    ask_ns: now_ns + TRY_AGAIN_NS,
                    ..known
                },
            );
            return None;
        };
        let hash = self.hasher.hash_one(&text);
        if known
            .written
            .is_some_and(|(at_ns, last)| last == hash && now_ns < at_ns + WRITE_AGAIN_NS)
        {
            return None;
        }
        self.remember(
            answer.of,
            KnownName {
                written: Some((now_ns, hash)),
                ..known
            },
        );
        Some(Observation::Name(Name {
            at_ns: now_ns,
            of: answer.of,
            text,
        }))
    }

    /// Returns the last answers. Does not wait for a lookup that hangs.
    pub fn finish(&mut self, now_ns: i64) -> Vec<Observation> {
        self.hurry.store(true, Ordering::Relaxed);
        self.questions = None;
        let until = Instant::now() + MAX_FINISH_WAIT;
        let mut found = Vec::new();
        while self.waiting > 0 {
            match self
                .answers
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(answer) => found.extend(self.take(answer, now_ns)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        found
    }
}

/// The pod or container name of the control group at `path`.
fn pod(path: Option<String>, pods: &mut Pods) -> Option<String> {
    pods.name(&Container::of(&path?)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use iolens_core::model::{DevId, Inode, Op};
    use std::os::unix::fs::MetadataExt as _;

    fn io(fs_dev: i32, ino: i64) -> Io {
        let mut io = Io::new(1, DevId::new(8, 0), Op::WRITE, 4096, None, 20);
        io.fs_dev = Some(fs_dev);
        io.ino = Some(ino);
        io.tgid = i32::try_from(std::process::id()).ok();
        io
    }

    #[test]
    fn a_file_is_reported_once_and_a_missing_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("held");
        let meta = std::fs::File::create(&path).unwrap().metadata().unwrap();
        let _held = std::fs::File::open(&path).unwrap();
        let dev = DevId::new(rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())).0;
        let here = io(dev, meta.ino() as i64);
        let gone = io(-1, 77);
        let mut seeker = NameLookup::start();
        seeker.note(&[here, here, gone, here, gone], 5);
        assert_eq!(seeker.waiting, 2);
        let of = Named::File(Inode {
            fs_dev: dev,
            ino: meta.ino() as i64,
            generation: None,
        });
        let text = path.to_str().unwrap().to_owned();
        let found = seeker.finish(9);
        if !std::fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains("btrfs")
        {
            assert_eq!(found, [Observation::Name(Name { at_ns: 9, of, text })]);
        }
        assert_eq!(seeker.young[&of].ask_ns, 5 + ASK_AGAIN_NS);
        assert_eq!(
            seeker.young[&Named::File(gone.inode().unwrap())].ask_ns,
            9 + TRY_AGAIN_NS
        );
    }

    #[test]
    fn a_name_is_rewritten_when_it_changes_or_expires() {
        let mut seeker = NameLookup::start();
        let of = Named::File(Inode {
            fs_dev: -1,
            ino: 5,
            generation: Some(3),
        });
        let mut take = |text: &str, now_ns| {
            seeker.waiting += 1;
            seeker
                .take(
                    Answer {
                        of,
                        text: Some(text.to_owned()),
                    },
                    now_ns,
                )
                .is_some()
        };
        assert!(take("/a", 0) && !take("/a", 10), "unchanged");
        assert!(
            take("/b", 20) && take("/a", 30),
            "renamed, and renamed back"
        );
        assert!(!take("/a", 29 + WRITE_AGAIN_NS) && take("/a", 30 + WRITE_AGAIN_NS));
        let mut next = io(-1, 5);
        next.generation = Some(4);
        seeker.note(&[next], 31);
        assert_eq!(
            seeker.waiting, 1,
            "another file with the number is requested at once"
        );
    }

    #[test]
    fn many_new_files_neither_block_nor_grow_memory() {
        let mut seeker = NameLookup::start();
        let ios: Vec<Io> = (0..100_000).map(|i| io(-1, i)).collect();
        seeker.note(&ios, 0);
        assert!(seeker.waiting <= MAX_WAITING);
        for i in 0..10 * MAX_GENERATION as i64 {
            seeker.remember(Named::Cgroup(i), KnownName::default());
        }
        assert!(seeker.young.len() + seeker.old.len() <= 2 * MAX_GENERATION);
    }
}
