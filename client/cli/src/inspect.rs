//! `ls`, `get` and `release`.

use std::{io, time::SystemTime};

use anyhow::Context;

use crate::{
    connection::Connection,
    exit::{Exit, Mistake, Outcome},
    show::{json, lock, table, text},
};

/// Lists locks, sorted by name.
pub(crate) async fn list(connection: &Connection, prefix: &str, as_json: bool) -> Outcome {
    let admin = connection.admin()?;
    let mut locks = admin
        .list_locks(prefix)
        .await
        .context("failed to list the locks")?;
    // A scan may return a lock twice.
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    locks.dedup_by(|a, b| a.name == b.name);
    if as_json {
        let locks: Vec<_> = locks.iter().map(json::Lock::from).collect();
        json::print(&locks)?;
        return Ok(Exit::Success);
    }
    if locks.is_empty() {
        table::print("no locks")?;
        return Ok(Exit::Success);
    }
    lock::list(&locks, SystemTime::now()).print(&mut io::stdout().lock())?;
    Ok(Exit::Success)
}

/// Shows one lock.
pub(crate) async fn get(connection: &Connection, name: &str, as_json: bool) -> Outcome {
    let lock = connection
        .admin()?
        .get_lock(name)
        .await
        .with_context(|| format!("failed to look at lock {name:?}"))?;
    if as_json {
        json::print(&json::Lock::from(&lock))?;
        return Ok(Exit::Success);
    }
    table::print(lock::whole(&lock, SystemTime::now()).trim_end())?;
    Ok(Exit::Success)
}

/// Takes a lock from all its holders.
pub(crate) async fn release(
    connection: &Connection,
    name: &str,
    force: bool,
    as_json: bool,
) -> Outcome {
    if !force {
        let mistake = format!(
            "lock {name:?} can only be released by its holders; to take it from them, who may still be at work, use \
             --force"
        );
        return Err(Mistake(mistake).into());
    }
    let answer = connection
        .admin()?
        .force_release(name)
        .await
        .with_context(|| format!("failed to release lock {name:?}"))?;
    if as_json {
        json::print(&json::Released {
            released: answer.released,
            fencing_token: json::token(answer.fencing_token),
        })?;
    } else if answer.released {
        table::print(&format!(
            "released; the token is {} now",
            text::token(answer.fencing_token)
        ))?;
    } else {
        table::print("it was free; nothing was released")?;
    }
    Ok(Exit::Success)
}
