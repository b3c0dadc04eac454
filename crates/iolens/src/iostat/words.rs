//! Resolves the words of a command line on this machine: which are devices, which are the interval and the count.

use super::list::{Ask, DeviceList};
use super::pattern::is_pattern;
use super::reader::{Alternate, Reader, Selection, in_root};
use crate::cli::iostat::{IostatPlan, Step};
use iolens_observe::counters::{PersistentNames, Root, mapper_target, sysfs_name};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

/// The shortest interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// A command line, resolved.
#[derive(Debug)]
pub struct Setup {
    /// Devices named on the command line.
    pub list: DeviceList,
    /// Devices to read.
    pub selection: Selection,
    /// Whether devices that were never used are shown.
    pub unfiltered: bool,
    /// Interval between reports; `None`: there is only one report.
    pub interval: Option<Duration>,
    /// Number of reports; `None`: unlimited.
    pub count: Option<u64>,
    /// `-j`.
    pub persistent: Option<PersistentNames>,
    /// The reader, which has looked up what was listed.
    pub reader: Reader,
}

impl Setup {
    /// Whether the reference supports the interval: whole seconds.
    pub fn whole_seconds(&self) -> bool {
        self.interval.is_none_or(|i| i.subsec_nanos() == 0)
    }
}

/// Why a command line ends the program before anything is read.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// `-V`.
    Version,
    /// Prints the help; exit code 1 as in the reference.
    Help,
    /// The usage, and exit code 1.
    Usage,
    /// An error message of the reference; exit code 1.
    Message(String),
    /// An error message about a feature that the reference does not have; exit code 2, as in all other commands.
    Own(String),
}

struct Resolver<'a> {
    root: &'a Root,
    reader: Reader,
    list: DeviceList,
    selection: Selection,
    unfiltered: bool,
    mapper: bool,
    persistent: Option<PersistentNames>,
    interval: Option<Duration>,
    count: Option<i64>,
}

/// Executes the steps of a plan under `root`. The first step that fails or ends the program determines the result.
pub fn resolve(plan: &IostatPlan, root: &Root) -> Result<Setup, Ending> {
    let selection = Selection {
        extended: plan.options.extended,
        ..Selection::default()
    };
    let mut r = Resolver {
        root,
        reader: Reader::new(root, None),
        list: DeviceList::default(),
        selection,
        unfiltered: false,
        mapper: false,
        persistent: None,
        interval: None,
        count: None,
    };
    // Names may be looked up by number later, but listed devices are looked up now, and only once.
    let o = &plan.options;
    let by_number = o.mapper_names || o.exact || o.percentiles;
    r.selection.numbers = by_number
        || plan
            .steps
            .iter()
            .any(|s| matches!(s, Step::PersistentNames(_)));
    for step in &plan.steps {
        r.step(step)?;
    }
    let once = r.interval.is_none_or(|i| i.is_zero());
    let count = if once {
        Some(1)
    } else {
        r.count.map(|c| c as u64)
    };
    if !r.unfiltered {
        r.selection.all = true;
    }
    Ok(Setup {
        list: r.list,
        selection: r.selection,
        unfiltered: r.unfiltered,
        interval: r.interval.filter(|i| !i.is_zero()),
        count,
        persistent: r.persistent,
        reader: r.reader,
    })
}

impl Resolver<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Ending> {
        match step {
            Step::Word(word) => self.word(word)?,
            Step::Number(n) => self.number(*n)?,
            Step::WithPartitions(word) if word == b"ALL" => self.everything(),
            Step::WithPartitions(word) => self.device(word, Ask::WithPartitions),
            Step::Unfiltered => self.unfiltered = true,
            Step::Everything => self.everything(),
            Step::Group(name) => {
                self.list.append_from_now_on();
                self.list
                    .add(&[b" ", name.as_slice()].concat(), Ask::Group, || {
                        (false, None)
                    });
            }
            Step::MapperNames => self.mapper = true,
            // The kind is the name of a directory under /dev/disk, which must exist.
            Step::PersistentNames(kind) => {
                let Some(names) = PersistentNames::of_kind(self.root, kind) else {
                    let message = "Invalid type of persistent device name";
                    return Err(Ending::Message(message.into()));
                };
                self.persistent = Some(names);
            }
            // Words are processed in order: a device named before this option was probed without it.
            Step::Directory(dir, both) => {
                if dir.as_os_str().is_empty() || !in_root(self.root, dir).is_dir() {
                    return Err(Ending::Usage);
                }
                let alternate = Alternate {
                    dir: dir.clone(),
                    both: *both,
                };
                self.reader = Reader::new(self.root, Some(&alternate));
                self.selection.alternate = Some(alternate);
            }
            Step::Version => return Err(Ending::Version),
            Step::Help => return Err(Ending::Help),
            Step::Usage => return Err(Ending::Usage),
            Step::Fail(message) => return Err(Ending::Own(message.clone())),
        }
        Ok(())
    }

    fn everything(&mut self) {
        self.selection.everything = true;
        self.list.append_from_now_on();
    }

    fn number(&mut self, n: i64) -> Result<(), Ending> {
        match (self.interval, self.count) {
            (None, _) => self.interval = Some(Duration::from_secs(n as u64)),
            (Some(i), None) if n >= 1 && !i.is_zero() => self.count = Some(n),
            _ => return Err(Ending::Usage),
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Ending> {
        if word == b"ALL" {
            self.unfiltered = true;
            self.selection.all = true;
            return Ok(());
        }
        if self.interval.is_none()
            && let Some(interval) = duration(word)
            && !self.is_device(word)
        {
            if interval < MIN_INTERVAL {
                let word = String::from_utf8_lossy(word);
                return Err(Ending::Own(format!(
                    "interval {word} is too short; the shortest is 1ms"
                )));
            }
            self.interval = Some(interval);
            return Ok(());
        }
        self.unfiltered = true;
        self.device(word, Ask::Device);
        Ok(())
    }

    fn is_device(&self, word: &[u8]) -> bool {
        let word = OsStr::from_bytes(word);
        ["/sys/block", "/sys/class/block"]
            .iter()
            .any(|dir| self.root.exists(Path::new(dir).join(word)))
    }

    fn device(&mut self, word: &[u8], ask: Ask) {
        if is_pattern(word) && !self.is_device(word) {
            let word = word.strip_prefix(b"/dev/").unwrap_or(word);
            self.selection
                .patterns
                .push((word.to_vec(), ask == Ask::WithPartitions));
            return;
        }
        let mapped = self
            .mapper
            .then(|| mapper_target(self.root, word))
            .flatten();
        let typed = mapped.is_some() && !word.contains(&b'/');
        let mut name = mapped.unwrap_or_else(|| self.device_name(word));
        if let Some(kernel) = self
            .persistent
            .as_ref()
            .and_then(|p| p.target(self.root, &name))
        {
            name = kernel;
        }
        let reader = &mut self.reader;
        self.list
            .add_typed(&name, if typed { word } else { &name }, ask, || {
                reader.probe(&name, true)
            });
    }

    /// The name in sysfs of a device given as a kernel name, a path to its node, or a link to that.
    fn device_name(&self, word: &[u8]) -> Vec<u8> {
        let path = Path::new(OsStr::from_bytes(word));
        let resolved = if self.is_device(&sysfs_name(word)) {
            None
        } else if self.root.is_live() {
            std::fs::canonicalize(path).ok()
        } else if path.is_absolute() {
            self.root.canonical(path)
        } else {
            None
        };
        match resolved {
            Some(path) => sysfs_name(strip_dev(&path.into_os_string().into_vec())),
            // On a live machine, a path that does not exist stays unchanged. A recorded sample may lack the device
            // node.
            None if self.root.is_live() && path.is_absolute() => word.to_vec(),
            None => sysfs_name(strip_dev(word)),
        }
    }
}

fn strip_dev(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"/dev/").unwrap_or(path)
}

/// `0.5`, `100ms`, `2s`, `1.5m`: a number with a fraction, a unit or both. Plain digits have the reference's meaning.
fn duration(word: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(word).ok()?;
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds: f64 = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return None;
    }
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_not_names() {
        let ms = |w: &str| duration(w.as_bytes()).map(|d| d.as_millis());
        assert_eq!(
            (ms("0.5"), ms("100ms"), ms("1.5m"), ms("2s")),
            (Some(500), Some(100), Some(90_000), Some(2000))
        );
        for w in [
            "sda", "1sda", ".5", "1.", "1.2.3", "ms", "", "1e3", "-1s", "0x1",
        ] {
            assert_eq!(ms(w), None, "{w}");
        }
    }

    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for d in ["sda", "0.5", "cciss!c0d0"] {
            std::fs::create_dir_all(dir.path().join("sys/block").join(d)).expect("made");
        }
        dir
    }

    fn setup(line: &str) -> Result<Setup, Ending> {
        let dir = machine();
        let plan = crate::cli::iostat::parse(
            OsStr::new("iostat"),
            line.split(' ').map(std::ffi::OsString::from),
        );
        resolve(&plan, &Root::recorded(dir.path()))
    }

    fn names(s: &Setup) -> Vec<String> {
        s.list
            .entries()
            .iter()
            .map(|e| String::from_utf8_lossy(&e.name).into_owned())
            .collect()
    }

    #[test]
    fn intervals_and_counts() {
        let of = |line: &str| setup(line).map(|s| (s.interval.map(|i| i.as_millis()), s.count));
        assert_eq!(of("-x"), Ok((None, Some(1))));
        assert_eq!(of("0"), Ok((None, Some(1))));
        assert_eq!(of("2"), Ok((Some(2000), None)));
        assert_eq!(of("2 5"), Ok((Some(2000), Some(5))));
        assert_eq!(of("100ms 5"), Ok((Some(100), Some(5))));
        assert_eq!(of("0.25"), Ok((Some(250), None)));
        for line in ["1 0", "0 5", "1 2 3"] {
            assert_eq!(of(line), Err(Ending::Usage), "{line}");
        }
        assert!(matches!(of("0.0001"), Err(Ending::Own(_))));
    }

    #[test]
    fn a_device_with_a_duration_s_name_wins() {
        let s = setup("0.5 2").expect("resolved");
        assert_eq!(
            (names(&s), s.interval),
            (vec!["0.5".to_owned()], Some(Duration::from_secs(2)))
        );
        let s = setup("0.25 2").expect("resolved");
        assert_eq!((names(&s).len(), s.count), (0, Some(2)));
    }

    #[test]
    fn arguments_become_sysfs_names() {
        let s = setup("/dev/sda cciss/c0d0 sda nosuch").expect("resolved");
        assert_eq!(names(&s), ["cciss!c0d0", "nosuch", "sda"]);
        assert!(s.unfiltered && !s.selection.all);
        let s = setup("sda ALL").expect("resolved");
        assert!(s.unfiltered && s.selection.all);
        let s = setup("-p ALL").expect("resolved");
        assert!(s.unfiltered && s.selection.everything);
        let s = setup("-p").expect("resolved");
        assert!(!s.unfiltered && s.selection.everything);
        let s = setup("nvme*").expect("resolved");
        assert_eq!(
            (s.selection.patterns, s.unfiltered),
            (vec![(b"nvme*".to_vec(), false)], true)
        );
    }

    #[test]
    fn what_ends_the_program() {
        assert_eq!(setup("-V").err(), Some(Ending::Version));
        assert_eq!(setup("-f /none").err(), Some(Ending::Usage));
        assert_eq!(
            setup("-j foo -q").err(),
            Some(Ending::Message(
                "Invalid type of persistent device name".into()
            ))
        );
    }
}
