//! The words in which a client speaks with its session.
//!
//! A session is the same whoever opens it: it takes [`SessionRequest`]s and gives session responses. The lease stream
//! speaks just these; other streams that are sessions at heart translate.

use std::fmt::Debug;

use leasehold_core::mode::Mode;
use leasehold_proto::v1::{SessionRequest, SessionResponse, session_response::Response};
use prost::Message;

use crate::{access::rules::Place, status::Refusal};

/// The words of one stream. A translator may answer by itself, keep answers back, and have wishes of its own; it is asked
/// for all of these after each message and each answer.
pub trait Wire: Debug + Send + 'static {
    /// What the client says.
    type Asks: Debug + Send + 'static;
    /// What the client is told.
    type Says: Message + Debug + Send + 'static;

    /// Whether the client is told the tickets of its waiters, and so can resume their places on another stream.
    const TELLS_TICKETS: bool = true;

    /// Takes a message in; gives what it asks of the session, if anything.
    fn hear(&mut self, message: Self::Asks) -> Option<SessionRequest>;

    /// Puts what the session says into words; `None` if there is nothing to say now.
    fn say(&mut self, request_id: u64, response: Response) -> Option<Self::Says>;

    /// The same for a request that was refused.
    fn refuse(&mut self, request_id: u64, refusal: Refusal) -> Option<Self::Says>;

    /// What else there is to say now. Asked until there is nothing.
    fn more(&mut self) -> Option<Self::Says> {
        None
    }

    /// What the session is to do next of itself. Asked until there is nothing.
    fn next(&mut self) -> Option<Next> {
        None
    }

    /// How many answers are kept back.
    fn kept_back(&self) -> usize {
        0
    }

    /// What a permission to hold something this way is for. An exclusive hold is all there is to an election.
    fn place(mode: Mode) -> Place {
        match mode {
            Mode::Exclusive => Place::Either,
            Mode::Shared | Mode::Semaphore(_) => Place::Lock,
        }
    }

    /// Returns whether the client has said all that it has to say: the end of its side of the stream is no news then, and does not
    /// keep the last answer from it.
    fn is_ending(&self) -> bool {
        false
    }
}

/// What a session is to do of itself.
#[derive(Debug)]
pub enum Next {
    /// Serve this request.
    Ask(SessionRequest),
    /// End the stream with this error, and let go of everything.
    Fail(Refusal),
}

/// The words of the lease stream: the session's own.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Wire for Plain {
    type Asks = SessionRequest;
    type Says = SessionResponse;

    fn hear(&mut self, message: SessionRequest) -> Option<SessionRequest> {
        Some(message)
    }

    fn say(&mut self, request_id: u64, response: Response) -> Option<SessionResponse> {
        Some(SessionResponse {
            request_id,
            response: Some(response),
        })
    }

    fn refuse(&mut self, request_id: u64, refusal: Refusal) -> Option<SessionResponse> {
        self.say(
            request_id,
            Response::Error(crate::convert::failure(refusal)),
        )
    }
}
