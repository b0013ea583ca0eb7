//! The feed, and what it follows.

use std::collections::HashMap;

use leasehold_core::{id::FeedId, name::LockName};
use leasehold_store::{Feed, FeedItem, LockStore, Store, Subject};

use super::loading::{Scope, Scopes};

/// The feed while somebody watches, and what it was asked to follow.
#[derive(Debug, Default)]
pub(super) struct Following {
    feed: Option<Feed>,
    /// Whether it has begun, so that it can be asked.
    has_started: bool,
    everything: Followed,
    names: HashMap<LockName, Followed>,
}

/// Whether the feed follows something.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    is_wanted: bool,
    /// It tells of it.
    now: bool,
    /// Answers that are still to come to what it was asked.
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
    /// Opens the feed, if it is not.
    pub(super) fn open(&mut self, store: &Store) {
        if self.feed.is_none() {
            self.feed = Some(store.feed());
        }
    }

    /// The next item; waits for ever without a feed. `None` when the store is gone.
    ///
    /// # Cancel safety
    ///
    /// An item is given or still there.
    pub(super) async fn next(&mut self) -> Option<FeedItem> {
        match &mut self.feed {
            Some(feed) => feed.next().await,
            None => std::future::pending().await,
        }
    }

    /// Names the feed in looks.
    pub(super) fn id(&self) -> Option<FeedId> {
        self.feed.as_ref().map(Feed::id)
    }

    /// The feed begins: it follows nothing yet.
    pub(super) fn start(&mut self) {
        self.has_started = true;
        self.everything = Followed::default();
        self.names.clear();
    }

    /// Asks for what a scope needs, if it is among those that there are, or for no more of what it needed.
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

    /// The feed has begun or ceased to follow something.
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

    /// Whether all that happens in a scope is told, and will be.
    pub(super) fn surely_follows(&self, scope: &Scope) -> bool {
        let followed = match scope {
            Scope::Prefix(_) => self.everything,
            Scope::Name(name) => self.names.get(name).copied().unwrap_or_default(),
        };
        followed.now && followed.pending == 0
    }

    /// Whether what is told for this is to be heeded: where everything is followed, that tells of each name, too.
    pub(super) fn heeds(&self, subject: Option<&Subject>) -> bool {
        match subject {
            Some(Subject::Everything) => self.everything.now,
            Some(Subject::Name(_)) => !self.everything.now,
            None => true,
        }
    }
}
