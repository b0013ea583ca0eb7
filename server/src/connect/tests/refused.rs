//! Requests that are refused before a service sees them.

use super::*;

#[tokio::test]
async fn messages_that_are_none_of_the_method_are_refused() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    for (said, because) in [
        ("", "it is empty"),
        ("{", "EOF"),
        ("not json", "expected"),
        ("[]", "a map"),
        ("null", "a map"),
        ("{} {}", "trailing"),
        ("{\"name\":\"\u{fffd}\"}x", "trailing"),
        (r#"{"name":1}"#, "a string"),
        (r#"{"nam":"a"}"#, "\"nam\""),
        (r#"{"name":"a","name":"b"}"#, "twice"),
        (r#"{"clientName":"a","client_name":"b"}"#, "twice"),
        // Nothing of its value is read.
        (r#"{"nam":{"a":1,"a":2}}"#, "\"nam\""),
        (r#"{"name":{"a":1,"a":2}}"#, "twice"),
        (r#"{"ttl":"soon"}"#, ""),
        (r#"{"ttl":"1e9s"}"#, ""),
        (r#"{"ttl":"999999999999999999999s"}"#, ""),
        (r#"{"mode":"LOCK_MODE_NEW"}"#, "LOCK_MODE_NEW"),
        (r#"{"mode":1e400}"#, "out of range"),
        (r#"{"mode":99999999999999999999}"#, ""),
        (r#"{"mode":1.5}"#, ""),
        (r#"{"value":"***"}"#, ""),
        (&deep("[", "]")[..LIMIT], "recursion"),
        (&deep("{\"name\":", "}")[..LIMIT], "recursion"),
    ] {
        let (asked, answered) = serve(post(ACQUIRE, &[JSON], said.to_owned()), granted).await;
        assert!(asked.unwrap().body.is_err(), "{said}");
        assert_eq!(answered.status, StatusCode::BAD_REQUEST, "{said}");
        let error = answered.json();
        assert_eq!(error["code"], "invalid_argument", "{said}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(because), "{said}: {message}");
        assert!(message.len() < 500, "{message}");
        assert_eq!(error["details"][0]["debug"]["reason"], "UNKNOWN_REQUEST");
    }
    let (_, answered) = serve(post(ACQUIRE, &[PROTO], vec![0xff; 10]), granted).await;
    assert_eq!(answered.json()["code"], "invalid_argument");
    // Not UTF-8.
    let garbled = b"{\"name\":\"\xff\"}".to_vec();
    let (_, answered) = serve(post(ACQUIRE, &[JSON], garbled), granted).await;
    assert_eq!(answered.json()["code"], "invalid_argument");
}

#[tokio::test]
async fn requests_that_are_no_calls_get_their_status_of_http() {
    let with = |method: &str, path: &str, content_type: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type);
        request.body(Body::empty()).unwrap()
    };
    let is_text = "";
    for ((status, code, header), requests) in [
        (
            (404, "unimplemented", ""),
            vec![with("POST", "/", JSON.1), with("GET", "/a.B/C", "")],
        ),
        (
            (405, "unknown", "allow"),
            vec![
                with("GET", ACQUIRE, ""),
                with("DELETE", GET_LOCK, JSON.1),
                with("HEAD", GET_LOCK, ""),
                with("GET", WATCH, ""),
            ],
        ),
        (
            (405, is_text, "allow"),
            vec![
                with("DELETE", ACQUIRE, "application/grpc"),
                with("GET", ACQUIRE, "application/grpc-web"),
            ],
        ),
        (
            (415, is_text, "accept-post"),
            vec![
                with("POST", ACQUIRE, ""),
                with("POST", ACQUIRE, "image/jpeg"),
                with("POST", ACQUIRE, "application/xml"),
                with("POST", ACQUIRE, STREAM.1),
                with("POST", WATCH, JSON.1),
                with("POST", ACQUIRE, "application/json; charset=x"),
                get(GET_LOCK, "encoding=xml&message="),
            ],
        ),
        (
            (415, is_text, ""),
            vec![
                with("POST", ACQUIRE, "application/grpc-web+json"),
                with("POST", ACQUIRE, "application/grpc+json"),
                with("POST", ACQUIRE, "application/grpcs"),
            ],
        ),
        // gRPC needs HTTP/2, and so does a stream both ways.
        (
            (505, is_text, "connection"),
            vec![
                with("POST", ACQUIRE, "application/grpc"),
                with("POST", SESSION, "application/grpc-web"),
            ],
        ),
        (
            (505, "unimplemented", "connection"),
            vec![with("POST", SESSION, STREAM.1)],
        ),
    ] {
        for request in requests {
            let shown = format!("{request:?}");
            let (asked, answered) = serve(request, granted).await;
            assert!(asked.is_none(), "{shown}");
            assert_eq!(answered.status, status, "{shown}");
            // Whoever may not speak Connect gets text.
            if code.is_empty() {
                assert_eq!(answered.header("content-type"), "text/plain", "{shown}");
                assert!(answered.body.ends_with(b"\n"), "{shown}");
            } else {
                assert_eq!(answered.json()["code"], code, "{shown}");
            }
            assert!(
                header.is_empty() || answered.headers.contains_key(header),
                "{shown}"
            );
        }
    }
    let large = "x".repeat(17_000);
    let (asked, answered) = serve(post(ACQUIRE, &[JSON, ("x", &large)], "{}"), granted).await;
    assert!(asked.is_none());
    assert_eq!(answered.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn heads_of_calls_that_make_no_sense_are_refused_as_calls() {
    for (headers, code) in [
        (
            [JSON, ("connect-protocol-version", "2")],
            "invalid_argument",
        ),
        ([JSON, ("connect-timeout-ms", "soon")], "invalid_argument"),
        ([JSON, ("content-encoding", "br")], "unimplemented"),
    ] {
        let (asked, answered) = serve(post(ACQUIRE, &headers, "{}"), granted).await;
        assert!(asked.is_none());
        assert_eq!(answered.json()["code"], code, "{headers:?}");
    }
    let headers = [JSON, ("content-encoding", "br")];
    let (_, answered) = serve(post(ACQUIRE, &headers, "{}"), granted).await;
    assert_eq!(answered.status, StatusCode::NOT_IMPLEMENTED);
    let error = answered.json();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("gzip, identity"), "{message}");
    // A stream's errors are in the stream.
    for (headers, code) in [
        ([STREAM, ("connect-timeout-ms", "-1")], "invalid_argument"),
        (
            [STREAM, ("connect-content-encoding", "br")],
            "unimplemented",
        ),
    ] {
        let (asked, answered) = serve(post(WATCH, &headers, ""), granted).await;
        assert!(asked.is_none());
        assert_eq!(answered.status, StatusCode::OK);
        assert_eq!(answered.header("content-type"), STREAM.1);
        assert_eq!(answered.messages().len(), 1);
        assert_eq!(answered.end()["error"]["code"], code, "{headers:?}");
    }
}

#[tokio::test]
async fn web_pages_of_other_origins_may_not_call() {
    let allowed = "https://app.example";
    let from = |origin| [JSON, ("origin", origin)];
    let (asked, answered) = serve(post(ACQUIRE, &from(allowed), "{}"), granted).await;
    assert!(asked.is_some());
    assert_eq!(answered.header("access-control-allow-origin"), allowed);
    for origin in ["https://evil.example", "null", ""] {
        let (asked, answered) = serve(post(ACQUIRE, &from(origin), "{}"), granted).await;
        assert!(asked.is_none(), "{origin}");
        assert_eq!(answered.status, StatusCode::FORBIDDEN);
        assert_eq!(answered.json()["code"], "permission_denied");
        assert_eq!(answered.header("access-control-allow-origin"), "");
    }
    let preflight = |origin| {
        let request = Request::options(ACQUIRE).header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let asks = "content-type,authorization,connect-protocol-version";
        let request = request.header("access-control-request-headers", asks);
        request.body(Body::empty()).unwrap()
    };
    let (asked, answered) = serve(preflight(allowed), granted).await;
    assert!(asked.is_none());
    assert_eq!(answered.status, StatusCode::OK);
    assert_eq!(answered.header("access-control-allow-origin"), allowed);
    assert_eq!(answered.header("access-control-allow-methods"), "GET,POST");
    let headers = answered.header("access-control-allow-headers");
    assert!(headers.contains("authorization"), "{headers}");
    let (_, answered) = serve(preflight("https://evil.example"), granted).await;
    assert_eq!(answered.header("access-control-allow-origin"), "");
}
