//! curl, as `docs/http.md` shows it. `connect_clients` has it with TLS, tokens and permissions.

use std::{fs, process::Command};

use leasehold_tests::Coordinator;
use serde_json::{Value, json};

/// Calls `path` of a coordinator without TLS; returns the answer.
pub(crate) fn call(endpoint: &str, path: &str, body: &Value) -> Value {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail-with-body"])
        .args(["--header", "content-type: application/json", "--data"])
        .args([body.to_string(), format!("{endpoint}{path}")])
        .output()
        .expect("curl can be run");
    assert!(output.status.success(), "{path}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs the commands of `docs/http.md` against a coordinator; returns what they print.
fn run_the_page(endpoint: &str) -> (String, String) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once("<!-- curl -->\n```sh\n").unwrap();
    let (commands, _) = block.split_once("\n```").unwrap();
    assert_eq!(commands.matches("curl ").count(), 5);
    let commands = commands.replace("http://127.0.0.1:7420", endpoint);
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &commands])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let told = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(output.status.success(), "{told:?}");
    told.into()
}

#[test]
fn the_curl_lines_of_the_documentation_work_as_written() {
    needs!("curl");
    let coordinator = Coordinator::process().start();
    let (out, _) = run_the_page(&coordinator.endpoint());
    for expected in [
        r#""outcome":"ACQUIRE_OUTCOME_GRANTED""#,
        "the job\n",
        r#"{"renewed":true"#,
        r#""clientName":"me""#,
        r#"{"released":true}"#,
        r#"{"status":"SERVING"}"#,
    ] {
        assert!(out.contains(expected), "no {expected} in {out}");
    }
    // Somebody else has it: no job is run.
    let acquire = json!({"name": "nightly", "ttl": "30s"});
    let path = "/leasehold.v1.LockService/Acquire";
    call(&coordinator.endpoint(), path, &acquire);
    let (out, error) = run_the_page(&coordinator.endpoint());
    assert!(
        !out.contains("the job") && !out.contains("released"),
        "{out}"
    );
    assert!(error.contains("not granted"), "{error}");
}
