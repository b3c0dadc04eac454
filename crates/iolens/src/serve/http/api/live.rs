//! `live`: current activity as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::stream::unfold;
use tokio::sync::broadcast::error::RecvError;

use super::super::App;
use super::super::endpoint::{Endpoint, Parameter, Shape};
use super::super::guard::left_out;
use super::super::places::RequestKind;
use super::super::problem::Problem;
use super::params::Params;
use crate::engine::{Instant, unix_ns};
use crate::serve::live::{Happened, Since};

/// What `/api/v1/live` is.
pub static ENDPOINT: Endpoint = Endpoint {
    path: "/api/v1/live",
    method: "get",
    kind: RequestKind::Live,
    summary: "What happens, as server-sent events: slot (a row of zoom for each device and 100 ms), finding, story, missed (how many events; null: not known)",
    parameters: &[SINCE],
    keys: &[],
    schema: None,
    handler: || get(live),
};

/// `since`.
const SINCE: Parameter = Parameter {
    name: "since",
    shape: Shape::Text,
    description: "A time as in from: first what happened after it, as far as it is in memory (ten minutes)",
};

/// Sent by a browser that reconnects: the last `id` that it received.
const LAST_EVENT_ID: &str = "last-event-id";

/// `GET /api/v1/live`: the events after the one named by `Last-Event-ID`, or after `since`, and then all new ones:
/// `slot` for each device and 100 ms, `finding` and `story` when one begins or ends, `missed` with the number of
/// events that are missing.
///
/// # Errors
/// The server does not record, or too many clients are watching.
pub async fn live(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = Params::of(&uri, &ENDPOINT)?;
    let mut since = match params.time("since")? {
        None => Since::Now,
        Some(Instant::Wall(t)) => Since::Time(unix_ns(t)),
        Some(Instant::SinceStart(_) | Instant::Civil(_)) => {
            return Err(Problem::bad("since: give a wall-clock time"));
        }
    };
    // A client that reconnects uses its first URL again, so the header takes precedence over `since`.
    if let Some(id) = headers.get(LAST_EVENT_ID) {
        since = Since::Event(id.to_str().ok().and_then(|id| id.parse().ok()));
    }
    let Some(live) = &app.live else {
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this server records nothing; there is nothing live",
        ));
    };
    let hides_names = left_out().is_some();
    let events = unfold(
        live.watch(since),
        move |(mut recent, mut rows)| async move {
            let next = match recent.pop_front() {
                Some(happened) => Ok(happened),
                None => rows.recv().await,
            };
            let event = match next {
                Ok(happened) => event(&happened, hides_names),
                Err(RecvError::Lagged(n)) => Event::default().event("missed").data(n.to_string()),
                Err(RecvError::Closed) => return None,
            };
            Some((Ok::<_, Infallible>(event), (recent, rows)))
        },
    );
    Ok(Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response())
}

fn event(happened: &Happened, hides_names: bool) -> Event {
    let event = Event::default().event(happened.event);
    let event = match &happened.without_names {
        Some(shown) if hides_names => event.data(shown),
        _ => event.data(&happened.data),
    };
    match happened.id {
        Some(id) => event.id(id.to_string()),
        None => event,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::PathBuf;

    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::super::super::guard::Rules;
    use super::super::super::router;
    use super::super::super::tests::block_on;
    use super::*;
    use crate::serve::live::LiveEvents;

    /// The first `n` events of a client that has heard `id` last.
    fn events(app: &Arc<App>, id: Option<&str>, n: usize) -> Vec<String> {
        let builder = Request::builder()
            .uri("/api/v1/live?since=1700000000")
            .header("host", "localhost");
        let builder = id
            .iter()
            .fold(builder, |b, id| b.header("Last-Event-ID", *id));
        let request = builder.body(Body::empty()).unwrap();
        block_on(async {
            let response = router(Arc::clone(app)).oneshot(request).await.unwrap();
            let mut body = response.into_body();
            let mut text = String::new();
            while text.matches("\n\n").count() < n {
                let frame = body.frame().await.unwrap().unwrap();
                text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            }
            text.split("\n\n")
                .filter(|e| !e.is_empty())
                .map(str::to_owned)
                .collect()
        })
    }

    #[test]
    fn a_client_goes_on_after_the_last_event_that_it_has_heard() {
        let live = LiveEvents::new();
        let app = App::new(
            PathBuf::from("/nonexistent"),
            Arc::default(),
            Rules::default(),
        );
        let app = Arc::new(App {
            live: Some(Arc::clone(&live)),
            ..app
        });
        live.publish(1_800_000_000_000_000_000, "slot", "{\"a\":1}", false);
        live.publish(1_800_000_001_000_000_000, "finding", "{\"a\":2}", false);
        let all = events(&app, None, 2);
        assert!(
            all[0].contains("event: slot\ndata: {\"a\":1}") && all[1].contains("event: finding"),
            "{all:?}"
        );
        let id = |event: &str| {
            event
                .lines()
                .find_map(|l| l.strip_prefix("id: "))
                .map(str::to_owned)
                .unwrap()
        };
        assert_eq!(
            events(&app, Some(&id(&all[0])), 1),
            all[1..],
            "whatever its first address asked for"
        );
        let lost = events(&app, Some("7-7"), 3);
        assert_eq!(
            (lost[0].as_str(), &lost[1..]),
            ("event: missed\ndata: null", &all[..])
        );
    }
}
