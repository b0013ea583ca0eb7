//! Unary calls.

use leasehold_tests::{
    Coordinator,
    http::{ACQUIRE, BOTH, GET_LOCK, HEALTH, Http, JSON, PROTO, RELEASE, RENEW},
    raw::PROMPT,
    wait,
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_lock_is_acquired_renewed_and_released_in_json() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let asked = json!({"name": "demo", "ttl": "10s", "clientName": "script", "value": "aGk="});
        let granted = http.call(ACQUIRE, &asked).await;
        assert_eq!(granted["outcome"], "ACQUIRE_OUTCOME_GRANTED");
        let token: i64 = granted["fencingToken"].as_str().unwrap().parse().unwrap();
        assert!(token > 0);
        let owned = json!({"name": "demo", "ownerId": granted["ownerId"]});

        let busy = http.call(ACQUIRE, &json!({"name": "demo"})).await;
        assert_eq!(busy["outcome"], "ACQUIRE_OUTCOME_BUSY");
        assert_eq!(busy["holder"]["clientName"], "script");
        let shown = http.call(GET_LOCK, &json!({"name": "demo"})).await;
        let holder = &shown["lock"]["holders"][0];
        assert_eq!(holder["fencingToken"], granted["fencingToken"]);
        assert_eq!(holder["value"], "aGk=");

        let renewed = http.call(RENEW, &owned).await;
        assert_eq!(renewed["renewed"], true);
        assert_eq!(http.call(RELEASE, &owned).await, json!({"released": true}));
        // What is false is left out.
        assert_eq!(http.call(RELEASE, &owned).await, json!({}));
    }
}

#[tokio::test]
async fn errors_say_what_is_wrong() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        for headers in [JSON, PROTO] {
            let body = if headers == JSON { "{}" } else { "" };
            let answer = http.post(ACQUIRE, &[headers], body).await;
            assert_eq!(answer.status, 400);
            assert_eq!(answer.header("content-type"), "application/json");
            let error = answer.json();
            assert_eq!(error["code"], "invalid_argument");
            assert_eq!(answer.reason(), "INVALID_FIELD");
            let details = error["details"].as_array().unwrap();
            let fields = details
                .iter()
                .find(|detail| detail["type"] == "google.rpc.BadRequest");
            let field = &fields.unwrap()["debug"]["fieldViolations"][0];
            assert_eq!(field["field"], "name", "{error}");
        }
        let answer = http
            .post("/leasehold.v1.LockService/Steal", &[JSON], "{}")
            .await;
        assert_eq!(answer.status, 404);
    }
}

#[tokio::test]
async fn calls_count_like_those_of_grpc() {
    let coordinator = Coordinator::in_process();
    coordinator.ready().await;
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        http.call(ACQUIRE, &json!({"name": format!("{version:?}")}))
            .await;
        http.post(ACQUIRE, &[JSON], "{}").await;
        http.post(ACQUIRE, &[JSON], "{").await;
        let serving = http.call(HEALTH, &json!({})).await;
        assert_eq!(serving, json!({"status": "SERVING"}));
    }
    let metrics = coordinator.metrics().await;
    let ended = |code: &str| {
        let code = format!("code=\"{code}\"");
        metrics.of("leasehold_rpcs_total", &["method=\"Acquire\"", &code])
    };
    assert!((ended("OK") - 2.0).abs() < 0.1);
    assert!((ended("INVALID_ARGUMENT") - 4.0).abs() < 0.1);
}

#[tokio::test]
async fn a_call_that_waits_ends_at_its_time() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let name = format!("{version:?}");
        http.call(ACQUIRE, &json!({"name": name})).await;
        let waits = json!({"name": name, "wait": "60s"}).to_string();
        let headers = [JSON, ("connect-timeout-ms", "100")];
        let answer = http.post(ACQUIRE, &headers, waits).await;
        assert_eq!(answer.status, 504);
        assert_eq!(answer.json()["code"], "deadline_exceeded");
        nobody_waits(&http, &name).await;
    }
}

/// Waits until nobody waits for a lock any more.
pub(super) async fn nobody_waits(http: &Http, name: &str) {
    wait::until("the waiter to be gone", PROMPT, || async {
        let shown = http.call(GET_LOCK, &json!({"name": name})).await;
        match &shown["lock"]["waiterCount"] {
            Value::Null => Ok(()),
            some => Err(some.clone()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_waits_no_longer() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let name = format!("{version:?}");
        http.call(ACQUIRE, &json!({"name": name})).await;
        let waiting = tokio::spawn({
            let (http, name) = (http.clone(), name.clone());
            async move {
                http.call(ACQUIRE, &json!({"name": name, "wait": "60s"}))
                    .await
            }
        });
        wait::until("a waiter", PROMPT, || async {
            let shown = http.call(GET_LOCK, &json!({"name": name})).await;
            let waiters = shown["lock"]["waiters"].as_array().map_or(0, Vec::len);
            if waiters == 1 { Ok(()) } else { Err(waiters) }
        })
        .await;
        waiting.abort();
        nobody_waits(&http, &name).await;
    }
}
