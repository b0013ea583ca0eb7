//! A slot that is half moved, key by key.

use std::time::{Duration, Instant};

use leasehold_core::{
    command::{Acquire, Op, Reply},
    id::OwnerId,
    mode::{Mode, Permits},
};
use leasehold_store::{Answer, Options, Stamped, Store, StoreError};
use leasehold_tests::{Cluster, report};
use tokio::{sync::oneshot, task::block_in_place, time::timeout};

use crate::{
    cluster::site::{LIMIT, errors, names_on, slot_of},
    store::{self, options, up},
};

/// The store's time-out, for what is to be refused, and for what is to wait for as long as a move takes here.
const TIMEOUT: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(15);

async fn open(cluster: &Cluster, timeout: Duration) -> Store {
    let options = Options {
        timeout,
        ..options(cluster.url(), "here")
    };
    let (store, _wake_ups) = leasehold_store::open(options).unwrap();
    up(&store, LIMIT).await;
    store
}

fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn acquire(number: u8, mode: Mode) -> Op {
    Op::Acquire(Acquire {
        mode,
        ..store::acquire(owner(number))
    })
}

fn renew(number: u8) -> Op {
    store::renew(owner(number))
}

fn release(number: u8) -> Op {
    store::release(owner(number))
}

/// Sends an operation at once. Returns its answer.
fn send(
    store: &Store,
    name: &str,
    op: Op,
) -> impl Future<Output = Result<Reply, StoreError>> + use<> {
    let (answer, answered) = oneshot::channel::<Result<Stamped, StoreError>>();
    store.send(store::command("here", name, op), Answer::once(answer));
    async move {
        let answered = timeout(LIMIT, answered).await.expect("nothing hangs");
        Ok(answered.unwrap()?.executed.reply)
    }
}

/// Takes a lock that is free.
async fn take(store: &Store, name: &str, number: u8, mode: Mode) {
    let granted = send(store, name, acquire(number, mode)).await;
    assert!(matches!(granted, Ok(Reply::Granted { .. })), "{granted:?}");
}

/// Renews a hold that stands.
async fn renewed(store: &Store, name: &str, number: u8) {
    let renewed = send(store, name, renew(number)).await;
    assert_eq!(renewed.unwrap(), Reply::Renewed, "{name}");
}

/// Checks the answer to the release of a hold that stood.
fn released(answer: Result<Reply, StoreError>) {
    assert!(
        matches!(answer, Ok(Reply::Released { held: true, .. })),
        "{answer:?}"
    );
}

/// Returns two names in one slot of node 0.
fn two_in_a_slot() -> (String, String) {
    let name = names_on(0).next().unwrap();
    let slot = slot_of(&name);
    let other = (0..).map(|number| format!("other/{number}"));
    let other = other.into_iter().find(|other| slot_of(other) == slot);
    (name, other.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_are_renewed_while_their_slot_is_moved_and_the_rest_waits_or_is_refused_in_time() {
    let cluster = Cluster::start();
    let store = open(&cluster, PATIENT).await;
    let impatient = open(&cluster, TIMEOUT).await;
    let (name, other) = two_in_a_slot();
    let slot = slot_of(&name);
    take(&store, &name, 1, Mode::Exclusive).await;
    take(&store, &other, 2, Mode::Exclusive).await;

    // Of the first lock only the key itself has gone: until the rest follows, nothing can be done with it.
    let record = cluster.keys_of(slot, 0);
    let record = record
        .iter()
        .find(|key| key.ends_with(format!("token:lock:{name}").as_bytes()));
    let record = record.expect("a lock has a record").clone();
    cluster.begin_move(slot, 0, 1);
    cluster.move_key(format!("lock:{name}").as_bytes(), 0, 1);
    let waits = send(&store, &name, renew(1));
    // The other lock is all there, though both may be asked for in one call.
    renewed(&store, &other, 2).await;
    cluster.move_key(&record, 0, 1);
    assert_eq!(waits.await.unwrap(), Reply::Renewed);

    // An acquire of what is free names keys that are nowhere: it waits for the end of the move, and holds up no renewal.
    let free = (0..).map(|number| format!("free/{number}"));
    let free = free.into_iter().find(|free| slot_of(free) == slot).unwrap();
    let mut waits = Box::pin(send(&store, &free, acquire(4, Mode::Exclusive)));
    for _ in 0..10 {
        renewed(&store, &name, 1).await;
        renewed(&store, &other, 2).await;
    }
    let answered = timeout(Duration::ZERO, &mut waits).await;
    assert!(answered.is_err(), "{answered:?}");
    // Or it is refused when its time is over.
    let began = Instant::now();
    match send(&impatient, &free, acquire(3, Mode::Exclusive)).await {
        Err(error @ StoreError::Unavailable { .. }) => {
            assert!(error.to_string().contains("is being moved"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() >= TIMEOUT, "{:?}", began.elapsed());

    let leaves = send(&store, &name, release(1));
    block_in_place(|| {
        while cluster.move_keys(slot, 0, 1, 100) > 0 {}
        cluster.end_move(slot, 0, 1);
    });
    let granted = waits.await;
    assert!(matches!(granted, Ok(Reply::Granted { .. })), "{granted:?}");
    released(leaves.await);
    renewed(&store, &other, 2).await;
    // The impatient store's map of slots is from before the move, so that the node redirects it.
    renewed(&impatient, &other, 2).await;
    assert_eq!(cluster.master_of(slot), 1);
    let seen: Vec<_> = cluster.nodes().iter().map(errors).collect();
    let has = |code: &str| seen.iter().any(|errors| errors.contains_key(code));
    assert!(
        has("TRYAGAIN") && has("ASK") && has("MOVED") && !has("CROSSSLOT"),
        "{seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hold_of_any_kind_is_lost_while_its_keys_are_moved_one_by_one() {
    let cluster = Cluster::start();
    let store = open(&cluster, TIMEOUT).await;
    let slot = slot_of("lock");
    let from = cluster.master_of(slot);
    let to = (from + 1) % 3;
    let more = (0..).map(|number| format!("more/{number}"));
    let mut more = more.filter(|name| slot_of(name) == slot);
    let (shared, semaphore) = (more.next().unwrap(), more.next().unwrap());
    let permits = Mode::Semaphore(Permits::new(2, 5).unwrap());
    let holds = [
        ("lock", 1, Mode::Exclusive),
        (&shared, 2, Mode::Shared),
        (&shared, 3, Mode::Shared),
        (&semaphore, 4, permits),
        (&semaphore, 5, permits),
    ];
    for (name, number, mode) in holds {
        take(&store, name, number, mode).await;
    }
    for (name, number) in [("lock", 6), (&shared, 7), (&semaphore, 8)] {
        let queued = send(&store, name, acquire(number, Mode::Exclusive)).await;
        assert!(
            matches!(queued, Ok(Reply::Queued { .. } | Reply::OtherLimit { .. })),
            "{queued:?}"
        );
    }
    let mut keys = cluster.keys_of(slot, from);
    assert!(keys.len() > 8, "{}", keys.len());
    // The companions go before and after the locks, and in between.
    keys.sort_by_key(|key| key.iter().rev().copied().collect::<Vec<_>>());
    cluster.begin_move(slot, from, to);
    let (mut done, mut refused) = (0, 0);
    for key in keys {
        block_in_place(|| cluster.move_key(&key, from, to));
        let renewals: Vec<_> = holds
            .iter()
            .map(|(name, number, _)| send(&store, name, renew(*number)))
            .collect();
        for renewal in renewals {
            match renewal.await {
                Ok(Reply::Renewed) => done += 1,
                Err(StoreError::Unavailable { .. }) => refused += 1,
                other => panic!("{other:?} after {}", String::from_utf8_lossy(&key)),
            }
        }
    }
    cluster.end_move(slot, from, to);
    report(format!(
        "{done} renewals between the keys' moves, {refused} refused"
    ));
    assert!(done > refused);
    for (name, number, _) in holds {
        renewed(&store, name, number).await;
    }
    for (name, number, _) in holds {
        released(send(&store, name, release(number)).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_keeps_its_place_though_its_coordinator_was_silent_while_the_slot_is_moved() {
    let cluster = Cluster::start();
    let store = open(&cluster, TIMEOUT).await;
    let name = "waited-for";
    let slot = slot_of(name);
    let from = cluster.master_of(slot);
    for number in [1, 2, 3] {
        let asked = send(&store, name, acquire(number, Mode::Exclusive)).await;
        assert!(matches!(
            asked,
            Ok(Reply::Granted { .. } | Reply::Queued { .. })
        ));
    }
    // As if nothing had been heard of the coordinator for longer than places are kept: its refreshes were refused while
    // half of the keys were elsewhere.
    let waiters = cluster.keys_of(slot, from);
    let waiters = waiters
        .iter()
        .find(|key| key.ends_with(format!("waiters:lock:{name}").as_bytes()));
    let mut silent = redis::cmd("EVAL");
    silent
        .arg(
            "local state = cmsgpack.unpack(redis.call('HGET', KEYS[1], ''))
            for _, sign in pairs(state[3]) do sign[1] = sign[1] - 10500000 end
            redis.call('HSET', KEYS[1], '', cmsgpack.pack(state))",
        )
        .arg(1)
        .arg(waiters.expect("there is a key of waiters"));
    let () = silent.query(&mut cluster.node(from).connection()).unwrap();

    let oldest = Some(owner(2));
    cluster.begin_move(slot, from, (from + 1) % 3);
    let refreshed = send(&store, name, Op::Refresh { oldest }).await;
    assert!(
        matches!(refreshed, Ok(Reply::Refreshed { attached: true, .. })),
        "{refreshed:?}"
    );
    block_in_place(|| {
        while cluster.move_keys(slot, from, (from + 1) % 3, 100) > 0 {}
        cluster.end_move(slot, from, (from + 1) % 3);
    });
    for number in [1, 2, 3] {
        released(send(&store, name, release(number)).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_is_made_as_a_whole_once_its_slot_has_been_moved() {
    let cluster = Cluster::start();
    let store = open(&cluster, PATIENT).await;
    // Nothing has gone yet; all has, but the slot.
    for (name, all) in [("first", false), ("second", true)] {
        let slot = slot_of(name);
        let from = cluster.master_of(slot);
        let to = (from + 1) % 3;
        for number in [1, 2, 3] {
            send(&store, name, acquire(number, Mode::Exclusive))
                .await
                .unwrap();
        }
        block_in_place(|| {
            cluster.begin_move(slot, from, to);
            while all && cluster.move_keys(slot, from, to, 100) > 0 {}
        });
        let hands_on = send(&store, name, release(1));
        let left = send(&store, name, release(2));
        for _ in 0..5 {
            renewed(&store, name, 1).await;
        }
        block_in_place(|| {
            while cluster.move_keys(slot, from, to, 100) > 0 {}
            cluster.end_move(slot, from, to);
        });
        released(hands_on.await);
        let left = left.await.unwrap();
        assert!(
            matches!(
                left,
                Reply::Released { held: true, .. } | Reply::Released { waited: true, .. }
            ),
            "{left:?}"
        );
        renewed(&store, name, 3).await;
    }
}
