//! Work that runs while leading.

use std::{
    error::Error,
    fmt::{Debug, Write},
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use leasehold_client::{AcquireError, Client, FencingToken, LeadershipWatch};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut, stalls::Stalls, wait};
use tokio::{sync::mpsc, time::timeout};
use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber, field, span, subscriber::NoSubscriber,
};

use super::{LIMIT, deserted};

/// Tells when it is dropped.
struct Dropped(mpsc::UnboundedSender<Instant>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(Instant::now()).ok();
    }
}

#[tokio::test]
async fn work_is_stopped_by_a_force_release_and_begun_anew_after_the_next_election() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let election = client.election("e");
    let (term_sender, mut terms) = mpsc::unbounded_channel();
    let (drop_sender, mut drops) = mpsc::unbounded_channel();
    // Spawned: the future is `Send` where the work is.
    let running = tokio::spawn(async move {
        let mut last = None;
        let work = |leadership: LeadershipWatch| {
            let flag = Dropped(drop_sender.clone());
            let token = leadership.fencing_token();
            let is_third = last.is_some_and(|(count, _)| count == 2);
            last = Some((last.map_or(0, |(count, _)| count) + 1, token));
            term_sender.send(token).unwrap();
            async move {
                let _flag = flag;
                assert!(leadership.is_leader());
                if !is_third {
                    pending::<()>().await;
                }
                token
            }
        };
        election.run_while_leader("me", work).await
    });
    let mut tokens: Vec<FencingToken> = Vec::new();
    for _ in 0..2 {
        tokens.push(timeout(LIMIT, terms.recv()).await.unwrap().unwrap());
        assert!(drops.try_recv().is_err(), "it was stopped too early");
        client.admin().force_release("e").await.unwrap();
        timeout(LIMIT, drops.recv()).await.unwrap().unwrap();
    }
    let done = timeout(LIMIT, running).await.unwrap().unwrap().unwrap();
    assert!(tokens[0] < tokens[1] && tokens[1] < done);
    // It resigned before it returned.
    let lock = client.admin().get_lock("e").await.unwrap();
    assert!(lock.holders.is_empty(), "{lock:?}");
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
    let stalls = Stalls::watch();
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
    let late = stopped.saturating_duration_since(deadline);
    let limit = Duration::from_millis(250) + stalls.worst();
    assert!(late < limit, "{late:?} late");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidates_never_work_side_by_side() {
    let coordinator = Coordinator::in_process();
    let at_work: Arc<Mutex<Option<usize>>> = Arc::default();
    let mut tasks = Vec::new();
    for number in 0..4 {
        let client = Client::connect(coordinator.endpoint()).await.unwrap();
        let at_work = Arc::clone(&at_work);
        tasks.push(tokio::spawn(async move {
            for _ in 0..25 {
                let work = |leadership: LeadershipWatch| {
                    let at_work = Arc::clone(&at_work);
                    async move {
                        assert_eq!(at_work.lock().unwrap().replace(number), None);
                        tokio::task::yield_now().await;
                        assert!(leadership.is_leader());
                        *at_work.lock().unwrap() = None;
                    }
                };
                client
                    .election("e")
                    .run_while_leader("", work)
                    .await
                    .unwrap();
            }
        }));
    }
    for task in tasks {
        timeout(LIMIT, task).await.unwrap().unwrap();
    }
}

/// Collects the log about campaigns.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// Waits until something of this level has been said after the first `known` lines.
    async fn says(&self, level: Level, known: usize) {
        wait::until("something to be logged", LIMIT, || async {
            let lines = self.0.lock().unwrap();
            match lines[known..].iter().any(|line| line.0 == level) {
                true => Ok(()),
                false => Err(lines.clone()),
            }
        })
        .await;
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "leasehold_client::election::campaign"
    }

    fn event(&self, event: &Event<'_>) {
        struct Fields(String);
        impl field::Visit for Fields {
            fn record_debug(&mut self, _: &field::Field, value: &dyn Debug) {
                write!(self.0, "{value:?} ").unwrap();
            }

            fn record_error(&mut self, _: &field::Field, value: &(dyn Error + 'static)) {
                let mut cause = Some(value);
                while let Some(error) = cause {
                    write!(self.0, "{error} ").unwrap();
                    cause = error.source();
                }
            }
        }
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let line = (*event.metadata().level(), fields.0);
        self.0.lock().unwrap().push(line);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(flavor = "current_thread")]
async fn the_first_failure_in_a_row_is_a_warning_that_says_why() {
    let log = Log::default();
    // Where there is one subscriber, tracing notes for each event whether the first thread that reaches it has that subscriber,
    // and that may be the thread of another test. Where there are two, it asks them.
    let _second = Dispatch::new(NoSubscriber::default());
    let _logging = tracing::subscriber::set_default(log.clone());
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
    log.says(Level::DEBUG, 0).await;
    guard.release().await.unwrap();
    timeout(LIMIT, terms.recv()).await.unwrap().unwrap();

    // Elected in between, it is another row.
    let known = log.0.lock().unwrap().len();
    proxy.set_refuse(true).await;
    proxy.cut(Cut::Rst).await;
    log.says(Level::DEBUG, known).await;
    running.abort();

    let lines = std::mem::take(&mut *log.0.lock().unwrap());
    for (row, why) in [
        (&lines[..known], "TOO_MANY_LOCKS"),
        (&lines[known..], "no connection to a coordinator"),
    ] {
        let mut row: Vec<_> = row.iter().filter(|line| line.0 != Level::INFO).collect();
        let (level, said) = row.remove(0);
        assert_eq!(*level, Level::WARN, "{lines:?}");
        assert!(said.contains(why) && said.contains("\"e\""), "{lines:?}");
        assert!(!row.is_empty());
        assert!(row.iter().all(|line| line.0 == Level::DEBUG), "{lines:?}");
    }
}
