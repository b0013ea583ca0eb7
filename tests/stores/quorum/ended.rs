//! Marks of ended sessions, on a majority of the masters.

use std::time::Duration;

use leasehold_core::{
    ended::{EndChange, EndedCount, Mark},
    id::SessionId,
};
use leasehold_store::{Store, StoreError};
use leasehold_tests::{Masters, wait};

use crate::quorum::site::{PROMPT, all_met, store};

/// For longer than the test takes.
const KEPT: Duration = Duration::from_secs(600);

fn mark_of(number: u8) -> Mark {
    Mark {
        session: SessionId::from_bytes([number; 16]),
        by: "operator".into(),
    }
}

/// Marks a session. Returns whether there was room.
async fn mark(store: &Store, number: u8) -> bool {
    let change = EndChange::Mark(mark_of(number), KEPT);
    store.ended_sessions(Some(change)).await.unwrap().is_some()
}

/// Waits until a store sees these marks and no others.
async fn sees(store: &Store, marks: Vec<(Mark, EndedCount)>) {
    wait::until("the marks to be seen", PROMPT, || async {
        let seen = match store.ended_sessions(None).await {
            Ok(seen) => seen.unwrap(),
            // One that hung may not be connected again yet.
            Err(error) => return Err(error.to_string()),
        };
        match seen == marks {
            true => Ok(()),
            false => Err(format!("{seen:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_mark_that_a_majority_has_is_seen_by_all_who_ask_a_majority() {
    let masters = Masters::start(3).bootstrapped();
    let (here, there) = (
        store(&masters, "here").await,
        store(&masters, "there").await,
    );
    all_met(&here, &masters, "here").await;
    all_met(&there, &masters, "there").await;
    masters.pause(0);
    assert!(mark(&here, 1).await);
    masters.resume(0);
    masters.pause(1);
    let none = EndedCount::default();
    sees(&there, vec![(mark_of(1), none)]).await;
    // Each master that has the mark counts, and the largest is right.
    let count = EndedCount {
        sessions: 1,
        holds: 2,
        waiters: 3,
        denied: 1,
    };
    let counted = EndChange::Count(mark_of(1), count);
    there.ended_sessions(Some(counted)).await.unwrap();
    sees(&here, vec![(mark_of(1), count)]).await;
    masters.pause(2);
    let unknown = there.ended_sessions(None).await;
    assert!(
        matches!(unknown, Err(StoreError::Unavailable { .. })),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn a_mark_is_refused_if_a_majority_has_no_room_for_it() {
    let masters = Masters::start(3).bootstrapped();
    let here = store(&masters, "here").await;
    all_met(&here, &masters, "here").await;
    assert!(mark(&here, 1).await);
    let fill = r"
        local key = redis.call('KEYS', 'lh:session-ends:*')[1]
        local mark = redis.call('HVALS', key)[1]
        for number = 2, 1000 do redis.call('HSET', key, string.format('%016d', number), mark) end";
    for (place, has_room) in [(0, true), (1, false)] {
        let mut connection = masters.server(place).async_connection().await;
        let fill = redis::Script::new(fill);
        let () = fill.invoke_async(&mut connection).await.unwrap();
        let another = 2 + u8::try_from(place).unwrap();
        assert_eq!(mark(&here, another).await, has_room, "{place}");
    }
}
