//! One connection through the proxy.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use super::{Cut, Direction, Flow, Rules};

pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) upstream: SocketAddr,
    pub(super) passed: Arc<AtomicU64>,
    pub(super) rules: watch::Receiver<Rules>,
    pub(super) cuts: watch::Receiver<Option<(u64, Cut)>>,
    pub(super) ended: CancellationToken,
}

impl Connection {
    pub(super) async fn run(mut self, client: TcpStream) {
        let server = tokio::select! {
            _ = self.cuts.changed() => return,
            () = self.ended.cancelled() => return,
            server = dial(self.number, self.upstream, self.rules.clone()) => server,
        };
        let Ok(server) = server else { return };
        // Delays are the proxy's to make, not the kernel's.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let both = async {
            let to_server = pump(
                (self.number, Direction::ToServer),
                &self.passed,
                self.rules.clone(),
                &mut from_client,
                &mut to_server,
            );
            let to_client = pump(
                (self.number, Direction::ToClient),
                &self.passed,
                self.rules.clone(),
                &mut from_server,
                &mut to_client,
            );
            tokio::try_join!(to_server, to_client)
        };
        let reset = tokio::select! {
            _ = self.cuts.changed() => {
                matches!(*self.cuts.borrow(), Some((_, Cut::Rst)))
            }
            () = self.ended.cancelled() => false,
            // An error of one side is passed on as a reset of the other.
            ended = both => ended.is_err(),
        };
        if reset {
            for half in [to_client, to_server] {
                // It may be gone already. Dropped the usual way it would send a FIN first.
                let _ = half.as_ref().set_zero_linger();
                half.forget();
            }
        }
    }
}

/// Connects to the server, once anything may pass to it.
async fn dial(
    number: u64,
    upstream: SocketAddr,
    mut rules: watch::Receiver<Rules>,
) -> io::Result<TcpStream> {
    rules
        .wait_for(|rules| rules.flow(number, Direction::ToServer) == Flow::Forward)
        .await
        .map_err(io::Error::other)?;
    TcpStream::connect(upstream).await
}

/// Passes the bytes of one direction on until its end, which is passed on as well.
async fn pump(
    (number, direction): (u64, Direction),
    passed: &AtomicU64,
    mut rules: watch::Receiver<Rules>,
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        rules
            .wait_for(|rules| rules.flow(number, direction) != Flow::Hold)
            .await
            .map_err(io::Error::other)?;
        let count = from.read(&mut buffer).await?;
        let delay = rules.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // What was on its way when the rules changed is subject to the new ones.
        let flow = rules
            .wait_for(|rules| match rules.flow(number, direction) {
                Flow::Hold => false,
                Flow::Discard => count > 0,
                Flow::Forward => true,
            })
            .await
            .map_err(io::Error::other)?
            .flow(number, direction);
        if count == 0 {
            return to.shutdown().await;
        }
        if flow == Flow::Forward {
            to.write_all(&buffer[..count]).await?;
            passed.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}
