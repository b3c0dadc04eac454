//! The router, the index at `/` and `/api/v1/openapi.json`, all generated from the table of endpoints.

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

/// Path prefix of the API.
const API: &str = "/api/v1/";

/// The schemas of the responses, written by `make schema`. A type that occurs in several of them is the same in all.
const SCHEMAS: [&str; 3] = [
    include_str!("../../../../../docs/schema/answers.json"),
    include_str!("../../../../../docs/schema/report.json"),
    include_str!("../../../../../docs/schema/fleet.json"),
];

/// What `/api/v1/openapi.json` is.
pub static OPENAPI: Endpoint = Endpoint {
    path: "/api/v1/openapi.json",
    method: "get",
    kind: RequestKind::Light,
    summary: "This list for programs (OpenAPI 3.1)",
    parameters: &[],
    keys: &["openapi", "info", "paths", "components"],
    schema: None,
    handler: || get(openapi),
};

/// A router for all endpoints.
pub fn router() -> Router<Arc<App>> {
    ENDPOINTS.iter().fold(Router::new(), |router, e| {
        router.route(e.path, (e.handler)())
    })
}

/// The kind of requests for a path.
pub fn kind(path: &str) -> RequestKind {
    let endpoint = ENDPOINTS.iter().find(|e| e.path == path);
    endpoint.map_or(RequestKind::Light, |e| e.kind)
}

/// The index as plain text, for users of curl.
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
/// The document cannot be written.
async fn openapi() -> Result<Response, Problem> {
    let document = document().map_err(|e| Problem::of(&e.into()))?;
    super::api::json(&document)
}

fn document() -> serde_json::Result<Value> {
    let paths: Map<String, Value> = ENDPOINTS
        .iter()
        .map(|e| (e.path.to_owned(), path(e)))
        .collect();
    let schemas = schemas()?;
    Ok(json!({
        "openapi": "3.1.0",
        "info": { "title": "iolens serve", "version": "1", "description": "docs/serve.md" },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    }))
}

/// All types by name: documents and their components.
fn schemas() -> serde_json::Result<Map<String, Value>> {
    let mut types = Map::new();
    for text in SCHEMAS {
        let mut document = schema(text)?;
        if let Some(Value::Object(parts)) = document.remove("definitions") {
            types.extend(parts);
        }
        if let Some(Value::String(title)) = document.remove("title") {
            document.remove("$schema");
            types.insert(title, Value::Object(document));
        }
    }
    Ok(types)
}

/// Parses a schema file and adapts its references to this document.
fn schema(text: &str) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_str(&text.replace("#/definitions/", "#/components/schemas/"))
}

/// Operation id for generated clients: `series`, `healthz`, `index`.
fn operation_id(e: &Endpoint) -> &'static str {
    match e.path {
        "/" => "index",
        "/report" => "report_page",
        path => path.strip_prefix(API).unwrap_or(&path[1..]),
    }
}

/// The schema of the response.
fn answer(e: &Endpoint) -> Value {
    if let Some(name) = e.schema {
        return json!({ "$ref": format!("#/components/schemas/{name}") });
    }
    let properties: Map<String, Value> = e
        .keys
        .iter()
        .map(|key| ((*key).to_owned(), json!({})))
        .collect();
    json!({ "type": "object", "required": e.keys, "properties": properties })
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
    let answer = answer(e);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn schemas_have_the_keys_of_their_answers() {
        let document = document().unwrap();
        let schemas = &document["components"]["schemas"];
        for e in ENDPOINTS {
            let Some(name) = e.schema else { continue };
            let properties = schemas[name]["properties"].as_object().unwrap();
            let mut described: Vec<&str> = properties.keys().map(String::as_str).collect();
            let mut keys = e.keys.to_vec();
            described.sort_unstable();
            keys.sort_unstable();
            assert_eq!(described, keys, "{}", e.path);
        }
    }

    #[test]
    fn a_type_of_several_schemas_is_the_same_in_all() {
        let all = schemas().unwrap();
        for text in SCHEMAS {
            let document = schema(text).unwrap();
            for (name, own) in document["definitions"].as_object().unwrap() {
                assert_eq!(*own, all[name], "{name}");
            }
        }
    }

    #[test]
    fn references_lead_somewhere() {
        let document = document().unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
