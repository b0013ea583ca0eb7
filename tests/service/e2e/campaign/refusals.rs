//! Candidacies that are refused: they end with the documented status, and leave nothing behind.

use leasehold_proto::v1::{
    CampaignOpen, CampaignProclaim, CampaignRequest, campaign_request::Request,
    campaign_response::Response,
};
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    raw::{self, PROMPT, connect},
};
use redis::AsyncCommands;
use tonic::{Code, Status};

use super::{LONG, assert_nothing_left, candidate::Candidate, leader, look};
use crate::e2e::bad_input::{
    assert_invalid,
    values::{BAD_VALUES, bad_client_names, bad_names, bad_ttls},
};

fn assert_refused(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status:?}");
    assert_eq!(raw::reason(status), reason);
}

async fn refused(endpoint: &str, first: Option<Request>) -> Status {
    let mut candidate = Candidate::stream(connect(endpoint).await).await.unwrap();
    candidate.say_raw(CampaignRequest { request: first }).await;
    candidate.refused().await
}

#[tokio::test]
async fn campaigns_out_of_bounds_are_refused_by_field() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut bad = Vec::new();
    let mut add = |what, field, spoil: &dyn Fn(&mut CampaignOpen)| {
        let mut open = CampaignOpen {
            election: "good".to_owned(),
            ..CampaignOpen::default()
        };
        spoil(&mut open);
        bad.push((what, field, open));
    };
    for (what, name) in bad_names() {
        add(what, "campaign.election", &|it| {
            it.election.clone_from(&name)
        });
    }
    for (what, ttl) in bad_ttls() {
        add(what, "campaign.ttl", &|it| it.ttl = ttl);
    }
    for (what, name) in bad_client_names() {
        add(what, "campaign.client_name", &|it| {
            it.client_name.clone_from(&name)
        });
    }
    for (what, length) in BAD_VALUES {
        add(what, "campaign.value", &|it| it.value = vec![7; length]);
    }
    for (what, field, open) in bad {
        let status = refused(&coordinator.endpoint(), Some(Request::Campaign(open))).await;
        assert_invalid(&status, field, what);
    }
    assert_nothing_left(&coordinator, &redis, "good", "after bad campaigns").await;

    // The bounds themselves are fine.
    let endpoint = coordinator.endpoint();
    let mut candidate = Candidate::stream(connect(&endpoint).await).await.unwrap();
    let election = "n".repeat(512);
    let open = CampaignOpen {
        election: election.clone(),
        value: vec![b'v'; 4_096],
        client_name: "c".repeat(256),
        ttl: None,
    };
    candidate.say(Request::Campaign(open)).await;
    candidate.campaigning().await;
    candidate.elected().await;
    let seen = leader(&endpoint, &election).await.unwrap();
    assert_eq!(seen.value, vec![b'v'; 4_096]);
}

#[tokio::test]
async fn keys_of_ours_are_no_elections() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--key-prefix", ""])
        .start();
    let open = CampaignOpen {
        election: "lh:election".to_owned(),
        ..CampaignOpen::default()
    };
    let status = refused(&coordinator.endpoint(), Some(Request::Campaign(open))).await;
    assert_invalid(&status, "campaign.election", "a name that is a key of ours");
}

#[tokio::test]
async fn a_stream_that_does_not_begin_with_campaign_is_ended() {
    let coordinator = Coordinator::in_process_with(["--handshake-timeout", "300ms"]);
    let endpoint = coordinator.endpoint();
    let proclaim = Request::Proclaim(CampaignProclaim::default());
    for first in [None, Some(proclaim)] {
        let status = refused(&endpoint, first).await;
        assert_refused(&status, Code::FailedPrecondition, "NOT_OPEN");
        assert!(status.message().contains("`campaign`"), "{status:?}");
    }
    let mut silent = Candidate::stream(connect(&endpoint).await).await.unwrap();
    let status = silent.refused().await;
    assert_refused(&status, Code::DeadlineExceeded, "OPEN_TIMEOUT");
    assert!(status.message().contains("`campaign`"), "{status:?}");
}

#[tokio::test]
async fn candidates_count_among_the_sessions() {
    let coordinator = Coordinator::in_process_with(["--max-sessions", "2"]);
    let endpoint = coordinator.endpoint();
    let session = RawSession::open(&endpoint, LONG).await;
    let (_leading, _) = Candidate::lead(&endpoint, "limits", LONG).await;
    let mut third = Candidate::campaign(&endpoint, "limits", LONG).await;
    let status = third.refused().await;
    assert_refused(&status, Code::ResourceExhausted, "TOO_MANY_SESSIONS");
    assert_eq!(look(&endpoint, "limits").await.waiter_count, 0);
    session.close().await;
    let (_third, position) = Candidate::wait(&endpoint, "limits", LONG).await;
    assert_eq!(position, 1);
}

#[tokio::test]
async fn an_election_whose_key_is_no_lock_ends_the_campaign_with_the_reason() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut connection = redis.async_connection().await;
    let _: () = connection.lpush("lock:strange", "something").await.unwrap();
    let mut candidate = Candidate::campaign(&coordinator.endpoint(), "strange", LONG).await;
    let status = candidate.refused().await;
    assert_refused(&status, Code::FailedPrecondition, "KEY_NOT_A_LOCK");
    let _: () = connection.del("lock:strange").await.unwrap();
    assert_nothing_left(&coordinator, &redis, "strange", "after a strange key").await;
}

#[tokio::test]
async fn a_campaign_without_a_store_ends_with_the_reason_and_leaves_nothing_behind() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--store-timeout", "300ms"])
        .start();
    let endpoint = coordinator.endpoint();
    // It reaches Redis, which says nothing for now.
    redis.stop();
    let mut first = Candidate::campaign(&endpoint, "cut off", LONG).await;
    let status = first.refused().await;
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    raw::error_info(&status);
    redis.cont();
    assert_nothing_left(&coordinator, &redis, "cut off", "when Redis is back").await;
    let (mut next, _) = Candidate::lead(&endpoint, "cut off", LONG).await;

    // A resign that the store does not answer is no silent end either, and goes on in the background.
    redis.stop();
    next.resign().await;
    let status = next.refused().await;
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    redis.cont();
    assert_nothing_left(&coordinator, &redis, "cut off", "after the resign").await;
}

#[tokio::test]
async fn a_coordinator_that_goes_away_tells_its_candidates() {
    let redis = RedisServer::start();
    let mut coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--drain-timeout", "1s"])
        .start();
    let endpoint = coordinator.endpoint();
    let (mut resigning, _) = Candidate::lead(&endpoint, "drain/1", LONG).await;
    let (mut staying, _) = Candidate::lead(&endpoint, "drain/2", LONG).await;
    coordinator.terminate();
    for candidate in [&mut resigning, &mut staying] {
        let answer = candidate.answer().await;
        assert!(matches!(answer, Response::Draining(_)), "{answer:?}");
    }
    resigning.resign().await;
    assert!(resigning.resigned().await);
    let status = staying.refused().await;
    assert_refused(&status, Code::Unavailable, "DRAINING");
    assert!(coordinator.child().wait(PROMPT).await.success());
    // Its client may still believe that it leads.
    let mut connection = redis.async_connection().await;
    let gone: i64 = connection.pttl("lock:drain/1").await.unwrap();
    assert_eq!(gone, -2);
    let kept: i64 = connection.pttl("lock:drain/2").await.unwrap();
    assert!(
        kept > i64::try_from((LONG / 2).as_millis()).unwrap(),
        "{kept}"
    );
}
