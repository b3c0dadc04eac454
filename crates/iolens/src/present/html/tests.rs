//! What the page gets is what the overview said, and nothing in it is markup.

use super::pack::tests::{unpack_column, unpack_list};
use super::*;
use crate::present::report_json::tests::sample;
use iolens_core::analysis::Window;
use iolens_core::analysis::overview::{Overview, OverviewPlan, Scope};
use iolens_core::model::{Comm, CpuShares, DevId, Device, IntervalRates, Io, LossReason, Lost, Op};
use serde_json::json;

const TEMPLATE: &str =
    "<title>__TITLE__</title><script type=\"application/json\">__DATA__</script>";

fn dev() -> DevId {
    DevId::new(8, 0)
}

/// 10 s: 100 reads of 5 ms, one large write of 2 s.
fn overview() -> Overview {
    let window = Window::new(0, 10_000_000_000);
    let mut overview = Overview::new(OverviewPlan::whole(
        window,
        vec![Scope {
            devices: vec![dev()],
        }],
    ));
    feed(&mut overview);
    overview
}

fn feed(overview: &mut Overview) {
    for i in 0..100 {
        overview.push(&Io::new(
            (i + 1) * 50_000_000,
            dev(),
            Op::READ,
            4096,
            Some(1_000_000),
            4_000_000,
        ));
    }
    overview.push(&Io::new(
        8_000_000_000,
        dev(),
        Op::WRITE,
        1 << 20,
        Some(0),
        2_000_000_000,
    ));
}

struct Scene {
    report: Report,
    meta: RecordingMeta,
    facts: RecordingFacts,
    overview: OverviewData,
    names: Names,
    files: Option<FilesReport>,
    tables: Option<(Vec<IntervalRates>, Vec<CpuShares>)>,
    view: Option<View>,
}

impl Scene {
    fn new() -> Scene {
        let (report, meta, facts) = sample();
        let overview = overview().finish();
        Scene {
            report,
            meta,
            facts,
            overview,
            names: Names::default(),
            files: None,
            tables: None,
            view: None,
        }
    }

    fn tables(&self) -> Option<Tables<'_>> {
        let (rates, cpu) = self.tables.as_ref()?;
        Some(Tables { rates, cpu })
    }

    fn data(&self) -> ReportData<'_> {
        ReportData {
            report: &self.report,
            meta: &self.meta,
            facts: &self.facts,
            overview: &self.overview,
            inside: None,
            names: &self.names,
            notes: &[],
            marks: &[],
            files: self.files.as_ref(),
            tables: self.tables(),
            view: self.view,
        }
    }

    fn html(&self) -> String {
        String::from_utf8(report(TEMPLATE, &self.data())).expect("UTF-8")
    }

    fn document(&self) -> Value {
        let html = self.html();
        let (_, rest) = html.split_once("json\">").expect("the data's element");
        let (json, _) = rest.split_once("</script>").expect("its end");
        serde_json::from_str(json).expect("valid JSON")
    }
}

#[test]
fn a_page_of_a_server_says_where_it_stands_and_a_file_does_not() {
    let mut scene = Scene::new();
    assert!(scene.document().get("view").is_none());
    let ns = 1_000_000_000;
    let view = View {
        from_unix_ns: 5 * ns,
        to_unix_ns: 9 * ns,
        now_unix_ns: 9 * ns,
        live: true,
        refresh_s: 7,
    };
    scene.view = Some(view);
    let at = &scene.document()["view"];
    let expected = json!({"from_unix_s": 5.0, "to_unix_s": 9.0, "now_unix_s": 9.0, "live": true, "refresh_s": 7});
    assert_eq!(at, &expected);
    let Ok(page) = render_nothing("nothing </script> of this time", view) else {
        eprintln!("SKIP: built without the page");
        return;
    };
    let page = String::from_utf8(page).expect("UTF-8");
    assert!(
        !page.contains("nothing </script>")
            && page.contains(r#"of this time","view":{"from_unix_s":5.0"#)
    );
}

#[test]
fn columns_come_back_as_they_were() {
    let scene = Scene::new();
    let doc = scene.document();
    let scope = &doc["scopes"][0];
    assert_eq!(
        scope["label"], "sd\x1b[31ma",
        "names are not touched, the page shows them as text"
    );
    let level = &scope["levels"][0];
    let text = |v: &Value| v.as_str().expect("packed text").to_owned();
    // Of single I/Os the application draws the rest.
    let levels = &scene.overview.levels;
    let truth = levels.iter().min_by_key(|l| l.step_ns).expect("a level");
    assert_eq!(
        (level["step_ns"].as_i64(), level["slot_count"].as_u64()),
        (Some(truth.step_ns), Some(truth.counts.len() as u64))
    );
    let ios: Vec<_> = truth.counts.iter().map(|c| Some(c.ios[0])).collect();
    assert_eq!(unpack_column(&text(&level["cols"]["r_ios"])), ios);
    assert_eq!(ios.iter().flatten().sum::<u64>(), 100);
    let p50 = unpack_column(&text(&level["cols"]["r_p50"]));
    let first = truth
        .counts
        .iter()
        .position(|c| c.ios[0] > 0)
        .expect("a slot with reads");
    let ns = ((p50[first].expect("a median") - 1) as f64 / 64.0).exp2();
    assert!((ns / 5e6 - 1.0).abs() < 0.011, "{ns}");
    assert_eq!(p50[0], None, "no read, no latency");
    let busy = unpack_column(&text(&level["cols"]["busy_w"]));
    assert_eq!(
        busy.iter().flatten().filter(|v| **v == 1000).count() as i64 * truth.step_ns,
        2_000_000_000
    );
    let sizes = unpack_list(&text(&scope["distributions"]["size"]["write"]));
    assert_eq!(sizes, [20, 1, 2048]);
    for key in ["recording", "devices", "findings"] {
        assert!(!doc[key].is_null(), "{key}");
    }
}

#[test]
fn devices_in_depth_come_with_both_attributions_and_their_slots() {
    let scene = Scene::new();
    let doc = scene.document();
    assert!(
        doc["devices"][0].get("detail").is_none(),
        "given once, in depth"
    );
    let depth = &doc["depth"][0];
    assert_eq!(
        (&depth["device"], &depth["stages"]["d2c"]["n"]),
        (&"sd\x1b[31ma".into(), &101.into())
    );
    let group = &depth["slots"]["all"][0];
    assert_eq!(
        (&group["slot_count"], &group["touched"]["max"]),
        (&5000.into(), &1.0.into())
    );
    let attribution = &depth["attribution"];
    let means = |key: &str| unpack_column(attribution[key].as_str().expect("packed"));
    let completed = means("completed");
    let arrived = means("arrived");
    assert_eq!((completed.len(), arrived.len()), (10, 10));
    // The write of two seconds is done at 8 s and came at 6 s.
    assert!(
        completed[8].is_some()
            && arrived[8].is_none()
            && completed[6].is_none()
            && arrived[6].is_some()
    );
    assert_eq!(depth["rhythm"].as_array().map(Vec::len), Some(2));
}

#[test]
fn hostile_names_stay_data() {
    let mut scene = Scene::new();
    let evil = "</script><script>alert(1)</script><!--\u{2028}";
    scene.meta.host = Some("__DATA__</title><img>".to_owned());
    scene.meta.devices[0].name = evil.to_owned();
    let mut overview = overview();
    let writer = Io {
        comm: Some(Comm::new(b"</script><b>")),
        tgid: Some(9),
        ino: Some(12),
        fs_dev: Some(dev().0),
        ..Io::new(9_000_000_000, dev(), Op::WRITE, 512, None, 5)
    };
    overview.push(&writer);
    scene.overview = overview.finish();
    scene
        .names
        .files
        .extend(writer.inode().map(|file| (file, evil.to_owned())));
    let html = scene.html();
    assert_eq!(html.matches("<script").count(), 1);
    assert_eq!(html.matches("</script").count(), 1);
    assert!(!html.contains("<img") && !html.contains("<!--"));
    let doc = scene.document();
    assert_eq!(
        doc["scopes"][0]["device_names"][0], evil,
        "and comes back whole"
    );
    let actors = doc["actors"].as_array().expect("actors");
    let writer = actors
        .iter()
        .find(|a| a["name"] == "</script><b>")
        .expect("the writer");
    assert_eq!(
        (&writer["read"]["mean_us"], &writer["identity"]),
        (&Value::Null, &"pid 9".into())
    );
    assert!(actors.iter().any(|a| {
        a["by"] == "file"
            && a["name"] == evil
            && a["identity"]
                .as_str()
                .is_some_and(|d| d.contains("inode 12"))
    }));
}

#[test]
fn losses_and_limits_are_reported() {
    let mut scene = Scene::new();
    let mut overview = overview();
    let reason = LossReason::RingFull;
    overview.lost(&Lost {
        from_ns: 1_000_000_000,
        to_ns: 2_500_000_000,
        dev: None,
        class: None,
        reason,
        ios: None,
        bytes: None,
        merges: None,
    });
    scene.overview = overview.finish();
    scene.meta.limits = vec!["no process names".to_owned()];
    let doc = scene.document();
    let loss = &doc["lost_intervals"][0];
    assert_eq!(
        (
            &loss["start_s"],
            &loss["end_s"],
            &loss["reason"],
            &loss["ios"]
        ),
        (&1.0.into(), &2.5.into(), &"ring-full".into(), &Value::Null)
    );
    let notes = doc["quality"].as_array().expect("notes");
    assert!(notes.iter().any(|n| n["text"] == "no process names"));
    let capacity = &doc["scopes"][0]["capacity"];
    assert!(
        capacity["state"].is_string()
            && capacity["summary"]
                .as_str()
                .is_some_and(|s| s.contains("windows")),
        "{capacity}"
    );
}

#[test]
fn file_level_requests_are_there_only_if_recorded_and_stay_data() {
    let mut scene = Scene::new();
    assert!(scene.document().get("files").is_none());
    scene.files = Some(crate::present::files_sample::report(
        "</script><img>",
        400,
        20_000_000,
    ));
    let html = scene.html();
    assert!(html.matches("</script").count() == 1 && !html.contains("<img"));
    assert_eq!(
        scene.document()["files"]["slowest"][0]["file"],
        "</script><img>"
    );
}

#[test]
fn an_empty_recording_is_a_report_too() {
    let mut scene = Scene::new();
    scene.overview = Overview::new(OverviewPlan::whole(Window::new(0, 0), Vec::new())).finish();
    let doc = scene.document();
    assert_eq!(doc["scopes"], Value::Array(Vec::new()));
}

#[test]
fn the_embedded_page_has_room_for_data() {
    let Some(page) = REPORT_PAGE else {
        eprintln!("SKIP: built without the page (make web)");
        return;
    };
    assert_eq!(
        (
            page.matches(TITLE_MARKER).count(),
            page.matches(DATA_MARKER).count()
        ),
        (1, 1)
    );
    let html = String::from_utf8(render(&Scene::new().data()).expect("a page")).expect("UTF-8");
    assert!(html.len() < MAX_BYTES && html.contains("\"format\":1"));
}

/// Rows of a second of two devices, which differ by a factor of ten.
fn table_rows(seconds: i64) -> Vec<IntervalRates> {
    let mut rows = Vec::new();
    for second in 0..seconds {
        for (factor, dev) in [(1.0, DevId::new(0, 1)), (10.0, DevId::new(0, 2))] {
            let ns = 1_000_000_000;
            let mut row = IntervalRates::new(second * ns, (second + 1) * ns, dev);
            let reads = 12.34 * factor * (1 + second % 7) as f64;
            row.classes[0].ios_per_s = Some(reads);
            row.classes[0].bytes_per_s = Some(reads * 4096.0);
            row.classes[0].mean_us = (second != 1).then_some(250.0);
            row.in_flight = Some(0.25);
            row.util_percent = Some(7.5 * factor);
            rows.push(row);
        }
    }
    rows
}

fn scene_of_tables(seconds: i64) -> Scene {
    let mut scene = Scene::new();
    let names = [("sda", 1), ("sdb", 2)];
    let device = |(name, minor): (&str, u32)| Device::named(name, DevId::new(0, minor));
    scene.meta.devices = names.map(device).to_vec();
    let cpu = CpuShares {
        from_ns: 0,
        to_ns: seconds * 1_000_000_000,
        user: Some(12.5),
        idle: Some(80.0),
        ..CpuShares::default()
    };
    scene.tables = Some((table_rows(seconds), vec![cpu]));
    scene
}

#[test]
fn the_rows_of_an_imported_table_are_in_the_page_as_the_log_has_them() {
    let document = scene_of_tables(3).document();
    let tables = &document["imported_tables"];
    assert_eq!(tables["merged"], 1);
    let sdb = &tables["devices"][1];
    assert_eq!(sdb["device"], "sdb");
    let column = |name: &str| unpack_column(sdb["table"]["cols"][name].as_str().expect(name));
    let reads = [12_340, 24_680, 37_020].map(Some);
    assert_eq!(column("r_ios"), reads);
    assert_eq!(column("r_us"), [Some(25_000), None, Some(25_000)]);
    assert_eq!(column("util"), [Some(7500); 3]);
    let to = unpack_column(sdb["table"]["ends"].as_str().expect("ends"));
    assert_eq!(to, [1000, 2000, 3000].map(Some));
    assert!(
        sdb["table"]["cols"].get("w_ios").is_none(),
        "the log has no writes"
    );
    assert!(sdb["table"].get("peaks").is_none());
    assert_eq!(tables["cpu"]["cols"]["user"], pack::column([Some(1250)]));
    assert!(Scene::new().document().get("imported_tables").is_none());
}

#[test]
fn a_long_table_has_fewer_rows_with_their_peaks_and_fits() {
    let scene = scene_of_tables(400_000);
    let html = scene.html();
    assert!(html.len() < MAX_BYTES, "{} bytes", html.len());
    let document = scene.document();
    let tables = &document["imported_tables"];
    let merged = tables["merged"].as_u64().expect("a number");
    assert!(merged > 1);
    let sda = &tables["devices"][0]["table"];
    let peaks = unpack_column(sda["peaks"]["r_ios"].as_str().expect("peaks"));
    assert_eq!(peaks.len() as u64, 400_000u64.div_ceil(merged));
    assert_eq!(peaks.iter().max(), Some(&Some(8638)), "7 * 12.34 a second");
}
