//! WebSocket that owes its peer one pong at most.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message},
};

/// WebSocket that reads no further until the answer to a ping has gone out. The library alone would keep the answers to all pings of a
/// client that does not read, without a bound.
pub(super) struct Answering<S> {
    socket: WebSocketStream<S>,
    owes: bool,
}

impl<S> Answering<S> {
    pub(super) const fn new(socket: WebSocketStream<S>) -> Self {
        Self {
            socket,
            owes: false,
        }
    }

    pub(super) fn into_inner(self) -> S {
        self.socket.into_inner()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for Answering<S> {
    type Item = Result<Message, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.owes {
            ready!(Pin::new(&mut this.socket).poll_flush(cx))?;
            this.owes = false;
        }
        let message = ready!(Pin::new(&mut this.socket).poll_next(cx));
        this.owes = matches!(message, Some(Ok(Message::Ping(_))));
        Poll::Ready(message)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Message> for Answering<S> {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().socket).poll_ready(cx)
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), Error> {
        Pin::new(&mut self.get_mut().socket).start_send(message)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().socket).poll_close(cx)
    }
}
