//! Acquires and releases without end, at any master.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{CoordinatorProcess, RawSession};
use tokio::{sync::watch, task::JoinSet};
use tonic::Code;

use crate::sentinel::scene::{LIMIT, session};

const TASKS: usize = 16;

/// Results of the load.
#[derive(Default)]
pub(crate) struct Seen {
    /// The beginning and the answer of each granted acquire.
    pub(crate) granted: Vec<(Instant, Instant)>,
    /// The duration of each failed acquire.
    pub(crate) failed: Vec<Duration>,
    /// The tokens of each name, in the order of the grants.
    tokens: BTreeMap<String, Vec<i64>>,
}

impl Seen {
    /// Asserts that each name's tokens rise, and returns how many there are.
    pub(crate) fn check_tokens(&self) -> usize {
        for (name, tokens) in &self.tokens {
            assert!(
                tokens.is_sorted_by(|one, next| one < next),
                "{name}: {tokens:?}"
            );
        }
        self.tokens.values().map(Vec::len).sum()
    }
}

/// Sessions that take and release locks.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Seen>,
}

impl Load {
    pub(crate) async fn start(coordinator: &CoordinatorProcess) -> Self {
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let session = session(coordinator).await;
            tasks.spawn(work(session, task, stop.subscribe()));
        }
        Self { stop, tasks }
    }

    pub(crate) async fn stop(self) -> Seen {
        self.stop.send_replace(true);
        let mut all = Seen::default();
        for seen in self.tasks.join_all().await {
            all.granted.extend(seen.granted);
            all.failed.extend(seen.failed);
            all.tokens.extend(seen.tokens);
        }
        all
    }
}

/// Takes turns between names of its own, which are granted again and again, and names that are new. Where a release was lost
/// with the old master, a name stays taken for a while.
async fn work(mut session: RawSession, task: usize, stop: watch::Receiver<bool>) -> Seen {
    let mut seen = Seen::default();
    for turn in 0_usize.. {
        if *stop.borrow() {
            break;
        }
        let name = match turn % 2 {
            0 => format!("again/{task}/{}", turn % 64),
            _ => format!("once/{task}/{turn}"),
        };
        let began = Instant::now();
        let id = session.ask(&name, Some(Duration::ZERO)).await;
        match session.answer(id, LIMIT).await {
            Response::Granted(granted) => {
                seen.granted.push((began, Instant::now()));
                let lock = granted.locks.into_iter().next().expect("one lock");
                let tokens = seen.tokens.entry(name).or_default();
                tokens.push(lock.fencing_token);
                let id = session.ask_release(&lock).await;
                match session.answer(id, LIMIT).await {
                    Response::Released(_) => {}
                    Response::Error(failure) => {
                        assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
                    }
                    other => panic!("a release was answered by {other:?}"),
                }
            }
            Response::NotGranted(_) => {}
            Response::Error(failure) => {
                assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
                seen.failed.push(began.elapsed());
                // As a caller does that backs off.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => panic!("{name} was answered by {other:?}"),
        }
    }
    seen
}
