//! The time range of a page made by a server, relative to what the server knows.

use serde::Serialize;

use super::{APP_PAGE, NoPage, REPORT_PAGE, fill, script_safe};

/// The time range for which a server's page was requested, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Its beginning.
    pub from_unix_ns: i64,
    /// Its end.
    pub to_unix_ns: i64,
    /// Current time of the server.
    pub now_unix_ns: i64,
    /// Whether the end follows the current time.
    pub live: bool,
    /// Refresh interval of a live page in seconds.
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
    /// Start of the requested time range.
    from_unix_s: f64,
    /// End of the time range.
    to_unix_s: f64,
    /// Time of the server's clock.
    now_unix_s: f64,
    /// Whether the time range ends at the present time and moves with it.
    live: bool,
    /// Refresh interval of a live page.
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
    /// Version of the document's layout.
    format: u32,
    /// One line for people.
    problem: &'a str,
    view: ViewBlock,
}

/// Renders a page for a time range without data; `problem` is the reason.
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

/// Initial data of the application, which fetches everything else.
#[derive(Debug, Clone, Copy)]
pub struct Application {
    /// Current time of the server, in nanoseconds since the epoch.
    pub now_unix_ns: i64,
    /// Whether the server is recording.
    pub recording: bool,
}

#[derive(Serialize)]
struct ApplicationData {
    /// Version of the document's layout.
    format: u32,
    now_unix_s: f64,
    recording: bool,
}

/// Renders the application.
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

/// The content security policy of the application; `None` if this program was built without it.
pub fn application_policy() -> Option<&'static str> {
    script_policy(APP_PAGE?)
}

/// The content security policy of the page, for the header of a server's response; `None` if this program was built
/// without it.
pub fn content_security_policy() -> Option<&'static str> {
    script_policy(REPORT_PAGE?)
}

/// The content security policy of another page.
pub fn script_policy(page: &'static str) -> Option<&'static str> {
    let (_, rest) = page.split_once("Content-Security-Policy\" content=\"")?;
    Some(rest.split_once('"')?.0)
}

/// Whether this program was built with the page.
#[cfg(test)]
pub fn has_page() -> bool {
    REPORT_PAGE.is_some()
}
