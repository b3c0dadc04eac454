//! Where a page stands that a server made: in which stretch of the time that the server knows.

use serde::Serialize;

use super::{APP_PAGE, NoPage, REPORT_PAGE, fill, script_safe};

/// The stretch of time that a page of a server was requested for. Nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Its beginning.
    pub from_unix_ns: i64,
    /// Its end.
    pub to_unix_ns: i64,
    /// The server's clock.
    pub now_unix_ns: i64,
    /// It ends now, whenever that is.
    pub live: bool,
    /// A live page shows what is new after so many seconds.
    pub refresh_s: u32,
}

impl View {
    /// The last `length_ns` before now.
    pub fn last(now_unix_ns: i64, length_ns: i64) -> View {
        let from_unix_ns = now_unix_ns.saturating_sub(length_ns);
        View {
            from_unix_ns,
            to_unix_ns: now_unix_ns,
            now_unix_ns,
            live: true,
            refresh_s: 60,
        }
    }
}

/// Where the page stands in what the server knows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ViewBlock {
    /// Beginning of the stretch that was requested.
    from_unix_s: f64,
    /// Its end.
    to_unix_s: f64,
    /// The server's clock.
    now_unix_s: f64,
    /// It ends now, whenever that is.
    live: bool,
    /// A live page shows what is new after this.
    refresh_s: u32,
}

impl From<View> for ViewBlock {
    fn from(v: View) -> ViewBlock {
        ViewBlock {
            from_unix_s: v.from_unix_ns as f64 / 1e9,
            to_unix_s: v.to_unix_ns as f64 / 1e9,
            now_unix_s: v.now_unix_ns as f64 / 1e9,
            live: v.live,
            refresh_s: v.refresh_s,
        }
    }
}

/// Instead of a report: why there is none for this time.
#[derive(Serialize)]
struct NoData<'a> {
    /// Version of this document.
    format: u32,
    /// One line for people.
    problem: &'a str,
    view: ViewBlock,
}

/// The page of a time of which a server knows nothing; `problem` says why.
///
/// # Errors
/// [`NoPage`] if this program was built without the page.
pub fn render_nothing(problem: &str, view: View) -> Result<Vec<u8>, NoPage> {
    let data = NoData {
        format: 1,
        problem,
        view: view.into(),
    };
    REPORT_PAGE
        .map(|page| fill(page, "Disk I/O – iolens", &script_safe(&data)))
        .ok_or(NoPage)
}

/// What the application is sent with; all else it fetches.
#[derive(Debug, Clone, Copy)]
pub struct Application {
    /// The server's clock, in nanoseconds since the epoch.
    pub now_unix_ns: i64,
    /// The server records now.
    pub recording: bool,
}

#[derive(Serialize)]
struct ApplicationData {
    /// Version of this document.
    format: u32,
    now_unix_s: f64,
    recording: bool,
}

/// The application.
///
/// # Errors
/// [`NoPage`] if this program was built without it.
pub fn render_application(shell: &Application) -> Result<Vec<u8>, NoPage> {
    let data = ApplicationData {
        format: 1,
        now_unix_s: shell.now_unix_ns as f64 / 1e9,
        recording: shell.recording,
    };
    APP_PAGE
        .map(|page| fill(page, "Disk I/O – iolens", &script_safe(&data)))
        .ok_or(NoPage)
}

/// What the application allows itself; `None` if this program was built without it.
pub fn application_policy() -> Option<&'static str> {
    script_policy(APP_PAGE?)
}

/// What the page allows itself, for the header of a server that sends it; `None` if this program was built without it.
pub fn content_security_policy() -> Option<&'static str> {
    script_policy(REPORT_PAGE?)
}

/// The same of another page.
pub fn script_policy(page: &'static str) -> Option<&'static str> {
    let (_, rest) = page.split_once("Content-Security-Policy\" content=\"")?;
    Some(rest.split_once('"')?.0)
}

/// Whether this program was built with the page.
#[cfg(test)]
pub fn has_page() -> bool {
    REPORT_PAGE.is_some()
}
