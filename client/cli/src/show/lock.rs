//! Locks as text: many in a list, or one with all its holders and waiters.

use std::{fmt, time::SystemTime};

use leasehold_client::{Holder, LockMode, LockView, Waiter};

use super::{table::Table, text};

/// Returns a line for each lock.
pub(crate) fn list(locks: &[LockView], now: SystemTime) -> Table {
    let mut out = Table::new(&[
        "NAME", "MODE", "HOLDER", "TOKEN", "HELD FOR", "TTL", "WAITERS",
    ]);
    for lock in locks {
        let holder = lock.holders.first();
        let since = holder.and_then(|holder| text::age(holder.acquired_at, now));
        let left = holder.map_or(lock.closed_for, |holder| holder.ttl);
        out.row(vec![
            text::escaped(&lock.name),
            mode(lock),
            holder.map_or_else(|| state(lock), |first| and_more(first, lock)),
            text::token(lock.fencing_token),
            text::or_dash(since),
            text::or_dash(left),
            lock.waiter_count.to_string(),
        ]);
    }
    out
}

/// Description of one lock, complete.
pub(crate) struct Whole<'a> {
    lock: &'a LockView,
    now: SystemTime,
}

/// Describes one lock completely.
pub(crate) fn whole(lock: &LockView, now: SystemTime) -> Whole<'_> {
    Whole { lock, now }
}

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { lock, now } = self;
        let beside_others = matches!(lock.mode, Some(LockMode::Shared | LockMode::Semaphore));
        facts(lock, beside_others, now).fmt(f)?;
        if beside_others && !lock.holders.is_empty() {
            writeln!(f)?;
            holders(lock, now).fmt(f)?;
            let rest = not_shown(holder_count(lock), lock.holders.len(), "that hold it");
            f.write_str(&rest)?;
        }
        if !lock.waiters.is_empty() {
            writeln!(f)?;
            waiters(lock, now).fmt(f)?;
            let rest = not_shown(lock.waiter_count, lock.waiters.len(), "that wait");
            f.write_str(&rest)?;
        }
        Ok(())
    }
}

/// Returns what there is to say about a lock besides its holders, if it has several, and its waiters.
fn facts(lock: &LockView, beside_others: bool, now: SystemTime) -> Table {
    let mut facts = Table::default();
    facts.fact("name", text::escaped(&lock.name));
    facts.fact("state", state(lock));
    facts.fact("newest token", text::token(lock.fencing_token));
    // A single holder is shown as facts, several in a line each.
    if !beside_others {
        for holder in &lock.holders {
            only_holder(&mut facts, holder, now);
        }
    }
    facts.fact_if_any("closed", closed_to(lock).unwrap_or_default());
    let delay = lock.lock_delay.map(text::duration);
    facts.fact_if_any("lock-delay", delay.unwrap_or_default());
    if beside_others {
        facts.fact("holders", holder_count(lock).to_string());
    }
    facts.fact("waiters", lock.waiter_count.to_string());
    facts
}

/// Returns a line about those that the table above it leaves out.
fn not_shown(count: u64, shown: usize, who: &str) -> String {
    match count.saturating_sub(shown as u64) {
        0 => String::new(),
        rest => format!("and {rest} more {who}\n"),
    }
}

fn only_holder(facts: &mut Table, holder: &Holder, now: SystemTime) {
    facts.fact("holder", text::holder(holder));
    facts.fact_if_any("session", &holder.session_id);
    facts.fact_if_any("peer", &holder.peer);
    facts.fact_if_any("actor", text::or_nothing(holder.actor));
    facts.fact_if_any("coordinator", &holder.coordinator);
    facts.fact(
        "held for",
        text::or_dash(text::age(holder.acquired_at, now)),
    );
    facts.fact_if_any("held", times(holder));
    facts.fact("ttl left", ttl_left(holder));
    let max_hold = holder.max_hold.map(text::duration);
    facts.fact_if_any("max hold", max_hold.unwrap_or_default());
    facts.fact_if_any("value", &holder.value);
}

fn holders(lock: &LockView, now: SystemTime) -> Table {
    let mut out = Table::new(&[
        "HOLDER",
        "PERMITS",
        "HELD",
        "TOKEN",
        "HELD FOR",
        "TTL LEFT",
        "SESSION",
        "PEER",
        "ACTOR",
        "COORDINATOR",
        "VALUE",
    ]);
    for holder in &lock.holders {
        // A session without a name is shown by its id, once.
        let session = match holder.client_name.is_empty() {
            true => String::new(),
            false => text::escaped(&holder.session_id),
        };
        out.row(vec![
            text::holder(holder),
            text::or_nothing(holder.permits),
            times(holder),
            text::token(holder.fencing_token),
            text::or_dash(text::age(holder.acquired_at, now)),
            ttl_left(holder),
            session,
            text::escaped(&holder.peer),
            text::or_nothing(holder.actor),
            text::escaped(&holder.coordinator),
            text::escaped(&holder.value),
        ]);
    }
    out.without_empty_columns()
}

fn waiters(lock: &LockView, now: SystemTime) -> Table {
    let mut out = Table::new(&[
        "",
        "WAITER",
        "WANTS",
        "WAITING FOR",
        "PEER",
        "ACTOR",
        "NUMBER",
        "COORDINATOR",
    ]);
    for waiter in &lock.waiters {
        out.row(vec![
            waiter.position.to_string(),
            text::waiter(waiter),
            wants(waiter, limit(lock)),
            text::or_dash(text::age(waiter.waiting_since, now)),
            text::escaped(&waiter.peer),
            text::or_nothing(waiter.actor),
            text::or_nothing(waiter.number),
            text::escaped(&waiter.coordinator),
        ]);
    }
    out.without_empty_columns()
}

/// Returns its mode, in a word, and for a semaphore the permits taken.
fn mode(lock: &LockView) -> String {
    match lock.mode {
        Some(LockMode::Semaphore) => format!("semaphore, {}", taken(lock)),
        Some(mode) => mode.to_string(),
        None => "-".into(),
    }
}

/// Returns the permits that are taken, of the limit.
fn taken(lock: &LockView) -> String {
    format!("{} of {}", lock.permits_taken, limit(lock))
}

fn limit(lock: &LockView) -> u32 {
    lock.limit.unwrap_or_default()
}

fn state(lock: &LockView) -> String {
    if !lock.holders.is_empty() {
        return match lock.mode {
            Some(LockMode::Shared) => format!("shared by {}", holder_count(lock)),
            Some(LockMode::Semaphore) => format!("{} permits taken", taken(lock)),
            _ => "held exclusively".into(),
        };
    }
    match lock.closed_for.map(text::duration) {
        None => "free".into(),
        Some(left) => match lock.mode {
            Some(LockMode::Shared) => format!("closed to exclusive holders for {left}"),
            Some(LockMode::Semaphore) => format!("{} permits closed for {left}", taken(lock)),
            _ => format!("closed for {left}"),
        },
    }
}

/// Describes the lock-delay of a hold that ended uncleanly while others hold the lock.
fn closed_to(lock: &LockView) -> Option<String> {
    let left = text::duration(lock.closed_for?);
    match lock.mode {
        _ if lock.holders.is_empty() => None,
        Some(LockMode::Semaphore) => Some(format!("the permits of lost holds, for {left}")),
        _ => Some(format!("to exclusive holders, for {left}")),
    }
}

fn wants(waiter: &Waiter, limit: u32) -> String {
    match waiter.mode {
        Some(LockMode::Semaphore) => {
            let permits = waiter.permits.unwrap_or_default();
            match waiter.permits_at_least {
                Some(least) => format!("{least} to {permits} of {limit} permits"),
                None => format!("{permits} of {limit} permits"),
            }
        }
        mode => mode.unwrap_or(LockMode::Exclusive).to_string(),
    }
}

/// Returns the first holder, and the number of others.
pub(crate) fn and_more(first: &Holder, lock: &LockView) -> String {
    let first = text::holder(first);
    match holder_count(lock).saturating_sub(1) {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}

/// Returns the number of holders, at least that of those shown.
fn holder_count(lock: &LockView) -> u64 {
    lock.holder_count.max(lock.holders.len() as u64)
}

fn times(holder: &Holder) -> String {
    match holder.hold_count {
        0 | 1 => String::new(),
        count => format!("{count} times"),
    }
}

fn ttl_left(holder: &Holder) -> String {
    holder.ttl.map_or("never ends".into(), text::duration)
}

#[cfg(test)]
mod tests;
