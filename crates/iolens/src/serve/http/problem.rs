//! Errors as RFC 9457 problem documents.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use iolens_core::store::StoreError;
use serde_json::json;

use crate::engine::deadline::TooSlow;
use crate::present::escape;
use crate::present::query_text::{self, Spelling};

/// An error with a one-line text for the client.
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

/// `Retry-After` in seconds, for requests that found no room.
const RETRY_AFTER_S: &str = "2";

impl Problem {
    /// An error with a status and a text that says what to do.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            status,
            detail: detail.into(),
        }
    }

    /// An invalid parameter.
    pub fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The server is at a limit now.
    pub fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// Maps an error of the work to a status: invalid query, store error or timeout.
    pub fn of(error: &anyhow::Error) -> Problem {
        if let Some(own) = error.downcast_ref::<Problem>() {
            return own.clone();
        }
        let text = query_text::failure(error, Spelling::Parameters);
        if error.chain().any(|cause| cause.is::<TooSlow>()) {
            return Problem::busy(text);
        }
        let is_ours = error.chain().any(|cause| match cause.downcast_ref() {
            Some(StoreError::Io { .. } | StoreError::Damaged { .. }) => true,
            _ => cause.is::<std::io::Error>(),
        });
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
    use crate::engine::error::QueryError;

    #[test]
    fn who_is_at_fault_decides_the_status() {
        let of = |e: anyhow::Error| Problem::of(&e).status.as_u16();
        assert_eq!(of(anyhow::anyhow!("no such device")), 422);
        assert_eq!(of(QueryError::SumsOnly.into()), 422);
        assert_eq!(of(QueryError::TooSlow(TooSlow).into()), 503);
        assert_eq!(of(std::io::Error::other("disk").into()), 500);
        assert_eq!(of(TooSlow.into()), 503);
    }
}
