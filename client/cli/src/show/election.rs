//! Elections, as text and as JSON.

use std::time::SystemTime;

use leasehold_client::{Leader, LeaderChange};
use serde::Serialize;

use super::{
    json::{self, Wide},
    table::Table,
    text,
};

/// Describes the present leader.
pub(crate) fn now(election: &str, leader: Option<&Leader>, now: SystemTime) -> String {
    let mut facts = Table::new(&["election", &text::escaped(election.as_bytes())]);
    let Some(leader) = leader else {
        facts.fact("leader", "nobody leads");
        return facts.to_string();
    };
    facts.fact("leader", who(leader));
    facts.fact("token", text::token(leader.fencing_token));
    if !leader.session_id.is_empty() {
        facts.fact("session", text::escaped(leader.session_id.as_bytes()));
    }
    if !leader.coordinator.is_empty() {
        facts.fact("coordinator", text::escaped(leader.coordinator.as_bytes()));
    }
    facts.fact("since", text::time(leader.elected_at));
    facts.fact(
        "leads for",
        text::or_dash(text::age(leader.elected_at, now)),
    );
    if !leader.value.is_empty() {
        facts.fact("value", text::escaped(&leader.value));
    }
    facts.to_string()
}

/// Returns a line about a change: time, leader, token, and value.
pub(crate) fn change(change: &LeaderChange) -> String {
    let skipped = match change.skipped {
        true => " (skipped)",
        false => "",
    };
    let Some(leader) = &change.leader else {
        return format!("{:<24}  nobody leads{skipped}", "-");
    };
    let line = format!(
        "{:<24}  leads{skipped}  {}  {}  {}",
        text::time(leader.elected_at),
        text::token(leader.fencing_token),
        who(leader),
        text::escaped(&leader.value)
    );
    line.trim_end().to_owned()
}

fn who(leader: &Leader) -> String {
    text::client(&leader.client_name, &leader.session_id)
}

/// Present leader, as a document.
#[derive(Serialize)]
pub(crate) struct Now {
    /// Null while there is no leader.
    leader: Option<LeaderDocument>,
}

/// Change, as a document.
#[derive(Serialize)]
pub(crate) struct Change {
    leader: Option<LeaderDocument>,
    skipped: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LeaderDocument {
    fencing_token: Wide<i64>,
    /// Base64.
    value: String,
    client_name: String,
    session_id: String,
    coordinator: String,
    elected_at: Option<String>,
}

impl From<Option<&Leader>> for Now {
    fn from(leader: Option<&Leader>) -> Self {
        Self {
            leader: leader.map(LeaderDocument::from),
        }
    }
}

impl From<&LeaderChange> for Change {
    fn from(change: &LeaderChange) -> Self {
        Self {
            leader: change.leader.as_ref().map(LeaderDocument::from),
            skipped: change.skipped,
        }
    }
}

impl From<&Leader> for LeaderDocument {
    fn from(leader: &Leader) -> Self {
        Self {
            fencing_token: json::token(leader.fencing_token),
            value: json::bytes(&leader.value),
            client_name: leader.client_name.clone(),
            session_id: leader.session_id.clone(),
            coordinator: leader.coordinator.clone(),
            elected_at: leader.elected_at.map(json::time),
        }
    }
}
