//! What the API takes and gives, in one table: handlers take the names of their parameters from it, and
//! `/api/v1/openapi.json` is made from it.

use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::problem::Problem;

/// One path.
pub struct Endpoint {
    /// Below `/api/v1/`.
    pub name: &'static str,
    /// `get` or `post`.
    pub method: &'static str,
    /// What it is for.
    summary: &'static str,
    /// Names of its parameters, all in the query.
    pub parameters: &'static [&'static str],
    /// The keys of its document; of `report` those of the command's.
    pub keys: &'static [&'static str],
}

const fn get(
    name: &'static str,
    summary: &'static str,
    parameters: &'static [&'static str],
    keys: &'static [&'static str],
) -> Endpoint {
    Endpoint {
        name,
        method: "get",
        summary,
        parameters,
        keys,
    }
}

/// All of them.
pub const ENDPOINTS: &[Endpoint] = &[
    get(
        "recordings",
        "What there is, and how fine",
        &["host"],
        &["schema_version", "recordings", "notes"],
    ),
    get(
        "devices",
        "Names and numbers of the devices",
        &["host", "at"],
        &["schema_version", "from", "to", "devices", "notes"],
    ),
    get(
        "hosts",
        "Hosts and disks, those that lost most I/O time first, and what was reported of them; of the last day before the newest recording's end, if no time is given",
        &["from", "to"],
        &[
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
    ),
    get(
        "series",
        "The columns of zoom, from the coarsest tier that carries the step",
        &[
            "host", "from", "to", "at", "step", "by", "device", "extended", "format",
        ],
        &["schema_version", "step_s", "by", "columns", "notes"],
    ),
    get(
        "heatmap",
        "I/Os by time and latency",
        &[
            "host", "from", "to", "at", "device", "class", "part", "width", "height",
        ],
        &[
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
    ),
    get(
        "ios",
        "Single I/Os; too many are refused with the nearest stretch that has no more",
        &["host", "from", "to", "at", "device", "limit", "format"],
        &["schema_version", "ios", "columns", "notes"],
    ),
    get(
        "actors",
        "Who had most I/O time",
        &["host", "from", "to", "at", "by", "device", "format"],
        &["schema_version", "by", "actors", "others", "notes"],
    ),
    get(
        "findings",
        "What stands out, of each recording by itself",
        &["host", "from", "to", "at", "format"],
        &["schema_version", "findings", "notes"],
    ),
    get(
        "report",
        "The document of iolens report --json",
        &["host", "from", "to", "at"],
        &[
            "schema_version",
            "recording",
            "devices",
            "sets",
            "actors",
            "actors_others",
            "findings",
            "files",
        ],
    ),
    get(
        "live",
        "What happens, as server-sent events: slot (a row of zoom for each device and 100 ms), finding, missed (how many events; null: not known)",
        &["since"],
        &[],
    ),
    Endpoint {
        name: "mark",
        method: "post",
        summary: "Puts a remark on the time line, now",
        parameters: &["text"],
        keys: &["schema_version", "marked"],
    },
    Endpoint {
        name: "snapshot",
        method: "post",
        summary: "Copies a stretch into a recording of its own that no budget removes",
        parameters: &["from", "to"],
        keys: &["schema_version", "name", "from", "to", "ios", "disk_bytes"],
    },
];

/// The names of the parameters of an endpoint.
pub fn parameters(name: &str) -> &'static [&'static str] {
    ENDPOINTS
        .iter()
        .find(|e| e.name == name)
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
    e.name == "live"
}

/// `GET /api/v1/openapi.json`.
///
/// # Errors
/// It cannot be written.
pub async fn openapi() -> Result<Response, Problem> {
    super::json(&document())
}

fn document() -> Value {
    let paths: Map<String, Value> = ENDPOINTS
        .iter()
        .map(|e| (format!("/api/v1/{}", e.name), path(e)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "iolens serve", "version": "1", "description": "docs/serve.md" },
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
    })
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
    let mut content = match is_stream(e) {
        true => json!({ "text/event-stream": {} }),
        false => json!({ "application/json": { "schema": answer } }),
    };
    if e.parameters.contains(&"format") {
        content["text/csv"] = json!({});
        content["application/vnd.apache.arrow.stream"] = json!({});
    }
    let operation = json!({
        "operationId": e.name,
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
