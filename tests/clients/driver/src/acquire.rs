//! Acquires of locks and permits.

use std::time::Duration;

use leasehold_client::{Client, LockAllRequest, LockRequest, PermitRequest};
use serde_json::json;

use crate::{
    failure::Failed,
    hold::{Guard, Handle},
    output::{answer, boot_ns},
    request::{Request, millis},
    state,
    world::{Shared, World},
};

/// Request to the client, of any kind.
pub(crate) enum Ask {
    Lock(LockRequest),
    Locks(LockAllRequest),
    Permits(PermitRequest),
}

impl Ask {
    /// Makes the client's request for one of the runner's.
    pub(crate) fn new(world: &World, client: &Client, request: &Request) -> Result<Self, Failed> {
        let shared = request.mode.as_deref() == Some("shared");
        match (&request.names[..], request.permits, request.limit) {
            ([name], None, None) => {
                let ask = client.lock(&**name);
                let ask = if shared { ask.shared() } else { ask };
                Ok(Self::Lock(options(world, client, request, ask)))
            }
            ([name], Some(permits), Some(limit)) => {
                let ask = client.semaphore(&**name, limit).permits(permits);
                Ok(Self::Permits(options(world, client, request, ask)))
            }
            ([_, _, ..], None, None) => {
                let ask = client.lock_all(request.names.iter().map(String::as_str));
                let ask = if shared { ask.shared() } else { ask };
                Ok(Self::Locks(options(world, client, request, ask)))
            }
            _ => Err(Failed::internal("no such acquire")),
        }
    }

    async fn acquire(self) -> Result<Guard, Failed> {
        Ok(match self {
            Self::Lock(ask) => Guard::Lock(ask.await?),
            Self::Locks(ask) => Guard::Locks(ask.await?),
            Self::Permits(ask) => Guard::Permit(ask.await?),
        })
    }
}

fn options<G>(
    world: &World,
    client: &Client,
    request: &Request,
    mut ask: LockRequest<G>,
) -> LockRequest<G> {
    if let Some(wait) = millis(request.wait_ms) {
        ask = ask.wait(wait);
    }
    if let Some(value) = &request.value {
        ask = ask.value(value.as_str());
    }
    if let Some(delay) = millis(request.lock_delay_ms) {
        ask = ask.lock_delay(delay);
    }
    if let Some(actor) = &request.actor {
        ask = ask.actor(world.actor(actor, client));
    }
    if request.reentrant {
        ask = ask.reentrant();
    }
    ask
}

/// Acquires, answers, and tells of what becomes of it.
pub(crate) async fn acquire(world: &Shared, request: Request) {
    let call = async {
        let client = world.client(&request.on)?;
        Ask::new(world, &client, &request)?.acquire().await
    };
    let done = world.cancellable(request.id, call).await;
    keep(world, request, done).await;
}

/// Answers a request for a guard, and tells of what becomes of it.
pub(crate) async fn keep(world: &Shared, request: Request, done: Result<Guard, Failed>) {
    let guard = match done {
        Ok(guard) => guard,
        Err(failed) => return answer(request.id, Err(failed)),
    };
    let ok = json!({ "holds": guard.granted(), "boot_ns": boot_ns() });
    let handle = Handle::new(guard);
    let watches = handle.watches().to_vec();
    world.add_handle(&request.name, handle);
    answer(request.id, Ok(ok));
    state::tell(request.name, watches).await;
}

/// Time for which a body goes on after it was told to stop.
pub(crate) fn cleanup(request: &Request) -> Duration {
    Duration::from_millis(request.cleanup_ms)
}
