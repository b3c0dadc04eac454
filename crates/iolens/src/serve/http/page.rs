//! `/`: the application, which is sent at once and fetches its data from the API; the page of a fleet; or plain text
//! for clients that are not browsers. `/report`: the report of a stretch of time as a page, which updates itself if
//! the stretch ends now.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use iolens_observe::topology::wall_clock_ns;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::api::{Asker, Params, hosts, typed};
use super::endpoint::{AT, CLASS_NAMES, DEVICE, Endpoint, FROM, HOST, Parameter, Shape, TO};
use super::places::RequestKind;
use super::problem::Problem;
use super::{App, routes};
use crate::engine::error::QueryError;
use crate::engine::fleet::is_fleet;
use crate::engine::note::Note;
use crate::engine::page::Drawn;
use crate::engine::part::Part;
use crate::engine::query::{DEFAULT_NS, Grain, Query};
use crate::engine::report::{self, Limits};
use crate::engine::{AROUND_NS, Instant, TimeWindow, unix_ns};
use crate::present;
use crate::present::fleet::FleetDocument;
use crate::present::html::{
    Application, Beside, Note as PageNote, NoteLevel, View, application_policy,
    content_security_policy, render_application, render_nothing,
};

/// What `/` is.
pub static FRONT: Endpoint = Endpoint {
    path: "/",
    method: "get",
    // A browser's request for the page of a fleet is heavier, because it reads the store; the guard determines that.
    kind: RequestKind::Light,
    summary: "With a browser: what happened, live and in the past; else this list",
    parameters: &[HOST, FROM, TO, AT, DEVICE, CLASS, FILTER],
    keys: &[],
    schema: None,
    handler: || get(front),
};

/// What `/report` is.
pub static REPORT_PAGE: Endpoint = Endpoint {
    path: "/report",
    method: "get",
    kind: RequestKind::Heavy,
    summary: "The report of a stretch of time as a page, as `iolens report -o` writes it",
    parameters: &[HOST, FROM, TO, AT],
    keys: &[],
    schema: None,
    handler: || get(report_page),
};

/// `class`. The application reads it from its URL.
const CLASS: Parameter = Parameter {
    name: "class",
    shape: Shape::OneOf(CLASS_NAMES),
    description: "The page shows this class only",
};

/// `filter`. The application reads it from its URL.
const FILTER: Parameter = Parameter {
    name: "filter",
    shape: Shape::Text,
    description: "The page shows I/Os of this process, cgroup or file: process:NAME, cgroup:PATH or file:PATH",
};

/// Maximum share of one CPU that a live page may use.
const SHARE: f64 = 0.01;
/// Range of the refresh interval of a live page, in seconds.
const REFRESH_S: std::ops::RangeInclusive<f64> = 5.0..=300.0;
/// Recordings with more I/Os than this in total are shown one by one, because joining them would exceed the timeout.
const MAX_JOINED_IOS: u64 = 20_000_000;

/// How long the answer to whether the root has several hosts is cached.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// Maximum time a page waits for that answer before it uses the last one.
const MAX_LOOK: Duration = Duration::from_secs(if cfg!(test) { 600 } else { 2 });

/// Caches whether the root has several hosts. Finding out lists directories, which blocks if the disk hangs: only one
/// blocking thread does so at a time, and others wait with a timeout.
#[derive(Debug, Default)]
pub struct FleetCheck {
    /// Time and result of the last check.
    last: Mutex<Option<(std::time::Instant, bool)>>,
    /// Held while a thread checks.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl FleetCheck {
    /// Whether `root` has several hosts, from a check that is at most a few seconds old. If there is no answer within
    /// `patience`, returns the last result, or `false` if there is none.
    async fn is_fleet(self: &Arc<Self>, root: &Path, patience: Duration) -> bool {
        if self.recent().is_none() {
            let _is_in_time = timeout(patience, self.find_out(root)).await.is_ok();
        }
        self.last().is_some_and(|(_, is_fleet)| is_fleet)
    }

    /// Lists the directories, unless another request has done so before this one got its turn.
    async fn find_out(self: &Arc<Self>, root: &Path) {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if self.recent().is_some() {
            return;
        }
        let check = Arc::clone(self);
        let root = root.to_owned();
        // The thread keeps its priority, because a page must be fast on a busy machine, too.
        let done = spawn_blocking(move || {
            // Held until the work ends, even if the client has disconnected.
            let _turn = turn;
            check.store(is_fleet(&root));
        });
        drop(done.await);
    }

    fn store(&self, is_fleet: bool) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((std::time::Instant::now(), is_fleet));
    }

    fn last(&self) -> Option<(std::time::Instant, bool)> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> Option<bool> {
        let (at, is_fleet) = self.last()?;
        (at.elapsed() < KNOWN_FOR).then_some(is_fleet)
    }
}

impl App {
    /// Whether the root has several hosts, as far as that is known.
    pub async fn is_fleet(&self) -> bool {
        self.fleet_check.is_fleet(&self.root, MAX_LOOK).await
    }
}

/// `GET /`. The application reads the view from its URL itself, so no parameter can make this fail. The guard has
/// already determined whether this is the page of a fleet: only that is heavy.
pub async fn front(
    State(app): State<Arc<App>>,
    Extension(kind): Extension<RequestKind>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    if !is_browser(&headers) {
        return typed("text/plain; charset=utf-8", routes::index());
    }
    if kind == RequestKind::Heavy {
        return match Params::of(&uri, &FRONT) {
            Ok(params) => fleet(&app, &params).await,
            Err(problem) => html_of_fleet(&fleet_problem(&problem)),
        };
    }
    let health = app.health.document();
    let shell = Application {
        now_unix_ns: wall_clock_ns(),
        recording: health.recording,
    };
    match render_application(&shell) {
        Ok(page) => html_of(StatusCode::OK, page, application_policy()),
        Err(without_page) => no_page(&without_page),
    }
}

/// Whether a request would be for the page of a fleet, which reads the store, if the root has several hosts: it names
/// none.
pub fn may_be_of_fleet(headers: &HeaderMap, uri: &Uri) -> bool {
    uri.path() == "/" && is_browser(headers) && !names_host(uri)
}

/// Whether the query string has a non-empty parameter `host`.
fn names_host(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or("").split('&');
    pairs.any(|pair| {
        pair.strip_prefix("host=")
            .is_some_and(|name| !name.is_empty())
    })
}

/// `GET /report`.
pub async fn report_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let (params, asked) = match asked(&uri) {
        Ok(asked) => asked,
        Err(problem) => {
            return problem_page(
                &problem,
                View {
                    live: false,
                    ..View::last(wall_clock_ns(), DEFAULT_NS)
                },
            );
        }
    };
    let place = app.place(&params);
    let health = app.health.document();
    let health_problems = [health.reasons, health.degraded].concat();
    let shown = asked;
    let said = app.read(move |asker: &Asker| {
        // For a recording from elsewhere, or one that ended long ago, the default is its last minutes.
        let query = asker.query(place.path()?, asked)?;
        render_page(&query, asker, view(&query.window), health_problems)
    });
    match said.await {
        Ok(said) => html(StatusCode::OK, said.answer),
        Err(problem) => problem_page(&problem, view(&shown)),
    }
}

/// Whether the client asks for a page.
pub fn is_browser(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let ranges = accepted
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    ranges.map(str::trim).any(|r| r.starts_with("text/html"))
}

/// The page of the fleet, shown if there are several hosts and none is named.
async fn fleet(app: &Arc<App>, params: &Params) -> Response {
    let said = hosts::of(app, params).await;
    match said {
        Ok(document) => html_of_fleet(&document),
        Err(problem) => html_of_fleet(&fleet_problem(&problem)),
    }
}

/// The page of the fleet with an error instead of data.
fn fleet_problem(problem: &Problem) -> FleetDocument {
    FleetDocument {
        notes: vec![problem.detail().to_owned()],
        ..FleetDocument::default()
    }
}

fn html_of_fleet(document: &FleetDocument) -> Response {
    match present::fleet::page(document) {
        Ok(page) => html_of(StatusCode::OK, page, present::fleet::policy()),
        Err(without_page) => no_page(&without_page),
    }
}

/// The response of a program that was built without its pages.
fn no_page(why: &impl std::fmt::Display) -> Response {
    Problem::new(StatusCode::NOT_FOUND, why.to_string()).into_response()
}

fn asked(uri: &Uri) -> Result<(Params, TimeWindow), Problem> {
    let params = Params::of(uri, &REPORT_PAGE)?;
    let window = params.window()?;
    Ok((params, window))
}

/// The requested stretch, independent of what is recorded.
fn view(asked: &TimeWindow) -> View {
    let now = wall_clock_ns();
    if let Some(at) = wall_unix_ns(asked.at) {
        let from_unix_ns = at.saturating_sub(AROUND_NS);
        let to_unix_ns = at.saturating_add(AROUND_NS);
        return View {
            from_unix_ns,
            to_unix_ns,
            live: false,
            ..View::last(now, DEFAULT_NS)
        };
    }
    let to_unix_ns = wall_unix_ns(asked.to).unwrap_or(now);
    let from_unix_ns =
        wall_unix_ns(asked.from).unwrap_or_else(|| to_unix_ns.saturating_sub(DEFAULT_NS));
    // The end is in the future, or was now when the parameter was parsed.
    let live = to_unix_ns >= now - 1_000_000_000;
    View {
        from_unix_ns,
        to_unix_ns,
        live,
        ..View::last(now, DEFAULT_NS)
    }
}

fn wall_unix_ns(at: Option<Instant>) -> Option<i64> {
    match at {
        Some(Instant::Wall(t)) => Some(unix_ns(t)),
        _ => None,
    }
}

/// The part that the page shows: the whole stretch as one recording, or its longest part if that is not possible. The
/// note says whether there are further parts.
fn chosen(query: &Query<'_>) -> Result<(Part, Option<Note>), QueryError> {
    if let Ok(whole) = query.one(Grain::Recording)
        && whole.recording.ios_stored() <= MAX_JOINED_IOS
        && let Ok(whole) = whole.for_analysis(query.caller)
    {
        return Ok((whole, None));
    }
    let mut parts = query.parts(Grain::Recording)?.parts;
    let n = parts.len();
    parts.sort_by_key(|part| part.range.end - part.range.start);
    let longest = parts
        .pop()
        .ok_or_else(|| QueryError::Unreadable(query.place.to_owned()))?;
    let longest = longest.for_analysis(query.caller)?;
    Ok((longest, (n > 1).then_some(Note::LongestPartOf(n))))
}

/// Renders the page of the stretch. `health_problems` says why the recorder does not record everything now.
fn render_page(
    query: &Query<'_>,
    asker: &Asker,
    view: View,
    health_problems: Vec<String>,
) -> Result<Vec<u8>> {
    let begin = std::time::Instant::now();
    let (part, further) = chosen(query)?;
    let report = report::of_part(&part, &Limits::default(), query.caller)?;
    if let Some(note) = further {
        query.caller.note(note);
    }
    // If parts are selected after the whole was tried as one recording, some notes occur twice.
    let mut said = asker.remarks();
    let mut seen = BTreeSet::new();
    said.retain(|text| seen.insert(text.clone()));
    let mut notes = Vec::new();
    if let Some(how) = query.caller.names_left_out() {
        notes.push(page_note("Names", NoteLevel::Info, how.to_owned()));
    }
    for text in health_problems {
        notes.push(page_note("Recorder now", NoteLevel::Warning, text));
    }
    for text in said {
        notes.push(page_note("Time", NoteLevel::Info, text));
    }
    let drawn = Drawn::read(&part, &report, query.caller)?;
    let refresh_s =
        (begin.elapsed().as_secs_f64() / SHARE).clamp(*REFRESH_S.start(), *REFRESH_S.end());
    let view = View {
        refresh_s: refresh_s as u32,
        ..view
    };
    let beside = Beside {
        notes: &notes,
        view: Some(view),
        inside: None,
    };
    Ok(present::html::page(&part, &report, &drawn, beside)?)
}

fn page_note(topic: &str, level: NoteLevel, text: String) -> PageNote {
    PageNote {
        topic: topic.to_owned(),
        level,
        text,
    }
}

/// A page with the error, and navigation to other times.
fn problem_page(problem: &Problem, view: View) -> Response {
    match render_nothing(problem.detail(), view) {
        Ok(page) => html(problem.status(), page),
        Err(without_page) => Problem::new(
            problem.status(),
            format!("{}; {without_page}", problem.detail()),
        )
        .into_response(),
    }
}

fn html(status: StatusCode, page: Vec<u8>) -> Response {
    html_of(status, page, content_security_policy())
}

fn html_of(status: StatusCode, page: Vec<u8>, policy: Option<&str>) -> Response {
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    let policy = policy.map(|own| format!("{own}; frame-ancestors 'none'"));
    if let Some(policy) = policy.and_then(|p| HeaderValue::from_str(&p).ok()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::api::tests::{at, lake, record_of};
    use super::super::tests::{ask, block_on};
    use super::*;
    use crate::present::html::has_page;
    use serde_json::Value;

    fn browse(app: &Arc<App>, uri: &str) -> (Response, String) {
        let headers = [
            ("host", "localhost"),
            ("accept", "text/html,application/xhtml+xml;q=0.9"),
        ];
        let (response, body) = block_on(ask(app, "GET", uri, &headers));
        (response, body.as_str().unwrap().to_owned())
    }

    fn data(page: &str) -> Value {
        let (_, rest) = page.split_once("id=\"iolens-data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    /// Reads and writes of the one device.
    fn ios(data: &Value) -> i64 {
        let device = &data["devices"][0];
        ["read", "write"]
            .iter()
            .map(|class| device[class]["ios"].as_i64().unwrap())
            .sum()
    }

    #[test]
    fn browsers_get_the_page_of_a_stretch_and_others_the_list() {
        let (_dir, app) = lake();
        let (response, body) = block_on(ask(
            &app,
            "GET",
            "/",
            &[("host", "localhost"), ("accept", "*/*")],
        ));
        assert!(
            response.status().is_success() && body.as_str().unwrap().contains("/api/v1/series")
        );
        if !has_page() {
            eprintln!("SKIP: built without the page");
            return;
        }
        let (response, page) = browse(&app, &format!("/report?from={}&to={}", at(30), at(90)));
        assert_eq!(response.status(), StatusCode::OK);
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap();
        assert!(
            policy.contains("script-src 'sha256-") && policy.ends_with("frame-ancestors 'none'"),
            "{policy}"
        );
        let data = data(&page);
        assert_eq!(data["view"]["live"], false);
        assert_eq!(
            data["view"]["from_unix_s"].as_f64().unwrap() as i64,
            at(30).parse::<i64>().unwrap()
        );
        assert_eq!(ios(&data), 1200, "20 I/Os a second for a minute");
        assert!(!page.contains("<b>e"), "names are data");
    }

    #[test]
    fn several_hosts_are_known_for_a_while_and_no_page_waits_for_a_disk_that_hangs() {
        let (dir, app) = lake();
        record_of(dir.path(), "other", 0, 120);
        block_on(async {
            let check = &app.fleet_check;
            // As a thread that lists the directories of a disk that hangs.
            let turn = Arc::clone(&check.turn).lock_owned().await;
            assert!(!check.is_fleet(dir.path(), Duration::ZERO).await);
            drop(turn);
            assert!(check.is_fleet(dir.path(), MAX_LOOK).await);
            let _turn = Arc::clone(&check.turn).lock_owned().await;
            assert!(check.is_fleet(dir.path(), Duration::ZERO).await);
        });
    }

    #[test]
    fn several_hosts_are_shown_beside_each_other_until_one_is_named() {
        let (dir, app) = lake();
        record_of(dir.path(), "</script><b>x", 0, 120);
        if !has_page() || present::fleet::policy().is_none() {
            eprintln!("SKIP: built without the page");
            return;
        }
        let (response, page) = browse(&app, "/");
        assert_eq!(response.status(), StatusCode::OK);
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap()
            .to_owned();
        let fleet = data(&page);
        assert_eq!(
            (
                fleet["format"].as_u64(),
                fleet["hosts"].as_array().unwrap().len()
            ),
            (Some(1), 2)
        );
        assert!(
            policy.contains("script-src 'sha256-") && !page.contains("<b>x"),
            "names are data"
        );
        let (response, page) = browse(
            &app,
            &format!("/report?host=h&from={}&to={}", at(30), at(90)),
        );
        assert_eq!(
            (response.status(), ios(&data(&page))),
            (StatusCode::OK, 1200)
        );
        assert_ne!(
            response.headers()[header::CONTENT_SECURITY_POLICY]
                .to_str()
                .unwrap(),
            policy,
            "another page"
        );
        let (response, page) = browse(&app, &format!("/?from={}&to={}", at(-900), at(-600)));
        assert_eq!(response.status(), StatusCode::OK);
        assert!(
            data(&page)["notes"][0]
                .as_str()
                .unwrap()
                .contains("rollups"),
            "why there is nothing"
        );
    }

    #[test]
    fn a_stretch_over_two_recordings_shows_both_and_an_empty_one_says_so() {
        let (_dir, app) = lake();
        if !has_page() {
            eprintln!("SKIP: built without the page");
            return;
        }
        let (response, page) = browse(&app, &format!("/report?from={}&to={}", at(100), at(320)));
        assert_eq!(response.status(), StatusCode::OK);
        let shown = data(&page);
        assert_eq!(
            ios(&shown),
            2000,
            "80 s of the first and 20 s of the second"
        );
        let lossy = shown["lost_intervals"].to_string();
        assert!(
            lossy.contains("not-recorded"),
            "what is between is not idle: {lossy}"
        );
        for (uri, why) in [
            (
                format!("/report?from={}&to={}", at(200), at(250)),
                "no recording holds",
            ),
            ("/report?form=1".to_owned(), "no such parameter"),
            (
                format!("/report?from={}&to={}", at(50), at(40)),
                "not after",
            ),
        ] {
            let (response, page) = browse(&app, &uri);
            assert!(
                response.status().is_client_error(),
                "{uri}: {}",
                response.status()
            );
            let problem = data(&page)["problem"].as_str().unwrap().to_owned();
            assert!(problem.contains(why), "{uri}: {problem}");
        }
        let (_, page) = browse(&app, "/report");
        assert_eq!(
            data(&page)["view"]["live"],
            true,
            "the last quarter of an hour, of which nothing is known"
        );
    }

    #[test]
    fn the_application_is_sent_whatever_the_address_says_and_reads_nothing() {
        let (dir, app) = lake();
        if !has_page() || application_policy().is_none() {
            eprintln!("SKIP: built without the page");
            return;
        }
        // Nothing is left to read: an answer that needs the store would fail.
        std::fs::remove_dir_all(dir.path()).unwrap();
        for uri in ["/", "/?from=nonsense", "/?host=%00&filter=process:%3Cb%3Ex"] {
            let (response, page) = browse(&app, uri);
            assert_eq!(response.status(), StatusCode::OK, "{uri}");
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
                .to_str()
                .unwrap();
            assert!(policy.contains("connect-src 'self'"), "{policy}");
            assert!(data(&page)["now_unix_s"].as_f64().unwrap() > 0.0);
            assert!(!page.contains("<b>x"), "{uri}");
        }
    }
}
