//! `leader`, `observe` and `watch`: leaders of elections, and changes of locks.

use std::time::SystemTime;

use anyhow::Context;
use leasehold_client::{LeaderChange, LockWatchEvent, LockWatcher, Observer};

use crate::{
    connection::Connection,
    exit::{Exit, Outcome},
    follow::follow,
    show::{self, colour, election, event, json::Json},
};

/// Shows who leads an election.
pub(crate) async fn leader(connection: &Connection, name: &str, as_json: bool) -> Outcome {
    let leader = connection
        .admin()?
        .leader(name)
        .await
        .with_context(|| format!("failed to get the leader of election {name:?}"))?;
    let text = || election::now(name, leader.as_ref(), SystemTime::now());
    show::answer(as_json, Json(&leader), text)?;
    Ok(match leader {
        Some(_) => Exit::SUCCESS,
        None => Exit::NOBODY_LEADS,
    })
}

/// Shows the leader of an election, and every change.
pub(crate) async fn observe(connection: &Connection, name: &str, as_json: bool) -> Outcome {
    let observer = connection.admin()?.observe(name);
    let what = format!("failed to observe election {name:?}");
    let line = |change: &LeaderChange| match as_json {
        true => serde_json::to_string(&Json(change)),
        false => Ok(election::change(change)),
    };
    follow(observer, Observer::next, Observer::interruption, what, line).await
}

/// Shows all locks, and every change.
pub(crate) async fn watch(connection: &Connection, prefix: &str, as_json: bool) -> Outcome {
    let watcher = connection.admin()?.watch_locks(prefix);
    let what = "failed to watch the locks".to_owned();
    // Number of locks in the snapshot so far.
    let mut locks = 0;
    let coloured = colour::is_on();
    let line = |news: &LockWatchEvent| {
        match news {
            LockWatchEvent::Lock(_) => locks += 1,
            LockWatchEvent::Gap(_) => locks = 0,
            _ => {}
        }
        match as_json {
            true => event::document(news, locks),
            false if coloured => Ok(event::coloured_line(news, locks)),
            false => Ok(event::line(news, locks)),
        }
    };
    let interruption = LockWatcher::interruption;
    follow(watcher, LockWatcher::next, interruption, what, line).await
}
