//! The router, the index at `/` and `/api/v1/openapi.json`, all made from the table of endpoints.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::App;
use super::api::ENDPOINTS;
use super::endpoint::Endpoint;
use super::places::RequestKind;
use super::problem::Problem;

/// Where the API is.
const API: &str = "/api/v1/";

/// What `/api/v1/openapi.json` is.
pub static OPENAPI: Endpoint = Endpoint {
    path: "/api/v1/openapi.json",
    method: "get",
    kind: RequestKind::Light,
    summary: "This list for programs (OpenAPI 3.1)",
    parameters: &[],
    keys: &["openapi", "info", "paths", "components"],
    handler: || get(openapi),
};

/// A router of all of them.
pub fn router() -> Router<Arc<App>> {
    ENDPOINTS.iter().fold(Router::new(), |router, e| {
        router.route(e.path, (e.handler)())
    })
}

/// Which places requests for a path take.
pub fn kind(path: &str) -> RequestKind {
    let endpoint = ENDPOINTS.iter().find(|e| e.path == path);
    endpoint.map_or(RequestKind::Light, |e| e.kind)
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
            let _ = write!(text, ": {}", e.names().join(", "));
        }
        text.push('\n');
    }
    text
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
        "/report" => "report_page",
        path => path.strip_prefix(API).unwrap_or(&path[1..]),
    }
}

fn path(e: &Endpoint) -> Value {
    let headers = e.is_stream().then(|| {
        json!({
            "name": "Last-Event-ID", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The last id that was heard, as browsers say it: first what came after it, whatever since says",
        })
    });
    let mut parameters = Vec::new();
    for p in e.parameters {
        parameters.push(json!({
            "name": p.name, "in": "query", "required": e.method == "post",
            "schema": p.shape.schema(), "description": p.description,
        }));
    }
    parameters.extend(headers);
    let properties: Map<String, Value> = e
        .keys
        .iter()
        .map(|key| ((*key).to_owned(), json!({})))
        .collect();
    let answer = json!({ "type": "object", "required": e.keys, "properties": properties });
    let problem = json!({ "type": "object", "required": ["type", "title", "status", "detail"] });
    let mut content = match e.path {
        _ if e.is_stream() => json!({ "text/event-stream": {} }),
        "/" => json!({ "text/plain": {}, "text/html": {} }),
        "/report" => json!({ "text/html": {} }),
        "/metrics" => json!({ "text/plain": {} }),
        _ => json!({ "application/json": { "schema": answer } }),
    };
    if e.names().contains(&"format") {
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
