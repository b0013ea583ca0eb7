//! A port that takes connections and has no coordinator behind it, as a balancer has, or a coordinator that is about to
//! crash.

use std::{
    error::Error,
    io, slice,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_client::{AcquireError, Admin, Client, ConnectError};
use leasehold_tests::{Coordinator, ports::free_port, wait};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

use crate::{LIMIT, waiters};

/// Way in which such a port ends a connection.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    AtOnce,
    /// After the client's first words.
    Heard,
    /// After the request, which the transport has accepted.
    Asked,
    /// The same, but only the stream ends, by a reset.
    StreamReset,
    /// The same, but after the head of an answer, and as if all had been said.
    StreamCutShort,
}

const ENDS: [End; 5] = [
    End::AtOnce,
    End::Heard,
    End::Asked,
    End::StreamReset,
    End::StreamCutShort,
];

// HTTP/2: what a client begins with, and frames. Those about a stream are about the first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// `:status: 200`, `content-type: application/grpc`.
const HEAD: &[u8] = b"\0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc";
const RESET_CANCEL: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
const RESET_NO_ERROR: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0];

async fn end(mut connection: TcpStream, how: End) -> io::Result<()> {
    if how == End::AtOnce {
        return Ok(());
    }
    connection.read_exact(&mut [0; PREFACE.len()]).await?;
    if how == End::Heard {
        return Ok(());
    }
    connection.write_all(EMPTY_SETTINGS).await?;
    loop {
        let mut frame = [0; 9];
        connection.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        let mut content = vec![0; length as usize];
        connection.read_exact(&mut content).await?;
        if frame[3] == HEADERS {
            break;
        }
    }
    match how {
        End::AtOnce | End::Heard | End::Asked => return Ok(()),
        End::StreamReset => connection.write_all(RESET_CANCEL).await?,
        End::StreamCutShort => {
            connection.write_all(HEAD).await?;
            connection.write_all(RESET_NO_ERROR).await?;
        }
    }
    // Until the client is gone.
    connection.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Takes connections and ends them, in each of these ways in turn, until it is dropped.
struct Unanswering {
    endpoint: String,
    ended: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Unanswering {
    fn on(listener: TcpListener, ends: &'static [End]) -> Self {
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let ended = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ended);
        let task = tokio::spawn(async move {
            for how in ends.iter().cycle() {
                let (connection, _) = listener.accept().await.unwrap();
                // The client may be the first to go.
                end(connection, *how).await.ok();
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self {
            endpoint,
            ended,
            task,
        }
    }

    /// Waits until it has ended that many connections.
    async fn ended(&self, count: usize) {
        wait::until("connections to be ended", LIMIT, || async {
            match self.ended.load(Ordering::SeqCst) {
                ended if ended >= count => Ok(()),
                ended => Err(ended),
            }
        })
        .await;
    }

    /// Frees the port.
    async fn stop(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

#[tokio::test]
async fn waiters_go_on_waiting_until_a_coordinator_is_back() {
    let address = format!("127.0.0.1:{}", free_port());
    let coordinator = || Coordinator::process().arguments(["--listen", &address]);
    let mut first = coordinator().start();
    let builder = Client::builder().backoff(Duration::ZERO, Duration::from_millis(10));
    let client = builder.connect(first.endpoint()).await.unwrap();
    let other = Client::connect(first.endpoint()).await.unwrap();
    let held = other.lock("e").await.unwrap();
    let second = other.lock("f").await.unwrap();
    let (election, running) = (client.election("e"), client.election("f"));
    let lock = client.lock("e").into_future();
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(async move { election.campaign("").await.map(drop) });
    waiting.spawn(async move { lock.await.map(drop) });
    waiting.spawn(async move { running.run_while_leader("", |_| async {}).await });
    waiters(&other, "e", 2).await;
    waiters(&other, "f", 1).await;

    first.kill();
    held.lost().await;
    // So that nobody else connects to what comes next.
    drop((held, second, other));
    let listener = TcpListener::bind(&address).await.unwrap();
    let nobody = Unanswering::on(listener, &ENDS);
    nobody.ended(3 * ENDS.len()).await;
    // A try does not wait: it is told that there is nobody, which may pass.
    let error = client.lock("e").try_acquire().await.unwrap_err();
    let AcquireError::Unavailable { source, .. } = &error else {
        panic!("{error:?}");
    };
    let source = source.as_deref();
    assert!(
        matches!(source, Some(ConnectError::Unreachable { .. })),
        "{error:?}"
    );
    assert!(error.is_retryable(), "{error:?}");
    nobody.stop().await;

    let _second = coordinator().start();
    while let Some(waited) = timeout(LIMIT, waiting.join_next()).await.unwrap() {
        waited.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_first_connection_that_nobody_answers_has_reached_no_coordinator() {
    for how in &ENDS {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nobody = Unanswering::on(listener, slice::from_ref(how));
        let connecting = timeout(LIMIT, Client::connect(&nobody.endpoint));
        let error = connecting.await.unwrap().unwrap_err();
        assert!(
            matches!(error, ConnectError::Unreachable { .. }),
            "{how:?}: {error:?}"
        );
        assert!(error.is_retryable());
        // Why is still told.
        let why = error.source().unwrap().to_string();
        assert!(!why.is_empty(), "{how:?}");

        let admin = Admin::connect(&nobody.endpoint).unwrap();
        let asking = timeout(LIMIT, admin.get_lock("a"));
        let failure = asking.await.unwrap().unwrap_err();
        assert!(failure.is_retryable(), "{how:?}: {failure:?}");
    }
}
