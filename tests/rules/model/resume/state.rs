//! State of the model: the lock, the two clients, the streams as their coordinators know them, and messages in flight.

use std::collections::BTreeSet;

use leasehold_core::{lock::LockState, time::StoreTime};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) lock: LockState,
    /// Seconds since the start, and the store's time.
    pub(super) elapsed: u8,
    pub(super) client: Moving,
    /// Each stream as its coordinator knows it.
    pub(super) streams: Vec<Stream>,
    pub(super) other: Other,
    pub(super) in_flight: BTreeSet<Message>,
    /// Token of the client's hold, and the largest of all.
    pub(super) token: i64,
    pub(super) largest: i64,
    pub(super) broken: Option<&'static str>,
}

/// The client that moves its hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moving {
    /// Its present stream, unless it broke.
    pub(super) stream: Option<u8>,
    /// The stream whose owner id it knows to hold the lock.
    pub(super) confirmed: u8,
    /// Streams whose resume was not answered.
    pub(super) tried: Vec<u8>,
    /// Until when it believes in the hold, or may resume it (s since the start).
    pub(super) until: u8,
    pub(super) is_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stream {
    /// The resume from the owner ids of these streams is not answered; it may be repeated.
    Asked {
        from: Vec<u8>,
        was_repeated: bool,
    },
    Holds,
    Gone,
}

/// The client that waits at coordinator 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Other {
    Waits,
    Handed,
    Holds { until: u8 },
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) stream: u8,
    pub(super) sent: u8,
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Content {
    /// Resume from the owner ids of these streams.
    Resume(Vec<u8>),
    Renew,
    Release,
    /// The hold is resumed or renewed.
    Stands,
    Lost,
}

impl State {
    pub(super) fn now(&self) -> StoreTime {
        StoreTime::from_micros((100 + i64::from(self.elapsed)) * 1_000_000)
    }

    pub(super) fn believes(&self) -> bool {
        let client = &self.client;
        client.stream == Some(client.confirmed) && !client.is_over && self.elapsed < client.until
    }

    /// Returns whether a renewal by this stream, or an answer to the stream, is in flight.
    pub(super) fn is_renewed(&self, stream: u8) -> bool {
        self.in_flight.iter().any(|message| {
            let is_resume = matches!(message.content, Content::Resume(_));
            message.stream == stream && !is_resume
        })
    }

    /// Drops answers that change nothing any more: nobody waits for them.
    pub(super) fn forget_answers(&mut self) {
        let streams = &self.streams;
        self.in_flight.retain(|message| {
            let is_answer = matches!(message.content, Content::Stands | Content::Lost);
            !is_answer || streams[usize::from(message.stream)] != Stream::Gone
        });
    }

    pub(super) fn send(&mut self, stream: u8, content: Content) {
        let sent = self.elapsed;
        self.in_flight.insert(Message {
            stream,
            sent,
            content,
        });
    }
}
