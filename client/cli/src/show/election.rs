//! Elections, as text and as JSON.

use std::time::SystemTime;

use leasehold_client::{Leader, LeaderChange};

use super::{
    json::{self, Json, document},
    table::Table,
    text,
};

/// Describes the present leader.
pub(crate) fn now(election: &str, leader: Option<&Leader>, now: SystemTime) -> String {
    let mut facts = Table::new(&["election", &text::escaped(election)]);
    let Some(leader) = leader else {
        facts.fact("leader", "nobody leads");
        return facts.to_string();
    };
    facts.fact("leader", who(leader));
    facts.fact("token", text::token(leader.fencing_token));
    facts.fact_if_any("session", &leader.session_id);
    facts.fact_if_any("coordinator", &leader.coordinator);
    facts.fact("since", text::time(leader.elected_at));
    facts.fact(
        "leads for",
        text::or_dash(text::age(leader.elected_at, now)),
    );
    facts.fact_if_any("value", &leader.value);
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

document!(leader: Option<Leader> {
    "leader": leader.as_ref().map(Json),
});

document!(change: LeaderChange {
    "leader": change.leader.as_ref().map(Json),
    "skipped": change.skipped,
});

document!(leader: Leader {
    "fencingToken": json::token(leader.fencing_token),
    "value": json::bytes(&leader.value),
    "clientName": leader.client_name,
    "sessionId": leader.session_id,
    "coordinator": leader.coordinator,
    "electedAt": leader.elected_at.map(json::time),
});
