//! Identities that lose a permission while they hold, and while they wait.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, LostReason};
use leasehold_tests::raw::{PROMPT, acquire_request, by, several, shared, wire};
use tonic::Code;

use super::site::{Site, TTL, missing, table};

fn rules(mine: &[&str]) -> String {
    let mine = mine
        .iter()
        .map(|prefix| table("token:mine", "acquire", "locks", prefix));
    mine.collect::<String>() + &table("token:other", "acquire", "locks", "")
}

#[tokio::test]
async fn a_hold_is_told_lost_and_left_for_as_long_as_was_promised() {
    let mut site = Site::start(&rules(&["a/", "b/"]));
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut session = mine.session().await;
    let lost = session.acquire("a/1").await;
    let kept = session.acquire("b/1").await;
    let mut waiting = other.session().await;
    let (next, never) = (
        waiting.ask("a/1", None).await,
        waiting.ask("b/1", None).await,
    );
    waiting.queued(next).await;
    waiting.queued(never).await;

    // A renewal after this one would have it last longer.
    let promised = session.heartbeat().await;
    site.permit(&rules(&["b/"]));
    let told = session.lost(PROMPT).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].reason(), LostReason::PermissionRevoked);
    assert_eq!(
        (&told[0].name, &told[0].owner_id),
        (&lost.lock.name, &lost.lock.owner_id)
    );

    let granted = waiting.granted(next, TTL + PROMPT).await;
    let at = Instant::now();
    assert!(at >= promised, "{:?} early", promised - at);
    assert!(granted.lock.fencing_token > lost.lock.fencing_token);
    // What it may hold still goes on, for longer than anything was promised by then.
    tokio::time::sleep_until((promised + TTL).into()).await;
    assert!(session.unread_unasked().is_empty());
    assert!(session.release(&kept.lock).await);
    waiting.granted(never, PROMPT).await;
    // It is gone, and nothing gets it back but the permission.
    let refused = session.ask("a/1", Some(Duration::ZERO)).await;
    assert_eq!(
        session.refusal(refused, PROMPT).await.reason,
        "PERMISSION_DENIED"
    );
}

#[tokio::test]
async fn a_wait_that_ends_tells_of_the_holder_by_what_may_be_seen_then() {
    let inspect = table("token:mine", "inspect", "locks", "");
    let mut site = Site::start(&(rules(&["a/"]) + &inspect));
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut holder = other.session().await;
    holder.acquire("a/1").await;
    let ask = |wait: Duration| {
        let (mut caller, mine) = (mine.locks(), mine.clone());
        async move {
            let mut request = acquire_request("a/1");
            request.wait = wire(wait);
            caller
                .acquire(mine.says(request))
                .await
                .unwrap()
                .into_inner()
        }
    };
    assert!(ask(Duration::from_millis(1)).await.holder.is_some());
    let waiting = tokio::spawn(ask(Duration::from_secs(2)));
    // A session in line behind it shows that it waits.
    let mut behind = other.session().await;
    loop {
        let id = behind.ask("a/1", None).await;
        if behind.queued(id).await > 1 {
            break;
        }
        behind.cancel(id).await;
        behind.not_granted(id, PROMPT).await;
    }
    site.permit(&rules(&["a/"]));
    let answer = waiting.await.unwrap();
    assert_eq!(answer.outcome(), AcquireOutcome::TimedOut);
    assert_eq!(answer.holder, None);
}

#[tokio::test]
async fn waits_end_and_give_their_places_up() {
    let mut site = Site::start(&rules(&["a/"]));
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut holder = other.session().await;
    let held = holder.acquire("a/1").await;
    let mut session = mine.session().await;
    let plain = session.ask("a/1", None).await;
    session.queued(plain).await;
    let actors = session.wait_for(by(7, shared("a/1"))).await;
    let both = session.wait_for(several(["a/1", "a/2"])).await;
    let mut caller = mine.locks();
    let mut request = acquire_request("a/1");
    request.wait = wire(Duration::from_secs(60));
    let request = mine.says(request);
    let unary = tokio::spawn(async move { caller.acquire(request).await });
    let mut behind = other.session().await;
    let last = behind.ask("a/1", None).await;
    behind.queued(last).await;

    site.permit(&rules(&["other/"]));
    for waiting in [plain, actors, both] {
        let refused = session.refusal(waiting, PROMPT).await;
        assert_eq!(refused.reason, "PERMISSION_DENIED");
        assert_eq!(refused.code, Code::PermissionDenied as i32);
        assert_eq!(refused.metadata["permission"], "acquire");
        assert_eq!(refused.metadata["name"], "a/1");
    }
    let unary = tokio::time::timeout(PROMPT, unary).await.unwrap().unwrap();
    let on = ("acquire".to_owned(), "a/1".to_owned());
    assert_eq!(missing(&unary.unwrap_err()), on);
    // Nobody is in front any more.
    assert!(holder.release(&held.lock).await);
    behind.granted(last, PROMPT).await;
}

#[tokio::test]
async fn a_leader_steps_down_and_candidates_give_up() {
    let election = |who: &str| table(who, "acquire", "elections", "e");
    let both = election("token:mine") + &election("token:other");
    let mut site = Site::start(&both);
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut leader = mine.campaign("e").await.unwrap();
    let term = leader.elected(PROMPT).await;
    let mut next = other.campaign("e").await.unwrap();
    let mut third = mine.campaign("e").await.unwrap();
    // As much as it can have heard of.
    let promised = Instant::now().max(leader.good_until().unwrap_or(term.at));

    // By the lock of that name it may not campaign.
    site.permit(&(election("token:other") + &table("token:mine", "acquire", "locks", "e")));
    let (_, reason) = leader.lost(PROMPT).await;
    assert_eq!(reason, LostReason::PermissionRevoked);
    let (_, told) = leader.next(PROMPT).await;
    assert!(matches!(told, Ok(None)), "{told:?}");
    let (_, told) = third.next(PROMPT).await;
    let on = ("acquire".to_owned(), "e".to_owned());
    assert_eq!(missing(&told.unwrap_err()), on);
    let elected = next.elected(TTL + PROMPT).await;
    assert!(elected.at >= promised, "{:?} early", promised - elected.at);
    assert!(elected.token > term.token);
}
