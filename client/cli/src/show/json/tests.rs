#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use leasehold_client::{LockNews, proto::v1::DESCRIPTORS};
use prost::Message;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde_json::Value;

use super::*;
use crate::show::{election, event};

/// The messages of the wire API, by name.
fn messages() -> BTreeMap<String, DescriptorProto> {
    let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
    let all = files.into_iter().flat_map(|file| {
        let package = file.package().to_owned();
        let messages = file.message_type.into_iter();
        messages.map(move |message| (format!(".{package}.{}", message.name()), message))
    });
    all.collect()
}

/// Checks a document against a message: it has its fields and no others but `extra`, and they are written as proto3 has it.
fn check(message: &str, document: &Value, extra: &[&str]) {
    let messages = messages();
    let descriptor = &messages[&format!(".leasehold.v1.{message}")];
    let mut names: Vec<_> = descriptor
        .field
        .iter()
        .map(|field| field.json_name())
        .collect();
    names.extend(extra);
    for (name, _) in document.as_object().unwrap() {
        assert!(
            names.contains(&name.as_str()),
            "{message} has no {name}: {document}"
        );
    }
    for field in &descriptor.field {
        // Of several that exclude each other, one is there.
        let is_choice = field.oneof_index.is_some() && !field.proto3_optional();
        match document.get(field.json_name()) {
            None if is_choice => {}
            None => panic!("{message} without {}: {document}", field.json_name()),
            Some(value) => check_field(field, value),
        }
    }
}

fn check_field(field: &FieldDescriptorProto, value: &Value) {
    if field.label() == Label::Repeated {
        let values = value.as_array().unwrap();
        values.iter().for_each(|value| check_value(field, value));
    } else {
        check_value(field, value);
    }
}

fn check_value(field: &FieldDescriptorProto, value: &Value) {
    let text = value.as_str();
    let good = match field.r#type() {
        _ if value.is_null() => true,
        Type::Int64 | Type::Uint64 => text.is_some_and(|text| text.parse::<i128>().is_ok()),
        Type::Int32 | Type::Uint32 => value.is_number(),
        Type::Bool => value.is_boolean(),
        Type::String => text.is_some(),
        Type::Bytes => text.is_some_and(|text| STANDARD.decode(text).is_ok()),
        Type::Enum => {
            text.is_some_and(|text| text.chars().all(|c| c == '_' || c.is_ascii_uppercase()))
        }
        Type::Message => match field.type_name() {
            ".google.protobuf.Duration" => text.is_some_and(|text| text.ends_with('s')),
            ".google.protobuf.Timestamp" => text.is_some_and(|text| text.ends_with('Z')),
            name => {
                check(name.trim_start_matches(".leasehold.v1."), value, &[]);
                true
            }
        },
        other => panic!("{other:?} is not expected"),
    };
    assert!(good, "{}: {value}", field.name());
}

fn time(seconds: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds, nanos: 0 })
}

fn holder() -> v1::Holder {
    v1::Holder {
        fencing_token: 9_007_199_254_740_993,
        ttl: Some(prost_types::Duration {
            seconds: 9,
            nanos: 500_000_000,
        }),
        acquired_at: time(0),
        value: b"v\xff".to_vec(),
        permits: 2,
        actor: u64::MAX,
        hold_count: 3,
        ..Default::default()
    }
}

fn semaphore() -> v1::LockView {
    v1::LockView {
        name: "a".into(),
        mode: v1::LockMode::Semaphore.into(),
        holders: vec![holder()],
        holder_count: 150,
        limit: 9,
        permits_taken: 8,
        waiters: vec![v1::Waiter {
            mode: v1::LockMode::Semaphore.into(),
            permits: 4,
            actor: 5,
            position: 1,
            waiting_since: time(1),
            ..Default::default()
        }],
        waiter_count: 2,
        fencing_token: 7,
        closed_for: Some(prost_types::Duration::default()),
        lock_delay: Some(prost_types::Duration::default()),
    }
}

fn json(document: impl Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

#[test]
fn every_document_is_a_message_of_the_wire_api_as_proto3_writes_it() {
    for view in [semaphore(), v1::LockView::default()] {
        check("LockView", &json(Lock::from(&view)), &[]);
        check(
            "WatchLocksResponse",
            &json(event::News::of(&LockNews::Lock(view), 0)),
            &[],
        );
    }
    let event = v1::LockEvent {
        kind: v1::LockEventKind::Lost.into(),
        reason: v1::LostReason::Deleted.into(),
        time: time(0),
        holder: Some(holder()),
        waiter: Some(v1::Waiter::default()),
        ..Default::default()
    };
    for news in [
        LockNews::Event(event),
        LockNews::Ready,
        LockNews::Gap("slow".to_owned()),
    ] {
        check("WatchLocksResponse", &json(event::News::of(&news, 4)), &[]);
    }
    let released = Released {
        released: true,
        fencing_token: Wide(7),
    };
    check("ForceReleaseResponse", &json(released), &[]);
    check("LeaderResponse", &json(election::Now::from(None)), &[]);
}

#[test]
fn nothing_is_rounded_and_nothing_is_lost() {
    let lock = json(Lock::from(&semaphore()));
    let holder = &lock["holders"][0];
    // As a number, it would be one less to most programs.
    assert_eq!(holder["fencingToken"], "9007199254740993");
    assert_eq!(holder["actor"], "18446744073709551615");
    assert_eq!(holder["value"], "dv8=");
    assert_eq!(holder["ttl"], "9.500s");
    assert_eq!(holder["acquiredAt"], "1970-01-01T00:00:00Z");
    assert_eq!(lock["mode"], "LOCK_MODE_SEMAPHORE");
    assert_eq!(
        (&lock["limit"], &lock["permitsTaken"]),
        (&9.into(), &8.into())
    );
    assert_eq!(duration(Duration::from_millis(1_500)), "1.500s");
    assert_eq!(duration(Duration::ZERO), "0s");
}

#[test]
fn null_is_what_there_is_none_of() {
    let lock = json(Lock::from(&v1::LockView {
        holders: vec![v1::Holder::default()],
        ..Default::default()
    }));
    let holder = &lock["holders"][0];
    for none in [
        &lock["limit"],
        &lock["permitsTaken"],
        &lock["closedFor"],
        &lock["mode"],
        &holder["permits"],
        &holder["actor"],
    ] {
        assert_eq!(none, &Value::Null);
    }
    // Held exclusively, and waited for by those who want permits.
    let lock = json(Lock::from(&v1::LockView {
        mode: v1::LockMode::Exclusive.into(),
        limit: 9,
        ..Default::default()
    }));
    assert_eq!(
        (&lock["limit"], &lock["permitsTaken"]),
        (&9.into(), &0.into())
    );
}
