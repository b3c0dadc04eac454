//! Attribution, with names.

use iolens_core::analysis::overview::{ActorFlow, ActorKey, ActorSummary};
use iolens_core::model::{DevId, Origin};
use serde::Serialize;

use super::ReportData;
use crate::present::NOT_KNOWN;
use crate::present::actors::file_system_name;
use crate::present::report_json::device_name;

/// A row of the table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ActorBlock {
    by: &'static str,
    name: String,
    identity: Option<String>,
    device: Option<String>,
    /// How far the name can be trusted as the cause; `null` of control groups and files.
    origin: Option<&'static str>,
    read: ActorFlow,
    write: ActorFlow,
    io_time_percent: Option<f64>,
}

/// All rows.
pub(super) fn blocks(data: &ReportData) -> Vec<ActorBlock> {
    data.overview
        .actors
        .iter()
        .map(|a| block(a, data))
        .collect()
}

fn block(a: &ActorSummary, data: &ReportData) -> ActorBlock {
    let by = ["process", "cgroup", "file"][a.key.kind()];
    // A path stands as the name where it is known; its number stands for it elsewhere, and beside the path of a file.
    let (name, detail, origin) = match a.key {
        ActorKey::Process(comm, origin) => (
            or_not_known(comm.map(|c| c.to_text().into_owned())),
            pids(&a.pids, data),
            Some(origin),
        ),
        ActorKey::Cgroup(id) => {
            let path = id.and_then(|id| data.names.cgroups.get(&id).cloned());
            let number = id.map(|id| format!("id {id}"));
            let pod = id.and_then(|id| data.names.pods.get(&id));
            let detail = pod
                .map(|pod| format!("pod {pod}"))
                .or_else(|| number.clone());
            (or_not_known(path.or(number)), detail, None)
        }
        ActorKey::File(file) => {
            let path = file.and_then(|f| data.names.files.get(&f).cloned());
            let number = file.map(|f| {
                format!(
                    "inode {} on {}",
                    f.ino,
                    file_system_name(data.meta, DevId(f.fs_dev))
                )
            });
            (or_not_known(path.or_else(|| number.clone())), number, None)
        }
        ActorKey::Others(_) => ("(others)".to_owned(), None, None),
    };
    ActorBlock {
        by,
        name,
        identity: detail,
        device: a.dev.map(|dev| device_name(data.meta, dev)),
        origin: origin.map(Origin::name),
        read: a.read,
        write: a.write,
        io_time_percent: a.time_percent,
    }
}

fn or_not_known(name: Option<String>) -> String {
    name.unwrap_or_else(|| NOT_KNOWN.to_owned())
}

fn pids(pids: &[i32], data: &ReportData) -> Option<String> {
    Some(match pids {
        [] => return None,
        [one] if data.meta.recorder_tgid == Some(*one) => format!("pid {one}, this recorder"),
        [one] => format!("pid {one}"),
        [first, ..] => format!("{} processes, lowest pid {first}", pids.len()),
    })
}
