//! Candidacies at the level of the wire.

mod candidate;
mod cuts;
mod leading;
mod refusals;

use std::time::Duration;

use leasehold_proto::v1::{
    GetLockRequest, Holder, LockView, admin_service_client::AdminServiceClient,
};
use leasehold_tests::{
    CoordinatorProcess, RedisServer, audit,
    raw::{PROMPT, connect},
    wait,
};
use tonic::Status;

/// So long that whatever is left behind is still there when it is looked for.
const LONG: Duration = Duration::from_secs(30);

/// Returns an operator's view of an election.
async fn look(endpoint: &str, election: &str) -> LockView {
    try_look(endpoint, election).await.unwrap()
}

async fn try_look(endpoint: &str, election: &str) -> Result<LockView, Status> {
    let mut admin = AdminServiceClient::new(connect(endpoint).await);
    let name = election.to_owned();
    let response = admin.get_lock(GetLockRequest { name }).await?;
    Ok(response.into_inner().lock.unwrap_or_default())
}

/// Returns the leader in an operator's view.
async fn leader(endpoint: &str, election: &str) -> Option<Holder> {
    let mut holders = look(endpoint, election).await.holders;
    assert!(holders.len() <= 1, "two leaders: {holders:?}");
    holders.pop()
}

/// Waits until nothing is left of an election: no holder, no waiter, no session, and in Redis nothing but the record of its
/// tokens.
async fn assert_nothing_left(
    coordinator: &CoordinatorProcess,
    redis: &RedisServer,
    election: &str,
    what: &str,
) {
    let endpoint = coordinator.endpoint();
    let connection = redis.async_connection().await;
    wait::until(&format!("nothing to be left, {what}"), PROMPT, || {
        let mut connection = connection.clone();
        let endpoint = &endpoint;
        async move {
            let seen = try_look(endpoint, election).await;
            let metrics = coordinator.metrics().await;
            let left = [
                "leasehold_sessions",
                "leasehold_holds",
                "leasehold_waiters",
                "leasehold_inflight_cleanups",
            ]
            .map(|name| metrics.sum(name));
            let mut keys = audit::keys(&mut connection, "*").await.unwrap();
            keys.retain(|key, _| !key.contains(":token:"));
            let is_free = |seen: &LockView| seen.holders.is_empty() && seen.waiter_count == 0;
            let is_clean = seen.as_ref().is_ok_and(is_free)
                && left.iter().sum::<f64>() == 0.0
                && keys.is_empty();
            if is_clean {
                Ok(())
            } else {
                Err((seen, left, keys))
            }
        }
    })
    .await;
}
