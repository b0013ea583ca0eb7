//! Hub: follows the store's feed for all watchers and observers of this coordinator, as a state machine without I/O.
//!
//! A driver carries [`Output`]s out in their order, and tells the hub what happens, with the time. Watchers and observers are
//! handles: they read what the hub leaves for them, and reach it by signals.

mod work;

use std::sync::Arc;

use leasehold_core::{
    name::LockName,
    planted::{Fault, is_planted},
    time::Moment,
    watch::{Event, Mirror},
};
use leasehold_store::{FeedItem, Subject, Told};
use tokio::sync::mpsc;

use super::{
    elections::{Elections, Observer},
    following::Following,
    loading::{Phase, Scope, Scopes},
    output::{Output, Outputs},
    signal::Signal,
    watchers::{PAGE, Stage, Watcher, Watchers},
};

/// Number of names in one batch of looks.
pub const LOOKS: usize = 256;

/// State of the hub. Without watchers, it has no feed, and the rest is empty.
#[derive(Debug)]
pub struct Hub {
    following: Following,
    scopes: Scopes,
    mirror: Mirror,
    watchers: Watchers,
    elections: Elections,
    outputs: Outputs,
    attempts: u64,
    looks_in_flight: usize,
    /// The time to act on a scope.
    wake_at: Option<Moment>,
    /// The time before which failed looks are not logged again.
    warn_from: Option<Moment>,
    /// Deliveries of this turn.
    told: usize,
}

impl Hub {
    /// Returns a hub without watchers. They and observers reach it by `signals`. A watcher with more than `most_unread` unread
    /// events receives a gap and a new snapshot.
    pub fn new(signals: mpsc::UnboundedSender<Signal>, most_unread: usize) -> Self {
        Self {
            following: Following::default(),
            scopes: Scopes::default(),
            mirror: Mirror::default(),
            watchers: Watchers::new(signals.clone(), most_unread),
            elections: Elections::new(signals),
            outputs: Outputs::new(),
            attempts: 0,
            looks_in_flight: 0,
            wake_at: None,
            warn_from: None,
            told: 0,
        }
    }

    /// Returns the next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Gives a turn to one in `part` of the watchers that wait for one.
    pub fn give_turns(&self, part: usize) {
        self.watchers.give_turns(part);
    }

    /// Returns whether any watchers wait for a turn.
    pub fn are_lined_up(&self) -> bool {
        self.watchers.are_lined_up()
    }

    /// Returns how many deliveries it has made since it [rested](Self::rest).
    pub(super) fn told(&self) -> usize {
        self.told
    }

    /// Notes that other tasks have had their turn.
    pub(super) fn rest(&mut self) {
        self.told = 0;
    }

    /// Adds a watcher of all locks whose names begin with a prefix.
    pub fn watch(&mut self, prefix: Arc<str>, now: Moment) -> Watcher {
        let scope = Scope::Prefix(Arc::clone(&prefix));
        let (id, watcher) = self.watchers.add(prefix);
        self.add(scope.clone(), now);
        if self.scopes.is_ready(&scope) {
            self.begin_snapshot(id, now);
        }
        watcher
    }

    /// Adds an observer of an election.
    pub fn observe(&mut self, name: LockName, now: Moment) -> Observer {
        let scope = Scope::Name(name.clone());
        let is_known = self.scopes.is_ready(&scope);
        let observer = self.elections.add(&name, is_known);
        self.add(scope, now);
        observer
    }

    /// Takes in the signal of a watcher or an observer.
    pub fn on_signal(&mut self, signal: Signal, now: Moment) {
        match signal {
            Signal::More { id } => self.give_page(id, now),
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

    fn add(&mut self, scope: Scope, now: Moment) {
        if self.scopes.add(scope.clone()) {
            self.following.open(&mut self.outputs);
            self.following
                .adjust(&scope, &self.scopes, &mut self.outputs);
            self.load(&scope, now);
        }
    }

    fn remove(&mut self, scope: &Scope) {
        self.scopes.remove(scope);
        if self.scopes.is_empty() {
            self.following = Following::default();
            self.outputs.push_back(Output::CloseFeed);
            self.forget_all();
            return;
        }
        let scopes = &self.scopes;
        match scope {
            Scope::Name(name) if scopes.cover(name) => {}
            Scope::Name(name) => self.mirror.forget(name),
            Scope::Prefix(_) => self.mirror.retain(|name| scopes.cover(name)),
        }
        self.following.adjust(scope, scopes, &mut self.outputs);
    }

    fn forget_all(&mut self) {
        self.mirror = Mirror::default();
        self.outputs.push_back(Output::DropWork);
        self.looks_in_flight = 0;
    }

    /// Takes in an item of the feed.
    pub fn on_item(&mut self, item: FeedItem, now: Moment) {
        match item {
            FeedItem::Started => self.start(),
            FeedItem::Followed(subject) => {
                self.following.note(&subject, true);
                self.load_subject(&subject, now);
            }
            FeedItem::Unfollowed(subject) => {
                self.following.note(&subject, false);
                self.start_over(&subject);
                self.load_subject(&subject, now);
            }
            FeedItem::Told(told) => self.on_told(told, now),
        }
    }

    /// Starts over with a feed that starts: all known states may have changed unseen.
    fn start(&mut self) {
        self.forget_all();
        self.following.start();
        let watchers = self.watchers.iter_mut();
        for told in watchers.filter(|_| !is_planted(Fault::RestartUntold)) {
            told.start_over("the coordinator could not follow the store for a while");
        }
        self.elections.gap();
        for scope in self.scopes.start_over() {
            self.following
                .adjust(&scope, &self.scopes, &mut self.outputs);
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
    fn ready(&mut self, scope: &Scope, now: Moment) {
        if let Some(phase) = self.scopes.get_mut(scope) {
            *phase = Phase::Ready;
        }
        match scope {
            Scope::Name(name) => self.elections.tell(name, self.mirror.leader(name)),
            Scope::Prefix(prefix) => {
                let ids = self.watchers.loading(prefix);
                for id in ids {
                    self.begin_snapshot(id, now);
                }
            }
        }
    }

    fn begin_snapshot(&mut self, id: u64, now: Moment) {
        if self
            .watchers
            .get(id)
            .is_some_and(|told| told.begin_snapshot())
        {
            self.give_page(id, now);
        }
    }

    fn give_page(&mut self, id: u64, now: Moment) {
        let Some(told) = self.watchers.get(id) else {
            return;
        };
        let Stage::Snapshot { after, .. } = &told.stage else {
            return;
        };
        let page = self.mirror.page(&told.prefix, after.as_ref(), PAGE, now);
        let is_last = page.len() < PAGE;
        told.page(page, is_last);
    }

    fn on_told(&mut self, told: Told, now: Moment) {
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
        let events = self.mirror.tell(&name, at, telling, now);
        if self.elections.contains(&name) && self.scopes.is_ready(&Scope::Name(name.clone())) {
            self.elections.tell(&name, self.mirror.leader(&name));
        }
        for event in events {
            self.tell(&Arc::new(event));
        }
        if is_look {
            for scope in self.scopes.told(&name) {
                self.ready(&scope, now);
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
            self.outputs.push_back(Output::BehindWatchers(behind));
        }
    }
}
