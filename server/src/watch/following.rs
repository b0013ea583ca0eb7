//! Feed of the hub, and the subjects that it follows.

use std::collections::HashMap;

use leasehold_core::{id::FeedId, name::LockName};
use leasehold_store::{Feed, FeedItem, Store, Subject};

use super::loading::{Scope, Scopes};

/// Feed while there are watchers, and the subjects that it was asked to follow.
#[derive(Debug, Default)]
pub(super) struct Following {
    feed: Option<Feed>,
    /// Whether it has started and takes requests.
    has_started: bool,
    everything: Followed,
    names: HashMap<LockName, Followed>,
}

/// Whether the feed follows something.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    is_wanted: bool,
    /// Whether it reports the subject now.
    now: bool,
    /// Number of requests that it has not answered.
    pending: usize,
}

impl Followed {
    fn want(&mut self, is_wanted: bool, feed: &Feed, subject: Subject) {
        if self.is_wanted == is_wanted {
            return;
        }
        self.is_wanted = is_wanted;
        self.pending += 1;
        if is_wanted {
            feed.follow(subject);
        } else {
            feed.unfollow(subject);
        }
    }
}

impl Following {
    /// Opens the feed, if it is not open.
    pub(super) fn open(&mut self, store: &Store) {
        if self.feed.is_none() {
            self.feed = Some(store.feed());
        }
    }

    /// Waits for the next item; for ever without a feed. Returns `None` when the store is gone.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, no item is lost.
    pub(super) async fn next(&mut self) -> Option<FeedItem> {
        match &mut self.feed {
            Some(feed) => feed.next().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the feed's id for looks.
    pub(super) fn id(&self) -> Option<FeedId> {
        self.feed.as_ref().map(Feed::id)
    }

    /// Notes that the feed starts: it follows nothing yet.
    pub(super) fn start(&mut self) {
        self.has_started = true;
        self.everything = Followed::default();
        self.names.clear();
    }

    /// Has the feed follow the subjects of a scope if `scopes` has it, or else unfollow them.
    pub(super) fn adjust(&mut self, scope: &Scope, scopes: &Scopes) {
        let Some(feed) = self.feed.as_ref().filter(|_| self.has_started) else {
            return;
        };
        match scope {
            Scope::Name(name) => {
                let followed = self.names.entry(name.clone()).or_default();
                followed.want(scopes.contains(scope), feed, Subject::Name(name.clone()));
            }
            Scope::Prefix(_) => {
                let is_wanted = scopes.have_prefixes();
                self.everything.want(is_wanted, feed, Subject::Everything);
            }
        }
    }

    /// Notes that the feed has begun or ceased to follow a subject.
    pub(super) fn note(&mut self, subject: &Subject, is_followed: bool) {
        let followed = match subject {
            Subject::Everything => &mut self.everything,
            Subject::Name(name) => self.names.entry(name.clone()).or_default(),
        };
        followed.now = is_followed;
        followed.pending = followed.pending.saturating_sub(1);
        let is_over = !followed.is_wanted && followed.pending == 0;
        if let Subject::Name(name) = subject
            && is_over
        {
            self.names.remove(name);
        }
    }

    /// Returns whether the feed reports all changes in a scope, and goes on to.
    pub(super) fn surely_follows(&self, scope: &Scope) -> bool {
        let followed = match scope {
            Scope::Prefix(_) => self.everything,
            Scope::Name(name) => self.names.get(name).copied().unwrap_or_default(),
        };
        followed.now && followed.pending == 0
    }

    /// Returns whether to process items for this subject: a feed that follows everything also reports each name's changes.
    pub(super) fn heeds(&self, subject: Option<&Subject>) -> bool {
        match subject {
            Some(Subject::Everything) => self.everything.now,
            Some(Subject::Name(_)) => !self.everything.now,
            None => true,
        }
    }
}
