//! One name after the other, in random order and without releasing those before: deadlocks happen all the time.

use std::{sync::Arc, time::Duration};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{Latencies, Site, stalls::Stalls};
use tokio::{task::JoinSet, time::Instant};

use crate::deadlocks::client::{deadlock, exclusive};

use super::{LONGEST_WAIT, Member, Served, gather, length, referee::Referee, summary};

/// The crowd is of groups that are in one another's way; each has names of its own. Without them a few deadlocks, with all
/// that waits for their locks, would soon bring everybody to a stop, and most of the time nothing would happen.
const GROUP: usize = 20;
const NAMES: usize = 11;
/// Within what a deadlock is ended, from when its last wait was asked for.
const ENDED_WITHIN: Duration = Duration::from_secs(2);
/// The times that processes take turns meanwhile: clients, coordinators, which look twice and tell one another, and Redis.
const TURNS: u32 = 10;
const LONGEST_HOLD: Duration = Duration::from_millis(150);

/// Durations of the deadlocks in which a member was the victim.
type Accused = Vec<Duration>;

async fn take_one_by_one(
    mut member: Member,
    referee: Arc<Referee>,
    until: Instant,
) -> (Served, Accused) {
    let mut served = Served::default();
    let mut accused = Vec::new();
    let who = member.number;
    while member.rests(until, &served).await {
        let mut locks = Vec::new();
        let mut held = Vec::new();
        let chosen = member.choose(2..=3, NAMES);
        for name in &chosen {
            let name = who / GROUP * NAMES + name;
            let asked = Instant::now();
            referee.asks(who, name);
            let acquire = exclusive(1, &format!("single/{name}"));
            let id = member.client.ask_for(acquire).await;
            match member.client.outcome(id, LONGEST_WAIT).await {
                Response::Granted(granted) => {
                    referee.granted(who, name);
                    served.waits.push(asked.elapsed());
                    locks.extend(granted.locks);
                    held.push(name);
                }
                failed => {
                    deadlock(failed);
                    accused.push(referee.accused(who));
                    break;
                }
            }
            member.pause(LONGEST_HOLD).await;
        }
        served.turns += u64::from(held.len() == chosen.len());
        for name in held {
            referee.releases(who, name);
        }
        member.client.release(&locks).await;
    }
    member.client.close().await;
    (served, accused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_that_take_one_name_after_the_other_all_get_on_through_their_deadlocks()
{
    let site = Site::redis(2).await;
    let members = gather(&site).await;
    let referee = Arc::new(Referee::default());
    let until = Instant::now() + length();
    let stalls = Stalls::watch();
    let mut tasks = JoinSet::new();
    for member in members {
        tasks.spawn(take_one_by_one(member, Arc::clone(&referee), until));
    }
    let (served, accused): (Vec<_>, Vec<_>) = tasks.join_all().await.into_iter().unzip();
    let limit = stalls.stretch(ENDED_WITHIN, TURNS);
    summary("one name after the other", &served);
    let mut lasted = Latencies::new("deadlocks ended, of a thousand sessions");
    for time in accused.into_iter().flatten() {
        lasted.record(time);
    }
    lasted.print();
    // Each deadlock was ended, once, and nobody was accused of what was none.
    assert!(lasted.count() > 50, "too few to say anything");
    assert_eq!(lasted.count(), referee.deadlocks());
    assert_eq!(
        site.sum("leasehold_deadlocks_total").await,
        lasted.count() as f64
    );
    assert!(lasted.max() < limit, "the limit is {limit:?}");
    site.nothing_is_left().await;
}
