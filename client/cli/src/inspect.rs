//! `ls`, `get` and `release`.

use std::time::{Duration, SystemTime};

use anyhow::Context;
use leasehold_client::FencingToken;

use crate::{
    connection::Connection,
    exit::{Mistake, Outcome},
    show::{
        self,
        json::{Asked, Json},
        lock, text,
    },
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

/// What `release` takes away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forced {
    All,
    Holder(FencingToken),
    Waiter(u64),
}

impl Forced {
    /// Returns what the options say; none if they don't.
    pub(crate) fn of(all: bool, holder: Option<i64>, waiter: Option<u64>) -> Option<Self> {
        let one = holder.map(|token| Self::Holder(token.into()));
        let one = one.or(waiter.map(Self::Waiter));
        one.or(all.then_some(Self::All))
    }
}

/// Takes a lock from its holders or from one of them, or ends a wait.
pub(crate) async fn release(
    connection: &Connection,
    name: &str,
    forced: Option<Forced>,
    as_json: bool,
) -> Outcome {
    let Some(forced) = forced else {
        let mistake = format!(
            "lock {name:?} can only be released by its holders; to ask them, use --ask; to take it from them, who may \
             still be at work, use --force"
        );
        return Err(Mistake(mistake).into());
    };
    let admin = connection.admin()?;
    let answer = match forced {
        Forced::All => admin.force_release(name).await,
        Forced::Holder(token) => admin.force_release_holder(name, token).await,
        Forced::Waiter(number) => admin.force_release_waiter(name, number).await,
    };
    let answer = answer.with_context(|| format!("failed to release lock {name:?}"))?;
    show::answer(as_json, Json(&answer), || {
        let token = text::token(answer.fencing_token);
        match (answer.released, forced) {
            (true, Forced::Waiter(number)) => format!("the wait of waiter {number} was ended"),
            (true, _) => format!("released; the token is {token} now"),
            (false, Forced::All) => "it was free; nothing was released".to_owned(),
            (false, Forced::Holder(token)) => {
                format!("no holder has the token {token}; nothing was released")
            }
            (false, Forced::Waiter(number)) => {
                format!("no waiter has the number {number}; nothing was ended")
            }
        }
    })
}

/// Asks the holders of a lock, or the one with this token, to release it.
pub(crate) async fn ask(
    connection: &Connection,
    name: &str,
    holder: Option<i64>,
    (reason, within): (String, Option<Duration>),
    as_json: bool,
) -> Outcome {
    let mut request = connection.admin()?.request_release(name).reason(reason);
    if let Some(token) = holder {
        request = request.holder(token.into());
    }
    if let Some(within) = within {
        request = request.within(within);
    }
    let asked = request.send().await;
    let asked = asked
        .with_context(|| format!("failed to ask the holders of lock {name:?} to release it"))?;
    show::answer(as_json, Json(&Asked(asked)), || match (asked, holder) {
        (0, Some(token)) => format!("no session holds it with the token {token}; nobody was asked"),
        (0, None) => "no session holds it; nobody was asked".to_owned(),
        (1, _) => "asked 1 holder to release it".to_owned(),
        (asked, _) => format!("asked {asked} holders to release it"),
    })
}
