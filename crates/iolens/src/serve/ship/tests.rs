use std::fs;

use super::*;

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).expect("writes");
    fs::rename(&temporary, &path).expect("renames");
}

fn target(path: &Path) -> ShipTarget {
    ShipTarget::Directory(path.to_owned())
}

fn started(root: &Path, to: &Path) -> (Shipper, Arc<ShipStatus>) {
    let shipping = Shipping::open(&target(to), root, Access::OWNER).expect("opens");
    let status = shipping.status();
    (shipping.start().expect("starts"), status)
}

fn wait_for(status: &ShipStatus, what: impl Fn(&ShipTotals) -> bool) -> ShipTotals {
    let begin = Instant::now();
    loop {
        let totals = status.totals();
        if what(&totals) {
            return totals;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{totals:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(shipper: Shipper) {
    shipper.end(Instant::now() + Duration::from_secs(120));
}

#[test]
fn targets_are_buckets_and_directories() {
    let parsed = |s: &str| s.parse::<ShipTarget>();
    let bucket = |name: &str, prefix: &str| ShipTarget::Bucket {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
    };
    assert_eq!(parsed("s3://b"), Ok(bucket("b", "")));
    assert_eq!(parsed("s3://b/"), Ok(bucket("b", "")));
    let deep = parsed("s3://b/a/c/").expect("a bucket");
    assert_eq!(
        (&deep, deep.to_string().as_str()),
        (&bucket("b", "a/c"), "s3://b/a/c")
    );
    assert_eq!(parsed("/data/lake"), Ok(target(Path::new("/data/lake"))));
    for wrong in [
        "",
        "s3://",
        "s3:///a",
        "s3://b/a//c",
        "gs://b",
        "https://b/a",
    ] {
        parsed(wrong).expect_err(wrong);
    }
}

#[test]
fn what_a_kill_interrupted_is_whole_after_the_next_start_and_nothing_is_sent_twice() {
    let root = tempfile::tempdir().expect("dir");
    let to = tempfile::tempdir().expect("dir");
    let of = "host=a/start_ns=5";
    for n in 1..=3 {
        write(
            root.path(),
            &format!("{of}/io/00000{n}.parquet"),
            &"x".repeat(100 * n),
        );
    }
    write(root.path(), &format!("{of}/meta.json"), "{}");
    // One whole, and one half written under its temporary name.
    fs::create_dir_all(to.path().join(of).join("io")).expect("makes");
    fs::write(
        to.path().join(of).join("io/000001.parquet"),
        "x".repeat(100),
    )
    .expect("writes");
    fs::write(to.path().join(of).join("io/000002.parquet.tmp"), "x").expect("writes");
    let (shipper, status) = started(root.path(), to.path());
    let totals = wait_for(&status, |t| t.sent.files == 3);
    assert_eq!(totals.sent.bytes, 200 + 300 + 2);
    // What is closed while it ends goes, too.
    write(
        root.path(),
        &format!("{of}/rollup/60s-000001.parquet"),
        "sums",
    );
    end(shipper);
    let totals = status.totals();
    assert_eq!((totals.sent.files, totals.failures), (4, 0));
    assert_eq!((totals.waiting.files, totals.lag_s(i64::MAX)), (0, 0.0));
    let copied = |name: &str| fs::read(to.path().join(of).join(name)).ok();
    for name in [
        "io/000001.parquet",
        "io/000002.parquet",
        "io/000003.parquet",
        "meta.json",
        "rollup/60s-000001.parquet",
    ] {
        assert_eq!(
            copied(name),
            fs::read(root.path().join(of).join(name)).ok(),
            "{name}"
        );
    }
    assert_eq!(copied("io/000002.parquet.tmp"), None);
    let (shipper, status) = started(root.path(), to.path());
    wait_for(&status, |t| t.sent.files == 1 && t.waiting.files == 0);
    end(shipper);
    assert_eq!(
        status.totals().sent.files,
        1,
        "the description, which may be another one"
    );
}

#[test]
fn a_target_that_fails_is_tried_again_and_what_went_meanwhile_is_counted() {
    let root = tempfile::tempdir().expect("dir");
    let to = tempfile::tempdir().expect("dir");
    write(
        root.path(),
        "host=a/start_ns=5/io/000001.parquet",
        "0123456789",
    );
    write(root.path(), "host=a/start_ns=5/meta.json", "{}");
    let obstacle = to.path().join("host=a");
    fs::write(&obstacle, "a file where a directory has to be").expect("writes");
    let (shipper, status) = started(root.path(), to.path());
    let totals = wait_for(&status, |t| t.failures >= 2);
    let said = totals.degraded(Instant::now());
    assert!(
        said.len() == 1 && said[0].ends_with("2 files wait"),
        "{said:?}"
    );
    assert!(totals.lag_s(wall_clock_ns()) > 0.0);
    fs::remove_dir_all(root.path().join("host=a/start_ns=5/io")).expect("removes");
    let totals = wait_for(&status, |t| t.dropped.files == 1);
    assert_eq!(totals.dropped.bytes, 10);
    fs::remove_file(&obstacle).expect("removes");
    let totals = wait_for(&status, |t| t.sent.files == 1);
    end(shipper);
    let said = totals.degraded(Instant::now());
    assert!(
        said.iter()
            .any(|line| line.starts_with("1 files were removed")),
        "{said:?}"
    );
    assert!(
        status
            .totals()
            .degraded(Instant::now() + 2 * DROPPED_SHOWN_FOR)
            .is_empty()
    );
}

#[test]
fn what_is_whole_is_remembered_for_its_target_alone() {
    let root = tempfile::tempdir().expect("dir");
    let to = tempfile::tempdir().expect("dir");
    let other = tempfile::tempdir().expect("dir");
    write(root.path(), "host=a/start_ns=5/meta.json", "{}");
    write(root.path(), "host=a/start_ns=6/meta.json", "{}");
    let old = fs::File::options()
        .write(true)
        .open(root.path().join("host=a/start_ns=5/meta.json"));
    old.expect("opens")
        .set_modified(std::time::UNIX_EPOCH)
        .expect("sets");
    let (shipper, status) = started(root.path(), to.path());
    wait_for(&status, |t| t.sent.files == 2);
    end(shipper);
    fs::remove_dir_all(to.path().join("host=a/start_ns=5")).expect("removes");
    let (shipper, status) = started(root.path(), to.path());
    wait_for(&status, |t| t.sent.files == 1);
    end(shipper);
    assert!(
        !to.path().join("host=a/start_ns=5").exists(),
        "it was shipped; what became of it there is theirs"
    );
    let (shipper, status) = started(root.path(), other.path());
    wait_for(&status, |t| t.sent.files == 2);
    end(shipper);
}

#[test]
fn a_target_in_the_root_or_that_is_not_there_is_refused() {
    let root = tempfile::tempdir().expect("dir");
    fs::create_dir(root.path().join("lake")).expect("makes");
    let said = |path: &Path| {
        let opened = Shipping::open(&target(path), root.path(), Access::OWNER);
        format!("{:#}", opened.expect_err("refused"))
    };
    assert!(said(&root.path().join("lake")).contains("apart from the recording root"));
    assert!(said(root.path().parent().expect("a parent")).contains("apart from"));
    assert!(said(Path::new("/nowhere/lake")).contains("a directory that exists"));
}
