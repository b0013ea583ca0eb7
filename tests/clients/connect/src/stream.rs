//! Streams of responses as a request defines them.

use std::{future::Future, time::Duration, vec};

use futures_util::{StreamExt, stream::BoxStream};
use prost_types::Any;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, metadata::MetadataMap};

use super::{
    caller::{Caller, metadata, status},
    proto::{
        ConformancePayload, Error, StreamResponseDefinition, conformance_payload::RequestInfo,
    },
};

/// Responses of a call. The last item is always a status, also after success: it has the trailers.
pub(super) type Responses<T> = BoxStream<'static, Result<T, Status>>;

/// Responses that a request asks for, in the course of being sent.
pub(super) struct Script {
    caller: Caller,
    remaining: vec::IntoIter<Vec<u8>>,
    delay: Duration,
    error: Option<Error>,
    trailers: MetadataMap,
    has_sent: bool,
    sender: mpsc::Sender<Result<ConformancePayload, Status>>,
}

/// Runs `play` with the script of a definition until the call's deadline, and returns its responses. Headers are sent at once.
///
/// tonic ends only calls whose headers are late, so that the deadline of a stream is its handler's to keep.
pub(super) fn responses<T, F>(
    caller: Caller,
    definition: StreamResponseDefinition,
    of: fn(ConformancePayload) -> T,
    play: impl FnOnce(Script) -> F,
) -> Result<Response<Responses<T>>, Status>
where
    T: Send + 'static,
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let headers = metadata(&definition.response_headers)?;
    let trailers = metadata(&definition.response_trailers)?;
    let (sender, receiver) = mpsc::channel(1);
    let deadline = caller.deadline;
    let played = play(Script {
        caller,
        remaining: definition.response_data.into_iter(),
        delay: Duration::from_millis(definition.response_delay_ms.into()),
        error: definition.error,
        trailers,
        has_sent: false,
        sender: sender.clone(),
    });
    tokio::spawn(async move {
        let ended = tokio::select! {
            biased;
            ended = until(deadline, played) => ended,
            // The client is gone.
            () = sender.closed() => return,
        };
        if let Err(status) = ended {
            // The client may have gone just now.
            let _ = sender.send(Err(status)).await;
        }
    });
    let responses = ReceiverStream::new(receiver).map(move |item| item.map(of));
    let mut response = Response::new(responses.boxed());
    *response.metadata_mut() = headers;
    Ok(response)
}

async fn until(
    deadline: Option<Instant>,
    played: impl Future<Output = Result<(), Status>>,
) -> Result<(), Status> {
    let Some(deadline) = deadline else {
        return played.await;
    };
    let late = |_| Status::deadline_exceeded("the time of the call is over");
    timeout_at(deadline, played).await.map_err(late)?
}

impl Script {
    /// Sends the next response, with `info` in it. Returns false if there is none.
    async fn send(&mut self, info: Option<RequestInfo>) -> bool {
        let Some(data) = self.remaining.next() else {
            return false;
        };
        sleep(self.delay).await;
        let payload = ConformancePayload {
            data,
            request_info: info,
        };
        self.has_sent = true;
        // If the client is gone, the whole script is dropped.
        let _ = self.sender.send(Ok(payload)).await;
        true
    }

    /// Sends one response to the requests since the last one. Returns false if there is none.
    pub(super) async fn respond(&mut self, requests: &[Any]) -> bool {
        let requests = requests.to_vec();
        let info = match self.has_sent {
            false => self.caller.info(requests),
            true => RequestInfo {
                requests,
                ..RequestInfo::default()
            },
        };
        self.send(Some(info)).await
    }

    /// Sends all responses that are left, and the status. The first one of the call tells of the requests.
    pub(super) async fn finish(mut self, requests: Vec<Any>) -> Result<(), Status> {
        if !self.has_sent {
            self.respond(&requests).await;
        }
        while self.send(None).await {}
        let info = (!self.has_sent).then(|| self.caller.info(requests));
        Err(status(self.error, info, self.trailers))
    }
}
