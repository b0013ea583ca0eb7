//! Answers of one candidacy, in order.

use std::collections::VecDeque;

use leasehold_proto::v1::{Campaigning, SessionOpened, campaign_response::Response as Say};

/// Answers of one candidacy. An answer on its stream does not name its request, so the answers are given in the order of the
/// requests. Before all others comes the one that the candidacy has begun.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The session, until the client knows of it.
    untold: Option<SessionOpened>,
    is_announced: bool,
    ready: VecDeque<Say>,
    /// The answers that wait until all before them were sent.
    owed: VecDeque<Owed>,
}

/// Place of an answer in the order, and the answer once it is known.
#[derive(Debug)]
struct Owed {
    request_id: u64,
    answer: Option<Say>,
}

impl Answers {
    /// Notes the session that the client is to learn of. All other answers wait until then.
    pub(super) fn opened(&mut self, session: SessionOpened) {
        self.untold = Some(session);
    }

    /// Tells the client once that its candidacy has begun.
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
            // Answers from before the leadership go first: a heartbeat that was acknowledged then promises nothing of it.
            while let Some(answer) = self.owed.front_mut().and_then(|owed| owed.answer.take()) {
                self.ready.push_back(answer);
                self.owed.pop_front();
            }
        }
    }

    /// Gives an answer that waits for nothing but the announcement.
    pub(super) fn say(&mut self, say: Say) {
        if self.is_announced {
            self.ready.push_back(say);
        } else {
            self.owe(0, Some(say));
        }
    }

    /// Reserves the place of an answer to this request, which may be known already.
    pub(super) fn owe(&mut self, request_id: u64, answer: Option<Say>) {
        self.owed.push_back(Owed { request_id, answer });
    }

    /// Gives the answer for a reserved place.
    pub(super) fn fulfil(&mut self, request_id: u64, answer: Say) {
        let owed = self
            .owed
            .iter_mut()
            .find(|owed| owed.request_id == request_id);
        if let Some(owed) = owed {
            owed.answer = Some(answer);
        }
    }

    /// Returns the number of answers that wait to be sent.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.owed.len()
    }

    /// Returns the next answer, if one can be sent now.
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
