//! Calls whose answer is a stream.

use super::*;

#[tokio::test]
async fn streams_have_prefixes_and_end_with_their_status() {
    let events = || {
        let ready = WatchReady { lock_count: 3 };
        let ready = watch_locks_response::Response::Ready(ready);
        let ready = WatchLocksResponse {
            response: Some(ready),
        };
        grpc(&[ready.encode_to_vec(), ready.encode_to_vec()], ok())
    };
    let body = envelope::wrap(0, br#"{"prefix":"a/"}"#);
    let (asked, answered) = serve(post(WATCH, &[STREAM], body.clone()), events).await;
    assert_eq!(message::<WatchLocksRequest>(asked.unwrap()).prefix, "a/");
    assert_eq!(answered.header("content-type"), STREAM.1);
    assert_eq!(answered.header("x-leads"), "1");
    let messages = answered.messages();
    assert_eq!(messages.len(), 3);
    for (flags, message) in &messages[..2] {
        assert_eq!(*flags, 0);
        let message: Value = serde_json::from_slice(message).unwrap();
        assert_eq!(message, json!({"ready": {"lockCount": "3"}}));
    }
    let metadata = json!({"x-trails": ["2"], "x-trails-bin": ["AAE"]});
    assert_eq!(answered.end(), json!({"metadata": metadata}));

    // A refusal before the first message, whose metadata trail.
    let refused = || {
        let mut response = Status::unavailable("later").into_http();
        response
            .headers_mut()
            .insert("x-why", "that".parse().unwrap());
        response
    };
    let (_, answered) = serve(post(WATCH, &[STREAM], body), refused).await;
    assert_eq!(answered.status, StatusCode::OK);
    let expected = json!({
        "error": {"code": "unavailable", "message": "later"},
        "metadata": {"x-why": ["that"]},
    });
    assert_eq!(answered.end(), expected);
}

#[tokio::test]
async fn a_stream_of_answers_takes_one_message() {
    let one = envelope::wrap(0, b"{}");
    let two = [&*one, &*one].concat().into();
    let compressed = envelope::wrap(COMPRESSED, b"{}");
    let end = envelope::wrap(END_OF_STREAM, b"{}");
    let large = envelope::wrap(0, &vec![b' '; LIMIT + 1]);
    for (body, code, says) in [
        (Bytes::new(), "unimplemented", "none"),
        (two, "unimplemented", "more than one"),
        (one.slice(..6), "invalid_argument", "ended within"),
        (one.slice(..3), "invalid_argument", "ended within"),
        (compressed, "internal", "name no encoding"),
        (end, "invalid_argument", "flags"),
        (envelope::wrap(0, b"{"), "invalid_argument", "EOF"),
        (large, "out_of_range", "larger"),
    ] {
        let (asked, answered) = serve(post(WATCH, &[STREAM], body), granted).await;
        assert!(asked.unwrap().body.is_err());
        let error = &answered.end()["error"];
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
}
