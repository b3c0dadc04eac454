//! `iolens iostat`: the reference program's own argument grammar, which no option library supports.
//!
//! One pass from left to right. What an option means is settled here; words whose meaning depends on the machine (is this
//! a device?) or on the options before them become [`Step`]s, to be carried out in their order. A mistake is a step
//! too, so that an earlier step that fails or ends the program wins, as in the reference.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Longest group name that is kept, in bytes.
const GROUP_NAME_BYTES: usize = 254;
/// A kind of persistent name this long is a usage error.
const KIND_BYTES: usize = 511;

/// Where the counters are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// This machine.
    #[default]
    Live,
    /// This machine, seen under a prefix.
    Under(PathBuf),
    /// Recorded samples: one directory each.
    Replay(PathBuf),
}

/// Unit of sizes and rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// KiB.
    Kilo,
    /// MiB.
    Mega,
    /// GiB.
    Giga,
}

/// What the output is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IostatFormat {
    /// Tables as text.
    #[default]
    Plain,
    /// One JSON document for the run.
    Json,
    /// One JSON object per device and report.
    Ndjson,
    /// One line per device and report.
    Csv,
}

/// A line before each report that says when it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stamp {
    /// No time stamps.
    #[default]
    No,
    /// Date and time of the locale, or ISO 8601.
    Local,
    /// Seconds since the Unix epoch.
    Epoch,
}

/// Everything whose position on the command line does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// `-c`.
    pub cpu: bool,
    /// `-d`.
    pub disk: bool,
    /// `-x`.
    pub extended: bool,
    /// `-s`.
    pub short: bool,
    /// `-k`, `-m`, `-G`.
    pub unit: Option<Unit>,
    /// `--human`, `-h`.
    pub human: bool,
    /// `--pretty`, `-h`, `-j`.
    pub pretty: bool,
    /// `--compact`.
    pub compact: bool,
    /// `--dec=N`.
    pub decimals: Option<u8>,
    /// `-t`, `-U`.
    pub stamp: Stamp,
    /// `-y`.
    pub omit_first: bool,
    /// `-z`.
    pub omit_idle: bool,
    /// `-H`.
    pub hide_members: bool,
    /// `-N`.
    pub mapper_names: bool,
    /// `-o`.
    pub format: IostatFormat,
    /// `--true`: exact busy time and the number in flight, from single I/Os.
    pub exact: bool,
    /// `--hist`: percentiles of latency, from single I/Os.
    pub percentiles: bool,
}

/// Something that is done in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A word that is no option and not all digits: a device, a pattern, `ALL`, or an interval with a fraction or unit.
    Word(Vec<u8>),
    /// A word of digits: the interval, then the count. Saturates.
    Number(i64),
    /// An item of `-p`'s list: a disk with its partitions, or `ALL`.
    WithPartitions(Vec<u8>),
    /// `-p` had a list, even an empty one: unused devices are shown.
    Unfiltered,
    /// `-p` without a list: everything of `/proc/diskstats`.
    Everything,
    /// `-g`: what follows belongs to this group.
    Group(Vec<u8>),
    /// `-N`: words from here on may be device-mapper names.
    MapperNames,
    /// `-j`: words from here on may be persistent names of this kind.
    PersistentNames(String),
    /// `-f`, `+f`: another statistics directory, instead of the kernel's or (`true`) beside them.
    Directory(PathBuf, bool),
    /// `-V`: print the version and end.
    Version,
    /// `--help`: the usage, and what the reference does not have.
    Help,
    /// A mistake that the reference answers with its usage.
    Usage,
    /// A mistake in what the reference does not have: a message.
    Fail(String),
}

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IostatPlan {
    /// The program's name for its usage.
    pub program: OsString,
    /// Where the counters are read.
    pub source: Source,
    /// What does not depend on order.
    pub options: Options,
    /// What does. A [`Step::Usage`] or [`Step::Fail`] is the last.
    pub steps: Vec<Step>,
}

/// Parses the words after the program's name.
pub fn parse(program: &OsStr, words: impl IntoIterator<Item = OsString>) -> IostatPlan {
    let mut plan = IostatPlan {
        program: program.to_owned(),
        ..IostatPlan::default()
    };
    let words: Vec<Vec<u8>> = words.into_iter().map(OsStringExt::into_vec).collect();
    let mut rest = Words {
        words: &words,
        at: 0,
    };
    while let Some(word) = rest.next() {
        if let Err(mistake) = plan.word(word, &mut rest) {
            plan.steps.push(mistake);
            return plan;
        }
        if plan.steps.last() == Some(&Step::Version) {
            return plan;
        }
    }
    let grouped = plan.steps.iter().any(|s| matches!(s, Step::Group(_)));
    if plan.options.hide_members && !grouped {
        plan.steps.push(Step::Usage);
    }
    plan
}

struct Words<'a> {
    words: &'a [Vec<u8>],
    at: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// The argument of an option; without one, a usage error.
    fn argument(&mut self) -> Result<&'a [u8], Step> {
        self.next().ok_or(Step::Usage)
    }

    /// The next word if it can be the list of `-p`.
    fn partition_list(&mut self) -> Option<&'a [u8]> {
        let word = self
            .words
            .get(self.at)
            .filter(|w| !all_digits(w) && !w.starts_with(b"-"))?;
        self.at += 1;
        Some(word)
    }
}

/// As C's `strspn` sees it: an empty word consists of digits too.
fn all_digits(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit)
}

impl IostatPlan {
    fn word(&mut self, word: &[u8], rest: &mut Words<'_>) -> Result<(), Step> {
        match word {
            b"-p" => match rest.partition_list() {
                Some(list) => {
                    self.steps.push(Step::Unfiltered);
                    let items = list.split(|b| *b == b',').filter(|i| !i.is_empty());
                    self.steps
                        .extend(items.map(|i| Step::WithPartitions(i.to_vec())));
                }
                None => self.steps.push(Step::Everything),
            },
            b"-g" => {
                let name = rest.argument()?;
                self.steps.push(Step::Group(
                    name[..name.len().min(GROUP_NAME_BYTES)].to_vec(),
                ));
            }
            b"--help" => return Err(Step::Help),
            b"--human" => self.options.human = true,
            b"--pretty" => self.options.pretty = true,
            b"--true" => self.options.exact = true,
            b"--hist" => self.options.percentiles = true,
            b"--compact" => self.options.compact = true,
            b"--dec=0" | b"--dec=1" | b"--dec=2" => self.options.decimals = Some(word[6] - b'0'),
            b"-f" | b"+f" => {
                let both = word == b"+f";
                let repeated = self.steps.iter().any(|s| matches!(s, Step::Directory(..)));
                let dir = rest.argument()?;
                if repeated {
                    return Err(Step::Usage);
                }
                self.steps
                    .push(Step::Directory(PathBuf::from(OsStr::from_bytes(dir)), both));
            }
            b"-j" => {
                let kind = rest.argument()?;
                let Ok(text) = std::str::from_utf8(kind) else {
                    return Err(Step::Usage);
                };
                if kind.len() >= KIND_BYTES {
                    return Err(Step::Usage);
                }
                self.options.pretty = true;
                self.steps
                    .push(Step::PersistentNames(text.to_ascii_lowercase()));
            }
            b"-o" => {
                self.options.format = match rest.argument()? {
                    b"JSON" => IostatFormat::Json,
                    b"NDJSON" => IostatFormat::Ndjson,
                    b"CSV" => IostatFormat::Csv,
                    _ => return Err(Step::Usage),
                }
            }
            b"--root" | b"--replay" => {
                let name = String::from_utf8_lossy(word).into_owned();
                let dir = rest.next().ok_or(Step::Fail(format!(
                    "{name} needs a directory, as in {name} DIR"
                )))?;
                self.source(word, dir)?;
            }
            _ if word.starts_with(b"--root=") || word.starts_with(b"--replay=") => {
                let at = word.iter().position(|b| *b == b'=').unwrap_or(0);
                self.source(&word[..at], &word[at + 1..])?;
            }
            [b'-', letters @ ..] => {
                for letter in letters {
                    self.letter(*letter)?;
                    if self.steps.last() == Some(&Step::Version) {
                        return Ok(());
                    }
                }
            }
            _ if all_digits(word) => self.steps.push(Step::Number(number(word))),
            _ => self.steps.push(Step::Word(word.to_vec())),
        }
        Ok(())
    }

    fn source(&mut self, option: &[u8], dir: &[u8]) -> Result<(), Step> {
        if self.source != Source::Live {
            return Err(Step::Fail(
                "--root and --replay can be given only once".into(),
            ));
        }
        let dir = PathBuf::from(OsStr::from_bytes(dir));
        self.source = if option == b"--root" {
            Source::Under(dir)
        } else {
            Source::Replay(dir)
        };
        Ok(())
    }

    fn letter(&mut self, letter: u8) -> Result<(), Step> {
        let o = &mut self.options;
        match letter {
            b'c' => o.cpu = true,
            b'd' => o.disk = true,
            b'G' => o.unit = Some(only(o.unit, Unit::Giga)?),
            b'H' => o.hide_members = true,
            b'h' => (o.human, o.pretty) = (true, true),
            b'k' => o.unit = Some(only(o.unit, Unit::Kilo)?),
            b'm' => o.unit = Some(only(o.unit, Unit::Mega)?),
            b'N' => {
                o.mapper_names = true;
                self.steps.push(Step::MapperNames);
            }
            b'p' => self.steps.push(Step::Everything),
            b's' => o.short = true,
            b't' if o.stamp == Stamp::Epoch => {}
            b't' => o.stamp = Stamp::Local,
            b'U' => o.stamp = Stamp::Epoch,
            b'x' => o.extended = true,
            b'y' => o.omit_first = true,
            b'z' => o.omit_idle = true,
            b'V' => self.steps.push(Step::Version),
            _ => return Err(Step::Usage),
        }
        Ok(())
    }
}

/// Two different units are a usage error.
fn only(had: Option<Unit>, unit: Unit) -> Result<Unit, Step> {
    if had.is_none_or(|h| h == unit) {
        Ok(unit)
    } else {
        Err(Step::Usage)
    }
}

/// As C's `atol` reads digits: it saturates, and an empty word is 0.
fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0i64, |n, d| {
        n.saturating_mul(10).saturating_add(i64::from(d - b'0'))
    })
}

/// What `--help` adds to the usage: what the reference does not have.
pub const MORE_HELP: &[u8] = b"Beside sysstat's:\n\
[ --true ] exact busy time and I/Os in flight, from eBPF\n\
[ --hist ] percentiles of latency, from eBPF\n\
[ -o { NDJSON | CSV } ] [ --replay <directory> ] [ --root <directory> ]\n\
<interval>: also 0.1, 100ms, 1.5s, 2m   <device>: also a pattern, as 'nvme*'\n\
docs/iostat.md and `iolens help iostat` say more.\n";

/// The usage, as the reference prints it on standard error.
pub fn usage(program: &OsStr) -> Vec<u8> {
    let mut out = b"Usage: ".to_vec();
    out.extend_from_slice(program.as_bytes());
    out.extend_from_slice(
        b" [ options ] [ <interval> [ <count> ] ]\n\
Options are:\n\
[ -c ] [ -d ] [ -h ] [ -k | -m | -G ] [ -N ] [ -s ] [ -t ] [ -U ] [ -V ] [ -x ] [ -y ] [ -z ]\n\
[ { -f | +f } <directory> ] [ -j { ID | LABEL | PATH | UUID | ... } ]\n\
[ --compact ] [ --dec={ 0 | 1 | 2 } ] [ --human ] [ --pretty ] [ -o JSON ]\n\
[ [ -H ] -g <group_name> ] [ -p [ <device> [,...] | ALL ] ]\n\
[ <device> [...] | ALL ]\n",
    );
    out
}

#[cfg(test)]
#[path = "iostat_tests.rs"]
mod tests;
