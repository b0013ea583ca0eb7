//! Timeout of request bodies, for calls that are never sent to the end.
//!
//! A client that sends the headers of a call and not the rest makes the coordinator keep what it has received. So a call of
//! one message must be complete within a bound; sessions and campaigns have rules of their own.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body as _, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tonic::{Status, body::Body};

use crate::status::{Reason, Refusal};

/// Methods whose clients may send for as long as they want, under rules of their own.
const CLIENT_STREAMS: [&str; 2] = [
    "/leasehold.v1.LockService/Session",
    "/leasehold.v1.ElectionService/Campaign",
];

/// Methods whose clients have the bound of a call for each message.
const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Wraps a request body so that it fails if it is not complete in time.
pub(super) fn in_time(path: &str, body: Body, patience: Duration) -> Body {
    // An empty request is complete.
    if CLIENT_STREAMS.contains(&path) || body.is_end_stream() {
        return body;
    }
    Body::new(InTime {
        inner: body,
        patience,
        goes_on: REFLECTION.contains(&path),
        over: tokio::time::sleep(patience),
    })
}

pin_project! {
    struct InTime {
        #[pin]
        inner: Body,
        patience: Duration,
        goes_on: bool,
        // The timer costs nothing until it is polled.
        #[pin]
        over: Sleep,
    }
}

impl http_body::Body for InTime {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = this.inner.poll_frame(cx) {
            if *this.goes_on {
                this.over.as_mut().reset(Instant::now() + *this.patience);
            }
            return Poll::Ready(frame);
        }
        ready!(this.over.poll(cx));
        let refusal = Refusal::new(
            Reason::RequestTimeout,
            format!(
                "the request was not complete within {:?}; nothing was done: send it at once",
                this.patience
            ),
        );
        Poll::Ready(Some(Err(refusal.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::{CLIENT_STREAMS, REFLECTION};

    #[test]
    fn the_methods_on_which_clients_go_on_speaking_are_known() {
        let sets = [
            leasehold_proto::v1::DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let mut streams = Vec::<String>::new();
        for set in sets {
            for file in FileDescriptorSet::decode(set).unwrap().file {
                for service in &file.service {
                    let methods = service.method.iter();
                    streams.extend(methods.filter(|method| method.client_streaming()).map(
                        |method| {
                            let (package, service) = (file.package(), service.name());
                            format!("/{package}.{service}/{}", method.name())
                        },
                    ));
                }
            }
        }
        streams.sort_unstable();
        let mut known = [CLIENT_STREAMS, REFLECTION].concat();
        known.sort_unstable();
        assert_eq!(streams, known);
    }
}
