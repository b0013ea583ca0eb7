//! What a client may ask on its stream.

use futures_util::FutureExt;
use leasehold_core::{
    command::Acquire,
    id::OwnerId,
    name::{LockName, Value},
};
use leasehold_proto::v1::{
    AcquireOutcome, GrantedLock, SessionAcquire, SessionGranted, SessionNotGranted, SessionQueued,
    SessionRelease, SessionReleased, SessionRequest, SessionSetValue, SessionValueSet,
    session_request::Request, session_response::Response,
};
use leasehold_store::StoreError;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    MAX_IN_FLIGHT,
    ending::End,
    task::{Done, Session},
};
use crate::{
    convert,
    coordinator::acquire::{Acquired, Hold, Wait},
    status::{Reason, Refusal},
};

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
                // Its answer may have crossed the cancel: then there is nothing to do.
                let acquire = self.acquiring.get_mut(&cancel.acquire_request_id);
                if let Some(cancel) = acquire.and_then(Option::take) {
                    let _ = cancel.send(());
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
        let (cancel, cancelled) = oneshot::channel();
        self.acquiring.insert(request_id, Some(cancel));
        self.count();
        let coordinator = self.coordinator.clone();
        let queued = self.queued.clone();
        self.operations.push(
            async move {
                let on_queued = move |position| {
                    // The session is gone: nobody is left to be told.
                    let _ = queued.send(Done::Queued {
                        request_id,
                        position,
                        ticket: owner,
                    });
                };
                let result = coordinator
                    .acquire(name, acquire, wait, on_queued, cancelled)
                    .await;
                Done::Acquired { request_id, result }
            }
            .boxed(),
        );
        Ok(())
    }

    fn on_release(&mut self, request_id: u64, request: &SessionRelease) -> Result<(), Refusal> {
        let (name, owner) = self.hold_named("release", &request.name, &request.owner_id)?;
        // Given back from here on, whether what follows is ever polled or not.
        let hold = self.unhold(&owner).map(Hold::given_back);
        if self.is_busy() {
            return Err(too_many_requests(if hold.is_some() {
                "the release goes on in the background"
            } else {
                "nothing was released"
            }));
        }
        let coordinator = self.coordinator.clone();
        self.operations.push(
            async move {
                let result = match hold {
                    Some(hold) => hold.release().await,
                    None => coordinator.release(&name, owner).await,
                };
                Done::Released { request_id, result }
            }
            .boxed(),
        );
        Ok(())
    }

    fn on_set_value(&mut self, request_id: u64, request: &SessionSetValue) -> Result<(), Refusal> {
        let (name, owner) = self.hold_named("set_value", &request.name, &request.owner_id)?;
        let value: Value = convert::value("set_value.value", &request.value)?;
        if self.is_busy() {
            return Err(too_many_requests("the value was not changed"));
        }
        let coordinator = self.coordinator.clone();
        self.operations.push(
            async move {
                let result = coordinator.set_value(&name, owner, value).await;
                Done::ValueSet { request_id, result }
            }
            .boxed(),
        );
        Ok(())
    }

    /// Whether as many operations are in flight as may be, beside the acquires, which count among the locks, and renewals.
    fn is_busy(&self) -> bool {
        let others = self.operations.len() - self.acquiring.len().min(self.operations.len());
        others >= MAX_IN_FLIGHT + usize::from(self.renewing)
    }

    /// The lock and owner id that a request names. Where the session holds that owner id, the name must be that hold's.
    fn hold_named(
        &self,
        request: &str,
        name: &str,
        owner: &[u8],
    ) -> Result<(LockName, OwnerId), Refusal> {
        let name = convert::lock_name(&format!("{request}.name"), name, self.coordinator.store())?;
        let owner = convert::owner_id(&format!("{request}.owner_id"), owner)?;
        match self.holds.get(&owner) {
            Some(held) if *held.hold.name() != name => Err(Refusal::field(
                &format!("{request}.name"),
                "must be the lock that was granted with this owner id",
            )),
            _ => Ok((name, owner)),
        }
    }

    pub(super) fn on_done(&mut self, done: Done) {
        match done {
            Done::Queued {
                request_id,
                position,
                ticket,
            } => {
                // Unless it was answered or cancelled already: then the news is old.
                if let Some(Some(_)) = self.acquiring.get(&request_id) {
                    let queued = SessionQueued {
                        position,
                        ticket: ticket.as_bytes().to_vec(),
                    };
                    self.outbox.send(request_id, Response::Queued(queued));
                }
            }
            Done::Acquired { request_id, result } => self.on_acquired(request_id, result),
            Done::Released { request_id, result } => self.answer(request_id, result, |released| {
                Response::Released(SessionReleased { released })
            }),
            Done::ValueSet { request_id, result } => self.answer(request_id, result, |value_set| {
                Response::ValueSet(SessionValueSet { value_set })
            }),
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
