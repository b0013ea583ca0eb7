//! Ends of a candidacy that its client did not ask for.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    ForceReleaseRequest, LostReason, admin_service_client::AdminServiceClient,
    campaign_response::Response,
};
use leasehold_tests::{
    Coordinator, FaultProxy, RedisServer,
    proxy::Cut,
    raw::{PROMPT, connect, parse},
};
use tonic::{Code, transport::Endpoint};
use tonic_types::StatusExt;

use super::{LONG, assert_nothing_left, candidate::Candidate, leader, look};

const ELECTION: &str = "ends";
const SHORT: Duration = Duration::from_secs(1);
/// Well below what there is to wait for otherwise.
const AT_ONCE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn the_end_of_a_leaders_stream_elects_the_next_at_once() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let proxy = FaultProxy::before(&endpoint).await;
    for how in ["half-close", "drop", "end", "reset"] {
        let (mut leading, elected) = Candidate::lead(&proxy.endpoint(), ELECTION, LONG).await;
        let (mut next, position) = Candidate::wait(&endpoint, ELECTION, LONG).await;
        assert_eq!(position, 1);
        let gone = Instant::now();
        match how {
            "half-close" => {
                leading.half_close();
                // Nothing is said to somebody who asked for nothing.
                leading.assert_ended().await;
            }
            "drop" => drop(leading),
            "end" => proxy.cut(Cut::Fin).await,
            _ => proxy.cut(Cut::Rst).await,
        }
        let token = next.elected(PROMPT).await.fencing_token;
        assert!(gone.elapsed() < AT_ONCE, "{how}: {:?}", gone.elapsed());
        assert!(token > elected.fencing_token, "{how}");
        drop(next);
        assert_nothing_left(&coordinator, &redis, ELECTION, how).await;
    }
}

#[tokio::test]
async fn a_leader_whose_lock_is_forced_is_told_and_the_next_is_elected() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let (mut leading, elected) = Candidate::lead(&endpoint, ELECTION, LONG).await;
    let (mut next, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    let mut admin = AdminServiceClient::new(connect(&endpoint).await);
    let name = ELECTION.to_owned();
    let forced = admin
        .force_release(ForceReleaseRequest { name, only: None })
        .await;
    assert!(forced.unwrap().into_inner().released);
    match leading.answer().await {
        Response::Lost(lost) => assert_eq!(lost.reason(), LostReason::Forced),
        other => panic!("{other:?}"),
    }
    leading.assert_ended().await;
    let token = next.elected(PROMPT).await.fencing_token;
    assert!(token > elected.fencing_token);
    next.resign().await;
    assert!(next.resigned().await);
    assert_nothing_left(&coordinator, &redis, ELECTION, "after a force release").await;
}

#[tokio::test]
async fn a_leader_whose_key_is_gone_or_taken_is_told_by_its_next_message() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let mut connection = redis.async_connection().await;
    for (reason, proclaims) in [
        (LostReason::Deleted, true),
        (LostReason::Deleted, false),
        (LostReason::Taken, true),
        (LostReason::Taken, false),
    ] {
        let (mut leading, _) = Candidate::lead(&endpoint, ELECTION, 3 * SHORT).await;
        let mut steal = match reason {
            LostReason::Deleted => redis::cmd("DEL"),
            _ => redis::cmd("SET"),
        };
        steal.arg(format!("lock:{ELECTION}"));
        if reason == LostReason::Taken {
            steal.arg(&["a foreign client", "PX", "2000"]);
        }
        let _: redis::Value = steal.query_async(&mut connection).await.unwrap();
        let lost = if proclaims {
            // A proclaim finds that the lock is gone, and the reason follows at once.
            leading.proclaim(b"nobody hears").await;
            let failure = leading.failure().await;
            assert_eq!((failure.code, &failure.reason[..]), (10, "LOCK_LOST"));
            leading.answer().await
        } else {
            // The loss is told by the next renewal.
            loop {
                leading.beat().await;
                match leading.answer().await {
                    Response::Heartbeat(_) => tokio::time::sleep(SHORT / 20).await,
                    other => break other,
                }
            }
        };
        match lost {
            Response::Lost(lost) => assert_eq!(lost.reason(), reason),
            other => panic!("{other:?}"),
        }
        leading.assert_ended().await;
        assert_nothing_left(&coordinator, &redis, ELECTION, reason.as_str_name()).await;
    }
}

#[tokio::test]
async fn a_silent_leader_leads_until_its_last_promise_and_no_longer() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let (mut leading, elected) = Candidate::lead(&endpoint, ELECTION, SHORT).await;
    let mut until = leading.sent(0) + parse(elected.valid_for);
    let (mut next, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    // Heartbeats keep it, far beyond its TTL.
    let began = Instant::now();
    while began.elapsed() < 2 * SHORT {
        let valid_for = leading.assert_alive().await;
        until = until.max(leading.last_sent() + valid_for);
        tokio::time::sleep(SHORT / 5).await;
    }
    let elected = next.elected(2 * SHORT).await;
    let now = Instant::now();
    assert!(now >= until, "elected {:?} too early", until - now);
    assert!(now < until + SHORT, "elected {:?} late", now - until);
    assert_eq!(elected.acked_heartbeat, 0);
    // Its time in the store ran out, or its session was ended first.
    match leading.next(PROMPT).await {
        Ok(Some(Response::Lost(lost))) => {
            assert_eq!(lost.reason(), LostReason::Expired);
            leading.assert_ended().await;
        }
        Err(status) => {
            let info = status.get_details_error_info().unwrap();
            assert_eq!(info.reason, "SESSION_SILENT");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_leader_that_is_cut_off_is_followed_only_when_its_promise_has_passed() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let proxy = FaultProxy::before(&endpoint).await;
    let (leading, elected) = Candidate::lead(&proxy.endpoint(), ELECTION, 2 * SHORT).await;
    let until = leading.sent(0) + parse(elected.valid_for);
    let (mut next, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    proxy.black_hole();
    next.elected(PROMPT).await;
    let now = Instant::now();
    assert!(now >= until, "elected {:?} too early", until - now);
    assert!(now < until + SHORT, "elected {:?} late", now - until);
}

#[tokio::test]
async fn a_silent_candidate_loses_its_place() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let (_leading, _) = Candidate::lead(&endpoint, ELECTION, LONG).await;
    let (mut silent, _) = Candidate::wait(&endpoint, ELECTION, SHORT).await;
    let status = silent.refused().await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let (_next, position) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    assert_eq!(position, 1);
    assert_eq!(look(&endpoint, ELECTION).await.waiter_count, 1);
}

#[tokio::test]
async fn a_leader_that_reads_nothing_is_cut_off_and_keeps_what_it_was_promised() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process()
        .store(redis.url())
        .arguments([
            "--keepalive-interval",
            "500ms",
            "--keepalive-timeout",
            "500ms",
        ])
        .start();
    let endpoint = coordinator.endpoint();
    let channel = Endpoint::from_shared(endpoint.clone())
        .unwrap()
        .initial_stream_window_size(1024)
        .connect()
        .await
        .unwrap();
    let mut slow = Candidate::stream(channel).await.unwrap();
    slow.open(ELECTION, 3 * SHORT).await;
    slow.campaigning().await;
    let elected = slow.elected(PROMPT).await;
    let until = slow.sent(0) + parse(elected.valid_for);
    let token = elected.fencing_token;
    slow.beat_until_cut_off(3 * SHORT).await;
    if Instant::now() < until {
        let holder = leader(&endpoint, ELECTION).await.unwrap();
        assert_eq!(holder.fencing_token, token);
    }
    let (mut next, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
    next.elected(2 * PROMPT).await;
    assert!(Instant::now() >= until);
    assert!(
        coordinator
            .metrics()
            .await
            .sum("leasehold_slow_readers_total")
            >= 1.0
    );
}
