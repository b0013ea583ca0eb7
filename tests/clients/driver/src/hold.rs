//! Holds that the runner keeps by a handle.

use std::{sync::Arc, thread, time::Duration};

use leasehold_client::{HoldError, Leadership, LockGuard, LockGuards, LockWatch, SemaphorePermit};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{failure::Failed, request::Request, state, world::World};

/// Guard of any kind.
pub(crate) enum Guard {
    Lock(LockGuard),
    Locks(LockGuards),
    Permit(SemaphorePermit),
    Leadership(Leadership),
}

/// A handle. The one of a body has no guard: its form of the client's has it.
#[derive(Clone)]
pub(crate) struct Handle {
    guard: Arc<Mutex<Option<Guard>>>,
    watches: Vec<LockWatch>,
}

impl Handle {
    pub(crate) fn new(guard: Guard) -> Self {
        let watches = guard.watches();
        Self {
            guard: Arc::new(Mutex::new(Some(guard))),
            watches,
        }
    }

    pub(crate) fn of_body(watches: Vec<LockWatch>) -> Self {
        let guard = Arc::default();
        Self { guard, watches }
    }

    pub(crate) fn watches(&self) -> &[LockWatch] {
        &self.watches
    }
}

impl Guard {
    fn watches(&self) -> Vec<LockWatch> {
        match self {
            Self::Lock(guard) => vec![guard.watch()],
            Self::Locks(guards) => guards.iter().map(LockGuard::watch).collect(),
            Self::Permit(permit) => vec![permit.watch()],
            Self::Leadership(leadership) => vec![leadership.watch().as_lock().clone()],
        }
    }

    /// Returns what was granted, for the answer.
    pub(crate) fn granted(&self) -> Value {
        let hold = |guard: &LockGuard| {
            let token = guard.fencing_token().to_string();
            json!({ "name": guard.name(), "token": token, "count": guard.hold_count() })
        };
        match self {
            Self::Lock(guard) => json!([hold(guard)]),
            Self::Locks(guards) => guards.iter().map(hold).collect(),
            Self::Permit(permit) => json!([{
                "name": permit.name(),
                "token": permit.fencing_token().to_string(),
                "count": permit.hold_count(),
            }]),
            Self::Leadership(leadership) => json!([{
                "name": leadership.election(),
                "token": leadership.fencing_token().to_string(),
                "count": 1,
            }]),
        }
    }

    async fn release(self) -> Result<(), HoldError> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Locks(guards) => guards.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Leadership(leadership) => leadership.resign().await,
        }
    }
}

pub(crate) fn state(world: &World, request: &Request) -> Result<Value, Failed> {
    let handle = world.handle(&request.h)?;
    Ok(state::asked(handle.watches()))
}

/// Blocks the only thread, and asks before the client has run again.
pub(crate) fn block(world: &World, request: &Request) -> Result<Value, Failed> {
    let handle = world.handle(&request.h)?;
    thread::sleep(Duration::from_millis(request.ms));
    Ok(state::asked(handle.watches()))
}

pub(crate) async fn release(world: &World, request: &Request) -> Result<Value, Failed> {
    let handle = world.handle(&request.h)?;
    let guard = handle.guard.lock().await.take();
    let guard = guard.ok_or_else(|| Failed::internal("it was released before"))?;
    guard.release().await?;
    Ok(json!({}))
}

pub(crate) async fn set_value(world: &World, request: &Request) -> Result<Value, Failed> {
    let handle = world.handle(&request.h)?;
    let value = request.value.clone().unwrap_or_default();
    match &*handle.guard.lock().await {
        Some(Guard::Lock(guard)) => guard.set_value(value).await?,
        Some(Guard::Permit(permit)) => permit.set_value(value).await?,
        Some(Guard::Leadership(leadership)) => leadership.proclaim(value).await?,
        _ => return Err(Failed::new("unsupported")),
    }
    Ok(json!({}))
}

pub(crate) async fn downgrade(world: &World, request: &Request) -> Result<Value, Failed> {
    let handle = world.handle(&request.h)?;
    match &*handle.guard.lock().await {
        Some(Guard::Lock(guard)) => guard.downgrade().await?,
        _ => return Err(Failed::new("unsupported")),
    }
    Ok(json!({}))
}
