//! The listener under a real gRPC server: the knowledge of a session's handler about the end of its stream.

use std::time::Duration;

use super::support::{Client, Server, heartbeat, soon};
use leasehold_proto::v1::{AcquireRequest, SessionResponse};
use leasehold_server::{config::Config, listener::Ending};
use leasehold_tests::{
    FaultProxy,
    proxy::{Cut, Direction, Flow},
};
use tokio::{net::TcpStream, task::JoinSet};
use tonic::{Code, codegen::http};

/// Pings after 300 ms of silence, and gives up 300 ms later.
fn brisk() -> Config {
    let mut config = Config::default();
    config.keepalive_interval = Duration::from_millis(300);
    config.keepalive_timeout = Duration::from_millis(300);
    config
}

#[tokio::test]
async fn requests_carry_the_handle_of_their_connection() {
    let mut server = Server::start(&Config::default()).await;
    let first = Client::open(server.address).await;
    let one = soon(server.begun.recv()).await.unwrap().connection;
    let _second = Client::open(server.address).await;
    let two = soon(server.begun.recv()).await.unwrap().connection;
    assert_ne!(one.id(), two.id());
    assert_ne!(one.peer_addr(), two.peer_addr());
    assert_eq!(server.connections.len(), 2);
    // Another call on the first connection.
    let mut stub = first.stub.clone();
    let (_requests, outbound) = tokio::sync::mpsc::channel(1);
    stub.session(tokio_stream::wrappers::ReceiverStream::new(outbound))
        .await
        .unwrap();
    let again = soon(server.begun.recv()).await.unwrap().connection;
    assert_eq!(again.id(), one.id());
}

#[tokio::test]
async fn a_client_that_half_closes_has_ended_its_stream() {
    let mut server = Server::start(&Config::default()).await;
    let client = Client::open(server.address).await;
    drop(client.requests);
    let ended = soon(server.ended.recv()).await.unwrap();
    assert!(ended.by_peer, "{ended:?}");
    assert_eq!((ended.ending, ended.messages), (None, 1));
}

#[tokio::test]
async fn a_client_that_resets_its_stream_has_ended_it() {
    let mut server = Server::start(&Config::default()).await;
    for reason in [
        h2::Reason::CANCEL,
        h2::Reason::NO_ERROR,
        h2::Reason::INTERNAL_ERROR,
    ] {
        let socket = TcpStream::connect(server.address).await.unwrap();
        let (requests, connection) = h2::client::handshake(socket).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = http::Request::post("http://coordinator/leasehold.v1.LockService/Session")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (_response, mut stream) = requests
            .ready()
            .await
            .unwrap()
            .send_request(request, false)
            .unwrap();
        soon(server.begun.recv()).await.unwrap();
        stream.send_reset(reason);
        let ended = soon(server.ended.recv()).await.unwrap();
        assert!(ended.by_peer, "{reason:?}: {ended:?}");
        assert_eq!(ended.ending, None);
        connection.abort();
    }
}

/// A client that goes away in good order cancels its stream, says goodbye and closes, all at once: whichever of these is
/// seen first, it was the client.
#[tokio::test]
async fn a_client_that_goes_away_has_ended_its_stream() {
    let mut server = Server::start(&Config::default()).await;
    for _ in 0..40 {
        drop(Client::open(server.address).await);
        let ended = soon(server.ended.recv()).await.unwrap();
        assert!(ended.by_peer, "{ended:?}");
        let ending = soon(ended.connection.ended()).await;
        assert!(
            matches!(
                ending,
                Ending::PeerClosed | Ending::PeerReset | Ending::Finished
            ),
            "{ending:?}"
        );
    }
    soon(server.connections.drained()).await;
}

#[tokio::test]
async fn a_client_that_dies_is_seen_at_once() {
    let mut server = Server::start(&Config::default()).await;
    for (cut, ending) in [
        (Cut::Fin, Ending::PeerClosed),
        (Cut::Rst, Ending::PeerReset),
    ] {
        for _ in 0..4 {
            let proxy = FaultProxy::start(server.address).await;
            let _client = Client::open(proxy.address()).await;
            let session = soon(server.begun.recv()).await.unwrap();
            proxy.cut(cut).await;
            assert_eq!(soon(session.connection.ended()).await, ending);
            let ended = soon(server.ended.recv()).await.unwrap();
            assert!(ended.by_peer, "{ended:?}");
            assert_eq!(ended.ending, Some(ending), "{ended:?}");
        }
    }
    soon(server.connections.drained()).await;
}

#[tokio::test]
async fn a_client_that_falls_silent_has_not_ended_its_stream() {
    let mut server = Server::start(&brisk()).await;
    let proxy = FaultProxy::start(server.address).await;
    let _client = Client::open(proxy.address()).await;
    let session = soon(server.begun.recv()).await.unwrap();
    proxy.black_hole();
    assert_eq!(soon(session.connection.ended()).await, Ending::Local);
    let ended = soon(server.ended.recv()).await.unwrap();
    assert!(!ended.by_peer, "{ended:?}");
    assert_eq!(ended.ending, Some(Ending::Local));
    soon(server.connections.drained()).await;
}

#[tokio::test]
async fn an_idle_client_that_answers_pings_is_left_alone() {
    let mut server = Server::start(&brisk()).await;
    let mut client = Client::open(server.address).await;
    let session = soon(server.begun.recv()).await.unwrap();
    // Long enough for two pings to go unanswered.
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    client.hears(&session).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_can_be_cut_off() {
    let mut server = Server::start(&Config::default()).await;
    let proxy = FaultProxy::start(server.address).await;
    let client = Client::open(proxy.address()).await;
    let session = soon(server.begun.recv()).await.unwrap();
    proxy.set_flow(Direction::ToClient, Flow::Hold);
    let flood = tokio::spawn(async move {
        let message = SessionResponse {
            request_id: u64::MAX,
            ..SessionResponse::default()
        };
        while session.outbound.send(Ok(message.clone())).await.is_ok() {}
        session.connection
    });
    // It keeps talking meanwhile.
    for _ in 0..10 {
        client.requests.send(heartbeat()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.connections.kill_all();
    let ended = soon(server.ended.recv()).await.unwrap();
    assert!(!ended.by_peer, "{ended:?}");
    assert_eq!(soon(flood).await.unwrap().ending(), Some(Ending::Local));
    soon(server.connections.drained()).await;
}

#[tokio::test]
async fn garbage_on_the_stream_is_not_the_clients_end() {
    let mut server = Server::start(&Config::default()).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", server.address))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    // Text where the first field of a request is a number.
    let garbage = tokio_stream::iter(["not a request".to_owned()]);
    let answer = grpc
        .streaming(
            tonic::Request::new(garbage),
            "/leasehold.v1.LockService/Session".parse().unwrap(),
            tonic_prost::ProstCodec::<String, SessionResponse>::default(),
        )
        .await;
    let ended = soon(server.ended.recv()).await.unwrap();
    assert!(!ended.by_peer, "{ended:?}");
    assert_eq!(
        ended.status.as_ref().map(tonic::Status::code),
        Some(Code::Internal),
        "{ended:?}"
    );
    drop(answer);
}

#[tokio::test]
async fn calls_cancelled_by_the_thousand_leave_the_session_beside_them_alone() {
    let mut server = Server::start(&Config::default()).await;
    let mut client = Client::open(server.address).await;
    let session = soon(server.begun.recv()).await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let mut stub = client.stub.clone();
        calls.spawn(async move {
            for _ in 0..100 {
                let call = stub.acquire(AcquireRequest::default());
                let cancelled = tokio::time::timeout(Duration::from_micros(300), call).await;
                assert!(cancelled.is_err(), "{cancelled:?}");
            }
        });
    }
    while let Some(called) = calls.join_next().await {
        called.unwrap();
    }
    client.hears(&session).await;
}

#[tokio::test]
async fn a_shutdown_ends_idle_connections_and_a_kill_the_others() {
    let mut server = Server::start(&Config::default()).await;
    let mut idle = Client::open(server.address).await;
    let session = soon(server.begun.recv()).await.unwrap();
    drop((idle.requests, session.outbound));
    soon(server.ended.recv()).await.unwrap();
    assert!(soon(idle.responses.message()).await.unwrap().is_none());
    let mut busy = Client::open(server.address).await;
    let busy_session = soon(server.begun.recv()).await.unwrap();
    server.shutdown.cancel();
    // Asked to go, it goes: who of the two closes first is a race without consequence.
    let ending = soon(session.connection.ended()).await;
    assert!(
        matches!(ending, Ending::Finished | Ending::PeerClosed),
        "{ending:?}"
    );
    assert!(!server.serving.is_finished());
    assert_eq!(busy_session.connection.ending(), None);
    server.connections.kill_all();
    soon(server.serving).await.unwrap();
    let ended = soon(server.ended.recv()).await.unwrap();
    assert!(!ended.by_peer, "{ended:?}");
    soon(busy.responses.message()).await.unwrap_err();
}
