//! Candidacies that are cut at every message boundary, in every way: they leave no leader and no waiter behind.

use std::time::{Duration, Instant};

use leasehold_proto::v1::campaign_response::Response;
use leasehold_tests::{
    Coordinator, CoordinatorProcess, FaultProxy, RedisServer,
    proxy::{Cut, Direction, Flow},
    raw::{PROMPT, connect},
    report, wait,
};
use redis::AsyncCommands;

use super::{LONG, assert_nothing_left, candidate::Candidate, leader, look};

const ELECTION: &str = "cuts";
/// A leader that nobody sees go leads on for its TTL; this is far below.
const AT_ONCE: Duration = Duration::from_secs(1);

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
            Step::Heartbeat => {
                candidate.beat().await;
            }
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
            let gone = Instant::now();
            let token = next.elected(PROMPT).await.fencing_token;
            assert!(gone.elapsed() < AT_ONCE, "{what}: {:?}", gone.elapsed());
            assert!(token > elected.fencing_token, "{what}");
            assert!(leading.resigned().await, "{what}");
            drop(next);
            site.assert_nothing_left(&what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resign_and_an_election_may_cross() {
    let site = Site::new().await;
    let endpoint = site.coordinator.endpoint();
    let mut seen = [0; 3];
    for round in 0..60_u64 {
        let (mut leading, _) = Candidate::lead(&endpoint, ELECTION, LONG).await;
        let (mut crossing, _) = Candidate::wait(&endpoint, ELECTION, LONG).await;
        if round % 2 == 0 {
            crossing.resign().await;
            leading.resign().await;
        } else {
            leading.resign().await;
            // Around the time that an election takes, which is far less than a timer knows of.
            let resigned = Instant::now();
            while resigned.elapsed() < Duration::from_micros(round * 50) {
                tokio::task::yield_now().await;
            }
            crossing.resign().await;
        }
        assert!(leading.resigned().await);
        let case = match crossing.answer().await {
            Response::Elected(_) => {
                assert!(crossing.resigned().await, "it led, as it was told");
                0
            }
            Response::Resigned(resigned) => {
                crossing.assert_ended().await;
                1 + usize::from(resigned.led)
            }
            other => panic!("{other:?}"),
        };
        seen[case] += 1;
        assert_eq!(leader(&endpoint, ELECTION).await, None, "round {round}");
        assert_eq!(look(&endpoint, ELECTION).await.waiter_count, 0);
    }
    let [told, cancelled, given_back] = seen;
    report(format!(
        "of 60 crossings: {told} were told of their election, {cancelled} cancelled, {given_back} given back"
    ));
    assert!(told > 0 && cancelled + given_back > 0, "{seen:?}");
    site.assert_nothing_left("after all rounds").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_whose_answer_is_on_its_way_from_redis_leaves_no_orphan() {
    let redis = RedisServer::start();
    let store = FaultProxy::start(redis.address()).await;
    let coordinator = Coordinator::process()
        .store(redis.url_through(store.address()))
        .start();
    let endpoint = coordinator.endpoint();
    let connection = redis.async_connection().await;
    for resigns in [false, true] {
        store.set_flow(Direction::ToClient, Flow::Hold);
        let mut candidate = Candidate::campaign(&endpoint, ELECTION, LONG).await;
        // It leads by now, and only Redis knows.
        wait::until("the grant in Redis", PROMPT, || {
            let mut connection = connection.clone();
            async move {
                let key = format!("lock:{ELECTION}");
                match connection.exists::<_, bool>(key).await.unwrap() {
                    true => Ok(()),
                    false => Err("no lock"),
                }
            }
        })
        .await;
        if resigns {
            candidate.resign().await;
        }
        drop(candidate);
        store.forward();
        assert_nothing_left(&coordinator, &redis, ELECTION, "after the answer came").await;
    }
}
