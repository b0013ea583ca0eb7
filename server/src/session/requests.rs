//! Requests of a client on its stream, except the course of acquires, which is in `acquires`.

use std::sync::Arc;

use leasehold_core::{
    command::{self, Op, Reply},
    id::OwnerId,
    mode::Mode,
    name::{LockName, Value},
};
use leasehold_proto::v1::{
    SessionDowngrade, SessionDowngraded, SessionRelease, SessionReleased, SessionRequest,
    SessionSetValue, SessionValueSet, session_request::Request, session_response::Response,
};
use leasehold_store::{Answer, LockStore, Stamped, StoreError};

use super::{
    MAX_IN_FLIGHT,
    ending::End,
    task::{Done, Session},
    wire::Wire,
};
use crate::{
    convert,
    coordinator::{acquire, hold::Hold},
    limits::too_many_in_flight,
    status::{Reason, Refusal},
};

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
    Downgrade {
        request_id: u64,
        name: LockName,
    },
    /// How many times a hold is held, for others to see.
    Count {
        name: LockName,
        owner: OwnerId,
        count: u32,
    },
}

impl Asked {
    /// The client's request that it is for, if it is for one.
    const fn request_id(&self) -> Option<u64> {
        match self {
            Self::Acquire { request_id, .. }
            | Self::Release { request_id, .. }
            | Self::SetValue { request_id, .. }
            | Self::Downgrade { request_id, .. } => Some(*request_id),
            Self::Count { .. } => None,
        }
    }
}

impl<W: Wire> Session<W> {
    /// Takes one request in; gives why the session ends, if it does. A bad request is answered with `error` and changes
    /// nothing.
    pub(super) fn on_request(&mut self, request: SessionRequest) -> Option<End> {
        let request_id = request.request_id;
        let metrics = self.coordinator.metrics();
        metrics.count_request(request.request.as_ref());
        self.outbox.following.asked(&request);
        // What shows life or gives something back is never refused for being asked too often.
        let is_counted = !matches!(
            request.request,
            Some(
                Request::Heartbeat(_)
                    | Request::Release(_)
                    | Request::Cancel(_)
                    | Request::Close(_)
            )
        );
        if is_counted && let Err(refusal) = self.coordinator.limits().request(&self.account) {
            self.refuse(request_id, refusal);
            return None;
        }
        let outcome = match request.request {
            Some(Request::Acquire(acquire)) => self.on_acquire(request_id, acquire),
            Some(Request::Release(release)) => self.on_release(request_id, &release),
            Some(Request::Heartbeat(heartbeat)) => self.on_heartbeat(request_id, heartbeat),
            Some(Request::SetValue(set_value)) => self.on_set_value(request_id, &set_value),
            Some(Request::Downgrade(downgrade)) => self.on_downgrade(request_id, &downgrade),
            Some(Request::Cancel(cancel)) => {
                self.cancel(cancel.acquire_request_id);
                Ok(())
            }
            Some(Request::Close(_)) => {
                // It believes in none of them any more.
                self.revoked.give_back();
                return Some(End::Closed(request_id));
            }
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

    pub(super) fn refuse(&mut self, request_id: u64, refusal: Refusal) {
        self.outbox.refuse(request_id, refusal);
    }

    /// The place of the next answer from the store.
    pub(super) fn next_answer(&mut self) -> (u64, Answer) {
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
        if self
            .holds
            .get(&owner)
            .is_some_and(|held| held.count.get() > 1)
        {
            let released = SessionReleased {
                released: true,
                hold_count: self.count_down(&owner),
            };
            self.outbox.send(request_id, Response::Released(released));
            return Ok(());
        }
        // It was revoked, and its client has not heard of it: whoever else holds it there still counts on it.
        if self.revoked.is(&owner, &name)
            && let Some(hold_count) = self.revoked.count_down(&owner)
        {
            let released = SessionReleased {
                released: true,
                hold_count,
            };
            self.outbox.send(request_id, Response::Released(released));
            return Ok(());
        }
        // Given back from here on, whatever becomes of what follows.
        let revoked = self.revoked.is(&owner, &name).then_some(owner);
        let hold = self.unhold(&owner).or_else(|| self.revoked.take(&revoked?));
        let hold = hold.map(Hold::given_back);
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
        self.check_not_revoked(&owner, &name)?;
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

    fn on_downgrade(&mut self, request_id: u64, request: &SessionDowngrade) -> Result<(), Refusal> {
        let (name, owner) = self.hold_named(
            ("downgrade.name", &request.name),
            ("downgrade.owner_id", &request.owner_id),
        )?;
        self.check_not_revoked(&owner, &name)?;
        // Shared, it is nothing to an election any more.
        self.check_acquire(Mode::Shared, &name, &[])?;
        if let Some(held) = self.holds.get(&owner)
            && held.mode.limit().is_some()
        {
            return Err(Refusal::new(
                Reason::NotExclusive,
                format!(
                    "{:?} is held as permits of a semaphore, and only an exclusive hold can be made a shared one",
                    name.as_str()
                ),
            ));
        }
        if self.is_busy() {
            return Err(too_many_requests("the hold was not downgraded"));
        }
        // From here on, whatever becomes of it: nothing may count on its being exclusive.
        if let Some(held) = self.holds.get_mut(&owner) {
            held.mode = Mode::Shared;
        }
        self.ask(
            name.clone(),
            Op::Downgrade { owner },
            Asked::Downgrade { request_id, name },
        );
        Ok(())
    }

    pub(super) fn ask(&mut self, name: LockName, op: Op, asked: Asked) {
        self.others_in_flight += 1;
        let (number, answer) = self.next_answer();
        let script_of = asked.request_id();
        self.asked.insert(number, asked);
        let command = self.coordinator.command(name, op);
        self.coordinator.store().send(command, answer);
        if let Some(request_id) = script_of {
            self.outbox.following.script(request_id);
        }
    }

    /// Whether as much is in flight as may be, beside the acquires, which count among the locks, and renewals.
    pub(super) fn is_busy(&self) -> bool {
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
            Some(_) => Ok((name, owner)),
            None if self.revoked.is(&owner, &name) => Ok((name, owner)),
            // Whoever has somebody else's owner id needs the permission as well.
            None => {
                self.check_acquire(Mode::Exclusive, &name, &[])?;
                Ok((name, owner))
            }
        }
    }

    /// Takes an answer of the store in.
    pub(super) fn on_answer(&mut self, number: u64, result: Result<Stamped, StoreError>) {
        match self.asked.remove(&number) {
            Some(Asked::Acquire { request_id, asked }) => {
                self.on_answered(request_id, asked.answered(result));
            }
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
                    Response::Released(SessionReleased {
                        released,
                        hold_count: 0,
                    })
                });
            }
            Some(Asked::SetValue { request_id, name }) => {
                self.others_in_flight -= 1;
                let value_set = self
                    .coordinator
                    .outcome(&name, result)
                    .map(|stamped| stamped.executed.reply == Reply::Changed(true));
                self.answer(request_id, value_set, |value_set| {
                    Response::ValueSet(SessionValueSet { value_set })
                });
            }
            Some(Asked::Downgrade { request_id, name }) => {
                self.others_in_flight -= 1;
                let downgraded = self
                    .coordinator
                    .outcome(&name, result)
                    .map(|stamped| stamped.executed.reply == Reply::Changed(true));
                self.answer(request_id, downgraded, |downgraded| {
                    Response::Downgraded(SessionDowngraded { downgraded })
                });
            }
            Some(Asked::Count { name, owner, count }) => {
                self.others_in_flight -= 1;
                let noted = self.coordinator.outcome(&name, result).is_ok();
                self.on_counted(&owner, noted.then_some(count));
            }
            // The session has let go of it.
            None => {}
        }
    }

    pub(super) fn on_done(&mut self, done: Done) {
        match done {
            Done::Acquired {
                request_id,
                acquired,
            } => self.on_acquired(request_id, Ok(acquired.map(|hold| [hold]))),
            Done::AcquiredSeveral {
                request_id,
                acquired,
            } => self.on_acquired(request_id, acquired),
            Done::Renewed(results) => self.on_renewed(results),
            Done::Shortened(results) => self.on_shortened(results),
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
}

/// The refusal of a request while too many others are in flight; `so` says what became of it.
fn too_many_requests(so: &str) -> Refusal {
    too_many_in_flight(MAX_IN_FLIGHT, so)
}
