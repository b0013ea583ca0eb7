//! Calls that their client never sends to the end.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{RenewRequest, WatchLocksRequest};
use leasehold_tests::{
    Coordinator, RawSession,
    raw::{PROMPT, connect},
    raw_bytes::RawBytes,
};
use prost::Message;
use tokio_stream::StreamExt;
use tonic::{
    Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(60);
/// Time within which the message of a call must be complete.
const PATIENCE: Duration = Duration::from_millis(700);

/// Returns the status of a call whose client sends these bytes and then goes on as if it were to send more.
async fn end(channel: Channel, path: &'static str, says: Option<Vec<u8>>) -> Status {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let unfinished = tokio_stream::iter(says).chain(tokio_stream::pending());
    let path = PathAndQuery::from_static(path);
    let ended = async {
        let answered = grpc.streaming(Request::new(unfinished), path, RawBytes);
        let mut answers = match answered.await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return status,
        };
        match answers.message().await {
            Err(status) => status,
            Ok(answer) => panic!("answered with {answer:?}"),
        }
    };
    let ended = tokio::time::timeout(PROMPT, ended).await;
    ended.expect("it is ended")
}

#[tokio::test]
async fn a_call_that_is_not_complete_in_time_is_ended() {
    let patience = format!("{}ms", PATIENCE.as_millis());
    let coordinator = Coordinator::in_process_with(["--handshake-timeout", &patience]);
    let channel = connect(&coordinator.endpoint()).await;
    let mut session = RawSession::open_on(channel.clone(), TTL).await;
    let renew = RenewRequest {
        name: "a".to_owned(),
        owner_id: vec![7; 16],
        ttl: None,
    };
    let renew = renew.encode_to_vec();
    let watch = WatchLocksRequest::default().encode_to_vec();
    for (path, says) in [
        ("/leasehold.v1.LockService/Renew", None),
        // Its end is missing.
        ("/leasehold.v1.LockService/Renew", Some(renew)),
        ("/leasehold.v1.AdminService/WatchLocks", None),
        ("/leasehold.v1.AdminService/WatchLocks", Some(watch)),
        ("/grpc.health.v1.Health/Check", None),
    ] {
        let begun = Instant::now();
        let status = end(channel.clone(), path, says).await;
        assert_eq!(status.code(), Code::DeadlineExceeded, "{path}: {status:?}");
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, "REQUEST_TIMEOUT", "{path}");
        assert!(begun.elapsed() >= PATIENCE, "{path}");
    }
    // A stream on which its client goes on speaking has no such end.
    let held = session.acquire("held").await;
    assert!(session.release(&held.lock).await);
    session.close().await;
}
