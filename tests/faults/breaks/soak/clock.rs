//! The clock of a live Redis jumps while locks are held and waited for.

mod scene;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::select_all;
use leasehold_proto::v1::{
    ForceReleaseRequest, GrantedLock, LostReason, admin_service_client::AdminServiceClient,
    session_response::Response,
};
use leasehold_tests::{RawSession, alone::alone, raw::parse, report, wait};
use redis::{Script, aio::MultiplexedConnection};
use tonic::Code;

use self::scene::{LIMIT, Scene, TTL};

/// Time for which tokens are remembered: twice the longest TTL.
const MEMORY: Duration = Duration::from_secs(20);
/// Longer than any lease and than tokens are remembered.
const HOUR: Duration = Duration::from_secs(3600);

/// Returns the locks in the next `lost` of a session.
async fn lost(session: &mut RawSession) -> Vec<(String, LostReason)> {
    let is_lost = |message: &leasehold_proto::v1::SessionResponse| {
        matches!(message.response, Some(Response::Lost(_)))
    };
    let Some(Response::Lost(lost)) = session.find(LIMIT, is_lost).await.response else {
        panic!("it was found to be a loss");
    };
    let names = lost.locks.iter();
    names
        .map(|lock| (lock.name.clone(), lock.reason()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_a_jump_forward_ends_are_told_lost_and_granted_on_in_order() {
    let _alone = alone().await;
    let scene = Scene::start().await;
    let mut holder = scene.session(0).await;
    let mut names: Vec<String> = (0..20).map(|number| format!("alone/{number}")).collect();
    for name in &names {
        holder.acquire(name).await;
    }
    let held = holder.acquire("wanted").await.lock;
    names.push("wanted".to_owned());
    let mut waiters = Vec::new();
    for place in 1..=6 {
        let mut waiter = scene.session(1).await;
        let id = waiter.ask("wanted", None).await;
        assert_eq!(waiter.queued(id).await, place);
        waiters.push((waiter, id));
    }
    let before = scene.time().await;
    scene.ahead(3600);

    let mut told = Vec::new();
    while told.len() < names.len() {
        for (name, reason) in lost(&mut holder).await {
            assert!(
                matches!(reason, LostReason::Deleted | LostReason::Taken),
                "{name}: {reason:?}"
            );
            told.push(name);
        }
    }
    told.sort_unstable();
    names.sort_unstable();
    assert_eq!(told, names, "each is told once");
    let mut last = held.fencing_token;
    for (mut waiter, id) in waiters {
        // One that was granted out of turn holds it now: then nothing comes.
        let lock = waiter.granted(id, LIMIT).await.lock;
        assert!(lock.fencing_token > last, "{lock:?} after {last}");
        last = lock.fencing_token;
        // By Redis's clock the lease before it was over.
        let over = before + i64::try_from(TTL.as_micros()).unwrap();
        assert!(last > over, "{lock:?} when the lease ended at {over}");
        assert!(waiter.release(&lock).await);
        waiter.close().await;
    }
    // The session itself goes on.
    for name in &names {
        let lock = holder.acquire(name).await.lock;
        assert!(holder.release(&lock).await);
    }
    holder.close().await;
    scene.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_after_the_clock_was_an_hour_ahead() {
    let _alone = alone().await;
    let scene = Scene::start().await;
    scene.ahead(3600);
    let mut holder = scene.session(0).await;
    let idle = holder.acquire("idle").await.lock;
    assert!(holder.release(&idle).await);
    let held = holder.acquire("held").await.lock;
    let mut waiter = scene.session(1).await;
    let id = waiter.ask("held", None).await;
    waiter.queued(id).await;

    scene.ahead(0);
    // Only a renewal shortens what is left of the hold.
    scene.renewed("lock:held", |left| left <= 10_000).await;
    let remembered = scene.record_left("held").await;
    let hour = i64::try_from(HOUR.as_millis()).unwrap();
    assert!(
        remembered > hour,
        "the token is an hour ahead, and is remembered for {remembered} ms"
    );
    let news = holder.unread_unasked();
    assert!(news.is_empty(), "nothing was lost: {news:?}");
    assert!(holder.release(&held).await);
    let next = waiter.granted(id, LIMIT).await.lock;
    assert!(next.fencing_token > held.fencing_token);
    assert!(waiter.release(&next).await);

    // A name that was never granted takes the floor from these, but no further ahead than a token is remembered.
    let fresh = waiter.acquire("fresh").await.lock;
    let furthest = scene.time().await + i64::try_from(MEMORY.as_micros()).unwrap();
    assert!(fresh.fencing_token <= furthest, "{fresh:?} at {furthest}");
    assert!(waiter.release(&fresh).await);

    // Longer than tokens are remembered, but the clock has still not come to where it was.
    let mut last = [
        ("idle", idle.fencing_token),
        ("held", next.fencing_token),
        ("fresh", fresh.fencing_token),
    ];
    for ahead in [60, 120, 180] {
        scene.ahead(ahead);
        for (name, last) in &mut last {
            for session in [&mut waiter, &mut holder] {
                let lock = session.acquire(name).await.lock;
                assert!(lock.fencing_token > *last, "{lock:?} after {last}");
                *last = lock.fencing_token;
                assert!(session.release(&lock).await);
            }
        }
    }
    holder.close().await;
    waiter.close().await;
    scene.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_back_and_short_steps_forward_lose_nothing() {
    let _alone = alone().await;
    let scene = Scene::start().await;
    let mut holder = scene.session(0).await;
    let held = holder.acquire("held").await.lock;
    let mut waiters = Vec::new();
    for place in 1..=4 {
        let mut waiter = scene.session(place % 2).await;
        let id = waiter.ask("held", None).await;
        assert_eq!(waiter.queued(id).await, place as u64);
        waiters.push((place, waiter, id));
    }
    let mut ahead = 0;
    for step in [3, 3, -15, 3, -3600, 3, 3, -1] {
        ahead += step;
        scene.ahead(ahead);
        // Before the next renewal a step forward leaves at most 7 s of the lease, and a step back usually more than 10 s.
        let after = match step {
            3.. => 7_000..=10_000,
            _ => 0..=10_000,
        };
        scene
            .renewed("lock:held", |left| after.contains(&left))
            .await;
    }
    let news = holder.unread_unasked();
    assert!(news.is_empty(), "nothing was lost: {news:?}");
    // By this step, each coordinator looks dead until its next refresh. The lock is not handed to its waiters before, so those
    // of the other one may overtake them.
    scene.ahead(ahead + 3);
    let mut last = held.fencing_token;
    assert!(holder.release(&held).await);
    while !waiters.is_empty() {
        let granting = waiters.iter_mut().map(|(_, waiter, id)| {
            let granting = waiter.granted(*id, LIMIT);
            Box::pin(granting)
        });
        let (granted, at, _) = select_all(granting).await;
        let (place, mut waiter, _) = waiters.remove(at);
        let overtaken = waiters
            .iter()
            .find(|(other, ..)| other % 2 == place % 2 && *other < place);
        assert!(overtaken.is_none(), "{place} came first at its coordinator");
        let lock = granted.lock;
        assert!(lock.fencing_token > last, "{lock:?} after {last}");
        last = lock.fencing_token;
        assert!(waiter.release(&lock).await);
        waiter.close().await;
    }
    holder.close().await;
    scene.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_dies_before_a_step_back_holds_nobody_up_but_with_what_it_held() {
    let _alone = alone().await;
    let mut scene = Scene::start().await;
    let mut holder = scene.session(1).await;
    let held = holder.acquire("wanted").await.lock;
    let mut dying = scene.session(0).await;
    dying.acquire("left behind").await;
    for _ in 0..10 {
        let id = dying.ask("wanted", None).await;
        dying.queued(id).await;
    }
    let mut waiter = scene.session(1).await;
    let id = waiter.ask("wanted", None).await;
    assert_eq!(waiter.queued(id).await, 11);
    scene.coordinators.remove(0).kill();
    scene.ahead(-3600);

    // One of the dead may be granted it for the claim time, and no other: ten would take half a minute.
    assert!(holder.release(&held).await);
    let granted = waiter.granted(id, LIMIT).await.lock;
    assert!(granted.fencing_token > held.fencing_token);
    assert!(waiter.release(&granted).await);

    // What the dead one held stays held for as long as the clock stepped back, unless an operator ends it.
    let left = scene.left("lock:left behind").await;
    assert!(left > 3_590_000, "{left} ms");
    let id = waiter.ask("left behind", None).await;
    waiter.queued(id).await;
    let channel = scene.coordinators[0].channel().await;
    let name = "left behind".to_owned();
    let forced = AdminServiceClient::new(channel)
        .force_release(ForceReleaseRequest { name, only: None })
        .await
        .unwrap();
    assert!(forced.into_inner().released);
    let granted = waiter.granted(id, LIMIT).await.lock;
    assert!(waiter.release(&granted).await);
    holder.close().await;
    waiter.close().await;
    scene.nothing_is_left().await;
}

/// Whether an owner id holds a lock by Redis's clock, in the order in which Redis was asked: adds the token to a list if it
/// does.
const ACT: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('RPUSH', KEYS[2], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], 864000000)
    return 1";

/// Takes the lock, acts a few times while it is held, and gives it back, again and again until it is to stop; gives the
/// tokens.
async fn contend(
    mut session: RawSession,
    mut redis: MultiplexedConnection,
    stop: Arc<AtomicBool>,
) -> Vec<i64> {
    let act = Script::new(ACT);
    let mut tokens = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let id = session.ask("contended", None).await;
        let deadline = Instant::now() + LIMIT;
        let lock: GrantedLock = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match session.answer(id, left).await {
                Response::Queued(_) => {}
                Response::Granted(granted) => {
                    assert!(parse(granted.valid_for) <= TTL);
                    break granted.locks[0].clone();
                }
                other => panic!("not granted: {other:?}"),
            }
        };
        tokens.push(lock.fencing_token);
        for _ in 0..3 {
            let _: i64 = act
                .key("lock:contended")
                .key("test:acts")
                .arg(&lock.owner_id)
                .arg(lock.fencing_token)
                .invoke_async(&mut redis)
                .await
                .unwrap();
        }
        // It may have been lost by then.
        let id = session.ask_release(&lock).await;
        match session.answer(id, LIMIT).await {
            Response::Released(_) => {}
            Response::Error(error) => assert_eq!(error.code, Code::Unavailable as i32),
            other => panic!("a release was answered by {other:?}"),
        }
    }
    session.close().await;
    tokens
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_holds_a_lock_while_the_clock_jumps_to_and_fro() {
    let _alone = alone().await;
    let scene = Scene::start().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut running = Vec::new();
    for number in 0..8 {
        let session = scene.session(number % 2).await;
        let redis = scene.redis.async_connection().await;
        running.push(tokio::spawn(contend(session, redis, Arc::clone(&stop))));
    }
    let count = async || {
        let mut connection = scene.connection.clone();
        let mut length = redis::cmd("LLEN");
        length.arg("test:acts");
        let length: u64 = length.query_async(&mut connection).await.unwrap();
        length
    };
    let jumps = [30, 0, 3600, -15, 86_400, -3600, 12, 13, 0];
    for ahead in jumps {
        scene.ahead(ahead);
        // Everybody is served again before the next jump.
        let before = count().await;
        let what = format!("grants after the jump to {ahead} s");
        wait::until(&what, LIMIT, || async {
            let now = count().await;
            if now >= before + 60 { Ok(()) } else { Err(now) }
        })
        .await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut granted = Vec::new();
    for contender in running {
        granted.extend(contender.await.unwrap());
    }
    let number = granted.len();
    granted.sort_unstable();
    granted.dedup();
    assert_eq!(granted.len(), number, "each grant has a token of its own");
    let mut connection = scene.connection.clone();
    let acts = redis::cmd("LRANGE").arg(&["test:acts", "0", "-1"]).clone();
    let acts: Vec<i64> = acts.query_async(&mut connection).await.unwrap();
    assert!(
        acts.is_sorted(),
        "somebody held it after a later grant: {acts:?}"
    );
    report(format_args!(
        "{number} grants and {} acts in order while the clock jumped {} times",
        acts.len(),
        jumps.len()
    ));
    scene.nothing_is_left().await;
}
