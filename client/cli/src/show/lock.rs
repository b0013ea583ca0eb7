//! Locks as text: many in a list, or one with all its holders and waiters.

use std::time::SystemTime;

use leasehold_client::proto::v1;

use super::{table::Table, text};

/// Returns a line for each lock.
pub(crate) fn list(locks: &[v1::LockView], now: SystemTime) -> Table {
    let mut out = Table::new(&[
        "NAME", "MODE", "HOLDER", "TOKEN", "HELD FOR", "TTL", "WAITERS",
    ]);
    for lock in locks {
        let holder = lock.holders.first();
        let since = holder.and_then(|holder| text::age(holder.acquired_at, now));
        let left = holder.map_or(lock.closed_for, |holder| holder.ttl);
        out.row(vec![
            text::escaped(lock.name.as_bytes()),
            mode(lock),
            holder.map_or_else(|| state(lock), |first| and_more(first, lock)),
            text::token(lock.fencing_token),
            text::or_dash(since),
            text::or_dash(text::wire_duration(left)),
            lock.waiter_count.to_string(),
        ]);
    }
    out
}

/// Describes one lock completely.
pub(crate) fn whole(lock: &v1::LockView, now: SystemTime) -> String {
    let mut facts = Table::new(&["name", &text::escaped(lock.name.as_bytes())]);
    facts.fact("state", state(lock));
    facts.fact("newest token", text::token(lock.fencing_token));
    // A single holder is shown as facts, several in a line each.
    let beside_others = matches!(lock.mode(), v1::LockMode::Shared | v1::LockMode::Semaphore);
    if !beside_others {
        for holder in &lock.holders {
            only_holder(&mut facts, holder, now);
        }
    }
    if let Some(closed) = closed_to(lock) {
        facts.fact("closed", closed);
    }
    if let Some(delay) = text::wire_duration(lock.lock_delay) {
        facts.fact("lock-delay", text::duration(delay));
    }
    if beside_others {
        facts.fact("holders", holder_count(lock).to_string());
    }
    facts.fact("waiters", lock.waiter_count.to_string());
    let mut out = facts.to_string();
    if beside_others && !lock.holders.is_empty() {
        out.push_str(&format!("\n{}", holders(lock, now)));
        out.push_str(&not_shown(
            holder_count(lock),
            lock.holders.len(),
            "that hold it",
        ));
    }
    if !lock.waiters.is_empty() {
        out.push_str(&format!("\n{}", waiters(lock, now)));
        out.push_str(&not_shown(
            lock.waiter_count,
            lock.waiters.len(),
            "that wait",
        ));
    }
    out
}

/// Returns a line about those that the table above it leaves out.
fn not_shown(count: u64, shown: usize, who: &str) -> String {
    match count.saturating_sub(shown as u64) {
        0 => String::new(),
        rest => format!("and {rest} more {who}\n"),
    }
}

fn only_holder(facts: &mut Table, holder: &v1::Holder, now: SystemTime) {
    facts.fact("holder", text::holder(holder));
    if !holder.session_id.is_empty() {
        facts.fact("session", text::escaped(holder.session_id.as_bytes()));
    }
    if holder.actor != 0 {
        facts.fact("actor", holder.actor.to_string());
    }
    if !holder.coordinator.is_empty() {
        facts.fact("coordinator", text::escaped(holder.coordinator.as_bytes()));
    }
    facts.fact(
        "held for",
        text::or_dash(text::age(holder.acquired_at, now)),
    );
    if holder.hold_count > 1 {
        facts.fact("held", times(holder));
    }
    facts.fact("ttl left", ttl_left(holder));
    if !holder.value.is_empty() {
        facts.fact("value", text::escaped(&holder.value));
    }
}

fn holders(lock: &v1::LockView, now: SystemTime) -> Table {
    let mut out = Table::new(&[
        "HOLDER",
        "PERMITS",
        "HELD",
        "TOKEN",
        "HELD FOR",
        "TTL LEFT",
        "SESSION",
        "ACTOR",
        "COORDINATOR",
        "VALUE",
    ]);
    for holder in &lock.holders {
        // A session without a name is shown by its id, once.
        let session = match holder.client_name.is_empty() {
            true => String::new(),
            false => text::escaped(holder.session_id.as_bytes()),
        };
        out.row(vec![
            text::holder(holder),
            text::unless_zero(holder.permits),
            times(holder),
            text::token(holder.fencing_token),
            text::or_dash(text::age(holder.acquired_at, now)),
            ttl_left(holder),
            session,
            text::unless_zero(holder.actor),
            text::escaped(holder.coordinator.as_bytes()),
            text::escaped(&holder.value),
        ]);
    }
    out.without_empty_columns()
}

fn waiters(lock: &v1::LockView, now: SystemTime) -> Table {
    let mut out = Table::new(&["", "WAITER", "WANTS", "WAITING FOR", "ACTOR", "COORDINATOR"]);
    for waiter in &lock.waiters {
        out.row(vec![
            waiter.position.to_string(),
            text::waiter(waiter),
            wants(waiter, lock.limit),
            text::or_dash(text::age(waiter.waiting_since, now)),
            text::unless_zero(waiter.actor),
            text::escaped(waiter.coordinator.as_bytes()),
        ]);
    }
    out.without_empty_columns()
}

/// Returns its mode, in a word, and for a semaphore the permits taken.
fn mode(lock: &v1::LockView) -> String {
    match lock.mode() {
        v1::LockMode::Unspecified => "-".into(),
        v1::LockMode::Exclusive => "exclusive".into(),
        v1::LockMode::Shared => "shared".into(),
        v1::LockMode::Semaphore => {
            format!("semaphore, {} of {}", lock.permits_taken, lock.limit)
        }
    }
}

fn state(lock: &v1::LockView) -> String {
    let mode = lock.mode();
    let permits = || format!("{} of {} permits", lock.permits_taken, lock.limit);
    if !lock.holders.is_empty() {
        return match mode {
            v1::LockMode::Shared => format!("shared by {}", holder_count(lock)),
            v1::LockMode::Semaphore => format!("{} taken", permits()),
            _ => "held exclusively".into(),
        };
    }
    match text::wire_duration(lock.closed_for).map(text::duration) {
        None => "free".into(),
        Some(left) => match mode {
            v1::LockMode::Shared => format!("closed to exclusive holders for {left}"),
            v1::LockMode::Semaphore => format!("{} closed for {left}", permits()),
            _ => format!("closed for {left}"),
        },
    }
}

/// Describes the lock-delay of a hold that ended uncleanly while others hold the lock.
fn closed_to(lock: &v1::LockView) -> Option<String> {
    let left = text::duration(text::wire_duration(lock.closed_for)?);
    match lock.mode() {
        _ if lock.holders.is_empty() => None,
        v1::LockMode::Semaphore => Some(format!("the permits of lost holds, for {left}")),
        _ => Some(format!("to exclusive holders, for {left}")),
    }
}

fn wants(waiter: &v1::Waiter, limit: u32) -> String {
    match waiter.mode() {
        v1::LockMode::Unspecified | v1::LockMode::Exclusive => "exclusive".into(),
        v1::LockMode::Shared => "shared".into(),
        v1::LockMode::Semaphore => format!("{} of {limit} permits", waiter.permits),
    }
}

/// Returns the first holder, and the number of others.
pub(super) fn and_more(first: &v1::Holder, lock: &v1::LockView) -> String {
    let first = text::holder(first);
    match holder_count(lock).saturating_sub(1) {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}

/// Returns the number of holders, at least that of those shown.
fn holder_count(lock: &v1::LockView) -> u64 {
    lock.holder_count.max(lock.holders.len() as u64)
}

fn times(holder: &v1::Holder) -> String {
    match holder.hold_count {
        0 | 1 => String::new(),
        count => format!("{count} times"),
    }
}

fn ttl_left(holder: &v1::Holder) -> String {
    text::wire_duration(holder.ttl).map_or("never ends".into(), text::duration)
}

#[cfg(test)]
mod tests;
