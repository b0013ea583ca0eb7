//! A lock that goes from a session to one at another coordinator and back to a unary caller, while a call is lost, or its reply, or
//! the wake-up that tells of the hand-off.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, lock_service_client::LockServiceClient,
    session_response::Response,
};
use leasehold_tests::{
    RawSession, RedisProxy,
    raw::{reason, release_request, wire},
    redis_proxy::{Call, Listening, Loss, WakeUps},
    wait,
};

use crate::lost_messages::{LOSSES, PROMPT, TTL, site::Site};

/// A call on the lock's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Acquire,
    /// By which the lock is handed on to the other coordinator.
    Release,
    /// By which that confirms the hand-off.
    Confirm,
    UnaryAcquire,
    UnaryRelease,
}

const POINTS: [Point; 5] = [
    Point::Acquire,
    Point::Release,
    Point::Confirm,
    Point::UnaryAcquire,
    Point::UnaryRelease,
];

/// Tokens of the hand-off: as the store had it when the release was answered, and as the waiter was told.
type Tokens = (Option<i64>, i64);

/// Plays it under a name, and checks that each is granted the lock once, alone and with a token above those before it, that a failure
/// is told only where `trouble` says that there is one, and that nothing is left. `trouble` is told of each call before it is sent,
/// with the coordinator that will send it and what the call has in it.
async fn handed_on(
    site: &Site,
    name: &str,
    trouble: impl Fn(Point, &RedisProxy, Call) -> bool,
) -> Tokens {
    let [first, second] = &site.places[..] else {
        panic!("two coordinators");
    };
    let idle = site.idle_keys(name).await;
    let mut failures = BTreeMap::new();
    let mut meet = |point: Point, proxy: &RedisProxy, call: Call| {
        let fails = trouble(point, proxy, call) && point != Point::Confirm;
        failures.insert(point, (fails, false));
    };
    let with_name = || Call::With(name.as_bytes().to_vec());

    let mut holder = RawSession::open_on(first.channel.clone(), TTL).await;
    let held = holder.acquire(name).await.lock;
    let mut waiter = RawSession::open_on(second.channel.clone(), TTL).await;
    meet(Point::Acquire, &second.proxy, with_name());
    let mut failed = Vec::new();
    let id = loop {
        let id = waiter.ask(name, None).await;
        match waiter.answer(id, PROMPT).await {
            Response::Queued(_) => break id,
            Response::Error(failure) => failed.push((Point::Acquire, failure.reason)),
            other => panic!("{other:?}"),
        }
        site.settle().await;
    };

    meet(Point::Confirm, &second.proxy, Call::AfterWakeUp);
    let owner = Call::With(held.owner_id.clone());
    meet(Point::Release, &first.proxy, owner);
    let release = holder.ask_release(&held).await;
    match holder.answer(release, PROMPT).await {
        Response::Released(released) => assert!(released.released),
        // The coordinator goes on.
        Response::Error(failure) => failed.push((Point::Release, failure.reason)),
        other => panic!("{other:?}"),
    }
    let holders = site.view(name).await.holders;
    let granted = waiter.granted(id, PROMPT).await.lock;
    let tokens = (
        holders.first().map(|holder| holder.fencing_token),
        granted.fencing_token,
    );
    assert!(granted.fencing_token > held.fencing_token);
    let owns = site.owner(name).await.as_ref() == Some(&granted.owner_id);
    assert!(owns, "a lock was granted that another owns");
    site.settle().await;

    let mut unary = LockServiceClient::new(first.channel.clone());
    let acquire = AcquireRequest {
        name: name.to_owned(),
        ttl: wire(TTL),
        wait: wire(TTL),
        ..AcquireRequest::default()
    };
    meet(Point::UnaryAcquire, &first.proxy, with_name());
    let mut of_unary = Vec::new();
    let asking = async {
        loop {
            match unary.acquire(acquire.clone()).await {
                Ok(answer) => return answer.into_inner(),
                Err(status) => of_unary.push((Point::UnaryAcquire, reason(&status))),
            }
            site.settle().await;
        }
    };
    let releasing = async {
        wait::until("the unary call to wait", PROMPT, || async {
            let queue = site.queue(name).await;
            if queue.is_empty() { Err(queue) } else { Ok(()) }
        })
        .await;
        assert!(waiter.release(&granted).await);
    };
    let (last, ()) = tokio::join!(asking, releasing);
    failed.extend(of_unary);
    assert_eq!(last.outcome(), AcquireOutcome::Granted);
    assert!(last.fencing_token > granted.fencing_token);

    let owner = Call::With(last.owner_id.clone());
    meet(Point::UnaryRelease, &first.proxy, owner);
    let released = loop {
        match unary.release(release_request(name, &last.owner_id)).await {
            Ok(answer) => break answer.into_inner().released,
            Err(status) => failed.push((Point::UnaryRelease, reason(&status))),
        }
        site.settle().await;
    };
    for (point, reason) in failed {
        let of = failures.get_mut(&point).unwrap();
        // An acquire may never have been sent, and a second try may find that a connection has just broken again.
        let may_be_unsent = of.1 || matches!(point, Point::Acquire | Point::UnaryAcquire);
        let is_told =
            reason == "STORE_INDETERMINATE" || may_be_unsent && reason == "STORE_UNAVAILABLE";
        assert!(is_told, "{point:?}: {reason}");
        of.1 = true;
    }
    for (point, (fails, failed)) in &failures {
        assert_eq!(failed, fails, "whether {point:?} failed");
    }
    assert!(released || failures[&Point::UnaryRelease].1);
    for session in [holder, waiter] {
        assert!(session.unread_unasked().is_empty());
        session.close().await;
    }
    site.nothing_is_left(name, &idle, last.fencing_token).await;
    tokens
}

/// Loses calls at one point after the other, in one way.
async fn lost(losses: &[Loss]) {
    let site = Site::start(2).await;
    for at in POINTS {
        // Otherwise the next call may be one at another point.
        if losses.len() > 1 && matches!(at, Point::Release | Point::Confirm) {
            continue;
        }
        let name = format!("lost/{at:?}");
        site.listening().await;
        site.settle().await;
        let before = site.counts().lost;
        handed_on(&site, &name, |point, proxy, call| {
            let mut calls = vec![call];
            calls.resize(losses.len(), Call::Next);
            for (call, loss) in calls.into_iter().zip(losses).filter(|_| point == at) {
                proxy.lose(call, *loss);
            }
            point == at
        })
        .await;
        assert_eq!(site.counts().lost - before, losses.len() as u64);
        if losses == [Loss::RequestLate] {
            // Long after everybody has given it up.
            let idle = site.idle_keys(&name).await;
            site.deliver().await;
            site.nothing_is_left(&name, &idle, 0).await;
        }
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_is_lost_once_in_each_way() {
    join_all(LOSSES.map(|loss| async move { lost(&[loss]).await })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_and_the_next_are_lost() {
    lost(&[Loss::ReplyCut; 2]).await;
}

/// Ways in which a coordinator does not hear of a hand-off to one of its waiters.
const UNHEARD: [fn(&RedisProxy); 5] = [
    |proxy| proxy.set_wake_ups(WakeUps::Drop),
    RedisProxy::cut_subscription,
    RedisProxy::silence_subscription,
    |proxy| proxy.set_listening(Listening::Cut),
    |proxy| proxy.set_listening(Listening::Silent),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_that_is_not_heard_of_is_found_and_the_next_one_is_heard_of() {
    let site = Site::start(2).await;
    let mut found = 0;
    for (number, deafen) in UNHEARD.into_iter().enumerate() {
        let before = site.counts();
        let name = format!("unheard/{number}");
        let (handed, granted) = handed_on(&site, &name, |point, proxy, _| {
            if point == Point::Confirm {
                deafen(proxy);
            }
            false
        })
        .await;
        // If the claim ends first, on a busy machine, it is granted another time.
        found += usize::from(handed == Some(granted));
        let now = site.counts();
        let unheard = now.not_woken + now.cut + now.silenced;
        assert!(unheard > before.not_woken + before.cut + before.silenced);

        site.places[1].proxy.set_wake_ups(WakeUps::Pass);
        site.places[1].proxy.set_listening(Listening::Works);
        site.listening().await;
        let woken = site.places[1].proxy.counts().woken;
        handed_on(&site, &format!("heard/{number}"), |_, _, _| false).await;
        assert!(site.places[1].proxy.counts().woken > woken);
    }
    assert!(found > 0, "no refresh has found a hand-off");
    site.end().await;
}
