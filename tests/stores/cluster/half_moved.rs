//! A slot that is half moved, key by key.

use std::time::{Duration, Instant};

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Op, Reply},
    id::{Actor, CoordinatorId, FencingToken, OwnerId},
    mode::{Mode, Permits},
    name::{ClientName, LockName, Value},
};
use leasehold_store::{Answer, Options, Stamped, Status, Store, StoreError};
use leasehold_tests::{Cluster, report};
use tokio::{sync::oneshot, task::block_in_place, time::timeout};

use crate::cluster::site::{LIMIT, errors, names_on, slot_of};

/// The store's time-out, for what is to be refused, and for what is to wait for as long as a move takes here.
const TIMEOUT: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(15);

pub(crate) async fn open(url: String) -> Store {
    open_with(url, TIMEOUT).await
}

async fn open_with(url: String, timeout: Duration) -> Store {
    let (store, _wake_ups) = leasehold_store::open(Options {
        url,
        tls: leasehold_store::TlsFiles::default(),
        key_prefix: "lock:".into(),
        timeout,
        connections: 1,
        acknowledgement: None,
        max_hold: Duration::from_secs(10),
        meter: leasehold_store::measure::Meter::default(),
        coordinator: CoordinatorId::new("here"),
    })
    .unwrap();
    let mut status = store.status();
    let up = status.wait_for(|status| matches!(status, Status::Up { .. }));
    tokio::time::timeout(LIMIT, up).await.unwrap().unwrap();
    store
}

fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn acquire(number: u8, mode: Mode) -> Op {
    Op::Acquire(Acquire {
        owner: owner(number),
        session: None,
        actor: Actor::NOBODY,
        client_name: ClientName::default(),
        mode,
        value: Value::default(),
        ttl: Duration::from_secs(600),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    })
}

fn renew(number: u8) -> Op {
    Op::Renew {
        token: None,
        owner: owner(number),
        ttl: Duration::from_secs(600),
    }
}

fn release(number: u8) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Clean,
    }
}

fn send(
    store: &Store,
    name: &str,
    op: Op,
) -> impl Future<Output = Result<Reply, StoreError>> + use<> {
    let (answer, answered) = oneshot::channel::<Result<Stamped, StoreError>>();
    let command = Command {
        name: LockName::parse(name).unwrap(),
        caller: Caller {
            coordinator: CoordinatorId::new("here"),
            floor: FencingToken::new(0),
            token_memory: Duration::from_secs(1200),
            not_after: None,
        },
        op,
    };
    store.send(command, Answer::once(answer));
    async move {
        let answered = timeout(LIMIT, answered).await.expect("nothing hangs");
        Ok(answered.unwrap()?.executed.reply)
    }
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
    let store = open_with(cluster.url(), PATIENT).await;
    let impatient = open(cluster.url()).await;
    let (name, other) = two_in_a_slot();
    let slot = slot_of(&name);
    let granted = send(&store, &name, acquire(1, Mode::Exclusive)).await;
    assert!(matches!(granted, Ok(Reply::Granted { .. })), "{granted:?}");
    let granted = send(&store, &other, acquire(2, Mode::Exclusive)).await;
    assert!(matches!(granted, Ok(Reply::Granted { .. })), "{granted:?}");

    // Of the first lock only the key itself has gone: until the rest follows, nothing can be done with it.
    let record = cluster.keys_of(slot, 0);
    let record = record
        .iter()
        .find(|key| key.ends_with(format!("token:lock:{name}").as_bytes()));
    let record = record.expect("a lock has a record").clone();
    cluster.begin_move(slot, 0, 1);
    cluster.move_key(format!("lock:{name}").as_bytes(), 0, 1);
    let renewed = send(&store, &name, renew(1));
    // The other lock is all there, though both may be asked for in one call.
    assert_eq!(
        send(&store, &other, renew(2)).await.unwrap(),
        Reply::Renewed
    );
    cluster.move_key(&record, 0, 1);
    assert_eq!(renewed.await.unwrap(), Reply::Renewed);

    // An acquire of what is free names keys that are nowhere: it is refused, in time, and holds up no renewal.
    let free = (0..).map(|number| format!("free/{number}"));
    let free = free.into_iter().find(|free| slot_of(free) == slot).unwrap();
    let (began, refused) = (
        Instant::now(),
        send(&impatient, &free, acquire(3, Mode::Exclusive)),
    );
    for _ in 0..10 {
        let began = Instant::now();
        assert_eq!(send(&store, &name, renew(1)).await.unwrap(), Reply::Renewed);
        assert_eq!(
            send(&store, &other, renew(2)).await.unwrap(),
            Reply::Renewed
        );
        // Neither waited for the acquire.
        assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    }
    match refused.await {
        Err(error @ StoreError::Unavailable { .. }) => {
            assert!(error.to_string().contains("is being moved"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let took = began.elapsed();
    assert!(took >= TIMEOUT && took < TIMEOUT * 2, "{took:?}");

    // One that asks a little before the end is served.
    let granted = send(&store, &free, acquire(4, Mode::Exclusive));
    let released = send(&store, &name, release(1));
    block_in_place(|| {
        while cluster.move_keys(slot, 0, 1, 100) > 0 {}
        cluster.end_move(slot, 0, 1);
    });
    let granted = granted.await;
    assert!(matches!(granted, Ok(Reply::Granted { .. })), "{granted:?}");
    let released = released.await;
    assert!(
        matches!(released, Ok(Reply::Released { held: true, .. })),
        "{released:?}"
    );
    assert_eq!(
        send(&store, &other, renew(2)).await.unwrap(),
        Reply::Renewed
    );
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
    let store = open(cluster.url()).await;
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
        let granted = send(&store, name, acquire(number, mode)).await;
        assert!(matches!(granted, Ok(Reply::Granted { .. })), "{granted:?}");
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
    let (mut renewed, mut refused) = (0, 0);
    for key in keys {
        block_in_place(|| cluster.move_key(&key, from, to));
        let renewals: Vec<_> = holds
            .iter()
            .map(|(name, number, _)| send(&store, name, renew(*number)))
            .collect();
        for renewal in renewals {
            match renewal.await {
                Ok(Reply::Renewed) => renewed += 1,
                Err(StoreError::Unavailable { .. }) => refused += 1,
                other => panic!("{other:?} after {}", String::from_utf8_lossy(&key)),
            }
        }
    }
    cluster.end_move(slot, from, to);
    for (name, number, _) in holds {
        assert_eq!(
            send(&store, name, renew(number)).await.unwrap(),
            Reply::Renewed
        );
    }
    report(format!(
        "{renewed} renewals between the keys' moves, {refused} refused"
    ));
    assert!(renewed > refused);
    for (name, number, _) in holds {
        let released = send(&store, name, release(number)).await;
        assert!(
            matches!(released, Ok(Reply::Released { held: true, .. })),
            "{released:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_keeps_its_place_though_its_coordinator_was_silent_while_the_slot_is_moved() {
    let cluster = Cluster::start();
    let store = open(cluster.url()).await;
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
        let released = send(&store, name, release(number)).await;
        assert!(
            matches!(released, Ok(Reply::Released { held: true, .. })),
            "{number}: {released:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_is_made_as_a_whole_once_its_slot_has_been_moved() {
    let cluster = Cluster::start();
    let store = open_with(cluster.url(), PATIENT).await;
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
        let (released, left) = (
            send(&store, name, release(1)),
            send(&store, name, release(2)),
        );
        for _ in 0..5 {
            assert_eq!(send(&store, name, renew(1)).await.unwrap(), Reply::Renewed);
        }
        block_in_place(|| {
            while cluster.move_keys(slot, from, to, 100) > 0 {}
            cluster.end_move(slot, from, to);
        });
        let released = released.await;
        assert!(
            matches!(released, Ok(Reply::Released { held: true, .. })),
            "{released:?}"
        );
        let left = left.await.unwrap();
        assert!(
            matches!(
                left,
                Reply::Released { held: true, .. } | Reply::Released { waited: true, .. }
            ),
            "{left:?}"
        );
        assert_eq!(
            send(&store, name, renew(3)).await.unwrap(),
            Reply::Renewed,
            "{name}"
        );
    }
}
