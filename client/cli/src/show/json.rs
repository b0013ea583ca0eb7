//! The JSON that programs read: the fields of the wire API by their JSON names, durations as seconds with an `s`,
//! times as RFC 3339, tokens as numbers (they stay below 2^53).

use leasehold_client::proto::v1;
use serde::Serialize;

use super::text;

/// A lock.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lock {
    name: String,
    mode: Option<&'static str>,
    holders: Vec<Holder>,
    waiters: Vec<Waiter>,
    waiter_count: u64,
    fencing_token: i64,
    closed_for: Option<String>,
    lock_delay: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Holder {
    session_id: String,
    client_name: String,
    coordinator: String,
    fencing_token: i64,
    acquired_at: Option<String>,
    ttl: Option<String>,
    /// Escaped where it is not UTF-8.
    value: String,
    hold_count: u32,
    foreign: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiter {
    session_id: String,
    client_name: String,
    coordinator: String,
    waiting_since: Option<String>,
    position: u64,
}

/// What a force release did.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Released {
    pub(crate) released: bool,
    pub(crate) fencing_token: i64,
}

/// How a coordinator is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) endpoint: String,
    pub(crate) serving: bool,
    pub(crate) services: Vec<Service>,
    /// None if they could not be counted.
    pub(crate) sessions: Option<usize>,
    pub(crate) locks_held: Option<usize>,
    pub(crate) waiters: Option<u64>,
}

/// The health of one service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) status: &'static str,
}

impl From<&v1::LockView> for Lock {
    fn from(view: &v1::LockView) -> Self {
        Self {
            name: view.name.clone(),
            mode: match view.mode() {
                v1::LockMode::Unspecified => None,
                mode => Some(mode.as_str_name()),
            },
            holders: view.holders.iter().map(Holder::from).collect(),
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
        }
    }
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
    }
}
