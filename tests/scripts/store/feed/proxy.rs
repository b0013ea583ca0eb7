//! A proxy that can let the connections that it has fall silent.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::watch,
    task::AbortHandle,
};

/// A proxy in front of a port on loopback.
pub(crate) struct Proxy {
    port: u16,
    /// Connections with smaller numbers are silent: what comes is read, and goes nowhere.
    silent_below: Arc<watch::Sender<u64>>,
    accepted: watch::Receiver<u64>,
    task: AbortHandle,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent_below = Arc::new(watch::Sender::new(0));
        let (count, accepted) = watch::channel(0);
        let silence = silent_below.subscribe();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = *count.borrow();
                count.send_replace(number + 1);
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(number, from_client, to_server, silence.clone()));
                tokio::spawn(pass(number, from_server, to_client, silence.clone()));
            }
        });
        Self {
            port,
            silent_below,
            accepted,
            task: task.abort_handle(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Silences the present connections. New ones work.
    pub(crate) fn swallow(&self) {
        self.silent_below.send_replace(*self.accepted.borrow());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    number: u64,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    silent_below: watch::Receiver<u64>,
) {
    let mut bytes = vec![0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let is_silent = number < *silent_below.borrow();
        if !is_silent && to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
