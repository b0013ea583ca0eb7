//! Body of a request: messages of Connect and gRPC-Web as gRPC's frames.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tonic::{Status, body::Body};

use super::{
    call::Call,
    encoding::{Encoding, Undecodable},
    envelope::{self, COMPRESSED, TooLong},
    error::shown,
};
use crate::status::{Reason, Refusal};

/// Body of a gRPC request that reads and translates a request as it is polled: once the layers behind have admitted the
/// call, and in the time that they give it.
#[derive(Debug)]
pub(super) struct RequestBody {
    inner: Body,
    call: Call,
    framing: Framing,
    /// Most bytes of a message, as sent and decompressed.
    limit: usize,
    buffer: BytesMut,
    is_over: bool,
}

/// Form of the messages in a body.
#[derive(Debug)]
enum Framing {
    /// One message, without a prefix.
    Bare,
    /// One message with a prefix, once it has come.
    One(Option<Bytes>),
    /// Messages with prefixes.
    Many,
}

impl RequestBody {
    pub(super) fn new(inner: Body, call: Call, limit: usize) -> Self {
        let framing = if call.is_unary {
            Framing::Bare
        } else if call.method.is_client_streaming() {
            Framing::Many
        } else {
            Framing::One(None)
        };
        Self {
            inner,
            call,
            framing,
            limit,
            buffer: BytesMut::new(),
            is_over: false,
        }
    }

    /// Returns the frame of the next message in the buffer, if it is there.
    fn next_message(&mut self) -> Result<Option<Bytes>, Status> {
        if matches!(self.framing, Framing::Bare) {
            return if self.buffer.len() > self.limit {
                Err(too_long(self.limit))
            } else {
                Ok(None)
            };
        }
        while let Some((flags, message)) =
            envelope::take(&mut self.buffer, self.limit).map_err(|TooLong| too_long(self.limit))?
        {
            let encoding = match (flags, self.call.encoding) {
                (0, _) => Encoding::Identity,
                (COMPRESSED, Encoding::Identity) => {
                    let message = "a message is compressed, but the request's headers name no encoding of its messages";
                    return Err(Status::internal(message));
                }
                (COMPRESSED, encoding) => encoding,
                _ => {
                    let message = format!("a message has flags that are not a request's: {flags}");
                    return Err(Status::invalid_argument(message));
                }
            };
            let frame = self.translate(message, encoding)?;
            match &mut self.framing {
                Framing::One(Some(_)) => return Err(not_one("more than one")),
                Framing::One(one) => *one = Some(frame),
                Framing::Bare | Framing::Many => return Ok(Some(frame)),
            }
        }
        Ok(None)
    }

    /// Returns the frame of the last message of a complete body.
    fn last_message(&mut self) -> Result<Option<Bytes>, Status> {
        if matches!(self.framing, Framing::Bare) {
            let message = self.buffer.split().freeze();
            return self.translate(message, self.call.encoding).map(Some);
        }
        if !self.buffer.is_empty() {
            let message = "the request ended within a message";
            return Err(Status::invalid_argument(message));
        }
        match &mut self.framing {
            Framing::One(one) => one.take().ok_or_else(|| not_one("none")).map(Some),
            Framing::Bare | Framing::Many => Ok(None),
        }
    }

    fn translate(&self, message: Bytes, encoding: Encoding) -> Result<Bytes, Status> {
        let input = self.call.method.input();
        let unreadable = |why: &str| -> Status {
            let what = input.full_name();
            let message = format!("the message is no {what}: {why}; nothing was done");
            Refusal::new(Reason::UnknownRequest, message).into()
        };
        let message =
            encoding
                .decode(message, self.limit)
                .map_err(|undecodable| match undecodable {
                    Undecodable::TooLong => too_long(self.limit),
                    Undecodable::Broken(error) => unreadable(&shown(&error)),
                })?;
        let message = self.call.codec.decode(message, input.clone());
        let message = message.map_err(|error| unreadable(&shown(&error)))?;
        Ok(envelope::wrap(0, &message))
    }
}

/// Returns the error with which tonic ends the body of a gRPC request. The layers behind and the sessions know it by its code, and
/// refuse the call with `MESSAGE_TOO_LARGE`.
fn too_long(limit: usize) -> Status {
    Status::out_of_range(format!("a message is larger than {limit} bytes"))
}

fn not_one(found: &str) -> Status {
    Status::unimplemented(format!(
        "the method takes one message, and the request has {found}"
    ))
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        loop {
            if this.is_over {
                return Poll::Ready(None);
            }
            match this.next_message() {
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(Frame::data(frame)))),
                Ok(None) => {}
                Err(status) => {
                    this.is_over = true;
                    return Poll::Ready(Some(Err(status)));
                }
            }
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        this.buffer.extend_from_slice(&data);
                    }
                }
                // As it is: a session asks by whom its stream was ended.
                Some(Err(status)) => {
                    this.is_over = true;
                    return Poll::Ready(Some(Err(status)));
                }
                None => {
                    this.is_over = true;
                    let last = this.last_message();
                    return Poll::Ready(last.transpose().map(|last| last.map(Frame::data)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}
