//! Coordinator that dies in the middle of a deadlock over coordinators.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::v1::{GrantedLock, session_response::Response};
use leasehold_tests::{Site, raw::PROMPT, report, wait};
use tokio::time::Instant;

use crate::deadlocks::client::{Client, Waiting, deadlock, exclusive, several};

/// Of every session.
const TTL: Duration = Duration::from_secs(4);
/// For which a hand-off to a waiter that is dead, which is not known at once, stands.
const CLAIM: Duration = Duration::from_secs(3);
/// For another coordinator to find that a hold has run out.
const REFRESH: Duration = Duration::from_secs(1);
const MARGIN: Duration = Duration::from_secs(1);
/// Time for which Redis keeps the places of a dead coordinator's waiters, and its publication.
const KEPT: Duration = Duration::from_secs(12);

/// One that holds its own lock, and waits for the next one's.
struct Member {
    client: Client,
    own: Vec<GrantedLock>,
    /// Until when it stands at least, whatever becomes of its coordinator.
    stands_until: Instant,
    wait: Option<Waiting>,
}

fn name(number: usize, actors: usize) -> String {
    format!("killed/{}", number % actors)
}

/// Members of a ring, at the two coordinators in turn; they wait in this order.
async fn ring(site: &Site, order: &[usize]) -> Vec<Member> {
    let actors = order.len();
    let mut members = Vec::new();
    for number in 0..actors {
        let mut client = Client::open(site.channel(number), TTL).await;
        let stands_until = Instant::now() + TTL;
        let own = client.take(exclusive(1, &name(number, actors))).await;
        members.push(Member {
            client,
            own,
            stands_until,
            wait: None,
        });
    }
    for (place, number) in order.iter().enumerate() {
        if place + 1 == actors {
            // Those before it are blocked, and their coordinators have told so.
            wait::until("others to be told of", PROMPT, || async {
                match site.keys("lh:blocked-waits:").await.len() {
                    0 => Err("nobody was told of"),
                    _ => Ok(()),
                }
            })
            .await;
        }
        let acquire = exclusive(1, &name(number + 1, actors));
        members[*number].wait = Some(members[*number].client.wait_for(acquire).await);
    }
    members
}

/// Returns how many coordinators have published blocked actors: each has a field of its own beside the one for all.
async fn tellers(site: &Site) -> u64 {
    let redis = site.server();
    let mut connection = redis.async_connection().await;
    let mut length = redis::cmd("HLEN");
    length.arg("lh:blocked-waits:lock:");
    let fields: u64 = length.query_async(&mut connection).await.unwrap();
    fields.saturating_sub(1)
}

/// Waits for the end of a survivor's wait: the survivor is granted the lock, or, if `may_be_accused`, it is aborted because of
/// the deadlock, as far as any coordinator knew, and begins again. Returns whether it was aborted. The lock is not free before
/// `held_until`.
async fn survive(
    member: Member,
    number: usize,
    held_until: Instant,
    actors: usize,
    may_be_accused: bool,
) -> bool {
    // Of another survivor, too.
    let limit = (TTL + CLAIM + REFRESH + MARGIN) * 2;
    let Member {
        mut client,
        mut own,
        wait,
        ..
    } = member;
    let request_id = wait.expect("it waits").request_id;
    let accused = match client.outcome(request_id, limit).await {
        Response::Granted(granted) => {
            own.extend(granted.locks);
            false
        }
        failed => {
            let failure = deadlock(failed);
            assert!(may_be_accused, "accused: {failure:?}");
            client.release(&own).await;
            let names = [number, number + 1].map(|place| name(place, actors));
            let both = several(1, names.iter().map(String::as_str));
            let id = client.ask_for(both).await;
            own = client.granted_all(id, limit).await;
            true
        }
    };
    assert!(Instant::now() >= held_until, "it was still held");
    client.release(&own).await;
    client.close().await;
    accused
}

/// Kills the second of two coordinators during a deadlock among actors that began to wait in this order.
async fn the_rest_goes_on(order: &[usize]) {
    let mut site = Site::redis(2).await;
    let members = ring(&site, order).await;
    let youngest = order[order.len() - 1];
    let dies = |number: usize| number % 2 == 1;
    if dies(youngest) {
        // It is about to be the victim, and everybody knows.
        wait::until("both coordinators to tell", PROMPT, || async {
            match tellers(&site).await {
                2 => Ok(()),
                fewer => Err(fewer),
            }
        })
        .await;
    }
    site.kill(1);
    let killed = Instant::now();
    let actors = members.len();
    // Of the living, at least until now.
    let held_until: Vec<_> = members
        .iter()
        .enumerate()
        .map(|(number, member)| {
            if dies(number) {
                member.stands_until
            } else {
                killed
            }
        })
        .collect();
    // That the youngest is dead is not known at once: if it lives, it may be taken for the victim.
    let survivors = members
        .into_iter()
        .enumerate()
        .filter(|(number, _)| !dies(*number))
        .map(|(number, member)| {
            let held_until = held_until[(number + 1) % actors];
            survive(member, number, held_until, actors, number == youngest)
        });
    let accused = join_all(survivors).await;
    let took = killed.elapsed();
    report(format!(
        "waits began in the order {order:?}: the rest had gone on {took:?} after a coordinator was killed, {accused:?}"
    ));
    assert!(took < TTL + CLAIM + REFRESH * 2 + MARGIN);
    let accused = accused.into_iter().filter(|accused| *accused).count();
    assert_eq!(site.sum("leasehold_deadlocks_total").await, accused as f64);
    site.nothing_is_left().await;
}

#[tokio::test]
async fn the_rest_of_a_deadlock_goes_on_when_a_coordinator_is_killed() {
    tokio::join!(
        the_rest_goes_on(&[0, 1]),
        the_rest_goes_on(&[1, 0]),
        the_rest_goes_on(&[0, 2, 1]),
        the_rest_goes_on(&[1, 0, 2]),
    );
}
