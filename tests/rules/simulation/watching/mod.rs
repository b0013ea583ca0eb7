//! Watchers and observers of the simulated world: the real hub of each coordinator, on feeds that come late and start over.
//!
//! What a watcher reads between two gaps is one story: each grant begins once and has a larger token than all before it, each end is
//! of a hold that was granted, and no grant in between is left out. An observer never goes back to a former term. In the end,
//! all of them know that nobody holds anything.

mod story;

use std::{
    collections::{BTreeMap, HashSet},
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use leasehold_core::{command::Op, id::FeedId, name::LockName, time::StoreTime, watch::Telling};
use leasehold_server::watch::{hub::Hub, loading::Scope, output::Output, signal::Signal};
use leasehold_store::{FeedItem, StoreError, Subject, Told};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::story::{Reader, Spectator};
use crate::{
    dice::{Dice, MS, Pipe},
    store::{command_of, unavailable},
    world::{COORDINATORS, NAMES, World, name},
};

/// Most unread events of a watcher.
const MOST_UNREAD: usize = 6;
/// What each coordinator's watchers watch, and whether they read slowly.
const WATCHED: [(&str, bool); 3] = [("", false), ("", true), ("a", false)];

/// Watchers and observers of all coordinators.
#[derive(Default)]
pub(crate) struct Watching {
    /// Dice of their own: everything else is the same without watchers.
    dice: Dice,
    sites: Vec<Site>,
    feeds: u64,
    jobs: u64,
}

/// Hub of one coordinator, and its watchers.
struct Site {
    hub: Hub,
    signals: UnboundedReceiver<Signal>,
    feed: Option<Line>,
    /// Work at the store, by the time at which it is carried out or answered.
    jobs: BTreeMap<(u64, u64), Job>,
    readers: Vec<Reader>,
    spectators: Vec<Spectator>,
    read_at: u64,
}

/// A feed.
struct Line {
    id: FeedId,
    followed: HashSet<Subject>,
    items: Pipe<FeedItem>,
    /// When the last request arrives.
    asked_until: u64,
}

enum Job {
    Follow(Subject, bool),
    Load(u64, Scope),
    Look(Vec<LockName>),
    Loaded(u64, Scope, Result<HashSet<LockName>, StoreError>),
    Looked(Vec<(LockName, Result<(), StoreError>)>),
}

fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

impl Watching {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed ^ 0x5bd1_e995_7b7d_159d),
            sites: (0..COORDINATORS).map(|_| Site::new(0)).collect(),
            feeds: 0,
            jobs: 0,
        }
    }
}

impl Site {
    /// Returns a hub with its watchers and observers, which begin at this time.
    fn new(now: u64) -> Self {
        let (signals, signalled) = unbounded_channel();
        let mut hub = Hub::new(signals, MOST_UNREAD);
        let moment = leasehold_core::time::Moment::from_micros(now);
        let readers = WATCHED.map(|(prefix, is_slow)| Reader {
            watcher: hub.watch(prefix.into(), moment),
            is_slow,
            story: BTreeMap::new(),
            since: None,
        });
        let spectators = [0, 1].map(|number| Spectator {
            name: number,
            observer: hub.observe(name(NAMES[number]), moment),
            leader: None,
            newest: None,
        });
        Self {
            hub,
            signals: signalled,
            feed: None,
            jobs: BTreeMap::new(),
            readers: readers.into(),
            spectators: spectators.into(),
            read_at: now,
        }
    }

    fn due(&self) -> u64 {
        let job = self.jobs.first_key_value().map(|((at, _), _)| *at);
        let item = self.feed.as_ref().and_then(|feed| feed.items.due());
        let timeout = self.hub.next_timeout().map(|at| at.as_micros());
        let due = [job, item, timeout].into_iter().flatten();
        due.fold(self.read_at, u64::min)
    }
}

impl World {
    /// Returns when a hub, a watcher or an observer has something to do.
    pub(crate) fn watching_due(&self) -> u64 {
        let sites = self.watching.sites.iter().enumerate();
        let due = sites.filter_map(|(number, site)| {
            let coordinator = &self.coordinators[number];
            coordinator
                .is_up()
                .then(|| site.due().max(coordinator.hung_until))
        });
        due.min().unwrap_or(u64::MAX)
    }

    /// Has every hub, watcher and observer do what is due.
    pub(crate) fn run_watching(&mut self) {
        for number in 0..COORDINATORS {
            let coordinator = &self.coordinators[number];
            if coordinator.is_up() && coordinator.hung_until <= self.now {
                self.run_site(number);
            }
        }
    }

    /// A coordinator starts again.
    pub(crate) fn restart_watching(&mut self, number: usize) {
        self.watching.sites[number] = Site::new(self.now);
    }

    /// A coordinator's feed breaks, and starts over when it reaches the store again, at this time or a moment later.
    pub(crate) fn break_feed(&mut self, number: usize, at: u64) {
        let at = at + self.watching.dice.delay();
        let site = &mut self.watching.sites[number];
        if let Some(feed) = &mut site.feed {
            self.seen.feeds_broken += 1;
            feed.items.clear();
            feed.followed.clear();
            feed.items.push(at, FeedItem::Started);
            site.jobs.retain(|_, job| !matches!(job, Job::Follow(..)));
        }
    }

    /// Reports an operation to the feeds that follow its lock.
    pub(crate) fn feed(&mut self, name: &LockName, op: &Op, at: StoreTime, telling: &Telling) {
        let now = self.now;
        let Watching { dice, sites, .. } = &mut self.watching;
        for site in sites {
            let Some(feed) = &mut site.feed else { continue };
            let mut tell = |subject, telling| {
                let told = FeedItem::Told(Told {
                    subject,
                    name: name.clone(),
                    at,
                    telling,
                });
                feed.items.push(now + dice.delay(), told);
            };
            for subject in [Subject::Everything, Subject::Name(name.clone())] {
                if feed.followed.contains(&subject) && !telling.changes.is_empty() {
                    let looked = None;
                    let telling = telling.clone();
                    tell(Some(subject), Telling { looked, ..telling });
                }
            }
            if matches!(op, Op::Look { feed: of } if *of == feed.id) {
                let changes = Vec::new();
                let telling = telling.clone();
                tell(None, Telling { changes, ..telling });
            }
        }
    }

    fn run_site(&mut self, number: usize) {
        let (now, moment) = (self.now, self.moment());
        loop {
            let site = &mut self.watching.sites[number];
            let mut is_quiet = true;
            let item = site.feed.as_mut().and_then(|feed| feed.items.pop(now));
            if let Some(item) = item {
                is_quiet = false;
                site.hub.on_item(item, moment);
            }
            while let Ok(signal) = site.signals.try_recv() {
                is_quiet = false;
                site.hub.on_signal(signal, moment);
            }
            if site.hub.next_timeout().is_some_and(|at| at <= moment) {
                site.hub.handle_timeout(moment);
            }
            site.hub.give_turns(2);
            while let Some(output) = self.watching.sites[number].hub.poll_output() {
                is_quiet = false;
                self.carry_out_hub(number, output);
            }
            let site = &mut self.watching.sites[number];
            if site.read_at <= now {
                is_quiet = false;
                site.read_at = now + self.watching.dice.between(10 * MS, 80 * MS);
                self.read_all(number);
            }
            let site = &mut self.watching.sites[number];
            if let Some(entry) = site.jobs.first_entry()
                && entry.key().0 <= now
            {
                is_quiet = false;
                let job = entry.remove();
                self.do_job(number, job);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn carry_out_hub(&mut self, number: usize, output: Output) {
        self.tell(|| format!("hub {number}: {output:?}"));
        let now = self.now;
        let watching = &mut self.watching;
        let site = &mut watching.sites[number];
        match output {
            Output::OpenFeed => {
                watching.feeds += 1;
                let mut items = Pipe::new();
                items.push(now + watching.dice.delay(), FeedItem::Started);
                site.feed = Some(Line {
                    id: FeedId::new(watching.feeds),
                    followed: HashSet::new(),
                    items,
                    asked_until: 0,
                });
            }
            Output::CloseFeed => site.feed = None,
            Output::DropWork => site.jobs.retain(|_, job| matches!(job, Job::Follow(..))),
            Output::BehindWatchers(count) => self.seen.watchers_behind += count,
            Output::Follow(subject) => self.ask_feed(number, subject, true),
            Output::Unfollow(subject) => self.ask_feed(number, subject, false),
            Output::Load { attempt, scope } => self.plan_job(number, Job::Load(attempt, scope)),
            Output::Look(names) => self.plan_job(number, Job::Look(names)),
        }
    }

    fn ask_feed(&mut self, number: usize, subject: Subject, follows: bool) {
        let at = self.now + self.watching.dice.delay();
        let watching = &mut self.watching;
        let site = &mut watching.sites[number];
        if let Some(feed) = &mut site.feed {
            feed.asked_until = feed.asked_until.max(at);
            watching.jobs += 1;
            let job = Job::Follow(subject, follows);
            site.jobs.insert((feed.asked_until, watching.jobs), job);
        }
    }

    fn plan_job(&mut self, number: usize, job: Job) {
        let at = self.now + self.watching.dice.delay();
        self.watching.jobs += 1;
        let key = (at, self.watching.jobs);
        self.watching.sites[number].jobs.insert(key, job);
    }

    fn do_job(&mut self, number: usize, job: Job) {
        let moment = self.moment();
        let fails = !self.coordinators[number].is_store_up
            || !self.is_calm && self.watching.dice.once_in(20);
        let site = &mut self.watching.sites[number];
        let Some(feed) = &mut site.feed else { return };
        let id = feed.id;
        match job {
            Job::Follow(subject, follows) => {
                let item = if follows {
                    feed.followed.insert(subject.clone());
                    FeedItem::Followed(subject)
                } else {
                    feed.followed.remove(&subject);
                    FeedItem::Unfollowed(subject)
                };
                feed.items.push(self.now, item);
            }
            Job::Load(attempt, scope) => {
                let result = if fails {
                    Err(unavailable())
                } else {
                    let names = match &scope {
                        Scope::Name(name) => vec![name.clone()],
                        Scope::Prefix(prefix) => {
                            self.store.table.names(prefix, None, self.store_time())
                        }
                    };
                    for name in &names {
                        self.look_for(id, name);
                    }
                    Ok(names.into_iter().collect())
                };
                self.plan_job(number, Job::Loaded(attempt, scope, result));
            }
            Job::Look(names) => {
                let results = names.into_iter().map(|name| {
                    if fails {
                        return (name, Err(unavailable()));
                    }
                    self.look_for(id, &name);
                    (name, Ok(()))
                });
                let results = results.collect();
                self.plan_job(number, Job::Looked(results));
            }
            Job::Loaded(attempt, scope, result) => {
                site.hub.on_loaded(attempt, &scope, result, moment);
            }
            Job::Looked(results) => site.hub.on_looked(results, moment),
        }
    }

    /// Has the store look at a name for a feed.
    fn look_for(&mut self, feed: FeedId, name: &LockName) {
        let command = command_of("hub", name, Op::Look { feed });
        self.apply(&command);
    }

    /// Has the watchers and observers of a coordinator read.
    fn read_all(&mut self, number: usize) {
        let site = &mut self.watching.sites[number];
        let mut readers = std::mem::take(&mut site.readers);
        let mut spectators = std::mem::take(&mut site.spectators);
        for reader in &mut readers {
            if reader.is_slow && !self.is_calm && !self.watching.dice.once_in(12) {
                continue;
            }
            while let Some(message) = ready(reader.watcher.next()) {
                self.tell(|| format!("a watcher of {number} reads {message:?}"));
                self.read(reader, message);
            }
        }
        for spectator in &mut spectators {
            while let Some(Some(observed)) = ready(spectator.observer.next()) {
                self.seen.observed += 1;
                self.seen.observed_after_gaps += u64::from(observed.skipped);
                self.observe(spectator, observed.leader);
            }
        }
        let site = &mut self.watching.sites[number];
        (site.readers, site.spectators) = (readers, spectators);
    }
}
