//! Table of the sessions that operators can end here, by their ids and those from which they have resumed something.

use std::{collections::BTreeMap, sync::Arc};

use leasehold_core::{
    ended::EndedCount,
    id::{Predecessors, SessionId},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::inbox::{Inbox, InboxEvent};

/// The sessions of this coordinator, by the ids whose end ends them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Ends(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// By the id that is ended, and the session's own id.
    sessions: Mutex<BTreeMap<(SessionId, SessionId), Arc<Inbox>>>,
    /// Ended sessions, holds and waits that the store does not know of yet.
    reports: Mutex<Vec<(SessionId, EndedCount)>>,
    reported: Notify,
}

/// A session that operators can end, for as long as this lives.
#[derive(Debug)]
pub struct Endable {
    ends: Ends,
    id: SessionId,
    inbox: Arc<Inbox>,
    predecessors: Vec<SessionId>,
    ended: Option<(SessionId, EndedCount)>,
}

impl Ends {
    /// Adds a session.
    pub fn add(&self, id: SessionId, inbox: &Arc<Inbox>) -> Endable {
        let mut sessions = self.0.sessions.lock();
        sessions.insert((id, id), Arc::clone(inbox));
        Endable {
            ends: self.clone(),
            id,
            inbox: Arc::clone(inbox),
            predecessors: Vec::new(),
            ended: None,
        }
    }

    /// Tells the session of this id, and those that have resumed something from it, that an operator has ended it. Tells each once.
    pub fn end(&self, id: SessionId) {
        let (first, last) = (
            SessionId::from_bytes([0; 16]),
            SessionId::from_bytes([255; 16]),
        );
        let mut sessions = self.0.sessions.lock();
        let told: Vec<_> = sessions
            .range((id, first)..=(id, last))
            .map(|(key, _)| *key)
            .collect();
        for key in told {
            if let Some(inbox) = sessions.remove(&key) {
                inbox.put(InboxEvent::EndedByOperator(id));
            }
        }
    }
}

impl Ends {
    /// Takes out what has ended because of a mark, and was not reported yet.
    pub(super) fn report(&self) -> Option<(SessionId, EndedCount)> {
        self.0.reports.lock().pop()
    }

    /// Waits until there is something to report. Only one task may; it may give up at any point.
    pub(super) async fn reported(&self) {
        while self.0.reports.lock().is_empty() {
            self.0.reported.notified().await;
        }
    }
}

impl Endable {
    /// Takes note that the session has resumed something from these.
    pub fn succeeds(&mut self, predecessors: &Predecessors) {
        for predecessor in predecessors.iter() {
            if !self.predecessors.contains(&predecessor) {
                self.predecessors.push(predecessor);
                let mut sessions = self.ends.0.sessions.lock();
                sessions.insert((predecessor, self.id), Arc::clone(&self.inbox));
            }
        }
    }

    /// Takes note that the session ends because of this mark, with so many holds and acquires.
    pub fn ends(&mut self, mark: SessionId, holds: usize, acquires: usize) {
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        self.ended.get_or_insert((
            mark,
            EndedCount {
                sessions: 1,
                holds: count(holds),
                waiters: count(acquires),
            },
        ));
    }
}

impl Drop for Endable {
    fn drop(&mut self) {
        let shared = &self.ends.0;
        let mut sessions = shared.sessions.lock();
        for id in self.predecessors.iter().chain([&self.id]) {
            sessions.remove(&(*id, self.id));
        }
        drop(sessions);
        if let Some(report) = self.ended {
            shared.reports.lock().push(report);
            shared.reported.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u8) -> SessionId {
        SessionId::from_bytes([number; 16])
    }

    fn told(inbox: &Inbox) -> Vec<SessionId> {
        let mut events = Vec::new();
        inbox.take(&mut events);
        let told = events.into_iter().filter_map(|event| match event {
            InboxEvent::EndedByOperator(id) => Some(id),
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn the_end_of_a_session_is_told_to_it_and_to_those_that_have_resumed_from_it_once() {
        let ends = Ends::default();
        let (inboxes, mut endables): (Vec<_>, Vec<_>) = (1..=3)
            .map(|number| {
                let inbox = Arc::<Inbox>::default();
                let endable = ends.add(session(number), &inbox);
                (inbox, endable)
            })
            .unzip();
        endables[1].succeeds(&Predecessors::new([session(1), session(9)]));
        endables[1].succeeds(&Predecessors::new([session(1)]));
        ends.end(session(1));
        assert_eq!(told(&inboxes[0]), [session(1)]);
        assert_eq!(told(&inboxes[1]), [session(1)]);
        assert_eq!(told(&inboxes[2]), []);
        ends.end(session(1));
        assert_eq!(told(&inboxes[0]), []);
        assert_eq!(told(&inboxes[1]), []);
        // What ended for one reason is counted for that one.
        ends.end(session(9));
        endables[1].ends(session(1), 2, 3);
        endables[1].ends(session(9), 0, 0);
        drop(endables);
        assert!(ends.0.sessions.lock().is_empty());
        let count = EndedCount {
            sessions: 1,
            holds: 2,
            waiters: 3,
        };
        let reports = std::mem::take(&mut *ends.0.reports.lock());
        assert_eq!(reports, [(session(1), count)]);
    }
}
