//! Declares an endpoint of the server. The router, the index at `/` and `/api/v1/openapi.json` are generated from the
//! declarations, and handlers take the names of their parameters from them. Each declaration is next to its handler;
//! `api/mod.rs` lists all of them.

use std::sync::Arc;

use axum::routing::MethodRouter;
use iolens_core::analysis::waits::Grouping;
use serde_json::{Value, json};

use super::App;
use super::places::RequestKind;
use crate::present::columns::TableFormat;

/// One endpoint.
pub struct Endpoint {
    /// The complete path.
    pub path: &'static str,
    /// HTTP method: `get` or `post`.
    pub method: &'static str,
    /// Which limit of concurrent requests applies.
    pub kind: RequestKind,
    /// One-line summary.
    pub summary: &'static str,
    /// Its parameters, all in the query string.
    pub parameters: &'static [Parameter],
    /// The keys of its JSON document; empty if the response is not one.
    pub keys: &'static [&'static str],
    /// The name of its schema in `docs/schema/`; without one, the keys are all that is described.
    pub schema: Option<&'static str>,
    /// Creates the handler.
    pub handler: fn() -> MethodRouter<Arc<App>>,
}

impl Endpoint {
    /// The names of its parameters.
    pub fn names(&self) -> Vec<&'static str> {
        self.parameters.iter().map(|p| p.name).collect()
    }

    /// Whether the response is an unbounded event stream.
    pub fn is_stream(&self) -> bool {
        self.kind == RequestKind::Live
    }
}

/// One parameter of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name in the query string.
    pub name: &'static str,
    /// The values that it can have.
    pub shape: Shape,
    /// One-line description.
    pub description: &'static str,
}

/// The values that a parameter can have.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Text that the handler parses.
    Text,
    /// As `Text`, and may be repeated.
    Repeated,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// A whole number in this range, inclusive.
    Number(u32, u32),
}

impl Shape {
    /// Checks that a value has this shape.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn check(self, value: &str) -> Result<(), String> {
        match self {
            Shape::Text | Shape::Repeated => Ok(()),
            Shape::OneOf(names) if names.contains(&value) => Ok(()),
            Shape::OneOf(names) => Err(format!("expected {}", names.join(", "))),
            Shape::Number(least, most) => match value.parse::<u32>() {
                Ok(number) if (least..=most).contains(&number) => Ok(()),
                _ => Err(format!("expected a number from {least} to {most}")),
            },
        }
    }

    /// The shape as JSON Schema.
    pub fn schema(self) -> Value {
        match self {
            Shape::Text => json!({ "type": "string" }),
            Shape::Repeated => json!({ "type": "array", "items": { "type": "string" } }),
            Shape::OneOf(names) => json!({ "type": "string", "enum": names }),
            Shape::Number(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
        }
    }
}

/// The names in a table of values, for [`Shape::OneOf`].
pub const fn names_of<T, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = table[i].0;
        i += 1;
    }
    names
}

/// `host`.
pub const HOST: Parameter = Parameter {
    name: "host",
    shape: Shape::Text,
    description: "Where a root holds recordings of several hosts, one of them",
};
/// Of `from`, `to` and `at` alike.
const INSTANT: &str = "RFC 3339, seconds since the epoch, -5m or now; without any of the three the last 15 minutes; at is the minute around";

/// `from`.
pub const FROM: Parameter = Parameter {
    name: "from",
    shape: Shape::Text,
    description: INSTANT,
};
/// `to`.
pub const TO: Parameter = Parameter {
    name: "to",
    shape: Shape::Text,
    description: INSTANT,
};
/// `at`.
pub const AT: Parameter = Parameter {
    name: "at",
    shape: Shape::Text,
    description: INSTANT,
};
const GROUPING_NAMES: [&str; 3] = names_of(&Grouping::NAMES);
/// `by` of actors and waits.
pub const GROUPING_BY: Parameter = Parameter {
    name: "by",
    shape: Shape::OneOf(&GROUPING_NAMES),
    description: "Whose I/Os are taken together; of waits beside those of one class and origin",
};
/// `device`.
pub const DEVICE: Parameter = Parameter {
    name: "device",
    shape: Shape::Repeated,
    description: "A name or MAJOR:MINOR",
};
/// `process`.
pub const PROCESS: Parameter = Parameter {
    name: "process",
    shape: Shape::Text,
    description: "I/Os of this process only: its number, its name, or NAME[NUMBER]",
};
/// `cgroup`.
pub const CGROUP: Parameter = Parameter {
    name: "cgroup",
    shape: Shape::Text,
    description: "I/Os of this control group and those below it only: its path, or the last part of it",
};
/// `file`.
pub const FILE: Parameter = Parameter {
    name: "file",
    shape: Shape::Text,
    description: "I/Os of this file only, or of those below this directory: its path, or its name",
};
/// Values of `class`.
pub const CLASS_NAMES: &[&str] = &["read", "write", "discard", "flush"];
/// `class`.
pub const CLASS: Parameter = Parameter {
    name: "class",
    shape: Shape::OneOf(CLASS_NAMES),
    description: "Of these I/Os only",
};
const FORMAT_NAMES: [&str; 3] = names_of(&TableFormat::NAMES);
/// `format`.
pub const FORMAT: Parameter = Parameter {
    name: "format",
    shape: Shape::OneOf(&FORMAT_NAMES),
    description: "Of the answer: csv and arrow (the stream format of Arrow IPC) have the columns only",
};
