//! JSON Schemas of messages and enums, in the JSON of proto3.

use std::collections::{BTreeMap, HashMap};

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use serde_json::{Map, Value, json};

use super::comments::Comments;

/// Direction of a message. Clients may write what the coordinator does not, and later coordinators may send fields that this one does not
/// know, but refuse those that they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Answer,
}

/// Schemas, by name, each with the full name and the direction of its type.
#[derive(Debug)]
pub(super) struct Schemas<'a> {
    comments: &'a Comments,
    schemas: BTreeMap<String, Value>,
    types: HashMap<String, (String, Option<Side>)>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(comments: &'a Comments) -> Self {
        Self {
            comments,
            schemas: BTreeMap::new(),
            types: HashMap::new(),
        }
    }

    /// Adds a schema that is no message's.
    pub(super) fn add(&mut self, name: &str, schema: Value) -> Value {
        self.is_new(name, name, None);
        self.insert(name, schema)
    }

    pub(super) fn finish(self) -> Value {
        json!(self.schemas)
    }

    /// Returns a reference to the schema of a message, and adds it and those that it needs.
    pub(super) fn message(&mut self, message: &MessageDescriptor, side: Side) -> Value {
        match message.full_name() {
            "google.protobuf.Duration" => {
                return self.add(
                    "Duration",
                    json!({
                        "type": "string",
                        "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$",
                        "description": "A duration in seconds, with up to nine digits after the point, and an `s`.",
                        "examples": ["30s", "1.500s"],
                    }),
                );
            }
            "google.protobuf.Timestamp" => {
                return self.add(
                    "Timestamp",
                    json!({
                        "type": "string",
                        "format": "date-time",
                        "description": "A time in RFC 3339, UTC.",
                        "examples": ["2026-01-31T12:00:00Z"],
                    }),
                );
            }
            _ => {}
        }
        let name = message.name();
        if !self.is_new(name, message.full_name(), Some(side)) {
            return reference(name);
        }
        let mut description =
            self.comments
                .describe(&message.parent_file(), message.path(), message.full_name());
        let mut properties = Map::new();
        for field in message.fields() {
            properties.insert(field.json_name().to_owned(), self.field(&field, side));
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if side == Side::Request {
            schema["additionalProperties"] = json!(false);
        }
        let oneofs = message.oneofs().filter(|oneof| !oneof.is_synthetic());
        for oneof in oneofs {
            description += &self.oneof(&oneof);
            let both = json!({"anyOf": pairs(&names(&oneof))});
            assert_eq!(schema.get("not"), None, "{name} has one oneof at most");
            schema["not"] = both;
        }
        schema["description"] = json!(description);
        self.insert(name, schema)
    }

    /// Returns whether the schema of a type is to be added.
    fn is_new(&mut self, name: &str, full_name: &str, side: Option<Side>) -> bool {
        let this = (full_name.to_owned(), side);
        let known = self
            .types
            .entry(name.to_owned())
            .or_insert_with(|| this.clone());
        assert_eq!(*known, this, "a schema is of one type, in one direction");
        !self.schemas.contains_key(name)
    }

    /// Returns the part of a message's description that explains a oneof.
    fn oneof(&self, oneof: &OneofDescriptor) -> String {
        let message = oneof.parent_message();
        let described =
            self.comments
                .describe(&message.parent_file(), oneof.path(), oneof.full_name());
        let names = names(oneof).join("`, `");
        format!("\n\n{described} At most one of `{names}` is set.")
    }

    fn field(&mut self, field: &FieldDescriptor, side: Side) -> Value {
        let mut schema = match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let values = self.value(&entry.map_entry_value_field().kind(), side);
                json!({"type": "object", "additionalProperties": values})
            }
            kind if field.is_list() => {
                json!({"type": "array", "items": self.value(&kind, side)})
            }
            kind => self.value(&kind, side),
        };
        let description = self.comments.describe(
            &field.parent_message().parent_file(),
            field.path(),
            field.full_name(),
        );
        schema["description"] = json!(description);
        if side == Side::Answer
            && !field.supports_presence()
            && let Some(default) = default(field)
        {
            schema["default"] = default;
        }
        schema
    }

    fn value(&mut self, kind: &Kind, side: Side) -> Value {
        match kind {
            Kind::Message(message) => self.message(message, side),
            Kind::Enum(of) => self.enumeration(of),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::Int32 => json!({
                "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX,
            }),
            Kind::Uint32 => json!({
                "type": "integer", "format": "uint32", "minimum": 0, "maximum": u32::MAX,
            }),
            Kind::Int64 => long("int64", "^-?[0-9]{1,19}$", side),
            Kind::Uint64 => long("uint64", "^[0-9]{1,20}$", side),
            _ => panic!("no field has the type {kind:?} yet: add its schema"),
        }
    }

    fn enumeration(&mut self, of: &EnumDescriptor) -> Value {
        if !self.is_new(of.name(), of.full_name(), None) {
            return reference(of.name());
        }
        let file = of.parent_file();
        let mut description = self.comments.describe(&file, of.path(), of.full_name());
        description += "\n";
        let mut names = Vec::new();
        for value in of.values() {
            let name = value.name().to_owned();
            let meaning = self
                .comments
                .describe(&file, value.path(), value.full_name());
            description += &format!("\n- `{name}`: {meaning}");
            names.push(name);
        }
        let schema = json!({"type": "string", "enum": names, "description": description});
        self.insert(of.name(), schema)
    }

    fn insert(&mut self, name: &str, schema: Value) -> Value {
        self.schemas.insert(name.to_owned(), schema);
        reference(name)
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns the schema of a 64-bit integer, which many programs would round: the coordinator writes a string, and reads a number too.
fn long(format: &str, pattern: &str, side: Side) -> Value {
    let of = match side {
        Side::Request => json!(["string", "integer"]),
        Side::Answer => json!("string"),
    };
    json!({"type": of, "format": format, "pattern": pattern})
}

/// Returns the value that a field has where an answer leaves it out.
fn default(field: &FieldDescriptor) -> Option<Value> {
    if field.is_map() {
        return Some(json!({}));
    }
    if field.is_list() {
        return Some(json!([]));
    }
    match field.kind() {
        Kind::Message(_) => None,
        Kind::Enum(of) => Some(json!(of.default_value().name())),
        Kind::Bool => Some(json!(false)),
        Kind::String | Kind::Bytes => Some(json!("")),
        Kind::Int64 | Kind::Uint64 => Some(json!("0")),
        _ => Some(json!(0)),
    }
}

fn names(oneof: &OneofDescriptor) -> Vec<String> {
    let fields = oneof.fields();
    fields.map(|field| field.json_name().to_owned()).collect()
}

/// Returns a schema for each two of these properties that both are set.
fn pairs(names: &[String]) -> Vec<Value> {
    let mut pairs = Vec::new();
    for (place, first) in names.iter().enumerate() {
        for second in &names[place + 1..] {
            pairs.push(json!({"required": [first, second]}));
        }
    }
    pairs
}
