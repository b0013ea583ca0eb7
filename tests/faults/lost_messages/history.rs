//! History of one lock, held by several clients of several coordinators in turn, while something goes wrong.

use std::time::{Duration, Instant};

use leasehold_tests::{redis_proxy::Counts, wait};
use tokio::sync::mpsc;

use crate::lost_messages::{
    PROMPT,
    clients::{Client, Kind},
    referee::{First, Referee},
    site::Site,
    trouble::Trouble,
};

/// One client: where it asks, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub(crate) place: usize,
    pub(crate) kind: Kind,
}

const fn session(place: usize) -> Role {
    let kind = Kind::Session;
    Role { place, kind }
}

const fn unary(place: usize) -> Role {
    let kind = Kind::Unary;
    Role { place, kind }
}

const fn dying(place: usize) -> Role {
    let kind = Kind::Dying;
    Role { place, kind }
}

/// The clients of a history, in the order in which they ask: hand-offs within and across coordinators, the latter from clients that die.
pub(crate) const CAST: &[Role] = &[
    session(0),
    dying(0),
    session(1),
    unary(1),
    dying(1),
    session(0),
];
/// Returns the clients to whom the lock is handed by another coordinator than theirs.
pub(crate) fn crossings() -> Vec<usize> {
    (1..CAST.len())
        .filter(|client| CAST[*client].place != CAST[client - 1].place)
        .collect()
}

/// Result of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Played {
    /// Script calls.
    pub(crate) calls: u64,
    /// From the first acquire to the last release.
    pub(crate) took: Duration,
}

struct History<'a> {
    site: &'a Site,
    trouble: Trouble,
    before: Counts,
    lock: String,
    clients: Vec<Client>,
    referee: Referee,
    granted: Vec<String>,
}

/// Plays a history on a site, under a name of its own, and asserts all that must hold.
pub(crate) async fn play(site: &Site, trouble: Trouble, number: usize) -> Played {
    let lock = format!("lost/{number}");
    site.listening().await;
    let idle = site.idle_keys(&lock).await;
    let (events, heard) = mpsc::unbounded_channel();
    let mut clients = Vec::new();
    for (client, role) in CAST.iter().enumerate() {
        // Unlike any other's, and no part of any other's.
        let name = format!("<{lock}/{client}>");
        let channel = site.places[role.place].channel.clone();
        let told = events.clone();
        clients.push(Client::start((client, name, role.kind), channel, &lock, told).await);
    }
    let before = site.counts();
    trouble.begin(site).await;
    let mut history = History {
        site,
        trouble,
        before,
        lock,
        clients,
        referee: Referee::new(heard, trouble.silences()),
        granted: Vec::new(),
    };
    let began = Instant::now();
    history.all_ask().await;
    history.all_take_turns().await;
    let played = Played {
        calls: site.counts().calls - before.calls,
        took: began.elapsed(),
    };
    history.settle().await;
    trouble.end(site, before).await;
    let last = history.referee.last_token();
    let last = site.nothing_is_left(&history.lock, &idle, last).await;
    if trouble.keeps() {
        // Long after everybody has given it up.
        site.deliver().await;
        site.nothing_is_left(&history.lock, &idle, last).await;
    }
    for client in history.clients {
        client.close().await;
    }
    history.referee.finish();
    assert_eq!(site.written(&history.lock).await, history.granted);
    played
}

impl History<'_> {
    /// Makes every client ask for the lock, one after the other.
    async fn all_ask(&mut self) {
        for (client, member) in CAST.iter().enumerate() {
            self.settle().await;
            let name = &self.clients[client].name;
            self.trouble.before_acquire(self.site, client, name);
            self.referee.asks(client);
            self.clients[client].acquire();
            let first = if member.kind == Kind::Unary {
                self.first_of_call(client).await
            } else {
                let first = self.referee.first(client, PROMPT).await;
                first.expect("an acquire is answered")
            };
            let fails = self.trouble.fails_acquire(client);
            assert_eq!(first == First::Failed, fails, "client {client}: {first:?}");
        }
        // What is left in Redis of an acquire that failed may still be there; besides, the next one may just be granted.
        let waiting: Vec<String> = self
            .referee
            .waiting()
            .map(|client| self.clients[client].name.clone())
            .collect();
        let mut queue = self.site.queue(&self.lock).await;
        queue.retain(|name| waiting.contains(name));
        let next = waiting.len() - queue.len();
        assert!(next <= 1, "{queue:?} in Redis, {waiting:?} wait");
        assert_eq!(queue, waiting[next..], "the queue in Redis");
    }

    /// Waits until what is lost has been, and the connections that broke with it have been replaced.
    async fn settle(&self) {
        let begun = self.site.counts().lost > self.before.lost;
        if begun && !self.trouble.goes_on_with_client() {
            let losses = self.before.lost + self.trouble.losses();
            wait::until("the losses", PROMPT, || async {
                let lost = self.site.counts().lost;
                if lost == losses { Ok(()) } else { Err(lost) }
            })
            .await;
        }
        let places = |client: usize| CAST[client].place;
        self.site
            .settle(&self.referee.queued().map(places).collect())
            .await;
    }

    /// Waits for the first result of a unary call, which comes only when it is granted or has failed.
    async fn first_of_call(&mut self, client: usize) -> First {
        let name = self.clients[client].name.clone();
        let deadline = Instant::now() + PROMPT;
        loop {
            let heard = self.referee.first(client, Duration::from_millis(2)).await;
            if let Some(first) = heard {
                return first;
            }
            let fails = self.trouble.fails_acquire(client);
            if !fails && self.site.queue(&self.lock).await.contains(&name) {
                return First::Queued;
            }
            assert!(Instant::now() < deadline, "client {client} never queued");
        }
    }

    /// Lets every client be granted the lock and give it back.
    async fn all_take_turns(&mut self) {
        while let Some(client) = self.referee.next() {
            let lock = self.referee.granted(client, PROMPT).await;
            let owner = self.site.owner(&self.lock).await;
            // Owner ids are secret: not shown.
            let owns = owner.as_ref() == Some(&lock.owner_id);
            assert!(owns, "client {client} was granted a lock that another owns");
            let name = self.clients[client].name.clone();
            let token = lock.fencing_token;
            assert!(self.site.write(&self.lock, token, &name).await, "{token}");
            self.granted.push(name);

            self.settle().await;
            let next = self.referee.waiting().next();
            self.trouble
                .before_release(self.site, (client, &lock), next);
            self.referee.gives_back(client);
            self.clients[client].release(lock.clone());
            let mut failed = false;
            loop {
                match self.referee.released(client, PROMPT).await {
                    Ok(released) => {
                        assert!(released || failed, "client {client} had not held it");
                        break;
                    }
                    Err(reason) => {
                        // The second try may find that the connection has just broken again.
                        let again = failed && reason == "STORE_UNAVAILABLE";
                        assert!(again || reason == "STORE_INDETERMINATE", "{reason}");
                        failed = true;
                        if CAST[client].kind != Kind::Unary {
                            // The coordinator goes on.
                            break;
                        }
                        self.settle().await;
                        self.clients[client].release(lock.clone());
                    }
                }
            }
            let fails = self.trouble.fails_release(client);
            assert_eq!(failed, fails, "whether client {client}'s release failed");
        }
        wait::until("the last release", PROMPT, || async {
            match self.site.owner(&self.lock).await {
                None => Ok(()),
                Some(_) => Err("it is still held"),
            }
        })
        .await;
    }
}
