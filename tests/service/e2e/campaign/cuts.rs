//! Candidacies that are cut at every message boundary, in every way: they leave no leader and no waiter behind.

use leasehold_proto::v1::campaign_response::Response;
use leasehold_tests::{
    Coordinator, CoordinatorProcess, FaultProxy, RedisServer, proxy::Cut, raw::connect,
};

use super::{LONG, assert_nothing_left, candidate::Candidate};

const ELECTION: &str = "cuts";

/// A message that a candidate sends, or waits for.
#[derive(Clone, Copy, Debug)]
enum Step {
    Campaign,
    Heartbeat,
    Proclaim,
    Resign,
    Reads,
}

/// The life of a leader, message by message.
const LEADER: [Step; 10] = [
    Step::Campaign,
    Step::Reads,
    Step::Reads,
    Step::Heartbeat,
    Step::Reads,
    Step::Proclaim,
    Step::Reads,
    Step::Proclaim,
    Step::Resign,
    Step::Reads,
];
/// Life of a candidate behind another leader.
const WAITING: [Step; 6] = [
    Step::Campaign,
    Step::Reads,
    Step::Heartbeat,
    Step::Reads,
    Step::Resign,
    Step::Reads,
];
const CUTS: [Option<Cut>; 3] = [None, Some(Cut::Fin), Some(Cut::Rst)];

async fn take(candidate: &mut Candidate, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Campaign => candidate.open(ELECTION, LONG).await,
            Step::Heartbeat => candidate.beat().await,
            Step::Proclaim => candidate.proclaim(b"cut").await,
            Step::Resign => candidate.resign().await,
            Step::Reads => {
                let answer = candidate.answer().await;
                assert!(!matches!(answer, Response::Error(_)), "{answer:?}");
            }
        }
    }
}

/// Ends a candidate's stream or connection, and drops it.
async fn cut(candidate: Candidate, proxy: &FaultProxy, how: Option<Cut>) {
    if let Some(how) = how {
        proxy.cut(how).await;
    }
    drop(candidate);
}

struct Site {
    redis: RedisServer,
    coordinator: CoordinatorProcess,
    proxy: FaultProxy,
}

impl Site {
    async fn new() -> Self {
        let redis = RedisServer::start();
        let coordinator = Coordinator::process().store(redis.url()).start();
        let proxy = FaultProxy::before(&coordinator.endpoint()).await;
        Self {
            redis,
            coordinator,
            proxy,
        }
    }

    /// Returns a candidate behind the proxy that has said nothing.
    async fn candidate(&self) -> Candidate {
        let channel = connect(&self.proxy.endpoint()).await;
        Candidate::stream(channel).await.unwrap()
    }

    async fn assert_nothing_left(&self, what: &str) {
        assert_nothing_left(&self.coordinator, &self.redis, ELECTION, what).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_at_any_message_leaves_no_orphan() {
    let site = Site::new().await;
    for how in CUTS {
        for steps in 0..=LEADER.len() {
            let what = format!("{how:?} after {:?}", &LEADER[..steps]);
            let mut candidate = site.candidate().await;
            take(&mut candidate, &LEADER[..steps]).await;
            cut(candidate, &site.proxy, how).await;
            site.assert_nothing_left(&what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_is_cut_at_any_message_is_passed_over() {
    let site = Site::new().await;
    let endpoint = site.coordinator.endpoint();
    for how in CUTS {
        for steps in 0..=WAITING.len() {
            let what = format!("{how:?} after {:?}", &WAITING[..steps]);
            let (mut leading, elected) = Candidate::lead(&endpoint, ELECTION, LONG).await;
            let mut candidate = site.candidate().await;
            take(&mut candidate, &WAITING[..steps]).await;
            let (mut next, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
            // In every other case the leader goes at the same moment.
            if steps % 2 == 0 {
                cut(candidate, &site.proxy, how).await;
                leading.resign().await;
            } else {
                leading.resign().await;
                cut(candidate, &site.proxy, how).await;
            }
            // Far before the TTL of anybody who was not seen to go.
            let token = next.elected().await.fencing_token;
            assert!(token > elected.fencing_token, "{what}");
            assert!(leading.resigned().await, "{what}");
            drop(next);
            site.assert_nothing_left(&what).await;
        }
    }
}
