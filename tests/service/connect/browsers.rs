//! Requests of browsers: origins, preflights, and gRPC-Web.

use leasehold_proto::v1::{AcquireOutcome, AcquireRequest, AcquireResponse};
use leasehold_tests::{
    Coordinator,
    http::{ACQUIRE, Answer, BOTH, GET_LOCK, Http, JSON, Version, frames},
};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PAGE: (&str, &str) = ("origin", "https://app.example");

async fn preflight(http: &Http, origin: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type",
        ),
    ];
    http.bare("OPTIONS", ACQUIRE, &headers).await
}

#[tokio::test]
async fn web_pages_may_not_call_by_default() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let answer = http.post(ACQUIRE, &[JSON, PAGE], r#"{"name":"a"}"#).await;
        assert_eq!(answer.status, 403);
        assert_eq!(answer.json()["code"], "permission_denied");
        let answer = preflight(&http, PAGE.1).await;
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
}

#[tokio::test]
async fn web_pages_of_the_configured_origins_may_call() {
    let flags = [
        "--cors-origins",
        "https://app.example,http://localhost:3000",
    ];
    let coordinator = Coordinator::in_process_with(flags);
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let answer = preflight(&http, PAGE.1).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), PAGE.1);
        let headers = answer.header("access-control-allow-headers");
        assert!(headers.contains("authorization"), "{headers}");
        let answer = http.post(ACQUIRE, &[JSON, PAGE], r#"{"name":"a"}"#).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), PAGE.1);
        assert_eq!(answer.header("access-control-expose-headers"), "*");

        let answer = preflight(&http, "https://other.example").await;
        assert_eq!(answer.header("access-control-allow-origin"), "");
        let other = ("origin", "https://other.example");
        let answer = http.post(ACQUIRE, &[JSON, other], r#"{"name":"a"}"#).await;
        assert_eq!(answer.status, 403);
    }
}

#[tokio::test]
async fn the_live_page_may_call() {
    let call = async |coordinator: &Coordinator, version, origin: &str| {
        let http = Http::of(coordinator, version);
        let preflight = preflight(&http, origin).await;
        let page = ("origin", origin);
        let answer = http.post(ACQUIRE, &[JSON, page], r#"{"name":"a"}"#).await;
        assert_eq!(
            preflight.header("access-control-allow-origin") == origin,
            answer.status == 200
        );
        answer.status
    };
    let coordinator = Coordinator::in_process();
    let without_page = Coordinator::in_process_with(["--page=false"]);
    for version in BOTH {
        let page = coordinator.admin_endpoint();
        assert_eq!(call(&coordinator, version, &page).await, 200);
        // That of another coordinator on the same host.
        assert_eq!(call(&without_page, version, &page).await, 403);
        let page = without_page.admin_endpoint();
        assert_eq!(call(&without_page, version, &page).await, 403);
        let elsewhere = coordinator
            .admin_endpoint()
            .replace("127.0.0.1", "localhost");
        assert_eq!(call(&coordinator, version, &elsewhere).await, 403);
    }
}

#[tokio::test]
async fn a_page_whose_name_was_pointed_here_reads_nothing() {
    let coordinator = Coordinator::in_process();
    let http = Http::of(&coordinator, Version::One);
    let port = http.address().rsplit_once(':').unwrap().1;
    let ask = async |request: &str, host: &str, rest: &str| {
        let mut stream = TcpStream::connect(http.address()).await.unwrap();
        let request =
            format!("{request} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n{rest}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .parse::<u16>()
            .unwrap()
    };
    let get = format!("GET {GET_LOCK}?encoding=json&message=%7B%22name%22:%22a%22%7D");
    // A browser names no origin with a GET to what it takes for the page's own server.
    assert_eq!(ask(&get, "evil.example", "\r\n").await, 403);
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        assert_eq!(ask(&get, host, "\r\n").await, 200, "{host}");
    }
    // No page knows a token.
    let token = "authorization: Bearer abc\r\n\r\n";
    assert_eq!(ask(&get, "locks.example", token).await, 200);
    // A page that posts names its origin.
    let posts = |origin: &str| {
        format!(
            "content-type: application/json\r\n{origin}content-length: 12\r\n\r\n{{\"name\":\"a\"}}"
        )
    };
    let post = format!("POST {ACQUIRE}");
    assert_eq!(ask(&post, "locks.example", &posts("")).await, 200);
    let page = posts("origin: http://evil.example\r\n");
    assert_eq!(ask(&post, "evil.example", &page).await, 403);
}

#[tokio::test]
async fn grpc_web_is_served() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let request = |name: String| {
            let message = AcquireRequest {
                name,
                ..AcquireRequest::default()
            };
            let message = message.encode_to_vec();
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            [&[0][..], &length, &message].concat()
        };
        for content_type in ["application/grpc-web", "application/grpc-web+proto"] {
            let headers = [("content-type", content_type)];
            let name = format!("{version:?} {content_type}");
            let answer = http.post(ACQUIRE, &headers, request(name)).await;
            assert_eq!(answer.status, 200);
            let frames = frames(answer.body);
            assert_eq!((frames[0].0, frames[1].0), (0, 0x80));
            let response = AcquireResponse::decode(frames[0].1.clone()).unwrap();
            assert_eq!(response.outcome, i32::from(AcquireOutcome::Granted));
            assert!(frames[1].1.starts_with(b"grpc-status:0"), "{frames:?}");
        }
        let headers = [("content-type", "application/grpc-web")];
        let answer = http.post(ACQUIRE, &headers, request(String::new())).await;
        assert_eq!(answer.header("grpc-status"), "3");
        assert!(!answer.header("grpc-status-details-bin").is_empty());
    }
}

#[tokio::test]
async fn grpc_itself_needs_http_2() {
    let coordinator = Coordinator::in_process();
    let http = Http::of(&coordinator, Version::One);
    let headers = [("content-type", "application/grpc")];
    let answer = http.post(ACQUIRE, &headers, vec![0; 5]).await;
    assert_eq!(answer.status, 505);
}
