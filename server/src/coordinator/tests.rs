//! The coordinator over a store in memory, with wake-ups that a test makes up. Timers are tokio's paused clock.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

pub(crate) mod site;

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use leasehold_core::{
    command::{Acquire, End, Executed, Loss, Op, REFRESH_INTERVAL, Reply},
    deadlock::BlockedWait,
    id::{Actor, SessionId},
    name::LockName,
    session::{CallOutcome, PendingCleanup, RegistryEvent, TrackedWait, Wait, WaitEnd},
    time::{Moment, StoreTime},
    view::HolderView,
};
use leasehold_store::{Stamped, StoreError, WakeUp, clock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::site::{A_MOMENT, Site, acquire, handed, heard, name, owner};
use super::{deadlock, inbox::Inbox};
use crate::services::names;

/// More than enough for what takes a moment of the real clock. The paused one passes it in a few seconds.
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn commands_carry_the_largest_token_of_grants_and_of_hand_offs() {
    let site = Site::start();
    let (held, token) = site.hold().await;
    assert!(site.floor() > token);
    let waits = site.acquire(Wait::Forever);
    let mut waits = Box::pin(waits);
    assert!(waits.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert!(waits.as_mut().now_or_never().is_none());
    let released = names::release(&site.coordinator, &name(), held, None).await;
    assert!(released.unwrap());
    // The waiter has not been told yet.
    let of_hand_off = site.floor();
    let CallOutcome::Granted { token: handed, .. } = waits.await else {
        panic!("not granted");
    };
    assert!(handed > token);
    assert!(of_hand_off > handed);
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_counts_from_when_the_command_that_made_it_was_sent() {
    let site = Site::start();
    let coordinator = &site.coordinator;
    let waiter = site.register(1);
    let long_ago = Moment::from_micros(7);
    let executed = Executed {
        reply: Reply::Changed(true),
        at: StoreTime::from_micros(7),
        handed: vec![handed(1, "here")],
        more: false,
    };
    let sent_at = long_ago;
    coordinator.note(&name(), &Stamped { executed, sent_at });
    match heard(&waiter).await.1 {
        RegistryEvent::Granted { sent_at, .. } => assert_eq!(sent_at, long_ago),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_to_one_that_is_gone_is_handed_on_by_its_own_coordinator() {
    for (of, holders) in [("here", 0), ("elsewhere", 1)] {
        let site = Site::start();
        let coordinator = &site.coordinator;
        let granted = coordinator.command(name(), Op::Acquire(acquire(1)));
        let mut stamped = coordinator.store().execute(granted).await.unwrap();
        stamped.executed.handed = vec![handed(1, of)];
        coordinator.note(&name(), &stamped);
        tokio::time::sleep(A_MOMENT).await;
        assert_eq!(site.seen().await, (holders, 0), "{of}");
        assert!(!coordinator.registry().knows(&owner(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_made_elsewhere_to_one_that_is_gone_is_handed_on() {
    let site = Site::start();
    let granted = site.coordinator.command(name(), Op::Acquire(acquire(1)));
    site.coordinator.store().execute(granted).await.unwrap();
    site.tell_granted(1).await;
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.seen().await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_that_replicas_have_not_acknowledged_its_grant() {
    let site = Site::start();
    let waiter = site.register(1);
    let error = StoreError::NotReplicated {
        replicas: 1,
        timeout: Duration::from_secs(1),
    };
    site.coordinator.refuse(&name(), &handed(1, "here"), &error);
    let failed = RegistryEvent::GrantFailed(error);
    assert_eq!(heard(&waiter).await, (owner(1), failed));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_leaves_the_queue() {
    let site = Site::start();
    let (held, _) = site.hold().await;
    let mut waits = Box::pin(site.acquire(Wait::Forever));
    assert!(waits.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(site.seen().await, (1, 1));
    drop(waits);
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.seen().await, (1, 0));
    assert!(!site.coordinator.registry().knows(&held));
    assert_eq!(site.coordinator.metrics().contended_names.value(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_comes_before_its_acquire_is_sent_again() {
    let site = Site::start();
    let later = clock::now().after(Duration::from_secs(60));
    site.register(1);
    site.coordinator.clean_up(PendingCleanup {
        name: name(),
        owner: owner(1),
        end: End::Clean,
        may_arrive_until: Some(later),
        gone_at: later,
    });
    let registry = site.coordinator.registry();
    assert!(registry.knows(&owner(1)) && !registry.waits(&owner(1)));
    // The release finds nothing.
    tokio::time::sleep(A_MOMENT).await;
    let arrives = site.coordinator.command(name(), Op::Acquire(acquire(1)));
    site.coordinator.store().execute(arrives).await.unwrap();
    assert_eq!(site.seen().await, (1, 0));
    // The time of retries is the store's, which no test stops.
    let released = async {
        while site.seen().await != (0, 0) {
            tokio::time::sleep(A_MOMENT).await;
        }
    };
    tokio::time::timeout(HOUR, released).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_that_its_hold_was_forced_here_and_elsewhere() {
    let site = Site::start();
    let inbox = Arc::new(Inbox::default());
    let forced = RegistryEvent::Lost(Loss::Forced);
    let registry = site.coordinator.registry();
    let (held, _) = site.hold().await;
    registry.hold(&held, Arc::clone(&inbox));
    let (released, _) = names::force_release(&site.coordinator, &name(), None)
        .await
        .unwrap();
    assert!(released);
    assert_eq!(heard(&inbox).await, (held, forced.clone()));

    registry.hold(&owner(2), Arc::clone(&inbox));
    let (name, owner) = (name(), owner(2));
    site.tell(WakeUp::Forced { name, owner }).await;
    assert_eq!(heard(&inbox).await, (owner, forced));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_told_before_its_waiter_is_known_is_confirmed_at_once() {
    let site = Site::start();
    let waiter = site.register(1);
    site.tell_granted(1).await;
    let began = Instant::now();
    let waiting = site.track(1);
    // It is not true that it was granted, so it joins the queue, and is granted what is free.
    let (_, event) = heard(&waiter).await;
    assert!(matches!(event, RegistryEvent::Granted { .. }), "{event:?}");
    assert!(began.elapsed() < REFRESH_INTERVAL);
    waiting.ended(WaitEnd::Granted);
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_that_is_confirmed_counts_from_when_its_confirmation_was_sent() {
    let site = Site::start();
    let coordinator = &site.coordinator;
    // Another coordinator would have made the grant. Here the command is sent past whoever would take the hold in.
    let granted = coordinator.command(name(), Op::Acquire(acquire(1)));
    coordinator.store().execute(granted).await.unwrap();
    let waiter = site.register(1);
    site.tell_granted(1).await;
    let _waiting = site.track(1);
    let sent_at = match heard(&waiter).await.1 {
        RegistryEvent::Granted { sent_at, .. } => sent_at,
        other => panic!("{other:?}"),
    };
    // The store in memory reads the clock when a command is sent: the confirmed hold ends exactly a TTL after that.
    let seen = coordinator.execute(&name(), Op::View { waiters: 0 }).await;
    let Stamped {
        executed,
        sent_at: seen_at,
    } = seen.unwrap();
    let Reply::Seen(view) = executed.reply else {
        panic!("{executed:?}");
    };
    let [HolderView::Ours(holder)] = &view.holders[..] else {
        panic!("{view:?}");
    };
    let stands_until = sent_at.after(acquire(1).ttl);
    assert_eq!(stands_until, seen_at.after(holder.expires_in));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_waited_for_is_refreshed_at_once_when_a_reply_was_lost() {
    let site = Site::start();
    site.hold().await;
    let mut waits = Box::pin(site.acquire(Wait::Forever));
    assert!(waits.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert!(waits.as_mut().now_or_never().is_none());
    tokio::time::sleep(A_MOMENT).await;
    let before = site.operations();
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.operations(), before, "there is no reason to");
    let lost = StoreError::Indeterminate {
        reason: "lost".to_owned(),
    };
    site.coordinator.outcome(&name(), Err(lost)).unwrap_err();
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.operations(), before + 1);
    let unsent = StoreError::Unavailable {
        reason: "not sent".to_owned(),
    };
    site.coordinator.outcome(&name(), Err(unsent)).unwrap_err();
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.operations(), before + 1, "nothing can have happened");
}

#[tokio::test(start_paused = true)]
async fn the_session_of_a_victim_is_told_of_its_deadlock() {
    let site = Site::start();
    let coordinator = &site.coordinator;
    let lock = |number: u8| LockName::parse(&format!("lock {number}")).unwrap();
    let of_actor = |number| Acquire {
        actor: Actor::new(1),
        ..acquire(number)
    };
    let inbox = Arc::new(Inbox::default());
    let registry = coordinator.registry();
    for number in [1, 2] {
        registry.hold(&owner(number), Arc::clone(&inbox));
        let hold = Op::Acquire(of_actor(number));
        coordinator.execute(&lock(number), hold).await.unwrap();
    }
    let waiters = [1, 2].map(|number| {
        let waits = Acquire {
            owner: owner(number + 10),
            ..of_actor(number)
        };
        registry.wait(waits.owner, Arc::clone(&inbox));
        let command = coordinator.command(lock(3 - number), Op::Acquire(waits.clone()));
        let queued = coordinator.store().execute(command).now_or_never();
        queued.unwrap().unwrap();
        let wait = TrackedWait {
            name: lock(3 - number),
            acquire: Arc::new(waits),
            expires_in: None,
        };
        let mut waiter = coordinator.track(wait, None);
        waiter.watch(&"caller".into());
        waiter
    });
    let detection = deadlock::run(coordinator.clone(), CancellationToken::new());
    let detection = tokio::spawn(detection);
    let arrived = tokio::time::timeout(HOUR, inbox.arrived());
    arrived.await.unwrap();
    let (told, event) = heard(&inbox).await;
    let RegistryEvent::Deadlocked(deadlock) = event else {
        panic!("{event:?}");
    };
    assert_eq!((told, deadlock.victim.ticket), (owner(12), owner(12)));
    assert_eq!(coordinator.metrics().deadlocks.get(), 1);
    // A grant on its way to the victim would be given back by its release.
    assert!(!registry.waits(&told) && registry.knows(&told));
    let other = BlockedWait {
        session: SessionId::from_bytes([1; 16]),
        actor: Actor::new(1),
        ticket: owner(11),
        name: lock(2),
    };
    drop(waiters);
    assert!(!coordinator.blocked().remove(&other), "it waits no more");
    detection.abort();
}
