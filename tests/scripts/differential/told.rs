//! Comparison of published changes with the rules', for feeds of every lock and of single names.

use std::collections::VecDeque;

use leasehold_core::{id::FeedId, name::LockName, time::StoreTime, watch::Telling};
use leasehold_store::{Feed, FeedItem, Store, Subject, Told};
use tokio::time::timeout;

use crate::{common::PATIENCE, differential::compare::compare_tellings};

/// A feed for many histories.
pub(crate) struct Ears {
    feed: Feed,
    follows_names: bool,
}

impl Ears {
    /// Returns a feed that follows everything, or each name of a history.
    pub(crate) async fn of(store: &Store, follows_names: bool) -> Self {
        let mut feed = store.feed();
        assert_eq!(feed.next().await.unwrap(), FeedItem::Started);
        if !follows_names {
            follow(&mut feed, Subject::Everything).await;
        }
        Self {
            feed,
            follows_names,
        }
    }

    /// Listens to what happens to a name.
    pub(crate) async fn listen_to(&mut self, name: &LockName) {
        if self.follows_names {
            follow(&mut self.feed, Subject::Name(name.clone())).await;
        }
    }

    /// Returns the feed, for looks.
    pub(crate) fn id(&self) -> FeedId {
        self.feed.id()
    }

    /// Returns the next event.
    pub(crate) async fn next(&mut self, seed: u64) -> Told {
        let next = timeout(PATIENCE, self.feed.next()).await;
        match next {
            Ok(Some(FeedItem::Told(told))) => told,
            other => panic!("seed {seed}: {other:?} instead of what should be told"),
        }
    }

    /// Compares what should be told of an operation on a name with what was.
    pub(crate) fn compare(
        &self,
        name: &LockName,
        at: StoreTime,
        expected: &Telling,
        told: &mut VecDeque<Told>,
    ) -> Result<(), String> {
        let subject = match self.follows_names {
            true => Subject::Name(name.clone()),
            false => Subject::Everything,
        };
        let Telling {
            changes,
            waiter_count,
            looked,
        } = expected.clone();
        let (is_changed, is_looked) = (!changes.is_empty(), looked.is_some());
        let change = Telling {
            changes,
            waiter_count,
            looked: None,
        };
        let look = Telling {
            changes: Vec::new(),
            waiter_count,
            looked,
        };
        for (is_told, subject, expected) in
            [(is_changed, Some(subject), change), (is_looked, None, look)]
        {
            if !is_told {
                continue;
            }
            let told = told.pop_front();
            let told = told.ok_or_else(|| format!("{expected:?} was not told"))?;
            if (&told.subject, told.at) != (&subject, at) {
                return Err(format!("expected {expected:?} to be told, not {told:?}"));
            }
            compare_tellings(&expected, &told.telling)?;
        }
        Ok(())
    }
}

async fn follow(feed: &mut Feed, subject: Subject) {
    feed.follow(subject.clone());
    let followed = timeout(PATIENCE, feed.next()).await;
    assert_eq!(followed.unwrap().unwrap(), FeedItem::Followed(subject));
}
