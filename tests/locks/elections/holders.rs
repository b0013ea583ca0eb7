//! Elections as locks of their names: the holders that count as leaders, and those that wait.

use leasehold_proto::v1::{AcquireOutcome, AcquireRequest, lock_service_client::LockServiceClient};
use leasehold_tests::{
    Site,
    raw::{self, PROMPT, release_request, wire},
    site::TTL,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_of_the_lock_leads() {
    const ELECTION: &str = "holders/lock";
    let site = Site::redis(2).await;
    let mut observer = site.observer(1, ELECTION).await;
    assert_eq!(observer.next(PROMPT).await.token(), None);
    // By a session.
    let mut session = site.session(0).await;
    let acquire = raw::with_value("a session", raw::exclusive(ELECTION));
    let id = session.ask_for(acquire).await;
    let held = session.granted(id, PROMPT).await;
    let seen = observer.next(PROMPT).await;
    assert_eq!(seen.token(), Some(held.lock.fencing_token));
    assert_eq!(seen.value(), Some(&b"a session"[..]));
    assert_eq!(site.leader(0, ELECTION).await, seen.leader);
    let mut candidate = site.candidate(1, ELECTION, b"candidate").await;
    assert_eq!(candidate.campaigning().position, 1);
    assert!(session.release(&held.lock).await);
    let term = candidate.elected(PROMPT).await;
    assert!(term.token > held.lock.fencing_token);
    observer.leads(term.token, PROMPT).await;
    assert!(candidate.resign().await);
    observer.until(PROMPT, |seen| seen.leader.is_none()).await;

    // By the unary calls.
    let mut unary = LockServiceClient::new(site.channel(0));
    let granted = unary
        .acquire(AcquireRequest {
            name: ELECTION.to_owned(),
            ttl: wire(TTL),
            value: b"a cron job".to_vec(),
            client_name: "cron".to_owned(),
            ..AcquireRequest::default()
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(granted.outcome(), AcquireOutcome::Granted);
    let seen = observer.leads(granted.fencing_token, PROMPT).await;
    let leader = seen.leader.clone().unwrap();
    assert_eq!(leader.value, b"a cron job");
    assert_eq!((&*leader.client_name, &*leader.session_id), ("cron", ""));
    assert_eq!(site.leader(1, ELECTION).await, seen.leader);
    let release = release_request(ELECTION, &granted.owner_id);
    assert!(unary.release(release).await.unwrap().into_inner().released);
    observer.until(PROMPT, |seen| seen.leader.is_none()).await;
    session.close().await;
    drop(observer);
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_the_shared_lock_does_not_lead() {
    const ELECTION: &str = "holders/shared";
    let site = Site::redis(2).await;
    let mut observer = site.observer(1, ELECTION).await;
    assert_eq!(observer.next(PROMPT).await.token(), None);
    let mut session = site.session(0).await;
    let id = session.ask_for(raw::shared(ELECTION)).await;
    let shared = session.granted(id, PROMPT).await;
    assert_eq!(site.leader(0, ELECTION).await, None);
    let mut candidate = site.candidate(1, ELECTION, b"candidate").await;
    assert_eq!(candidate.campaigning().position, 1);
    assert!(session.release(&shared.lock).await);
    let term = candidate.elected(PROMPT).await;
    // The first that the observer is told of: nobody led before.
    assert_eq!(observer.next(PROMPT).await.token(), Some(term.token));
    assert!(candidate.resign().await);
    session.close().await;
    drop(observer);
    site.nothing_is_left().await;
}
