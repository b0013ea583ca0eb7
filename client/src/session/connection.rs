//! Connection of a session, in progress or made, with the requests to send on it.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::future::select_all;
use tokio::time::timeout;

use super::{
    link::{Event, Link, Outbound},
    route::Candidate,
};
use crate::{
    proto::v1::{self, session_response::Response},
    settings::Settings,
};

pub(super) struct Connection {
    /// The machine's number of the stream on it, once the machine knows of it.
    pub(super) number: Option<u64>,
    /// The address that it leads to; unknown before it is dialled.
    pub(super) candidate: Option<Candidate>,
    /// Version of the credentials that it was made with, or an earlier one.
    pub(super) credentials: u64,
    pub(super) link: Link,
    pub(super) outbound: Outbound,
}

impl Connection {
    /// Begins a round of attempts, after a pause where there is to be one.
    pub(super) fn begin(settings: &Arc<Settings>, pause: Option<Duration>) -> Self {
        Self {
            number: None,
            candidate: None,
            credentials: 0,
            link: Link::find(settings, pause),
            outbound: Outbound::default(),
        }
    }

    pub(super) fn dial(settings: &Settings, candidate: Candidate, limit: Duration) -> Self {
        Self {
            number: None,
            credentials: settings.credentials.version(),
            link: Link::dial(settings, &candidate, limit),
            candidate: Some(candidate),
            outbound: Outbound::default(),
        }
    }

    /// Returns the endpoint that it leads to, for messages.
    pub(super) fn endpoint(&self) -> Arc<str> {
        self.candidate
            .as_ref()
            .map_or_else(|| "".into(), |candidate| candidate.endpoint.clone())
    }

    /// Waits for the next event, and sends the queued requests meanwhile. May be dropped and called again.
    async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                biased;
                event = self.link.next() => return event,
                () = self.outbound.unblocked(), if self.outbound.is_blocked() => {
                    self.outbound.flush();
                }
            }
        }
    }

    /// Sends the queued requests, and waits for the end of the stream.
    pub(super) async fn leave(mut self, limit: Duration) {
        let ended = async {
            loop {
                match self.next().await {
                    Event::Ended(_) => return,
                    Event::Message(message) if is_end(&message) => return,
                    _ => {}
                }
            }
        };
        timeout(limit, ended).await.ok();
    }
}

fn is_end(message: &v1::SessionResponse) -> bool {
    matches!(message.response, Some(Response::Closed(_)))
}

/// Waits for the next event of any of these connections, of which there is at least one. Returns its index, and the event. May be dropped
/// and called again.
pub(super) async fn first_event(connections: &mut [Connection]) -> (usize, Event) {
    let events = connections.iter_mut();
    let events = events.map(|connection| Box::pin(connection.next()));
    let (event, index, _) = select_all(events).await;
    (index, event)
}

/// Waits for the next event of a connection, forever if there is none. May be dropped and called again.
pub(super) async fn next_event(connection: &mut Option<Connection>) -> Event {
    match connection {
        Some(connection) => connection.next().await,
        None => pending().await,
    }
}
