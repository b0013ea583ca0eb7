//! Codecs of messages: binary protobuf, and the JSON of proto3.

use std::{collections::HashSet, fmt};

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Codec of a call's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Proto,
    Json,
}

impl Codec {
    /// Returns the codec of this name in a content type or a query.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "proto" => Some(Self::Proto),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Returns a client's message in binary protobuf, if it is one of this type.
    pub(super) fn decode(
        self,
        message: Bytes,
        descriptor: MessageDescriptor,
    ) -> Result<Bytes, String> {
        match self {
            Self::Proto => match DynamicMessage::decode(descriptor, message.clone()) {
                Ok(_) => Ok(message),
                Err(error) => Err(error.to_string()),
            },
            Self::Json => from_json(&message, descriptor).map(Bytes::from),
        }
    }

    /// Returns a service's message in this codec.
    pub(super) fn encode(
        self,
        message: Bytes,
        descriptor: MessageDescriptor,
    ) -> Result<Bytes, String> {
        match self {
            Self::Proto => Ok(message),
            Self::Json => {
                let message = DynamicMessage::decode(descriptor, message);
                let message = message.map_err(|error| error.to_string())?;
                let json = serde_json::to_vec(&message).map_err(|error| error.to_string())?;
                Ok(json.into())
            }
        }
    }
}

fn from_json(json: &[u8], descriptor: MessageDescriptor) -> Result<Vec<u8>, String> {
    if json.is_empty() {
        return Err("it is empty; an empty message is {}".to_owned());
    }
    let text = |error: serde_json::Error| error.to_string();
    // The mapping's reader would let the last of several equal keys win.
    let mut reader = serde_json::Deserializer::from_slice(json);
    Shape::Message(descriptor.clone())
        .deserialize(&mut reader)
        .map_err(text)?;
    reader.end().map_err(text)?;
    let mut reader = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let message = DynamicMessage::deserialize_with_options(descriptor, &mut reader, &options)
        .map_err(text)?;
    Ok(message.encode_to_vec())
}

/// Type of a JSON value, as far as the keys of objects in it depend on it. As a visitor it finds keys that occur twice, a field's
/// two names included; serde_json bounds the depth.
#[derive(Clone)]
enum Shape {
    /// A message, or a list of them.
    Message(MessageDescriptor),
    /// A map with such values.
    Map(Box<Shape>),
    /// Anything else.
    Other,
}

/// Identity of a key among those of its object.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Field(u32),
    Text(String),
}

impl Shape {
    fn of_kind(kind: &Kind) -> Self {
        match kind {
            Kind::Message(message) => Self::Message(message.clone()),
            _ => Self::Other,
        }
    }

    fn of_field(field: &FieldDescriptor) -> Self {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let values = Self::of_kind(&entry.map_entry_value_field().kind());
                Self::Map(Box::new(values))
            }
            kind => Self::of_kind(&kind),
        }
    }

    /// Returns what distinguishes this key in an object of this shape, and the shape of its value; nothing if no such object has it.
    fn entry(&self, key: &str) -> Option<(Key, Self)> {
        let text = || Key::Text(key.to_owned());
        match self {
            Self::Message(message) => {
                let field = message.get_field_by_json_name(key);
                match field.or_else(|| message.get_field_by_name(key)) {
                    Some(field) => Some((Key::Field(field.number()), Self::of_field(&field))),
                    // Types with a form of their own in JSON.
                    None if message.package_name() == "google.protobuf" => {
                        Some((text(), Self::Other))
                    }
                    None => None,
                }
            }
            Self::Map(values) => Some((text(), (**values).clone())),
            Self::Other => Some((text(), Self::Other)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.clone())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            // Before its value is read, of any size.
            let Some((known, value)) = self.entry(&key) else {
                return Err(Error::custom(format_args!("unrecognized field {key:?}")));
            };
            if !seen.insert(known) {
                return Err(Error::custom(format_args!("the key {key:?} occurs twice")));
            }
            entries.next_value_seed(value)?;
        }
        Ok(())
    }
}
