//! Kill of one of three coordinators while its waiters are served: the rest goes on in order, at a known cost.
//!
//! What a dead coordinator can cost follows from what the others can know. They take it for dead once it has not
//! refreshed the name for 2 s ([`DEAD_AFTER`]), and skip its waiters from then on, at no cost. Before that, the lock may be
//! handed to one of its waiters, which stands unconfirmed for the claim time of 3 s. That is longer than the 2 s, and no
//! refresh of the dead one's comes in between, so it happens once: when the claim runs out, the dead one is known to be
//! dead. Who is next is granted when a living coordinator looks, at its next refresh at the latest, 1 s later. If the dead
//! one's client held the lock, what is left of its TTL comes before all this.

use std::time::{Duration, Instant};

use leasehold_tests::{CoordinatorProcess, alone::alone, report, wait};
use redis::aio::MultiplexedConnection;

use crate::queue::{
    crowd::{Crowd, KEY, TTL, WAITERS},
    turns::{Gap, Turns},
};

const CLAIM: Duration = Duration::from_secs(3);
const REFRESH: Duration = Duration::from_secs(1);
const DEAD_AFTER: Duration = Duration::from_secs(2);
const MARGIN: Duration = Duration::from_millis(500);

/// The coordinators: the dying one is the last.
const COORDINATORS: usize = 3;
const DYING: usize = 2;
/// So many are served before.
const BEFORE: usize = 100;

fn dies(coordinator: usize) -> bool {
    coordinator == DYING
}

/// Has the rest served, after the death while `rank` held the lock, and checks who was. Gives the longest gap.
async fn the_rest_is_served_in_order(
    case: &str,
    crowd: &Crowd,
    turns: &mut Turns,
    rank: usize,
) -> Gap {
    turns.finish().await;
    let order = &crowd.order;
    let lives = |number: &&usize| !dies(crowd.coordinator_of(**number));
    let survivors = order[rank + 1..].iter().filter(lives);
    let expected: Vec<usize> = order[..=rank].iter().chain(survivors).copied().collect();
    assert!(expected.len() < WAITERS - 20, "too few died with it");
    assert_eq!(turns.granted(), expected, "served out of turn");
    // Whoever waited there was told by the end of its stream, and nobody else was.
    let mut cut_off = turns.cut_off.clone();
    cut_off.retain(|number| *number != order[rank]);
    cut_off.sort_unstable();
    let mut due: Vec<usize> = order[rank + 1..].to_vec();
    due.retain(|number| dies(crowd.coordinator_of(*number)));
    due.sort_unstable();
    assert_eq!(cut_off, due);

    let mut gaps = turns.gaps();
    gaps.sort_unstable_by_key(|gap| gap.took);
    let (longest, others) = gaps.split_last().expect("there were grants");
    turns.print_gaps(case);
    report(format!("{case}: the longest gap was {:?}", longest.took));
    assert!(
        others.iter().all(|gap| gap.took < REFRESH),
        "its death cost more than once: {:?}",
        others.last()
    );
    *longest
}

/// Kills a coordinator, and returns the time just before.
fn killed(crowd: &mut Crowd) -> Instant {
    let at = Instant::now();
    crowd.coordinators[DYING].kill();
    at
}

fn dying(crowd: &Crowd) -> &CoordinatorProcess {
    &crowd.coordinators[DYING]
}

/// Returns the rest of the lock's TTL in Redis.
async fn left(connection: &mut MultiplexedConnection) -> Duration {
    let mut life = redis::cmd("PTTL");
    let left: i64 = life.arg(KEY).query_async(connection).await.unwrap();
    Duration::from_millis(left.try_into().expect("the lock stands"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_anothers_client_holds_it_costs_at_most_a_claim_time_and_a_refresh() {
    let alone = alone().await;
    let mut crowd = Crowd::gather(COORDINATORS).await;
    let rank = crowd.rank_where(BEFORE, |holder, next| !dies(holder) && !dies(next));
    let mut turns = crowd.begin().await;
    turns.until(rank).await;
    killed(&mut crowd);
    turns.let_go();
    let longest = the_rest_is_served_in_order(
        "killed while another's client holds",
        &crowd,
        &mut turns,
        rank,
    )
    .await;
    drop(alone);
    assert!(longest.took <= CLAIM + REFRESH + MARGIN, "{longest:?}");
    crowd.nothing_is_left(Some(DYING)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_for_two_seconds_before_its_waiters_turn_it_costs_nothing() {
    let alone = alone().await;
    let mut crowd = Crowd::gather(COORDINATORS).await;
    let rank = crowd.rank_where(BEFORE, |holder, next| !dies(holder) && dies(next));
    let mut turns = crowd.begin().await;
    turns.until(rank).await;
    killed(&mut crowd);
    // Held for long enough that the others know, whenever its last refresh was.
    tokio::time::sleep(DEAD_AFTER + Duration::from_millis(50)).await;
    turns.let_go();
    let longest = the_rest_is_served_in_order(
        "killed two seconds before its turn",
        &crowd,
        &mut turns,
        rank,
    )
    .await;
    drop(alone);
    assert!(longest.took < REFRESH, "{longest:?}");
    crowd.nothing_is_left(Some(DYING)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_its_client_holds_it_costs_what_is_left_of_the_ttl_and_a_refresh() {
    let alone = alone().await;
    let mut crowd = Crowd::gather(COORDINATORS).await;
    let rank = crowd.rank_where(BEFORE, |holder, _| dies(holder));
    let mut turns = crowd.begin().await;
    turns.until(rank).await;
    let death = killed(&mut crowd);
    let left = left(&mut crowd.connection).await;
    // By when it runs out, the dead one is known to be dead: no claim time comes on top.
    assert!(left > DEAD_AFTER && left <= TTL, "{left:?}");
    turns.holder_is_cut_off().await;
    the_rest_is_served_in_order("killed while its client holds", &crowd, &mut turns, rank).await;
    drop(alone);
    let took = turns.grants[rank + 1].at - death;
    report(format!(
        "killed while its client holds: granted {took:?} after the death, {left:?} of the TTL were left"
    ));
    assert!(took >= left, "{took:?} for {left:?}");
    assert!(took <= left + REFRESH + MARGIN, "{took:?} for {left:?}");
    crowd.nothing_is_left(Some(DYING)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_it_confirms_a_hand_off_costs_a_claim_time_and_at_most_a_refresh() {
    let alone = alone().await;
    let mut crowd = Crowd::gather(COORDINATORS).await;
    let rank = crowd.rank_where(BEFORE, |holder, next| !dies(holder) && dies(next));
    let next = crowd.ticket(rank + 1);
    let mut turns = crowd.begin().await;
    turns.until(rank).await;
    // It hears of the hand-off no more, and can't confirm it.
    dying(&crowd).stop();
    turns.let_go();
    wait::until("the lock to be handed to it", REFRESH, || {
        let mut connection = crowd.connection.clone();
        let next = &next;
        async move {
            let mut holder = redis::cmd("GET");
            let holder: Option<Vec<u8>> =
                holder.arg(KEY).query_async(&mut connection).await.unwrap();
            let handed = holder.as_ref() == Some(next);
            if handed { Ok(()) } else { Err("not yet") }
        }
    })
    .await;
    killed(&mut crowd);
    let longest =
        the_rest_is_served_in_order("killed before it confirms", &crowd, &mut turns, rank).await;
    drop(alone);
    assert!(longest.took >= CLAIM, "it had no chance: {longest:?}");
    assert!(longest.took <= CLAIM + REFRESH + MARGIN, "{longest:?}");
    crowd.nothing_is_left(Some(DYING)).await;
}
