//! State of the model: the lock, the client that waits, the streams as their coordinators know them, and messages in flight.

use std::collections::BTreeSet;

use leasehold_core::{lock::LockState, time::StoreTime};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) lock: LockState,
    /// Seconds since the start, and the store's time.
    pub(super) elapsed: u8,
    /// Whether the other client has not released the lock yet.
    pub(super) is_held: bool,
    pub(super) client: Waiting,
    /// Each stream as its coordinator knows it.
    pub(super) streams: Vec<Stream>,
    pub(super) in_flight: BTreeSet<Message>,
    pub(super) broken: Option<&'static str>,
}

/// The client that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    /// Its present stream, unless it broke.
    pub(super) stream: Option<u8>,
    /// The stream whose ticket it knows to be that of its place.
    pub(super) confirmed: u8,
    /// Streams whose resume was not answered.
    pub(super) tried: Vec<u8>,
    pub(super) is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stream {
    /// The resume is not answered.
    Asked,
    Waits,
    Holds,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) stream: u8,
    pub(super) content: Content,
}

/// Commands, in the order in which one stream's coordinator sends them, and answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Content {
    /// Resume from the tickets of these streams.
    Resume(Vec<u8>),
    Join,
    /// Confirms a grant.
    Confirm,
    Cancel,
    /// The client's waiter was granted the lock.
    Granted,
    Waits,
    Stands,
    Lost,
}

impl Content {
    fn is_command(&self) -> bool {
        matches!(
            self,
            Self::Resume(_) | Self::Join | Self::Confirm | Self::Cancel
        )
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            lock: LockState::default(),
            elapsed: 0,
            is_held: true,
            client: Waiting {
                stream: Some(0),
                confirmed: 0,
                tried: Vec::new(),
                is_over: false,
            },
            streams: vec![Stream::Waits],
            in_flight: BTreeSet::new(),
            broken: None,
        }
    }

    pub(super) fn now(&self) -> StoreTime {
        StoreTime::from_micros((100 + i64::from(self.elapsed)) * 1_000_000)
    }

    /// Returns the streams for which their coordinators refresh the name.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u8> {
        let streams = self.streams.iter().enumerate();
        let waiting = streams.filter(|(_, stream)| matches!(stream, Stream::Waits | Stream::Asked));
        waiting.map(|(number, _)| u8::try_from(number).unwrap())
    }

    /// Returns whether a message to or from the coordinator of this stream is in flight.
    pub(super) fn is_in_flight(&self, stream: u8) -> bool {
        self.in_flight
            .iter()
            .any(|message| message.stream == stream)
    }

    /// Returns whether a command has to arrive after another one of its stream.
    pub(super) fn is_blocked(&self, message: &Message) -> bool {
        let mut earlier = self.in_flight.iter().take_while(|other| *other < message);
        message.content.is_command() && earlier.any(|other| other.stream == message.stream)
    }

    /// Drops answers that change nothing any more: nobody waits for them.
    pub(super) fn forget_answers(&mut self) {
        let streams = &self.streams;
        self.in_flight.retain(|message| {
            let is_answer = matches!(
                message.content,
                Content::Waits | Content::Stands | Content::Lost
            );
            !is_answer || streams[usize::from(message.stream)] != Stream::Gone
        });
    }

    pub(super) fn send(&mut self, stream: u8, content: Content) {
        self.in_flight.insert(Message { stream, content });
    }
}
