//! `docs/calls.md`: every method by grpcurl and by curl, with the same answers.

use std::{fs, process::Command};

use leasehold_server::services::descriptors;
use leasehold_tests::{Coordinator, http::frames, path_with_grpcurl};
use serde_json::Value;

use crate::{has, has_grpcurl};

const PAGE: &str = include_str!("../../../docs/calls.md");
/// Seconds for which a stream is watched: longer than the page has a reader wait, because a busy machine may need some to answer.
const WATCHED: u8 = 5;
/// Fields that differ from call to call, and those of lists that other calls change. `used` counts connections and files: the call before
/// may still have its own. For `led`, see [`is_settled`].
const VOLATILE: [&str; 17] = [
    "ackedHeartbeat",
    "acquiredAt",
    "coordinator",
    "fencingToken",
    "led",
    "newestToken",
    "ownerId",
    "requestId",
    "sessionId",
    "since",
    "startedAt",
    "time",
    "ttl",
    "uptime",
    "used",
    "validFor",
    "campaignId",
];

/// A line of the page that calls a method.
struct Line {
    method: &'static str,
    is_grpc: bool,
}

/// Returns the commands of the page, and a line for each that calls, whose output goes into the file of its number.
fn script(address: &str) -> (String, Vec<Line>) {
    let (mut script, mut lines) = (String::new(), Vec::new());
    for block in PAGE.split("\n```").skip(1).step_by(2) {
        for line in block.strip_prefix("sh\n").unwrap().lines() {
            let command = line.replace("127.0.0.1:7420", address);
            let command = command.replace("max-time 2", &format!("max-time {WATCHED}"));
            let called = ["127.0.0.1:7420 ", "$HTTP/"].into_iter().enumerate();
            let called = called.filter_map(|(at, before)| {
                let (_, rest) = line.split_once(before)?;
                let method = rest.split_whitespace().next()?;
                Some((at == 0, method))
            });
            let [(is_grpc, method)] = called.collect::<Vec<_>>()[..] else {
                script += &format!("{command}\n");
                continue;
            };
            let at = lines.len();
            // Both ways of watching the same wait side by side.
            let (before, after) = match line.contains("max-time") {
                true => ("", " &"),
                false => ("wait; ", ""),
            };
            script += &format!(
                "{before}{{ {{ {command}\n}} >{at}.out 2>{at}.err; echo $? >{at}.code; }}{after}\n"
            );
            lines.push(Line { method, is_grpc });
        }
    }
    script += "wait\n";
    (script, lines)
}

/// Returns the messages of an answer.
fn messages(output: Vec<u8>, is_enveloped: bool) -> Vec<Value> {
    if !is_enveloped {
        let values = serde_json::Deserializer::from_slice(&output).into_iter();
        return values.map(Result::unwrap).collect();
    }
    // Not the end of the stream.
    let messages = frames(output.into()).into_iter();
    let messages = messages.filter(|(flags, _)| *flags == 0);
    messages
        .map(|(_, message)| serde_json::from_slice(&message).unwrap())
        .collect()
}

/// Returns what both ways must have in common.
fn essence(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let kept = fields.filter(|(name, _)| !VOLATILE.contains(&&**name));
            kept.map(|(name, value)| (name, essence(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(essence).collect(),
        Value::String(text) if text == "two" => "one".into(),
        other => other,
    }
}

/// Returns whether a message does not depend on how far apart a stream's requests were: gRPC says each as soon as it has it, curl all at
/// once, and the last ends the session or the candidacy whether the one before it is served already or not.
fn is_settled(message: &Value) -> bool {
    let crossed = ["granted", "notGranted", "elected"];
    crossed.iter().all(|kind| message.get(kind).is_none())
}

#[test]
fn every_call_of_the_page_is_answered_alike() {
    if !has(&["curl"]) || !has_grpcurl() {
        return;
    }
    let coordinator = Coordinator::process().start();
    let folder = tempfile::tempdir().unwrap();
    let address = coordinator.endpoint().replace("http://", "");
    let (script, lines) = script(&address);
    let ran = Command::new("bash")
        .args(["-uc", &script])
        .current_dir(&folder)
        .env("PATH", path_with_grpcurl())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");

    let pool = descriptors().unwrap();
    let services = pool
        .services()
        .filter(|service| service.full_name().contains(".v1."));
    let mut unseen: Vec<_> = services
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| format!("{}/{}", method.parent_service().full_name(), method.name()))
        .collect();
    for (at, pair) in lines.chunks(2).enumerate() {
        let [grpc, http] = pair else {
            panic!("{} is called one way", pair[0].method);
        };
        assert!(grpc.is_grpc && !http.is_grpc, "{}", grpc.method);
        assert_eq!(grpc.method, http.method);
        let (service, method) = grpc.method.split_once('/').unwrap();
        let service = pool.get_service_by_name(service).unwrap();
        let method = service.methods().find(|it| it.name() == method).unwrap();
        let is_stream = method.is_server_streaming();
        let read = |number: usize, kind: &str| {
            fs::read(folder.path().join(format!("{number}.{kind}"))).unwrap()
        };
        let answers = [2 * at, 2 * at + 1].map(|number| {
            let error = String::from_utf8(read(number, "err")).unwrap();
            // A stream that is only watched is cut off.
            let is_cut_off = is_stream && !method.is_client_streaming();
            let code = String::from_utf8(read(number, "code")).unwrap();
            assert!(is_cut_off || code == "0\n", "{}: {error}", grpc.method);
            let is_enveloped = is_stream && number % 2 == 1;
            let messages = messages(read(number, "out"), is_enveloped);
            let messages = messages.into_iter().map(essence);
            messages.filter(is_settled).collect::<Vec<_>>()
        });
        assert_eq!(answers[0], answers[1], "{}", grpc.method);
        let is_quiet = grpc.method.ends_with("/Observe");
        assert!(is_quiet || !answers[0].is_empty(), "{}", grpc.method);
        unseen.retain(|unseen| unseen != grpc.method);
    }
    assert!(unseen.is_empty(), "not on the page: {unseen:?}");
}
