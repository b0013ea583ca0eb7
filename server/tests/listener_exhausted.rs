//! The accept loop when the process runs out of file descriptors. A process of its own, for the limit is the process's.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use futures_util::StreamExt;
use leasehold_server::listener::{Connections, ListenerOptions, accept};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn accepting_goes_on_once_there_are_descriptors_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // The kernel completes their handshakes; accepting is what needs descriptors.
    let address = listener.local_addr().unwrap();
    let _first = TcpStream::connect(address).await.unwrap();
    let _second = TcpStream::connect(address).await.unwrap();
    let mut incoming = Box::pin(accept(
        listener,
        ListenerOptions::default(),
        Connections::new(),
        CancellationToken::new(),
    ));

    let before = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(3),
            maximum: before.maximum,
        },
    )
    .unwrap();
    let exhausted = timeout(Duration::from_millis(500), incoming.next()).await;
    setrlimit(Resource::Nofile, before).unwrap();

    assert!(exhausted.is_err(), "{exhausted:?}");
    for _ in 0..2 {
        let accepted = timeout(Duration::from_secs(20), incoming.next()).await;
        accepted.unwrap().unwrap().unwrap();
    }
}
