//! Election of a candidate, and the end of its stream.

use leasehold_proto::v1::{
    ListSessionsRequest, admin_service_client::AdminServiceClient, campaign_response::Response,
};
use leasehold_tests::{
    Coordinator, RedisServer,
    raw::{connect, parse, wire},
};

use super::{LONG, assert_nothing_left, candidate::Candidate, leader};

const ELECTION: &str = "election";

#[tokio::test]
async fn without_a_leader_a_candidate_is_elected_at_once() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let mut candidate = Candidate::campaign(&endpoint, ELECTION, LONG).await;
    let campaigning = candidate.campaigning().await;
    assert_eq!(campaigning.position, 0);
    assert_eq!(campaigning.ttl, wire(LONG));
    assert_eq!(campaigning.heartbeat_interval, wire(LONG / 3));
    let elected = candidate.elected().await;
    assert_eq!(elected.acked_heartbeat, 0);
    let valid_for = parse(elected.valid_for);
    assert!(valid_for < LONG && valid_for > LONG / 2, "{valid_for:?}");

    let holder = leader(&endpoint, ELECTION).await.unwrap();
    assert_eq!(holder.fencing_token, elected.fencing_token);
    assert_eq!(holder.value, b"first");
    assert_eq!(holder.client_name, "candidate");
    assert_eq!(holder.session_id, campaigning.session_id);
    assert_eq!(holder.coordinator, campaigning.coordinator);

    // It is a session like any other.
    let mut admin = AdminServiceClient::new(connect(&endpoint).await);
    let sessions = admin.list_sessions(ListSessionsRequest::default()).await;
    let sessions = sessions.unwrap().into_inner().sessions;
    let [session] = &sessions[..] else {
        panic!("{sessions:?}");
    };
    assert_eq!(session.session_id, campaigning.session_id);
    assert_eq!(session.client_name, "candidate");
    assert_eq!(session.hold_count, 1);
}

#[tokio::test]
async fn a_leader_that_ends_its_side_is_followed_and_told_nothing() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let (mut leading, elected) = Candidate::lead(&endpoint, ELECTION, LONG).await;
    let (mut next, position) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    assert_eq!(position, 1);
    leading.half_close();
    leading.assert_ended().await;
    let token = next.elected().await.fencing_token;
    assert!(token > elected.fencing_token);
    // What was said is carried out, though nothing follows.
    next.proclaim(b"last words").await;
    next.resign().await;
    next.half_close();
    let answer = next.answer().await;
    assert!(matches!(answer, Response::Proclaimed(_)), "{answer:?}");
    assert!(next.resigned().await);
    assert_nothing_left(&coordinator, &redis, ELECTION, "after both").await;
}
