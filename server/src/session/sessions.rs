//! The sessions of this coordinator.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use leasehold_core::{id::SessionId, name::ClientName, time::Moment};

use crate::telemetry::{Metrics, Tracked};

/// All sessions that are open here. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    open: Arc<Mutex<BTreeMap<SessionId, Arc<SessionInfo>>>>,
}

/// What may be seen of one session.
#[derive(Debug)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// What its client calls itself.
    pub client_name: ClientName,
    /// What its client says of itself.
    pub metadata: HashMap<String, String>,
    /// Where it came from.
    pub peer: String,
    /// Its TTL.
    pub ttl: Duration,
    /// When it was opened, by the wall clock.
    pub opened_at: SystemTime,
    /// How many locks it holds.
    pub holds: AtomicU32,
    /// How many acquires it has in flight or waiting.
    pub waiters: AtomicU32,
    /// When its last heartbeat was received, in microseconds of the monotonic clock.
    pub heard_at: AtomicU64,
}

impl SessionInfo {
    /// When its last heartbeat was received.
    pub fn heard_at(&self) -> Moment {
        Moment::from_micros(self.heard_at.load(Ordering::Relaxed))
    }
}

/// A session's place among the others, for as long as this lives.
#[derive(Debug)]
pub struct Listed {
    sessions: Sessions,
    info: Arc<SessionInfo>,
    _tracked: Tracked,
}

impl Sessions {
    /// Lists a session; `None` if there are `limit` already.
    pub fn open(&self, info: SessionInfo, limit: usize, metrics: &Metrics) -> Option<Listed> {
        let info = Arc::new(info);
        let mut open = self.lock();
        if open.len() >= limit {
            return None;
        }
        open.insert(info.id, Arc::clone(&info));
        drop(open);
        Some(Listed {
            sessions: self.clone(),
            info,
            _tracked: metrics.sessions.track(),
        })
    }

    /// At most `limit` sessions in the order of their ids, from behind `after`.
    pub fn page(&self, after: Option<SessionId>, limit: usize) -> Vec<Arc<SessionInfo>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.lock()
            .range((from, Bound::Unbounded))
            .take(limit)
            .map(|(_, info)| Arc::clone(info))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<SessionInfo>>> {
        // A panic elsewhere can't leave the map torn: each use is one insert, look-up or removal.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listed {
    /// What may be seen of the session.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.info.id);
    }
}
