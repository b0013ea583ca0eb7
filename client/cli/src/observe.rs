//! `leader`, `observe` and `watch`: leaders of elections, and changes of locks.

use std::time::SystemTime;

use anyhow::Context;
use leasehold_client::LockWatchEvent;

use crate::{
    connection::Connection,
    exit::{Exit, Outcome},
    follow::follow,
    show::{election, event, json, table},
};

/// Shows who leads an election.
pub(crate) async fn leader(connection: &Connection, name: &str, as_json: bool) -> Outcome {
    let leader = connection
        .admin()?
        .leader(name)
        .await
        .with_context(|| format!("failed to get the leader of election {name:?}"))?;
    if as_json {
        json::print(&election::Now::from(leader.as_ref()))?;
    } else {
        let text = election::now(name, leader.as_ref(), SystemTime::now());
        table::print(text.trim_end())?;
    }
    Ok(match leader {
        Some(_) => Exit::Success,
        None => Exit::NobodyLeads,
    })
}

/// Shows the leader of an election, and every change.
pub(crate) async fn observe(connection: &Connection, name: &str, as_json: bool) -> Outcome {
    let observer = connection.admin()?.observe(name);
    let what = format!("failed to observe election {name:?}");
    follow(observer, what, |change| {
        Ok(if as_json {
            serde_json::to_string(&election::Change::from(change))?
        } else {
            election::change(change)
        })
    })
    .await
}

/// Shows all locks, and every change.
pub(crate) async fn watch(connection: &Connection, prefix: &str, as_json: bool) -> Outcome {
    let watcher = connection.admin()?.watch_locks(prefix);
    let what = "failed to watch the locks".to_owned();
    // Number of locks in the snapshot so far.
    let mut locks = 0;
    follow(watcher, what, |news| {
        match news {
            LockWatchEvent::Lock(_) => locks += 1,
            LockWatchEvent::Gap(_) => locks = 0,
            _ => {}
        }
        Ok(if as_json {
            serde_json::to_string(&event::News::of(news, locks))?
        } else {
            event::line(news, locks)
        })
    })
    .await
}
