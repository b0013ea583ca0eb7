//! What a client may ask on its stream.

use std::sync::Arc;

use futures_util::FutureExt;
use leasehold_core::{
    command::{self, Acquire, Op, Reply},
    id::OwnerId,
    name::{LockName, Value},
};
use leasehold_proto::v1::{
    AcquireOutcome, GrantedLock, SessionAcquire, SessionGranted, SessionNotGranted, SessionQueued,
    SessionRelease, SessionReleased, SessionRequest, SessionSetValue, SessionValueSet,
    session_request::Request, session_response::Response,
};
use leasehold_store::{Answer, LockStore, Stamped, StoreError};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    MAX_IN_FLIGHT,
    ending::End,
    task::{Done, Session},
};
use crate::{
    convert,
    coordinator::acquire::{self, Acquired, Answered, Hold, InLine, Wait},
    status::{Reason, Refusal},
};

/// Where an acquire is that has not been answered.
#[derive(Debug)]
pub(super) enum Acquiring {
    /// On its way to the store.
    Asked,
    /// The same, and cancelled: if it has to wait, it does not.
    Cancelled,
    /// In the queue, with what cancels it, once.
    InLine(Option<oneshot::Sender<()>>),
}

impl Acquiring {
    /// Ends the wait. A grant that is there before stands.
    pub(super) fn cancel(&mut self) {
        match self {
            Self::Asked => *self = Self::Cancelled,
            Self::Cancelled => {}
            Self::InLine(cancel) => {
                if let Some(cancel) = cancel.take() {
                    // Its answer may have crossed the cancel: then there is nothing to do.
                    let _ = cancel.send(());
                }
            }
        }
    }
}

/// What the store was asked. Dropping it ends what it may come to in the background.
#[derive(Debug)]
pub(super) enum Asked {
    Acquire {
        request_id: u64,
        asked: acquire::Asked,
    },
    Release {
        request_id: u64,
        name: LockName,
        /// The session's hold, if it was one.
        hold: Option<Hold>,
    },
    SetValue {
        request_id: u64,
        name: LockName,
    },
}

impl Session {
    /// Takes one request in; gives why the session ends, if it does. A bad request is answered with `error` and changes
    /// nothing.
    pub(super) fn on_request(&mut self, request: SessionRequest) -> Option<End> {
        let request_id = request.request_id;
        let outcome = match request.request {
            Some(Request::Acquire(acquire)) => self.on_acquire(request_id, acquire),
            Some(Request::Release(release)) => self.on_release(request_id, &release),
            Some(Request::Heartbeat(heartbeat)) => self.on_heartbeat(request_id, heartbeat),
            Some(Request::SetValue(set_value)) => self.on_set_value(request_id, &set_value),
            Some(Request::Cancel(cancel)) => {
                if let Some(acquiring) = self.acquiring.get_mut(&cancel.acquire_request_id) {
                    acquiring.cancel();
                }
                Ok(())
            }
            Some(Request::Close(_)) => return Some(End::Closed(request_id)),
            Some(Request::Open(_)) => Err(Refusal::new(
                Reason::AlreadyOpen,
                "this stream's session is open already; open another stream for another session",
            )),
            None => Err(Refusal::new(
                Reason::UnknownRequest,
                "the message holds no request that this coordinator knows; set one of the fields of `request`",
            )),
        };
        if let Err(refusal) = outcome {
            self.refuse(request_id, refusal);
        }
        None
    }

    fn refuse(&mut self, request_id: u64, refusal: Refusal) {
        self.outbox
            .send(request_id, Response::Error(refusal.into_failure()));
    }

    fn on_acquire(&mut self, request_id: u64, request: SessionAcquire) -> Result<(), Refusal> {
        let name = convert::lock_name("acquire.name", &request.name, self.coordinator.store())?;
        convert::mode("acquire.mode", request.mode)?;
        let wait = convert::wait(
            "acquire.wait",
            request.wait,
            Wait::Forever,
            self.coordinator.max_wait(),
        )?;
        let value = convert::value("acquire.value", &request.value)?;
        let bounds = self.coordinator.bounds();
        let lock_delay = convert::lock_delay("acquire.lock_delay", request.lock_delay, bounds)?;
        if self.acquiring.contains_key(&request_id) {
            return Err(Refusal::new(
                Reason::RequestIdInUse,
                format!(
                    "request id {request_id} belongs to an acquire that is still in flight; use another"
                ),
            ));
        }
        if self.holds.len() + self.acquiring.len() >= self.max_locks {
            return Err(Refusal::new(
                Reason::TooManyLocks,
                format!(
                    "the session holds and waits for {} locks, which is the limit; release some first",
                    self.max_locks
                ),
            ));
        }
        let owner = OwnerId::from_bytes(Uuid::new_v4().into_bytes());
        let acquire = Acquire {
            owner,
            session: Some(self.id),
            client_name: self.client_name.clone(),
            value,
            ttl: self.lease.ttl(),
            lock_delay,
            wait: wait != Wait::No,
        };
        self.acquiring.insert(request_id, Acquiring::Asked);
        self.count();
        let (number, answer) = self.next_answer();
        let asked = self.coordinator.ask(name, acquire, wait, answer);
        self.asked
            .insert(number, Asked::Acquire { request_id, asked });
        Ok(())
    }

    /// The place of the next answer from the store.
    fn next_answer(&mut self) -> (u64, Answer) {
        self.asked_so_far += 1;
        let number = self.asked_so_far;
        let inbox = Arc::clone(&self.inbox);
        (number, Answer::numbered(number, inbox))
    }

    fn on_release(&mut self, request_id: u64, request: &SessionRelease) -> Result<(), Refusal> {
        let (name, owner) = self.hold_named(
            ("release.name", &request.name),
            ("release.owner_id", &request.owner_id),
        )?;
        // Given back from here on, whatever becomes of what follows.
        let hold = self.unhold(&owner).map(Hold::given_back);
        if self.is_busy() {
            return Err(too_many_requests(if hold.is_some() {
                "the release goes on in the background"
            } else {
                "nothing was released"
            }));
        }
        self.ask(
            name.clone(),
            Op::Release {
                owner,
                end: command::End::Clean,
            },
            Asked::Release {
                request_id,
                name,
                hold,
            },
        );
        Ok(())
    }

    fn on_set_value(&mut self, request_id: u64, request: &SessionSetValue) -> Result<(), Refusal> {
        let (name, owner) = self.hold_named(
            ("set_value.name", &request.name),
            ("set_value.owner_id", &request.owner_id),
        )?;
        let value: Value = convert::value("set_value.value", &request.value)?;
        if self.is_busy() {
            return Err(too_many_requests("the value was not changed"));
        }
        self.ask(
            name.clone(),
            Op::SetValue { owner, value },
            Asked::SetValue { request_id, name },
        );
        Ok(())
    }

    fn ask(&mut self, name: LockName, op: Op, asked: Asked) {
        self.others_in_flight += 1;
        let (number, answer) = self.next_answer();
        self.asked.insert(number, asked);
        let command = self.coordinator.command(name, op);
        self.coordinator.store().send(command, answer);
    }

    /// Whether as much is in flight as may be, beside the acquires, which count among the locks, and renewals.
    fn is_busy(&self) -> bool {
        self.others_in_flight >= MAX_IN_FLIGHT
    }

    /// The lock and owner id that a request names. Where the session holds that owner id, the name must be that hold's.
    fn hold_named(
        &self,
        (name_field, name): (&str, &str),
        (owner_field, owner): (&str, &[u8]),
    ) -> Result<(LockName, OwnerId), Refusal> {
        let name = convert::lock_name(name_field, name, self.coordinator.store())?;
        let owner = convert::owner_id(owner_field, owner)?;
        match self.holds.get(&owner) {
            Some(held) if *held.hold.name() != name => Err(Refusal::field(
                name_field,
                "must be the lock that was granted with this owner id",
            )),
            _ => Ok((name, owner)),
        }
    }

    /// Takes an answer of the store in.
    pub(super) fn on_answer(&mut self, number: u64, result: Result<Stamped, StoreError>) {
        match self.asked.remove(&number) {
            Some(Asked::Acquire { request_id, asked }) => match asked.answered(result) {
                Ok(Answered::Granted(hold)) => {
                    self.on_acquired(request_id, Ok(Acquired::Granted(hold)));
                }
                Ok(Answered::Busy(holder)) => {
                    self.on_acquired(request_id, Ok(Acquired::Busy(holder)));
                }
                Ok(Answered::Queued(in_line)) => self.on_queued(request_id, in_line),
                Err(error) => self.on_acquired(request_id, Err(error)),
            },
            Some(Asked::Release {
                request_id,
                name,
                hold,
            }) => {
                self.others_in_flight -= 1;
                let released = self.coordinator.outcome(&name, result).map(|stamped| {
                    matches!(stamped.executed.reply, Reply::Released { held: true, .. })
                });
                // Otherwise its drop goes on trying in the background.
                if released.is_ok()
                    && let Some(hold) = hold
                {
                    hold.forget();
                }
                self.answer(request_id, released, |released| {
                    Response::Released(SessionReleased { released })
                });
            }
            Some(Asked::SetValue { request_id, name }) => {
                self.others_in_flight -= 1;
                let value_set = self
                    .coordinator
                    .outcome(&name, result)
                    .map(|stamped| stamped.executed.reply == Reply::ValueSet(true));
                self.answer(request_id, value_set, |value_set| {
                    Response::ValueSet(SessionValueSet { value_set })
                });
            }
            // The session has let go of it.
            None => {}
        }
    }

    fn on_queued(&mut self, request_id: u64, in_line: InLine) {
        let (cancel, cancelled) = oneshot::channel();
        let mut acquiring = Acquiring::InLine(Some(cancel));
        if let Some(Acquiring::Asked) = self.acquiring.get(&request_id) {
            let queued = SessionQueued {
                position: in_line.position(),
                ticket: in_line.ticket().as_bytes().to_vec(),
            };
            self.outbox.send(request_id, Response::Queued(queued));
        } else {
            acquiring.cancel();
        }
        self.acquiring.insert(request_id, acquiring);
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
    }

    pub(super) fn on_done(&mut self, done: Done) {
        match done {
            Done::Acquired {
                request_id,
                acquired,
            } => self.on_acquired(request_id, Ok(acquired)),
            Done::Renewed(results) => self.on_renewed(results),
        }
    }

    fn answer(
        &mut self,
        request_id: u64,
        result: Result<bool, StoreError>,
        response: impl FnOnce(bool) -> Response,
    ) {
        match result {
            Ok(done) => self.outbox.send(request_id, response(done)),
            Err(error) => self.refuse(request_id, error.into()),
        }
    }

    fn on_acquired(&mut self, request_id: u64, result: Result<Acquired, StoreError>) {
        self.acquiring.remove(&request_id);
        self.count();
        let (outcome, holder) = match result {
            Ok(Acquired::Granted(hold)) => return self.on_granted(request_id, hold),
            Ok(Acquired::Busy(holder)) => (AcquireOutcome::Busy, holder),
            Ok(Acquired::TimedOut(holder)) => (AcquireOutcome::TimedOut, holder),
            Ok(Acquired::Cancelled) => (AcquireOutcome::Cancelled, None),
            Err(error) => return self.refuse(request_id, error.into()),
        };
        let not_granted = SessionNotGranted {
            outcome: outcome.into(),
            holder: holder.as_ref().map(convert::holder),
        };
        self.outbox
            .send(request_id, Response::NotGranted(not_granted));
    }

    fn on_granted(&mut self, request_id: u64, hold: Hold) {
        if self.closing {
            return hold.release_detached();
        }
        let Some(valid_for) = self
            .lease
            .promise(self.lease.heard_at(), Some(hold.stands_until()))
        else {
            // It took so long that nothing is left of it.
            hold.release_detached();
            let reason =
                "the grant came so late that its time was over; it is being released".to_owned();
            return self.refuse(request_id, StoreError::Indeterminate { reason }.into());
        };
        let granted = SessionGranted {
            locks: vec![GrantedLock {
                name: hold.name().as_str().to_owned(),
                owner_id: hold.owner().as_bytes().to_vec(),
                fencing_token: hold.token().get(),
                hold_count: 1,
            }],
            valid_for: Some(convert::wire_duration(valid_for)),
            acked_heartbeat: self.lease.sequence(),
        };
        self.hold(hold);
        self.outbox.send(request_id, Response::Granted(granted));
    }
}

/// The refusal of a request while too many others are in flight; `so` says what became of it.
fn too_many_requests(so: &str) -> Refusal {
    Refusal::new(
        Reason::TooManyRequests,
        format!(
            "the session has {MAX_IN_FLIGHT} releases and set_values in flight, which is the limit, so {so}; wait for answers before asking for more"
        ),
    )
}
