//! Handle on the audit log: the only place where its events are made.

use std::{io, path::Path, sync::Arc};

use leasehold_core::{
    command::{Acquire, Loss, Reply, Resume, Stamped},
    id::{CoordinatorId, FencingToken, OwnerId},
    mode::Mode,
    name::{ClientName, LockName},
    session::LostWhy,
    time::{Moment, StoreTime},
};
use leasehold_store::clock;

use super::{
    event::{Action, EndKind, Event, Facts, Why},
    ledger::Entry,
    shared::Shared,
    writer::Counters,
    writing::Unwritten,
};
use crate::status::{Reason, Refusal};

/// A cheap handle on the audit log. Without one, it does nothing.
#[derive(Clone, Debug, Default)]
pub struct Audit(Option<Arc<Shared>>);

/// Holder in the audit log: what a machine does not know of its client.
#[derive(Clone, Debug, Default)]
pub struct Holder {
    /// The caller's identity, if it has one.
    pub identity: Option<Arc<str>>,
    /// Whether it is a candidate.
    pub is_candidate: bool,
}

impl Audit {
    /// Opens the audit log at this path, with the coordinator's first line.
    ///
    /// # Errors
    ///
    /// If the file can't be opened.
    pub fn open(
        path: &Path,
        coordinator: &CoordinatorId,
        counters: Counters,
    ) -> io::Result<(Self, Unwritten)> {
        let unwritten = Unwritten::open(path, coordinator, counters)?;
        let audit = Self(Some(Arc::clone(unwritten.shared())));
        audit.tell(Event::Started);
        Ok((audit, unwritten))
    }

    /// Returns whether there is an audit log.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a text for events, if there is an audit log.
    #[must_use]
    pub fn text(&self, text: Option<&str>) -> Option<Arc<str>> {
        text.filter(|_| self.is_on()).map(Into::into)
    }

    /// Has the file opened anew if it was moved.
    pub fn reopen(&self) {
        if let Some(shared) = &self.0 {
            shared.reopen();
        }
    }

    /// Takes in the store's time of an answer that has just come.
    pub fn learn(&self, at: StoreTime) {
        if let Some(shared) = &self.0 {
            shared.learn(at);
        }
    }

    /// Takes in that an acquire is sent, or that a place in the queue was resumed.
    pub fn asked(&self, name: &LockName, acquire: &Acquire, holder: &Holder) {
        let Some(shared) = &self.0 else { return };
        shared.ledger.insert(acquire.owner, || Entry {
            facts: Facts {
                is_election: holder.is_candidate,
                identity: holder.identity.clone(),
                session: acquire.session,
                ..Facts::new(name, acquire.mode, acquire.client_name.clone())
            },
            since: Some(clock::now()),
            why: None,
            due: None,
        });
    }

    /// Takes in that the store granted an acquire, at this time if it is known.
    pub fn granted(
        &self,
        owner: &OwnerId,
        (token, permits): (FencingToken, Option<u32>),
        at: Option<StoreTime>,
    ) {
        let Some(shared) = &self.0 else { return };
        let at = at.unwrap_or_else(|| shared.now());
        let granted = shared.ledger.change(owner, |entry| {
            if entry.facts.token == Some(token) {
                return None;
            }
            // A fail-over of the store had lost the grant before, and its waiter was granted another.
            let before = entry.is_granted().then(|| entry.facts.clone());
            entry.facts.token = Some(token);
            entry.facts.permits = permits;
            entry.facts.granted_at = Some(at);
            entry.facts.waited = entry.since.map(|since| since.until(clock::now()));
            Some((before, entry.facts.clone()))
        });
        if let Some((before, facts)) = granted.flatten() {
            if let Some(before) = before {
                shared.put(at, Event::Ended(before, EndKind::Lost, Why::Taken));
            }
            shared.put(at, Event::Granted(facts));
        }
    }

    /// Takes in that a hold was resumed from other owner ids, or, without a token, a place.
    pub fn resumed(
        &self,
        name: &LockName,
        resume: &Resume,
        (token, mode): (Option<FencingToken>, Mode),
        (holder, at): (&Holder, StoreTime),
    ) {
        let Some(shared) = &self.0 else { return };
        let mut from = resume.from.iter().chain([&resume.next]);
        let before = from.find_map(|owner| shared.ledger.remove_if(owner, |_| true));
        let is_known = before.as_ref().is_some_and(|entry| {
            // The answer to the same resume was lost before.
            entry.facts.session == resume.session && entry.facts.session.is_some()
        });
        let mut entry = before.unwrap_or_else(|| Entry {
            facts: Facts::new(name, mode, resume.client_name.clone()),
            since: None,
            why: None,
            due: None,
        });
        let facts = &mut entry.facts;
        facts.client_name = resume.client_name.clone();
        facts.identity.clone_from(&holder.identity);
        facts.session = resume.session;
        entry.why = None;
        entry.due = None;
        if let Some(token) = token {
            facts.mode = mode;
            let is_new = facts.token != Some(token);
            facts.token = Some(token);
            if !is_known || is_new {
                shared.put(at, Event::Resumed(facts.clone()));
            }
        }
        shared.ledger.replace(resume.next, entry);
    }

    /// Takes in that an owner id stands for nothing here any more. A hold of the unary calls goes on.
    pub fn forgotten(&self, owner: &OwnerId) {
        let Some(shared) = &self.0 else { return };
        shared.ledger.remove_if(owner, |entry| !entry.is_granted());
    }

    /// Takes in why a hold is about to end, unless that is known already.
    pub fn ending(&self, owner: &OwnerId, why: Why) {
        let Some(shared) = &self.0 else { return };
        shared.ledger.change(owner, |entry| {
            entry.why.get_or_insert(why);
        });
    }

    /// Takes in the answer to a release.
    pub fn release_answered(&self, owner: &OwnerId, answer: &Stamped) {
        self.released(owner, is_held(answer).then_some(answer.executed.at));
    }

    /// Takes in what a release found: at which time it ended the hold, or `None` if there was none.
    pub fn released(&self, owner: &OwnerId, at: Option<StoreTime>) {
        let Some(shared) = &self.0 else { return };
        let Some(entry) = shared.ledger.remove_if(owner, |_| true) else {
            return;
        };
        if !entry.is_granted() {
            return;
        }
        let (kind, why) = match (at, entry.why) {
            (Some(_), why) => (EndKind::Released, why.unwrap_or(Why::Client)),
            (None, Some(Why::NotRenewed)) => (EndKind::Expired, Why::NotRenewed),
            (None, None | Some(Why::Client | Why::GivenBack)) => (EndKind::Lost, Why::FoundGone),
            // Its client may have resumed it elsewhere before this coordinator noticed that it was gone.
            (None, Some(_)) => (EndKind::Left, Why::FoundGone),
        };
        let at = at.unwrap_or_else(|| shared.now());
        shared.put(at, Event::Ended(entry.facts, kind, why));
    }

    /// Takes in the answer to a release by a unary call, perhaps of a hold that was granted elsewhere.
    pub fn released_by_call(
        &self,
        (name, owner): (&LockName, &OwnerId),
        identity: Option<&str>,
        answer: &Stamped,
    ) {
        let Some(shared) = &self.0 else { return };
        let (is_held, at) = (is_held(answer), answer.executed.at);
        let is_known = shared.ledger.change(owner, |_| ()).is_some();
        if is_held && !is_known {
            let facts = Facts {
                identity: identity.map(Into::into),
                ..Facts::new(name, Mode::Exclusive, ClientName::default())
            };
            shared.put(at, Event::Ended(facts, EndKind::Released, Why::Client));
        }
        self.release_answered(owner, answer);
    }

    /// Takes in that a hold is lost, or is taken away. `is_session_ended` says that an operator ended its session.
    pub fn lost(&self, owner: &OwnerId, why: LostWhy, is_session_ended: bool) {
        let Some(shared) = &self.0 else { return };
        let (kind, why) = match why {
            // The release that follows ends it in the store, if it is not gone.
            LostWhy::Revoked => return self.ending(owner, Why::PermissionRevoked),
            LostWhy::MaxHold => return self.ending(owner, Why::MaxHold),
            LostWhy::Store(Loss::Expired) => return self.ending(owner, Why::NotRenewed),
            // It lives on where it was resumed.
            LostWhy::Store(Loss::Resumed) => {
                shared.ledger.remove_if(owner, |_| true);
                return;
            }
            LostWhy::Store(Loss::Deleted) => (EndKind::Lost, Why::Deleted),
            LostWhy::Store(Loss::Taken) => (EndKind::Lost, Why::Taken),
            LostWhy::Store(Loss::Forced) if is_session_ended => {
                (EndKind::ForceReleased, Why::SessionEnded)
            }
            LostWhy::Store(Loss::Forced) => (EndKind::ForceReleased, Why::Operator),
        };
        shared.end(owner, kind, why, |_| true);
    }

    /// Takes in that a hold of the unary calls is lost, if the owner id is that of one.
    pub fn lost_by_caller(&self, owner: &OwnerId, loss: Loss) {
        let Some(shared) = &self.0 else { return };
        let (kind, why) = match loss {
            Loss::Expired => (EndKind::Expired, Why::NotRenewed),
            Loss::Deleted => (EndKind::Lost, Why::Deleted),
            Loss::Taken => (EndKind::Lost, Why::Taken),
            Loss::Forced => (EndKind::ForceReleased, Why::Operator),
            Loss::Resumed => {
                shared.ledger.remove_if(owner, is_unary);
                return;
            }
        };
        shared.end(owner, kind, why, is_unary);
    }

    /// Takes in that the coordinator stops, and leaves a hold in the store.
    pub fn left(&self, owner: &OwnerId) {
        let Some(shared) = &self.0 else { return };
        shared.end(owner, EndKind::Left, Why::Stopped, |_| true);
    }

    /// Takes in until when nobody need renew a hold of the unary calls.
    pub fn stands_until(&self, owner: OwnerId, until: Moment) {
        let Some(shared) = &self.0 else { return };
        if shared.ledger.set_due(owner, until) {
            shared.due.notify_one();
        }
    }

    /// Returns when the first hold of the unary calls may have expired.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.0.as_ref()?.ledger.next_due()
    }

    /// Waits until a hold of the unary calls is due earlier than all before.
    pub(crate) async fn due_changed(&self) {
        match &self.0 {
            Some(shared) => shared.due.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Returns a hold of the unary calls that may have expired, its name and its token.
    pub(crate) fn take_due(&self, now: Moment) -> Option<(OwnerId, LockName, FencingToken)> {
        let (owner, entry) = self.0.as_ref()?.ledger.take_due(now)?;
        Some((owner, entry.facts.name, entry.facts.token?))
    }

    /// Takes in that a hold of the unary calls is no longer in the store.
    pub(crate) fn not_seen(&self, owner: &OwnerId) {
        let Some(shared) = &self.0 else { return };
        shared.end(owner, EndKind::Expired, Why::NotSeen, is_unary);
    }

    /// Tells of an action of an operator.
    pub fn operator(&self, action: Action) {
        if self.is_on() {
            self.tell(Event::Operator(action));
        }
    }

    /// Tells of a refusal, if it is for want of a permission.
    pub fn refused(&self, refusal: &Refusal, identity: Option<&str>) {
        if self.is_on() && refusal.reason == Reason::PermissionDenied {
            let detail = |key| {
                let mut details = refusal.metadata.iter();
                let found = details.find(|(name, _)| *name == key);
                found.map(|(_, value)| value.as_str())
            };
            let of = (detail("permission"), detail("name"));
            self.denied(refusal.reason.as_str(), of, identity, || None);
        }
    }

    /// Tells that a caller was denied something.
    pub fn denied(
        &self,
        reason: &'static str,
        (permission, name): (Option<&str>, Option<&str>),
        identity: Option<&str>,
        peer: impl FnOnce() -> Option<String>,
    ) {
        if self.is_on() {
            self.tell(Event::Denied {
                reason,
                permission: permission.map(Into::into),
                name: name.map(Into::into),
                identity: identity.map(Into::into),
                peer: peer(),
            });
        }
    }

    fn tell(&self, event: Event) {
        if let Some(shared) = &self.0 {
            shared.put(shared.now(), event);
        }
    }
}

/// Returns whether a release ended a hold.
fn is_held(answer: &Stamped) -> bool {
    matches!(answer.executed.reply, Reply::Released { held: true, .. })
}

fn is_unary(entry: &Entry) -> bool {
    entry.facts.session.is_none()
}

#[cfg(test)]
mod tests;
