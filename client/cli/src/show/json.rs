//! The JSON that programs read: the fields of the wire API by their JSON names, durations as seconds with an `s`,
//! times as RFC 3339, tokens as numbers (they stay below 2^53), actors as text (they may be anything).

use leasehold_client::{CoordinatorStatus, proto::v1};
use serde::Serialize;

use super::text;

/// A lock.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lock {
    name: String,
    mode: Option<&'static str>,
    holders: Vec<Holder>,
    holder_count: u64,
    /// None but for semaphores.
    limit: Option<u32>,
    permits_taken: Option<u32>,
    waiters: Vec<Waiter>,
    waiter_count: u64,
    fencing_token: i64,
    closed_for: Option<String>,
    lock_delay: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Holder {
    session_id: String,
    client_name: String,
    coordinator: String,
    fencing_token: i64,
    acquired_at: Option<String>,
    ttl: Option<String>,
    /// Escaped where it is not UTF-8.
    value: String,
    hold_count: u32,
    /// None but for semaphores.
    permits: Option<u32>,
    /// None if the client named none.
    actor: Option<String>,
    foreign: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiter {
    session_id: String,
    client_name: String,
    coordinator: String,
    waiting_since: Option<String>,
    position: u64,
    mode: Option<&'static str>,
    permits: Option<u32>,
    actor: Option<String>,
}

/// What a force release did.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Released {
    pub(crate) released: bool,
    pub(crate) fencing_token: i64,
}

/// How all coordinators are doing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Coordinators {
    pub(crate) coordinators: Vec<Coordinator>,
}

/// How one coordinator is doing: what it answered, or why it could not be asked.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Coordinator {
    endpoint: String,
    /// None if the endpoint's name has none.
    address: Option<String>,
    /// None if it could not be asked, as everything below except for `serving` and `error`.
    coordinator: Option<String>,
    version: Option<String>,
    uptime: Option<String>,
    serving: bool,
    /// None if it serves, or does not tell.
    reason: Option<String>,
    /// None if it does not tell, as everything below except for `error`.
    store: Option<String>,
    store_state: Option<&'static str>,
    session_count: Option<u64>,
    hold_count: Option<u64>,
    waiter_count: Option<u64>,
    /// Why it could not be asked; none if it answered.
    error: Option<String>,
}

impl From<&CoordinatorStatus> for Coordinator {
    fn from(row: &CoordinatorStatus) -> Self {
        let status = row.status.as_ref().ok();
        let told = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Self {
            endpoint: row.endpoint.clone(),
            address: row.address.map(|address| address.to_string()),
            coordinator: status.map(|status| status.coordinator.clone()),
            version: status.map(|status| status.version.clone()),
            uptime: status.and_then(|status| Some(status.uptime?.to_string())),
            serving: row.is_serving(),
            reason: status.and_then(|status| told(&status.reason)),
            store: status.and_then(|status| told(&status.store)),
            store_state: status.and_then(|status| match status.store_state() {
                v1::StoreState::Unspecified => None,
                state => Some(state.as_str_name()),
            }),
            session_count: status.and_then(|status| status.session_count),
            hold_count: status.and_then(|status| status.hold_count),
            waiter_count: status.and_then(|status| status.waiter_count),
            error: row.status.as_ref().err().map(ToString::to_string),
        }
    }
}

impl From<&v1::LockView> for Lock {
    fn from(view: &v1::LockView) -> Self {
        Self {
            name: view.name.clone(),
            mode: mode(view.mode()),
            holders: view.holders.iter().map(Holder::from).collect(),
            holder_count: view.holder_count,
            limit: unless_zero(view.limit),
            permits_taken: (view.limit > 0).then_some(view.permits_taken),
            waiters: view.waiters.iter().map(Waiter::from).collect(),
            waiter_count: view.waiter_count,
            fencing_token: view.fencing_token,
            closed_for: view.closed_for.map(|duration| duration.to_string()),
            lock_delay: view.lock_delay.map(|duration| duration.to_string()),
        }
    }
}

impl From<&v1::Holder> for Holder {
    fn from(holder: &v1::Holder) -> Self {
        Self {
            session_id: holder.session_id.clone(),
            client_name: holder.client_name.clone(),
            coordinator: holder.coordinator.clone(),
            fencing_token: holder.fencing_token,
            acquired_at: holder.acquired_at.map(|time| time.to_string()),
            ttl: holder.ttl.map(|duration| duration.to_string()),
            value: text::escaped(&holder.value),
            hold_count: holder.hold_count,
            permits: unless_zero(holder.permits),
            actor: unless_zero(holder.actor).map(|actor| actor.to_string()),
            foreign: holder.foreign,
        }
    }
}

impl From<&v1::Waiter> for Waiter {
    fn from(waiter: &v1::Waiter) -> Self {
        Self {
            session_id: waiter.session_id.clone(),
            client_name: waiter.client_name.clone(),
            coordinator: waiter.coordinator.clone(),
            waiting_since: waiter.waiting_since.map(|time| time.to_string()),
            position: waiter.position,
            mode: mode(waiter.mode()),
            permits: unless_zero(waiter.permits),
            actor: unless_zero(waiter.actor).map(|actor| actor.to_string()),
        }
    }
}

pub(super) fn mode(mode: v1::LockMode) -> Option<&'static str> {
    match mode {
        v1::LockMode::Unspecified => None,
        mode => Some(mode.as_str_name()),
    }
}

/// The wire API says 0 where there is nothing to say.
fn unless_zero<T: Default + PartialEq>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}

/// Prints one document to standard output.
pub(crate) fn print(document: &impl Serialize) -> anyhow::Result<()> {
    super::table::print(&serde_json::to_string_pretty(document)?)?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_the_field_names_of_the_wire_api() {
        let view = v1::LockView {
            name: "a".into(),
            mode: v1::LockMode::Exclusive.into(),
            holders: vec![v1::Holder {
                fencing_token: 7,
                ttl: Some(prost_types::Duration {
                    seconds: 9,
                    nanos: 500_000_000,
                }),
                acquired_at: Some(prost_types::Timestamp {
                    seconds: 0,
                    nanos: 0,
                }),
                value: b"v\xff".to_vec(),
                ..Default::default()
            }],
            waiter_count: 2,
            fencing_token: 7,
            ..Default::default()
        };
        let json = serde_json::to_value(Lock::from(&view)).unwrap();
        assert_eq!(json["mode"], "LOCK_MODE_EXCLUSIVE");
        assert_eq!(json["waiterCount"], 2);
        assert_eq!(json["fencingToken"], 7);
        assert_eq!(json["closedFor"], serde_json::Value::Null);
        let holder = &json["holders"][0];
        assert_eq!(holder["ttl"], "9.500s");
        assert_eq!(holder["acquiredAt"], "1970-01-01T00:00:00Z");
        assert_eq!(holder["value"], r"v\xff");
        // Null is what there is none of.
        for none in [&json["limit"], &json["permitsTaken"], &holder["permits"]] {
            assert_eq!(none, &serde_json::Value::Null);
        }
        assert_eq!(holder["actor"], serde_json::Value::Null);
    }

    #[test]
    fn a_semaphore_has_its_permits_and_actors_are_text() {
        let view = v1::LockView {
            mode: v1::LockMode::Semaphore.into(),
            holders: vec![v1::Holder {
                permits: 2,
                actor: u64::MAX,
                hold_count: 3,
                ..Default::default()
            }],
            holder_count: 150,
            limit: 9,
            permits_taken: 8,
            waiters: vec![v1::Waiter {
                mode: v1::LockMode::Semaphore.into(),
                permits: 4,
                actor: 5,
                ..Default::default()
            }],
            ..Default::default()
        };
        let json = serde_json::to_value(Lock::from(&view)).unwrap();
        assert_eq!(json["mode"], "LOCK_MODE_SEMAPHORE");
        assert_eq!(json["holderCount"], 150);
        assert_eq!(json["limit"], 9);
        assert_eq!(json["permitsTaken"], 8);
        let holder = &json["holders"][0];
        assert_eq!(holder["permits"], 2);
        assert_eq!(holder["actor"], "18446744073709551615");
        assert_eq!(holder["holdCount"], 3);
        let waiter = &json["waiters"][0];
        assert_eq!(waiter["mode"], "LOCK_MODE_SEMAPHORE");
        assert_eq!(waiter["permits"], 4);
        assert_eq!(waiter["actor"], "5");
    }

    #[test]
    fn a_semaphore_of_which_nothing_is_taken_says_so() {
        // Held exclusively, and waited for by those who want permits.
        let view = v1::LockView {
            mode: v1::LockMode::Exclusive.into(),
            limit: 9,
            ..Default::default()
        };
        let json = serde_json::to_value(Lock::from(&view)).unwrap();
        assert_eq!(json["limit"], 9);
        assert_eq!(json["permitsTaken"], 0);
    }
}
