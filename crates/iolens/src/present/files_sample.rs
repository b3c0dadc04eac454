//! A report of file-level requests for the tests of those who show one.

use iolens_core::analysis::Window;
use iolens_core::analysis::files::{By, FilesReport, FilesReportBuilder};
use iolens_core::model::{DataIo, How, Request, SyncKind};

/// One that read a file in two I/Os of 8 KiB and 40 us each, both from the device.
fn two_reads(start_ns: i64, path: &str) -> Request {
    Request {
        open_ns: Some(10_000),
        close_ns: Some(1_000),
        last_after_ns: Some(100_000),
        active_ns: 80_000,
        ios_in: 2,
        bytes_in: 16_384,
        device_ios: 2,
        first: vec![read(10_000), read(60_000)],
        tgid: Some(7),
        path: Some(path.into()),
        ..Request::new(start_ns, start_ns + 110_000)
    }
}

fn read(after_ns: i64) -> DataIo {
    DataIo {
        after_ns,
        duration_ns: 40_000,
        bytes: 8192,
        how: How::DEVICE,
    }
}

/// Ten seconds with `requests` of them, one every `every_ns`, and a sync of 5 ms, all of one file.
pub(super) fn report(path: &str, requests: i64, every_ns: i64) -> FilesReport {
    let mut b = FilesReportBuilder::new(Window::new(0, 10_000_000_000), By::Process);
    for i in 0..requests {
        b.push(&two_reads(i * every_ns, path));
    }
    b.push(&Request {
        sync: Some(SyncKind::Fsync),
        path: Some(path.into()),
        ..Request::new(0, 5_000_000)
    });
    b.finish()
}
