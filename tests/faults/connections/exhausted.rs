//! The accept loop when the process runs out of file descriptors. The test runs in a process of its own, because the limit is the process's.

use std::{env, process::Command, time::Duration};

use futures_util::StreamExt;
use leasehold_server::listener::{Connections, ListenerOptions, accept};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Variable that is set in the process which runs the test alone.
const ALONE: &str = "LEASEHOLD_TEST_ALONE";
const NAME: &str = "connections::exhausted::accepting_goes_on_once_there_are_descriptors_again";

#[tokio::test]
async fn accepting_goes_on_once_there_are_descriptors_again() {
    if env::var_os(ALONE).is_none() {
        let mut alone = Command::new(env::current_exe().unwrap());
        let alone = alone.args([NAME, "--exact"]).env(ALONE, "").output();
        let output = alone.unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("1 passed"), "{shown}");
        return;
    }
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
