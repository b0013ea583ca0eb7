//! Hub: the task that follows the store's feed for all watchers and observers of this coordinator.

mod work;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use leasehold_core::{
    name::LockName,
    time::Moment,
    watch::{Event, Mirror},
};
use leasehold_store::{FeedItem, StoreError, Subject, Told, clock};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    elections::{Elections, Observer},
    following::Following,
    loading::{Phase, Scope, Scopes},
    signal::Signal,
    watchers::{PAGE, Stage, Watcher, Watchers},
};
use crate::coordinator::Coordinator;

/// Shortest interval between warnings that a look failed.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Most batches of looks that are in flight.
const BATCHES: usize = 4;

/// Share of the watchers with unread messages that get a turn at a time: one in this many.
const TURNS: usize = 16;
/// Number of deliveries, each of one event to one watcher, after which the hub lets other tasks run.
const TOLD_IN_A_ROW: usize = 128;

/// Request to the hub.
#[derive(Debug)]
pub(in crate::watch) enum Request {
    /// Watches all locks whose names begin with a prefix.
    Watch {
        prefix: String,
        reply: oneshot::Sender<Watcher>,
    },
    /// Observes an election.
    Observe {
        name: LockName,
        reply: oneshot::Sender<Observer>,
    },
}

/// Completed work of the hub.
enum Done {
    Loaded {
        attempt: u64,
        scope: Scope,
        result: Result<HashSet<LockName>, StoreError>,
    },
    Looked(Vec<(LockName, Result<(), StoreError>)>),
}

/// State of the hub. Without watchers, it has no feed, and the rest is empty.
struct Hub {
    coordinator: Coordinator,
    following: Following,
    scopes: Scopes,
    mirror: Mirror,
    watchers: Watchers,
    elections: Elections,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    attempts: u64,
    looks_in_flight: usize,
    /// The time to act on a scope.
    wake_at: Option<Moment>,
    /// The time before which failed looks are not logged again.
    warn_from: Moment,
    /// Deliveries of this turn.
    told: usize,
}

/// Runs the hub until `stop`.
pub(in crate::watch) async fn run(
    coordinator: Coordinator,
    mut requests: mpsc::UnboundedReceiver<Request>,
    stop: CancellationToken,
) {
    let (signals, mut signalled) = mpsc::unbounded_channel();
    let mut hub = Hub {
        coordinator,
        following: Following::default(),
        scopes: Scopes::default(),
        mirror: Mirror::default(),
        watchers: Watchers::new(signals.clone()),
        elections: Elections::new(signals),
        work: FuturesUnordered::new(),
        attempts: 0,
        looks_in_flight: 0,
        wake_at: None,
        warn_from: clock::now(),
        told: 0,
    };
    loop {
        let now = clock::now();
        hub.on_time(now);
        hub.watchers.give_turns(TURNS);
        let wake = hub.next_wake();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(request) = requests.recv() => hub.on_request(request),
            Some(signal) = signalled.recv() => hub.on_signal(signal),
            // Before the branches that ask the store for more items.
            item = hub.following.next() => match item {
                Some(item) => {
                    hub.on_item(item);
                    if hub.told >= TOLD_IN_A_ROW {
                        hub.told = 0;
                        tokio::task::yield_now().await;
                    }
                }
                // The store is gone, and with it the coordinator.
                None => return,
            },
            Some(done) = hub.work.next() => hub.on_done(done),
            // After all other tasks that are ready.
            () = tokio::task::yield_now(), if hub.watchers.are_lined_up() => {}
            () = sleep_until(wake) => {}
        }
    }
}

async fn sleep_until(wake: Option<Moment>) {
    match wake {
        Some(at) => tokio::time::sleep(clock::now().until(at)).await,
        None => std::future::pending().await,
    }
}

impl Hub {
    fn on_request(&mut self, request: Request) {
        match request {
            Request::Watch { prefix, reply } => {
                let prefix: Arc<str> = prefix.into();
                let scope = Scope::Prefix(Arc::clone(&prefix));
                let (id, watcher) = self.watchers.add(prefix);
                self.add(scope.clone());
                if self.scopes.is_ready(&scope) {
                    self.begin_snapshot(id);
                }
                // A dropped watcher unregisters itself.
                let _ = reply.send(watcher);
            }
            Request::Observe { name, reply } => {
                let scope = Scope::Name(name.clone());
                let is_known = self.scopes.is_ready(&scope);
                let observer = self.elections.add(&name, is_known);
                self.add(scope);
                let _ = reply.send(observer);
            }
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::More { id } => self.give_page(id),
            Signal::Again { id } => {
                if let Some(told) = self.watchers.get(id) {
                    told.line_up();
                }
            }
            Signal::Unwatch { id } => {
                if let Some(prefix) = self.watchers.remove(id) {
                    self.remove(&Scope::Prefix(prefix));
                }
            }
            Signal::Unobserve { name } => {
                if self.elections.forget_if_unobserved(&name) {
                    self.remove(&Scope::Name(name));
                }
            }
        }
    }

    fn add(&mut self, scope: Scope) {
        if self.scopes.add(scope.clone()) {
            self.following.open(self.coordinator.store());
            self.following.adjust(&scope, &self.scopes);
            self.load(&scope);
        }
    }

    fn remove(&mut self, scope: &Scope) {
        self.scopes.remove(scope);
        if self.scopes.is_empty() {
            // The feed's connection closes.
            self.following = Following::default();
            self.forget_all();
            return;
        }
        let scopes = &self.scopes;
        match scope {
            Scope::Name(name) if scopes.cover(name) => {}
            Scope::Name(name) => self.mirror.forget(name),
            Scope::Prefix(_) => self.mirror.retain(|name| scopes.cover(name)),
        }
        self.following.adjust(scope, scopes);
    }

    fn forget_all(&mut self) {
        self.mirror = Mirror::default();
        // Work in flight is for a feed that is gone.
        self.work = FuturesUnordered::new();
        self.looks_in_flight = 0;
    }

    fn on_item(&mut self, item: FeedItem) {
        match item {
            FeedItem::Started => self.start(),
            FeedItem::Followed(subject) => {
                self.following.note(&subject, true);
                self.load_subject(&subject);
            }
            FeedItem::Unfollowed(subject) => {
                self.following.note(&subject, false);
                self.start_over(&subject);
                self.load_subject(&subject);
            }
            FeedItem::Told(told) => self.on_told(told),
        }
    }

    /// Starts over with a feed that starts: all known states may have changed unseen.
    fn start(&mut self) {
        self.forget_all();
        self.following.start();
        for told in self.watchers.iter_mut() {
            told.start_over("the coordinator could not follow the store for a while");
        }
        self.elections.gap();
        for scope in self.scopes.start_over() {
            self.following.adjust(&scope, &self.scopes);
        }
    }

    /// Loads the scopes of a subject again, because their changes are not reported for a while.
    fn start_over(&mut self, subject: &Subject) {
        for scope in self.scopes.of(subject) {
            if let Some(phase) = self.scopes.get_mut(&scope) {
                *phase = Phase::waiting();
            }
        }
        if matches!(subject, Subject::Everything) {
            for told in self.watchers.iter_mut() {
                told.start_over("the coordinator did not follow the store for a moment");
            }
        }
    }

    /// Notes that a scope is complete.
    fn ready(&mut self, scope: &Scope) {
        if let Some(phase) = self.scopes.get_mut(scope) {
            *phase = Phase::Ready;
        }
        match scope {
            Scope::Name(name) => self.elections.tell(name, self.mirror.leader(name)),
            Scope::Prefix(prefix) => {
                let ids = self.watchers.loading(prefix);
                for id in ids {
                    self.begin_snapshot(id);
                }
            }
        }
    }

    fn begin_snapshot(&mut self, id: u64) {
        if self
            .watchers
            .get(id)
            .is_some_and(|told| told.begin_snapshot())
        {
            self.give_page(id);
        }
    }

    fn give_page(&mut self, id: u64) {
        let Some(told) = self.watchers.get(id) else {
            return;
        };
        let Stage::Snapshot { after, .. } = &told.stage else {
            return;
        };
        let page = self
            .mirror
            .page(&told.prefix, after.as_ref(), PAGE, clock::now());
        let is_last = page.len() < PAGE;
        told.page(page, is_last);
    }

    fn on_told(&mut self, told: Told) {
        let Told {
            subject,
            name,
            at,
            telling,
        } = told;
        if !self.following.heeds(subject.as_ref()) || !self.scopes.hear(&name) {
            return;
        }
        let is_look = telling.looked.is_some();
        let events = self.mirror.tell(&name, at, telling, clock::now());
        if self.elections.contains(&name) && self.scopes.is_ready(&Scope::Name(name.clone())) {
            self.elections.tell(&name, self.mirror.leader(&name));
        }
        for event in events {
            self.tell(&Arc::new(event));
        }
        if is_look {
            for scope in self.scopes.told(&name) {
                self.ready(&scope);
            }
        }
    }

    fn tell(&mut self, event: &Arc<Event>) {
        if self.watchers.is_empty() {
            return;
        }
        self.told += self.watchers.len();
        let behind = self.watchers.tell(event);
        if behind > 0 {
            self.coordinator.metrics().watch_gaps.inc_by(behind);
        }
    }
}
