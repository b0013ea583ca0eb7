//! Acknowledgement by all replicas: a lock that a client was granted goes to no other, whichever server is the
//! master.

use std::time::{Duration, Instant};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    Coordinator, CoordinatorProcess, FaultProxy, Latencies, RawSession, Sentinels, alone::alone,
    raw::exclusive, report, soak, wait,
};
use tokio::{sync::watch, task::JoinSet};

use super::contended::{Contended, Seen};
use crate::sentinel::scene::{BEHIND, LIMIT, failed_over, take};

/// Number of fail-overs, in the full form and in the short one.
const FAIL_OVERS: (usize, usize) = (4, 2);
/// Time within which replicas must acknowledge.
const REPLICA_TIMEOUT: Duration = Duration::from_millis(400);
/// For how long the master goes on without replicas before it is killed, in every other fail-over: for longer than what had
/// been acknowledged before takes to be told, and not for long enough to be taken for down.
const BY_ITSELF: Duration = Duration::from_millis(800);
/// TTL of the locks in the partition: longer than it and the fail-over usually take, so that the new master has replicas before
/// the lock's deadline.
const TTL: Duration = Duration::from_secs(12);
/// Tolerated delay of any event on a busy machine.
const LATE: Duration = Duration::from_secs(1);

const NOT_REPLICATED: &str = "NOT_REPLICATED";

/// Returns a coordinator that wants both replicas to acknowledge.
fn start(url: String) -> CoordinatorProcess {
    let timeout = format!("{}ms", REPLICA_TIMEOUT.as_millis());
    Coordinator::process()
        .store(url)
        .arguments(["--min-replicas", "2", "--replica-timeout", &timeout])
        .start()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_grant_is_doubled_over_fail_overs() {
    let _alone = alone().await;
    let fail_overs = soak::either(FAIL_OVERS.0, FAIL_OVERS.1);
    let mut redis = Sentinels::options().redis_password("secret").start();
    let coordinators = [(); 2].map(|()| start(redis.url()));
    let mut loads = Vec::new();
    for coordinator in &coordinators {
        loads.push(Contended::start(coordinator).await);
    }
    let grants = || -> Vec<u64> { loads.iter().map(Contended::grants).collect() };

    let mut master = 0;
    let (mut outages, mut by_itself) = (Vec::new(), Vec::new());
    for round in 0..fail_overs {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if round % 2 == 1 {
            redis.cut_replicas_off(master);
            let cut = Instant::now();
            tokio::time::sleep(BY_ITSELF).await;
            by_itself.push(cut + REPLICA_TIMEOUT..Instant::now());
        }
        assert_eq!(redis.kill_master(), master, "round {round}");
        let killed = Instant::now();
        let new = redis.wait_failed_over(master);
        let theirs = killed.elapsed();
        // Until it is back there is one replica, and nothing is granted.
        redis.redis_mut().server_mut(master).restart();
        redis.redis().wait_acknowledging(new, 2);
        let replicated = killed.elapsed();
        let before = grants();
        wait::until("grants at both coordinators", BEHIND, || async {
            let after = grants();
            if after
                .iter()
                .zip(&before)
                .all(|(after, before)| after > before)
            {
                Ok(())
            } else {
                Err(after)
            }
        })
        .await;
        outages.push((theirs, replicated, killed.elapsed()));
        master = new;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;

    let mut seen = Seen::default();
    for load in loads {
        seen.add(load.stop().await);
    }
    seen.check();
    let told = seen.told();
    let longest = told.windows(2).map(|pair| pair[1] - pair[0]).max();
    for lonely in by_itself {
        let granted = told.iter().filter(|&told| lonely.contains(told));
        assert_eq!(granted.count(), 0, "a master without replicas grants");
    }
    let not_replicated = seen.refused_for(NOT_REPLICATED);
    report(format!(
        "{} grants ({} handed on), {} renewals, {} holds that ran out, {fail_overs} fail-overs; {not_replicated} refusals \
         {NOT_REPLICATED}, {} others; longest outage {:?}",
        told.len(),
        seen.handed,
        seen.renewed,
        seen.expired,
        seen.refused.len() - not_replicated,
        longest.unwrap(),
    ));
    for (theirs, replicated, granted) in outages {
        report(format!(
            "failed over after {theirs:?}, two replicas after {replicated:?}, grants at both coordinators after {granted:?}"
        ));
    }
    assert!(not_replicated > 0);
    assert!(seen.handed > 0);
    assert!(seen.renewed > 0);
    assert!(seen.early.is_empty(), "{:?}", seen.early);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_left_with_one_replica_grants_nothing() {
    let _alone = alone().await;
    let redis = Sentinels::options().redis_password("secret").start();
    let mut proxies = Vec::new();
    for sentinel in redis.sentinels() {
        proxies.push(FaultProxy::start(sentinel.address()).await);
    }
    let hosts: Vec<_> = proxies
        .iter()
        .map(|proxy| proxy.address().to_string())
        .collect();
    let old_side = start(redis.url_through(&hosts.join(",")));
    let new_side = start(redis.url());
    let mut holder = RawSession::open(&old_side.endpoint(), TTL).await;
    let held = holder.take_one(exclusive("held")).await;
    holder.keep_alive(TTL / 60);
    let loads = [
        Contended::start(&old_side).await,
        Contended::start(&new_side).await,
    ];
    let holder = tokio::spawn(async move {
        let lost = holder.lost(TTL + LIMIT).await;
        let lost_at = Instant::now();
        assert_eq!(lost[0].name, "held", "{lost:?}");
        // The last that it was told.
        (lost_at, holder.good_until().unwrap())
    });
    tokio::time::sleep(LATE).await;

    // The old master keeps replica 1, and this coordinator, which no sentinel tells of anything else.
    for proxy in &proxies {
        proxy.black_hole();
    }
    redis.cut_sentinels_off(0);
    redis.cut_sentinels_off(1);
    redis.cut_replica_off(0, 2);
    let cut = Instant::now();
    redis.redis().wait_acknowledging(0, 1);
    let asking = Asking::start(&old_side).await;
    let mut wants = RawSession::open(&new_side.endpoint(), TTL).await;
    wants.keep_alive(TTL / 6);
    let wants = tokio::spawn(async move {
        let granted = take_when_free(&mut wants, "held").await;
        (Instant::now(), granted, wants)
    });
    assert_eq!(failed_over(&redis, 0).await, 2);
    let theirs = cut.elapsed();
    tokio::time::sleep(LATE).await;

    // The partition ends for all but this coordinator, whose clients go on asking the old master.
    let asked = asking.stop().await;
    assert!(asked.count() > 0);
    assert!(asked.max() <= REPLICA_TIMEOUT + LATE, "{:?}", asked.max());
    let healing = Instant::now();
    redis.rejoin(0);
    redis.rejoin(1);
    redis.redis().wait_acknowledging(2, 2);
    let healed = Instant::now();
    let (lost_at, promised) = holder.await.unwrap();
    let (granted_at, token, mut wants) = wants.await.unwrap();
    let [old, new] = loads;
    let (mut all, new) = (old.stop().await, new.stop().await);

    let after = |told: Vec<Instant>| told.into_iter().find(|told| *told > cut + REPLICA_TIMEOUT);
    assert_eq!(after(all.told()), None, "the old master grants");
    let first = after(new.told()).expect("the new master grants at last");
    assert!(first >= healing, "the new master grants without replicas");
    let (mut refused, mut others) = (0, Vec::new());
    for (at, reason) in &all.refused {
        match &**reason {
            NOT_REPLICATED => refused += 1,
            other if (cut..healing).contains(at) => others.push(other),
            _ => {}
        }
    }
    assert!(refused > 0);
    assert!(others.is_empty(), "{others:?}");
    all.add(new);
    all.check();
    assert!(all.early.is_empty(), "{:?}", all.early);

    report(format!(
        "failed over {theirs:?} after the cut, healed after {:?}; the old side was refused {refused} times; the holder's \
         deadline was {:?} after the cut, it was told lost {:?} later, another one granted {:?} later",
        healed - cut,
        promised - cut,
        lost_at.saturating_duration_since(promised),
        granted_at.saturating_duration_since(promised),
    ));
    assert!(promised <= cut + TTL, "a promise without replicas");
    assert!(lost_at >= promised, "{:?} too early", promised - lost_at);
    assert!(lost_at <= promised + LATE, "{:?}", lost_at - promised);
    assert!(
        granted_at >= promised,
        "{:?} too early",
        promised - granted_at
    );
    assert!(token > held.fencing_token);

    // The partition ends for this coordinator, too.
    for proxy in &proxies {
        proxy.forward();
    }
    let mut back = RawSession::open(&old_side.endpoint(), TTL).await;
    take(&mut back, "back").await;
    wants.heartbeat().await;
    assert!(wants.unread_unasked().is_empty());
}

/// Sessions that ask for what is free, and are refused.
struct Asking {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Vec<Duration>>,
}

impl Asking {
    async fn start(coordinator: &CoordinatorProcess) -> Self {
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for number in 0..8 {
            let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
            session.keep_alive(TTL / 6);
            tasks.spawn(keep_asking(session, number, stop.subscribe()));
        }
        Self { stop, tasks }
    }

    /// Returns the durations of the refusals.
    async fn stop(self) -> Latencies {
        self.stop.send_replace(true);
        let mut refused = Latencies::new("acquires of free locks refused at the old master");
        for took in self.tasks.join_all().await.into_iter().flatten() {
            refused.record(took);
        }
        refused.print();
        refused
    }
}

/// Asks until it is told to stop; how long each refusal took.
async fn keep_asking(
    mut session: RawSession,
    number: usize,
    stop: watch::Receiver<bool>,
) -> Vec<Duration> {
    let mut refused = Vec::new();
    while !*stop.borrow() {
        // In turns a new name, and one that it was refused before.
        let name = format!("asked/{number}/{}", refused.len() / 2);
        let asked = Instant::now();
        let id = session.ask(&name, Some(LATE)).await;
        let refusal = session.refusal(id, LIMIT).await;
        assert_eq!(refusal.reason, NOT_REPLICATED, "{refusal:?}");
        refused.push(asked.elapsed());
    }
    refused
}

/// Takes a lock when its holder has lost it; the token.
async fn take_when_free(session: &mut RawSession, name: &str) -> i64 {
    let deadline = Instant::now() + TTL + LIMIT;
    loop {
        let id = session.ask(name, Some(LATE)).await;
        match session.outcome(id, LIMIT).await {
            Response::Granted(granted) => return granted.locks[0].fencing_token,
            Response::NotGranted(_) => {}
            Response::Error(failure) => {
                assert!(Instant::now() < deadline, "{failure:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => panic!("{name} was answered by {other:?}"),
        }
    }
}
