//! Comparison of published changes with the rules', for feeds of every lock and of single names.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_core::{id::FeedId, name::LockName, time::StoreTime, watch::Telling};
use leasehold_store::{Feed, FeedItem, Store, Subject, Told};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::differential::compare::{Comparison, compare_tellings};

/// A feed for many histories.
#[derive(Clone)]
pub(crate) struct Ears {
    id: FeedId,
    follows_names: bool,
    asked: mpsc::UnboundedSender<(LockName, oneshot::Sender<()>)>,
    routes: Routes,
}

type Routes = Arc<Mutex<HashMap<LockName, mpsc::UnboundedSender<Told>>>>;

/// Listener for the events of one name.
pub(crate) struct Ear {
    feed: FeedId,
    subject: Subject,
    told: mpsc::UnboundedReceiver<Told>,
}

impl Ears {
    /// Returns a feed that follows everything.
    pub(crate) async fn of_everything(store: &Store) -> Self {
        let mut feed = started(store).await;
        feed.follow(Subject::Everything);
        let followed = FeedItem::Followed(Subject::Everything);
        assert_eq!(feed.next().await.unwrap(), followed);
        Self::new(feed, false)
    }

    /// Returns a feed that follows each name of a history.
    pub(crate) async fn of_names(store: &Store) -> Self {
        Self::new(started(store).await, true)
    }

    fn new(mut feed: Feed, follows_names: bool) -> Self {
        let (asked, mut asks) = mpsc::unbounded_channel::<(LockName, oneshot::Sender<()>)>();
        let routes = Routes::default();
        let ears = Self {
            id: feed.id(),
            follows_names,
            asked,
            routes: Arc::clone(&routes),
        };
        tokio::spawn(async move {
            let mut waiting = HashMap::new();
            loop {
                tokio::select! {
                    Some((name, done)) = asks.recv() => {
                        feed.follow(Subject::Name(name.clone()));
                        waiting.insert(name, done);
                    }
                    item = feed.next() => match item {
                        None => return,
                        Some(FeedItem::Told(told)) => {
                            let routes = routes.lock().unwrap();
                            if let Some(route) = routes.get(&told.name) {
                                let _ = route.send(told);
                            }
                        }
                        Some(FeedItem::Followed(Subject::Name(name))) => {
                            let _ = waiting.remove(&name).unwrap().send(());
                        }
                        Some(other) => panic!("{other:?} was not expected"),
                    }
                }
            }
        });
        ears
    }

    /// Listens to what happens to a name.
    pub(crate) async fn listen_to(&self, name: &LockName) -> Ear {
        let (route, told) = mpsc::unbounded_channel();
        self.routes.lock().unwrap().insert(name.clone(), route);
        let subject = if self.follows_names {
            let (done, followed) = oneshot::channel();
            self.asked.send((name.clone(), done)).unwrap();
            followed.await.unwrap();
            Subject::Name(name.clone())
        } else {
            Subject::Everything
        };
        Ear {
            feed: self.id,
            subject,
            told,
        }
    }
}

impl Ear {
    /// Returns the feed, for looks.
    pub(crate) fn feed(&self) -> FeedId {
        self.feed
    }

    /// Compares the expected reports of an operation with the actual ones. An unexpected report is found with the next
    /// operation that has one.
    pub(crate) async fn compare(&mut self, at: StoreTime, telling: Telling) -> Comparison {
        let Telling {
            changes,
            waiter_count,
            looked,
        } = telling;
        let mut comparison = Comparison::Same;
        if !changes.is_empty() {
            let expected = Telling {
                changes,
                waiter_count,
                looked: None,
            };
            let subject = Some(self.subject.clone());
            comparison = comparison.and(self.next(subject, at, &expected).await);
        }
        if looked.is_some() {
            let expected = Telling {
                changes: Vec::new(),
                waiter_count,
                looked,
            };
            comparison = comparison.and(self.next(None, at, &expected).await);
        }
        comparison
    }

    async fn next(
        &mut self,
        subject: Option<Subject>,
        at: StoreTime,
        expected: &Telling,
    ) -> Comparison {
        let Ok(told) = timeout(Duration::from_secs(10), self.told.recv()).await else {
            return Comparison::Different(format!("{expected:?} was not told"));
        };
        let told = told.unwrap();
        if (&told.subject, told.at) != (&subject, at) {
            return Comparison::Different(format!(
                "expected {expected:?} to be told, not {told:?}"
            ));
        }
        compare_tellings(expected, &told.telling)
    }
}

async fn started(store: &Store) -> Feed {
    let mut feed = store.feed();
    assert_eq!(feed.next().await.unwrap(), FeedItem::Started);
    feed
}
