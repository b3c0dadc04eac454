//! What the program prints, for readers and other programs: the JSON schemas in `docs/schema/`, made from the types that are
//! printed, and `docs/fields.md`, every key with its unit and its definition. A key that stands in several types is defined in
//! `keys.json`, any other one in the doc comment of its field or in `fields.json`, the terms that the page explains. The page's
//! types (`web/src/generated/`) are made from the schemas.
//!
//! `make schema` writes all of them; the tests fail where one is out of date, and where one key means two things.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fields;

mod meanings;

/// What a number means: an entry of `fields.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    title: String,
    text: String,
    formula: Option<String>,
    /// Of its definition in the documentation of the analyses.
    #[serde(rename = "id")]
    _id: Option<String>,
    /// The JSON keys that mean it wherever they stand.
    #[serde(default)]
    keys: BTreeSet<String>,
}

/// The table, by the page's name of an entry.
fn definitions() -> BTreeMap<String, Definition> {
    serde_json::from_str(include_str!("fields.json")).expect("a table of fields")
}

/// What a key means that stands in several types, by key: the same wherever it stands.
fn key_texts() -> BTreeMap<String, String> {
    serde_json::from_str(include_str!("keys.json")).expect("texts by key")
}

/// The unit that a key ends with.
fn unit(key: &str) -> Option<&'static str> {
    const UNITS: [(&str, &str); 10] = [
        ("_kib_per_s", "KiB/s"),
        ("_bytes_per_s", "B/s"),
        ("_per_s", "1/s"),
        ("_unix_s", "s since 1970"),
        ("_percent", "%"),
        ("_pp", "percentage points"),
        ("_bytes", "B"),
        ("_us", "us"),
        ("_ns", "ns"),
        ("_s", "s"),
    ];
    let own = UNITS
        .iter()
        .find(|(end, _)| key.ends_with(end))
        .map(|(_, unit)| *unit);
    own.or_else(|| (key == "bytes").then_some("B"))
}

/// Does `edit` to each object that describes an object's properties, at any depth, with its name.
fn each_object(
    name: &str,
    schema: &mut Value,
    edit: &mut impl FnMut(&str, &mut Map<String, Value>),
) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get_mut("properties") {
                edit(name, properties);
            }
            for (key, below) in map.iter_mut() {
                if key == "definitions" {
                    let Value::Object(types) = below else {
                        continue;
                    };
                    types
                        .iter_mut()
                        .for_each(|(name, schema)| each_object(name, schema, edit));
                } else {
                    each_object(name, below, edit);
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| each_object(name, item, edit)),
        _ => {}
    }
}

/// Gives a property this description.
fn describe(property: &mut Map<String, Value>, text: &str) {
    // Draft 7 ignores what stands beside a reference.
    if let Some(reference) = property.remove("$ref") {
        let target = Map::from_iter([("$ref".to_owned(), reference)]);
        property.insert("allOf".to_owned(), vec![Value::Object(target)].into());
    }
    property.insert("description".to_owned(), text.into());
}

/// The schema of `T`, in which each property says what it is, and its unit.
fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft07()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    let key_texts = key_texts();
    let definitions = definitions();
    let name = T::schema_name().into_owned();
    each_object(&name, &mut schema, &mut |object, properties| {
        for (key, property) in properties.iter_mut() {
            let Value::Object(property) = property else {
                panic!("{object}.{key} is no object")
            };
            if let Some(text) = key_texts.get(key) {
                describe(property, text);
            }
            let known = definitions.values().find(|d| d.keys.contains(key));
            let is_open = !property.contains_key("description") && !property.contains_key("$ref");
            if let Some(d) = known.filter(|_| is_open) {
                property.insert("description".to_owned(), d.text.clone().into());
            }
            // A bare reference is described by the type that it refers to.
            let is_described =
                property.contains_key("description") || property.contains_key("$ref");
            assert!(
                is_described,
                "{object}.{key} needs a doc comment or an entry in fields.json"
            );
            if let Some(unit) = unit(key) {
                property.insert("x-unit".to_owned(), unit.into());
            }
        }
    });
    schema
}

/// Compares with the file `path` under `docs/`, or writes it where `IOLENS_WRITE_SCHEMA` is set.
fn check(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(path);
    if std::env::var_os("IOLENS_WRITE_SCHEMA").is_some() {
        std::fs::write(&file, text).expect("a checkout that can be written");
    }
    let checked_in = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        checked_in == text,
        "{} is out of date: run `make schema`",
        file.display()
    );
}

fn pretty(schema: &Value) -> String {
    serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n"
}

/// The name of each document and its schema.
fn documents() -> Vec<(&'static str, Value)> {
    vec![
        ("report", schema_of::<super::report_json::ReportDocument>()),
        ("page", schema_of::<super::html::PageData>()),
        ("lab", schema_of::<super::lab::document::LabPage>()),
        ("diff", schema_of::<super::diff::DiffDocument<'static>>()),
        ("answers", schema_of::<super::answers::Answer>()),
        ("fleet", schema_of::<super::fleet::FleetDocument>()),
        (
            "info",
            schema_of::<super::inventory::InventoryDocument<'static>>(),
        ),
        (
            "verify",
            schema_of::<super::verification::VerificationDocument<'static>>(),
        ),
        ("util", schema_of::<super::util::UtilDocument<'static>>()),
        (
            "doctor",
            schema_of::<super::doctor_text::DoctorDocument<'static>>(),
        ),
    ]
}

#[test]
fn the_schemas_are_current() {
    for (name, schema) in documents() {
        check(&format!("schema/{name}.json"), &pretty(&schema));
    }
}

/// `text` in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn the_list_of_fields_is_current() {
    let mut out =
        "# Fields\n\nWritten by `make schema`; do not edit. Keys of `iolens report --json`, object by object \
                   ([schema](schema/report.json); what findings rest on is in the objects whose names end in `Evidence`), then \
                   the columns of `iolens zoom`, those that `serve` adds in its series, then what only the page's data have.\n"
            .to_owned();
    let mut objects: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut schema = schema_of::<super::report_json::ReportDocument>();
    let types = schema["definitions"].clone();
    each_object("ReportDocument", &mut schema, &mut |object, properties| {
        let keys = objects.entry(object.to_owned()).or_default();
        for (key, property) in properties.iter() {
            let of_type = property["$ref"]
                .as_str()
                .and_then(|path| path.rsplit('/').next())
                .map(|name| &types[name]);
            let text = [Some(property), of_type]
                .into_iter()
                .flatten()
                .find_map(|p| p["description"].as_str());
            keys.insert(key.clone(), text.unwrap_or_default().to_owned());
        }
    });
    let key_texts = key_texts();
    let definitions = definitions();
    let define = |key: &str| {
        if let Some(text) = key_texts.get(key) {
            return text.clone();
        }
        let d = definitions.values().find(|d| d.keys.contains(key));
        let d = d.unwrap_or_else(|| panic!("{key} needs an entry in fields.json"));
        d.text.clone()
            + &d.formula
                .as_ref()
                .map(|f| format!(" `{f}`"))
                .unwrap_or_default()
    };
    let zoom = fields::FIELDS
        .iter()
        .chain(fields::ALL_CLASSES)
        .chain(fields::DISCARDS)
        .chain(fields::FLUSHES)
        .chain(fields::WAITS)
        .map(|f| (f.name.to_owned(), define(f.name)));
    let in_schema: BTreeSet<String> = objects
        .values()
        .flat_map(|keys| keys.keys().cloned())
        .collect();
    let zoom: BTreeMap<String, String> = zoom
        .chain(["time", "time_unix_s", "time_s"].map(|key| (key.to_owned(), define(key))))
        .collect();
    let charted: BTreeMap<String, String> = fields::CHARTED
        .iter()
        .filter(|f| !zoom.contains_key(f.name))
        .map(|f| (f.name.to_owned(), define(f.name)))
        .collect();
    let mut in_page = BTreeSet::new();
    let mut page = schema_of::<super::html::PageData>();
    each_object("PageData", &mut page, &mut |_, properties| {
        in_page.extend(properties.keys().cloned())
    });
    let of_page = definitions.values().flat_map(|d| &d.keys);
    let of_page = of_page.filter(|key| {
        !in_schema.contains(*key) && !zoom.contains_key(*key) && !charted.contains_key(*key)
    });
    let of_page: BTreeMap<String, String> = of_page.map(|key| (key.clone(), define(key))).collect();
    let nowhere: Vec<&String> = of_page
        .keys()
        .filter(|key| !in_page.contains(*key))
        .collect();
    assert!(
        nowhere.is_empty(),
        "fields.json defines keys that no document has: {nowhere:?}"
    );
    let titled = objects
        .into_iter()
        .map(|(name, keys)| (format!("`{name}`"), keys));
    for (title, keys) in titled.chain([
        ("Columns of `zoom`".to_owned(), zoom),
        ("Columns of `series` and `live` alone".to_owned(), charted),
        ("The page alone".to_owned(), of_page),
    ]) {
        let _ = write!(
            out,
            "\n## {title}\n\n| key | unit | definition |\n|---|---|---|\n"
        );
        for (key, text) in keys {
            let _ = writeln!(
                out,
                "| `{key}` | {} | {} |",
                unit(&key).unwrap_or(""),
                cell(&text)
            );
        }
    }
    check("fields.md", &out);
}

#[test]
fn a_key_means_one_thing_and_an_entry_is_complete() {
    let mut seen = BTreeSet::new();
    for (name, d) in definitions() {
        assert!(
            !d.title.is_empty() && d.text.ends_with(['.', '?', ')']),
            "{name}: {}",
            d.text
        );
        for key in d.keys {
            assert!(seen.insert(key.clone()), "{key} is in two entries");
        }
    }
}
