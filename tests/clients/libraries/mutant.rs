//! Mutants: wrongs that are put between the runner and a driver, or between a driver and the scripted coordinator, so that each need not
//! be written in every language.

use leasehold_proto::v1::{
    SessionRequest, SessionResponse, session_request::Request, session_response::Response,
};
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

/// Changes what the driver says of its own: replies to an operation, or events of a kind.
pub(crate) fn to_runner(
    of: &'static str,
    mut change: impl FnMut(&mut Value) + Send + 'static,
) -> Lines {
    Box::new(move |way, kind, mut line| {
        if way == Way::ToRunner && kind == of {
            change(&mut line);
        }
        vec![(way, line)]
    })
}

/// Changes the requests of an operation.
pub(crate) fn to_driver(
    of: &'static str,
    mut change: impl FnMut(&mut Value) + Send + 'static,
) -> Lines {
    Box::new(move |way, kind, mut line| {
        if way == Way::ToDriver && kind == of {
            change(&mut line);
        }
        vec![(way, line)]
    })
}

/// Changes the requests of a driver.
pub(crate) fn of_requests(mut change: impl FnMut(&mut Request) + Send + 'static) -> Wire {
    Box::new(move |_, mut message| {
        if let Message::Request(request) = &mut message
            && let Some(request) = &mut request.request
        {
            change(request);
        }
        vec![message]
    })
}

/// Changes the responses to a driver.
pub(crate) fn of_responses(mut change: impl FnMut(&mut Response) + Send + 'static) -> Wire {
    Box::new(move |_, mut message| {
        if let Message::Response(response) = &mut message
            && let Some(response) = &mut response.response
        {
            change(response);
        }
        vec![message]
    })
}

/// Loses the messages that `is_lost` accepts.
pub(crate) fn losing(mut is_lost: impl FnMut(&Message) -> bool + Send + 'static) -> Wire {
    Box::new(move |_, message| match is_lost(&message) {
        true => Vec::new(),
        false => vec![message],
    })
}

/// Returns the request that a message is, if it is one.
pub(crate) fn request(message: &Message) -> Option<&Request> {
    match message {
        Message::Request(request) => request.request.as_ref(),
        _ => None,
    }
}

/// Returns the response that a message is, if it is one.
pub(crate) fn response(message: &Message) -> Option<&Response> {
    match message {
        Message::Response(response) => response.response.as_ref(),
        _ => None,
    }
}
