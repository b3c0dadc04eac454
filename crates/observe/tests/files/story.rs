//! All kinds of file I/O, compared with what the program did and with the kernel's accounting.

use std::{collections::BTreeMap, fs, process::Command};

use iolens_core::model::{Request, RequestClass, RequestFlags, SyncKind};

use super::lab::{children, machine_has, record, story, turn};

/// Requests, I/Os in, bytes in, I/Os out, bytes out, of one path.
type Sums = (i64, i64, i64, i64, i64);

fn sums(requests: &[(String, Request)]) -> BTreeMap<String, Sums> {
    let mut all: BTreeMap<String, Sums> = BTreeMap::new();
    for (path, r) in requests.iter().filter(|(_, r)| r.sync.is_none()) {
        let s = all.entry(path.clone()).or_default();
        *s = (
            s.0 + 1,
            s.1 + r.ios_in,
            s.2 + r.bytes_in,
            s.3 + r.ios_out,
            s.4 + r.bytes_out,
        );
    }
    all
}

/// Expected sums per file of story.c.
const EXPECTED: &[(&str, Sums)] = &[
    ("buffered", (2, 2, 20_480, 5, 20_480)),
    ("cloexec", (1, 0, 0, 1, 90)),
    ("copied", (1, 0, 0, 2, 8_000)),
    ("direct", (1, 1, 8_192, 6, 49_152)),
    ("dropped", (1, 0, 0, 0, 0)),
    ("duplicated", (1, 0, 0, 3, 60)),
    ("failing", (1, 0, 0, 0, 0)),
    ("inherited", (1, 0, 0, 3, 210)),
    ("kept", (1, 0, 0, 1, 6)),
    ("positional", (2, 3, 8_100, 1, 8_192)),
    ("ranged", (1, 0, 0, 1, 50)),
    ("replacing", (1, 0, 0, 1, 40)),
    ("sent", (2, 1, 100, 1, 100)),
    ("shared", (1, 16, 65_536, 1, 16_384)),
    ("vectored", (1, 2, 2_500, 2, 3_000)),
];

fn find<'a>(requests: &'a [(String, Request)], path: &str) -> &'a Request {
    &requests
        .iter()
        .find(|(p, r)| p == path && r.sync.is_none())
        .unwrap_or_else(|| panic!("{path} in {requests:#?}"))
        .1
}

#[test]
fn every_way_of_doing_io_is_counted_as_it_was_done() {
    let _turn = turn();
    if !machine_has(&["cc"]) {
        return;
    }
    // Not tmpfs, which does not support O_DIRECT everywhere.
    let tmp = tempfile::tempdir_in("/var/tmp").unwrap();
    let program = story(tmp.path());
    let data = tmp.path().join("data");
    fs::create_dir(&data).unwrap();
    let (requests, lost) = record(&children(), Command::new(&program).arg(&data), &data);
    assert!(lost.is_empty(), "{lost:?}");
    let mut got = sums(&requests);
    // The nameless file is called "#" and its number.
    let nameless = got
        .keys()
        .find(|k| k.starts_with('#'))
        .cloned()
        .expect("O_TMPFILE");
    assert_eq!(got.remove(&nameless), Some((1, 0, 0, 1, 777)));
    let expected: BTreeMap<String, Sums> = EXPECTED
        .iter()
        .map(|(p, s)| ((*p).to_owned(), *s))
        .collect();
    assert_eq!(got, expected);

    let has = |path: &str, flag: RequestFlags| {
        assert!(find(&requests, path).flags.has(flag), "{path}: {flag:?}")
    };
    has("duplicated", RequestFlags::ALIASED);
    has("inherited", RequestFlags::FORKED);
    has("direct", RequestFlags::DIRECT);
    has("dropped", RequestFlags::AT_EXIT);
    has("kept", RequestFlags::AT_EXIT);
    has("sent", RequestFlags::ESCAPED);
    assert!(
        requests
            .iter()
            .any(|(p, r)| p == "buffered" && r.flags.has(RequestFlags::MMAP))
    );
    assert!(
        requests
            .iter()
            .any(|(p, r)| p == "sent" && r.flags.has(RequestFlags::UNKNOWN_START))
    );
    let buffered = find(&requests, "buffered");
    assert_eq!(
        (buffered.empty_reads, buffered.class(), buffered.size),
        (1, RequestClass::Out, Some(20_480))
    );
    assert_eq!(find(&requests, "failing").failed, 1);
    assert!(find(&requests, "direct").device_ios >= 6);
    let syncs: Vec<Option<SyncKind>> = requests
        .iter()
        .map(|(_, r)| r.sync)
        .filter(Option::is_some)
        .collect();
    assert_eq!(
        syncs,
        [
            SyncKind::Fsync,
            SyncKind::Fdatasync,
            SyncKind::SyncFileRange
        ]
        .map(Some)
    );
    // The kernel's own accounting of the first part.
    let first_part = [
        "buffered",
        "vectored",
        "positional",
        "failing",
        "direct",
        "copied",
        nameless.as_str(),
    ];
    let bytes = requests
        .iter()
        .filter(|(path, _)| first_part.contains(&path.as_str()));
    let (bytes_in, bytes_out) =
        bytes.fold((0, 0), |s, (_, r)| (s.0 + r.bytes_in, s.1 + r.bytes_out));
    let accounted = fs::read_to_string(tmp.path().join("data.io")).unwrap();
    assert_eq!(
        format!("{bytes_in} {bytes_out}\n"),
        accounted,
        "/proc/PID/io"
    );
    for (path, r) in &requests {
        assert!(
            r.start_ns <= r.end_ns && r.total_ns().is_none_or(|t| t <= r.end_ns - r.start_ns),
            "{path} {r:?}"
        );
        assert!(
            r.first.windows(2).all(|w| w[0].bytes > 0 && w[1].bytes > 0),
            "{path} {r:?}"
        );
    }
}
