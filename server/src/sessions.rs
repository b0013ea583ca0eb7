//! The sessions of this coordinator.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use leasehold_core::{id::SessionId, name::ClientName, time::Moment};
use parking_lot::Mutex;

use crate::telemetry::{Metrics, Tracked};

/// Number of sessions that are looked at in one go.
const PART: usize = 1024;

/// All sessions that are open here. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<BTreeMap<SessionId, Arc<SessionInfo>>>>);

/// One session, as operators may see it.
#[derive(Debug)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Name that its client gave itself.
    pub client_name: ClientName,
    /// Metadata that its client gave.
    pub metadata: HashMap<String, String>,
    /// The identity that it was opened by, if that was asked for.
    pub identity: Option<Arc<str>>,
    /// Address of its client.
    pub peer: String,
    /// Its TTL.
    pub ttl: Duration,
    /// Time of its opening, by the wall clock.
    pub opened_at: SystemTime,
    /// Number of its holds.
    pub holds: AtomicU32,
    /// Number of its acquires that are in flight or wait.
    pub waiters: AtomicU32,
    /// Time at which its last heartbeat was received, in microseconds of the monotonic clock.
    pub heard_at: AtomicU64,
    /// Since when what it holds is due to be renewed, on the same clock; 0 if it is not.
    pub renewal_due: AtomicU64,
}

impl SessionInfo {
    /// Returns the time at which its last heartbeat was received.
    pub fn heard_at(&self) -> Moment {
        Moment::from_micros(self.heard_at.load(Ordering::Relaxed))
    }

    /// Since when what it holds is due to be renewed, if it is.
    pub fn renewal_due(&self) -> Option<Moment> {
        let due = self.renewal_due.load(Ordering::Relaxed);
        (due != 0).then(|| Moment::from_micros(due))
    }

    /// Notes how many locks it holds, and how many acquires it has in flight or waiting.
    pub fn set_counts(&self, holds: usize, waiters: usize) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        self.holds.store(count(holds), Ordering::Relaxed);
        self.waiters.store(count(waiters), Ordering::Relaxed);
    }

    /// Notes when its last heartbeat was received.
    pub fn set_heard_at(&self, at: Moment) {
        self.heard_at.store(at.as_micros(), Ordering::Relaxed);
    }

    /// Notes that what it holds is due to be renewed, if that was not known.
    pub fn set_renewal_due(&self, now: Moment) {
        if self.renewal_due().is_none() {
            self.renewal_due.store(now.as_micros(), Ordering::Relaxed);
        }
    }

    /// Notes that nothing is due any more; gives since when it was.
    pub fn clear_renewal_due(&self) -> Option<Moment> {
        let due = self.renewal_due();
        self.renewal_due.store(0, Ordering::Relaxed);
        due
    }
}

/// Renewals that were not carried out in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateRenewals {
    /// Number of sessions that have one.
    pub sessions: usize,
    /// For how long the oldest has been due.
    pub oldest: Duration,
}

/// Totals over all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of their holds.
    pub holds: u64,
    /// Number of their acquires that wait or are in flight.
    pub waiters: u64,
}

/// A session's place among the others, for as long as this lives.
#[derive(Debug)]
pub struct Listed {
    sessions: Sessions,
    info: Arc<SessionInfo>,
    _tracked: Tracked,
}

impl Sessions {
    /// Lists a session.
    pub fn open(&self, info: SessionInfo, metrics: &Metrics) -> Listed {
        let info = Arc::new(info);
        self.0.lock().insert(info.id, Arc::clone(&info));
        Listed {
            sessions: self.clone(),
            info,
            _tracked: metrics.sessions.track(),
        }
    }

    /// Returns the session with this id, if it is here.
    pub fn get(&self, id: SessionId) -> Option<Arc<SessionInfo>> {
        self.0.lock().get(&id).map(Arc::clone)
    }

    /// At most `limit` of the sessions that are seen, in the order of their ids, from behind `after`.
    pub fn page(
        &self,
        after: Option<SessionId>,
        limit: usize,
        is_seen: impl Fn(&SessionInfo) -> bool,
    ) -> Vec<Arc<SessionInfo>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.0
            .lock()
            .range((from, Bound::Unbounded))
            .map(|(_, info)| info)
            .filter(|info| is_seen(info))
            .take(limit)
            .map(Arc::clone)
            .collect()
    }

    /// Returns the renewals that are due for longer than `patience` allows for the session's TTL.
    pub fn late_renewals(
        &self,
        now: Moment,
        patience: impl Fn(Duration) -> Duration,
    ) -> LateRenewals {
        let mut late = LateRenewals::default();
        self.visit(|info| {
            if let Some(due) = info.renewal_due()
                && due.until(now) > patience(info.ttl)
            {
                late.sessions += 1;
                late.oldest = late.oldest.max(due.until(now));
            }
        });
        late
    }

    /// Counts what all sessions have.
    pub fn load(&self) -> Load {
        let mut load = Load::default();
        self.visit(|info| {
            load.sessions += 1;
            load.holds += u64::from(info.holds.load(Ordering::Relaxed));
            load.waiters += u64::from(info.waiters.load(Ordering::Relaxed));
        });
        load
    }

    /// Looks at each session, a part at a time, so that no session waits long to be opened or to end.
    fn visit(&self, mut look: impl FnMut(&SessionInfo)) {
        let mut after = None;
        loop {
            let page = self.page(after, PART, |_| true);
            page.iter().for_each(|info| look(info));
            match page.last() {
                Some(last) if page.len() == PART => after = Some(last.id),
                _ => return,
            }
        }
    }
}

impl Listed {
    /// Returns the session as operators may see it.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.sessions.0.lock().remove(&self.info.id);
    }
}
