//! Execution of the outputs of simulated sessions: what a driver does, on the world's time.

use std::sync::Arc;

use leasehold_client::simulation::StreamEnd as ClientEnd;
use leasehold_core::{
    command::Op,
    contention,
    id::OwnerId,
    session::{
        Context, Input, Interest, LostWhy, NotGranted, Note, Output, Phase, Response, ResumedWhat,
        Session,
    },
};
use leasehold_proto::v1::SessionResponse;
use prost::Message;

use crate::{
    coordinator::{ADMITTED, Served, Tracked},
    store::Destination,
    transitions::{self, Machine},
    world::World,
};

impl World {
    /// Lends a session what it works with.
    pub(crate) fn with<T>(
        &mut self,
        served: &mut Served,
        call: impl FnOnce(&mut Session, &mut Context<'_>) -> T,
    ) -> T {
        let now = self.moment();
        let owners = &mut self.owners;
        let mut fresh = || {
            *owners += 1;
            OwnerId::from_bytes((u128::from(*owners) << 64).to_be_bytes())
        };
        let session = served.session.as_mut().expect("it is open");
        let mut context = Context {
            now,
            fresh_owner: &mut fresh,
        };
        call(session, &mut context)
    }

    /// Calls a session, and carries out what it says.
    pub(crate) fn serve(
        &mut self,
        number: usize,
        stream: usize,
        event: &'static str,
        call: impl FnOnce(&mut Session, &mut Context<'_>),
    ) {
        self.touch_coordinator(number);
        let sessions = &mut self.coordinators[number].sessions;
        let Some(mut served) = sessions.remove(&stream) else {
            return;
        };
        if served.session.is_some() {
            let phase = |served: &Served| served.session.as_ref().map(Session::phase);
            let before = phase(&served);
            self.with(&mut served, call);
            if let (Some(before), Some(after)) = (before, phase(&served)) {
                let (before, after) = (transitions::phase(before), transitions::phase(after));
                let transitions = &mut self.seen.transitions;
                transitions.note(Machine::Session, before, event, after);
            }
            self.carry_out(number, stream, &mut served);
        }
        let phase = served.session.as_ref().map(Session::phase);
        if phase == Some(Phase::Ended) {
            assert!(
                served.tracked.is_empty(),
                "a waiter of an ended session is tracked"
            );
            return;
        }
        self.coordinators[number].sessions.insert(stream, served);
        self.pass_on_candidate(number, stream);
    }

    /// Takes in something that happened to a session.
    pub(crate) fn handle(&mut self, number: usize, stream: usize, input: Input) {
        let event = transitions::input(&input);
        self.serve(number, stream, event, |session, context| {
            session.handle(input, context);
        });
    }

    fn carry_out(&mut self, number: usize, stream: usize, served: &mut Served) {
        loop {
            let has_room = self.coordinators[number].acquiring < ADMITTED;
            let next = self.with(served, |session, context| {
                session.poll_output(context, &mut || has_room)
            });
            match next {
                Some(output) => self.execute_output(number, stream, served, output),
                None => return,
            }
        }
    }

    fn execute_output(
        &mut self,
        number: usize,
        stream: usize,
        served: &mut Served,
        output: Output,
    ) {
        let run = self.run(number);
        self.tell(|| format!("coordinator {number}, session {stream}: {output:?}"));
        match output {
            Output::Register(owner, interest) => {
                let coordinator = &mut self.coordinators[number];
                coordinator.known.insert(owner);
                let registry = &coordinator.registry;
                let inbox = Arc::clone(&served.inbox);
                match interest {
                    Interest::Waits => registry.wait(owner, inbox),
                    Interest::Held => registry.hold(&owner, inbox),
                    Interest::Settling => registry.settle(&owner),
                    Interest::Forgotten => registry.forget(&owner),
                }
            }
            Output::Store { id, name, op, .. } => {
                let coordinator = &mut self.coordinators[number];
                match &op {
                    Op::Acquire(acquire) => {
                        assert!(
                            coordinator.registry.waits(&acquire.owner),
                            "sent before it was registered"
                        );
                        coordinator.acquiring += 1;
                    }
                    Op::Renew { owner, .. } => {
                        self.seen.renewals += 1;
                        self.check_bound(number, owner);
                        assert!(
                            !served.lost.contains(owner),
                            "at {}, session {stream} renews a hold of {name}, of which it has told its client that it is lost",
                            self.now
                        );
                    }
                    _ => {}
                }
                self.send(run, Destination::Session(stream, id), name, op);
            }
            Output::TrackWait(wait) => {
                let tracked = Tracked {
                    name: wait.name.clone(),
                    actor: wait.acquire.actor,
                    is_watched: false,
                };
                let before = served.tracked.insert(wait.acquire.owner, tracked);
                assert!(before.is_none(), "a waiter was announced twice");
                self.contend(run, contention::Input::Waits(wait));
            }
            Output::WatchDeadlock(owner) => {
                let tracked = served.tracked.get_mut(&owner);
                tracked.expect("it was announced").is_watched = true;
            }
            Output::UntrackWait(owner, _) => {
                let tracked = served.tracked.remove(&owner).expect("it was announced");
                let name = tracked.name;
                self.contend(run, contention::Input::Gone { name, owner });
            }
            Output::Cleanup(pending) => self.clean_up(run, pending),
            Output::TellMoved(owner) => self.coordinators[number].registry.moved(&owner),
            Output::Send(request, response) => {
                self.count(&response);
                match &response {
                    Response::Lost(locks) => {
                        served.lost.extend(locks.iter().map(|lock| lock.owner))
                    }
                    // A waiter whose grant was taken before it heard of it may be granted again under its owner id.
                    Response::Granted { locks, .. } => {
                        for lock in locks.iter() {
                            served.lost.remove(&lock.owner);
                        }
                    }
                    _ => {}
                }
                let mut messages = Vec::new();
                let surroundings = served.surroundings.as_mut().expect("it is open");
                surroundings.encode(request, response, |answer| messages.push(answer));
                for message in messages {
                    self.answer(stream, Ok(message));
                }
            }
            Output::EndStream(refused) => {
                let surroundings = served.surroundings.as_ref().expect("it is open");
                let end = match refused {
                    Some(refused) => {
                        let status = surroundings.refusal(refused).into();
                        ClientEnd::Status(Box::new(status))
                    }
                    None => ClientEnd::Plain,
                };
                self.answer(stream, Err(end));
            }
            Output::Detached => self.seen.detached += 1,
            Output::Note(Note::Lost(.., why)) => {
                self.seen.losses += 1;
                self.seen.ended_by_bound += u64::from(why == LostWhy::MaxHold);
            }
            Output::Succeeds(predecessors) => {
                let endable = served.endable.as_mut().expect("it is open");
                endable.succeeds(&predecessors);
            }
            Output::NotOpened | Output::Note(_) => {}
            Output::Ended => self.end_stream(stream),
        }
    }

    /// The stream ends with its session, if it has not ended before.
    fn end_stream(&mut self, stream: usize) {
        let coordinator_gone = self.streams.get(&stream).map(|it| it.is_coordinator_gone);
        if coordinator_gone == Some(false) {
            self.answer(stream, Err(ClientEnd::Plain));
        }
    }

    fn count(&mut self, response: &Response) {
        let seen = &mut self.seen;
        match response {
            Response::NotGranted { why, .. } => match why {
                NotGranted::Busy => seen.busy += 1,
                NotGranted::TimedOut => seen.timed_out += 1,
                NotGranted::Cancelled => seen.cancelled += 1,
            },
            Response::Granted { locks, .. } if locks.len() > 1 => seen.grants_of_several += 1,
            Response::Opened(opened) => {
                let resumed = opened.resumed.iter();
                let places = resumed.filter(|lock| matches!(lock.what, ResumedWhat::Wait { .. }));
                seen.resumed_places += places.count() as u64;
            }
            Response::Draining(draining) if draining.keeps_serving => seen.asked_to_move += 1,
            Response::Draining(_) => seen.drains += 1,
            _ => {}
        }
    }

    /// Sends a message, or the end of the stream, to the client.
    pub(crate) fn answer(&mut self, stream: usize, said: Result<SessionResponse, ClientEnd>) {
        if self.candidates.has(stream) {
            return self.answer_candidate(stream, said);
        }
        let at = self.now + self.dice.delay();
        let Some(stream) = self.streams.get_mut(&stream) else {
            return;
        };
        if !stream.is_coordinator_gone {
            stream.is_coordinator_gone = said.is_err();
            stream
                .down
                .push(at, said.map(|message| message.encode_to_vec()));
            let client = stream.client;
            self.touch_client(client);
        }
    }
}
