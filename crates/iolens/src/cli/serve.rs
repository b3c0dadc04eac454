//! `iolens serve`, and its configuration file: the same names as the flags.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, CommandFactory as _, Parser, ValueEnum};
use iolens_core::private::{Access, read_trusted};
use iolens_recorder::SourceChoice;

use super::share::ShareArgs;
use super::source::source_choice;
use crate::serve::ShipTarget;
use crate::serve::http::Listen;
use crate::units::parse_size;

/// Record continuously: all disks, into a recording root, within a byte budget
///
/// A new recording in ROOT/host=NAME/ begins, without a gap, at each start, at midnight (UTC) and before the current one
/// takes an eighth of the budget. The oldest data are removed first: single I/Os, then sums per second, then whole
/// recordings. `report`, `zoom` and `files` take the root and a time. SIGTERM ends the service without a loss.
///
/// Examples:
///   iolens serve                            every disk, in /var/lib/iolens
///   iolens serve --rec /data/iolens --keep 100G
///   iolens serve --no-record --rec copied/  recordings of other machines
///   curl http://127.0.0.1:9950/healthz
///   iolens report /var/lib/iolens --at "10 min ago"
#[derive(Debug, Clone, Default, Args)]
#[command(verbatim_doc_comment)]
pub struct ServePlan {
    /// The recording root [default: /var/lib/iolens, without privileges ~/.local/state/iolens]
    #[arg(long, value_name = "DIR")]
    pub rec: Option<PathBuf>,
    /// Maximum size on disk of all recordings of the root
    #[arg(long, value_name = "SIZE", value_parser = parse_keep, help = keep_help())]
    pub keep: Option<u64>,
    /// Record this disk only (name, /dev/NAME or MAJ:MIN); may be repeated [default: all disks, including new ones]
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// Where the I/Os come from [default: auto]
    #[arg(long, value_parser = source_choice())]
    pub source: Option<SourceChoice>,
    /// Listen here: ADDR:PORT (an IPv6 address in brackets) or unix:PATH [default: 127.0.0.1:9950 and, while it records, a
    /// socket in /run/iolens or $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PLACE")]
    pub listen: Option<Listen>,
    /// Do not record; serve the recordings of --rec (a recording or a root), which needs no privileges
    #[arg(long, conflicts_with_all = ["devices", "source", "keep", "on_finding", "on_story", "muted", "log", "freeze_on", "freeze_keep", "ship"])]
    pub no_record: bool,
    /// File with the bearer token; clients with it may add marks, save snapshots, and read from other machines
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Let other machines read without a token
    #[arg(long)]
    pub public: bool,
    /// Show names of files and processes to all clients, not only to those with the token or on the socket
    #[arg(long)]
    pub public_names: bool,
    /// Print the link that logs a browser in to the service that records into --rec, and exit
    #[arg(long)]
    pub link: bool,
    /// Accept this host name in requests, in addition to localhost and addresses; may be repeated
    #[arg(long = "allow-host", value_name = "NAME")]
    pub allow_hosts: Vec<String>,
    /// Run this shell command when a finding begins or ends, with the finding as a line of JSON on its standard input
    #[arg(long, value_name = "CMD")]
    pub on_finding: Option<String>,
    /// Run this shell command when a story begins or ends, with the story as a line of JSON on its standard input, and in
    /// variables such as $IOLENS_VICTIM (docs/serve.md)
    #[arg(long, value_name = "CMD")]
    pub on_story: Option<String>,
    /// Do not report the story with this ID; may be repeated
    #[arg(long = "mute", value_name = "ID", value_delimiter = ',', value_parser = parse_story_id)]
    pub muted: Vec<String>,
    /// How findings and stories are written to standard error [default: text on a terminal, else json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log: Option<LogChoice>,
    /// Keep the I/Os from 5 minutes before a finding of this kind to 5 minutes after it, beyond --keep; may be repeated
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub freeze_on: Vec<String>,
    /// Maximum size on disk of the copies of --freeze-on; the oldest are removed first
    #[arg(long, value_name = "SIZE", value_parser = parse_freeze_keep, help = freeze_keep_help())]
    pub freeze_keep: Option<u64>,
    /// Copy closed files of the recordings to this lake, which several hosts can share: s3://BUCKET/PREFIX, with
    /// credentials, region and endpoint from the usual variables (AWS_...), or a directory
    #[arg(long, value_name = "TARGET")]
    pub ship: Option<ShipTarget>,
    /// Add the metrics of another exporter to /metrics, with its names and labels, from the same kernel counters
    #[arg(long, value_enum, value_name = "EXPORTER")]
    pub compat: Option<Compat>,
    /// File with settings; options override it [default: /etc/iolens/iolens.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)] // flattened: it has no help of its own
    pub share: ShareArgs,
}

/// How findings are written to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogChoice {
    /// A line of text, at most six per minute
    Text,
    /// Each as one JSON object
    Json,
}

/// Whose metrics are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// `node_disk_*` of node_exporter
    Node,
}

/// What a root may take unless it is said.
pub const DEFAULT_KEEP: u64 = 10 << 30;
/// An eighth of it is the smallest recording that has a size limit of its own.
const MIN_KEEP: u64 = 64 << 20;
/// What the minutes around findings may take beside it.
pub const DEFAULT_FREEZE_KEEP: u64 = 1 << 30;
/// Half of it is one copy, which is written as segments of an eighth of that.
const MIN_FREEZE_KEEP: u64 = 16 << 20;
const DEFAULT_CONFIG: &str = "/etc/iolens/iolens.toml";

#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct FromFile {
    #[command(flatten)]
    plan: ServePlan,
}

fn keep_help() -> String {
    format!(
        "Maximum size on disk of all recordings of the root, at least {}M [default: {}G]",
        MIN_KEEP >> 20,
        DEFAULT_KEEP >> 30
    )
}

fn freeze_keep_help() -> String {
    format!(
        "Maximum size on disk of the copies of --freeze-on, at least {}M; the oldest are removed first [default: {}G]",
        MIN_FREEZE_KEEP >> 20,
        DEFAULT_FREEZE_KEEP >> 30
    )
}

/// The id of a story.
pub(super) fn parse_story_id(s: &str) -> Result<String, String> {
    if s.len() == 12 && s.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')) {
        return Ok(s.to_owned());
    }
    Err("give a story's id, twelve hexadecimal digits such as 48b69ca5edff".to_owned())
}

fn parse_keep(s: &str) -> Result<u64, String> {
    match parse_size(s)? {
        n if n < MIN_KEEP => Err(format!(
            "give at least {}M: each of the recordings of a root takes an eighth",
            MIN_KEEP >> 20
        )),
        n => Ok(n),
    }
}

fn parse_freeze_keep(s: &str) -> Result<u64, String> {
    match parse_size(s)? {
        n if n < MIN_FREEZE_KEEP => Err(format!("give at least {}M", MIN_FREEZE_KEEP >> 20)),
        n => Ok(n),
    }
}

impl ServePlan {
    /// This with what its configuration file says beside it.
    ///
    /// # Errors
    /// The file cannot be read, or says what no flag is called.
    pub fn with_config(self) -> Result<ServePlan> {
        let usual = Path::new(DEFAULT_CONFIG);
        let path = match &self.config {
            Some(path) => path.clone(),
            None if usual.exists() => usual.to_owned(),
            None => return Ok(self),
        };
        // It names a command that is run, and what all users may read.
        let text = read_trusted(&path, false)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let text = String::from_utf8(text).with_context(|| path.display().to_string())?;
        let file = parse_config(&text).with_context(|| path.display().to_string())?;
        Ok(ServePlan {
            rec: self.rec.or(file.rec),
            keep: self.keep.or(file.keep),
            devices: first_given(self.devices, file.devices),
            source: self.source.or(file.source),
            listen: self.listen.or(file.listen),
            no_record: self.no_record || file.no_record,
            token_file: self.token_file.or(file.token_file),
            public: self.public || file.public,
            public_names: self.public_names || file.public_names,
            link: self.link,
            allow_hosts: first_given(self.allow_hosts, file.allow_hosts),
            on_finding: self.on_finding.or(file.on_finding),
            on_story: self.on_story.or(file.on_story),
            muted: first_given(self.muted, file.muted),
            log: self.log.or(file.log),
            freeze_on: first_given(self.freeze_on, file.freeze_on),
            freeze_keep: self.freeze_keep.or(file.freeze_keep),
            ship: self.ship.or(file.ship),
            compat: self.compat.or(file.compat),
            config: Some(path),
            share: ShareArgs {
                group: self.share.group.or(file.share.group),
                mode: self.share.mode.or(file.share.mode),
            },
        })
    }

    /// Who may read the root: besides the owner its group, unless it is said otherwise.
    pub fn access(&self) -> Access {
        match self.share.mode {
            Some(_) => self.share.access(),
            None => Access::new(0o640, self.share.group).unwrap_or_default(),
        }
    }
}

fn first_given<T>(flags: Vec<T>, file: Vec<T>) -> Vec<T> {
    if flags.is_empty() { file } else { flags }
}

/// Every entry becomes the flag of its name.
fn parse_config(text: &str) -> Result<ServePlan> {
    let table: toml::Table = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |s| {
            text[..s.start.min(text.len())].matches('\n').count() + 1
        });
        anyhow::anyhow!("line {line}: {}", e.message().replace('\n', " "))
    })?;
    let command = FromFile::command();
    let known: Vec<&str> = command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .filter(|n| !matches!(*n, "config" | "link"))
        .collect();
    let mut words = Vec::new();
    for (key, value) in &table {
        if !known.contains(&key.as_str()) {
            let nearest = known
                .iter()
                .min_by_key(|name| distance(name, key))
                .copied()
                .unwrap_or_default();
            bail!(
                "{key}: there is no such setting; the nearest is {nearest} (all: {})",
                known.join(", ")
            );
        }
        let values = match value {
            toml::Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        };
        for value in values {
            words.push(match value {
                toml::Value::String(s) => format!("--{key}={s}"),
                toml::Value::Integer(n) => format!("--{key}={n}"),
                toml::Value::Boolean(true) if is_switch(key) => format!("--{key}"),
                toml::Value::Boolean(false) if is_switch(key) => continue,
                other => bail!("{key}: give a text or a number, not {}", other.type_str()),
            });
        }
    }
    let parsed = FromFile::try_parse_from(words).map_err(|e| {
        let text = e.to_string();
        anyhow::anyhow!(
            "{}",
            text.lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned()
        )
    })?;
    Ok(parsed.plan)
}

/// Whether a setting is on or off.
fn is_switch(key: &str) -> bool {
    FromFile::command()
        .get_arguments()
        .any(|a| a.get_long() == Some(key) && !a.get_action().takes_values())
}

/// How many letters must be changed, added or left out to come from one word to another.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let changed = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_what_flags_say_and_flags_go_first() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("c.toml");
        std::fs::write(
            &path,
            "rec = \"/data\"\nkeep = \"2G\"\ndevice = [\"sda\", \"sdb\"]\nsource = \"ebpf\"\nmode = \"0600\"\n",
        )
        .expect("writes");
        let given = ServePlan {
            keep: Some(1 << 30),
            config: Some(path),
            ..ServePlan::default()
        };
        let plan = given.with_config().expect("a configuration");
        assert_eq!(
            (plan.rec.as_deref(), plan.keep),
            (Some(Path::new("/data")), Some(1 << 30))
        );
        assert_eq!(
            (plan.devices.len(), plan.source, plan.access()),
            (2, Some(SourceChoice::Ebpf), Access::OWNER)
        );
        assert_eq!(
            Some(ServePlan::default().access()),
            Access::new(0o640, None)
        );
    }

    #[test]
    fn a_bad_file_is_one_line_that_says_what_would_do() {
        let said = |text: &str| parse_config(text).expect_err("bad").to_string();
        let unknown = said("kep = \"1G\"");
        assert!(
            unknown.starts_with("kep: ") && unknown.contains("the nearest is keep"),
            "{unknown}"
        );
        assert!(said("devices = \"sda\"").contains("the nearest is device"));
        assert!(said("config = \"x\"").contains("no such setting"));
        assert!(said("keep = \"1M\"").contains("at least 64M"));
        assert!(said("keep = \"much\"").contains("expected a size"));
        assert!(said("freeze-keep = \"1M\"").contains("at least 16M"));
        assert_eq!(
            parse_config("freeze-on = [\"stall\", \"slow-io\"]")
                .expect("kinds")
                .freeze_on
                .len(),
            2
        );
        let ship = parse_config("ship = \"s3://lake/fleet\"").expect("a bucket");
        assert_eq!(
            ship.ship.map(|s| s.to_string()).as_deref(),
            Some("s3://lake/fleet")
        );
        assert!(said("ship = \"gs://lake\"").contains("s3://BUCKET/PREFIX"));
        let muted = parse_config("mute = [\"48b69ca5edff\", \"0123456789ab\"]");
        assert_eq!(muted.expect("ids").muted.len(), 2);
        assert!(said("mute = \"backup\"").contains("a story's id"));
        assert!(said("no-record = true\ndevice = \"sda\"").contains("cannot be used with"));
        assert!(said("keep = true").contains("not boolean"));
        assert!(said("rec = ").contains("line 1"));
        assert!(
            said("public = \"yes\"").contains("public")
                && said("listen = \"here\"").contains("ADDR:PORT")
        );
        assert!(parse_config("public = true").expect("a switch").public);
        assert!(!parse_config("public = false").expect("a switch").public);
        assert!(
            ["kep = 1", "keep = \"x\"", "rec = "]
                .iter()
                .all(|t| !said(t).contains('\n'))
        );
    }

    #[test]
    fn distances_of_words() {
        assert_eq!(
            (
                distance("keep", "keep"),
                distance("keep", "kep"),
                distance("", "abc")
            ),
            (0, 1, 3)
        );
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
