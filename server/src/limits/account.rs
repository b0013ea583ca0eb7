//! Account of one caller: its sessions, and its recent requests.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::take_one;

const SECOND: u64 = 1_000_000_000;
/// What is owed is paid after so long at most: who lost much at once is not kept from asking for it anew.
const DEBT: u64 = 10 * SECOND;
/// So many accounts may be kept that nobody uses.
const UNUSED: usize = 1024;

/// What one caller has and has asked for.
#[derive(Debug, Default)]
pub struct Account {
    /// Tells callers apart: [`Caller::key`](crate::access::Caller::key).
    caller: Arc<str>,
    /// By when its requests so far would have been made at the rate that it may have them at, in nanoseconds since the
    /// coordinator's start. Not more than a second ahead, as many as it may make at once, unless it owes some.
    paid_until: AtomicU64,
    sessions: AtomicUsize,
    /// How many of those have no stream any more.
    without_stream: AtomicUsize,
}

impl Account {
    fn new(caller: Arc<str>) -> Self {
        Self {
            caller,
            ..Self::default()
        }
    }

    /// Returns the name by which callers are told apart.
    #[must_use]
    pub fn caller(&self) -> &Arc<str> {
        &self.caller
    }

    /// Counts a request at a time, of so many a second; 0 is any number. The error is for how long it has to wait.
    pub(super) fn take(&self, rate: u32, now: u64) -> Result<(), Duration> {
        let Some(each) = SECOND.checked_div(u64::from(rate)) else {
            return Ok(());
        };
        let paid_until = |before: u64| before.max(now) + each;
        let taken = self
            .paid_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
                Some(paid_until(before)).filter(|until| *until <= now + SECOND)
            });
        taken.map(drop).map_err(|before| {
            let wait = paid_until(before) - (now + SECOND);
            // In whole milliseconds, upwards: timers have no others.
            Duration::from_millis(wait.div_ceil(1_000_000))
        })
    }

    /// Returns how long a request has to wait before [`take`](Self::take) would count it at this rate; `None` if not at all.
    pub(super) fn wait(&self, rate: u32, now: u64) -> Option<Duration> {
        let each = SECOND.checked_div(u64::from(rate))?;
        let paid_until = self.paid_until.load(Ordering::Relaxed).max(now) + each;
        let wait = paid_until
            .checked_sub(now + SECOND)
            .filter(|wait| *wait > 0)?;
        Some(Duration::from_millis(wait.div_ceil(1_000_000)))
    }

    /// Counts requests that come together and are not refused one by one, at a rate of so many a second. Later requests wait
    /// until these are paid for.
    pub(super) fn owe(&self, requests: u32, rate: u32, now: u64) {
        let Some(each) = SECOND.checked_div(u64::from(rate)) else {
            return;
        };
        let most = now + SECOND + DEBT;
        let more = each.saturating_mul(u64::from(requests));
        // None are no news, and no time, either.
        if more > 0 {
            let owed = |before: u64| before.max(now).saturating_add(more).min(most.max(before));
            let owed = |before| Some(owed(before));
            let paid_until = &self.paid_until;
            let _ = paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, owed);
        }
    }

    /// Whether there is nothing to remember of it.
    fn is_blank(&self, now: u64) -> bool {
        self.paid_until.load(Ordering::Relaxed) <= now
    }
}

/// The accounts of all callers of late.
#[derive(Debug, Default)]
pub(super) struct Accounts(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    accounts: HashMap<Arc<str>, Arc<Account>>,
    /// When it has grown to this, those that nobody uses go.
    look_at: usize,
}

impl Accounts {
    /// The account of a caller, a new one if it has none.
    pub(super) fn of(&self, key: Arc<str>, now: u64) -> Arc<Account> {
        // A panic elsewhere can't leave the map torn: each use is one insert, look-up or removal.
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = book.accounts.get(&key) {
            return Arc::clone(account);
        }
        if book.accounts.len() >= book.look_at {
            book.accounts
                .retain(|_, account| Arc::strong_count(account) > 1 || !account.is_blank(now));
            // Looked at so seldom that it costs next to nothing for each that is added.
            book.look_at = UNUSED.max(2 * book.accounts.len());
        }
        let account = Arc::new(Account::new(Arc::clone(&key)));
        Arc::clone(book.accounts.entry(key).or_insert(account))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().map_or(0, |book| book.accounts.len())
    }
}

/// A caller's session has its place for as long as this lives.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct SessionPlace {
    account: Arc<Account>,
    has_stream: bool,
}

impl SessionPlace {
    /// `None` if the caller has so many already. One that `resumes` what another has takes the place of one without a stream.
    pub(super) fn take(account: Arc<Account>, limit: usize, resumes: bool) -> Option<Self> {
        let without_stream = account.without_stream.load(Ordering::Relaxed);
        let limit = if resumes {
            for_one_that_resumes(limit, without_stream)
        } else {
            limit
        };
        take_one(&account.sessions, limit).then(|| Self {
            account,
            has_stream: true,
        })
    }

    /// The session's stream has ended; what it has is kept for a while.
    pub fn stream_ended(&mut self) {
        if std::mem::replace(&mut self.has_stream, false) {
            self.account.without_stream.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// How many sessions there may be for one more that resumes what another has: as many that have a stream as there may be
/// sessions. With those that have none it is never more than twice as many.
pub const fn for_one_that_resumes(limit: usize, without_stream: usize) -> usize {
    let more = if without_stream < limit {
        without_stream
    } else {
        limit
    };
    limit.saturating_add(more)
}

impl Deref for SessionPlace {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.account
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        if !self.has_stream {
            self.account.without_stream.fetch_sub(1, Ordering::Relaxed);
        }
        self.account.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}
