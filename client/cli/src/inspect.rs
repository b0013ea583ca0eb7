//! `ls`, `get` and `release`.

use std::time::{Duration, SystemTime};

use anyhow::Context;
use leasehold_client::{FencingToken, LockView};

use crate::{
    connection::Connection,
    exit::{Exit, Mistake, Outcome},
    say::say,
    show::{
        self,
        json::{Asked, Json},
        lock,
        table::Table,
        text,
    },
};

/// Options of `ls`.
#[derive(clap::Args, Debug)]
pub(crate) struct ListOptions {
    /// Show only names with this prefix
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,

    /// Show one page of about this many locks, instead of all: 1 to 1000. If there are more, the token of the next page is
    /// printed on standard error
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    page_size: Option<u16>,

    /// Show the page with this token, which the page before it printed [default: the first page]
    #[arg(
        long,
        value_name = "TOKEN",
        default_value = "",
        hide_default_value = true
    )]
    page_token: String,
}

/// Lists locks, sorted by name.
pub(crate) async fn list(connection: &Connection, options: &ListOptions, as_json: bool) -> Outcome {
    const WHAT: &str = "failed to list the locks";
    let (admin, prefix) = (connection.admin()?, &options.prefix);
    if options.page_size.is_none() && options.page_token.is_empty() {
        let locks = sorted(admin.list_locks(prefix).await.context(WHAT)?);
        return show::answer(as_json, Json(&locks), || listed(&locks));
    }
    let page = admin.list_locks_page(
        prefix,
        options.page_size.unwrap_or_default(),
        &options.page_token,
    );
    let mut page = page.await.context(WHAT)?;
    page.locks = sorted(page.locks);
    let exit = show::answer(as_json, Json(&page), || listed(&page.locks))?;
    if let Some(token) = page.next_page_token.filter(|_| !as_json) {
        say(format_args!("there may be more: --page-token {token}"));
    }
    Ok(exit)
}

/// Returns each lock once, in the order of the names: a scan has no order, and may find a lock twice.
fn sorted(mut locks: Vec<LockView>) -> Vec<LockView> {
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    locks.dedup_by(|a, b| a.name == b.name);
    locks
}

fn listed(locks: &[LockView]) -> Table {
    lock::list(locks, SystemTime::now()).or_say("no locks")
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

/// Holds or wait that `release` ends.
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
    let shown = show::answer(as_json, Json(&answer), || {
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
    });
    shown.map(|shown| match answer.released {
        true => shown,
        false => Exit::NOTHING_THERE,
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
    let shown = show::answer(as_json, Json(&Asked(asked)), || match (asked, holder) {
        (0, Some(token)) => format!("no session holds it with the token {token}; nobody was asked"),
        (0, None) => "no session holds it; nobody was asked".to_owned(),
        (1, _) => "asked 1 holder to release it".to_owned(),
        (asked, _) => format!("asked {asked} holders to release it"),
    });
    shown.map(|shown| match asked {
        0 => Exit::NOTHING_THERE,
        _ => shown,
    })
}
