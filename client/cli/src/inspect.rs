//! `ls`, `get` and `release`.

use std::time::SystemTime;

use anyhow::Context;

use crate::{
    connection::Connection,
    exit::{Mistake, Outcome},
    show::{self, json::Json, lock, text},
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
    show::answer(as_json, Json(&locks), || match locks.is_empty() {
        true => "no locks".to_owned(),
        false => lock::list(&locks, SystemTime::now()).to_string(),
    })
}

/// Shows one lock.
pub(crate) async fn get(connection: &Connection, name: &str, as_json: bool) -> Outcome {
    let lock = connection
        .admin()?
        .get_lock(name)
        .await
        .with_context(|| format!("failed to look at lock {name:?}"))?;
    let text = || lock::whole(&lock, SystemTime::now());
    show::answer(as_json, Json(&lock), text)
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
    show::answer(as_json, Json(&answer), || match answer.released {
        true => format!(
            "released; the token is {} now",
            text::token(answer.fencing_token)
        ),
        false => "it was free; nothing was released".to_owned(),
    })
}
