//! Mutants: wrongs that are put between the runner and a driver, or between a driver and the scripted coordinator, so that each need not
//! be written in every language.

use leasehold_proto::v1::{SessionRequest, SessionResponse};
use serde_json::Value;

/// Way of a line between the runner and the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    ToDriver,
    ToRunner,
}

/// Rewrites lines. Its arguments: the way, the operation of the request (of its reply) or the kind of the event, and the line.
pub(crate) type Lines = Box<dyn FnMut(Way, &str, Value) -> Vec<(Way, Value)> + Send>;

/// Message between a driver and the scripted coordinator, or the end of the stream.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Request(SessionRequest),
    Response(SessionResponse),
    End,
}

/// Rewrites messages. Its arguments: the number of the stream, and the message.
pub(crate) type Wire = Box<dyn FnMut(u32, Message) -> Vec<Message> + Send>;

/// A wrong library, and what the runner must say of it.
pub(crate) struct Mutant {
    /// The wrong.
    pub(crate) wrong: &'static str,
    /// Part of the verdict that must come of it.
    pub(crate) verdict: &'static str,
    pub(crate) means: Means,
}

/// Means by which it is wrong.
pub(crate) enum Means {
    Lines(fn() -> Lines),
    Wire(fn() -> Wire),
}
