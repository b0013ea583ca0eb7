//! Results of acquires, and the answers to the client.

use std::{collections::HashMap, time::Duration};

use futures_util::FutureExt;
use leasehold_core::name::LockName;
use leasehold_proto::v1::{
    AcquireOutcome, GrantedLock, SessionGranted, SessionNotGranted, SessionQueued,
    session_response::Response,
};
use leasehold_store::{StoreError, clock};
use tokio::sync::oneshot;

use super::{
    acquires::{Acquiring, Stage, Wanted, told_queued},
    counts::Count,
    task::{Done, Session},
    wire::Wire,
};
use crate::{
    convert,
    coordinator::{
        acquire::{Acquired, Answered, InLine},
        hold::Hold,
    },
    status::{Reason, Refusal},
};

impl<W: Wire> Session<W> {
    /// One of several names has to be waited for.
    pub(super) fn on_several_queued(&mut self, request_id: u64, queued: SessionQueued) {
        self.came_back(request_id);
        if self.acquiring.contains_key(&request_id) {
            self.outbox.send(request_id, Response::Queued(queued));
        }
    }

    /// The store has answered an acquire of a single name.
    pub(super) fn on_answered(&mut self, request_id: u64, answered: Result<Answered, StoreError>) {
        self.came_back(request_id);
        let acquired = match answered {
            Ok(Answered::Queued(in_line)) => return self.on_queued(request_id, in_line),
            Ok(Answered::Granted(hold)) => Ok(Acquired::Granted(hold)),
            Ok(Answered::Busy(holder)) => Ok(Acquired::Busy(holder)),
            Ok(Answered::OtherLimit { name, limit }) => Ok(Acquired::OtherLimit { name, limit }),
            Err(error) => Err(error),
        };
        self.on_acquired(
            request_id,
            acquired.map(|acquired| acquired.map(|hold| [hold])),
        );
    }

    fn on_queued(&mut self, request_id: u64, mut in_line: InLine) {
        let Some(acquiring) = self.acquiring.get(&request_id) else {
            return;
        };
        let is_wanted = matches!(acquiring.stage, Stage::Asked);
        if is_wanted {
            let queued = told_queued(&in_line);
            self.outbox.send(request_id, Response::Queued(queued));
            if W::TELLS_TICKETS {
                in_line.resumable(&self.places);
            }
        }
        let cancel = self.wait_in_line(request_id, in_line);
        if let Some(acquiring) = self.acquiring.get_mut(&request_id) {
            acquiring.stage = Stage::InLine(Some(cancel));
            if !is_wanted {
                acquiring.cancel();
            }
        }
    }

    /// Waits for an acquire's turn; gives what cancels it.
    pub(super) fn wait_in_line(&mut self, request_id: u64, in_line: InLine) -> oneshot::Sender<()> {
        let (cancel, cancelled) = oneshot::channel();
        self.operations.push(
            async move {
                let acquired = in_line.wait(cancelled).await;
                Done::Acquired {
                    request_id,
                    acquired,
                }
            }
            .boxed(),
        );
        cancel
    }

    /// An acquire has come to its end.
    pub(super) fn on_acquired<Holds>(
        &mut self,
        request_id: u64,
        result: Result<Acquired<Holds>, StoreError>,
    ) where
        Holds: AsRef<[Hold]> + IntoIterator<Item = Hold>,
    {
        self.came_back(request_id);
        let Some(Acquiring { wanted, denied, .. }) = self.acquiring.remove(&request_id) else {
            // It was cancelled by the end of the session: what was granted is given back as it drops.
            return;
        };
        if let Some(refusal) = denied {
            return self.on_denied(request_id, &wanted, result, *refusal);
        }
        let (outcome, holder) = match result {
            Ok(Acquired::Granted(holds)) => return self.on_granted(request_id, wanted, holds),
            Ok(Acquired::Busy(holder)) => (AcquireOutcome::Busy, holder),
            Ok(Acquired::TimedOut(holder)) => (AcquireOutcome::TimedOut, holder),
            Ok(Acquired::Cancelled) => (AcquireOutcome::Cancelled, None),
            // Its outcome is told on the stream that resumed it.
            Ok(Acquired::Moved) => {
                self.outbox.following.moved(request_id);
                return self.end_wanted(&wanted);
            }
            Ok(Acquired::Failed(error)) => {
                self.end_wanted(&wanted);
                return self.refuse(request_id, error.into());
            }
            Ok(Acquired::OtherLimit { name, limit }) => {
                self.end_wanted(&wanted);
                return self.refuse(request_id, Refusal::other_limit(&name, limit));
            }
            Ok(Acquired::Refused(refusal)) => {
                self.end_wanted(&wanted);
                return self.refuse(request_id, *refusal);
            }
            Ok(Acquired::Deadlocked(why)) => {
                self.end_wanted(&wanted);
                let why = self.shown_deadlock(&why);
                return self.refuse(request_id, Refusal::new(Reason::Deadlock, why));
            }
            Err(error) => {
                self.end_wanted(&wanted);
                return self.refuse(request_id, error.into());
            }
        };
        self.end_wanted(&wanted);
        let holder = holder.filter(|_| self.may_inspect(&wanted));
        let not_granted = SessionNotGranted {
            outcome: outcome.into(),
            holder: holder.as_ref().map(convert::holder),
        };
        self.outbox
            .send(request_id, Response::NotGranted(not_granted));
    }

    /// Lets go of what an acquire that was not granted had begun with.
    pub(super) fn end_wanted(&mut self, wanted: &Wanted) {
        self.answered(wanted);
        for owner in &wanted.again {
            self.count_down(owner);
        }
    }

    /// Notes that an acquire is no longer under way.
    fn answered(&mut self, wanted: &Wanted) {
        self.asked_locks -= wanted.locks();
        for name in &wanted.names {
            self.actors.answered(wanted.actor, name);
        }
        self.count();
    }

    pub(super) fn on_granted<Holds>(&mut self, request_id: u64, wanted: Wanted, holds: Holds)
    where
        Holds: AsRef<[Hold]> + IntoIterator<Item = Hold>,
    {
        let again = wanted.again.iter().map(|owner| self.holds.get(owner));
        let stand_until = holds
            .as_ref()
            .iter()
            .map(|hold| Some(hold.stands_until()))
            .chain(again.map(|held| held.map(|held| held.hold.stands_until())))
            .min()
            .flatten();
        let promise = match self.kept {
            // Nobody hears of it: it is kept for whoever resumes it by its ticket, and nothing is promised.
            Some(_) => Some(Duration::ZERO),
            None => self.lease.promise(self.lease.heard_at(), stand_until),
        };
        let promise = promise.filter(|_| stand_until.is_some() && !self.closing);
        let Some(valid_for) = promise else {
            holds.into_iter().for_each(Hold::release_detached);
            self.end_wanted(&wanted);
            if !self.closing {
                self.refuse(request_id, too_late(stand_until.is_some()));
            }
            return;
        };
        self.answered(&wanted);
        if let Some(hold) = holds.as_ref().last() {
            let sent_at = hold.sent_at();
            let ago = || sent_at.until(clock::now());
            self.outbox.following.handed_off(request_id, ago);
        }
        let mut locks = Vec::with_capacity(wanted.names.len().max(1));
        for hold in holds {
            locks.push(granted_lock(&hold, 1));
            self.hold(hold.told(), wanted.actor, wanted.mode, Count::once());
        }
        if self.kept.is_some() {
            self.shorten_later(clock::now());
        }
        for owner in &wanted.again {
            if let Some(held) = self.holds.get(owner) {
                locks.push(granted_lock(&held.hold, held.count.get()));
            }
        }
        if wanted.names.len() > 1 {
            in_order(&mut locks, &wanted.names);
        }
        let granted = SessionGranted {
            locks,
            valid_for: Some(convert::wire_duration(valid_for)),
            acked_heartbeat: self.lease.sequence(),
        };
        self.outbox.send(request_id, Response::Granted(granted));
    }
}

fn granted_lock(hold: &Hold, hold_count: u32) -> GrantedLock {
    GrantedLock {
        name: hold.name().as_str().to_owned(),
        owner_id: hold.owner().as_bytes().to_vec(),
        fencing_token: hold.token().get(),
        hold_count,
    }
}

/// Puts locks into the order of these names.
fn in_order(locks: &mut [GrantedLock], names: &[LockName]) {
    let places: HashMap<&str, usize> = names.iter().map(LockName::as_str).zip(0..).collect();
    locks.sort_by_key(|lock| places.get(lock.name.as_str()).copied());
}

/// The refusal of what was granted, but with nothing left of its time, or (`stands` is false) without a hold that it was to
/// come on top of.
fn too_late(stands: bool) -> Refusal {
    if stands {
        let reason =
            "the grant came so late that its time was over; it is being released".to_owned();
        return StoreError::Indeterminate { reason }.into();
    }
    Refusal::new(
        Reason::LockLost,
        "a lock that the actor held, and was to hold once more, was lost meanwhile; nothing was granted",
    )
}
