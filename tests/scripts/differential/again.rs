//! A renewal of another grant, and a resume of a hold whose bound has passed.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Loss, Op, Reply, Resume},
    id::FencingToken,
    mode::Mode,
    view::{HoldView, HolderView},
};

use crate::{
    common::{acquire, acquiring, owner, renew, resume, resuming},
    differential::{
        pair::{Pair, modes},
        server::Server,
    },
};

/// For longer than the acquire asked for.
const RENEWED_FOR: Duration = Duration::from_secs(3600);
/// For how long a hold may last.
const BOUND: Duration = Duration::from_secs(2);

/// A fail-over may have lost the grant that the sender knows, and the waiter, whose place came back, was granted the lock again.
#[tokio::test]
async fn a_renewal_leaves_a_later_grant_of_the_same_owner_id_alone() {
    let server = Server::start().await;
    for (name, mode) in modes() {
        let mut pair = Pair::new(&server, name).await;
        pair.run("here", acquire(1, mode)).await;
        let hold = only_hold(&mut pair).await;
        let renew = |token| Op::Renew {
            owner: owner(1),
            token: Some(token),
            ttl: RENEWED_FOR,
        };
        let before = FencingToken::new(hold.token.get() - 1);
        for coordinator in ["here", "there"] {
            let renewed = pair.run(coordinator, renew(before)).await;
            assert_eq!(renewed, Reply::Lost(Loss::Taken), "{name}");
        }
        assert_eq!(only_hold(&mut pair).await, hold, "{name}");
        assert_eq!(pair.run("there", renew(hold.token)).await, Reply::Renewed);
        assert_eq!(only_hold(&mut pair).await.expires_in, RENEWED_FOR, "{name}");
    }
}

/// Without its record, which somebody has deleted, nothing tells which grant it is.
#[tokio::test]
async fn a_renewal_that_names_a_grant_goes_by_its_record() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "unrecorded").await;
    pair.run("here", acquire(1, Mode::Exclusive)).await;
    let token = only_hold(&mut pair).await.token;
    let records: Vec<String> = server.ask(&["KEYS", "lh:*:token:*"]).await;
    let () = server.ask(&["DEL", &records[0]]).await;
    for (token, expected) in [
        (Some(token), Reply::Lost(Loss::Taken)),
        (None, Reply::Renewed),
    ] {
        let renew = Op::Renew {
            owner: owner(1),
            token,
            ttl: RENEWED_FOR,
        };
        let renewed = pair.execute_in_redis("here", renew).await;
        assert_eq!(renewed, expected, "{token:?}");
    }
}

async fn only_hold(pair: &mut Pair) -> HoldView {
    let view = pair.view(0).await;
    let [HolderView::Ours(hold)] = &view.holders[..] else {
        panic!("{view:?}")
    };
    (**hold).clone()
}

/// Returns a lock with a hold that may last for [`BOUND`].
async fn bounded(server: &Server, name: &str, mode: Mode) -> Pair {
    let mut pair = Pair::new(server, name).await;
    let asked = Acquire {
        max_hold: Some(BOUND),
        ..acquiring(1, mode)
    };
    pair.run("here", Op::Acquire(asked)).await;
    pair
}

#[tokio::test]
async fn a_hold_that_has_lasted_for_as_long_as_it_may_is_not_resumed() {
    let mut server = Server::start().await;
    for (name, mode) in modes() {
        let mut pair = bounded(&server, name, mode).await;
        server.pass(BOUND);
        for next in [2, 3] {
            let resumed = pair.run("there", resume(&[1], next)).await;
            assert_eq!(resumed, Reply::Lost(Loss::Expired), "{name}");
        }
        // It stands, for the coordinator that had it to end.
        assert!(only_hold(&mut pair).await.expires_in < RENEWED_FOR);
        let renewed = pair.run("here", renew(1, RENEWED_FOR)).await;
        assert_eq!(renewed, Reply::Renewed);
    }
}

/// A resume may bring a bound, which stays. Of several, the smallest counts.
#[tokio::test]
async fn a_hold_has_the_bounds_of_those_who_resume_it() {
    let mut server = Server::start().await;
    for (name, mode) in modes() {
        let mut pair = Pair::new(&server, name).await;
        pair.run("here", acquire(1, mode)).await;
        let cases = [
            (None, None),
            (Some(2 * BOUND), Some(2 * BOUND)),
            (Some(BOUND), Some(BOUND)),
            (Some(3 * BOUND), Some(BOUND)),
            (None, Some(BOUND)),
        ];
        for (from, (max_hold, bound)) in (1..).zip(cases) {
            let asked = resuming(&[from], from + 1);
            let resumed = Op::Resume(Resume { max_hold, ..asked });
            pair.run("there", resumed).await;
            assert_eq!(only_hold(&mut pair).await.max_hold, bound, "{name}");
        }
        server.pass(BOUND);
        let resumed = pair.run("there", resume(&[6], 7)).await;
        assert_eq!(resumed, Reply::Lost(Loss::Expired), "{name}");
    }
}

#[tokio::test]
async fn a_place_has_the_bounds_of_those_who_resume_it() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "place").await;
    for number in [1, 2] {
        pair.run("here", acquire(number, Mode::Exclusive)).await;
    }
    let resumed = Op::Resume(Resume {
        max_hold: Some(BOUND),
        ..resuming(&[2], 3)
    });
    let Reply::ResumedWait { waiter, .. } = pair.run("there", resumed).await else {
        panic!("it waits")
    };
    assert_eq!(waiter.acquire.max_hold, Some(BOUND));
}

/// Two clients may have made the same id.
#[tokio::test]
async fn what_a_session_resumed_is_not_that_of_another_one_with_the_same_id() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "stranger").await;
    pair.run("here", acquire(1, Mode::Exclusive)).await;
    pair.run("there", resume(&[1], 2)).await;
    let session = resuming(&[], 3).session;
    let repeated = Op::Resume(Resume {
        session,
        ..resuming(&[1], 2)
    });
    let refused = pair.run("there", repeated).await;
    assert_eq!(refused, Reply::Lost(Loss::Resumed));
}

/// The coordinator that has it must learn of it, even if the first answer to its resume was lost: nobody else would end it.
#[tokio::test]
async fn a_resume_that_is_repeated_after_the_bound_finds_what_it_resumed() {
    let mut server = Server::start().await;
    for (name, mode) in modes() {
        let mut pair = bounded(&server, name, mode).await;
        let first = pair.run("there", resume(&[1], 2)).await;
        assert!(matches!(first, Reply::Resumed { .. }), "{name}: {first:?}");
        server.pass(BOUND);
        let Reply::Resumed { terms, .. } = pair.run("there", resume(&[1], 2)).await else {
            panic!("{name}: a repeated resume was refused")
        };
        assert_eq!(terms.ends_in, Some(Duration::ZERO), "{name}");
        let resumed = pair.run("here", resume(&[2], 3)).await;
        assert_eq!(resumed, Reply::Lost(Loss::Expired), "{name}");
    }
}
