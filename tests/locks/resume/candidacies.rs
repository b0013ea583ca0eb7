//! Elections on sessions: a candidacy is an exclusive acquire with an actor of its own, and moves with its session.

use leasehold_proto::v1::SessionAcquire;
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, by, exclusive, resume_hold, resume_wait, with_value},
    site::TTL,
};

const ELECTION: &str = "election";
/// The actor of the candidacy. The other session uses the same number, which means nothing to this one.
const ACTOR: u64 = 1;
/// The request id of a resumed place.
const WAIT: u64 = 1_000_000;

fn campaign(value: &str) -> SessionAcquire {
    by(ACTOR, with_value(value, exclusive(ELECTION)))
}

/// Checks that a session is refused at once, and not queued behind itself, if it campaigns again.
async fn is_refused_again(session: &mut RawSession, why: &str) {
    let id = session.ask_for(campaign("again")).await;
    let refused = session.refusal(id, PROMPT).await;
    assert_eq!(refused.reason, "SELF_DEADLOCK");
    assert!(refused.message.contains(why), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidacy_waits_and_leads_across_resumes_and_never_behind_itself() {
    let site = Site::redis(3).await;
    let mut observers = Vec::new();
    for at in 0..3 {
        let mut observer = site.observer(at, ELECTION).await;
        assert_eq!(observer.next(PROMPT).await.token(), None);
        observers.push(observer);
    }
    let mut former = site.session(2).await;
    let term = former.take_one(campaign("former")).await;
    let mut first = site.session(0).await;
    let id = first.ask_for(campaign("mine")).await;
    let ticket = first.ticket(id).await.ticket;
    is_refused_again(&mut first, "waits for").await;

    // Its place moves, with the actor.
    let resume = vec![resume_wait(ELECTION, &ticket, WAIT)];
    let (mut second, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    second.keep_alive(TTL / 5);
    assert_eq!(resumed.places()[ELECTION], 1);
    drop(first);
    is_refused_again(&mut second, "waits for").await;
    assert_eq!(site.view(2, ELECTION).await.waiter_count, 1);

    // Elected, it leads in one term through all coordinators.
    assert!(former.release(&term).await);
    let mut lock = second.granted(WAIT, PROMPT).await.lock;
    let token = lock.fencing_token;
    assert!(token > term.fencing_token);
    let elected_at = site.leader(0, ELECTION).await.unwrap().elected_at;
    is_refused_again(&mut second, "holds").await;
    for to in [2, 0, 1] {
        let resume = vec![resume_hold(&lock)];
        let (next, resumed) = RawSession::resume(&site.endpoint(to), TTL, resume).await;
        // The old stream stays up until then.
        let former = std::mem::replace(&mut second, next);
        drop(former);
        second.keep_alive(TTL / 5);
        lock = resumed.only_hold();
        assert_eq!(lock.fencing_token, token);
        is_refused_again(&mut second, "holds").await;
        for at in 0..3 {
            let shown = site.leader(at, ELECTION).await.unwrap();
            assert_eq!((shown.fencing_token, &*shown.value), (token, &b"mine"[..]));
            assert_eq!(shown.elected_at, elected_at);
        }
    }
    // Then it says something else.
    assert!(second.set_value(&lock, "proclaimed").await);
    for observer in &mut observers {
        let said = |seen: &leasehold_tests::raw::Seen| seen.value() == Some(b"proclaimed");
        observer.until(PROMPT, said).await;
        let terms: Vec<_> = observer
            .log()
            .iter()
            .filter_map(|seen| seen.token())
            .collect();
        assert_eq!(terms, [term.fencing_token, token, token]);
    }
    // Resigned, it may campaign again.
    assert!(second.release(&lock).await);
    let again = second.take_one(campaign("again")).await;
    assert!(again.fencing_token > token);
    second.close().await;
    former.close().await;
    drop(observers);
    site.nothing_is_left().await;
}
