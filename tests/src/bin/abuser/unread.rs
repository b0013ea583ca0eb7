//! Clients that send requests and never read the answers.

use std::{net::SocketAddr, time::Duration};

use leasehold_proto::v1::{
    SessionAcquire, SessionOpen, SessionRequest, WatchLocksRequest, session_request::Request,
};
use prost::Message;
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    http2::{
        self, DATA, END_HEADERS, END_STREAM, HEADERS, HUGE, INITIAL_WINDOW_SIZE, WINDOW_UPDATE,
        frame,
    },
    ready,
    tally::Tally,
};

/// Size of the receive buffer of such a client: as small as the kernel allows.
const RECEIVE_BUFFER: u32 = 4096;
/// Connections with sessions; each asks for a lock that somebody has, over and over.
const SESSIONS: usize = 40;
/// Questions of each session in 10 ms.
const QUESTIONS: usize = 1;
/// Connections with watches, and watches on each.
const WATCHING: (usize, u32) = (20, 5);

/// Windows as large as can be, so that nothing but the connection itself holds the answers up.
async fn greedy(server: SocketAddr) -> Option<TcpStream> {
    let mut stream = http2::connect(server, Some(RECEIVE_BUFFER)).await.ok()?;
    let window = frame(WINDOW_UPDATE, 0, 0, &(HUGE - 65_535).to_be_bytes());
    let beginning = [http2::beginning(&[(INITIAL_WINDOW_SIZE, HUGE)]), window].concat();
    http2::write(&mut stream, &beginning)
        .await
        .then_some(stream)
}

pub(crate) async fn sessions(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for number in 0..SESSIONS {
        let tally = tally.clone();
        clients.spawn(async move {
            loop {
                ask_on(server, number, &tally).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    ready();
    clients.join_all().await;
    Ok(())
}

async fn ask_on(server: SocketAddr, number: usize, tally: &Tally) {
    let Some(mut stream) = greedy(server).await else {
        return;
    };
    tally.one("sessions");
    let block = http2::headers("/leasehold.v1.LockService/Session", &[]);
    let mut request_id = 1;
    let mut say = |request| {
        let message = SessionRequest {
            request_id,
            request: Some(request),
            ..SessionRequest::default()
        };
        request_id += 1;
        frame(DATA, 0, 1, &http2::honest(&message.encode_to_vec()))
    };
    let opening = [
        frame(HEADERS, END_HEADERS, 1, &block),
        say(Request::Open(SessionOpen::default())),
        // The first to come has it; the others are told who.
        say(Request::Acquire(SessionAcquire {
            name: "abuse/unread".to_owned(),
            value: vec![b'v'; 4096],
            ..SessionAcquire::default()
        })),
    ];
    if !http2::write(&mut stream, &opening.concat()).await {
        return;
    }
    let mut pace = interval(Duration::from_millis(10));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        let mut bytes = Vec::new();
        for _ in 0..QUESTIONS {
            bytes.extend(say(Request::Acquire(SessionAcquire {
                name: format!("abuse/unread{}", if number == 0 { "/own" } else { "" }),
                wait: Some(prost_types::Duration::default()),
                ..SessionAcquire::default()
            })));
        }
        // It waits here where the coordinator stops reading.
        if !http2::write(&mut stream, &bytes).await {
            tally.one("closed_by_coordinator");
            return;
        }
        tally.add("questions", QUESTIONS as u64);
    }
}

pub(crate) async fn watches(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    let (connections, each) = WATCHING;
    let mut clients = JoinSet::new();
    for _ in 0..connections {
        let tally = tally.clone();
        clients.spawn(async move {
            loop {
                watch_on(server, each, &tally).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
    }
    while tally.get("watches") < u64::from(each) * connections as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ready();
    clients.join_all().await;
    Ok(())
}

async fn watch_on(server: SocketAddr, each: u32, tally: &Tally) {
    let Some(mut stream) = greedy(server).await else {
        return;
    };
    let block = http2::headers("/leasehold.v1.AdminService/WatchLocks", &[]);
    let watch = WatchLocksRequest::default();
    let message = http2::honest(&watch.encode_to_vec());
    for number in 0..each {
        let id = 2 * number + 1;
        let call = [
            frame(HEADERS, END_HEADERS, id, &block),
            frame(DATA, END_STREAM, id, &message),
        ];
        if !http2::write(&mut stream, &call.concat()).await {
            return;
        }
        tally.one("watches");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It shows that it lives, and reads nothing.
    let ping = frame(http2::PING, 0, 0, &[0; 8]);
    while http2::write(&mut stream, &ping).await {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    tally.one("closed_by_coordinator");
}
