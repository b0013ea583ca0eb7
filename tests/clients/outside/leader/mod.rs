//! Leader on generated stubs, `tests/clients/python/leader.py`, over a restart of its coordinator and over its death.

mod program;
mod site;

use std::time::{Duration, Instant};

use leasehold_client::Client;
use leasehold_tests::{FaultProxy, proxy::Cut, wait};

use self::{
    program::{PATIENCE, Program},
    site::Site,
};
const TTL: Duration = Duration::from_secs(10);
const ELECTION: &str = "python/restarts";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_its_term_and_the_next_candidate_its_place_while_a_lone_coordinator_restarts() {
    needs!("python3");
    let mut site = Site::draining_for(1, Duration::from_millis(500));
    let endpoint = site.endpoint(0);
    let mut leader = Program::start(ELECTION, "first", TTL, &endpoint);
    let token = leader.leads().await;
    let mut next = Program::start(ELECTION, "next", TTL, &endpoint);
    assert_eq!(next.says("waiting").await, "1");
    let before = shown(&endpoint).await;
    assert_eq!(before.0, token);
    // It has nowhere to go: its coordinator ends the stream, and it resumes at the one that comes back.
    site.restart(0).await;
    let left = leader.moved().await;
    assert!(left > TTL / 2, "{left:?}");
    next.moved().await;
    assert_eq!(shown(&endpoint).await, before, "the term is another");
    leader.resign().await;
    let later = next.leads().await;
    assert!(later > token);
    next.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn says_lost_before_another_leads_when_its_coordinator_is_killed() {
    needs!("python3");
    let mut site = Site::start(2);
    let ttl = Duration::from_secs(3);
    let mut leader = Program::start(ELECTION, "old", ttl, &site.endpoint(0));
    let token = leader.leads().await;
    let next = Client::connect(site.endpoint(1)).await.unwrap();
    let election = next.election(ELECTION);
    let campaign = tokio::spawn(async move {
        let leadership = next.election(ELECTION).campaign("new").await.unwrap();
        (Instant::now(), leadership)
    });
    site.until_waiting(ELECTION, 1).await;
    wait::until("the term to outlive its TTL", PATIENCE, || async {
        let shown = election.leader().await.unwrap().unwrap();
        let age = shown.elected_at.unwrap().elapsed().unwrap();
        if age > ttl { Ok(()) } else { Err(age) }
    })
    .await;
    site.kill(0);
    let (lost_at, line) = leader.lines.next(PATIENCE).await.unwrap();
    assert_eq!(line, "lost the stream has ended");
    let (elected_at, leadership) = campaign.await.unwrap();
    assert!(lost_at < elected_at);
    assert!(leadership.fencing_token().get() > token);
    // It is a candidate again where its coordinator comes back, in a term of its own.
    site.start_again(0);
    assert_eq!(leader.says("waiting").await, "1");
    let token = leadership.fencing_token().get();
    leadership.resign().await.unwrap();
    assert!(leader.leads().await > token);
    leader.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_its_term_when_a_coordinator_without_its_store_fails_to_resume_it() {
    needs!("python3");
    let mut site = Site::draining_for(1, Duration::from_secs(2));
    let (astray, proxy) = site.behind_a_proxy().await;
    let endpoints = [site.endpoint(0), astray.endpoint()].join(",");
    let mut leader = Program::start(ELECTION, "leader", TTL, &endpoints);
    let token = leader.leads().await;
    cut_off(&proxy).await;
    let before = shown(&site.endpoint(0)).await;
    assert_eq!(before.0, token);
    site.restart(0).await;
    leader.moved().await;
    assert_eq!(
        shown(&site.endpoint(0)).await,
        before,
        "the term is another"
    );
    leader.resign().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn campaigns_again_until_the_store_serves() {
    needs!("python3");
    let site = Site::start(0);
    let (coordinator, proxy) = site.behind_a_proxy().await;
    cut_off(&proxy).await;
    let mut leader = Program::start(ELECTION, "leader", TTL, &coordinator.endpoint());
    wait::until("two campaigns", PATIENCE, || async {
        let metrics = coordinator.metrics().await;
        let campaigns = metrics.of("leasehold_session_requests_total", &["request=\"acquire\""]);
        if campaigns >= 2.0 {
            Ok(())
        } else {
            Err(campaigns)
        }
    })
    .await;
    proxy.set_refuse(false).await;
    assert!(leader.leads().await > 0);
    leader.resign().await;
}

/// Has the store of the coordinator behind a proxy go away.
async fn cut_off(proxy: &FaultProxy) {
    proxy.set_refuse(true).await;
    proxy.cut(Cut::Rst).await;
}

/// Returns the term that a coordinator shows: its token, its value, and when it began.
async fn shown(endpoint: &str) -> (i64, Vec<u8>, std::time::SystemTime) {
    let client = Client::connect(endpoint).await.unwrap();
    let leader = client.election(ELECTION).leader().await.unwrap().unwrap();
    let token = leader.fencing_token.unwrap();
    (token.get(), leader.value, leader.elected_at.unwrap())
}
