//! What is read in pieces, beside each other, is what one reading finds.

use std::ops::Range;
use std::path::Path;

use iolens_core::analysis::heat::{Heat, TimePart};
use iolens_core::analysis::timeline::{GroupBy, Row};
use iolens_core::model::{Comm, DevId, Io, Op, RecorderCost, RecordingMeta, Source};
use iolens_core::store::{RecordingWriter, WriterOptions};

use super::TimeWindow;
use super::actors::{ActorFlows, add_rows};
use super::caller::Caller;
use super::heat::HeatPlan;
use super::part::{Part, Tier};
use super::query::{Grain, Query, Step};
use super::view::PlannedRows;

const MS: i64 = 1_000_000;
const S: i64 = 1000 * MS;

/// Six seconds of two disks and three processes, after an idle second; some I/Os take half a second.
fn record(path: &Path) {
    let meta = RecordingMeta::new(Source::Ebpf, 0);
    let mut writer =
        RecordingWriter::create(path, meta, WriterOptions::default()).expect("a recording");
    for i in 0..3000_i64 {
        let op = if i % 3 == 0 { Op::WRITE } else { Op::READ };
        let device_ns = if i % 97 == 96 {
            S / 2
        } else {
            MS + i % 31 * MS / 4
        };
        let dev = DevId::new(8, 16 * u32::from(i % 5 == 0));
        let io = Io::new(S + i * 2 * MS, dev, op, 4096, Some(i % 7 * 1000), device_ns);
        let io = Io {
            tgid: Some((i % 3) as i32),
            comm: Some(Comm::new(b"fio")),
            ..io
        };
        writer.push_ios(&[io]).expect("written");
    }
    writer
        .finish(7 * S, RecorderCost::default())
        .expect("finished");
}

fn part(path: &Path, grain: Grain, caller: &Caller) -> Part {
    let query = Query::new(path, TimeWindow::default(), caller);
    let mut parts = query.parts(grain).expect("readable").parts;
    parts.remove(0)
}

/// `range`, cut at each of `cuts`.
fn cut(range: &Range<i64>, cuts: &[i64]) -> Vec<Range<i64>> {
    let mut pieces = Vec::new();
    let mut from_ns = range.start;
    for at_ns in cuts.iter().chain([&range.end]) {
        pieces.push(from_ns..*at_ns);
        from_ns = *at_ns;
    }
    pieces
}

fn rows(view: &PlannedRows, pieces: &[Range<i64>], caller: &Caller) -> Vec<(Row, String)> {
    let mut rows = Vec::new();
    for piece in pieces {
        let keep = |row: &Row, name: &str| {
            rows.push((row.clone(), name.to_owned()));
            Ok(())
        };
        view.show_piece(piece.clone(), 0, caller, keep)
            .expect("rows");
    }
    rows
}

#[test]
fn rows_of_pieces_are_the_rows_of_all_of_the_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    record(&path);
    let caller = Caller::without_notes();
    for by in [GroupBy::All, GroupBy::Device, GroupBy::Process] {
        for step_ns in [10 * MS, 200 * MS] {
            let grain = Grain::Rows {
                step: Step::OfSource(Some(step_ns)),
                by,
                tier: Tier::Finest,
            };
            let view =
                PlannedRows::new(part(&path, grain, &caller), by, true, &caller).expect("a view");
            let whole = rows(&view, &[view.range()], &caller);
            assert!(whole.len() >= 30, "{by:?} {step_ns}");
            for cuts in [&[200 * MS][..], &[S, 2 * S, 2 * S + 600 * MS, 5 * S]] {
                let pieces = cut(&view.range(), cuts);
                assert_eq!(rows(&view, &pieces, &caller), whole, "{by:?} {step_ns}");
            }
        }
    }
}

#[test]
fn actors_of_pieces_add_up_to_those_of_all_of_the_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    record(&path);
    let caller = Caller::without_notes();
    let by = GroupBy::Process;
    let part = part(&path, Grain::Actors(by), &caller);
    let view = PlannedRows::new(part, by, false, &caller).expect("a view");
    let sums = |pieces: &[Range<i64>]| {
        let mut sums = ActorFlows::default();
        for piece in pieces {
            add_rows(&view, piece.clone(), &mut sums, &caller).expect("rows");
        }
        sums
    };
    let whole = sums(&[view.range()]);
    assert_eq!(whole.named.len(), 3);
    assert_eq!(sums(&cut(&view.range(), &[1, 7 * MS + 3, 3 * S])), whole);
}

#[test]
fn a_picture_of_pieces_is_that_of_all_of_the_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    record(&path);
    let caller = Caller::without_notes();
    let plan = HeatPlan {
        query: Query::new(&path, TimeWindow::default(), &caller),
        class: None,
        part: TimePart::Total,
        width: 100,
    };
    let columns = Grain::Columns {
        width: 100,
        of_queue_times: false,
    };
    let part = part(&path, columns, &caller);
    let cells = |pieces: &[Range<i64>]| {
        let empty = || Heat::new(part.unix_ns(), part.step_ns, 100);
        let mut all = empty();
        for piece in pieces {
            let mut heat = empty();
            plan.add(&part, piece.clone(), &mut heat)
                .expect("a picture");
            all = all.joined(heat);
        }
        all.cells(40)
    };
    let whole = cells(std::slice::from_ref(&part.range));
    assert_eq!(whole.counts.iter().flatten().sum::<u64>(), 3000);
    assert_eq!(cells(&cut(&part.range, &[5, S + 1, 4 * S])), whole);
}
