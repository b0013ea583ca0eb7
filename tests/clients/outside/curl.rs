//! curl, with TLS, tokens and permissions.

use std::{fs, process::Command, thread};

use leasehold_server::access::tokens::new_token;
use leasehold_tests::{
    Authority, Coordinator, CoordinatorProcess,
    http::{ACQUIRE, GET_LOCK, RELEASE, WATCH, reason},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::has;

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

/// Coordinator with TLS, tokens and permissions.
struct Site {
    folder: TempDir,
    authority: Authority,
    coordinator: CoordinatorProcess,
    token: String,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("servers");
        let issued = authority.server().issue();
        let printed = new_token("shop").unwrap();
        let (token, line) = printed.trim().split_once('\n').unwrap();
        let tokens = folder.path().join("tokens");
        fs::write(&tokens, line).unwrap();
        let config = folder.path().join("leasehold.toml");
        let permission = "[[permission]]\nidentities = [\"token:shop\"]\nallow = [\"acquire\", \"inspect\"]\nlocks = [\"shop/\"]\n";
        fs::write(&config, permission).unwrap();
        let flags = [
            "--config".to_owned(),
            config.display().to_string(),
            "--token-file".to_owned(),
            tokens.display().to_string(),
        ];
        let flags = flags.into_iter().chain(issued.flags());
        let coordinator = Coordinator::process().arguments(flags).start();
        Self {
            folder,
            authority,
            coordinator,
            token: token.to_owned(),
        }
    }

    /// Runs curl; returns the status of HTTP, its version, and the body.
    fn curl(&self, path: &str, args: &[&str]) -> (u16, String, Value) {
        let body = self.folder.path().join("body");
        let url = format!("{}{path}", self.coordinator.endpoint());
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "10"])
            .arg("--cacert")
            .arg(self.authority.ca())
            .arg("--output")
            .arg(&body)
            .args(["--write-out", "%{http_code} %{http_version}"])
            .args(args)
            .arg(url.replace("127.0.0.1", "localhost"))
            .output()
            .expect("curl can be run");
        let shown = String::from_utf8(output.stdout).unwrap();
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{problem}");
        let (status, version) = shown.split_once(' ').unwrap();
        let body = fs::read_to_string(&body).unwrap();
        let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
        (status.parse().unwrap(), version.to_owned(), body)
    }
}

#[test]
fn curl_needs_tls_a_token_and_a_permission() {
    if !has(&["curl"]) {
        return;
    }
    let site = Site::start();
    let json = ["--header", "content-type: application/json"];
    let authorization = format!("authorization: Bearer {}", site.token);
    for (flag, expected) in [("--http1.1", "1.1"), ("--http2", "2"), ("--no-alpn", "1.1")] {
        let call = |path: &str, token: bool, message: Value| {
            let message = message.to_string();
            let mut args = vec![flag, "--data", &message];
            args.extend(json);
            if token {
                args.extend(["--header", &authorization]);
            }
            site.curl(path, &args)
        };
        let (status, version, error) = call(ACQUIRE, false, json!({"name": "shop/a"}));
        assert_eq!((status, &*version), (401, expected), "{error}");
        assert_eq!(error["code"], "unauthenticated");
        assert_eq!(reason(&error), "UNAUTHENTICATED");
        let (status, _, error) = call(ACQUIRE, true, json!({"name": "other"}));
        assert_eq!((status, &*reason(&error)), (403, "PERMISSION_DENIED"));
        let (status, _, granted) = call(ACQUIRE, true, json!({"name": "shop/a"}));
        assert_eq!(status, 200, "{granted}");
        let (status, _, busy) = call(ACQUIRE, true, json!({"name": "shop/a"}));
        assert_eq!(
            (status, &busy["outcome"]),
            (200, &json!("ACQUIRE_OUTCOME_BUSY"))
        );
        let owned = json!({"name": "shop/a", "ownerId": granted["ownerId"]});
        let (status, _, released) = call(RELEASE, true, owned);
        assert_eq!((status, released), (200, json!({"released": true})));
    }
    let args = [
        "--get",
        "--header",
        &authorization,
        "--data",
        "encoding=json",
    ];
    let message = ["--data-urlencode", r#"message={"name":"shop/a"}"#];
    let (status, _, shown) = site.curl(GET_LOCK, &[&args[..], &message].concat());
    assert_eq!((status, &shown["lock"]["name"]), (200, &json!("shop/a")));
    let (status, _, error) = site.curl(WATCH, &["--data", "{}", json[0], json[1]]);
    let error = error.as_str().unwrap();
    assert_eq!(status, 415);
    assert!(error.contains("application/connect+json"), "{error}");
}

#[test]
fn the_curl_lines_of_the_documentation_work_as_written() {
    if !has(&["curl"]) {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once("<!-- curl -->\n```sh\n").unwrap();
    let (commands, _) = block.split_once("\n```").unwrap();
    assert_eq!(commands.matches("curl ").count(), 5);
    let coordinator = Coordinator::process().start();
    let commands = commands.replace("http://127.0.0.1:7420", &coordinator.endpoint());
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &commands])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{out} {output:?}",
        output = output.stderr
    );
    for expected in [
        r#""outcome":"ACQUIRE_OUTCOME_GRANTED""#,
        r#"{"renewed":true"#,
        r#""clientName":"me""#,
        r#"{"released":true}"#,
        r#"{"status":"SERVING"}"#,
    ] {
        assert!(out.contains(expected), "no {expected} in {out}");
    }
}

#[test]
fn curls_of_many_shells_exclude_one_another() {
    if !has(&["curl"]) {
        return;
    }
    let coordinator = Coordinator::process().start();
    let url = format!("{}{ACQUIRE}", coordinator.endpoint());
    let acquire = || {
        let args = ["--silent", "--data", r#"{"name":"one"}"#, "--header"];
        let command = Command::new("curl")
            .args(args)
            .args(["content-type: application/json", &url])
            .output();
        let output = command.expect("curl can be run").stdout;
        serde_json::from_slice::<Value>(&output).unwrap()
    };
    let outcomes = thread::scope(|scope| {
        let shells: Vec<_> = (0..8).map(|_| scope.spawn(acquire)).collect();
        let outcomes = shells.into_iter().map(|shell| shell.join().unwrap());
        outcomes.collect::<Vec<_>>()
    });
    let granted = |outcome: &&Value| outcome["outcome"] == "ACQUIRE_OUTCOME_GRANTED";
    assert_eq!(outcomes.iter().filter(granted).count(), 1, "{outcomes:?}");
}
