//! Requests of browsers: origins, preflights, and gRPC-Web.

use leasehold_proto::v1::{AcquireOutcome, AcquireRequest, AcquireResponse};
use leasehold_server::access::tokens::new_token;
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
    let ask = async |request: &str, host: &str, rest: &str| {
        status(http.address(), request, host, rest).await
    };
    let get = format!("GET {GET_LOCK}?encoding=json&message=%7B%22name%22:%22a%22%7D");
    // A browser names no origin with a GET to what it takes for the page's own server.
    assert_eq!(ask(&get, "evil.example", "\r\n").await, 403);
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        assert_eq!(ask(&get, host, "\r\n").await, 200, "{host}");
    }
    // Nobody looks at a token here.
    let token = |token: &str| format!("authorization: Bearer {token}\r\n\r\n");
    assert_eq!(ask(&get, "evil.example", &token("abc")).await, 403);
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

    // No page knows a token of a coordinator that asks for one.
    let made = new_token("mine").unwrap();
    let (known, line) = made.trim_end().split_once('\n').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (tokens, rules) = (folder.path().join("tokens"), folder.path().join("rules"));
    std::fs::write(&tokens, line).unwrap();
    let rule =
        "[[permission]]\nidentities = [\"token:*\"]\nallow = [\"inspect\"]\nlocks = [\"\"]\n";
    std::fs::write(&rules, rule).unwrap();
    let [tokens, rules] = [&tokens, &rules].map(|path| path.to_str().unwrap());
    let flags = ["--token-file", tokens, "--config", rules];
    let asking = Coordinator::in_process_with(flags);
    let http = Http::of(&asking, Version::One);
    for (rest, expected) in [
        (token(known), 200),
        (token("abc"), 401),
        ("\r\n".into(), 403),
    ] {
        let answer = status(http.address(), &get, "locks.example", &rest).await;
        assert_eq!(answer, expected, "{rest}");
    }
}

/// Prometheus calls by any name of the coordinator's machine or pod; browsers by those that nobody can point elsewhere.
#[tokio::test]
async fn such_a_page_reads_nothing_of_the_admin_port() {
    let flags = ["--cors-origins", "http://own.example:7421"];
    let coordinator = Coordinator::in_process_with(flags);
    coordinator.ready().await;
    let admin = coordinator.admin_endpoint();
    let address = admin.trim_start_matches("http://");
    let browser = "accept-language: en\r\n\r\n";
    for path in [
        "/metrics",
        "/readyz",
        "/livez",
        "/openapi.json",
        "/page/",
        "/page/none",
    ] {
        let get = format!("GET {path}");
        let found = if path == "/page/none" { 404 } else { 200 };
        for (host, rest, expected) in [
            ("evil.example", browser, 403),
            ("evil.example", "\r\n", found),
            ("own.example", browser, found),
            ("localhost", browser, found),
            ("127.0.0.1", browser, found),
            ("[::1]", browser, found),
        ] {
            let answer = status(address, &get, host, rest).await;
            assert_eq!(answer, expected, "{path} of {host}");
        }
    }
}

/// Returns the status of the answer to a request, made of its beginning and the rest of its head, that calls the port of this address on
/// another host.
async fn status(address: &str, request: &str, host: &str, rest: &str) -> u16 {
    let port = address.rsplit_once(':').unwrap().1;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("{request} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n{rest}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap_or_default();
    status.parse().unwrap()
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
