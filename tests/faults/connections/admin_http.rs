//! The admin port, over plain sockets.

use std::{net::SocketAddr, time::Duration};

use leasehold_server::{
    Config, Liveness,
    admin_http::{AdminState, Readiness, serve},
    telemetry::Metrics,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(20);

struct Admin {
    address: SocketAddr,
    metrics: Metrics,
    liveness: Liveness,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

async fn start() -> Admin {
    start_with(LONG).await
}

/// Starts an admin port that waits this long for requests.
async fn start_with(patience: Duration) -> Admin {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = Metrics::default();
    let shutdown = CancellationToken::new();
    let liveness = Liveness::default();
    let state = AdminState {
        metrics: metrics.clone(),
        readiness: watch::channel(Readiness::ready()).1,
        liveness: liveness.clone(),
        reload: Config::default().into(),
    };
    Admin {
        address,
        metrics,
        liveness,
        serving: tokio::spawn(serve(
            listener,
            None,
            patience,
            state,
            None,
            shutdown.clone(),
        )),
        shutdown,
    }
}

impl Admin {
    /// Status line and headers, and body.
    async fn get(&self, path: &str) -> (String, String) {
        self.get_as(path, "*/*").await
    }

    /// Does the same for a caller that accepts this type.
    async fn get_as(&self, path: &str, accept: &str) -> (String, String) {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: admin\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(LONG, socket.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

#[tokio::test]
async fn a_part_that_has_ended_makes_it_unlive_and_nothing_else_does() {
    let admin = start().await;
    let stop = CancellationToken::new();
    let waits = admin
        .liveness
        .keep("waits", &stop, std::future::pending::<()>());
    tokio::spawn(waits);
    let (head, body) = admin.get("/livez").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "ok\n");
    let ends = admin.liveness.keep("contention", &stop, async {});
    tokio::spawn(ends).await.unwrap();
    let (head, body) = admin.get("/livez").await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(body, "contention has ended\n");
}

#[tokio::test]
async fn metrics_are_scraped_and_the_index_points_to_them() {
    let admin = start().await;
    let _session = admin.metrics.sessions.track();
    let (head, body) = admin.get("/metrics").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        body.contains("\n# TYPE leasehold_grants_total counter\n") && !body.contains("# EOF"),
        "{body}"
    );
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5";
    let (head, open_metrics) = admin.get_as("/metrics", prometheus).await;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(
        open_metrics.contains("\n# TYPE leasehold_grants counter\n")
            && open_metrics.ends_with("# EOF\n"),
        "{open_metrics}"
    );
    assert!(body.contains("\nleasehold_sessions 1\n"), "{body}");
    let tasks = body
        .lines()
        .find_map(|line| line.strip_prefix("leasehold_tasks "))
        .unwrap();
    assert!(tasks.parse::<u32>().unwrap() >= 1, "{tasks}");
    let (head, body) = admin.get("/").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    for path in ["/metrics", "/livez", "/readyz"] {
        assert!(body.contains(path), "{body}");
    }
    let (head, _) = admin.get("/nothing").await;
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}

#[tokio::test]
async fn a_half_sent_request_does_not_hold_up_the_shutdown() {
    let admin = start().await;
    let mut half = TcpStream::connect(admin.address).await.unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nhost:")
        .await
        .unwrap();
    admin.get("/livez").await;
    admin.shutdown.cancel();
    timeout(LONG, admin.serving).await.unwrap().unwrap();
    assert!(TcpStream::connect(admin.address).await.is_err());
}

#[tokio::test]
async fn a_request_that_is_not_complete_in_time_ends_its_connection() {
    let admin = start_with(Duration::from_millis(300)).await;
    for said in [&b"GET /livez HTTP/1.1\r\nhost:"[..], b""] {
        let mut slow = TcpStream::connect(admin.address).await.unwrap();
        slow.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        let ended = timeout(LONG / 2, slow.read_to_end(&mut answer)).await;
        assert!(ended.is_ok());
        assert!(!answer.starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    }
    let (head, _) = admin.get("/livez").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed() {
    let admin = start_with(LONG * 10).await;
    let request = b"GET /livez HTTP/1.1\r\nhost: admin\r\n\r\n";
    let mut there = Vec::new();
    for _ in 0..256 {
        let mut socket = TcpStream::connect(admin.address).await.unwrap();
        socket.write_all(request).await.unwrap();
        let mut answer = [0; 12];
        let answered = timeout(LONG, socket.read_exact(&mut answer)).await;
        answered.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        there.push(socket);
    }
    let mut one_more = TcpStream::connect(admin.address).await.unwrap();
    let mut answer = Vec::new();
    let closed = timeout(LONG, one_more.read_to_end(&mut answer)).await;
    assert!(closed.is_ok() && answer.is_empty(), "{answer:?}");
    drop(there);
    let served = timeout(LONG, async {
        loop {
            let mut socket = TcpStream::connect(admin.address).await.unwrap();
            let mut answer = [0; 12];
            // It may be refused until the end of the others was noticed.
            if socket.write_all(request).await.is_ok()
                && socket.read_exact(&mut answer).await.is_ok()
            {
                return answer;
            }
        }
    });
    assert_eq!(&served.await.unwrap(), b"HTTP/1.1 200");
}
