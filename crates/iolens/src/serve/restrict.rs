//! What a service gives up once its probes are attached: new privileges, capabilities that nothing needs any more, system
//! calls that it does not make, and writing anywhere but below its recording root.
//!
//! All of it holds for the calling thread and those that it starts from then on; threads that answer requests or start
//! commands then give up more.

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

/// What recording still needs of the privileges: BPF maps are read (before 5.19 with a capability), files of other users get
/// their names, and the threads that must not wait are preferred. CAP_SYS_PTRACE is of no use any more: Landlock hides the
/// descriptors of other processes, so a file that is removed while it is open has no name.
const RECORDER_CAPABILITIES: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYS_NICE);
/// From here on (Linux 6.2) every way to change a file is covered; older kernels enforce what they know.
const LANDLOCK: ABI = ABI::V3;

/// For the thread that records, before it starts others; what could not be given up, a line each, empty if all was.
///
/// # Errors
/// The kernel refuses what every kernel since 3.5 has; then nothing should go on.
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

/// For a thread that answers requests: it has no capabilities, changes no file and starts no program. With `reads_all`, where
/// nothing is recorded, it reads the recordings of all users as before.
///
/// # Errors
/// As those of [`restrict`].
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
    // What the kernel does not have is missing for the recorder, too, and was said there.
    ruleset.restrict_self()?;
    drop(allow_only(Role::Reader));
    Ok(())
}

/// For a thread that starts commands: they have no capabilities, write where the recorder may, and change neither modes nor
/// owners.
///
/// # Errors
/// As those of [`restrict`].
pub fn restrict_to_commands() -> Result<()> {
    set_no_new_privs(true).context("no_new_privs cannot be set")?;
    drop_capabilities(CapabilitySet::empty())?;
    // Where the kernel has no filters the recorder has said so.
    drop(allow_only(Role::Commands));
    Ok(())
}

/// For a thread that copies recordings: it has no capabilities, starts no program, and writes below `directories` only.
///
/// # Errors
/// As those of [`restrict`].
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
    // What the kernel does not have is missing for the recorder, too, and is said there.
    ruleset.restrict_self()?;
    drop(allow_only(Role::Shipper));
    Ok(())
}

/// For a thread that removes a file in `directory` and does nothing else: it may remove files there, and write nowhere.
///
/// # Errors
/// As those of [`restrict`].
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
    // Without Landlock it is as free as the others, which have said so.
    ruleset.restrict_self()?;
    drop(allow_only(Role::Reader));
    Ok(())
}

/// Whether files can be given to this group without a capability: this thread is in it, or joins it.
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
