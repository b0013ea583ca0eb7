//! Feed of the hub, and the subjects that it follows.

use std::collections::HashMap;

use leasehold_core::name::LockName;
use leasehold_store::Subject;

use super::{
    loading::{Scope, Scopes},
    output::{Output, Outputs},
};

/// Feed while there are watchers, and the subjects that it was asked to follow.
#[derive(Debug, Default)]
pub(super) struct Following {
    is_open: bool,
    /// Whether it has started and takes requests.
    has_started: bool,
    everything: Followed,
    names: HashMap<LockName, Followed>,
}

/// Report of one subject, as wanted and as it is.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    is_wanted: bool,
    /// Whether it reports the subject now.
    now: bool,
    /// Number of requests that it has not answered.
    pending: usize,
}

impl Followed {
    fn want(&mut self, is_wanted: bool, subject: Subject, outputs: &mut Outputs) {
        if self.is_wanted == is_wanted {
            return;
        }
        self.is_wanted = is_wanted;
        self.pending += 1;
        outputs.push_back(match is_wanted {
            true => Output::Follow(subject),
            false => Output::Unfollow(subject),
        });
    }
}

impl Following {
    /// Opens the feed, if it is not open.
    pub(super) fn open(&mut self, outputs: &mut Outputs) {
        if !std::mem::replace(&mut self.is_open, true) {
            outputs.push_back(Output::OpenFeed);
        }
    }

    /// Returns whether the feed is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Notes that the feed starts: it follows nothing yet.
    pub(super) fn start(&mut self) {
        self.has_started = true;
        self.everything = Followed::default();
        self.names.clear();
    }

    /// Has the feed follow the subjects of a scope if `scopes` has it, or else unfollow them.
    pub(super) fn adjust(&mut self, scope: &Scope, scopes: &Scopes, outputs: &mut Outputs) {
        if !self.has_started {
            return;
        }
        match scope {
            Scope::Name(name) => {
                let followed = self.names.entry(name.clone()).or_default();
                let is_wanted = scopes.contains(scope);
                followed.want(is_wanted, Subject::Name(name.clone()), outputs);
            }
            Scope::Prefix(_) => {
                let is_wanted = scopes.have_prefixes();
                self.everything
                    .want(is_wanted, Subject::Everything, outputs);
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
