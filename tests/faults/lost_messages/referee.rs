//! Watches over a history as its clients see it.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use leasehold_proto::v1::GrantedLock;
use tokio::{sync::mpsc, time::timeout};

use crate::lost_messages::{
    DEAD_AFTER,
    clients::{Event, News},
};

/// First answer to an acquire.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    Queued,
    Granted,
    Failed,
}

/// Asserts that grants come one at a time, to everybody once, in the order of the queue, with rising tokens, and that
/// nobody is told anything else.
pub(crate) struct Referee {
    events: mpsc::UnboundedReceiver<Event>,
    /// The clients whose coordinator may be silent for so long that it counts as dead.
    silenced: Vec<usize>,
    /// The waiters, in order, each with the time since which it waits.
    waiting: VecDeque<(usize, Instant)>,
    /// The holder of the lock: from the grant until its release is sent.
    holder: Option<usize>,
    last_token: i64,
    queued: Vec<usize>,
    grants: HashMap<usize, GrantedLock>,
    failed: Vec<(usize, String)>,
    released: Vec<(usize, bool)>,
}

impl Referee {
    /// Returns a referee. It allows that clients are passed over whose coordinator has been silent for long enough to count as
    /// dead.
    pub(crate) fn new(events: mpsc::UnboundedReceiver<Event>, silenced: Vec<usize>) -> Self {
        Self {
            events,
            silenced,
            waiting: VecDeque::new(),
            holder: None,
            last_token: 0,
            queued: Vec::new(),
            grants: HashMap::new(),
            failed: Vec::new(),
            released: Vec::new(),
        }
    }

    pub(crate) fn last_token(&self) -> i64 {
        self.last_token
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.waiting.iter().map(|(client, _)| *client)
    }

    /// Returns the waiters that know that they wait.
    pub(crate) fn queued(&self) -> impl Iterator<Item = usize> + '_ {
        self.waiting().filter(|client| self.queued.contains(client))
    }

    /// Returns the client whose turn it is.
    pub(crate) fn next(&self) -> Option<usize> {
        self.holder.or_else(|| self.waiting().next())
    }

    /// Notes that a client asks for the lock.
    pub(crate) fn asks(&mut self, client: usize) {
        self.waiting.push_back((client, Instant::now()));
    }

    /// Notes that a client's release is being sent.
    pub(crate) fn gives_back(&mut self, client: usize) {
        assert_eq!(self.holder.take(), Some(client));
    }

    /// Returns the first answer to an acquire; `None` if none has come after `limit`.
    pub(crate) async fn first(&mut self, client: usize, limit: Duration) -> Option<First> {
        let queued = |referee: &Self| {
            if referee.failed.iter().any(|(failed, _)| *failed == client) {
                return Some(First::Failed);
            }
            if referee.grants.contains_key(&client) {
                return Some(First::Granted);
            }
            referee.queued.contains(&client).then_some(First::Queued)
        };
        self.until(limit, queued).await
    }

    /// Waits for a client's grant.
    ///
    /// # Panics
    ///
    /// If it has not come after `limit`.
    pub(crate) async fn granted(&mut self, client: usize, limit: Duration) -> GrantedLock {
        let granted = |referee: &Self| referee.grants.get(&client).cloned();
        let grant = self.until(limit, granted).await;
        grant.unwrap_or_else(|| panic!("no grant for client {client} within {limit:?}"))
    }

    /// Waits for the answer to a release: what was released, or why it failed.
    ///
    /// # Panics
    ///
    /// If it has not come after `limit`.
    pub(crate) async fn released(
        &mut self,
        client: usize,
        limit: Duration,
    ) -> Result<bool, String> {
        let answered = |referee: &Self| {
            if let Some((_, released)) = referee.released.iter().find(|(of, _)| *of == client) {
                return Some(Ok(*released));
            }
            let failed = referee.failed.iter().find(|(of, _)| *of == client);
            failed.map(|(_, reason)| Err(reason.clone()))
        };
        let answer = self.until(limit, answered).await;
        self.failed.retain(|(of, _)| *of != client);
        answer.unwrap_or_else(|| panic!("client {client}'s release is unanswered after {limit:?}"))
    }

    /// Takes news in until `found` finds something in them; none after `limit`.
    async fn until<T>(&mut self, limit: Duration, found: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(found) = found(self) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let event = timeout(left, self.events.recv()).await.ok()?;
            self.hear(event.expect("clients tell as long as the history lasts"));
        }
    }

    /// Asserts that everything was heard that there was to hear.
    pub(crate) fn finish(mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.hear(event);
        }
        assert!(self.waiting.is_empty(), "{:?} still wait", self.waiting);
        assert_eq!(self.holder, None);
    }

    fn hear(&mut self, Event { client, at, news }: Event) {
        match news {
            News::Queued => self.queued.push(client),
            News::Granted(lock) => {
                assert_eq!(
                    self.holder, None,
                    "client {client} was granted the lock beside the holder"
                );
                let turn = self.waiting().position(|waiting| waiting == client);
                let turn = turn.unwrap_or_else(|| panic!("client {client} had not asked"));
                for (passed_over, since) in self.waiting.iter().take(turn) {
                    let dead = self.silenced.contains(passed_over) && at - *since >= DEAD_AFTER;
                    assert!(dead, "client {client} was granted before {passed_over}");
                }
                self.waiting.remove(turn);
                assert!(
                    lock.fencing_token > self.last_token,
                    "token {} after {}",
                    lock.fencing_token,
                    self.last_token
                );
                self.last_token = lock.fencing_token;
                self.holder = Some(client);
                self.grants.insert(client, lock);
            }
            News::Released(released) => self.released.push((client, released)),
            News::Failed(reason) => {
                // Of an acquire, unless it was granted before: it waits no more.
                self.waiting.retain(|(waiting, _)| *waiting != client);
                self.failed.push((client, reason));
            }
            News::Unasked(what) => panic!("client {client} was told of itself: {what:?}"),
        }
    }
}
