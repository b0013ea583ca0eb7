//! Execution of a session's outputs: commands, registrations, announcements, answers, metrics.

use std::sync::Arc;

use leasehold_core::{
    session::{Input, Note, Output, Refused, RequestId, Response, Resumption, Session},
    time::Moment,
};

use super::opened::Opened;
use crate::{
    audit::{Holder, Why},
    convert::{
        session::{Surroundings, refused},
        stream::Kind,
    },
    coordinator::{
        Coordinator,
        ends::Endable,
        executor::{Execution, Executor, Sender, with_context},
    },
    limits::SessionPlace,
    outbox::Outbox,
    sessions::Listed,
    status::Refusal,
    telemetry::Tracked,
};

/// Executor of a session's outputs.
pub(super) struct Carrier {
    pub(super) coordinator: Coordinator,
    pub(super) outbox: Outbox,
    pub(super) executor: Executor,
    /// Facts that answers depend on, beside the session's own outputs.
    pub(super) surroundings: Surroundings,
    /// Its place among the sessions; `None` if it never opened.
    pub(super) place: Option<Place>,
    pub(super) endable: Endable,
    holds: Tracked,
    is_writable: bool,
    /// Whether the stream ends when what was sent has been handed over.
    ends_stream: bool,
}

/// A session's place among the others.
pub(super) struct Place {
    listed: Listed,
    pub(super) account: SessionPlace,
}

impl Carrier {
    pub(super) fn new(coordinator: Coordinator, opened: Opened, outbox: Outbox) -> Self {
        let executor = Executor::new(
            coordinator.clone(),
            Some(Sender {
                caller: Arc::clone(opened.account.caller()),
                share: coordinator.admission().share(),
            }),
            Holder {
                identity: coordinator
                    .audit()
                    .text(opened.listed.info().identity.as_deref()),
                is_candidate: opened.kind == Kind::Candidacy,
            },
        );
        Self {
            endable: coordinator.ends().add(opened.id, executor.inbox()),
            executor,
            surroundings: Surroundings {
                session: opened.id,
                ttl: opened.lease.ttl(),
                coordinator: coordinator.id().clone(),
                limits: coordinator.limits().clone(),
                granted: opened.rights.granted().clone(),
                denied: opened.denied,
            },
            place: Some(Place {
                listed: opened.listed,
                account: opened.account,
            }),
            holds: coordinator.metrics().holds.track_none(),
            is_writable: true,
            ends_stream: false,
            coordinator,
            outbox,
        }
    }

    /// Registers the owner ids of what the session takes over: all of them or none. Each entry counts as one request of the
    /// caller, whatever becomes of it, and none is refused for that: the requests after the `open` wait instead.
    pub(super) fn claim(&mut self, resume: &[Resumption]) -> Result<(), Refusal> {
        let registry = self.coordinator.registry();
        for (number, resumption) in resume.iter().enumerate() {
            if !registry.claim(resumption.next, Arc::clone(self.executor.inbox())) {
                for claimed in &resume[..number] {
                    registry.forget(&claimed.next);
                }
                return Err(Refusal::field(
                    &format!("open.resume[{number}].next_owner_id"),
                    "must be made for this stream; it was used here before",
                ));
            }
        }
        if let Some(place) = &self.place
            && !resume.is_empty()
        {
            let entries = u32::try_from(resume.len()).unwrap_or(u32::MAX);
            self.coordinator.limits().owe(&place.account, entries);
        }
        Ok(())
    }

    /// Carries out everything that is to be done.
    pub(super) fn carry_out(&mut self, session: &mut Session) {
        loop {
            let is_writable = self.outbox.has_room();
            if is_writable != std::mem::replace(&mut self.is_writable, is_writable) {
                let input = Input::Writable(is_writable);
                with_context(|context| session.handle(input, context));
            }
            let executor = &self.executor;
            let next =
                with_context(|context| session.poll_output(context, &mut || executor.has_room()));
            let Some(output) = next else { break };
            if let Some(input) = self.execute(output) {
                with_context(|context| session.handle(input, context));
            }
        }
        self.executor.carried_out();
        self.executor.set_waiting(session.has_admission_queue());
        self.holds.set(session.holds());
        if let Some(place) = &self.place {
            place
                .listed
                .info()
                .set_counts(session.holds(), session.acquires());
        }
    }

    /// Carries one output out. Returns what the session is to know of it at once.
    fn execute(&mut self, output: Output) -> Option<Input> {
        if let Output::Store {
            request: Some(request),
            ..
        } = output
        {
            self.outbox.following.script(request);
        }
        let output = match self.executor.execute(output) {
            Execution::Done => return None,
            Execution::NotSent(id, failure) => return Some(Input::StoreReply(id, Err(failure))),
            Execution::Other(output) => output,
        };
        match output {
            Output::Send(request, response) => self.send(request, response),
            Output::EndStream(refused) => {
                self.ends_stream = true;
                if matches!(refused, Some(Refused::Silent { .. })) {
                    self.executor.set_why(Why::Silent);
                }
                if let Some(refused) = refused {
                    let refusal = self.surroundings.refusal(refused);
                    self.outbox.send(Err(refusal.into()));
                }
            }
            Output::Detached => {
                if let Some(place) = &mut self.place {
                    place.account.may_be_replaced();
                }
            }
            Output::NotOpened => self.place = None,
            Output::Succeeds(predecessors) => self.endable.succeeds(&predecessors),
            Output::Note(note) => {
                if let Note::Lost(_, owner, why) = &note {
                    let is_ended = self.executor.why() == Why::SessionEnded;
                    self.coordinator.audit().lost(owner, *why, is_ended);
                }
                if let Note::Expired(_, owner) = &note {
                    self.coordinator.audit().ending(owner, Why::NotRenewed);
                }
                let info = self.place.as_ref().map(|place| place.listed.info());
                self.outbox.note(note, info);
            }
            _ => {}
        }
        None
    }

    fn send(&mut self, request: RequestId, response: Response) {
        let response = match response {
            Response::Refused(refused) => {
                return self.refuse(request, self.surroundings.refusal(refused));
            }
            response => response,
        };
        let outbox = &mut self.outbox;
        outbox.following.answered(request, &response);
        self.surroundings
            .encode(request, response, |answer| outbox.send(Ok(answer)));
    }

    /// Answers that a request could not be served.
    pub(super) fn refuse(&mut self, request: RequestId, refusal: Refusal) {
        let identity = self.executor.identity();
        self.coordinator.audit().refused(&refusal, identity);
        self.outbox.following.refused(request, &refusal);
        self.outbox.send(Ok(refused(request, refusal)));
    }

    /// Notes when the last heartbeat was received.
    pub(super) fn heard(&self, at: Moment) {
        if let Some(place) = &self.place {
            place.listed.info().set_heard_at(at);
        }
    }

    /// Ends the stream with an error.
    pub(super) fn fail(&mut self, refusal: Refusal) {
        self.outbox.send(Err(refusal.into()));
        self.ends_stream = true;
    }

    /// Hands over what was sent, and ends the stream, if that is to end.
    pub(super) async fn end_stream(&mut self) {
        if std::mem::take(&mut self.ends_stream) {
            self.outbox.flush().await;
            self.outbox.close();
        }
    }
}
