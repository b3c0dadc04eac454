//! What the server answers, in one table: the router, the index at `/` and `/api/v1/openapi.json` are made from it, and handlers take
//! the names of their parameters from it.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use serde_json::{Map, Value, json};

use super::api::{actors, hosts, live, mark, recordings, report, series, snapshot};
use super::places::Kind;
use super::problem::Problem;
use super::{App, health, metrics, page};

/// Where the API is.
const API: &str = "/api/v1/";

/// One path.
pub struct Endpoint {
    /// All of it.
    pub path: &'static str,
    /// `get` or `post`.
    pub method: &'static str,
    /// Which places its requests take.
    kind: Kind,
    /// What it is for.
    summary: &'static str,
    /// Names of its parameters, all in the query.
    pub parameters: &'static [&'static str],
    /// The keys of its document, none of what is no document; of `report` those of the command's.
    pub keys: &'static [&'static str],
    handler: fn() -> MethodRouter<Arc<App>>,
}

/// All of them.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        path: "/",
        method: "get",
        // A browser's request for the page reads the store.
        kind: Kind::Light,
        summary: "With a browser: what happened, live and in the past; else this list",
        parameters: &["host", "from", "to", "at"],
        keys: &[],
        handler: || get(page::front),
    },
    Endpoint {
        path: "/healthz",
        method: "get",
        kind: Kind::Health,
        summary: "200 while it records and stores, 503 where it does not",
        parameters: &[],
        keys: &[
            "schema_version",
            "healthy",
            "recording",
            "source",
            "ios",
            "lost_ios",
            "lost_percent",
            "reasons",
            "degraded",
            "damaged",
        ],
        handler: || get(health::healthz),
    },
    Endpoint {
        path: "/metrics",
        method: "get",
        kind: Kind::Metrics,
        summary: "For Prometheus",
        parameters: &[],
        keys: &[],
        handler: || get(metrics::metrics),
    },
    Endpoint {
        path: "/api/v1/recordings",
        method: "get",
        kind: Kind::Heavy,
        summary: "What there is, and how fine",
        parameters: &["host"],
        keys: &["schema_version", "recordings", "notes"],
        handler: || get(recordings::recordings),
    },
    Endpoint {
        path: "/api/v1/devices",
        method: "get",
        kind: Kind::Heavy,
        summary: "Names and numbers of the devices",
        parameters: &["host", "at"],
        keys: &["schema_version", "from", "to", "devices", "notes"],
        handler: || get(recordings::devices),
    },
    Endpoint {
        path: "/api/v1/hosts",
        method: "get",
        kind: Kind::Heavy,
        summary: "Hosts and disks, those that lost most I/O time first, and what was reported of them; of the last day before the newest recording's end, if no time is given",
        parameters: &["from", "to"],
        keys: &[
            "schema_version",
            "from_unix_s",
            "to_unix_s",
            "hosts",
            "devices",
            "findings",
            "findings_left_out",
            "kinds",
            "hosts_unread",
            "hosts_left_out",
            "notes",
        ],
        handler: || get(hosts::hosts),
    },
    Endpoint {
        path: "/api/v1/series",
        method: "get",
        kind: Kind::Heavy,
        summary: "The columns of zoom, from the coarsest tier that carries the step",
        parameters: &[
            "host", "from", "to", "at", "step", "by", "device", "extended", "format",
        ],
        keys: &["schema_version", "step_s", "by", "columns", "notes"],
        handler: || get(series::series),
    },
    Endpoint {
        path: "/api/v1/heatmap",
        method: "get",
        kind: Kind::Heavy,
        summary: "I/Os by time and latency",
        parameters: &[
            "host", "from", "to", "at", "device", "class", "part", "width", "height",
        ],
        keys: &[
            "schema_version",
            "from",
            "to",
            "from_unix_s",
            "column_s",
            "latency_us",
            "counts",
            "ios",
            "unknown_ios",
            "notes",
        ],
        handler: || get(series::heatmap),
    },
    Endpoint {
        path: "/api/v1/ios",
        method: "get",
        kind: Kind::Heavy,
        summary: "Single I/Os; too many are refused with the nearest stretch that has no more",
        parameters: &["host", "from", "to", "at", "device", "limit", "format"],
        keys: &["schema_version", "ios", "columns", "notes"],
        handler: || get(series::ios),
    },
    Endpoint {
        path: "/api/v1/actors",
        method: "get",
        kind: Kind::Heavy,
        summary: "Who had most I/O time",
        parameters: &["host", "from", "to", "at", "by", "device", "format"],
        keys: &["schema_version", "by", "actors", "others", "notes"],
        handler: || get(actors::actors),
    },
    Endpoint {
        path: "/api/v1/findings",
        method: "get",
        kind: Kind::Heavy,
        summary: "What stands out, of each recording by itself",
        parameters: &["host", "from", "to", "at", "format"],
        keys: &["schema_version", "findings", "notes"],
        handler: || get(report::findings),
    },
    Endpoint {
        path: "/api/v1/report",
        method: "get",
        kind: Kind::Heavy,
        summary: "The document of iolens report --json",
        parameters: &["host", "from", "to", "at"],
        keys: &[
            "schema_version",
            "recording",
            "devices",
            "sets",
            "actors",
            "actors_others",
            "waits",
            "waits_others",
            "findings",
            "files",
        ],
        handler: || get(report::report),
    },
    Endpoint {
        path: "/api/v1/live",
        method: "get",
        kind: Kind::Live,
        summary: "What happens, as server-sent events: slot (a row of zoom for each device and 100 ms), finding, missed (how many events; null: not known)",
        parameters: &["since"],
        keys: &[],
        handler: || get(live::live),
    },
    Endpoint {
        path: "/api/v1/mark",
        method: "post",
        kind: Kind::Light,
        summary: "Puts a remark on the time line, now",
        parameters: &["text"],
        keys: &["schema_version", "marked"],
        handler: || post(mark::mark),
    },
    Endpoint {
        path: "/api/v1/snapshot",
        method: "post",
        kind: Kind::Light,
        summary: "Copies a stretch into a recording of its own that no budget removes",
        parameters: &["from", "to"],
        keys: &["schema_version", "name", "from", "to", "ios", "disk_bytes"],
        handler: || post(snapshot::snapshot),
    },
    Endpoint {
        path: "/api/v1/openapi.json",
        method: "get",
        kind: Kind::Light,
        summary: "This list for programs (OpenAPI 3.1)",
        parameters: &[],
        keys: &["openapi", "info", "paths", "components"],
        handler: || get(openapi),
    },
];

/// A router of all of them.
pub fn router() -> Router<Arc<App>> {
    ENDPOINTS.iter().fold(Router::new(), |router, e| {
        router.route(e.path, (e.handler)())
    })
}

/// Which places requests for a path take.
pub fn kind(path: &str) -> Kind {
    let endpoint = ENDPOINTS.iter().find(|e| e.path == path);
    endpoint.map_or(Kind::Light, |e| e.kind)
}

/// What there is, for people with curl.
pub fn index() -> String {
    let mut text = "iolens serve\n\n".to_owned();
    for e in ENDPOINTS {
        let _ = write!(text, "{:<22}", e.path);
        if e.method == "post" {
            text.push_str("(POST) ");
        }
        text.push_str(e.summary);
        if !e.parameters.is_empty() {
            let _ = write!(text, ": {}", e.parameters.join(", "));
        }
        text.push('\n');
    }
    text
}

/// The names of the parameters of a path below `/api/v1/`.
pub fn parameters(name: &str) -> &'static [&'static str] {
    ENDPOINTS
        .iter()
        .find(|e| e.path.strip_prefix(API) == Some(name))
        .map_or(&[], |e| e.parameters)
}

/// What a parameter is, and whether it may come more than once.
fn parameter(name: &str) -> (Value, &'static str) {
    let text = json!({ "type": "string" });
    let one_of = |names: &[&str]| json!({ "type": "string", "enum": names });
    let number =
        |least: u32, most: u32| json!({ "type": "integer", "minimum": least, "maximum": most });
    match name {
        "host" => (
            text,
            "Where a root holds recordings of several hosts, one of them",
        ),
        "since" => (
            text,
            "A time as in from: first what happened after it, as far as it is in memory (ten minutes)",
        ),
        "from" | "to" | "at" => (
            text,
            "RFC 3339, seconds since the epoch, -5m or now; without any of the three the last 15 minutes; at is the minute around",
        ),
        "step" => (text, "A duration such as 10ms, 1s or 1m; at least 1ms"),
        "by" => (
            one_of(&["all", "device", "process", "cgroup", "file"]),
            "Subject of a row; of actors one of the last three",
        ),
        "device" => (
            json!({ "type": "array", "items": { "type": "string" } }),
            "A name or MAJOR:MINOR",
        ),
        "extended" => (
            one_of(&["true", "false"]),
            "Percentiles, in flight and busy, too",
        ),
        "format" => (
            one_of(&["json", "csv", "arrow"]),
            "Of the answer: csv and arrow (the stream format of Arrow IPC) have the columns only",
        ),
        "class" => (
            one_of(&["read", "write", "discard", "flush"]),
            "Of these I/Os only",
        ),
        "part" => (
            one_of(&["total", "queue", "device"]),
            "Which time of an I/O",
        ),
        "width" => (number(1, 4096), "Columns"),
        "height" => (number(1, 256), "Rows"),
        "limit" => (number(1, 100_000), "Most I/Os that are wanted"),
        _ => (text, "One line, at most 500 bytes"),
    }
}

/// Whether its answer is events that come for as long as they are heard.
fn is_stream(e: &Endpoint) -> bool {
    e.kind == Kind::Live
}

/// `GET /api/v1/openapi.json`.
///
/// # Errors
/// It cannot be written.
async fn openapi() -> Result<Response, Problem> {
    super::api::json(&document())
}

fn document() -> Value {
    let paths: Map<String, Value> = ENDPOINTS
        .iter()
        .map(|e| (e.path.to_owned(), path(e)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "iolens serve", "version": "1", "description": "docs/serve.md" },
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
    })
}

/// A name for the functions that programs generate: `series`, `healthz`, `index`.
fn operation_id(e: &Endpoint) -> &'static str {
    match e.path {
        "/" => "index",
        path => path.strip_prefix(API).unwrap_or(&path[1..]),
    }
}

fn path(e: &Endpoint) -> Value {
    let headers = is_stream(e).then(|| {
        json!({
            "name": "Last-Event-ID", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The last id that was heard, as browsers say it: first what came after it, whatever since says",
        })
    });
    let parameters: Vec<Value> = e
        .parameters
        .iter()
        .map(|name| {
            let (schema, description) = parameter(name);
            json!({ "name": name, "in": "query", "required": e.method == "post", "schema": schema, "description": description })
        })
        .chain(headers)
        .collect();
    let properties: Map<String, Value> = e
        .keys
        .iter()
        .map(|key| ((*key).to_owned(), json!({})))
        .collect();
    let answer = json!({ "type": "object", "required": e.keys, "properties": properties });
    let problem = json!({ "type": "object", "required": ["type", "title", "status", "detail"] });
    let mut content = match e.path {
        _ if is_stream(e) => json!({ "text/event-stream": {} }),
        "/" => json!({ "text/plain": {}, "text/html": {} }),
        "/metrics" => json!({ "text/plain": {} }),
        _ => json!({ "application/json": { "schema": answer } }),
    };
    if e.parameters.contains(&"format") {
        content["text/csv"] = json!({});
        content["application/vnd.apache.arrow.stream"] = json!({});
    }
    let operation = json!({
        "operationId": operation_id(e),
        "summary": e.summary,
        "parameters": parameters,
        "security": if e.method == "post" { json!([{ "token": [] }]) } else { json!([{}, { "token": [] }]) },
        "responses": {
            "200": { "description": "The answer", "content": content },
            "default": { "description": "A problem (RFC 9457)", "content": { "application/problem+json": { "schema": problem } } },
        },
    });
    json!({ e.method: operation })
}
