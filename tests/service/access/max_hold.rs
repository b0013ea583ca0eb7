//! Rules that bound how long a lock may be held.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, AcquireRequest, LostReason, RenewRequest};
use leasehold_tests::raw::{each, exclusive, held_for_at_most, shared, wire};
use tonic::{Code, Status};

use super::site::{Caller, Site, TTL, missing, table};

/// The bound of the rule, longer than the TTL.
const BOUND: Duration = Duration::from_secs(3);
/// Tolerated delay on a busy machine.
const LATE: Duration = Duration::from_secs(3);

fn rules() -> String {
    table("token:mine", "acquire", "locks", "a/")
        + "max-hold = \"3s\"\n"
        + &table("token:mine", "acquire", "locks", "b/")
        + &table("token:mine", "acquire", "elections", "c")
        + "max-hold = \"3s\"\n"
        + &table("token:other", "acquire", "locks", "")
}

#[tokio::test]
async fn a_hold_ends_with_the_bound_of_its_rule_and_others_do_not() {
    let site = Site::start(&rules());
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut session = mine.session().await;
    let begun = Instant::now();
    let bounded = session.take_one(exclusive("a/1")).await;
    // A bound of its own that is longer, and one that is shorter.
    let longer = held_for_at_most(BOUND * 100, exclusive("a/2"));
    let longer = session.take_one(longer).await;
    let free = session.take_one(exclusive("b/1")).await;
    let mut waiting = other.session().await;
    let next = waiting.ask("a/1", None).await;
    waiting.queued(next).await;

    let mut lost = session.lost(BOUND + LATE).await;
    while lost.len() < 2 {
        lost.extend(session.lost(LATE).await);
    }
    assert!(begun.elapsed() >= BOUND);
    lost.sort_by(|one, other| one.name.cmp(&other.name));
    for (lost, lock) in lost.iter().zip([&bounded, &longer]) {
        assert_eq!(
            (&lost.name, lost.reason()),
            (&lock.name, LostReason::MaxHold)
        );
    }
    // Nobody asked for the bound of the first: its client may not have known of it, and hears of it first.
    waiting.granted(next, TTL + LATE).await;
    assert!(session.release(&free).await);
}

/// A bound that no rule sets for the mode of the first name, and none for the name of the second in a shared mode.
#[tokio::test]
async fn the_smallest_bound_of_several_names_in_their_own_modes_counts_for_all() {
    let site = Site::start(&rules());
    let mut session = site.newcomer("mine").await.session().await;
    let begun = Instant::now();
    let free = each([shared("b/1"), exclusive("b/2")]);
    let free = session.take(free).await;
    let bounded = each([shared("b/3"), exclusive("c")]);
    let bounded = session.take(bounded).await;
    let mut lost = session.lost(BOUND + LATE).await;
    while lost.len() < 2 {
        lost.extend(session.lost(LATE).await);
    }
    assert!(begun.elapsed() >= BOUND);
    lost.sort_by(|one, other| one.name.cmp(&other.name));
    for (lost, lock) in lost.iter().zip(&bounded) {
        assert_eq!(
            (&lost.name, lost.reason()),
            (&lock.name, LostReason::MaxHold)
        );
    }
    for lock in &free {
        assert!(session.release(lock).await);
    }
}

#[tokio::test]
async fn an_elections_term_ends_with_the_bound_of_its_rule() {
    let site = Site::start(&rules());
    let mine = site.newcomer("mine").await;
    let begun = Instant::now();
    let mut leader = mine.campaign("c").await.unwrap();
    leader.elected(LATE).await;
    let (_, reason) = leader.lost(BOUND + LATE).await;
    assert_eq!(reason, LostReason::MaxHold);
    assert!(begun.elapsed() >= BOUND);
}

/// Nobody could tell how long a hold of the unary calls was renewed for: its first TTL is its bound.
#[tokio::test]
async fn a_hold_of_the_unary_calls_lasts_for_its_ttl_which_is_at_most_the_bound() {
    let site = Site::start(&rules());
    let mine = site.newcomer("mine").await;
    for (name, is_bounded) in [("a/1", true), ("b/1", false)] {
        let request = AcquireRequest {
            name: name.to_owned(),
            ttl: wire(BOUND * 10),
            ..AcquireRequest::default()
        };
        let granted = mine.locks().acquire(mine.says(request)).await;
        let granted = granted.unwrap().into_inner();
        assert_eq!(granted.outcome(), AcquireOutcome::Granted);
        let ttl = Duration::try_from(granted.ttl.unwrap()).unwrap();
        assert_eq!(ttl <= BOUND, is_bounded, "{ttl:?}");
        let renew = RenewRequest {
            name: name.to_owned(),
            owner_id: granted.owner_id,
            ttl: None,
        };
        match mine.locks().renew(mine.says(renew)).await {
            Ok(renewed) => assert!(!is_bounded && renewed.into_inner().renewed),
            Err(refused) => {
                assert!(is_bounded);
                is_denied(&refused, name, "3s");
            }
        }
    }
}

/// Checks that the permission to acquire is missing, and that the message says this.
fn is_denied(refused: &Status, name: &str, says: &str) {
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(missing(refused), ("acquire".to_owned(), name.to_owned()));
    assert!(refused.message().contains(says), "{refused}");
}

/// Each repetition would extend it.
#[tokio::test]
async fn a_bounded_hold_of_the_unary_calls_can_not_be_repeated() {
    let site = Site::start(&rules());
    let mine = site.newcomer("mine").await;
    for (name, is_bounded) in [("a/1", true), ("b/1", false)] {
        let request = AcquireRequest {
            name: name.to_owned(),
            request_key: "a key of 18 bytes.".to_owned(),
            ..AcquireRequest::default()
        };
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
    let request = || AcquireRequest {
        name: "b/1".to_owned(),
        request_key: "a key of 18 bytes.".to_owned(),
        ..AcquireRequest::default()
    };
    let outcome = async |caller: &Caller| {
        let answer = caller.locks().acquire(caller.says(request())).await;
        answer.unwrap().into_inner().outcome()
    };
    assert_eq!(outcome(&mine).await, AcquireOutcome::Granted);
    assert_eq!(outcome(&other).await, AcquireOutcome::Busy);
    assert_eq!(outcome(&mine).await, AcquireOutcome::Granted);
}
