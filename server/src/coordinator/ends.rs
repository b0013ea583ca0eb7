//! Table of the sessions that operators can end here, by their ids and those from which they have resumed something.

use std::{collections::BTreeMap, sync::Arc};

use leasehold_core::{
    ended::{EndedCount, Mark},
    id::{Predecessors, SessionId},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    end_order::EndOrder,
    inbox::{Inbox, InboxEvent},
};
use crate::access::rules::Granted;

/// The sessions of this coordinator, by the ids whose end ends them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Ends(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// By the id that is ended, and the session's own id.
    sessions: Mutex<BTreeMap<(SessionId, SessionId), Arc<Inbox>>>,
    /// Ended sessions, holds and waits that the store does not know of yet.
    reports: Mutex<Vec<(Mark, EndedCount)>>,
    reported: Notify,
}

/// A session that operators can end, for as long as this lives.
#[derive(Debug)]
pub struct Endable {
    ends: Ends,
    id: SessionId,
    inbox: Arc<Inbox>,
    predecessors: Vec<SessionId>,
    ended: Option<(Mark, EndedCount)>,
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

    /// Orders the marked session, and those that have resumed something from it, to end. Tells each once, until it says that it
    /// goes on.
    pub fn end(&self, mark: Mark, granted: &Granted) {
        let id = mark.session;
        let (first, last) = (
            SessionId::from_bytes([0; 16]),
            SessionId::from_bytes([255; 16]),
        );
        let mut sessions = self.0.sessions.lock();
        let told: Vec<_> = sessions
            .range((id, first)..=(id, last))
            .map(|(key, _)| *key)
            .collect();
        if told.is_empty() {
            return;
        }
        let granted = granted.clone();
        let order = Arc::new(EndOrder { mark, granted });
        for key in told {
            if let Some(inbox) = sessions.remove(&key) {
                inbox.put(InboxEvent::EndedByOperator(Arc::clone(&order)));
            }
        }
    }
}

impl Ends {
    /// Takes out what has ended, or may not, because of a mark, and was not reported yet.
    pub(super) fn report(&self) -> Option<(Mark, EndedCount)> {
        self.0.reports.lock().pop()
    }

    /// Waits until there is something to report. Only one task may; it may give up at any point.
    pub(super) async fn reported(&self) {
        while self.0.reports.lock().is_empty() {
            self.0.reported.notified().await;
        }
    }

    fn tell(&self, (mark, count): (Mark, EndedCount)) {
        let mut reports = self.0.reports.lock();
        match reports.iter_mut().find(|(reported, _)| *reported == mark) {
            Some((_, reported)) => *reported = reported.plus(count),
            None => reports.push((mark, count)),
        }
        drop(reports);
        self.0.reported.notify_one();
    }
}

impl Endable {
    /// Returns the session's id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Takes note that the session has resumed something from these.
    pub fn succeeds(&mut self, predecessors: &Predecessors) {
        for predecessor in predecessors.iter() {
            if !self.predecessors.contains(&predecessor) {
                self.predecessors.push(predecessor);
                self.goes_on(predecessor);
            }
        }
    }

    /// Takes note that the session did not end when the session of this id was to.
    pub fn goes_on(&self, id: SessionId) {
        let mut sessions = self.ends.0.sessions.lock();
        sessions.insert((id, self.id), Arc::clone(&self.inbox));
    }

    /// Does the same, because the operator may not administer all that it has.
    pub fn denies(&self, mark: &Mark) {
        self.goes_on(mark.session);
        let denied = EndedCount {
            denied: 1,
            ..EndedCount::default()
        };
        self.ends.tell((mark.clone(), denied));
    }

    /// Takes note that the session ends because of this mark, with so many holds and acquires.
    pub fn ends(&mut self, mark: &Mark, holds: usize, acquires: usize) {
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        self.ended.get_or_insert_with(|| {
            let ended = EndedCount {
                sessions: 1,
                holds: count(holds),
                waiters: count(acquires),
                denied: 0,
            };
            (mark.clone(), ended)
        });
    }
}

impl Drop for Endable {
    fn drop(&mut self) {
        let mut sessions = self.ends.0.sessions.lock();
        for id in self.predecessors.iter().chain([&self.id]) {
            sessions.remove(&(*id, self.id));
        }
        drop(sessions);
        if let Some(report) = self.ended.take() {
            self.ends.tell(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u8) -> Mark {
        Mark {
            session: SessionId::from_bytes([number; 16]),
            by: "token:operator".into(),
        }
    }

    fn told(inbox: &Inbox) -> Vec<Mark> {
        let mut events = Vec::new();
        inbox.take(&mut events);
        let told = events.into_iter().filter_map(|event| match event {
            InboxEvent::EndedByOperator(order) => Some(order.mark.clone()),
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
                let endable = ends.add(mark(number).session, &inbox);
                (inbox, endable)
            })
            .unzip();
        let end = |number| ends.end(mark(number), &Granted::Everything);
        endables[1].succeeds(&Predecessors::new([mark(1).session, mark(9).session]));
        endables[1].succeeds(&Predecessors::new([mark(1).session]));
        end(1);
        assert_eq!(told(&inboxes[0]), [mark(1)]);
        assert_eq!(told(&inboxes[1]), [mark(1)]);
        assert_eq!(told(&inboxes[2]), []);
        end(1);
        assert_eq!(told(&inboxes[0]), []);
        // One that goes on can be ended later.
        endables[1].denies(&mark(1));
        end(1);
        assert_eq!(told(&inboxes[1]), [mark(1)]);
        // What ended for one reason is counted for that one.
        end(9);
        endables[1].ends(&mark(1), 2, 3);
        endables[1].ends(&mark(9), 0, 0);
        drop(endables);
        assert!(ends.0.sessions.lock().is_empty());
        let count = EndedCount {
            sessions: 1,
            holds: 2,
            waiters: 3,
            denied: 1,
        };
        let reports = std::mem::take(&mut *ends.0.reports.lock());
        assert_eq!(reports, [(mark(1), count)]);
    }
}
