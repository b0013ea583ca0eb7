//! Driver of the hub: carries out what the hub wants of the store, and tells it what happens.

use std::collections::HashSet;

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use leasehold_core::{
    command::{Op, Reply},
    id::FeedId,
    name::LockName,
    time::Moment,
};
use leasehold_store::{Feed, FeedItem, StoreError, clock};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    elections::Observer,
    hub::{Hub, LOOKS},
    loading::Scope,
    output::Output,
    watchers::Watcher,
};
use crate::coordinator::Coordinator;

/// Most unread events of a watcher.
const MOST_UNREAD: usize = 1024;
/// Share of the watchers with unread messages that get a turn at a time: one in this many.
const TURNS: usize = 16;
/// Number of deliveries, each of one event to one watcher, after which the hub lets other tasks run.
const TOLD_IN_A_ROW: usize = 128;

/// Request to the hub.
#[derive(Debug)]
pub(super) enum Request {
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

/// Completed work at the store.
enum Done {
    Loaded {
        attempt: u64,
        scope: Scope,
        result: Result<HashSet<LockName>, StoreError>,
    },
    Looked(Vec<(LockName, Result<(), StoreError>)>),
}

/// Parts of the store that the hub uses.
struct Driver {
    coordinator: Coordinator,
    feed: Option<Feed>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// Runs the hub until `stop`.
pub(super) async fn run(
    coordinator: Coordinator,
    mut requests: mpsc::UnboundedReceiver<Request>,
    stop: CancellationToken,
) {
    let (signals, mut signalled) = mpsc::unbounded_channel();
    let mut hub = Hub::new(signals, MOST_UNREAD);
    let mut driver = Driver {
        coordinator,
        feed: None,
        work: FuturesUnordered::new(),
    };
    loop {
        hub.handle_timeout(clock::now());
        while let Some(output) = hub.poll_output() {
            driver.carry_out(output);
        }
        hub.give_turns(TURNS);
        let wake = hub.next_timeout();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(request) = requests.recv() => match request {
                // A dropped watcher or observer unregisters itself.
                Request::Watch { prefix, reply } => {
                    let _ = reply.send(hub.watch(prefix.into(), clock::now()));
                }
                Request::Observe { name, reply } => {
                    let _ = reply.send(hub.observe(name, clock::now()));
                }
            },
            Some(signal) = signalled.recv() => hub.on_signal(signal, clock::now()),
            // Before the branches that ask the store for more items.
            item = next_item(&mut driver.feed) => match item {
                Some(item) => {
                    hub.on_item(item, clock::now());
                    if hub.told() >= TOLD_IN_A_ROW {
                        hub.rest();
                        tokio::task::yield_now().await;
                    }
                }
                // The store is gone, and with it the coordinator.
                None => return,
            },
            Some(done) = driver.work.next() => match done {
                Done::Loaded { attempt, scope, result } => {
                    hub.on_loaded(attempt, &scope, result, clock::now());
                }
                Done::Looked(results) => hub.on_looked(results, clock::now()),
            },
            // After all other tasks that are ready.
            () = tokio::task::yield_now(), if hub.are_lined_up() => {}
            () = sleep_until(wake) => {}
        }
    }
}

async fn next_item(feed: &mut Option<Feed>) -> Option<FeedItem> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<Moment>) {
    match wake {
        Some(at) => tokio::time::sleep(clock::now().until(at)).await,
        None => std::future::pending().await,
    }
}

impl Driver {
    fn carry_out(&mut self, output: Output) {
        match output {
            Output::OpenFeed => self.feed = Some(self.coordinator.store().feed()),
            // The feed's connection closes.
            Output::CloseFeed => self.feed = None,
            Output::DropWork => self.work = FuturesUnordered::new(),
            Output::BehindWatchers(number) => {
                self.coordinator.metrics().watch_gaps.inc_by(number);
            }
            Output::Follow(subject) => {
                if let Some(feed) = &self.feed {
                    feed.follow(subject);
                }
            }
            Output::Unfollow(subject) => {
                if let Some(feed) = &self.feed {
                    feed.unfollow(subject);
                }
            }
            Output::Load { attempt, scope } => {
                let Some(feed) = self.feed.as_ref().map(Feed::id) else {
                    return;
                };
                let coordinator = self.coordinator.clone();
                self.work.push(Box::pin(async move {
                    let result = load(coordinator, feed, scope.clone()).await;
                    Done::Loaded {
                        attempt,
                        scope,
                        result,
                    }
                }));
            }
            Output::Look(names) => {
                let Some(feed) = self.feed.as_ref().map(Feed::id) else {
                    return;
                };
                let coordinator = self.coordinator.clone();
                self.work.push(Box::pin(async move {
                    Done::Looked(look_at(&coordinator, feed, names).await)
                }));
            }
        }
    }
}

/// Lists the locks of a scope, and has the store look at each. Returns the names. A reported look includes all changes before
/// it, and the feed reports all later ones.
async fn load(
    coordinator: Coordinator,
    feed: FeedId,
    scope: Scope,
) -> Result<HashSet<LockName>, StoreError> {
    let mut looked = HashSet::new();
    let mut token = String::new();
    loop {
        let (mut names, next) = match &scope {
            Scope::Name(name) => (vec![name.clone()], String::new()),
            Scope::Prefix(prefix) => {
                let page = coordinator.store().list(prefix, &token, LOOKS).await?;
                let page = page.map_err(|invalid| StoreError::Garbled {
                    reason: format!("the store does not know its own page token: it {invalid}"),
                })?;
                (page.names, page.next)
            }
        };
        // A scan may return a name twice, and more names than requested.
        names.retain(|name| !looked.contains(name));
        names.sort_unstable();
        names.dedup();
        for names in names.chunks(LOOKS) {
            for (name, result) in look_at(&coordinator, feed, names.to_vec()).await {
                match result {
                    Ok(()) => drop(looked.insert(name)),
                    // Foreign keys have the names of its companions: nothing can be reported of it.
                    Err(StoreError::WrongType { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if next.is_empty() {
            return Ok(looked);
        }
        token = next;
    }
}

/// Has the store look at names.
async fn look_at(
    coordinator: &Coordinator,
    feed: FeedId,
    names: Vec<LockName>,
) -> Vec<(LockName, Result<(), StoreError>)> {
    let commands = names
        .iter()
        .map(|name| coordinator.command(name.clone(), Op::Look { feed }))
        .collect();
    let results = coordinator.store().execute_all(commands).await;
    let results = results
        .into_iter()
        .map(|result| match result?.executed.reply {
            Reply::Looked => Ok(()),
            // The feed has just been closed, or the user may not ask for subscribers, or not publish.
            Reply::Unheard => Err(StoreError::Refused {
                reason: "nobody hears what is published; its user needs the rights that docs/watching.md names"
                    .into(),
            }),
            _ => Err(StoreError::Garbled {
                reason: "the reply to look is that of another operation".into(),
            }),
        });
    names.into_iter().zip(results).collect()
}
