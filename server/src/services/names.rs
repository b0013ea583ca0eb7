//! Single commands about a name, for unary calls.

use std::sync::Arc;

use leasehold_core::{
    command::{End, HoldAt, Loss, One, Op, OwnerAt, ReleaseRequest, Reply},
    id::{FencingToken, OwnerId},
    name::LockName,
    session::RegistryEvent,
    view::NameView,
};
use leasehold_store::StoreError;

use crate::{coordinator::Coordinator, status::Refusal};

/// Releases a hold or cancels a waiter that this coordinator may not know. Returns whether it was a hold.
pub(crate) async fn release(
    coordinator: &Coordinator,
    name: &LockName,
    owner: OwnerId,
    identity: Option<&str>,
) -> Result<bool, Refusal> {
    let op = Op::Release {
        owner,
        end: End::Clean,
    };
    let stamped = coordinator.execute(name, op).await?;
    let audit = coordinator.audit();
    audit.released_by_call((name, &owner), identity, &stamped);
    Ok(matches!(
        stamped.executed.reply,
        Reply::Released { held: true, .. }
    ))
}

/// Returns what a name looks like, with at most this many waiters.
pub(crate) async fn view(
    coordinator: &Coordinator,
    name: &LockName,
    waiters: usize,
) -> Result<NameView, Refusal> {
    seen(coordinator, name, Op::view(waiters)).await
}

/// Returns what [`Op::View`] shows of a name.
pub(super) async fn seen(
    coordinator: &Coordinator,
    name: &LockName,
    op: Op,
) -> Result<NameView, Refusal> {
    let stamped = coordinator.execute(name, op).await?;
    match stamped.executed.reply {
        Reply::Seen(view) => Ok(*view),
        _ => Err(unexpected("view")),
    }
}

/// Takes a lock from its holders, or does what `one` says. Returns whether anything was released, and the token now.
///
/// Not to be dropped: those of this coordinator that it concerns are told in any case.
pub(crate) async fn force_release(
    coordinator: &Coordinator,
    name: &LockName,
    one: Option<One>,
) -> Result<(bool, FencingToken), Refusal> {
    let op = one.map_or(Op::ForceRelease, Op::ForceReleaseOne);
    let stamped = coordinator.execute(name, op).await?;
    let Reply::Forced {
        released,
        token,
        former,
    } = stamped.executed.reply
    else {
        return Err(unexpected("force release"));
    };
    for OwnerAt { owner, .. } in former {
        if matches!(one, Some(One::Waiter(_))) {
            let event = RegistryEvent::ForcedOut;
            coordinator.registry().deliver(&owner, event);
        } else if !coordinator.registry().take(&owner, Loss::Forced) {
            coordinator.audit().lost_by_caller(&owner, Loss::Forced);
        }
    }
    Ok((released, token))
}

/// Asks the sessions that hold a name to release it, or only the one whose hold has this token. Returns how many were asked.
pub(crate) async fn request_release(
    coordinator: &Coordinator,
    name: &LockName,
    only: Option<FencingToken>,
    request: ReleaseRequest,
) -> Result<u32, Refusal> {
    let request = Arc::new(request);
    let op = Op::RequestRelease {
        only,
        request: Arc::clone(&request),
    };
    let stamped = coordinator.execute(name, op).await?;
    let Reply::Asked { holders } = stamped.executed.reply else {
        return Err(unexpected("request to release"));
    };
    // The store tells the coordinators of the others.
    for HoldAt { holder, token } in &holders {
        let request = Arc::clone(&request);
        coordinator.registry().ask(&holder.owner, *token, request);
    }
    Ok(u32::try_from(holders.len()).unwrap_or(u32::MAX))
}

/// Returns the failure of a command whose answer belongs to another operation; the stores never give one.
pub(super) fn unexpected(operation: &str) -> Refusal {
    let reason = format!("the reply to {operation} is that of another operation");
    StoreError::Garbled { reason }.into()
}
