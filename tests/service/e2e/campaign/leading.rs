//! Election of candidates, and the requests of a leader.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    CampaignRequest, ListSessionsRequest, admin_service_client::AdminServiceClient,
    campaign_request::Request,
};
use leasehold_tests::{
    Coordinator, FaultProxy, RawSession, RedisServer,
    raw::{PROMPT, connect, parse, wire},
};

use super::{LONG, assert_nothing_left, candidate::Candidate, leader, look};

const ELECTION: &str = "election";
/// A hand-off that waits for nothing takes milliseconds; the least that could be waited for is a second.
const AT_ONCE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn without_a_leader_a_candidate_is_elected_at_once() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let mut candidate = Candidate::campaign(&endpoint, ELECTION, LONG).await;
    let campaigning = candidate.campaigning().await;
    assert_eq!(campaigning.position, 0);
    assert_eq!(campaigning.ttl, wire(LONG));
    assert_eq!(campaigning.heartbeat_interval, wire(LONG / 3));
    let elected = candidate.elected(PROMPT).await;
    assert_eq!(elected.acked_heartbeat, 0);
    let valid_for = parse(elected.valid_for);
    assert!(
        valid_for < LONG && valid_for > LONG - AT_ONCE,
        "{valid_for:?}"
    );

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
async fn candidates_are_elected_in_the_order_in_which_they_came() {
    let redis = RedisServer::start();
    let coordinators = [0; 2].map(|_| Coordinator::process().store(redis.url()).start());
    let endpoints = coordinators.each_ref().map(|each| each.endpoint());
    let (mut leading, elected) = Candidate::lead(&endpoints[0], ELECTION, LONG).await;
    let mut token = elected.fencing_token;
    let mut waiting = Vec::new();
    for number in 0..6 {
        let endpoint = &endpoints[number % 2];
        let (candidate, position) = Candidate::wait(endpoint, ELECTION, LONG).await;
        assert!(position > 0);
        waiting.push(candidate);
    }
    for (number, mut next) in waiting.into_iter().enumerate() {
        // Every other one just goes.
        if number % 2 == 0 {
            leading.resign().await;
            assert!(leading.resigned().await);
        } else {
            drop(leading);
        }
        let gone = Instant::now();
        let elected = next.elected(PROMPT).await;
        assert!(gone.elapsed() < AT_ONCE, "{:?}", gone.elapsed());
        assert!(elected.fencing_token > token, "{number}");
        token = elected.fencing_token;
        leading = next;
    }
    leading.resign().await;
    assert!(leading.resigned().await);
    for coordinator in &coordinators {
        assert_nothing_left(coordinator, &redis, ELECTION, "after the last").await;
    }
}

#[tokio::test]
async fn a_candidate_and_a_lock_client_wait_for_each_other() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let mut session = RawSession::open(&endpoint, LONG).await;
    let held = session.acquire(ELECTION).await;
    let (mut candidate, position) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    assert_eq!(position, 1);
    let id = session.ask(ELECTION, None).await;
    assert_eq!(session.queued(id).await, 2);
    assert!(session.release(&held.lock).await);
    let elected = candidate.elected(PROMPT).await;
    assert!(elected.fencing_token > held.lock.fencing_token);
    candidate.resign().await;
    assert!(candidate.resigned().await);
    let granted = session.granted(id, PROMPT).await;
    assert!(granted.lock.fencing_token > elected.fencing_token);
}

#[tokio::test]
async fn a_candidate_that_resigns_while_it_waits_never_leads() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let (mut first, _) = Candidate::lead(&endpoint, ELECTION, LONG).await;
    let (mut second, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    let (mut third, position) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    assert_eq!(position, 2);
    second.resign().await;
    assert!(!second.resigned().await);
    assert_eq!(look(&endpoint, ELECTION).await.waiter_count, 1);
    first.resign().await;
    assert!(first.resigned().await);
    third.elected(PROMPT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resign_before_the_store_has_answered_is_answered_whatever_follows_it() {
    let redis = RedisServer::start();
    let store = FaultProxy::start(redis.address()).await;
    let coordinator = Coordinator::process()
        .store(redis.url_through(store.address()))
        .start();
    let endpoint = coordinator.endpoint();
    // Everything that is said is read long before Redis answers anything.
    store.set_delay(Duration::from_millis(50));
    // Where nobody leads: it was elected, if only for the store.
    let mut alone = Candidate::campaign(&endpoint, ELECTION, LONG).await;
    alone.resign().await;
    // What it has to say is said: the end of its side changes nothing.
    alone.half_close();
    assert_eq!(alone.campaigning().await.position, 0);
    assert!(alone.resigned().await, "not told that it was elected");
    assert_eq!(leader(&endpoint, ELECTION).await, None);

    let (mut leading, _) = Candidate::lead(&endpoint, ELECTION, LONG).await;
    let mut waiting = Candidate::campaign(&endpoint, ELECTION, LONG).await;
    waiting.resign().await;
    waiting.half_close();
    assert_eq!(waiting.campaigning().await.position, 1);
    assert!(!waiting.resigned().await);
    assert_eq!(look(&endpoint, ELECTION).await.waiter_count, 0);

    leading.proclaim(b"last words").await;
    leading.resign().await;
    leading.half_close();
    leading.assert_proclaimed().await;
    assert!(leading.resigned().await);
    assert_nothing_left(&coordinator, &redis, ELECTION, "after all of them").await;
}

#[tokio::test]
async fn proclaimed_values_are_seen_in_order() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let (mut leading, elected) = Candidate::lead(&endpoint, ELECTION, LONG).await;
    // Answered one by one, a bad one in its place, however many are under way.
    for number in 0..200_u32 {
        match number {
            100 => leading.proclaim(&[7; 4_097]).await,
            _ => leading.proclaim(&number.to_be_bytes()).await,
        }
    }
    for number in 0..200 {
        match number {
            100 => {
                let failure = leading.failure().await;
                assert_eq!(failure.reason, "INVALID_FIELD");
                assert_eq!(failure.field_violations[0].field, "proclaim.value");
            }
            _ => leading.assert_proclaimed().await,
        }
    }
    let seen = leader(&endpoint, ELECTION).await.unwrap();
    assert_eq!(seen.value, 199_u32.to_be_bytes());
    assert_eq!(seen.fencing_token, elected.fencing_token);
    let largest = vec![b'v'; 4_096];
    leading.proclaim(&largest).await;
    leading.assert_proclaimed().await;
    assert_eq!(leader(&endpoint, ELECTION).await.unwrap().value, largest);

    // Somebody who waits has nothing to say.
    let (mut waiting, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    waiting.proclaim(b"usurper").await;
    let failure = waiting.failure().await;
    assert_eq!((failure.code, &failure.reason[..]), (9, "NOT_LEADER"));
    assert_eq!(leader(&endpoint, ELECTION).await.unwrap().value, largest);
    // Its candidacy is as it was. The last value is the old leader's, until the new one's comes.
    leading.proclaim(b"last").await;
    leading.resign().await;
    leading.assert_proclaimed().await;
    assert!(leading.resigned().await);
    waiting.elected(PROMPT).await;
    assert_eq!(leader(&endpoint, ELECTION).await.unwrap().value, b"first");
}

#[tokio::test]
async fn invalid_requests_are_refused_and_the_candidacy_goes_on() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let (mut leading, _) = Candidate::lead(&endpoint, ELECTION, LONG).await;
    leading.say(Request::Campaign(Default::default())).await;
    assert_eq!(leading.failure().await.reason, "ALREADY_OPEN");
    leading.say_raw(CampaignRequest { request: None }).await;
    assert_eq!(leading.failure().await.reason, "UNKNOWN_REQUEST");
    leading.assert_alive().await;
    let again = leasehold_proto::v1::SessionHeartbeat { sequence: 1 };
    leading.say(Request::Heartbeat(again)).await;
    let failure = leading.failure().await;
    assert_eq!(failure.field_violations[0].field, "heartbeat.sequence");
    leading.proclaim(b"still here").await;
    leading.assert_proclaimed().await;
    leading.resign().await;
    assert!(leading.resigned().await);
}

#[tokio::test]
async fn a_hundred_elections_at_once_have_a_leader_each() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let channel = connect(&endpoint).await;
    let mut candidates = Vec::new();
    for number in 0..100 {
        let mut candidate = Candidate::stream(channel.clone()).await.unwrap();
        candidate
            .say(Request::Campaign(leasehold_proto::v1::CampaignOpen {
                election: format!("{ELECTION}/{number}"),
                ..Default::default()
            }))
            .await;
        candidates.push(candidate);
    }
    for mut candidate in candidates {
        assert_eq!(candidate.campaigning().await.position, 0);
        candidate.elected(PROMPT).await;
    }
}
