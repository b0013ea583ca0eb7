//! `sessions`.

use std::time::SystemTime;

use anyhow::Context;
use leasehold_client::SessionView;

use crate::{
    connection::Connection,
    exit::{Exit, Outcome},
    show::{self, json::Json, table::Table, text},
};

/// Lists the sessions of the coordinator that is asked.
pub(crate) async fn list(connection: &Connection, as_json: bool) -> Outcome {
    let sessions = connection
        .admin()?
        .list_sessions()
        .await
        .context("failed to list the sessions")?;
    show::answer(as_json, Json(&sessions), || {
        table(&sessions, SystemTime::now()).or_say("no sessions")
    })
}

/// Ends a session.
pub(crate) async fn end(connection: &Connection, id: &str, as_json: bool) -> Outcome {
    let ended = connection
        .admin()?
        .end_session(id)
        .await
        .with_context(|| format!("failed to end session {id:?}"))?;
    let shown = show::answer(as_json, Json(&ended), || {
        let (holds, waits) = (ended.hold_count, ended.waiter_count);
        match (ended.ended, ended.session_count) {
            (false, _) => "there is no such session; nothing was ended".to_owned(),
            (true, 0) => format!(
                "no coordinator has the session; what it left was ended: {holds} held, {waits} waiting"
            ),
            (true, 1) => format!("ended the session: {holds} held, {waits} waiting"),
            (true, sessions) => format!(
                "ended the session and those that had resumed its locks, {sessions} in all: {holds} held, {waits} waiting"
            ),
        }
    });
    shown.map(|shown| match ended.ended {
        true => shown,
        false => Exit::NOTHING_THERE,
    })
}

fn table(sessions: &[SessionView], now: SystemTime) -> Table {
    let mut out = Table::new(&[
        "SESSION", "CLIENT", "PEER", "IDENTITY", "HELD", "WAITING", "OPEN FOR",
    ]);
    for session in sessions {
        let dash = |text: &str| match text {
            "" => "-".to_owned(),
            text => text::escaped(text),
        };
        out.row(vec![
            session.session_id.clone(),
            dash(&session.client_name),
            session.peer.clone(),
            dash(session.identity.as_deref().unwrap_or_default()),
            session.hold_count.to_string(),
            session.waiter_count.to_string(),
            text::or_dash(text::age(session.opened_at, now)),
        ]);
    }
    out
}
