#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use super::*;
use crate::show::event;
use leasehold_client::{Leader, LockEvent, LockEventKind, LockWatchEvent, LostReason};
use leasehold_proto::v1::DESCRIPTORS;
use prost::Message;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde_json::Value;

/// Returns the messages of the wire API, by name.
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

fn watched(news: &LockWatchEvent) -> Value {
    serde_json::from_str(&event::document(news, 4).unwrap()).unwrap()
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

fn at(second: u64) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second))
}

fn holder() -> Holder {
    let mut holder = Holder::default();
    holder.fencing_token = Some(9_007_199_254_740_993.into());
    holder.ttl = Some(Duration::from_millis(9_500));
    holder.acquired_at = at(0);
    holder.value = b"v\xff".to_vec();
    holder.permits = Some(2);
    holder.actor = Some(u64::MAX);
    holder.hold_count = 3;
    holder.max_hold = Some(Duration::from_secs(3600));
    holder
}

fn waiter() -> Waiter {
    let mut waiter = Waiter::default();
    waiter.mode = Some(LockMode::Semaphore);
    waiter.permits = Some(4);
    waiter.actor = Some(5);
    waiter.position = 1;
    waiter.waiting_since = at(1);
    waiter
}

fn semaphore() -> LockView {
    let mut lock = LockView::default();
    lock.name = "a".into();
    lock.mode = Some(LockMode::Semaphore);
    lock.holders = vec![holder()];
    lock.holder_count = 150;
    lock.limit = Some(9);
    lock.permits_taken = 8;
    lock.waiters = vec![waiter()];
    lock.waiter_count = 2;
    lock.fencing_token = Some(7.into());
    lock.closed_for = Some(Duration::ZERO);
    lock.lock_delay = Some(Duration::ZERO);
    lock
}

fn json(document: impl Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

#[test]
fn every_document_is_a_message_of_the_wire_api_as_proto3_writes_it() {
    for view in [semaphore(), LockView::default()] {
        check("LockView", &json(Json(&view)), &[]);
        check(
            "WatchLocksResponse",
            &watched(&LockWatchEvent::Lock(view)),
            &[],
        );
    }
    let mut event = LockEvent::default();
    event.kind = LockEventKind::Lost;
    event.reason = Some(LostReason::Deleted);
    event.time = at(0);
    event.holder = Some(holder());
    event.waiter = Some(Waiter::default());
    for news in [
        LockWatchEvent::Event(event),
        LockWatchEvent::Ready,
        LockWatchEvent::Gap("slow".to_owned()),
    ] {
        check("WatchLocksResponse", &watched(&news), &[]);
    }
    check("LeaderResponse", &json(Json(&None::<Leader>)), &[]);
}

#[test]
fn nothing_is_rounded_and_nothing_is_lost() {
    let lock = json(Json(&semaphore()));
    let holder = &lock["holders"][0];
    // As a number, it would be one less to most programs.
    assert_eq!(holder["fencingToken"], "9007199254740993");
    assert_eq!(holder["actor"], "18446744073709551615");
    assert_eq!(holder["value"], "dv8=");
    assert_eq!(holder["ttl"], "9.500s");
    assert_eq!(holder["acquiredAt"], "1970-01-01T00:00:00Z");
    assert_eq!(lock["mode"], "LOCK_MODE_SEMAPHORE");
    assert_eq!(lock["limit"], 9);
    assert_eq!(lock["permitsTaken"], 8);
    assert_eq!(duration(Duration::from_millis(1_500)), "1.500s");
    assert_eq!(duration(Duration::ZERO), "0s");
}

#[test]
fn null_is_what_there_is_none_of() {
    let mut view = LockView::default();
    view.holders = vec![Holder::default()];
    let lock = json(Json(&view));
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
    let mut view = LockView::default();
    view.mode = Some(LockMode::Exclusive);
    view.limit = Some(9);
    let lock = json(Json(&view));
    assert_eq!(lock["limit"], 9);
    assert_eq!(lock["permitsTaken"], 0);
}
