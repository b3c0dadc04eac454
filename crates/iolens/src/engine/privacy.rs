//! Removes names of files and processes from findings. The file modes of a recording protect its names. A user who
//! reaches an answer in another way, such as over loopback, gets the same figures without names.

use iolens_core::model::{KindName, StoredFinding};
use serde_json::Value;

use super::caller::Caller;

/// Keys of a finding's evidence whose texts contain no names of files or processes.
const SHOWN_KEYS: [&str; 14] = [
    "kind",
    "device",
    "devices",
    "severity",
    "class",
    "classes",
    "op",
    "unit",
    "model",
    "queueing_model",
    "scheduler",
    "side",
    "part",
    "cgroup",
];

/// A finding that was reported during recording, as `caller` may see it.
pub fn shown_finding(finding: StoredFinding, caller: &Caller) -> StoredFinding {
    match caller.hides_names() {
        true => without_names(finding),
        false => finding,
    }
}

/// The finding without names of files and processes.
pub fn without_names(mut finding: StoredFinding) -> StoredFinding {
    finding.summary = summary(&finding.kind, finding.device.as_deref());
    for (key, value) in &mut finding.evidence {
        hide_texts(value, key);
    }
    finding
}

/// A one-line summary of a finding without names.
pub fn summary(kind: &KindName, device: Option<&str>) -> String {
    match device {
        Some(device) => format!("{kind} on {device} (names are left out)"),
        None => format!("{kind} (names are left out)"),
    }
}

/// Replaces texts under keys other than [`SHOWN_KEYS`] by null, for every kind of finding.
fn hide_texts(value: &mut Value, key: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                hide_texts(value, key);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|v| hide_texts(v, key)),
        Value::String(_) if !SHOWN_KEYS.contains(&key) => *value = Value::Null,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolens_core::model::Severity;

    fn finding() -> StoredFinding {
        StoredFinding {
            from_ns: 1,
            to_ns: 2,
            open: false,
            kind: "stall".into(),
            severity: Severity::Warning,
            device: Some("sda".to_owned()),
            summary: "sda: backup reads /home/a/secret".to_owned(),
            evidence: serde_json::from_str(
                r#"{"ios":3,"who":{"process":"backup","tgid":7},"files":["/home/a/secret"],"class":"read"}"#,
            )
            .expect("JSON"),
        }
    }

    #[test]
    fn texts_of_findings_are_left_out_and_figures_stay() {
        assert_eq!(
            shown_finding(finding(), &Caller::without_notes()),
            finding()
        );
        let stranger = Caller::without_notes().hiding(Some("log in".into()));
        let shown = shown_finding(finding(), &stranger);
        let text = format!("{} {:?}", shown.summary, shown.evidence);
        assert!(
            !text.contains("backup") && !text.contains("secret"),
            "{text}"
        );
        let evidence = shown.evidence;
        assert_eq!(
            (&evidence["ios"], &evidence["who"]["tgid"]),
            (&3.into(), &7.into())
        );
        assert_eq!(evidence["class"], "read");
        assert_eq!(shown.summary, "stall on sda (names are left out)");
    }
}
