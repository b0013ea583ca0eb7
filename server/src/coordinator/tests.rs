//! The coordinator over a store in memory, with wake-ups that a test makes up. Timers are tokio's paused clock.

pub(crate) mod site;

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use leasehold_core::{
    command::{End, Executed, Loss, Op, Reply},
    session::{CallOutcome, PendingCleanup, RegistryEvent, Wait},
    time::{Moment, StoreTime},
};
use leasehold_store::{Stamped, StoreError, WakeUp, clock};

use self::site::{A_MOMENT, Site, acquire, handed, heard, name, owner};
use super::inbox::Inbox;
use crate::services::names;

/// More than enough for what takes a moment of the real clock. The paused one passes it in a few seconds.
const HOUR: Duration = Duration::from_secs(3600);

/// Returns a call that waits for the lock.
async fn queued(site: &Site) -> Pin<Box<impl Future<Output = CallOutcome>>> {
    let mut waits = Box::pin(site.acquire(Wait::Forever));
    assert!(waits.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert!(waits.as_mut().now_or_never().is_none());
    waits
}

#[tokio::test(start_paused = true)]
async fn commands_carry_the_largest_token_of_grants_and_of_hand_offs() {
    let site = Site::start();
    let (held, token) = site.hold().await;
    assert!(site.floor() > token);
    let waits = queued(&site).await;
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
    let waits = queued(&site).await;
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
        asks: false,
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
async fn a_name_that_is_waited_for_is_refreshed_at_once_when_a_reply_was_lost() {
    let site = Site::start();
    site.hold().await;
    let _waits = queued(&site).await;
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
async fn a_command_that_could_not_hand_on_to_everybody_is_followed_by_another() {
    let site = Site::start();
    for (more, asked) in [(false, 0), (true, 1)] {
        let executed = Executed {
            reply: Reply::Changed(true),
            at: StoreTime::from_micros(7),
            handed: Vec::new(),
            more,
        };
        let (before, sent_at) = (site.operations(), clock::now());
        let stamped = Stamped { executed, sent_at };
        site.coordinator.note(&name(), &stamped);
        tokio::time::sleep(A_MOMENT).await;
        assert_eq!(site.operations(), before + asked);
    }
}
