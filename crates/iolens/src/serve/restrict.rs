//! What a service gives up once its probes are attached: new privileges, capabilities that nothing needs any more, and
//! writing anywhere but below its recording root.
//!
//! All three hold for the calling thread and those that it starts from then on.

use std::path::Path;

use anyhow::{Context as _, Result};
use landlock::{
    ABI, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// What is still needed of the privileges: BPF maps are read (before 5.19 with a capability), files of other users get their
/// names, the threads that must not wait are preferred, and recordings are given to a group. CAP_SYS_PTRACE is of no use
/// any more: Landlock hides the descriptors of other processes, so a file that is removed while it is open has no name.
const KEPT: [CapabilitySet; 4] = [
    CapabilitySet::BPF,
    CapabilitySet::DAC_READ_SEARCH,
    CapabilitySet::SYS_NICE,
    CapabilitySet::CHOWN,
];
/// From here on (Linux 6.2) every way to change a file is covered; older kernels enforce what they know.
const LANDLOCK: ABI = ABI::V3;

/// What could not be given up, a line each; empty if all was.
///
/// # Errors
/// The kernel refuses what every kernel since 3.5 has; then nothing should go on.
pub fn restrict(root: &Path) -> Result<Vec<String>> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    drop_capabilities().context("capabilities cannot be dropped")?;
    Ok(match write_below_only(root) {
        Ok(RulesetStatus::NotEnforced) => {
            vec!["Landlock is not in this kernel: writing elsewhere is not prevented".into()]
        }
        Ok(_) => Vec::new(),
        Err(e) => vec![format!("Landlock: {e}; writing elsewhere is not prevented")],
    })
}

/// For a thread that removes a file in `directory` and does nothing else: it may remove files there, and write nowhere.
///
/// # Errors
/// As those of [`restrict`].
pub fn restrict_to_removal(directory: &Path) -> Result<()> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    drop_capabilities().context("capabilities cannot be dropped")?;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(LANDLOCK))?
        .create()?
        .add_rule(PathBeneath::new(
            PathFd::new(directory)?,
            AccessFs::RemoveFile,
        ))?;
    // Without Landlock it is as free as the others, which have said so.
    ruleset.restrict_self()?;
    Ok(())
}

fn drop_capabilities() -> Result<()> {
    let kept = KEPT
        .into_iter()
        .fold(CapabilitySet::empty(), |all, one| all | one);
    let held = capabilities(None)?;
    let sets = CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}

fn write_below_only(root: &Path) -> Result<RulesetStatus> {
    let write = AccessFs::from_write(LANDLOCK);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)?
        .create()?
        .add_rule(PathBeneath::new(PathFd::new(root)?, write))?
        // Commands that are started get it as their input.
        .add_rule(PathBeneath::new(
            PathFd::new("/dev/null")?,
            AccessFs::WriteFile,
        ))?;
    Ok(ruleset.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn status(key: &str) -> String {
        let text = fs::read_to_string("/proc/thread-self/status").expect("proc");
        let line = text.lines().find(|l| l.starts_with(key)).expect("a line");
        line[key.len() + 1..].trim().to_owned()
    }

    #[test]
    fn a_thread_that_removes_a_file_may_do_nothing_else() {
        let dir = tempfile::tempdir().expect("temporary directory");
        fs::write(dir.path().join("old"), "kept").expect("writes");
        let own = dir.path().to_owned();
        let restricted = move || {
            restrict_to_removal(&own).expect("restricted");
            assert_eq!(status("NoNewPrivs"), "1");
            let written = fs::write(own.join("old"), "2");
            fs::remove_file(own.join("old")).expect("it may");
            match written {
                Ok(()) => eprintln!("SKIP: Landlock is not in this kernel"),
                Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::PermissionDenied),
            }
        };
        std::thread::spawn(restricted)
            .join()
            .expect("its assertions hold");
    }

    #[test]
    fn nothing_is_written_elsewhere_and_privileges_are_gone_also_in_later_threads() {
        let root = tempfile::tempdir().expect("temporary directory");
        let elsewhere = tempfile::tempdir().expect("temporary directory");
        fs::write(elsewhere.path().join("old"), "kept").expect("writes");
        let (inside, outside) = (root.path().to_owned(), elsewhere.path().to_owned());
        let before = status("CapEff");
        let restricted = move || {
            let missing = restrict(&inside).expect("restricted");
            let later = move || {
                assert_eq!(status("NoNewPrivs"), "1");
                let effective = u64::from_str_radix(&status("CapEff"), 16).expect("a number");
                // CAP_CHOWN 0, CAP_DAC_READ_SEARCH 2, CAP_SYS_NICE 23, CAP_BPF 39
                let kept: u64 = 1 << 0 | 1 << 2 | 1 << 23 | 1 << 39;
                assert_eq!(effective & !kept, 0, "{effective:x}");
                fs::create_dir(inside.join("day")).expect("below the root");
                fs::write(inside.join("day/io"), "1").expect("below the root");
                fs::remove_dir_all(inside.join("day")).expect("below the root");
                assert_eq!(
                    fs::read(outside.join("old")).expect("reading is free"),
                    b"kept"
                );
                if !missing.is_empty() {
                    eprintln!("SKIP: {missing:?}");
                    return;
                }
                let refused = |r: std::io::Result<()>| r.expect_err("refused").kind();
                let denied = std::io::ErrorKind::PermissionDenied;
                assert_eq!(refused(fs::write(outside.join("old"), "2")), denied);
                assert_eq!(refused(fs::write(outside.join("new"), "2")), denied);
                assert_eq!(refused(fs::remove_file(outside.join("old"))), denied);
                assert_eq!(refused(fs::create_dir(outside.join("dir"))), denied);
                let linked = inside.join("link");
                // Through a link below the root it is still elsewhere.
                std::os::unix::fs::symlink(&outside, &linked).expect("below the root");
                assert_eq!(refused(fs::write(linked.join("old"), "2")), denied);
            };
            std::thread::spawn(later)
                .join()
                .expect("its assertions hold");
        };
        std::thread::spawn(restricted)
            .join()
            .expect("its assertions hold");
        assert_eq!(status("CapEff"), before, "only those threads");
        fs::write(elsewhere.path().join("old"), "free").expect("other threads are as before");
    }
}
