//! gRPC, which passes, and gRPC-Web.

use super::*;

#[tokio::test]
async fn grpc_passes_as_it_is() {
    let headers = [
        ("content-type", "application/grpc+proto"),
        ("grpc-timeout", "1S"),
        ("accept-encoding", "gzip"),
    ];
    let mut request = post(ACQUIRE, &headers, "anything");
    *request.version_mut() = Version::HTTP_2;
    let sent = request.headers().clone();
    let (asked, answered) = serve(request, granted).await;
    let asked = asked.unwrap();
    assert_eq!(asked.headers, sent);
    assert_eq!(asked.body.unwrap(), "anything");
    assert_eq!(answered.header("content-type"), "application/grpc");
    assert!(!answered.headers.contains_key("vary"));
    assert_eq!(answered.body[0], 0);
}

#[tokio::test]
async fn requests_over_http2_that_only_look_like_grpc_are_refused() {
    for (method, content_type, status) in [
        ("DELETE", "application/grpc", 405),
        ("GET", "application/grpc+proto", 405),
        ("POST", "application/grpc+json", 415),
        ("POST", "application/grpc+protobuf", 415),
        ("POST", "application/grpc;charset=utf-8", 200),
        ("POST", "application/grpc+proto;charset=utf-8", 200),
    ] {
        let mut request = post(ACQUIRE, &[("content-type", content_type)], "");
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = method.parse().unwrap();
        let (asked, answered) = serve(request, granted).await;
        assert_eq!(answered.status, status, "{method} {content_type}");
        assert_eq!(asked.is_some(), status == 200, "{method} {content_type}");
    }
}

#[tokio::test]
async fn a_call_of_grpc_web_has_one_message() {
    let headers = [("content-type", "application/grpc-web")];
    let one = envelope::wrap(0, b"");
    for path in [ACQUIRE, WATCH] {
        for body in [Bytes::new(), [&*one, &*one].concat().into()] {
            let (asked, _) = serve(post(path, &headers, body), granted).await;
            let status = asked.unwrap().body.unwrap_err();
            assert_eq!(status.code(), Code::Unimplemented, "{path}: {status}");
        }
    }
    // A session has many.
    let mut request = post(SESSION, &headers, [&*one, &*one].concat());
    *request.version_mut() = Version::HTTP_2;
    let (asked, _) = serve(request, granted).await;
    assert_eq!(asked.unwrap().body.unwrap().len(), 10);
    // A method that does not exist is tonic's to answer.
    let (asked, _) = serve(post("/a.B/C", &headers, one), granted).await;
    assert!(asked.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_of_grpc_web_ends_at_its_time_and_in_its_protocol() {
    let service = service_fn(|_| std::future::pending::<Result<Response<Body>, Infallible>>());
    let headers = [
        ("content-type", "application/grpc-web"),
        ("grpc-timeout", "10m"),
    ];
    // Whether its request is complete or not.
    for body in [
        Body::empty(),
        Body::new(StreamBody::new(stream::pending::<
            Result<Frame<Bytes>, Status>,
        >())),
    ] {
        let request = post(ACQUIRE, &headers, "").map(|_| body);
        let begun = tokio::time::Instant::now();
        let response = layer().layer(service).oneshot(request).await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "application/grpc-web+proto"
        );
        assert_eq!(response.headers()["grpc-status"], "4");
        assert!(begun.elapsed() < Duration::from_millis(20));
    }
}
