//! History of a lock, as text and as JSON.

use std::time::{Duration, SystemTime};

use super::story::{End, Hold, Other, Told};
use crate::show::{
    json::{self, Json, Wide, document},
    table::Table,
    text,
};

/// History of a lock.
#[derive(Debug)]
pub(super) struct History<'a> {
    pub(super) name: &'a str,
    pub(super) told: Told,
    /// Lines that could not be read.
    pub(super) skipped: u64,
}

/// Shows the holds, and below what else happened.
pub(super) fn text(history: &History<'_>, now: SystemTime) -> String {
    let Told { holds, others } = &history.told;
    if holds.is_empty() && others.is_empty() {
        return format!(
            "these logs tell nothing of {:?}",
            text::escaped(history.name)
        );
    }
    let mut parts = Vec::new();
    if !holds.is_empty() {
        let mut table = Table::new(&[
            "GRANTED",
            "HELD",
            "WAITED",
            "TOKEN",
            "MODE",
            "HOLDER",
            "IDENTITY",
            "COORDINATOR",
            "END",
        ]);
        for hold in holds {
            table.row(row(hold, now));
        }
        parts.push(table.without_empty_columns().to_string());
    }
    if !others.is_empty() {
        let mut table = Table::new(&["TIME", "EVENT", "WHAT", "BY", "COORDINATOR"]);
        for other in others {
            table.row(vec![
                text::time(Some(other.time)),
                text::escaped(&other.event),
                text::escaped(&other.what),
                who(other.identity.as_deref()),
                text::escaped(&other.coordinator),
            ]);
        }
        parts.push(table.to_string());
    }
    parts.join("\n")
}

fn who(identity: Option<&str>) -> String {
    identity.map_or_else(|| "-".to_owned(), text::escaped)
}

fn row(hold: &Hold, now: SystemTime) -> Vec<String> {
    let mode = match (hold.mode.as_str(), hold.permits) {
        ("exclusive", _) => String::new(),
        (mode, Some(permits)) => format!("{} {permits}", text::escaped(mode)),
        (mode, None) => text::escaped(mode),
    };
    let session = hold.session.as_deref().unwrap_or_default();
    let identity = hold.identity.as_deref().map(text::escaped);
    vec![
        text::time(hold.granted_at),
        text::or_dash(hold.held()),
        text::or_dash(hold.waited),
        hold.token.to_string(),
        mode,
        text::client(&hold.client, session),
        identity.unwrap_or_default(),
        text::escaped(&hold.coordinator),
        end(hold, now),
    ]
}

/// Describes how a hold ended, or what is known if no line tells.
fn end(hold: &Hold, now: SystemTime) -> String {
    let mut words = match (&hold.end, hold.over_by) {
        (Some(end), None) => ended(end),
        (Some(_), Some(at)) => format!("left by its coordinator, over by {}", text::time(Some(at))),
        (None, Some(at)) => format!("not told, over by {}", text::time(Some(at))),
        (None, None) => {
            let held = text::age(hold.granted_at, now);
            format!(
                "not told: held for {} by now, or its coordinator died",
                text::or_dash(held)
            )
        }
    };
    for (_, coordinator) in &hold.resumed {
        words.push_str(&format!(", resumed at {}", text::escaped(coordinator)));
    }
    words
}

fn ended(end: &End) -> String {
    let at = text::time(Some(end.time));
    let (event, why) = (text::escaped(&end.event), text::escaped(&end.why));
    let how = event.replace('_', "-");
    match why.as_str() {
        "" => format!("{how} {at}"),
        why => format!("{how} {at} ({})", why.replace('_', " ")),
    }
}

fn span(of: Option<Duration>) -> Option<String> {
    of.map(json::duration)
}

document!(history: History<'_> {
    "name": history.name,
    "holds": Json(&history.told.holds),
    "others": Json(&history.told.others),
    "skippedLines": Wide(history.skipped),
});

document!(hold: Hold {
    "fencingToken": Wide(hold.token),
    "isElection": hold.is_election,
    "mode": hold.mode,
    "permits": hold.permits,
    "clientName": hold.client,
    "identity": hold.identity,
    "sessionId": hold.session,
    "coordinator": hold.coordinator,
    "acquiredAt": hold.granted_at.map(json::time),
    "waited": span(hold.waited),
    "held": span(hold.held()),
    "resumedAt": hold.resumed.iter().map(|(at, _)| json::time(*at)).collect::<Vec<_>>(),
    "endedAt": hold.end.as_ref().filter(|_| !hold.is_open()).map(|end| json::time(end.time)),
    "end": hold.end.as_ref().map(|end| end.event.as_str()),
    "why": hold.end.as_ref().map(|end| end.why.as_str()),
    "overBy": hold.over_by.map(json::time),
});

document!(other: Other {
    "time": json::time(other.time),
    "event": other.event,
    "what": other.what,
    "identity": other.identity,
    "coordinator": other.coordinator,
});
