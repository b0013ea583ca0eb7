//! Scripted coordinator: a gRPC server whose every message a scenario decides.

mod service;
mod stream;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context;
use leasehold_tests::{FaultProxy, proxy::Cut};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

pub(crate) use self::service::Call;
use self::service::{Elections, Locks};
pub(crate) use self::stream::{Heard, Stream, locks, opened};
use crate::mutant::{Message, Wire};

/// The mutant that all streams share, if there is one.
pub(crate) type SharedWire = Option<Arc<Mutex<Wire>>>;

/// A scripted coordinator, behind a proxy that can break its connections.
pub(crate) struct Scripted {
    proxy: FaultProxy,
    sessions: mpsc::UnboundedReceiver<Call>,
    observers: mpsc::UnboundedReceiver<Call>,
    wire: SharedWire,
    streams: u32,
    serving: JoinHandle<()>,
}

impl Scripted {
    pub(crate) async fn start(wire: Option<Wire>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let (session_sender, sessions) = mpsc::unbounded_channel();
        let (observer_sender, observers) = mpsc::unbounded_channel();
        let server = Server::builder()
            .add_service(Locks::new(session_sender))
            .add_service(Elections::new(observer_sender));
        let serving = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            server
                .serve_with_incoming(incoming)
                .await
                .expect("it serves");
        });
        Self {
            proxy: FaultProxy::start(address).await,
            sessions,
            observers,
            wire: wire.map(|wire| Arc::new(Mutex::new(wire))),
            streams: 0,
            serving,
        }
    }

    /// Returns its endpoint.
    pub(crate) fn endpoint(&self) -> String {
        self.proxy.endpoint()
    }

    /// Resets every connection, unless a mutant hears of no end.
    pub(crate) async fn cut(&self) {
        let wire = self.wire.as_ref();
        let ends = wire.is_none_or(|wire| !wire.lock().unwrap()(0, Message::End).is_empty());
        if ends {
            self.proxy.cut(Cut::Rst).await;
        }
    }

    /// Waits for the next session's stream.
    pub(crate) async fn session(&mut self, limit: Duration) -> anyhow::Result<Stream> {
        let call = next(&mut self.sessions, limit).await;
        let call = call.context("the client opened no session")?;
        self.streams += 1;
        Ok(Stream::new(call, self.streams, self.wire.clone()))
    }

    /// Waits for the next observer's call.
    pub(crate) async fn observer(&mut self, limit: Duration) -> anyhow::Result<Call> {
        let call = next(&mut self.observers, limit).await;
        call.context("the client did not observe")
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn next<T>(queue: &mut mpsc::UnboundedReceiver<T>, limit: Duration) -> anyhow::Result<T> {
    let next = tokio::time::timeout(limit, queue.recv()).await?;
    next.context("the server has ended")
}
