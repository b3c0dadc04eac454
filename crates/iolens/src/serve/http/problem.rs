//! Errors as RFC 9457 problem documents.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use iolens_core::store::StoreError;
use serde_json::json;

use crate::engine::patience::TooSlow;
use crate::present::escape;

/// What went wrong, in a line for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    detail: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}

/// When a request that found no room may come again, in seconds.
const RETRY_AFTER_S: &str = "2";

impl Problem {
    /// With a status and what to do about it.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            status,
            detail: detail.into(),
        }
    }

    /// A parameter that makes no sense.
    pub fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// There is no room or no time for it now.
    pub fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// What an engine says: of the question, of the store, or that it takes too long.
    pub fn of(error: &anyhow::Error) -> Problem {
        if let Some(own) = error.downcast_ref::<Problem>() {
            return own.clone();
        }
        let text = as_parameters(&format!("{error:#}"));
        if error.downcast_ref::<TooSlow>().is_some() {
            return Problem::busy(text);
        }
        let of_store =
            |e: &StoreError| matches!(e, StoreError::Io { .. } | StoreError::Damaged { .. });
        let is_ours = error
            .chain()
            .any(|c| c.is::<std::io::Error>() || c.downcast_ref().is_some_and(of_store));
        let status = if is_ours {
            StatusCode::INTERNAL_SERVER_ERROR
        } else {
            StatusCode::UNPROCESSABLE_ENTITY
        };
        Problem::new(status, text)
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its line.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

/// Engines name the flags of the command line; here the same are parameters: `--from T --to T` becomes `from=T&to=T`, a flag
/// without a value its name.
pub fn as_parameters(text: &str) -> String {
    // A setting of the recorder, which no question has.
    let text = text.replace(" (--keep)", "");
    let mut out = String::with_capacity(text.len());
    let mut words = text.split(' ').peekable();
    let mut is_after_value = false;
    while let Some(word) = words.next() {
        let flag = word.trim_start_matches('(').strip_prefix("--");
        let value = flag.and_then(|_| words.next_if(|next| is_value(next)));
        if !out.is_empty() {
            out.push(if is_after_value && value.is_some() {
                '&'
            } else {
                ' '
            });
        }
        is_after_value = value.is_some();
        match (flag, value) {
            (Some(flag), Some(value)) => out.push_str(&format!("{flag}={value}")),
            (Some(flag), None) if word.starts_with('(') => out.push_str(&format!("({flag}")),
            (Some(flag), None) => out.push_str(flag),
            (None, _) => out.push_str(word),
        }
    }
    out
}

/// Whether a word after a flag is its value: a time or a duration.
fn is_value(word: &str) -> bool {
    word.trim_start_matches(['-', '+'])
        .starts_with(|c: char| c.is_ascii_digit())
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let document = json!({
            "type": "about:blank", "title": title, "status": self.status.as_u16(), "detail": self.detail,
        });
        let mut response = (
            self.status,
            escape::json(&document.to_string()).into_owned(),
        )
            .into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_parameters() {
        let pairs = [
            (
                "choose a part: --from 2026-11-18T11:08:20Z --to 2026-11-18T11:09:20Z",
                "choose a part: from=2026-11-18T11:08:20Z&to=2026-11-18T11:09:20Z",
            ),
            (
                "--from is 2127.115 s from the recording's start",
                "from is 2127.115 s from the recording's start",
            ),
            (
                "--to (1.000 s) is not after --from (2.000 s)",
                "to (1.000 s) is not after from (2.000 s)",
            ),
            ("give a --step of 1s", "give a step of 1s"),
            (
                "a shorter stretch (--step, --from, --to)",
                "a shorter stretch (step, from, to)",
            ),
            (
                "the size limit (--keep) removed what came before",
                "the size limit removed what came before",
            ),
            ("no such device: a--b", "no such device: a--b"),
        ];
        for (flags, parameters) in pairs {
            assert_eq!(as_parameters(flags), parameters);
        }
    }

    #[test]
    fn who_is_at_fault_decides_the_status() {
        let of = |e: anyhow::Error| Problem::of(&e).status.as_u16();
        assert_eq!(of(anyhow::anyhow!("no such device")), 422);
        assert_eq!(of(std::io::Error::other("disk").into()), 500);
        assert_eq!(of(TooSlow.into()), 503);
    }
}
