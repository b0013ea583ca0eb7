//! Candidacies that are refused: they end with the documented status, and leave nothing behind.

use std::time::Duration;

use leasehold_proto::v1::{
    CampaignOpen, CampaignProclaim, CampaignRequest, campaign_request::Request,
};
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    raw::{PROMPT, connect},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{LONG, assert_nothing_left, candidate::Candidate, leader, look};
use crate::e2e::bad_input::{
    assert_invalid,
    values::{bad_names, bad_ttls},
};

fn assert_refused(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!((&info.domain[..], &info.reason[..]), ("leasehold", reason));
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
    let good = CampaignOpen {
        election: "good".to_owned(),
        ..CampaignOpen::default()
    };
    let mut bad = Vec::new();
    for (what, election) in bad_names() {
        let open = CampaignOpen {
            election,
            ..CampaignOpen::default()
        };
        bad.push((what, "campaign.election", open));
    }
    for (what, ttl) in bad_ttls() {
        let open = CampaignOpen {
            ttl,
            ..good.clone()
        };
        bad.push((what, "campaign.ttl", open));
    }
    for (what, client_name) in [
        ("a client name of 257 bytes", "c".repeat(257)),
        ("a client name with a control character", "a\tb".to_owned()),
    ] {
        let open = CampaignOpen {
            client_name,
            ..good.clone()
        };
        bad.push((what, "campaign.client_name", open));
    }
    for (what, length) in [
        ("a value of 4097 bytes", 4_097),
        ("a value of 1 MiB", 1 << 20),
    ] {
        let value = vec![7; length];
        bad.push((
            what,
            "campaign.value",
            CampaignOpen {
                value,
                ..good.clone()
            },
        ));
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
    candidate.elected(PROMPT).await;
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
    let _: () = redis::cmd("LPUSH")
        .arg(&["lock:strange", "something"])
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut candidate = Candidate::campaign(&coordinator.endpoint(), "strange", LONG).await;
    let status = candidate.refused().await;
    assert_refused(&status, Code::FailedPrecondition, "KEY_NOT_A_LOCK");
    let _: () = redis::cmd("DEL")
        .arg("lock:strange")
        .query_async(&mut connection)
        .await
        .unwrap();
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
    assert!(status.get_details_error_info().is_some(), "{status:?}");
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
        assert!(
            matches!(
                answer,
                leasehold_proto::v1::campaign_response::Response::Draining(_)
            ),
            "{answer:?}"
        );
    }
    resigning.resign().await;
    assert!(resigning.resigned().await);
    let status = staying.refused().await;
    assert_refused(&status, Code::Unavailable, "DRAINING");
    assert!(coordinator.child().wait(PROMPT).await.success());
    // Its client may still believe that it leads.
    let mut connection = redis.async_connection().await;
    let left = |election: &str| {
        let mut left = redis::cmd("PTTL");
        left.arg(format!("lock:{election}"));
        left
    };
    let gone: i64 = left("drain/1").query_async(&mut connection).await.unwrap();
    assert_eq!(gone, -2);
    let kept: i64 = left("drain/2").query_async(&mut connection).await.unwrap();
    assert!(
        kept > i64::try_from((LONG - Duration::from_secs(5)).as_millis()).unwrap(),
        "{kept}"
    );
}
