//! Traces of resumes in Redis, and the effect of foreign changes to them.

use std::time::Duration;

use leasehold_core::{
    command::{Loss, Op, Reply},
    id::OwnerId,
    mode::Mode,
};

use crate::{
    common::{acquire, owner, release, renew, resume},
    differential::{pair::Pair, server::Server},
};

/// Returns the key of replaced owner ids, if there is one.
async fn replaced(server: &Server) -> Option<String> {
    let keys: Vec<String> = server.ask(&["KEYS", "*:replaced:*"]).await;
    assert!(keys.len() < 2, "{keys:?}");
    keys.into_iter().next()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_resumes_a_hand_off_knows_of_it() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "handed").await;
    pair.run("here", acquire(0, Mode::Exclusive)).await;
    for number in 1..=4 {
        pair.run("here", acquire(number, Mode::Shared)).await;
    }
    // To three of another coordinator's, unconfirmed yet, and one that it resumed before it was next.
    pair.run("there", resume(&[4], 14)).await;
    pair.run("there", release(0)).await;
    for (by, number) in [("there", 2), ("here", 3)] {
        pair.run(by, resume(&[number], 10 + number)).await;
        for by in ["here", "there"] {
            pair.run(by, Op::Refresh { oldest: None }).await;
        }
    }
    let Reply::Refreshed { current, .. } = pair.run("here", Op::Refresh { oldest: None }).await
    else {
        panic!("it is refreshed")
    };
    let told: Vec<OwnerId> = current.iter().map(|current| current.owner).collect();
    assert_eq!(told, [owner(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_owner_ids_are_kept_for_as_long_as_tokens() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "kept").await;
    pair.run("here", acquire(0, Mode::Exclusive)).await;
    assert_eq!(replaced(&server).await, None);
    pair.run("there", resume(&[1, 0, 2], 3)).await;
    let key = replaced(&server).await.unwrap();
    // Not those that nobody ever held it under.
    let kept: Vec<Vec<u8>> = server.ask(&["ZRANGE", &key, "0", "-1"]).await;
    assert_eq!(kept, [owner(0).as_bytes()]);
    // As long as the coordinator says.
    let left: u64 = server.ask(&["PTTL", &key]).await;
    assert!((60_000..=60_001).contains(&left), "{left}");
    // What is refused leaves nothing.
    let refused = pair.run("there", resume(&[7, 8], 9)).await;
    assert_eq!(refused, Reply::Lost(Loss::Taken));
    let number: usize = server.ask(&["ZCARD", &key]).await;
    assert_eq!(number, 1);
    let lock: Vec<u8> = server.ask(&["GET", "lock:kept"]).await;
    assert_eq!(lock, owner(3).as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn however_often_a_lock_is_resumed_a_bounded_number_of_owner_ids_is_kept() {
    const KEPT: u16 = 128;
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "chain").await;
    pair.run("here", acquire(0, Mode::Exclusive)).await;
    for number in 0..2 * KEPT {
        pair.run("there", resume(&[number], number + 1)).await;
    }
    let key = replaced(&server).await.unwrap();
    let number: u16 = server.ask(&["ZCARD", &key]).await;
    assert_eq!(number, KEPT);
    let renew = |number| renew(number, Duration::from_secs(500));
    // Whoever comes late learns less, and can do no more than others whose hold is gone.
    for (number, loss) in [
        (2 * KEPT - 1, Loss::Resumed),
        (KEPT, Loss::Resumed),
        (KEPT - 1, Loss::Taken),
        (0, Loss::Taken),
    ] {
        let renewed = pair.run("here", renew(number)).await;
        assert_eq!(renewed, Reply::Lost(loss), "{number}");
        let released = pair.run("here", release(number)).await;
        assert!(matches!(released, Reply::Released { held: false, .. }));
        let again = pair.run("there", resume(&[number], number)).await;
        assert_eq!(again, Reply::Lost(loss), "{number}");
    }
    assert_eq!(pair.run("there", renew(2 * KEPT)).await, Reply::Renewed);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_and_taken_locks_are_not_resumed() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "gone").await;
    pair.run("here", acquire(0, Mode::Exclusive)).await;
    let _: u64 = server.ask(&["DEL", "lock:gone"]).await;
    let gone = pair.execute_in_redis("there", resume(&[0], 1)).await;
    assert_eq!(gone, Reply::Lost(Loss::Deleted));
    let _: String = server
        .ask(&["SET", "lock:gone", "a stranger's", "PX", "60000"])
        .await;
    let taken = pair.execute_in_redis("there", resume(&[0], 1)).await;
    assert_eq!(taken, Reply::Lost(Loss::Taken));
    let lock: String = server.ask(&["GET", "lock:gone"]).await;
    assert_eq!(lock, "a stranger's");
    assert_eq!(replaced(&server).await, None);
}
