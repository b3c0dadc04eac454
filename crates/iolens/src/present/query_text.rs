//! Texts for errors of queries and for notes beside answers, for the command line and for HTTP. Each names options or
//! parameters in its own syntax.

use std::path::Path;

use iolens_core::analysis::timeline::{MAX_ROWS, PlanError};
use iolens_core::model::{MS_NS, ceil_to, floor_to};

use super::escape;
use super::layout::duration;
use super::record_text::shell_word;
use super::times::rfc3339;
use crate::engine::error::{DevicesOnly, Distinction, QueryError, Stretch, WindowBound};
use crate::engine::note::Note;

/// The syntax in which options are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `--from T --to T`.
    Flags,
    /// `from=T&to=T`.
    Parameters,
    /// `--before T..T`: one option, with this name, that contains both ends.
    Ends(&'static str),
}

impl Spelling {
    fn name(self, name: &str) -> String {
        match self {
            Spelling::Flags => format!("--{name}"),
            Spelling::Parameters => name.to_owned(),
            Spelling::Ends(option) => match name {
                "from" => format!("the beginning of {option}"),
                "to" => format!("the end of {option}"),
                _ => option.to_owned(),
            },
        }
    }

    /// What selects one of several recordings.
    fn choice(self) -> String {
        match self {
            Spelling::Flags | Spelling::Parameters => {
                format!("{} or {}", self.name("at"), self.name("from"))
            }
            Spelling::Ends(option) => option.to_owned(),
        }
    }

    fn bound(self, bound: WindowBound) -> String {
        self.name(match bound {
            WindowBound::At => "at",
            WindowBound::From => "from",
            WindowBound::To => "to",
        })
    }

    /// The stretch in a form that can be typed.
    fn stretch(self, stretch: Stretch) -> String {
        let from = rfc3339(stretch.from_unix_ns);
        let to = rfc3339(stretch.to_unix_ns);
        match self {
            Spelling::Flags => format!("--from {from} --to {to}"),
            Spelling::Parameters => format!("from={from}&to={to}"),
            Spelling::Ends(option) => format!("{option} {from}..{to}"),
        }
    }

    /// A place at the start of a sentence. HTTP clients need not know where recordings are stored.
    fn place(self, place: &Path) -> String {
        match self {
            Spelling::Flags | Spelling::Ends(_) => format!("{}: ", place.display()),
            Spelling::Parameters => String::new(),
        }
    }

    /// The size limit as a phrase: it is an option of the recorder, not of a request.
    fn size_limit(self) -> &'static str {
        match self {
            Spelling::Flags | Spelling::Ends(_) => "the size limit (--keep)",
            Spelling::Parameters => "the size limit",
        }
    }
}

/// Start and end of a stretch, rounded outwards to milliseconds: proposed values contain all digits.
fn ends(stretch: Stretch) -> [String; 2] {
    let from_ns = floor_to(stretch.from_unix_ns, MS_NS);
    let to_ns = ceil_to(stretch.to_unix_ns, MS_NS);
    [rfc3339(from_ns), rfc3339(to_ns)]
}

/// Maximum number of devices named in a sentence, because a machine may have hundreds.
const MAX_NAMED: usize = 8;

/// The first names of a list, and the number of others.
pub fn some_of(names: &[String]) -> String {
    let shown = names[..names.len().min(MAX_NAMED)].join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The error for a `name` that matches no device; the known ones are listed.
pub fn no_such_device(name: &str, known: &[String]) -> String {
    match known {
        [] => format!("{name}: no such device; there is none"),
        _ => format!("{name}: no such device; there are {}", some_of(known)),
    }
}

/// The text of an error: for errors of queries as by [`error`], else its own text.
pub fn failure(e: &anyhow::Error, spelling: Spelling) -> String {
    match e.downcast_ref::<QueryError>() {
        Some(e) => error(e, spelling),
        None => format!("{e:#}"),
    }
}

/// The text of an error of a query. Names contained in it are not escaped yet.
pub fn error(e: &QueryError, spelling: Spelling) -> String {
    match e {
        QueryError::Store(e) => e.to_string(),
        QueryError::TooSlow(e) => e.to_string(),
        QueryError::Plan(PlanError::TooManyRows) => format!(
            "more than {MAX_ROWS} rows: choose a longer step or a shorter stretch ({}, {}, {})",
            spelling.name("step"),
            spelling.name("from"),
            spelling.name("to")
        ),
        QueryError::Plan(e) => e.to_string(),
        QueryError::Io(e) => e.to_string(),
        QueryError::NothingReadable { damage, repairable } => {
            // A request cannot name a recording by its path.
            let advice = match (repairable, spelling) {
                (Some(path), Spelling::Flags | Spelling::Ends(_)) => format!(
                    "; iolens repair {} -o NEW saves what is left",
                    shell_word(path)
                ),
                _ => String::new(),
            };
            format!(
                "{}; no I/O of it can be read, so there is nothing to show{advice}",
                escape::terminal(damage)
            )
        }
        QueryError::SeveralWithSums {
            recordings,
            longest,
        } => format!(
            "this time spans {recordings} recordings, and of some the size limit left only sums; choose a part: {}",
            spelling.stretch(*longest)
        ),
        QueryError::SeveralSources {
            recordings,
            longest,
        } => format!(
            "this time spans {recordings} recordings of different sources; choose a part: {}",
            spelling.stretch(*longest)
        ),
        QueryError::NothingThen { place, nearest } => {
            let nearest = nearest.map(|n| format!("; the nearest one is {}", spelling.stretch(n)));
            format!(
                "{}no recording holds anything of this time{}",
                spelling.place(place),
                nearest.unwrap_or_default()
            )
        }
        QueryError::Outside {
            bound,
            at_ns,
            end_ns,
        } => format!(
            "{} is {:.3} s from the recording's start, which has 0 to {:.3} s",
            spelling.bound(*bound),
            seconds(*at_ns),
            seconds(*end_ns)
        ),
        QueryError::NotRecordedAt {
            bound,
            unix_ns,
            recorded,
        } => {
            let [from, to] = ends(*recorded);
            format!(
                "{} {}: nothing was recorded then; there is {from} to {to}",
                spelling.bound(*bound),
                rfc3339(floor_to(*unix_ns, MS_NS)),
            )
        }
        QueryError::NeedsWallClock { bound, place } => {
            let is_root = match spelling {
                Spelling::Flags | Spelling::Ends(_) => {
                    format!("{} is a recording root; ", place.display())
                }
                Spelling::Parameters => String::new(),
            };
            format!(
                "{}: {is_root}seconds count from the start of a single recording: give a wall-clock time (2026-11-21T05:48:00Z, -5m)",
                spelling.bound(*bound)
            )
        }
        QueryError::EndsBefore(stretch) => format!(
            "{} ({}) is not after {} ({})",
            spelling.name("to"),
            rfc3339(stretch.to_unix_ns),
            spelling.name("from"),
            rfc3339(stretch.from_unix_ns)
        ),
        QueryError::EndsBeforeSinceStart { from_ns, to_ns } => format!(
            "{} ({:.3} s) is not after {} ({:.3} s)",
            spelling.name("to"),
            seconds(*to_ns),
            spelling.name("from"),
            seconds(*from_ns)
        ),
        QueryError::Empty(_) if spelling == Spelling::Parameters => {
            "there is no recording yet".to_owned()
        }
        QueryError::Empty(place) => format!(
            "{}: holds no recording yet (they are called host=NAME/start_ns=NANOSECONDS)",
            place.display()
        ),
        QueryError::Unreadable(place) => {
            format!("{}no recording can be read", spelling.place(place))
        }
        QueryError::ManyHosts {
            place,
            hosts,
            directory,
        } => {
            format!(
                "{place}: holds recordings of {} hosts ({}): give one, as {place}/{directory}",
                hosts.len(),
                some_of(hosts),
                place = place.display()
            )
        }
        QueryError::NoSuchTimeOfDay { time, recorded } => {
            let [from, to] = ends(*recorded);
            format!(
                "{} {time}: nothing was recorded at this time of day; there is {from} to {to}",
                spelling.name("at"),
            )
        }
        QueryError::NoSuchTime => "the time is out of range".to_owned(),
        QueryError::TooManyDays(days) => format!(
            "{days} days are too many at once: are the recording's times right? Choose a part with {} and {}",
            spelling.name("from"),
            spelling.name("to")
        ),
        QueryError::Removed { before_ns } => format!(
            "{} removed what came before {:.3} s: choose a later part",
            spelling.size_limit(),
            seconds(*before_ns)
        ),
        QueryError::NoSuchDevice { name, known } => no_such_device(name, known),
        QueryError::OnlyDevices { wanted, because } => only_devices(*wanted, *because, spelling),
        QueryError::SumsWithoutActors => format!(
            "{}: {REMOVED}; the sums that are left do not say who caused them",
            spelling.name("by")
        ),
        QueryError::SumsOfStep(step_s) => format!(
            "{REMOVED}; sums of {step_s} s are left: give a {} of {step_s}s or a multiple",
            spelling.name("step")
        ),
        QueryError::SumsWithoutQueueTime => format!(
            "{}: {REMOVED}; the sums that are left know total and device time",
            spelling.name("part")
        ),
        QueryError::SumsOnly => {
            format!("{REMOVED}; series and heatmap show the sums that are left")
        }
        QueryError::MostlyEmpty {
            intervals,
            step_ns,
            filled,
        } => format!(
            "{intervals} intervals of {} s, of which at most {filled} have data: choose a longer step or a shorter stretch ({}, {}, {})",
            seconds(*step_ns),
            spelling.name("step"),
            spelling.name("from"),
            spelling.name("to")
        ),
        QueryError::TooManyRows(most) => {
            format!("more than {most} rows: choose a longer step or a shorter stretch")
        }
        QueryError::NamesLeftOut(how) => {
            format!("process, cgroup and file cannot be chosen: {how}")
        }
        QueryError::NoFleet(place) => {
            format!("{} is one recording, and no root of hosts", place.display())
        }
        QueryError::NoSumsThen => "no recording has rollups of a minute of this time".to_owned(),
        QueryError::NothingToCompare(place) => format!(
            "{}: holds no single I/Os of this time, so it cannot be compared",
            place.display()
        ),
    }
}

const REMOVED: &str = "the size limit removed the single I/Os of this time";

fn only_devices(wanted: Distinction, because: DevicesOnly, spelling: Spelling) -> String {
    let options: &[&str] = match wanted {
        Distinction::Grouping => &["by"],
        Distinction::Selection => &["process", "cgroup", "file", "class"],
    };
    let options: Vec<String> = options.iter().map(|name| spelling.name(name)).collect();
    let why = match (because, wanted) {
        (DevicesOnly::Counters, _) => {
            "this recording was made from counters, which know devices only"
        }
        (DevicesOnly::Tables, _) => {
            "this recording was imported from tables, which know devices only"
        }
        (DevicesOnly::Sums, Distinction::Grouping) => {
            "the size limit removed the single I/Os of this time; the sums that are left know devices only"
        }
        (DevicesOnly::Sums, Distinction::Selection) => {
            "the size limit left only sums by device of this time, no single I/Os"
        }
    };
    format!("{}: {why}", options.join(", "))
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// The text of a note, escaped for terminals.
pub fn note(note: &Note, spelling: Spelling) -> String {
    match note {
        Note::Damaged { what, .. } | Note::Unread(what) => escape::terminal(what).into_owned(),
        Note::LeftOut { why, .. } => {
            let text = format!("{}; left out", error(why, spelling));
            escape::terminal(&text).into_owned()
        }
        Note::NewestOf { recordings, path } => format!(
            "the newest of {recordings} recordings, {}; choose with {}",
            escape::terminal(&path.display().to_string()),
            spelling.choice()
        ),
        Note::OfCopy {
            from_unix_ns,
            to_unix_ns,
            path,
        } => format!(
            "the size limit removed I/Os; {} to {} is of a copy, {}",
            rfc3339(*from_unix_ns),
            rfc3339(*to_unix_ns),
            escape::terminal(&path.display().to_string())
        ),
        Note::RemovedBefore(ns) => format!(
            "{} removed what came before {:.3} s",
            spelling.size_limit(),
            seconds(*ns)
        ),
        Note::Source(source) => {
            format!("source: {}", escape::terminal(&source.to_string()))
        }
        Note::Limit(text) => escape::terminal(text).into_owned(),
        Note::FinerThanTables(own_ns) => format!(
            "the tables have averages over {} s: finer rows repeat them",
            seconds(*own_ns)
        ),
        Note::FinerThanCounters(apart_ns) => format!(
            "the counters were read every {:.1} ms or more seldom: in finer rows all that happened between two \
             readings stands in the later one's row, and of the rows between them nothing is known",
            *apart_ns as f64 / 1e6
        ),
        Note::Layers(layers) => format!(
            "sums count an I/O once, on the bottom layer; left out: {}; {} device shows all layers",
            escape::terminal(&some_of(layers)),
            spelling.name("by")
        ),
        Note::RowsOfSums(step_s) => format!("{REMOVED}; the rows are sums of {step_s} s"),
        Note::ActorsOfSums(step_s) => format!(
            "{REMOVED}; sums of {step_s} s are left, each of the 20 with most I/O time and of all others together"
        ),
        Note::ActorsOfMany(step_s) => format!(
            "of so many I/Os these are sums of {step_s} s, each of the 20 with most I/O time and of all others together"
        ),
        Note::WaitsOfSums(step_s) => format!(
            "waits are sums of {step_s} s, each of the 20 groups that lost most and of all others together"
        ),
        Note::NoWaits => "there are no single I/Os of this time, of which it could be said what they waited for".to_owned(),
        Note::FindingsOfThen => "the size limit removed I/Os of this time; findings of then are those that were reported while it was recorded".to_owned(),
        Note::FindingsOfMany => "of so many I/Os findings are those that were reported while it was recorded; report analyses all of them".to_owned(),
        Note::StoriesOf(unix_ns) => format!(
            "there are too many I/Os for one answer: stories are of {} to {} alone; ask for a shorter stretch to see others",
            rfc3339(unix_ns.start),
            rfc3339(unix_ns.end)
        ),
        Note::StoriesAround(ns) => format!(
            "stories are those of the {} around this time that meet it",
            duration(*ns as f64)
        ),
        Note::LongestPartOf(recordings) => format!(
            "This time spans {recordings} recordings: the longest part of it is shown. ← and → lead to the others."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(e: &QueryError) -> [String; 2] {
        [Spelling::Flags, Spelling::Parameters].map(|spelling| error(e, spelling))
    }

    #[test]
    fn of_many_devices_a_few_are_named() {
        assert_eq!(some_of(&loop_devices(2)), "loop0, loop1");
        let said = note(&Note::Layers(loop_devices(200)), Spelling::Flags);
        assert!(
            said.contains(": loop0, loop1,") && said.contains("loop7 and 192 more;"),
            "{said}"
        );
    }

    #[test]
    fn each_edge_names_what_its_callers_can_give() {
        const S: i64 = 1_000_000_000;
        let longest = Stretch {
            from_unix_ns: 1_795_000_100 * S,
            to_unix_ns: 1_795_000_160 * S,
        };
        let [flags, parameters] = both(&QueryError::SeveralSources {
            recordings: 2,
            longest,
        });
        assert!(
            flags.ends_with("a part: --from 2026-11-18T11:08:20Z --to 2026-11-18T11:09:20Z"),
            "{flags}"
        );
        assert!(
            parameters.ends_with("a part: from=2026-11-18T11:08:20Z&to=2026-11-18T11:09:20Z"),
            "{parameters}"
        );
        let outside = QueryError::Outside {
            bound: WindowBound::From,
            at_ns: 2_127_115_000_000,
            end_ns: S,
        };
        let [flags, parameters] = both(&outside);
        assert!(flags.starts_with("--from is 2127.115 s"), "{flags}");
        assert_eq!(parameters, flags[2..]);
        let [flags, parameters] = both(&QueryError::NotRecordedAt {
            bound: WindowBound::At,
            unix_ns: longest.from_unix_ns - 60 * S + 1,
            recorded: Stretch {
                from_unix_ns: longest.from_unix_ns + 1,
                to_unix_ns: longest.to_unix_ns - 1,
            },
        });
        assert_eq!(
            flags,
            "--at 2026-11-18T11:07:20Z: nothing was recorded then; there is 2026-11-18T11:08:20Z to 2026-11-18T11:09:20Z"
        );
        assert_eq!(parameters, flags[2..]);
        let ruined = QueryError::NothingReadable {
            damage: "r/io/000001.parquet: damaged".to_owned(),
            repairable: Some("my r".into()),
        };
        let [flags, parameters] = both(&ruined);
        assert!(
            flags.ends_with("to show; iolens repair 'my r' -o NEW saves what is left"),
            "{flags}"
        );
        assert!(parameters.ends_with("nothing to show"), "{parameters}");
        let before = QueryError::EndsBeforeSinceStart {
            from_ns: 2 * S,
            to_ns: S,
        };
        let sentences = [
            "--to (1.000 s) is not after --from (2.000 s)",
            "to (1.000 s) is not after from (2.000 s)",
        ];
        assert_eq!(both(&before), sentences);
        assert_eq!(
            error(&before, Spelling::Ends("--before")),
            "the end of --before (1.000 s) is not after the beginning of --before (2.000 s)"
        );
        let several = QueryError::SeveralSources {
            recordings: 2,
            longest,
        };
        let ends = error(&several, Spelling::Ends("--after"));
        assert!(
            ends.ends_with("a part: --after 2026-11-18T11:08:20Z..2026-11-18T11:09:20Z"),
            "{ends}"
        );
        let [flags, parameters] = both(&QueryError::SumsOfStep(1));
        assert!(flags.ends_with("give a --step of 1s or a multiple"));
        assert!(parameters.ends_with("give a step of 1s or a multiple"));
        let removed = Note::RemovedBefore(S);
        assert!(note(&removed, Spelling::Flags).contains("(--keep)"));
        assert!(!note(&removed, Spelling::Parameters).contains("keep"));
        let named = QueryError::NoSuchDevice {
            name: "a--b".to_owned(),
            known: vec!["sda".to_owned()],
        };
        let [flags, parameters] = both(&named);
        assert_eq!(flags, parameters);
        assert_eq!(flags, "a--b: no such device; there are sda");
        let place = std::path::PathBuf::from("/srv/private");
        for hidden in [
            QueryError::NothingThen {
                place: place.clone(),
                nearest: Some(longest),
            },
            QueryError::NeedsWallClock {
                bound: WindowBound::From,
                place: place.clone(),
            },
            QueryError::Empty(place.clone()),
            QueryError::Unreadable(place),
        ] {
            let [flags, parameters] = both(&hidden);
            assert!(flags.contains("/srv/private"), "{flags}");
            assert!(!parameters.contains("/srv"), "{parameters}");
        }
    }

    #[test]
    fn texts_of_others_are_harmless_in_remarks() {
        let damaged = Note::Damaged {
            recording: "r".into(),
            what: "a\x1b[2Jb".to_owned(),
        };
        let shown = note(&damaged, Spelling::Flags);
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }

    fn loop_devices(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("loop{i}")).collect()
    }
}
