//! JSON for programs: the messages of the wire API in proto3's JSON format. Fields have their JSON names, 64-bit integers
//! are strings, durations are seconds with an `s`, times are RFC 3339, bytes are base64, enums are their names. Every field
//! is present: one that is unset, or has no meaning for this lock, is null.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use leasehold_client::{CoordinatorStatus, FencingToken, LockMode, LockView, StoreState};
use serde::{Serialize, Serializer};

use super::error;

/// 64-bit integer, which proto3 writes as a string: a program that reads numbers as floating-point would round it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Wide<T>(pub(crate) T);

impl<T: fmt::Display> Serialize for Wide<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Numbers by name.
pub(crate) type ByName<'a> = BTreeMap<&'a str, Wide<u64>>;

/// Returns bytes as text.
pub(super) fn bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns a duration as text: seconds with an `s`.
pub(crate) fn duration(duration: Duration) -> String {
    prost_types::Duration::try_from(duration).map_or_else(
        |_| format!("{}s", duration.as_secs()),
        |duration| duration.to_string(),
    )
}

/// Returns a time as text: RFC 3339.
pub(crate) fn time(time: SystemTime) -> String {
    prost_types::Timestamp::from(time).to_string()
}

/// Returns a token, which the wire API writes as 0 if there is none.
pub(crate) fn token(token: Option<FencingToken>) -> Wide<i64> {
    Wide(token.map_or(0, FencingToken::get))
}

/// Lock.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lock {
    name: String,
    mode: Option<&'static str>,
    holders: Vec<Holder>,
    holder_count: Wide<u64>,
    /// `None` except for semaphores.
    limit: Option<u32>,
    permits_taken: Option<u32>,
    waiters: Vec<Waiter>,
    waiter_count: Wide<u64>,
    fencing_token: Wide<i64>,
    closed_for: Option<String>,
    lock_delay: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Holder {
    session_id: String,
    client_name: String,
    coordinator: String,
    fencing_token: Wide<i64>,
    acquired_at: Option<String>,
    ttl: Option<String>,
    /// Base64.
    value: String,
    hold_count: u32,
    /// `None` except for semaphores.
    permits: Option<u32>,
    /// `None` if the client named none.
    actor: Option<Wide<u64>>,
    foreign: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiter {
    session_id: String,
    client_name: String,
    coordinator: String,
    waiting_since: Option<String>,
    position: Wide<u64>,
    mode: Option<&'static str>,
    permits: Option<u32>,
    actor: Option<Wide<u64>>,
}

/// Result of a force-release.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Released {
    pub(crate) released: bool,
    pub(crate) fencing_token: Wide<i64>,
}

/// State of all coordinators.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Coordinators {
    pub(crate) coordinators: Vec<Coordinator>,
}

/// State of one coordinator, or the reason why it did not answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Coordinator {
    endpoint: String,
    /// None if the endpoint's name has none.
    address: Option<String>,
    /// `None` if it did not answer, as everything below except `serving` and `error`.
    coordinator: Option<String>,
    version: Option<String>,
    uptime: Option<String>,
    serving: bool,
    /// `None` if it serves, or does not show it.
    reason: Option<String>,
    /// `None` if it does not show it, as everything below except `error`.
    store: Option<String>,
    store_state: Option<&'static str>,
    session_count: Option<Wide<u64>>,
    hold_count: Option<Wide<u64>>,
    waiter_count: Option<Wide<u64>>,
    /// Why it did not answer; `None` if it did.
    error: Option<error::Error>,
}

impl From<&CoordinatorStatus> for Coordinator {
    fn from(row: &CoordinatorStatus) -> Self {
        let status = row.status.as_ref().ok();
        Self {
            endpoint: row.endpoint.clone(),
            address: row.address.map(|address| address.to_string()),
            coordinator: status.map(|status| status.coordinator.clone()),
            version: status.map(|status| status.version.clone()),
            uptime: status.and_then(|status| status.uptime.map(duration)),
            serving: row.is_serving(),
            reason: status.and_then(|status| status.reason.clone()),
            store: status.and_then(|status| status.store.clone()),
            store_state: status.and_then(|status| match status.store_state? {
                StoreState::Up => Some("STORE_STATE_UP"),
                StoreState::Down => Some("STORE_STATE_DOWN"),
                _ => None,
            }),
            session_count: status.and_then(|status| status.session_count.map(Wide)),
            hold_count: status.and_then(|status| status.hold_count.map(Wide)),
            waiter_count: status.and_then(|status| status.waiter_count.map(Wide)),
            error: row.status.as_ref().err().map(error::Error::from),
        }
    }
}

impl From<&LockView> for Lock {
    fn from(view: &LockView) -> Self {
        Self {
            name: view.name.clone(),
            mode: view.mode.and_then(mode),
            holders: view.holders.iter().map(Holder::from).collect(),
            holder_count: Wide(view.holder_count),
            limit: view.limit,
            permits_taken: view.limit.map(|_| view.permits_taken),
            waiters: view.waiters.iter().map(Waiter::from).collect(),
            waiter_count: Wide(view.waiter_count),
            fencing_token: token(view.fencing_token),
            closed_for: view.closed_for.map(duration),
            lock_delay: view.lock_delay.map(duration),
        }
    }
}

impl From<&leasehold_client::Holder> for Holder {
    fn from(holder: &leasehold_client::Holder) -> Self {
        Self {
            session_id: holder.session_id.clone(),
            client_name: holder.client_name.clone(),
            coordinator: holder.coordinator.clone(),
            fencing_token: token(holder.fencing_token),
            acquired_at: holder.acquired_at.map(time),
            ttl: holder.ttl.map(duration),
            value: bytes(&holder.value),
            hold_count: holder.hold_count,
            permits: holder.permits,
            actor: holder.actor.map(Wide),
            foreign: holder.foreign,
        }
    }
}

impl From<&leasehold_client::Waiter> for Waiter {
    fn from(waiter: &leasehold_client::Waiter) -> Self {
        Self {
            session_id: waiter.session_id.clone(),
            client_name: waiter.client_name.clone(),
            coordinator: waiter.coordinator.clone(),
            waiting_since: waiter.waiting_since.map(time),
            position: Wide(waiter.position),
            mode: waiter.mode.and_then(mode),
            permits: waiter.permits,
            actor: waiter.actor.map(Wide),
        }
    }
}

/// Returns the mode's name in the wire API, if it is known.
pub(super) fn mode(mode: LockMode) -> Option<&'static str> {
    match mode {
        LockMode::Exclusive => Some("LOCK_MODE_EXCLUSIVE"),
        LockMode::Shared => Some("LOCK_MODE_SHARED"),
        LockMode::Semaphore => Some("LOCK_MODE_SEMAPHORE"),
        _ => None,
    }
}

/// Prints one document to standard output.
pub(crate) fn print(document: &impl Serialize) -> anyhow::Result<()> {
    super::table::print(&serde_json::to_string_pretty(document)?)?;
    Ok(())
}

#[cfg(test)]
mod tests;
