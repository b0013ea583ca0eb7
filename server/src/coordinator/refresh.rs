//! Refresh of a contended name, on behalf of its waiters.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use leasehold_core::{
    command::{Acquire, Loss, Op, Reply},
    id::FencingToken,
    name::LockName,
    session::RegistryEvent,
};
use leasehold_store::{LockStore, Stamped, StoreError};

use super::Coordinator;

/// What a refresh came to.
pub(super) struct Refreshed {
    /// When what is in the way expires, if that is known.
    pub(super) expires_in: Option<Duration>,
    /// Whether every waiter is surely in the queue, or was never missing from it.
    pub(super) all_joined: bool,
}

/// Refreshes a name and sees to what that shows. With `rejoin`, every waiter joins the queue again even if the oldest one
/// is in it.
pub(super) async fn refresh(
    coordinator: &Coordinator,
    name: &LockName,
    waiters: Vec<Arc<Acquire>>,
    rejoin: bool,
) -> Refreshed {
    let oldest = waiters
        .iter()
        .map(|acquire| acquire.owner)
        .find(|owner| coordinator.registry().waits(owner));
    let unknown = Refreshed {
        expires_in: None,
        all_joined: !rejoin,
    };
    let Ok(stamped) = coordinator.execute(name, Op::Refresh { oldest }).await else {
        // The store's status tells when it is back; until then the interval does.
        return unknown;
    };
    let Reply::Refreshed {
        current,
        expires_in,
        attached,
    } = stamped.executed.reply
    else {
        return unknown;
    };
    let mut missed = Vec::new();
    for current in current {
        if coordinator.registry().waits(&current.owner)
            && let Some(acquire) = waiters
                .iter()
                .find(|acquire| acquire.owner == current.owner)
        {
            missed.push(confirm(coordinator, name, acquire, current.token));
        } else if current.of_session && !coordinator.registry().knows(&current.owner) {
            coordinator.discard(name, current.owner);
        }
    }
    join_all(missed).await;
    let all_joined = if rejoin || !attached {
        join_again(coordinator, name, &waiters).await
    } else {
        true
    };
    Refreshed {
        expires_in,
        all_joined,
    }
}

/// Makes a hand-off from elsewhere last for its TTL, and gives it to its waiter. If it has run out already, the waiter
/// joins the queue again. False if it is not known whether the waiter is in the queue.
pub(super) async fn confirm(
    coordinator: &Coordinator,
    name: &LockName,
    acquire: &Arc<Acquire>,
    token: FencingToken,
) -> bool {
    let op = Op::Renew {
        owner: acquire.owner,
        ttl: acquire.ttl,
    };
    let Stamped { executed, sent_at } = match coordinator.execute(name, op).await {
        Ok(stamped) => stamped,
        Err(error) => return refuse(coordinator, acquire, error),
    };
    match executed.reply {
        Reply::Renewed => {
            coordinator
                .registry()
                .deliver(&acquire.owner, RegistryEvent::Granted { token, sent_at });
            true
        }
        Reply::Lost(Loss::Resumed) => {
            coordinator.registry().moved(&acquire.owner);
            true
        }
        _ => join_again(coordinator, name, std::slice::from_ref(acquire)).await,
    }
}

/// Ends the wait of an acquire whose grant does not count. False if it is not known what became of it.
fn refuse(coordinator: &Coordinator, acquire: &Acquire, error: StoreError) -> bool {
    let is_refused = matches!(error, StoreError::NotReplicated { .. });
    if is_refused {
        let event = RegistryEvent::GrantFailed(error);
        coordinator.registry().deliver(&acquire.owner, event);
    }
    is_refused
}

/// Has waiters that the store has forgotten, or never knew of, join the queue again, in their order here. Those that are
/// in it stay where they are, and those whose places were resumed elsewhere wait here no more. False if it is not known of
/// each whether it is.
async fn join_again(coordinator: &Coordinator, name: &LockName, waiters: &[Arc<Acquire>]) -> bool {
    let waiting: Vec<&Arc<Acquire>> = waiters
        .iter()
        .filter(|acquire| coordinator.registry().waits(&acquire.owner))
        .collect();
    let commands = waiting
        .iter()
        .map(|acquire| {
            let acquire = Acquire {
                again: true,
                ..Acquire::clone(acquire)
            };
            coordinator.command(name.clone(), Op::Acquire(acquire))
        })
        .collect();
    let results = coordinator.store().execute_all(commands).await;
    let mut all_joined = true;
    for (acquire, result) in waiting.into_iter().zip(results) {
        let stamped = match result {
            Ok(stamped) => stamped,
            Err(error) => {
                if !refuse(coordinator, acquire, error) {
                    all_joined = false;
                } else if acquire.session.is_some() && !coordinator.registry().knows(&acquire.owner)
                {
                    coordinator.discard(name, acquire.owner);
                }
                continue;
            }
        };
        match stamped.executed.reply {
            Reply::Granted { token } => {
                let event = RegistryEvent::Granted {
                    token,
                    sent_at: stamped.sent_at,
                };
                coordinator.registry().deliver(&acquire.owner, event);
            }
            Reply::Lost(Loss::Resumed) => {
                coordinator.registry().moved(&acquire.owner);
                continue;
            }
            _ => {}
        }
        // It stopped waiting while its acquire was on the way, and may have left the queue before it arrived. One that is
        // still known has been delivered, or will be released by whoever gave it up; one of the unary calls may have
        // been delivered and be its caller's alone by now.
        if acquire.session.is_some() && !coordinator.registry().knows(&acquire.owner) {
            coordinator.discard(name, acquire.owner);
        }
    }
    all_joined
}
