//! Sessions whose actors hold locks and wait for very many others with long names. Sessions may have more waits than these, but
//! an eighth of these fills what a coordinator publishes for the detector of deadlocks to look at.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use leasehold_proto::v1::{
    SessionAcquire, SessionHeartbeat, SessionOpen, SessionRequest,
    lock_service_client::LockServiceClient, session_request::Request, session_response::Response,
};
use tokio::{
    sync::{Barrier, mpsc},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_stream::wrappers::ReceiverStream;

use crate::{floods::channel, ready, tally::Tally};

const SESSIONS: usize = 20;
/// Actors of each session. Each holds a lock of its own.
const ACTORS: usize = 20;
/// Locks of the next session that each of them waits for, at most one of each actor.
const WAITS: usize = 10;
/// Waits that each session asks for in 10 ms.
const PACE: usize = 10;
/// As long as names may be.
const NAME: usize = 512;

fn name(session: usize, actor: usize) -> String {
    let name = format!("abuse/blocked/{}/{actor}/", session % SESSIONS);
    format!("{name:x<NAME$}")
}

/// Makes two hundred waits of each session, for locks that the next session holds.
pub(crate) async fn waits(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    let all_hold = Arc::new(Barrier::new(SESSIONS));
    for number in 0..SESSIONS {
        let (tally, all_hold) = (tally.clone(), Arc::clone(&all_hold));
        clients.spawn(async move {
            if session(server, number, &all_hold, &tally).await.is_none() {
                tally.one("sessions_ended");
            }
        });
    }
    while tally.get("waits") < (SESSIONS * ACTORS * WAITS) as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ready();
    clients.join_all().await;
    Ok(())
}

async fn session(
    server: SocketAddr,
    number: usize,
    all_hold: &Barrier,
    tally: &Tally,
) -> Option<()> {
    let (requests, outgoing) = mpsc::channel(64);
    let say = async |request_id: usize, request| {
        let message = SessionRequest {
            request_id: request_id as u64,
            request: Some(request),
            ..SessionRequest::default()
        };
        requests.send(message).await.ok()
    };
    let ask = async |request_id: usize, name: String, actor: usize| {
        let acquire = SessionAcquire {
            name,
            actor: 1 + actor as u64,
            ..SessionAcquire::default()
        };
        say(request_id, Request::Acquire(acquire)).await
    };
    say(1, Request::Open(SessionOpen::default())).await?;
    let mut client = LockServiceClient::new(channel(server).await?);
    let mut answers = client
        .session(ReceiverStream::new(outgoing))
        .await
        .ok()?
        .into_inner();
    answers.message().await.ok()??;
    let beating = async {
        for sequence in 1.. {
            tokio::time::sleep(Duration::from_secs(1)).await;
            say(0, Request::Heartbeat(SessionHeartbeat { sequence })).await?;
        }
        Some(())
    };
    // By request id, after those with which each actor takes its own.
    let first_wait = 2 + ACTORS;
    let mut wanted = HashMap::new();
    for actor in 0..ACTORS {
        for step in 0..WAITS {
            let number = first_wait + actor * WAITS + step;
            wanted.insert(number, (actor, (actor + step) % ACTORS));
        }
    }
    let asking = async {
        for actor in 0..ACTORS {
            ask(2 + actor, name(number, actor), actor).await?;
        }
        all_hold.wait().await;
        let mut pace = interval(Duration::from_millis(10));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for step in 0..ACTORS * WAITS {
            if step % PACE == 0 {
                pace.tick().await;
            }
            let (actor, other) = wanted[&(first_wait + step)];
            ask(first_wait + step, name(number + 1, other), actor).await?;
        }
        std::future::pending().await
    };
    let reading = async {
        loop {
            let answer = answers.message().await.ok()??;
            match answer.response? {
                Response::Granted(_) => tally.one("granted"),
                Response::Queued(_) => tally.one("waits"),
                Response::Error(_) => {
                    tally.one("refused");
                    let request_id = usize::try_from(answer.request_id).ok()?;
                    let (actor, other) = *wanted.get(&request_id)?;
                    ask(request_id, name(number + 1, other), actor).await?;
                }
                _ => {}
            }
        }
    };
    tokio::select! {
        ended = asking => ended,
        ended = reading => ended,
        ended = beating => ended,
    }
}
