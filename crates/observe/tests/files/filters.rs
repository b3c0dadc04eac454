//! Filters by process, name and control group, on live processes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use iolens_core::model::Comm;
use iolens_observe::trace::{FilesFilter, FilesOptions, FilesTracer};

use super::lab::{machine_has, turn};

/// A shell that waits for a line, then writes a file and ends.
fn writer(file: &Path) -> Child {
    Command::new("sh")
        .args(["-c", "read line; echo hello > \"$1\"", "sh"])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

fn go(mut child: Child) {
    drop(child.stdin.take());
    // End of input makes `read` fail, which the shell ignores.
    assert!(child.wait().unwrap().success());
}

/// Names of the files that were recorded while both children wrote theirs.
fn recorded(filter: FilesFilter, children: Vec<Child>, below: &Path) -> Vec<String> {
    let mut tracer = FilesTracer::start(&FilesOptions {
        filter,
        ..FilesOptions::default()
    })
    .unwrap();
    children.into_iter().for_each(go);
    let mut out = Vec::new();
    let mut lost = Vec::new();
    tracer.poll(&mut out, &mut lost).unwrap();
    tracer.finish(&mut out, &mut lost).unwrap();
    let below = format!("{}/", below.canonicalize().unwrap().display());
    out.iter()
        .filter_map(|r| Some(r.path.as_deref()?.strip_prefix(&below)?.to_owned()))
        .collect()
}

#[test]
fn by_process_only_its_requests_are_recorded() {
    let _turn = turn();
    if !machine_has(&[]) {
        return;
    }
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let a = writer(&tmp.path().join("a"));
    let b = writer(&tmp.path().join("b"));
    let filter = FilesFilter {
        pids: vec![a.id() as i32],
        ..FilesFilter::default()
    };
    assert_eq!(recorded(filter, vec![a, b], tmp.path()), ["a"]);
}

#[test]
fn by_name_only_such_tasks_are_recorded() {
    let _turn = turn();
    if !machine_has(&[]) {
        return;
    }
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let renamed = tmp.path().join("iolens-namesake");
    fs::copy("/bin/sh", &renamed).unwrap();
    let file = tmp.path().join("a");
    let a = Command::new(&renamed)
        .args(["-c", "read line; echo hello > \"$1\"", "sh"])
        .arg(&file)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let b = writer(&tmp.path().join("b"));
    let filter = FilesFilter {
        comm: Some(Comm::new(b"iolens-namesake")),
        ..FilesFilter::default()
    };
    assert_eq!(recorded(filter, vec![a, b], tmp.path()), ["a"]);
}

/// A control group of its own, removed in the end.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Group, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|e| e.to_string())?;
        let root = mounts.lines().find_map(|l| {
            let mut words = l.split(' ');
            let _ = words.next()?;
            let path = words.next()?;
            let kind = words.next()?;
            (kind == "cgroup2").then(|| PathBuf::from(path))
        });
        let dir = root
            .ok_or("no cgroup v2 is mounted")?
            .join(format!("iolens-files-{}", std::process::id()));
        fs::create_dir_all(dir.join("below")).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Group(dir))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.join("below"));
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn by_control_group_it_and_those_below_are_recorded() {
    let _turn = turn();
    if !machine_has(&[]) {
        return;
    }
    let group = match Group::new() {
        Ok(group) => group,
        Err(why) => return eprintln!("SKIP: {why}"),
    };
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| writer(&tmp.path().join(name)));
    for (pid, dir) in [(a.id(), group.0.clone()), (b.id(), group.0.join("below"))] {
        if let Err(why) = fs::write(dir.join("cgroup.procs"), pid.to_string()) {
            [a, b, c].into_iter().for_each(go);
            return eprintln!("SKIP: a process cannot be moved into a control group: {why}");
        }
    }
    let filter = FilesFilter {
        cgroup: Some(group.0.clone()),
        ..FilesFilter::default()
    };
    assert_eq!(recorded(filter, vec![a, b, c], tmp.path()), ["a", "b"]);
}
