//! Drops privileges once the probes are attached: capabilities that are no longer needed, gaining new privileges,
//! system calls that are not used, and writing outside of the recording root.
//!
//! All restrictions apply to the calling thread and to threads that it starts later. Threads that serve requests or
//! start commands restrict themselves further.

mod syscalls;

use std::path::Path;

use anyhow::{Context as _, Result};
use iolens_core::private::Access;
use landlock::{
    ABI, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use rustix::fs::Gid;
use rustix::process::{getegid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
    set_thread_groups,
};

use syscalls::{Role, allow_only};

/// Capabilities that recording still needs: reading BPF maps (needed before 5.19), naming other users' files, and
/// priority for threads that must not wait. CAP_SYS_PTRACE would be of no use: Landlock hides the descriptors of
/// other processes, so a file that was removed while open has no name.
const RECORDER_CAPABILITIES: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYS_NICE);
/// Since this version (Linux 6.2), every way to change a file is covered. Older kernels enforce what they know.
const LANDLOCK: ABI = ABI::V3;

/// Restricts the recording thread, before it starts others. Returns what could not be restricted, one line each.
///
/// # Errors
/// The kernel refuses something that every kernel since 3.5 has. The service should not continue.
pub fn restrict(root: &Path, access: Access) -> Result<Vec<String>> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    let mut kept = RECORDER_CAPABILITIES;
    if !may_give_to(access.group()) {
        kept |= CapabilitySet::CHOWN;
    }
    drop_capabilities(kept)?;
    let mut missing = Vec::new();
    match write_below_only(root) {
        Ok(RulesetStatus::NotEnforced) => missing
            .push("Landlock is not in this kernel: writing elsewhere is not prevented".to_owned()),
        Ok(_) => {}
        Err(e) => missing.push(format!("Landlock: {e}; writing elsewhere is not prevented")),
    }
    if let Err(e) = allow_only(Role::Recorder) {
        missing.push(format!(
            "system calls are not filtered ({e:#}): modes and owners of files elsewhere can be changed"
        ));
    }
    Ok(missing)
}

/// Restricts a thread that serves requests: no capabilities, no changes to files, no programs. With `reads_all`, if
/// nothing is recorded, it may still read the recordings of all users.
///
/// # Errors
/// Those of [`restrict`].
pub fn restrict_to_reading(reads_all: bool) -> Result<()> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    drop_capabilities(match reads_all {
        true => CapabilitySet::DAC_READ_SEARCH,
        false => CapabilitySet::empty(),
    })?;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(LANDLOCK))?
        .create()?;
    // Features that the kernel lacks are missing for the recorder too, and were reported there.
    ruleset.restrict_self()?;
    drop(allow_only(Role::Reader));
    Ok(())
}

/// Restricts a thread that starts commands: they have no capabilities, may write where the recorder may, and may not
/// change modes or owners.
///
/// # Errors
/// Those of [`restrict`].
pub fn restrict_to_commands() -> Result<()> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    drop_capabilities(CapabilitySet::empty())?;
    // If the kernel has no filters, the recorder has reported it.
    drop(allow_only(Role::Commands));
    Ok(())
}

/// Restricts a thread that ships recordings: no capabilities, no programs, writing below `directories` only.
///
/// # Errors
/// Those of [`restrict`].
pub fn restrict_to_shipping(directories: &[&Path]) -> Result<()> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    drop_capabilities(CapabilitySet::empty())?;
    let write = AccessFs::from_write(LANDLOCK);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)?
        .create()?;
    for directory in directories {
        ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new(directory)?, write))?;
    }
    // Features that the kernel lacks are missing for the recorder too, and are reported there.
    ruleset.restrict_self()?;
    drop(allow_only(Role::Shipper));
    Ok(())
}

/// Restricts a thread to removing files in `directory`; it may not write anywhere.
///
/// # Errors
/// Those of [`restrict`].
pub fn restrict_to_removal(directory: &Path) -> Result<()> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    drop_capabilities(CapabilitySet::empty())?;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(LANDLOCK))?
        .create()?
        .add_rule(PathBeneath::new(
            PathFd::new(directory)?,
            AccessFs::RemoveFile,
        ))?;
    // Without Landlock the thread is not restricted, like the others, which have reported it.
    ruleset.restrict_self()?;
    drop(allow_only(Role::Reader));
    Ok(())
}

/// Whether files can be given to this group without a capability: this thread is a member of it, or joins it.
fn may_give_to(group: Option<u32>) -> bool {
    let Some(group) = group.map(Gid::from_raw) else {
        return true;
    };
    let mut groups = getgroups().unwrap_or_default();
    if group == getegid() || groups.contains(&group) {
        return true;
    }
    groups.push(group);
    set_thread_groups(&groups).is_ok()
}

fn drop_capabilities(kept: CapabilitySet) -> Result<()> {
    let held = capabilities(None)?;
    let sets = CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).context("capabilities cannot be dropped")
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
        let inside = root.path().to_owned();
        let outside = elsewhere.path().to_owned();
        let before = status("CapEff");
        let restricted = move || {
            let missing = restrict(&inside, Access::OWNER).expect("restricted");
            let later = move || {
                assert_eq!(status("NoNewPrivs"), "1");
                let effective = u64::from_str_radix(&status("CapEff"), 16).expect("a number");
                // CAP_DAC_READ_SEARCH 2, CAP_SYS_NICE 23, CAP_BPF 39
                let kept: u64 = 1 << 2 | 1 << 23 | 1 << 39;
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

    fn is_refused(done: std::io::Result<()>) -> bool {
        done.is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
    }

    /// Runs `work` on a thread that has given something up.
    fn on_a_thread(work: impl FnOnce() + Send + 'static) {
        std::thread::spawn(work)
            .join()
            .expect("its assertions hold");
    }

    #[test]
    fn the_recorder_changes_modes_of_open_files_and_of_no_names() {
        use std::os::unix::fs::{PermissionsExt as _, chown, fchown};
        let root = tempfile::tempdir().expect("temporary directory");
        let path = root.path().to_owned();
        on_a_thread(move || {
            let missing = restrict(&path, Access::OWNER).expect("restricted");
            let own = path.join("own");
            let file = fs::File::create(&own).expect("below the root");
            file.set_permissions(fs::Permissions::from_mode(0o640))
                .expect("it has just made the file");
            fchown(&file, None, Some(getegid().as_raw())).expect("its own group");
            if !missing.is_empty() {
                eprintln!("SKIP: {missing:?}");
                return;
            }
            let by_name = fs::set_permissions(&own, fs::Permissions::from_mode(0o777));
            assert!(is_refused(by_name));
            assert!(is_refused(chown(&own, None, Some(getegid().as_raw()))));
            assert_eq!(
                fs::metadata(&own).expect("there").permissions().mode() & 0o777,
                0o640
            );
        });
    }

    #[test]
    fn commands_change_neither_modes_nor_owners_and_still_run() {
        use std::process::Command;
        let root = tempfile::tempdir().expect("temporary directory");
        let elsewhere = tempfile::tempdir().expect("temporary directory");
        let target = elsewhere.path().join("target");
        fs::write(&target, "kept").expect("writes");
        let before = status_of(&target);
        let path = root.path().to_owned();
        let outside = target.clone();
        on_a_thread(move || {
            let missing = restrict(&path, Access::OWNER).expect("restricted");
            restrict_to_commands().expect("restricted further");
            let shell = |script: &str| {
                Command::new("/bin/sh")
                    .args(["-c", script, "sh"])
                    .args([&outside, &path])
                    .output()
                    .expect("the shell runs")
            };
            let listed =
                shell("ls -l \"$1\" | cat > \"$2/list\" && cp \"$1\" \"$2/copy\" && sleep 0");
            assert!(listed.status.success(), "{listed:?}");
            assert!(fs::read_to_string(path.join("list")).is_ok_and(|l| l.contains("target")));
            if !missing.is_empty() {
                eprintln!("SKIP: {missing:?}");
                return;
            }
            for script in [
                "chmod 4777 \"$1\"",
                "chown 65534 \"$1\"",
                "chmod 4777 \"$2/copy\"",
                "setsid true",
                "unshare -U true",
            ] {
                assert!(!shell(script).status.success(), "{script}");
            }
            let privileges = shell("grep CapPrm /proc/self/status");
            let privileges = String::from_utf8_lossy(&privileges.stdout).into_owned();
            assert!(privileges.ends_with("\t0000000000000000\n"), "{privileges}");
        });
        assert_eq!(status_of(&target), before);
    }

    /// Mode and owner.
    fn status_of(path: &Path) -> (u32, u32) {
        use std::os::unix::fs::MetadataExt as _;
        let meta = fs::metadata(path).expect("there");
        (meta.mode(), meta.uid())
    }

    #[test]
    fn who_answers_requests_has_no_capabilities_and_changes_nothing() {
        let root = tempfile::tempdir().expect("temporary directory");
        fs::write(root.path().join("io"), "1").expect("writes");
        let path = root.path().to_owned();
        on_a_thread(move || {
            let missing = restrict(&path, Access::OWNER).expect("restricted");
            restrict_to_reading(false).expect("restricted further");
            assert_eq!(status("CapPrm"), "0000000000000000");
            assert_eq!(fs::read(path.join("io")).expect("reads"), b"1");
            if !missing.is_empty() {
                eprintln!("SKIP: {missing:?}");
                return;
            }
            assert!(is_refused(fs::write(path.join("io"), "2")));
            let file = fs::File::open(path.join("io")).expect("reads");
            use std::os::unix::fs::PermissionsExt as _;
            assert!(is_refused(
                file.set_permissions(fs::Permissions::from_mode(0o777))
            ));
            assert!(is_refused(
                std::process::Command::new("/bin/true").status().map(drop)
            ));
        });
    }
}
