//! Answers of one candidacy, in order.

use std::collections::VecDeque;

use leasehold_proto::v1::{Campaigning, SessionOpened, campaign_response::Response as Say};

/// The answers of one candidacy. Nothing on its stream names the request that it answers, so those that are owed are given
/// in the order in which they were asked for; and before all else, the client is told that it was taken in.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The session, until the client is told of it.
    untold: Option<SessionOpened>,
    is_announced: bool,
    ready: VecDeque<Say>,
    /// What is said when everything before it was.
    owed: VecDeque<Owed>,
}

/// An answer that has its place in the order, and may be there or not.
#[derive(Debug)]
struct Owed {
    request_id: u64,
    answer: Option<Say>,
}

impl Answers {
    /// Notes the session that the client is to be told of. Everything else waits until then.
    pub(super) fn opened(&mut self, session: SessionOpened) {
        self.untold = Some(session);
    }

    /// Tells the client that it was taken in, once.
    pub(super) fn announce(&mut self, position: u64) {
        if let Some(opened) = self.untold.take() {
            self.is_announced = true;
            self.ready.push_back(Say::Campaigning(Campaigning {
                position,
                ttl: opened.ttl,
                heartbeat_interval: opened.heartbeat_interval,
                session_id: opened.session_id,
                coordinator: opened.coordinator,
            }));
            // What was answered while it did not lead is said before it does: a heartbeat that was acknowledged then
            // promises nothing of the leadership.
            while let Some(answer) = self.owed.front_mut().and_then(|owed| owed.answer.take()) {
                self.ready.push_back(answer);
                self.owed.pop_front();
            }
        }
    }

    /// Says something that waits for nothing but the announcement.
    pub(super) fn say(&mut self, say: Say) {
        if self.is_announced {
            self.ready.push_back(say);
        } else {
            self.owe(0, Some(say));
        }
    }

    /// Notes that an answer to this request comes here, or is it already.
    pub(super) fn owe(&mut self, request_id: u64, answer: Option<Say>) {
        self.owed.push_back(Owed { request_id, answer });
    }

    /// An answer that is owed is there.
    pub(super) fn fulfil(&mut self, request_id: u64, answer: Say) {
        let owed = self
            .owed
            .iter_mut()
            .find(|owed| owed.request_id == request_id);
        if let Some(owed) = owed {
            owed.answer = Some(answer);
        }
    }

    /// Returns how many wait to be given.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.owed.len()
    }

    /// What is said next, if anything can be now.
    pub(super) fn next(&mut self) -> Option<Say> {
        if let Some(say) = self.ready.pop_front() {
            return Some(say);
        }
        if !self.is_announced {
            return None;
        }
        let answer = self.owed.front_mut()?.answer.take()?;
        self.owed.pop_front();
        Some(answer)
    }
}
