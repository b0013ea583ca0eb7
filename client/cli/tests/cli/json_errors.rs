//! Errors under `--json`: one line on standard error, with what a program decides by, and nothing on standard output.

use leasehold_tests::{Coordinator, RedisServer};
use serde_json::{Value, json};

use super::{output, started};

/// Runs the tool, and returns its exit code and the error that it tells.
pub(super) fn error(endpoint: &str, args: &[&str]) -> (Option<i32>, Value) {
    let output = output(endpoint, &[args, &["--json"]].concat());
    assert_eq!(output.out, "", "{args:?}");
    let told = output.err;
    assert_eq!(told.lines().count(), 1, "{args:?}: {told}");
    let document: Value =
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {args:?}: {told}"));
    (output.code, document["error"].clone())
}

/// Returns the fields that a program decides by.
pub(super) fn decisive(error: &Value) -> [Value; 4] {
    ["code", "reason", "retry", "endpoint"].map(|field| error[field].clone())
}

/// Returns those fields as they are expected.
pub(super) fn decisive_of(
    code: &str,
    reason: Option<&str>,
    retry: &str,
    endpoint: Option<&str>,
) -> [Value; 4] {
    [json!(code), json!(reason), json!(retry), json!(endpoint)]
}

#[test]
fn refusals_of_a_coordinator_are_reported_with_their_reason() {
    let (_coordinator, endpoint) = started();
    let long = "x".repeat(513);
    for args in [
        &["get", &long][..],
        &["leader", &long],
        &["watch", &long],
        &["observe", &long],
    ] {
        let (code, error) = error(&endpoint, args);
        assert_eq!(code, Some(64));
        let expected = decisive_of(
            "INVALID_ARGUMENT",
            Some("INVALID_FIELD"),
            "no",
            Some(&endpoint),
        );
        assert_eq!(decisive(&error), expected, "{args:?}: {error}");
    }
    let (code, error) = error(&endpoint, &["bench", "--ttl", "2h"]);
    assert_eq!(
        (code, &error["reason"]),
        (Some(64), &json!("INVALID_FIELD"))
    );
    assert_eq!(error["endpoint"], endpoint);
    // The bounds are told as people write them.
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("must be 1s to 1h, not 2h"), "{message}");
}

#[test]
fn a_port_of_something_else_is_not_worth_another_attempt() {
    let coordinator = Coordinator::in_process();
    let admin = coordinator.admin_endpoint();
    let encrypted = coordinator.endpoint().replace("http", "https");
    for endpoint in [&admin, &encrypted] {
        let (code, error) = error(endpoint, &["ls"]);
        let expected = (Some(69), &json!("no"));
        assert_eq!((code, &error["retry"]), expected, "{error}");
        assert_eq!(error["endpoint"], *endpoint);
    }
}

#[tokio::test]
async fn a_row_of_status_has_its_error_in_the_same_form() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::in_process_with(["--store", &redis.url()]);
    coordinator.ready().await;
    let endpoints = format!("{},http://127.0.0.1:1", coordinator.endpoint());
    let told = output(&endpoints, &["status", "--json"]).json();
    let rows = told["coordinators"].as_array().unwrap();
    assert_eq!(rows[0]["error"], Value::Null);
    let error = &rows[1]["error"];
    let expected = decisive_of("UNAVAILABLE", None, "yes", Some("http://127.0.0.1:1"));
    assert_eq!(decisive(error), expected, "{error}");
}

#[test]
fn mistakes_on_the_command_line_are_told_in_the_same_form() {
    for (args, message) in [
        (&["run", "a"][..], "--json is not for this command"),
        (&["elect", "e"], "--json is not for this command"),
        (&["release", "a"], "use --force"),
        (
            &["bench", "--clients", "0"],
            "invalid value '0' for '--clients <NUMBER>'",
        ),
        (
            &["status", "--timeout", "-1s"],
            "a duration can't be negative",
        ),
        (
            &["get"],
            "the following required arguments were not provided: <NAME>",
        ),
        (
            &["ls", "--endpoint", "ftp://locks.example"],
            "invalid endpoint",
        ),
        (&[], "requires a subcommand"),
    ] {
        let tail: &[&str] = match args.first() {
            Some(&("run" | "elect")) => &["--json", "--", "true"],
            _ => &["--json"],
        };
        let output = output("http://127.0.0.1:1", &[args, tail].concat());
        assert_eq!(output.code, Some(64), "{args:?}");
        let document: Value = serde_json::from_str(&output.err).unwrap();
        let error = &document["error"];
        let expected = decisive_of("INVALID_ARGUMENT", None, "no", None);
        assert_eq!(decisive(error), expected, "{args:?}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains(message),
            "{error}"
        );
    }
}
