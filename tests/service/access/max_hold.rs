//! Rules that bound how long a lock may be held.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, AcquireRequest, GrantedLock, LostReason};
use leasehold_tests::raw::{
    PROMPT, acquire_request, each, exclusive, held_for_at_most, renew_request, resume_hold, shared,
    wire,
};
use tonic::{Code, Status};

use super::{
    resumed::resume,
    site::{Caller, Site, TTL, missing, table},
};

/// The bound of the rule, longer than the TTL.
const BOUND: Duration = Duration::from_secs(3);

fn rules() -> String {
    table("token:mine", "acquire", "locks", "a/")
        + "max-hold = \"3s\"\n"
        + &table("token:mine", "acquire", "locks", "b/")
        + &table("token:mine", "acquire", "elections", "c")
        + "max-hold = \"3s\"\n"
        + &table("token:other", "acquire", "locks", "")
}

/// The bound of a rule for the name, also where a longer one was asked for, and of an election; the smallest of several names, each in
/// its own mode, counts for all.
#[tokio::test]
async fn a_hold_ends_with_the_bound_of_its_rule_and_others_do_not() {
    let site = Site::start(&rules());
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut session = mine.session().await;
    let begun = Instant::now();
    let mut leader = mine.campaign("c/led").await.unwrap();
    leader.elected(PROMPT).await;
    let longer = held_for_at_most(BOUND * 100, exclusive("a/2"));
    let mut bounded = Vec::new();
    for acquire in [
        exclusive("a/1"),
        longer,
        each([shared("b/3"), exclusive("c")]),
    ] {
        bounded.extend(session.take(acquire).await);
    }
    // No rule bounds these.
    let free = session.take(each([shared("b/1"), exclusive("b/2")])).await;
    let mut waiting = other.session().await;
    let next = waiting.wait_for(exclusive("a/1")).await;

    let mut lost = Vec::new();
    while lost.len() < bounded.len() {
        lost.extend(session.lost(BOUND + PROMPT).await);
    }
    assert!(begun.elapsed() >= BOUND);
    lost.sort_by(|one, other| one.name.cmp(&other.name));
    bounded.sort_by(|one, other| one.name.cmp(&other.name));
    for (lost, lock) in lost.iter().zip(&bounded) {
        let told = (&lost.name, lost.reason());
        assert_eq!(told, (&lock.name, LostReason::MaxHold));
    }
    let (at, reason) = leader.lost(PROMPT).await;
    assert_eq!(reason, LostReason::MaxHold);
    assert!(at >= begun + BOUND);
    // Nobody asked for the bound of the first: its client may not have known of it, and hears of it first.
    waiting.granted(next, TTL + PROMPT).await;
    for lock in &free {
        assert!(session.release(lock).await);
    }
}

/// Nobody could tell how long a hold of the unary calls was renewed for: its first TTL is its bound.
#[tokio::test]
async fn a_hold_of_the_unary_calls_lasts_for_its_ttl_which_is_at_most_the_bound() {
    let site = Site::start(&rules());
    let mine = site.newcomer("mine").await;
    for (name, is_bounded) in [("a/1", true), ("b/1", false)] {
        let mut request = acquire_request(name);
        request.ttl = wire(BOUND * 10);
        let granted = mine.locks().acquire(mine.says(request)).await;
        let granted = granted.unwrap().into_inner();
        assert_eq!(granted.outcome(), AcquireOutcome::Granted);
        let ttl = Duration::try_from(granted.ttl.unwrap()).unwrap();
        assert_eq!(ttl <= BOUND, is_bounded, "{ttl:?}");
        let renew = renew_request(name, &granted.owner_id);
        match mine.locks().renew(mine.says(renew)).await {
            Ok(renewed) => assert!(!is_bounded && renewed.into_inner().renewed),
            Err(refused) => {
                assert!(is_bounded);
                is_denied(&refused, name, "3s");
            }
        }
    }
}

/// On a session it lasts for no longer either; nor does one that was acquired by somebody whom no rule bounds.
#[tokio::test]
async fn a_session_that_resumes_a_hold_of_the_unary_calls_keeps_to_the_bound() {
    let site = Site::start(&rules());
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut asked = Vec::new();
    for (who, name) in [(&mine, "a/1"), (&other, "a/2"), (&mine, "b/1")] {
        let request = who.says(acquire_request(name));
        let granted = who.locks().acquire(request).await.unwrap().into_inner();
        asked.push(resume_hold(&GrantedLock {
            name: name.to_owned(),
            owner_id: granted.owner_id,
            fencing_token: granted.fencing_token,
            hold_count: 1,
            permits: 0,
        }));
    }
    let (mut session, resumed) = resume(&mine, asked).await;
    for lock in &resumed.resumed {
        let is_bounded = lock.name.starts_with("a/");
        assert_eq!(lock.ends_in.is_some(), is_bounded, "{lock:?}");
    }
    let mut lost = Vec::new();
    while lost.len() < 2 {
        lost.extend(session.lost(BOUND + PROMPT).await);
    }
    lost.sort_by(|one, other| one.name.cmp(&other.name));
    let told = lost.iter().map(|lock| (&*lock.name, lock.reason()));
    let expected = ["a/1", "a/2"].map(|name| (name, LostReason::MaxHold));
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert!(session.release(&resumed.holds()["b/1"]).await);
}

/// Checks that the permission to acquire is missing, and that the message says this.
fn is_denied(refused: &Status, name: &str, says: &str) {
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(missing(refused), ("acquire".to_owned(), name.to_owned()));
    assert!(refused.message().contains(says), "{refused}");
}

fn with_key(name: &str) -> AcquireRequest {
    let mut request = acquire_request(name);
    request.request_key = "a key of 18 bytes.".to_owned();
    request
}

/// Each repetition would extend it.
#[tokio::test]
async fn a_bounded_hold_of_the_unary_calls_can_not_be_repeated() {
    let site = Site::start(&rules());
    let mine = site.newcomer("mine").await;
    for (name, is_bounded) in [("a/1", true), ("b/1", false)] {
        let request = with_key(name);
        match mine.locks().acquire(mine.says(request)).await {
            Ok(_) => assert!(!is_bounded),
            Err(refused) => {
                assert!(is_bounded);
                is_denied(&refused, name, "request_key");
            }
        }
    }
}

/// The key is secret, but not the only secret: another caller's request with it is another request.
#[tokio::test]
async fn a_request_key_counts_for_one_identity() {
    let site = Site::start(&rules());
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let outcome = async |caller: &Caller| {
        let answer = caller.locks().acquire(caller.says(with_key("b/1"))).await;
        answer.unwrap().into_inner().outcome()
    };
    assert_eq!(outcome(&mine).await, AcquireOutcome::Granted);
    assert_eq!(outcome(&other).await, AcquireOutcome::Busy);
    assert_eq!(outcome(&mine).await, AcquireOutcome::Granted);
}
