//! Cycles through a coordinator, one after the other: nothing but the request in hand is under way.

use std::time::Duration;

use leasehold_proto::v1::GrantedLock;
use leasehold_tests::{RawSession, raw::PROMPT};

const NAME: &str = "orders/00001";
/// Longer than any measurement: no lease is renewed meanwhile.
const TTL: Duration = Duration::from_secs(600);

/// One client, or several that wait in line for one name.
pub(crate) struct Clients {
    sessions: Vec<RawSession>,
    /// The numbers of the acquires.
    asked: Vec<u64>,
    /// The client that holds the name, and its lock, if there are several.
    holder: usize,
    held: Option<GrantedLock>,
}

impl Clients {
    /// Opens `count` sessions, on one coordinator after the other; if there are several, the first holds the name and all others
    /// wait.
    pub(crate) async fn open(endpoints: &[String], count: usize) -> Self {
        let mut clients = Self {
            sessions: Vec::new(),
            asked: vec![0; count],
            holder: 0,
            held: None,
        };
        for endpoint in endpoints.iter().cycle().take(count) {
            let session = RawSession::open(endpoint, TTL).await;
            clients.sessions.push(session);
        }
        if count > 1 {
            clients.held = Some(clients.sessions[0].acquire(NAME).await.lock);
            for waiter in 1..count {
                clients.queue(waiter, waiter).await;
            }
        }
        clients
    }

    async fn queue(&mut self, client: usize, place: usize) {
        let session = &mut self.sessions[client];
        self.asked[client] = session.ask(NAME, None).await;
        assert_eq!(session.queued(self.asked[client]).await, place as u64);
    }

    /// An acquire and a release; if others wait, the release of the holder, the grant of the next, and the acquire of a place at the
    /// end.
    pub(crate) async fn cycle(&mut self) {
        let (count, holder) = (self.sessions.len(), self.holder);
        let Some(held) = self.held.take() else {
            let session = &mut self.sessions[holder];
            let granted = session.acquire(NAME).await;
            assert!(session.release(&granted.lock).await);
            return;
        };
        assert!(self.sessions[holder].release(&held).await);
        self.holder = (holder + 1) % count;
        let asked = self.asked[self.holder];
        let granted = self.sessions[self.holder].granted(asked, PROMPT).await;
        self.held = Some(granted.lock);
        self.queue(holder, count - 1).await;
    }
}
