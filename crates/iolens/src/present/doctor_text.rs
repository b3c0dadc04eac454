//! What `iolens doctor` found, as text or JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::escape;
use super::indent::indented;
use super::layout::size;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The requirement is met.
    Ok,
    /// Missing, but not needed to record block I/O.
    Note,
    /// The requirement is not met.
    Problem,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// Result of the check.
    pub verdict: CheckOutcome,
    /// Result of the check.
    pub found: String,
    /// Suggested action.
    pub advice: Option<String>,
}

/// Below this a recording has no room to speak of.
const LITTLE_ROOM_BYTES: u64 = 64 << 20;

impl Check {
    /// As wanted.
    pub fn good(name: &'static str, found: String) -> Check {
        Check {
            name,
            verdict: CheckOutcome::Ok,
            found,
            advice: None,
        }
    }

    /// Missing, but not in the way.
    pub fn note(name: &'static str, found: String) -> Check {
        Check {
            name,
            verdict: CheckOutcome::Note,
            found,
            advice: None,
        }
    }

    /// In the way, with what to do.
    pub fn bad(name: &'static str, found: &str, advice: &str) -> Check {
        Check {
            name,
            verdict: CheckOutcome::Problem,
            found: found.to_owned(),
            advice: Some(advice.to_owned()),
        }
    }

    /// Free room.
    pub fn room(name: &'static str, free_bytes: u64) -> Check {
        let found = format!("{} free", size(free_bytes as f64));
        if free_bytes < LITTLE_ROOM_BYTES {
            Check::bad(
                name,
                &found,
                "record into another directory with -o, or bound it with --keep",
            )
        } else {
            Check::good(name, found)
        }
    }
}

/// A line per check, problems with their advice under them.
pub fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for c in checks {
        let sign = match c.verdict {
            CheckOutcome::Ok => "ok     ",
            CheckOutcome::Note => "note   ",
            CheckOutcome::Problem => "PROBLEM",
        };
        let _ = writeln!(
            out,
            "{sign}  {:<22}  {}",
            c.name,
            escape::terminal(&c.found)
        );
        if let Some(advice) = &c.advice {
            let _ = writeln!(out, "{:33}  -> {advice}", "");
        }
    }
    out
}

/// `iolens doctor --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DoctorDocument<'a> {
    /// Version of this layout.
    schema_version: u32,
    /// Checks made, in this order.
    checks: &'a [Check],
}

/// One document.
///
/// # Errors
/// It cannot be serialised.
pub fn json(checks: &[Check]) -> serde_json::Result<String> {
    let document = DoctorDocument {
        schema_version: super::SCHEMA_VERSION,
        checks,
    };
    indented(&document).map(|text| escape::json(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_carry_their_advice_and_names_are_escaped() {
        let checks = [
            Check::good("kernel", "6.1\x1b[31m".to_owned()),
            Check::bad("privileges", "none", "run as root"),
            Check::room("free disk space (cwd)", 1 << 20),
        ];
        let text = text(&checks);
        assert!(
            text.contains("ok       kernel                  6.1\\x1b[31m\n"),
            "{text}"
        );
        assert!(text.contains("-> run as root\n"), "{text}");
        assert!(
            text.contains("PROBLEM  free disk space (cwd)   1.05 MB free\n"),
            "{text}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&json(&checks).expect("serialisable")).expect("JSON");
        assert_eq!(json["checks"][1]["verdict"], "problem");
    }
}
