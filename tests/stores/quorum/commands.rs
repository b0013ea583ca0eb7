//! Commands on a quorum: the store's answers, and the keys that are left on the masters.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, End, Loss, Op, Reply},
    name::Value,
    view::HolderView,
};
use leasehold_store::Store;
use leasehold_tests::{Masters, wait};

use crate::quorum::site::{
    MAX_TTL, PROMPT, acquire, delete, holds, key, owner, release, released, renew, run, store, take,
};

async fn view(store: &Store) -> leasehold_core::view::NameView {
    match run(store, Op::View { waiters: 10 }).await.reply {
        Reply::Seen(view) => *view,
        other => panic!("no view: {other:?}"),
    }
}

#[tokio::test]
async fn a_lock_is_taken_seen_renewed_changed_and_given_back() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    let token = take(&store, acquire(1)).await;
    for server in masters.servers() {
        holds(server, Some(owner(1))).await;
    }
    let busy = run(&store, Op::Acquire(acquire(2))).await.reply;
    let Reply::Busy {
        holder: Some(HolderView::Ours(holder)),
    } = busy
    else {
        panic!("not busy: {busy:?}")
    };
    assert_eq!(holder.token, token);
    assert_eq!(holder.client_name.as_str(), "client");
    let value = Value::parse(b"other").unwrap();
    let set = Op::SetValue {
        owner: owner(1),
        value: value.clone(),
    };
    assert_eq!(run(&store, set).await.reply, Reply::Changed(true));
    let count = Op::SetCount {
        owner: owner(1),
        count: 3,
    };
    assert_eq!(run(&store, count).await.reply, Reply::Changed(true));
    assert_eq!(run(&store, renew(1)).await.reply, Reply::Renewed);
    let view = view(&store).await;
    assert_eq!(view.token, Some(token));
    let [HolderView::Ours(holder)] = &view.holders[..] else {
        panic!("no holder: {view:?}")
    };
    assert_eq!((&holder.value, holder.count), (&value, 3));
    assert!(holder.expires_in <= MAX_TTL && !holder.expires_in.is_zero());
    assert_eq!(run(&store, release(2)).await.reply, released(false));
    assert_eq!(run(&store, release(1)).await.reply, released(true));
    assert_eq!(run(&store, release(1)).await.reply, released(false));
    assert_eq!(
        run(&store, renew(1)).await.reply,
        Reply::Lost(Loss::Deleted)
    );
    assert!(take(&store, acquire(2)).await > token);
}

#[tokio::test]
async fn an_extend_sets_a_missing_key_again_but_no_majority_of_them() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, acquire(1)).await;
    for server in masters.servers() {
        holds(server, Some(owner(1))).await;
    }
    for place in [1, 3] {
        delete(masters.server(place));
    }
    assert_eq!(run(&store, renew(1)).await.reply, Reply::Renewed);
    for server in masters.servers() {
        holds(server, Some(owner(1))).await;
    }
    for place in [0, 1, 3] {
        delete(masters.server(place));
    }
    assert_eq!(
        run(&store, renew(1)).await.reply,
        Reply::Lost(Loss::Deleted)
    );
    assert_eq!(key(masters.server(0)), None);
}

#[tokio::test]
async fn a_lock_that_was_released_is_not_brought_back_by_a_late_extend() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, acquire(1)).await;
    // Released where it can be, and still there on two of them when the extend comes.
    masters.pause(3);
    masters.pause(4);
    assert_eq!(run(&store, release(1)).await.reply, released(true));
    masters.resume(3);
    masters.resume(4);
    let late = run(&store, renew(1)).await.reply;
    assert!(matches!(late, Reply::Lost(_)), "{late:?}");
    for place in 0..3 {
        assert_eq!(key(masters.server(place)), None);
    }
}

#[tokio::test]
async fn a_forced_release_takes_it_and_raises_the_token() {
    let masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    let token = take(&store, acquire(1)).await;
    let forced = run(&store, Op::ForceRelease).await.reply;
    let Reply::Forced {
        former,
        released: true,
        token: raised,
    } = forced
    else {
        panic!("not forced: {forced:?}")
    };
    assert_eq!(former.len(), 1);
    assert_eq!(former[0].owner, owner(1));
    assert!(raised > token);
    assert!(matches!(run(&store, renew(1)).await.reply, Reply::Lost(_)));
    assert!(take(&store, acquire(2)).await > raised);
}

#[tokio::test]
async fn an_unclean_end_keeps_it_closed_for_its_lock_delay() {
    let masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    let delay = Duration::from_secs(2);
    let delayed = Acquire {
        lock_delay: delay,
        ..acquire(1)
    };
    take(&store, delayed).await;
    let unclean = Op::Release {
        owner: owner(1),
        end: End::Unclean,
    };
    let ended = run(&store, unclean).await.reply;
    let Reply::Released {
        held: true,
        closed_for: Some(closed_for),
        ..
    } = ended
    else {
        panic!("not closed: {ended:?}")
    };
    assert_eq!(closed_for, delay);
    let busy = run(&store, Op::Acquire(acquire(2))).await.reply;
    assert_eq!(busy, Reply::Busy { holder: None });
    assert!(view(&store).await.closed_for.is_some());
    wait::until("the lock to open", PROMPT, || async {
        match run(&store, Op::Acquire(acquire(2))).await.reply {
            Reply::Granted { .. } => Ok(()),
            other => Err(other),
        }
    })
    .await;
}
