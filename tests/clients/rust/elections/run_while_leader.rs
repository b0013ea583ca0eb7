//! Work that runs while leading.

use std::{
    future::pending,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use leasehold_client::{AcquireError, Client, LeadershipWatch};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut, wait};
use tokio::{sync::mpsc, time::timeout};
use tracing::{Dispatch, subscriber::NoSubscriber};

use super::deserted;
use crate::LIMIT;

/// Tells when it is dropped.
struct Dropped(mpsc::UnboundedSender<Instant>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(Instant::now()).ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_stopped_at_the_deadline_when_nothing_is_heard_any_more() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let other = Client::connect(coordinator.endpoint()).await.unwrap();
    let builder = Client::builder().ttl(Duration::from_secs(2));
    let client = builder.connect(proxy.endpoint()).await.unwrap();
    let election = client.election("e");
    let (term_sender, mut terms) = mpsc::unbounded_channel();
    let (drop_sender, mut drops) = mpsc::unbounded_channel();
    let running = tokio::spawn(async move {
        let work = |leadership: LeadershipWatch| {
            let flag = Dropped(drop_sender.clone());
            term_sender.send(leadership).unwrap();
            async move {
                let _flag = flag;
                pending::<()>().await;
            }
        };
        election.run_while_leader("", work).await
    });
    let leadership = timeout(LIMIT, terms.recv()).await.unwrap().unwrap();
    let next = tokio::spawn(async move {
        let leadership = other.election("e").campaign("").await.unwrap();
        (Instant::now(), leadership)
    });
    proxy.black_hole();
    // The last that it has heard of the coordinator.
    let mut deadline = Instant::now();
    while leadership.is_leader() {
        deadline = Instant::now() + leadership.valid_for();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let stopped = timeout(LIMIT, drops.recv()).await.unwrap().unwrap();
    let (elected, other) = timeout(LIMIT, next).await.unwrap().unwrap();
    // The work stops a moment after the client knows, when the machine lets it.
    assert!(deadline < elected, "the next was elected before");
    assert!(stopped + Duration::from_millis(10) > deadline, "too early");

    // Heard of again, it campaigns again.
    proxy.forward();
    drop(other);
    let again = timeout(LIMIT, terms.recv()).await.unwrap().unwrap();
    assert!(again.fencing_token() > leadership.fencing_token());
    running.abort();
    // Dropping it stops the work, and then resigns.
    timeout(LIMIT, drops.recv()).await.unwrap().unwrap();
    deserted(&client, "e").await;
}

#[tokio::test(flavor = "current_thread")]
async fn work_that_ends_after_the_loss_does_not_count() {
    let coordinator = Coordinator::in_process();
    let ttl = Duration::from_secs(1);
    let builder = Client::builder().ttl(ttl);
    let client = builder.connect(coordinator.endpoint()).await.unwrap();
    let runs = AtomicU32::new(0);
    let work = |leadership: LeadershipWatch| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            if run == 1 {
                // Nothing else runs meanwhile: nobody is there to notice that the lease has run out.
                thread::sleep(ttl + Duration::from_millis(200));
            }
            (run, leadership)
        }
    };
    let done = client.election("e").run_while_leader("", work);
    let (run, _) = timeout(LIMIT, done).await.unwrap().unwrap();
    assert_eq!(run, 2);
}

#[tokio::test]
async fn the_want_of_a_coordinator_is_waited_for_and_a_refusal_is_not() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    proxy.set_refuse(true).await;
    proxy.cut(Cut::Rst).await;
    while client.default_session().info().is_some() {
        tokio::task::yield_now().await;
    }
    // With a wait, the campaign itself gives up.
    let election = client.election("e").wait(Duration::from_millis(50));
    let error = election.campaign("").await.unwrap_err();
    assert!(
        matches!(error, AcquireError::Unavailable { .. }),
        "{error:?}"
    );
    let running = tokio::spawn(async move { election.run_while_leader("", |_| async { 7 }).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!running.is_finished());
    proxy.set_refuse(false).await;
    assert_eq!(timeout(LIMIT, running).await.unwrap().unwrap().unwrap(), 7);

    let invalid = client
        .election("bad\u{7}name")
        .run_while_leader("", |_| async {});
    let error = timeout(LIMIT, invalid).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::Refused { .. }), "{error:?}");
    client.close().await;
    let closed = client.election("e").run_while_leader("", |_| async {});
    let error = timeout(LIMIT, closed).await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionClosed { .. }),
        "{error:?}"
    );
}

/// Collects what is logged, a line an event.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the lines about campaigns that did not succeed.
    fn failures(&self) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = log.lines().filter(|line| {
            line.contains("leasehold_client::election::campaign") && !line.contains(" INFO ")
        });
        lines.map(str::to_owned).collect()
    }

    /// Waits until something of this level has been said after the first `known` lines.
    async fn says(&self, level: &str, known: usize) {
        wait::until("something to be logged", LIMIT, || async {
            let lines = self.failures();
            match lines[known..].iter().any(|line| line.contains(level)) {
                true => Ok(()),
                false => Err(lines),
            }
        })
        .await;
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "current_thread")]
async fn the_first_failure_in_a_row_is_a_warning_that_says_why() {
    let log = Log::default();
    // Where there is one subscriber, tracing notes for each event whether the first thread that reaches it has that subscriber,
    // and that may be the thread of another test. Where there are two, it asks them.
    let _second = Dispatch::new(NoSubscriber::default());
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    // Room for one.
    let coordinator = Coordinator::in_process_with(["--max-locks-per-session", "1"]);
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let builder = Client::builder().backoff(Duration::ZERO, Duration::from_millis(10));
    let client = builder.connect(proxy.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let election = client.election("e").wait(Duration::from_millis(50));
    let (term_sender, mut terms) = mpsc::unbounded_channel();
    let running = tokio::spawn(async move {
        let work = |_| {
            term_sender.send(()).unwrap();
            pending::<()>()
        };
        election.run_while_leader("", work).await
    });
    log.says("DEBUG", 0).await;
    guard.release().await.unwrap();
    timeout(LIMIT, terms.recv()).await.unwrap().unwrap();

    // Elected in between, it is another row.
    let known = log.failures().len();
    proxy.set_refuse(true).await;
    proxy.cut(Cut::Rst).await;
    log.says("DEBUG", known).await;
    running.abort();

    let lines = log.failures();
    for (row, why) in [
        (&lines[..known], "TOO_MANY_LOCKS"),
        (&lines[known..], "no connection to a coordinator"),
    ] {
        let (first, rest) = row.split_first().unwrap();
        assert!(first.contains(" WARN "), "{lines:?}");
        assert!(first.contains(why) && first.contains("\"e\""), "{lines:?}");
        assert!(!rest.is_empty());
        assert!(rest.iter().all(|line| line.contains("DEBUG")), "{lines:?}");
    }
}
