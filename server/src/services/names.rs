//! Single commands about a name, for unary calls.

use leasehold_core::{
    command::{End, Loss, Op, Reply},
    id::{FencingToken, OwnerId},
    name::LockName,
    view::NameView,
};
use leasehold_store::StoreError;

use crate::{coordinator::Coordinator, status::Refusal};

/// Releases a hold or cancels a waiter that this coordinator may not know. Returns whether it was a hold.
pub(crate) async fn release(
    coordinator: &Coordinator,
    name: &LockName,
    owner: OwnerId,
) -> Result<bool, Refusal> {
    let op = Op::Release {
        owner,
        end: End::Clean,
    };
    let stamped = coordinator.execute(name, op).await?;
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
    let stamped = coordinator.execute(name, Op::View { waiters }).await?;
    match stamped.executed.reply {
        Reply::Seen(view) => Ok(*view),
        _ => Err(unexpected("view")),
    }
}

/// Takes a lock from its holders. Returns whether anything was released, and the token now.
pub(crate) async fn force_release(
    coordinator: &Coordinator,
    name: &LockName,
) -> Result<(bool, FencingToken), Refusal> {
    let stamped = coordinator.execute(name, Op::ForceRelease).await?;
    match stamped.executed.reply {
        Reply::Forced {
            released,
            token,
            former,
        } => {
            for former in former {
                coordinator.registry().take(&former.owner, Loss::Forced);
            }
            Ok((released, token))
        }
        _ => Err(unexpected("force release")),
    }
}

/// Returns the failure of a command whose answer belongs to another operation; the stores never give one.
pub(super) fn unexpected(operation: &str) -> Refusal {
    let reason = format!("the reply to {operation} is that of another operation");
    StoreError::Garbled { reason }.into()
}
