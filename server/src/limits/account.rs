//! Account of one caller: its sessions, its watchers, and its recent requests.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Mutex, Semaphore};

const SECOND: u64 = 1_000_000_000;
/// Longest time until a debt is paid: a caller that lost much at once may soon ask for it again.
const DEBT: u64 = 10 * SECOND;
/// Most listings of one caller that are made, or sent, at a time.
const LISTINGS: usize = 4;
/// Most unused accounts that are kept.
const UNUSED: usize = 1024;

/// Sessions, watchers and recent requests of one caller.
#[derive(Debug, Default)]
pub struct Account {
    /// Tells callers apart: [`Caller::key`](crate::access::Caller::key).
    caller: Arc<str>,
    /// The time by which the permitted rate pays for its requests so far, in nanoseconds since the coordinator's start. At most
    /// a second ahead (the burst), unless it owes requests.
    paid_until: AtomicU64,
    pub(super) sessions: Arc<StreamCount>,
    pub(super) watchers: Arc<StreamCount>,
    ending: Arc<Mutex<()>>,
    listings: Listings,
}

/// Turns of a caller's listings.
#[derive(Debug)]
struct Listings(Arc<Semaphore>);

impl Default for Listings {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LISTINGS)))
    }
}

impl Account {
    fn new(caller: Arc<str>) -> Self {
        Self {
            caller,
            ..Self::default()
        }
    }

    /// Returns the name that distinguishes callers.
    #[must_use]
    pub fn caller(&self) -> &Arc<str> {
        &self.caller
    }

    /// Returns the turn of its calls that end a session, one at a time.
    #[must_use]
    pub fn ending(&self) -> &Arc<Mutex<()>> {
        &self.ending
    }

    /// Returns the turns of its listings, each of which may have a megabyte.
    #[must_use]
    pub fn listings(&self) -> &Arc<Semaphore> {
        &self.listings.0
    }

    /// Counts one request at time `now`, of at most `rate` a second; a rate of 0 is unlimited.
    ///
    /// # Errors
    ///
    /// The time to wait, if the caller has made as many as it may.
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
            // Rounds up to whole milliseconds, the resolution of timers.
            Duration::from_millis(wait.div_ceil(1_000_000))
        })
    }

    /// Returns how long a request must wait before [`take`](Self::take) counts it at this rate; `None` if it need not wait.
    pub(super) fn wait(&self, rate: u32, now: u64) -> Option<Duration> {
        let each = SECOND.checked_div(u64::from(rate))?;
        let paid_until = self.paid_until.load(Ordering::Relaxed).max(now) + each;
        let wait = paid_until
            .checked_sub(now + SECOND)
            .filter(|wait| *wait > 0)?;
        Some(Duration::from_millis(wait.div_ceil(1_000_000)))
    }

    /// Counts requests that come together and are not refused one by one, at this rate a second. Later requests wait until
    /// these are paid for.
    pub(super) fn owe(&self, requests: u32, rate: u32, now: u64) {
        let Some(each) = SECOND.checked_div(u64::from(rate)) else {
            return;
        };
        let most = now + SECOND + DEBT;
        let more = each.saturating_mul(u64::from(requests));
        // No requests cost nothing.
        if more > 0 {
            let owed = |before: u64| before.max(now).saturating_add(more).min(most.max(before));
            let owed = |before| Some(owed(before));
            let paid_until = &self.paid_until;
            let _ = paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, owed);
        }
    }

    /// Returns whether the account may be forgotten.
    fn is_blank(&self, now: u64) -> bool {
        self.paid_until.load(Ordering::Relaxed) <= now
    }
}

/// Accounts of all recent callers.
#[derive(Debug, Default)]
pub(super) struct Accounts(parking_lot::Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    accounts: HashMap<Arc<str>, Arc<Account>>,
    /// The size at which unused accounts are dropped.
    look_at: usize,
}

impl Accounts {
    /// Returns the account of a caller, a new one if it has none.
    pub(super) fn of(&self, key: Arc<str>, now: u64) -> Arc<Account> {
        let mut book = self.0.lock();
        if let Some(account) = book.accounts.get(&key) {
            return Arc::clone(account);
        }
        if book.accounts.len() >= book.look_at {
            book.accounts
                .retain(|_, account| Arc::strong_count(account) > 1 || !account.is_blank(now));
            // The bound doubles, so that the cost for each added account is constant.
            book.look_at = UNUSED.max(2 * book.accounts.len());
        }
        let account = Arc::new(Account::new(Arc::clone(&key)));
        Arc::clone(book.accounts.entry(key).or_insert(account))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().accounts.len()
    }
}

/// Number of sessions, and of those that may be replaced by one that resumes what they have; or number of watchers.
#[derive(Debug, Default)]
pub(super) struct StreamCount {
    all: AtomicUsize,
    replaceable: AtomicUsize,
}

/// One of a [`StreamCount`], for as long as this lives.
#[derive(Debug)]
pub(super) struct Counted {
    count: Arc<StreamCount>,
    is_replaceable: bool,
}

impl StreamCount {
    /// Returns the number.
    pub(super) fn count(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Counts one; returns `None` if there are `limit` already. One that `resumes` may replace another, so that there may be as many
    /// again as are replaceable, and never more than twice the limit.
    pub(super) fn take(self: &Arc<Self>, limit: usize, resumes: bool) -> Option<Counted> {
        let replaceable = self.replaceable.load(Ordering::Relaxed);
        let more = if resumes { replaceable.min(limit) } else { 0 };
        take_one(&self.all, limit.saturating_add(more)).then(|| Counted {
            count: Arc::clone(self),
            is_replaceable: false,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_replaceable {
            self.count.replaceable.fetch_sub(1, Ordering::Relaxed);
        }
        self.count.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Place of a session among those of its caller, and among all, taken for as long as this lives.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct SessionPlace {
    pub(super) account: Arc<Account>,
    pub(super) counted: [Counted; 2],
}

impl SessionPlace {
    /// Notes that another session may resume what this one has: its stream has ended, or it was asked to move.
    pub fn may_be_replaced(&mut self) {
        for counted in &mut self.counted {
            if !std::mem::replace(&mut counted.is_replaceable, true) {
                counted.count.replaceable.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Deref for SessionPlace {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.account
    }
}

/// Place of a watcher or observer among those of its caller, and among all, taken for as long as this lives.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct WatcherPlace {
    /// Not forgotten meanwhile.
    pub(super) _account: Arc<Account>,
    pub(super) _counted: [Counted; 2],
}

/// Adds one, unless the limit is reached.
fn take_one(count: &AtomicUsize, limit: usize) -> bool {
    count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            (count < limit).then_some(count + 1)
        })
        .is_ok()
}
