//! Model of a resume as a change of owner: a client moves its hold between two coordinators, whose commands and replies come late
//! or never, while another client waits for the lock.
//!
//! A command or reply that is in flight may be delivered at any time, or never: that is its loss.

mod cases;
mod check;
mod state;

use std::collections::BTreeSet;

use leasehold_core::{
    command::{Acquire, End, Executed, Op, Reply, Resume},
    id::{OwnerId, SessionId},
    lock::LockState,
    name::ClientName,
};
use stateright::{Model, Property};

use self::state::{Content, Message, Moving, Other, State, Stream};
use crate::common::{acquire, caller, owner, seconds};

const EXCLUSION: &str = "a client that believes in its hold has it";
const FORMER: &str = "a former owner changes nothing";
const UNBROKEN: &str = "no grant lies between a hold's grant and its resume";
const SERVED: &str = "the other client is served in the end";
const FORGOTTEN: &str = "nothing is left behind";
/// A state that must be reachable.
const MOVED: &str = "the client believes in its hold on its last stream";
/// The client that moves its hold, and the one that waits.
const MOVES: usize = 0;
const WAITS: usize = 1;

/// Bounds of what happens, and the flaw of a variant.
#[derive(Clone, Debug)]
struct Resuming {
    /// Streams of the client that moves, one after the other.
    streams: u8,
    /// Steps of time, of a second each.
    ticks: u8,
    ttl: u8,
    /// Whether a coordinator sends a resume again that was not answered.
    repeats: bool,
    /// Whether the resume keeps the owner id: the new coordinator renews the hold, and goes on with it.
    keeps_owner: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// The client's stream breaks. Its coordinator may learn of it later.
    Break,
    /// The client opens its next stream, and resumes its hold on it.
    Open,
    /// The coordinator of this stream sends its resume again.
    Repeat(u8),
    Renew(u8),
    /// The coordinator of this stream releases what it has, because the stream has ended.
    Release(u8),
    Deliver(Message),
    Confirm,
    /// The other client releases its hold.
    GiveBack,
    /// A second passes; the coordinator of the other client refreshes the name.
    Tick,
}

impl Resuming {
    fn owner(&self, stream: u8) -> OwnerId {
        owner(MOVES, if self.keeps_owner { 0 } else { stream })
    }

    /// Executes a command of a coordinator, and takes in what it hands on: only the other client waits.
    fn execute(&self, state: &mut State, by: u8, op: &Op) -> Reply {
        let caller = caller(usize::from(by % 2), 2 * self.ttl);
        let now = state.now();
        let Executed { reply, handed, .. } = state.lock.apply(&caller, op, now);
        for handed in handed {
            state.largest = state.largest.max(handed.token.get());
            let until = state.elapsed + self.ttl;
            state.other = match by % 2 {
                1 => Other::Holds { until },
                _ => Other::Handed,
            };
        }
        reply
    }

    fn acquire(&self, client: usize, owner: OwnerId, again: bool) -> Op {
        Op::Acquire(Acquire {
            again,
            ..acquire(client, owner, self.ttl)
        })
    }

    /// Executes a command of the client's coordinators. Returns what is answered.
    fn command(&self, state: &mut State, message: &Message) -> Option<Content> {
        let ttl = seconds(self.ttl);
        let owner = self.owner(message.stream);
        let op = match &message.content {
            Content::Resume(_) if self.keeps_owner => Op::Renew {
                owner,
                token: None,
                ttl,
            },
            Content::Resume(from) => Op::Resume(Resume {
                from: from.iter().map(|stream| self.owner(*stream)).collect(),
                next: owner,
                session: Some(SessionId::from_bytes([0x10 + message.stream; 16])),
                client_name: ClientName::default(),
                ttl,
                count: 1,
                max_hold: None,
            }),
            Content::Renew => Op::Renew {
                owner,
                token: None,
                ttl,
            },
            Content::Release => Op::Release {
                owner,
                end: End::Clean,
            },
            Content::Stands | Content::Lost => return None,
        };
        match self.execute(state, message.stream, &op) {
            Reply::Resumed { token, .. } => {
                if token.get() != state.token || token.get() < state.largest {
                    state.broken = Some(UNBROKEN);
                }
                Some(Content::Stands)
            }
            Reply::Renewed => Some(Content::Stands),
            Reply::Lost(_) => Some(Content::Lost),
            Reply::Released { .. } => None,
            other => panic!("{message:?} was answered by {other:?}"),
        }
    }

    /// Delivers a command to the store, or a reply to its coordinator, which tells the client if the stream is still its own.
    fn deliver(&self, state: &mut State, message: &Message) {
        let Message {
            stream,
            sent,
            content,
        } = message;
        let place = usize::from(*stream);
        match content {
            Content::Stands | Content::Lost if state.streams[place] == Stream::Gone => {}
            Content::Stands => {
                state.streams[place] = Stream::Holds;
                let client = &mut state.client;
                if client.stream == Some(*stream) {
                    client.confirmed = *stream;
                    client.tried.clear();
                    client.until = client.until.max(sent + self.ttl);
                }
            }
            Content::Lost => {
                state.streams[place] = Stream::Gone;
                state.client.is_over |= state.client.stream == Some(*stream);
            }
            Content::Resume(_) | Content::Renew | Content::Release => {
                let before = self.present(state);
                let answer = self.command(state, message);
                if let Some(answer) = answer {
                    state.in_flight.insert(Message {
                        stream: *stream,
                        sent: *sent,
                        content: answer,
                    });
                }
                self.check_former(state, message, before);
            }
        }
    }

    /// Opens the client's next stream, whose coordinator resumes the hold.
    fn open(&self, state: &mut State) {
        let stream = u8::try_from(state.streams.len()).unwrap();
        let client = &mut state.client;
        let mut from = vec![client.confirmed];
        from.extend(&client.tried);
        client.tried.push(stream);
        client.stream = Some(stream);
        state.streams.push(Stream::Asked {
            from: from.clone(),
            was_repeated: false,
        });
        state.send(stream, Content::Resume(from));
    }

    /// The coordinator of a stream sends its resume again.
    fn repeat(&self, state: &mut State, stream: u8) {
        if let Stream::Asked { from, was_repeated } = &mut state.streams[usize::from(stream)] {
            *was_repeated = true;
            let from = from.clone();
            state.send(stream, Content::Resume(from));
        }
    }

    /// The other client waits at coordinator 1, and confirms its grant there.
    fn confirm(&self, state: &mut State) {
        let (owner, ttl) = (owner(WAITS, 0), seconds(self.ttl));
        let until = state.elapsed + self.ttl;
        match self.execute(
            state,
            1,
            &Op::Renew {
                owner,
                token: None,
                ttl,
            },
        ) {
            Reply::Renewed => state.other = Other::Holds { until },
            _ => self.wait(state, true),
        }
    }

    fn wait(&self, state: &mut State, again: bool) {
        let acquire = self.acquire(WAITS, owner(WAITS, 0), again);
        match self.execute(state, 1, &acquire) {
            Reply::Granted { token, .. } => {
                state.largest = state.largest.max(token.get());
                let until = state.elapsed + self.ttl;
                state.other = Other::Holds { until };
            }
            Reply::Queued { .. } => state.other = Other::Waits,
            other => panic!("an acquire was answered by {other:?}"),
        }
    }

    fn give_back(&self, state: &mut State) {
        state.other = Other::Over;
        let (owner, end) = (owner(WAITS, 0), End::Clean);
        self.execute(state, 1, &Op::Release { owner, end });
    }

    fn tick(&self, state: &mut State) {
        state.elapsed += 1;
        if state.other == Other::Waits {
            let oldest = Some(owner(WAITS, 0));
            let reply = self.execute(state, 1, &Op::Refresh { oldest });
            assert!(
                matches!(reply, Reply::Refreshed { attached: true, .. }),
                "{reply:?}"
            );
        }
    }
}

impl Model for Resuming {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            lock: LockState::default(),
            elapsed: 0,
            client: Moving {
                stream: Some(0),
                confirmed: 0,
                tried: Vec::new(),
                until: self.ttl,
                is_over: false,
            },
            streams: vec![Stream::Holds],
            other: Other::Waits,
            in_flight: BTreeSet::new(),
            token: 0,
            largest: 0,
            broken: None,
        };
        let acquire = self.acquire(MOVES, self.owner(0), false);
        let Reply::Granted { token, .. } = self.execute(&mut state, 0, &acquire) else {
            panic!("the lock is free");
        };
        (state.token, state.largest) = (token.get(), token.get());
        self.wait(&mut state, false);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // Once the other client is done, nothing can go wrong any more.
        if state.broken.is_some() || state.other == Other::Over {
            return;
        }
        let client = &state.client;
        if !client.is_over {
            let may_open =
                state.elapsed < client.until && state.streams.len() < usize::from(self.streams);
            match client.stream {
                Some(_) => actions.push(Action::Break),
                None if may_open => actions.push(Action::Open),
                None => {}
            }
        }
        for (number, stream) in state.streams.iter().enumerate() {
            let number = u8::try_from(number).unwrap();
            match stream {
                Stream::Asked {
                    was_repeated: false,
                    ..
                } if self.repeats => {
                    actions.push(Action::Repeat(number));
                }
                Stream::Holds if state.is_renewed(number) => {}
                Stream::Holds => actions.push(Action::Renew(number)),
                Stream::Asked { .. } => {}
                Stream::Gone => continue,
            }
            if client.stream != Some(number) {
                actions.push(Action::Release(number));
            }
        }
        actions.extend(state.in_flight.iter().cloned().map(Action::Deliver));
        match state.other {
            Other::Handed => actions.push(Action::Confirm),
            Other::Holds { .. } => actions.push(Action::GiveBack),
            Other::Waits | Other::Over => {}
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
            Action::Repeat(stream) => self.repeat(&mut state, stream),
            Action::Renew(stream) => state.send(stream, Content::Renew),
            Action::Release(stream) => {
                state.streams[usize::from(stream)] = Stream::Gone;
                state.send(stream, Content::Release);
            }
            Action::Deliver(message) => {
                state.in_flight.remove(&message);
                self.deliver(&mut state, &message);
            }
            Action::Confirm => self.confirm(&mut state),
            Action::GiveBack => self.give_back(&mut state),
            Action::Tick => self.tick(&mut state),
        }
        state.forget_answers();
        self.check(&mut state);
        state.broken = state.broken.or_else(|| self.settle(&state));
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &State| {
                state.broken != Some(EXCLUSION)
            }),
            Property::always(FORMER, |_, state: &State| state.broken != Some(FORMER)),
            Property::always(UNBROKEN, |_, state: &State| state.broken != Some(UNBROKEN)),
            Property::always(SERVED, |_, state: &State| state.broken != Some(SERVED)),
            Property::always(FORGOTTEN, |_, state: &State| {
                state.broken != Some(FORGOTTEN)
            }),
            Property::sometimes(MOVED, |model, state: &State| {
                state.believes() && state.client.confirmed + 1 == model.streams
            }),
        ]
    }
}
