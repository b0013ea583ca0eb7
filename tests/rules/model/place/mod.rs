//! Model of the resume of a place in the queue: a client that waits moves between two coordinators, whose commands and replies
//! come late or never, while another client holds the lock.
//!
//! A command or reply that is in flight may be delivered at any time, or never: that is its loss. But the commands of one stream
//! arrive in their order.

mod cases;
mod check;
mod state;

use leasehold_core::{
    command::{Acquire, End, Executed, Op, Reply, Resume},
    id::{OwnerId, SessionId},
    name::ClientName,
};
use stateright::{Model, Property};

use self::state::{Content, Message, State, Stream};
use crate::common::{acquire, caller, owner, seconds};

const PLACE: &str = "a client that waits has its place or the lock";
const FORMER: &str = "a former ticket changes nothing";
const ONCE: &str = "a client waits once";
const FORGOTTEN: &str = "nothing is left behind";
/// A state that must be reachable.
const SERVED: &str = "the client is granted the lock on its last stream";
/// The client that waits, and the one that holds the lock.
const MOVES: usize = 0;
const HOLDS: usize = 1;
/// TTL of every hold: longer than the model lasts (s).
const TTL: u8 = 8;

/// Bounds of what happens, and the flaw of a variant.
#[derive(Clone, Debug)]
struct Places {
    /// Streams of the client that waits, one after the other.
    streams: u8,
    /// Steps of time, of a second each.
    ticks: u8,
    /// Whether the resume keeps the ticket: the new coordinator asks again under it.
    keeps_ticket: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// The client's stream breaks. Its coordinator may learn of it later.
    Break,
    /// The client opens its next stream, and resumes its place on it.
    Open,
    /// The coordinator of this stream asks for the lock again, as after a failed refresh.
    Join(u8),
    /// The coordinator of this stream gives up what it has, because the stream has ended.
    Cancel(u8),
    Deliver(Message),
    /// The holder releases the lock.
    GiveBack,
    /// A second passes; coordinators refresh the name for the streams that wait.
    Tick,
}

impl Places {
    fn ticket(&self, stream: u8) -> OwnerId {
        owner(MOVES, if self.keeps_ticket { 0 } else { stream })
    }

    /// Executes a command of a coordinator. A grant to the client is a message to the coordinator of its stream.
    fn execute(&self, state: &mut State, by: u8, op: &Op) -> Reply {
        let caller = caller(usize::from(by % 2), 2 * TTL);
        let now = state.now();
        let Executed { reply, handed, .. } = state.lock.apply(&caller, op, now);
        for handed in handed {
            let number = u8::try_from(state.streams.len()).unwrap();
            let stream = (0..number).rev().find(|s| self.ticket(*s) == handed.owner);
            state.send(stream.expect("a grant is for a stream"), Content::Granted);
        }
        reply
    }

    fn acquire(client: usize, owner: OwnerId, again: bool) -> Op {
        Op::Acquire(Acquire {
            again,
            ..acquire(client, owner, TTL)
        })
    }

    /// Executes a command of a stream's coordinator. Returns what is answered.
    fn command(&self, state: &mut State, message: &Message) -> Option<Content> {
        let owner = self.ticket(message.stream);
        let end = End::Clean;
        let op = match &message.content {
            Content::Resume(_) if self.keeps_ticket => Self::acquire(MOVES, owner, true),
            Content::Resume(from) => Op::Resume(Resume {
                from: from.iter().map(|stream| self.ticket(*stream)).collect(),
                next: owner,
                session: Some(SessionId::from_bytes([0x10 + message.stream; 16])),
                client_name: ClientName::default(),
                ttl: seconds(TTL),
                count: 1,
                max_hold: None,
            }),
            Content::Join => Self::acquire(MOVES, owner, true),
            Content::Confirm => Op::Renew {
                token: None,
                owner,
                ttl: seconds(TTL),
            },
            Content::Cancel => Op::Release { owner, end },
            _ => return None,
        };
        match self.execute(state, message.stream, &op) {
            Reply::ResumedWait { .. } | Reply::Queued { .. } => Some(Content::Waits),
            Reply::Resumed { .. } | Reply::Renewed | Reply::Granted { .. } => Some(Content::Stands),
            Reply::Lost(_) => Some(Content::Lost),
            Reply::Released { .. } => None,
            other => panic!("{message:?} was answered by {other:?}"),
        }
    }

    /// Delivers a command to the store, or a reply or grant to its coordinator, which tells the client if the stream is still its
    /// own.
    fn deliver(&self, state: &mut State, message: &Message) {
        let Message { stream, content } = message;
        let is_present = state.client.stream == Some(*stream);
        let known = &mut state.streams[usize::from(*stream)];
        match content {
            // A grant that nobody knows of is handed on.
            Content::Granted if *known == Stream::Gone => state.send(*stream, Content::Cancel),
            Content::Granted => state.send(*stream, Content::Confirm),
            Content::Waits | Content::Stands | Content::Lost if *known == Stream::Gone => {}
            Content::Waits if *known == Stream::Holds => {}
            Content::Waits | Content::Stands => {
                *known = match content {
                    Content::Stands => Stream::Holds,
                    _ => Stream::Waits,
                };
                if is_present {
                    state.client.confirmed = *stream;
                    state.client.tried.clear();
                }
            }
            Content::Lost => {
                *known = Stream::Gone;
                state.client.is_over |= is_present;
            }
            Content::Resume(_) | Content::Join | Content::Confirm | Content::Cancel => {
                let before = self.present(state);
                if let Some(answer) = self.command(state, message) {
                    state.send(*stream, answer);
                }
                self.check_former(state, message, before);
            }
        }
    }

    /// Opens the client's next stream, whose coordinator resumes the place.
    fn open(&self, state: &mut State) {
        let stream = u8::try_from(state.streams.len()).unwrap();
        let client = &mut state.client;
        let mut from = vec![client.confirmed];
        from.extend(&client.tried);
        client.tried.push(stream);
        client.stream = Some(stream);
        state.streams.push(Stream::Asked);
        state.send(stream, Content::Resume(from));
    }

    fn give_back(&self, state: &mut State) {
        state.is_held = false;
        let (owner, end) = (owner(HOLDS, 0), End::Clean);
        self.execute(state, 1, &Op::Release { owner, end });
    }

    fn tick(&self, state: &mut State) {
        state.elapsed += 1;
        for by in 0..2 {
            let waiting = state.waiting().find(|stream| stream % 2 == by);
            if let Some(stream) = waiting {
                let oldest = Some(self.ticket(stream));
                self.execute(state, by, &Op::Refresh { oldest });
            }
        }
    }
}

impl Model for Places {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::new();
        let holds = Self::acquire(HOLDS, owner(HOLDS, 0), false);
        self.execute(&mut state, 1, &holds);
        let waits = Self::acquire(MOVES, self.ticket(0), false);
        let reply = self.execute(&mut state, 0, &waits);
        assert!(matches!(reply, Reply::Queued { .. }), "{reply:?}");
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        let client = &state.client;
        if !client.is_over {
            match client.stream {
                Some(_) => actions.push(Action::Break),
                None if state.streams.len() < usize::from(self.streams) => {
                    actions.push(Action::Open);
                }
                None => {}
            }
        }
        for (number, stream) in state.streams.iter().enumerate() {
            let number = u8::try_from(number).unwrap();
            if *stream == Stream::Waits && !state.is_in_flight(number) {
                actions.push(Action::Join(number));
            }
            if *stream != Stream::Gone && client.stream != Some(number) {
                actions.push(Action::Cancel(number));
            }
        }
        for message in &state.in_flight {
            if !state.is_blocked(message) {
                actions.push(Action::Deliver(message.clone()));
            }
        }
        if state.is_held {
            actions.push(Action::GiveBack);
        }
        if state.elapsed < self.ticks {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Break => state.client.stream = None,
            Action::Open => self.open(&mut state),
            Action::Join(stream) => state.send(stream, Content::Join),
            Action::Cancel(stream) => {
                state.streams[usize::from(stream)] = Stream::Gone;
                state.send(stream, Content::Cancel);
            }
            Action::Deliver(message) => {
                state.in_flight.remove(&message);
                self.deliver(&mut state, &message);
            }
            Action::GiveBack => self.give_back(&mut state),
            Action::Tick => self.tick(&mut state),
        }
        state.forget_answers();
        self.check(&mut state);
        state.broken = state.broken.or_else(|| self.settle(&state));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(PLACE, |_, state: &State| state.broken != Some(PLACE)),
            Property::always(FORMER, |_, state: &State| state.broken != Some(FORMER)),
            Property::always(ONCE, |_, state: &State| state.broken != Some(ONCE)),
            Property::always(FORGOTTEN, |_, state: &State| {
                state.broken != Some(FORGOTTEN)
            }),
            Property::sometimes(SERVED, |model, state: &State| {
                let last = usize::from(model.streams) - 1;
                state.streams.get(last) == Some(&Stream::Holds)
            }),
        ]
    }
}
