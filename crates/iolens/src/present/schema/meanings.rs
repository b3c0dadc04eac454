//! A key of the JSON documents means the same wherever it stands. Its unit is the end of its name, so that it cannot have two.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{definitions, documents, each_object, fields, key_texts};

/// Keys whose values differ in shape, and why.
const SHAPES: [(&str, &str); 10] = [
    ("all", "what its object is about, of I/Os of all classes"),
    ("read", "what its object is about, of reads"),
    ("write", "what its object is about, of writes"),
    (
        "columns",
        "a table's, by name; of experiments their headings",
    ),
    (
        "files",
        "the answer of `iolens files`, in its document and in a report; elsewhere a list of files",
    ),
    (
        "intervals",
        "of losses how many, of waits by time each of them",
    ),
    (
        "advice",
        "of stories several with reasons, of a check of `doctor` one",
    ),
    (
        "disks",
        "of a fleet's host how many, of a path of `util` each of them",
    ),
    (
        "method",
        "of experiments several sentences, of a disk of `util` a name",
    ),
    (
        "paths",
        "of `util` each with its disks, of a disk their names",
    ),
];

/// Where each text, or each shape, of a key stands.
type Places = BTreeMap<String, BTreeSet<String>>;

/// All keys with what they are said to mean and what their values are.
#[derive(Default)]
struct Meanings {
    texts: BTreeMap<String, Places>,
    shapes: BTreeMap<String, Places>,
}

impl Meanings {
    fn note(&mut self, key: &str, text: &str, shape: String, place: &str) {
        let of_key = self.texts.entry(key.to_owned()).or_default();
        let places = of_key.entry(text.to_owned()).or_default();
        places.insert(place.to_owned());
        let of_key = self.shapes.entry(key.to_owned()).or_default();
        let places = of_key.entry(shape).or_default();
        places.insert(place.to_owned());
    }

    fn of_documents() -> Meanings {
        let mut all = Meanings::default();
        for (document, mut schema) in documents() {
            let types = schema["definitions"].clone();
            each_object(document, &mut schema, &mut |object, properties| {
                let place = format!("{object} of {document}");
                for (key, property) in properties.iter() {
                    let text = text_of(property, &types);
                    all.note(key, text, shape(property, &types), &place);
                }
            });
        }
        all
    }

    /// The columns of tables over time are keys of their JSON.
    fn add_columns(&mut self, key_texts: &BTreeMap<String, String>) {
        let columns = [
            fields::FIELDS,
            fields::CHARTED,
            fields::ALL_CLASSES,
            fields::DISCARDS,
            fields::FLUSHES,
            fields::WAITS,
        ];
        let definitions = definitions();
        for field in columns.into_iter().flatten() {
            let definition = definitions.values().find(|d| d.keys.contains(field.name));
            let text = match (key_texts.get(field.name), definition) {
                (Some(text), _) => text,
                (None, Some(definition)) => &definition.text,
                (None, None) => panic!("{} needs a definition", field.name),
            };
            self.note(field.name, text, "number".to_owned(), "the columns");
        }
    }
}

/// The keys that have several texts, or shapes.
fn ambiguous(of_keys: &BTreeMap<String, Places>) -> BTreeMap<&str, &Places> {
    let mut found = BTreeMap::new();
    for (key, places) in of_keys {
        if places.len() > 1 {
            found.insert(key.as_str(), places);
        }
    }
    found
}

/// The name of the type that a property refers to.
fn referred(property: &Value) -> Option<&str> {
    property["$ref"].as_str()?.rsplit('/').next()
}

/// What a property is said to be: by itself, or by its type.
fn text_of<'a>(property: &'a Value, types: &'a Value) -> &'a str {
    let own = property["description"].as_str();
    let of_type = referred(property).and_then(|name| types[name]["description"].as_str());
    own.or(of_type).unwrap_or_default()
}

/// What the values of a property are, without their sizes: integers are numbers, null is left out, and a list of numbers is a
/// column of a table, a number for each row.
fn shape(property: &Value, types: &Value) -> String {
    if let Some(name) = referred(property) {
        return shape(&types[name], types);
    }
    for choice in ["allOf", "anyOf", "oneOf"] {
        if let Some(members) = property[choice].as_array() {
            let mut shapes: BTreeSet<String> = members.iter().map(|m| shape(m, types)).collect();
            shapes.remove("null");
            return Vec::from_iter(shapes).join(" or ");
        }
    }
    let mut names: BTreeSet<&str> = match &property["type"] {
        Value::String(name) => BTreeSet::from([name.as_str()]),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    };
    if names.len() > 1 {
        names.remove("null");
    }
    let name = Vec::from_iter(names).join(" or ");
    match name.as_str() {
        "integer" => "number".to_owned(),
        "array" => list_shape(&property["items"], types),
        "object" if property["properties"].is_null() => "map".to_owned(),
        _ => name,
    }
}

fn list_shape(items: &Value, types: &Value) -> String {
    // Each item of a tuple has a type of its own.
    if let Value::Array(items) = items {
        let shapes: Vec<String> = items.iter().map(|item| shape(item, types)).collect();
        return format!("({})", shapes.join(", "));
    }
    match shape(items, types).as_str() {
        "number" => "number".to_owned(),
        item => format!("list of {item}"),
    }
}

#[test]
fn a_key_means_the_same_wherever_it_stands() {
    let key_texts = key_texts();
    let mut meanings = Meanings::of_documents();
    meanings.add_columns(&key_texts);

    let conflicts = ambiguous(&meanings.texts);
    assert!(
        conflicts.is_empty(),
        "keys with several meanings: rename one, or define the key in keys.json: {conflicts:#?}"
    );
    let differ = ambiguous(&meanings.shapes);
    let found: Vec<&str> = differ.keys().copied().collect();
    let mut excused = SHAPES.map(|(key, _)| key);
    excused.sort_unstable();
    assert_eq!(
        found, excused,
        "keys whose values differ in shape: {differ:#?}"
    );
    for (key, text) in &key_texts {
        assert!(
            meanings.texts.contains_key(key),
            "keys.json defines {key}, which no document has"
        );
        assert!(text.ends_with(['.', ')']), "{key}: {text}");
    }
}
