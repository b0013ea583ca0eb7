//! Scene of a few actors that block each other, and its end.

use std::time::Duration;

use futures_util::future::{FutureExt, select_all};
use leasehold_proto::v1::{
    GrantedLock, SessionAcquire, SessionFailure, SessionResponse, session_response::Response,
};

use leasehold_tests::{Site, raw::PROMPT};

use crate::deadlocks::client::{Client, Waiting, deadlock};

/// An actor: of which of the scene's clients, and its number.
pub(crate) type Who = (usize, u64);

/// Clients, and what their actors hold and wait for.
pub(crate) struct Scene {
    clients: Vec<Client>,
    held: Vec<(Who, GrantedLock)>,
    waiting: Vec<(Who, Waiting)>,
    /// Every owner id and ticket that a message has shown.
    secrets: Vec<Vec<u8>>,
}

impl Scene {
    /// Returns this many clients, one at each coordinator in turn.
    pub(crate) async fn set(site: &Site, clients: usize) -> Self {
        let mut scene = Self {
            clients: Vec::new(),
            held: Vec::new(),
            waiting: Vec::new(),
            secrets: Vec::new(),
        };
        for at in 0..clients {
            scene.clients.push(Client::at(site, at).await);
        }
        scene
    }

    /// Makes one of a client's actors take a free lock.
    pub(crate) async fn holds(&mut self, client: usize, acquire: SessionAcquire) {
        let who = (client, acquire.actor);
        let locks = self.clients[client].take(acquire).await;
        self.gets(who, locks);
    }

    /// Makes it wait for a lock that is not free.
    pub(crate) async fn waits(&mut self, client: usize, acquire: SessionAcquire) {
        let who = (client, acquire.actor);
        let waiting = self.clients[client].wait_for(acquire).await;
        self.secrets.push(waiting.ticket.clone());
        self.waiting.push((who, waiting));
    }

    /// Makes it ask for a lock that is refused at once, with this reason.
    pub(crate) async fn is_refused(
        &mut self,
        client: usize,
        acquire: SessionAcquire,
        reason: &str,
    ) {
        let id = self.clients[client].ask_for(acquire).await;
        match self.clients[client].outcome(id, PROMPT).await {
            Response::Error(failure) => assert_eq!(failure.reason, reason, "{failure:?}"),
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Makes an actor release its locks, one by one.
    pub(crate) async fn lets_go(&mut self, who: Who) {
        let held = std::mem::take(&mut self.held);
        let (its, others): (Vec<_>, Vec<_>) = held.into_iter().partition(|(by, _)| *by == who);
        self.held = others;
        for (_, lock) in its {
            self.clients[who.0].release(&[lock]).await;
        }
    }

    /// Does the same for one hold of a name alone.
    pub(crate) async fn lets_go_of(&mut self, who: Who, name: &str) {
        let is_it = |(by, lock): &(Who, GrantedLock)| *by == who && lock.name == name;
        let place = self.held.iter().position(is_it).expect("it holds the name");
        let (_, lock) = self.held.remove(place);
        self.clients[who.0].release(&[lock]).await;
    }

    /// Waits until an actor is granted the lock that it waits for; returns the actor.
    pub(crate) async fn next_granted(&mut self, limit: Duration) -> Who {
        let (who, answer) = self.next(limit, |_| true).await;
        match answer {
            Response::Granted(granted) => self.gets(who, granted.locks),
            other => panic!("{who:?} was answered by {other:?}"),
        }
        who
    }

    /// Returns whether no wait has been answered, once all messages of the coordinators so far were read.
    pub(crate) async fn all_wait(&mut self) -> bool {
        for client in &mut self.clients {
            client.heartbeat().await;
        }
        // What was read is there at once.
        self.next(PROMPT, |_| true).now_or_never().is_none()
    }

    /// Waits for the end of the deadlock: the wait of `victim` fails, and its message names every actor in `circle`, beginning
    /// with the victim, and these locks. Returns the message.
    pub(crate) async fn ends(&mut self, victim: Who, circle: &[Who], names: &[&str]) -> String {
        // What a victim held on the way to more is given back by itself: another may have been granted it by now.
        let is_failure = |answer: &Response| !matches!(answer, Response::Granted(_));
        let (who, answer) = self.next(PROMPT, is_failure).await;
        assert_eq!(who, victim, "the victim is the youngest wait: {answer:?}");
        let SessionFailure { message, .. } = deadlock(answer);
        for (place, (client, actor)) in circle.iter().enumerate() {
            let named = format!(
                "session {} (client \"raw\") actor {actor}",
                self.clients[*client].id
            );
            // And not another actor, whose number only begins like this one.
            let mut mentions = message.match_indices(&named).filter(|(at, _)| {
                let rest = &message[at + named.len()..];
                !rest.starts_with(|next: char| next.is_ascii_digit())
            });
            let at = mentions.next().map(|(at, _)| at);
            assert!(at.is_some(), "{named} is missing: {message}");
            assert_eq!(at == Some(0), place == 0, "the victim is first: {message}");
        }
        for name in names {
            assert!(message.contains(&format!("{name:?}")), "{name}: {message}");
        }
        for secret in &self.secrets {
            assert!(!tells(&message, secret), "a secret was told: {message}");
        }
        message
    }

    /// Releases everything that the victim holds; every other actor is granted the lock that it waits for, then releases
    /// likewise; nothing is left.
    pub(crate) async fn goes_on(mut self, victim: Who) {
        self.lets_go(victim).await;
        while !self.waiting.is_empty() {
            let who = self.next_granted(PROMPT).await;
            // One thing after the other: it waits for nothing else.
            self.lets_go(who).await;
        }
        for (who, lock) in std::mem::take(&mut self.held) {
            self.clients[who.0].release(&[lock]).await;
        }
        for client in self.clients {
            client.close().await;
        }
    }

    fn gets(&mut self, who: Who, locks: Vec<GrantedLock>) {
        for lock in locks {
            self.secrets.push(lock.owner_id.clone());
            self.held.push((who, lock));
        }
    }

    /// Returns the next such answer to a waiting client, and the client.
    async fn next(
        &mut self,
        limit: Duration,
        is_it: impl Fn(&Response) -> bool + Send + Sync,
    ) -> (Who, Response) {
        let (waiting, is_it) = (&self.waiting, &is_it);
        let answers = self.clients.iter_mut().enumerate().map(|(number, client)| {
            let ids: Vec<u64> = waiting
                .iter()
                .filter(|((client, _), _)| *client == number)
                .map(|(_, waiting)| waiting.request_id)
                .collect();
            async move {
                if ids.is_empty() {
                    std::future::pending::<()>().await;
                }
                let wanted = |message: &SessionResponse| {
                    ids.contains(&message.request_id)
                        && message.response.as_ref().is_some_and(is_it)
                };
                (number, client.find(limit, wanted).await)
            }
            .boxed()
        });
        let ((number, answer), ..) = select_all(answers).await;
        let is_its = |((client, _), waiting): &(Who, Waiting)| {
            *client == number && waiting.request_id == answer.request_id
        };
        let place = waiting.iter().position(is_its).expect("it was asked for");
        let (who, _) = self.waiting.swap_remove(place);
        (who, answer.response.expect("an answer says something"))
    }
}

/// Returns whether a text has these bytes in it, as they are or in one of the usual ways of writing them.
fn tells(text: &str, bytes: &[u8]) -> bool {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = text.to_lowercase();
    let plain: String = text.chars().filter(|it| *it != '-').collect();
    let lossy = String::from_utf8_lossy(bytes).to_lowercase();
    plain.contains(&hex) || text.contains(&*lossy) || text.contains(&format!("{bytes:?}"))
}

#[test]
fn secrets_are_recognised() {
    let secret = [0xc0, 0xff, 0xee, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x7f];
    for told in [
        "xc0ffee000102030405060708090a0b7fx",
        "C0FFEE00-0102-0304-0506-0708090A0B7F",
        "[192, 255, 238, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 127]",
        &String::from_utf8_lossy(&secret),
    ] {
        assert!(tells(told, &secret), "{told}");
    }
    assert!(!tells("c0ffee", &secret));
}
