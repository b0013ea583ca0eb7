//! Calls of every described method to a real coordinator, whose requests and answers must be as the document says.

use std::{collections::BTreeSet, io::Write, process::Stdio, time::Duration};

use leasehold_tests::{
    Coordinator, RawCandidate, RawSession,
    http::{Answer, Http, JSON, Version},
    raw::{PROMPT, connect},
    tools,
};
use serde_json::{Value, json};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/openapi.json");
const TTL: Duration = Duration::from_secs(60);

const LOCKS: &str = "/leasehold.v1.LockService";
const ELECTIONS: &str = "/leasehold.v1.ElectionService";
const ADMIN: &str = "/leasehold.v1.AdminService";
const HEALTH: &str = "/grpc.health.v1.Health";

/// Calls, and the messages that a validator is to compare with the document.
struct Calls {
    http: Http,
    document: Value,
    cases: Vec<Value>,
    made: BTreeSet<String>,
}

impl Calls {
    fn of(coordinator: &Coordinator) -> Self {
        let document = std::fs::read(DOCUMENT).unwrap();
        Self {
            http: Http::of(coordinator, Version::One),
            document: serde_json::from_slice(&document).unwrap(),
            cases: Vec::new(),
            made: BTreeSet::new(),
        }
    }

    fn operation(&self, path: &str, method: &str) -> Value {
        let operation = self.document["paths"][path][method].clone();
        assert!(operation.is_object(), "{method} {path} is not described");
        operation
    }

    /// Notes a message that must be as a schema says, or must not.
    fn compare(&mut self, what: &str, schema: &Value, message: &Value, is_valid: bool) {
        assert!(schema.is_object(), "{what}: no schema");
        let case = json!({"what": what, "schema": schema, "message": message, "valid": is_valid});
        self.cases.push(case);
    }

    /// Notes the answer to an operation.
    fn note(&mut self, path: &str, method: &str, answer: &Answer) {
        let status = answer.status.to_string();
        let mut response = &self.operation(path, method)["responses"][&status];
        if let Some(shared) = response["$ref"].as_str() {
            response = self.document.pointer(&shared[1..]).unwrap();
        }
        let schema = response["content"]["application/json"]["schema"].clone();
        assert_eq!(answer.header("content-type"), "application/json");
        let what = format!("{method} {path}: {status}");
        self.compare(&what, &schema, &answer.json(), true);
    }

    /// Makes a call that succeeds, and by GET too where the document has that, and one with an unknown field.
    async fn call(&mut self, path: &str, request: Value) -> Value {
        let body =
            self.operation(path, "post")["requestBody"]["content"]["application/json"]["schema"]
                .clone();
        self.compare(path, &body, &request, true);
        let http = self.http.clone();
        let answer = http.post(path, &[JSON], request.to_string()).await;
        assert_eq!(answer.status, 200, "{path} {answer:?}");
        self.note(path, "post", &answer);
        let wrong = json!({"unknown": 1});
        self.compare(path, &body, &wrong, false);
        let refused = http.post(path, &[JSON], wrong.to_string()).await;
        assert_eq!(refused.status, 400, "{path} {refused:?}");
        self.note(path, "post", &refused);
        self.made.insert(format!("post {path}"));
        if self.document["paths"][path]["get"].is_object() {
            for (message, status) in [(&request, 200), (&wrong, 400)] {
                let mut query = url_encoded(message);
                query += "&encoding=json&connect=v1";
                let answer = http.get(path, &query).await;
                assert_eq!(answer.status, status, "{path} {answer:?}");
                self.note(path, "get", &answer);
            }
            self.made.insert(format!("get {path}"));
        }
        answer.json()
    }

    /// Reads messages of a stream until one is as it should be, and the end of one that fails.
    async fn stream(&mut self, path: &str, request: Value, is_last: impl Fn(&Value) -> bool) {
        let operation = self.operation(path, "post");
        let body =
            operation["requestBody"]["content"]["application/connect+json"]["schema"].clone();
        self.compare(path, &body, &request, true);
        let answers =
            &operation["responses"]["200"]["content"]["application/connect+json"]["schema"];
        let [message, end] = [0, 1].map(|place| answers["anyOf"][place].clone());
        let mut messages = self.http.stream(path, &request).await;
        loop {
            let next = messages.message().await;
            self.compare(path, &message, &next, true);
            if is_last(&next) {
                break;
            }
        }
        let wrong = json!({"unknown": 1});
        self.compare(path, &body, &wrong, false);
        let failed = self.http.stream(path, &wrong).await.end().await;
        assert!(failed["error"].is_object(), "{failed}");
        self.compare(path, &end, &failed, true);
        self.made.insert(format!("post {path}"));
    }

    /// Validates the document, and all messages by it, provided that every method has been called.
    fn check(self) {
        let mut described = BTreeSet::new();
        for (path, methods) in self.document["paths"].as_object().unwrap() {
            let methods = methods.as_object().unwrap().keys();
            described.extend(methods.map(|method| format!("{method} {path}")));
        }
        assert_eq!(self.made, described, "each method is called");
        let mut validator = tools::python("openapi.py")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let input = json!({"document": self.document, "cases": self.cases});
        let mut stdin = validator.stdin.take().unwrap();
        stdin.write_all(input.to_string().as_bytes()).unwrap();
        drop(stdin);
        assert!(validator.wait().unwrap().success(), "the validator agrees");
    }
}

fn url_encoded(message: &Value) -> String {
    let text = message.to_string();
    let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
    format!("message={}", bytes.collect::<String>())
}

#[tokio::test]
async fn every_method_answers_as_the_document_says() {
    needs!("python3");
    let coordinator = Coordinator::in_process();
    coordinator.ready().await;
    let mut calls = Calls::of(&coordinator);
    let locks = |method: &str| format!("{LOCKS}/{method}");
    let admin = |method: &str| format!("{ADMIN}/{method}");

    let acquire = json!({"name": "a", "ttl": "60s", "wait": "0.5s", "value": "aGk=", "clientName": "me", "lockDelay": "1s"});
    let granted = calls.call(&locks("Acquire"), acquire).await;
    let owned = json!({"name": "a", "ownerId": granted["ownerId"]});
    let shared = json!({"name": "a", "mode": "LOCK_MODE_SHARED"});
    let busy = calls.call(&locks("Acquire"), shared).await;
    assert_eq!(busy["outcome"], "ACQUIRE_OUTCOME_BUSY");
    let semaphore = json!({"name": "s", "mode": "LOCK_MODE_SEMAPHORE", "limit": 3, "limitRevision": 4294967295_u32,
        "permits": 2, "permitsAtLeast": 1});
    assert_eq!(calls.call(&locks("Acquire"), semaphore).await["permits"], 2);
    calls.call(&locks("Renew"), owned.clone()).await;

    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.acquire("b").await;
    let waits = session.ask("a", None).await;
    session.queued(waits).await;
    let shown = calls.call(&admin("GetLock"), json!({"name": "a"})).await;
    let waiter = shown["lock"]["waiters"][0]["number"].clone();
    for name in ["b", "s", "free"] {
        calls.call(&admin("GetLock"), json!({"name": name})).await;
    }
    let page = json!({"pageSize": 2, "prefix": ""});
    calls.call(&admin("ListLocks"), page).await;
    let sessions = calls.call(&admin("ListSessions"), json!({})).await;
    let session_id = sessions["sessions"][0]["sessionId"].clone();
    for token in [granted["fencingToken"].clone(), json!(1)] {
        let request = json!({"name": "a", "fencingToken": token});
        calls.call(&admin("CheckToken"), request).await;
    }
    calls.call(&admin("GetStatus"), json!({})).await;
    let asked = json!({"name": "b", "reason": "move", "within": "60s"});
    let asked = calls.call(&admin("RequestRelease"), asked).await;
    assert_eq!(asked["askedCount"], 1);

    let channel = connect(&coordinator.endpoint()).await;
    let leader = format!("{ELECTIONS}/Leader");
    calls.call(&leader, json!({"election": "e"})).await;
    let mut candidate = RawCandidate::campaign(channel, "e", b"me", TTL).await;
    candidate.elected(PROMPT).await;
    calls.call(&leader, json!({"election": "e"})).await;
    let observe = format!("{ELECTIONS}/Observe");
    calls
        .stream(&observe, json!({"election": "e"}), |seen| {
            seen["leader"].is_object()
        })
        .await;

    let watch = admin("WatchLocks");
    calls
        .stream(&watch, json!({"prefix": ""}), |seen| {
            seen["ready"].is_object()
        })
        .await;
    // The other messages of a watch, each once.
    let mut watched = calls.http.stream(&watch, &json!({})).await;
    while !watched.message().await["ready"].is_object() {}
    let number = json!({"name": "a", "waiterNumber": waiter});
    assert_eq!(
        calls.call(&admin("ForceRelease"), number).await["released"],
        true
    );
    calls.call(&locks("Release"), owned.clone()).await;
    calls.call(&locks("Release"), owned).await;
    calls
        .call(&admin("EndSession"), json!({"sessionId": session_id}))
        .await;
    let answers =
        calls.operation(&watch, "post")["responses"]["200"]["content"]["application/connect+json"]
            ["schema"]
            .clone();
    for _ in 0..3 {
        let event = watched.message().await;
        assert!(event["event"].is_object(), "{event}");
        calls.compare(&watch, &answers["anyOf"][0], &event, true);
    }
    // The coordinator and the document refuse two fields of a oneof.
    let force = calls.operation(&admin("ForceRelease"), "post")["requestBody"]["content"]["application/json"]["schema"].clone();
    let both = json!({"name": "a", "waiterNumber": "1", "fencingToken": 1});
    let refused = calls
        .http
        .post(&admin("ForceRelease"), &[JSON], both.to_string())
        .await;
    assert_eq!(refused.status, 400);
    calls.compare("two of a oneof", &force, &both, false);

    calls.call(&format!("{HEALTH}/Check"), json!({})).await;
    let unknown = json!({"service": "nobody"}).to_string();
    let unknown = calls
        .http
        .post(&format!("{HEALTH}/Check"), &[JSON], unknown)
        .await;
    assert_eq!(unknown.status, 404);
    calls.note(&format!("{HEALTH}/Check"), "post", &unknown);
    calls
        .stream(&format!("{HEALTH}/Watch"), json!({}), |seen| {
            seen["status"] == "SERVING"
        })
        .await;
    calls.check();
}
