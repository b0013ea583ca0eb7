//! Calls with one message and one answer.

use super::*;

#[tokio::test]
async fn a_unary_call_in_json_is_one_of_grpc() {
    let said = r#"{"name":"demo","ttl":"10.5s","client_name":"me","mode":"LOCK_MODE_SHARED","value":"-_8"}"#;
    let headers = [JSON, ("connect-timeout-ms", "5000"), ("x-mine", "yes")];
    let (asked, answered) = serve(post(ACQUIRE, &headers, said), granted).await;
    let asked = asked.unwrap();
    assert_eq!(asked.headers["content-type"], "application/grpc");
    assert_eq!(asked.headers["te"], "trailers");
    assert_eq!(asked.headers["grpc-timeout"], "5000m");
    assert_eq!(asked.headers["x-mine"], "yes");
    let request: AcquireRequest = message(asked);
    let ttl = request.ttl.unwrap();
    assert_eq!((ttl.seconds, ttl.nanos), (10, 500_000_000));
    assert_eq!((&*request.name, &*request.client_name), ("demo", "me"));
    assert_eq!(request.mode, i32::from(LockMode::Shared));
    assert_eq!(request.value, [0xfb, 0xff]);

    assert_eq!(answered.status, StatusCode::OK);
    assert_eq!(answered.header("content-type"), "application/json");
    assert_eq!(answered.header("x-leads"), "1");
    assert_eq!(answered.header("trailer-x-trails"), "2");
    assert_eq!(answered.header("trailer-x-trails-bin"), "AAE");
    let mut names = answered.headers.keys();
    assert!(names.all(|name| !name.as_str().contains("grpc")));
    let expected = json!({
        "outcome": "ACQUIRE_OUTCOME_GRANTED",
        "ownerId": "+/8=",
        "fencingToken": "1152921504606846976",
    });
    assert_eq!(answered.json(), expected);
}

#[tokio::test]
async fn a_unary_call_in_binary_is_one_of_grpc() {
    let request = AcquireRequest {
        name: "demo".to_owned(),
        ..AcquireRequest::default()
    };
    let (asked, answered) = serve(post(ACQUIRE, &[PROTO], request.encode_to_vec()), granted).await;
    assert_eq!(message::<AcquireRequest>(asked.unwrap()), request);
    assert_eq!(answered.header("content-type"), "application/proto");
    let response = AcquireResponse::decode(answered.body).unwrap();
    assert_eq!(response.fencing_token, 1 << 60);
    // No bytes are an empty message.
    let (asked, _) = serve(post(ACQUIRE, &[PROTO], ""), granted).await;
    let asked: AcquireRequest = message(asked.unwrap());
    assert_eq!(asked, AcquireRequest::default());
}

#[tokio::test]
async fn fields_of_maps_and_other_objects_may_have_equal_names() {
    // Each list item is an object of its own, as is each value of a map.
    let said =
        r#"{"open":{"metadata":{"open":"a","metadata":"b"},"resume":[{"name":"a"},{"name":"a"}]}}"#;
    let body = envelope::wrap(0, said.as_bytes());
    let mut request = post(SESSION, &[STREAM], body);
    *request.version_mut() = Version::HTTP_2;
    let (asked, _) = serve(request, || grpc(&[], ok())).await;
    let request: leasehold_proto::v1::SessionRequest = message(asked.unwrap());
    let Some(leasehold_proto::v1::session_request::Request::Open(open)) = request.request else {
        return assert!(request.request.is_some(), "it opens");
    };
    assert_eq!((open.metadata.len(), open.resume.len()), (2, 2));
}

#[tokio::test]
async fn errors_have_their_code_status_message_and_details() {
    let refusal = Refusal::over(
        Reason::RateLimited,
        ("max-requests-per-second", 5),
        Some(Duration::from_millis(1500)),
        "too many: 100 %",
    );
    let fails = move || Status::from(refusal).into_http();
    let (_, answered) = serve(post(ACQUIRE, &[PROTO], ""), fails).await;
    assert_eq!(answered.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answered.header("content-type"), "application/json");
    let error = answered.json();
    assert_eq!(error["code"], "resource_exhausted");
    assert_eq!(error["message"], "too many: 100 %");
    let details = error["details"].as_array().unwrap();
    let types: Vec<_> = details.iter().map(|detail| &detail["type"]).collect();
    assert_eq!(types, ["google.rpc.RetryInfo", "google.rpc.ErrorInfo"]);
    assert_eq!(details[0]["debug"], json!({"retryDelay": "1.500s"}));
    assert_eq!(details[1]["debug"]["domain"], "leasehold");
    let value = details[0]["value"].as_str().unwrap();
    assert!(!value.contains('='), "{value} has no padding");

    // Within trailers, after data.
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "5".parse().unwrap());
    trailers.insert("grpc-message", "no%20lock".parse().unwrap());
    trailers.insert("x-why", "that".parse().unwrap());
    let (_, answered) = serve(post(ACQUIRE, &[JSON], "{}"), move || grpc(&[], trailers)).await;
    assert_eq!(answered.status, StatusCode::NOT_FOUND);
    assert_eq!(answered.header("trailer-x-why"), "that");
    let expected = json!({"code": "not_found", "message": "no lock"});
    assert_eq!(answered.json(), expected);

    // Answers that are not gRPC's.
    for answer in [
        || grpc(&[], ok()),
        || grpc(&[vec![], vec![]], ok()),
        || grpc(&[vec![]], HeaderMap::new()),
        || grpc(&[vec![0xff; 9]], ok()),
    ] {
        let (_, answered) = serve(post(ACQUIRE, &[JSON], "{}"), answer).await;
        assert_eq!(answered.json()["code"], "internal");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_time() {
    let headers = [JSON, ("connect-timeout-ms", "10")];
    let service = service_fn(|_| std::future::pending::<Result<Response<Body>, Infallible>>());
    let service = layer().layer(service);
    let call = service.clone().oneshot(post(ACQUIRE, &headers, "{}"));
    assert_eq!(call.await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    let headers = [STREAM, ("connect-timeout-ms", "10")];
    let body = envelope::wrap(0, b"{}");
    let call = service.oneshot(post(WATCH, &headers, body.clone()));
    assert_eq!(call.await.unwrap().status(), StatusCode::OK);
    // A stream that has begun ends too.
    let endless = service_fn(|_| async {
        let message = envelope::wrap(0, &WatchLocksResponse::default().encode_to_vec());
        let frames = stream::iter([Ok::<_, Status>(Frame::data(message))]);
        let body = StreamBody::new(frames.chain(stream::pending()));
        Ok::<_, Infallible>(Response::new(Body::new(body)))
    });
    let request = post(WATCH, &headers, body);
    let response = layer().layer(endless).oneshot(request).await.unwrap();
    let answered = Answered {
        status: response.status(),
        headers: HeaderMap::new(),
        body: response.into_body().collect().await.unwrap().to_bytes(),
    };
    assert_eq!(answered.messages()[0], (0, Bytes::from_static(b"{}")));
    assert_eq!(answered.end()["error"]["code"], "deadline_exceeded");
}

#[tokio::test]
async fn methods_without_side_effects_are_called_by_get() {
    let lock = || grpc(&[vec![]], ok());
    for query in [
        "encoding=json&message=%7B%22name%22%3A%22a%22%7D",
        "connect=v1&base64=1&encoding=proto&message=CgFh&other=1",
        "message=eyJuYW1lIjoiYSJ9&base64=1&encoding=json",
    ] {
        let (asked, answered) = serve(get(GET_LOCK, query), lock).await;
        let asked: GetLockRequest = message(asked.unwrap());
        assert_eq!(asked.name, "a", "{query}");
        assert_eq!(answered.status, StatusCode::OK);
        assert_eq!(answered.header("cache-control"), "no-store");
        let mut vary = answered.headers.get_all("vary").iter();
        assert!(vary.any(|value| value == "accept-encoding"));
    }
    let (invalid, unknown) = ("invalid_argument", "unimplemented");
    for (query, code) in [
        ("encoding=json", invalid),
        ("message=%7B%7D", invalid),
        ("encoding=json&message=%7B%7D&connect=v2", invalid),
        ("encoding=json&message=*&base64=1", invalid),
        ("encoding=json&message=%7B%7D&compression=br", unknown),
        ("encoding=json&message=", invalid),
    ] {
        let (_, answered) = serve(get(GET_LOCK, query), lock).await;
        assert_eq!(answered.json()["code"], code, "{query}");
        assert_eq!(answered.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn messages_are_compressed_both_ways() {
    let name = "n".repeat(400);
    let said = format!(r#"{{"name":"{name}"}}"#);
    let packed = Encoding::Gzip.encode(said.as_bytes()).unwrap();
    let large = || {
        let message = AcquireResponse {
            owner_id: vec![7; 1000],
            ..AcquireResponse::default()
        };
        grpc(&[message.encode_to_vec()], ok())
    };
    // A client that says nothing of answers accepts what it sends.
    let headers = [JSON, ("content-encoding", "gzip")];
    let (asked, answered) = serve(post(ACQUIRE, &headers, packed.clone()), large).await;
    assert_eq!(message::<AcquireRequest>(asked.unwrap()).name, name);
    assert_eq!(answered.header("content-encoding"), "gzip");
    let plain = Encoding::Gzip.decode(answered.body, LIMIT).unwrap();
    assert!(plain.starts_with(b"{\"ownerId\":\"Bwc"));
    let headers = [
        JSON,
        ("content-encoding", "gzip"),
        ("accept-encoding", "br"),
    ];
    let (_, answered) = serve(post(ACQUIRE, &headers, packed.clone()), large).await;
    assert_eq!(answered.header("content-encoding"), "");
    assert!(answered.body.starts_with(b"{"));

    // In a stream, each message by itself.
    let said = format!(r#"{{"prefix":"{name}"}}"#);
    let packed = Encoding::Gzip.encode(said.as_bytes()).unwrap();
    let gap = || {
        let message = "g".repeat(1000);
        let gap = leasehold_proto::v1::WatchGap { message };
        let gap = WatchLocksResponse {
            response: Some(watch_locks_response::Response::Gap(gap)),
        };
        grpc(&[gap.encode_to_vec(), vec![]], ok())
    };
    let headers = [STREAM, ("connect-content-encoding", "gzip")];
    let body = envelope::wrap(COMPRESSED, &packed);
    let (asked, answered) = serve(post(WATCH, &headers, body), gap).await;
    assert_eq!(message::<WatchLocksRequest>(asked.unwrap()).prefix, name);
    assert_eq!(answered.header("connect-content-encoding"), "gzip");
    let messages = answered.messages();
    let flags: Vec<_> = messages.iter().map(|(flags, _)| *flags).collect();
    assert_eq!(flags, [COMPRESSED, 0, END_OF_STREAM]);
    let gap = Encoding::Gzip.decode(messages[0].1.clone(), LIMIT).unwrap();
    assert!(gap.starts_with(b"{\"gap\""));
}

#[tokio::test]
async fn messages_are_bounded_as_sent_and_decompressed() {
    let fits = format!("{{{}}}", " ".repeat(LIMIT - 2));
    let (asked, _) = serve(post(ACQUIRE, &[JSON], fits.clone()), granted).await;
    assert!(asked.unwrap().body.is_ok());
    let headers = [JSON, ("content-encoding", "gzip")];
    let packed = Encoding::Gzip.encode(fits.as_bytes()).unwrap();
    let (asked, _) = serve(post(ACQUIRE, &headers, packed), granted).await;
    assert!(asked.unwrap().body.is_ok());

    let bomb = Encoding::Gzip.encode(&vec![b' '; 1 << 20]).unwrap();
    assert!(bomb.len() < LIMIT);
    for (headers, body) in [
        (&[JSON][..], Bytes::from(format!(" {fits}"))),
        (&[PROTO], vec![0; LIMIT + 1].into()),
        (&headers, bomb),
    ] {
        let (asked, answered) = serve(post(ACQUIRE, headers, body), granted).await;
        assert!(asked.unwrap().body.is_err());
        // As tonic's own of a gRPC message that is too large, for which the layers behind have words.
        assert_eq!(answered.json()["code"], "out_of_range");
    }
}
