//! The clock of a live Redis jumps while locks are held and waited for.

mod scene;

use futures_util::future::select_all;
use leasehold_proto::v1::{
    ForceReleaseRequest, LostReason, admin_service_client::AdminServiceClient,
};

use self::scene::{LIMIT, Scene, TTL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_a_jump_forward_ends_are_told_lost_and_granted_on_in_order() {
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
        for lock in holder.lost(LIMIT).await {
            let reason = lock.reason();
            assert!(
                matches!(reason, LostReason::Deleted | LostReason::Taken),
                "{lock:?}"
            );
            told.push(lock.name);
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
async fn steps_back_and_short_steps_forward_lose_nothing() {
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
