//! `iolens query` without the Python package. With it: python/tests/test_program_query.py.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use super::machine::{assert_refused, iolens};

#[test]
fn without_the_package_one_line_says_how_to_get_it() {
    let empty = tempfile::tempdir().unwrap();
    fs::create_dir(empty.path().join("db.iolens")).unwrap();
    assert_refused(
        &query_alone(empty.path(), "missing.iolens"),
        &["missing.iolens", "nothing at this path"],
    );
    assert_refused(
        &query_alone(empty.path(), "s3://missing/root"),
        &["iolens-lake"],
    );
    assert_refused(
        &query_alone(empty.path(), "db.iolens"),
        &["iolens-lake", "python3", "install"],
    );

    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|p| fs::exists(p).unwrap())
    else {
        eprintln!("SKIP: no python3");
        return;
    };
    // Isolated: packages that this user has installed are not visible.
    fs::write(
        empty.path().join("python3"),
        format!("#!/bin/sh\nexec {python} -I -S \"$@\"\n"),
    )
    .unwrap();
    fs::set_permissions(
        empty.path().join("python3"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    fs::create_dir(empty.path().join("iolens")).unwrap();
    fs::write(
        empty.path().join("iolens/cli.py"),
        "def main(): print('of the working directory')",
    )
    .unwrap();
    assert_refused(
        &query_alone(empty.path(), "db.iolens"),
        &["No module named 'iolens'", "pip install"],
    );

    // A package installed as advised is found again, although it is not on the PATH.
    let bin = empty.path().join(".local/share/iolens/venv/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(
        bin.join("iolens-lake"),
        "#!/bin/sh\necho of the environment\n",
    )
    .unwrap();
    fs::set_permissions(bin.join("iolens-lake"), fs::Permissions::from_mode(0o755)).unwrap();
    let out = query_alone(empty.path(), "db.iolens");
    assert_eq!(
        String::from_utf8(out.stdout).unwrap(),
        "of the environment\n"
    );
    assert!(out.status.success());
}

#[test]
fn the_installed_command_gets_the_words_and_gives_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let command = dir.path().join("iolens-lake");
    fs::write(&command, "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    let out = iolens(&["query", "s3://a/b", "--- x", "--format", "csv"])
        .env("PATH", dir.path())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(7));
    assert_eq!(
        String::from_utf8(out.stdout).unwrap(),
        "query|--format|csv|--|s3://a/b|--- x|"
    );
    assert!(out.stderr.is_empty());
}

/// Runs `iolens query` on `place` with `dir` as the whole PATH, the home and the working directory.
fn query_alone(dir: &Path, place: &str) -> Output {
    let mut command = iolens(&["query", place, "select 1"]);
    command
        .env("PATH", dir)
        .env("HOME", dir)
        .env_remove("XDG_DATA_HOME")
        .env_remove("PYTHONPATH")
        .current_dir(dir);
    command.output().unwrap()
}
