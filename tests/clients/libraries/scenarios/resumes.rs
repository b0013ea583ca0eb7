//! Resumes on another stream.

use std::collections::HashSet;

use anyhow::{Context, ensure};
use leasehold_proto::v1::{
    LostLock, LostReason, ResumedHold, ResumedLock, SessionDraining, SessionLost, SessionOpened,
    SessionQueued, SessionResponse, SessionResume, resumed_lock, session_request::Request,
    session_response::Response, session_resume,
};
use leasehold_tests::raw::{fresh_owner_id, wire};
use prost::Message as _;
use serde_json::json;
use tokio::time::{Duration, sleep};

use super::scripts::{LONG, begin, hold};
use crate::{
    driver::{PROMPT, State, now, token},
    mutant::{Message, Wire, of_requests, of_responses, response},
    scripted::{Scripted, Stream, locks, opened},
    world::World,
};

/// Settings of clients whose sessions come back.
fn settings() -> serde_json::Value {
    json!({ "ttl_ms": 20_000, "grace_ms": 20_000 })
}

/// Returns an entry as it is taken over.
pub(super) fn resumed(resume: &SessionResume, token: i64) -> ResumedLock {
    ResumedLock {
        name: resume.name.clone(),
        owner_id: resume.next_owner_id.clone(),
        what: Some(resumed_lock::What::Hold(ResumedHold {
            fencing_token: token,
            hold_count: 1,
        })),
        ..ResumedLock::default()
    }
}

/// An attempt to resume that was not answered may have been carried out: the next one names its owner id, and has one of its own.
pub(super) async fn unanswered(world: World) -> anyhow::Result<()> {
    let (driver, mut scripted, mut stream) = begin(&world, LONG, settings()).await?;
    stream.answer_heartbeats(Some(LONG));
    let held = hold(&driver, &mut stream, "h1", "c1", "a", 7).await?;
    scripted.cut().await;

    let mut tried: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2 {
        let mut attempt = scripted.session(PROMPT).await?;
        let (_, open) = attempt.open().await?;
        tried.push(attempted(&open.resume, &held.owner_id, &tried)?);
        scripted.cut().await;
    }
    let mut last = scripted.session(PROMPT).await?;
    let (id, open) = last.open().await?;
    let next = attempted(&open.resume, &held.owner_id, &tried)?;
    let resumed = vec![resumed(&open.resume[0], 7)];
    last.resumes(id, resumed, LONG);
    let (state, _) = driver.watch("h1", PROMPT, State::is_held).await?;
    ensure!(state.is_held(), "not held after the resume: {state:?}");
    driver.ask("release", json!({ "h": "h1" }));
    let release = last.release().await?;
    ensure!(
        release.owner_id == next,
        "it releases under another owner id: {release:?}"
    );
    Ok(())
}

/// Checks an attempt's only entry, and returns its next owner id.
fn attempted(
    resume: &[SessionResume],
    owner_id: &[u8],
    tried: &[Vec<u8>],
) -> anyhow::Result<Vec<u8>> {
    ensure!(resume.len() == 1, "not one entry: {resume:?}");
    let entry = &resume[0];
    ensure!(
        entry.owner_id == owner_id,
        "it resumes another hold: {entry:?}"
    );
    ensure!(
        entry.next_owner_id.len() == 16,
        "no next owner id: {entry:?}"
    );
    for id in tried {
        ensure!(
            entry.tried_owner_ids.contains(id),
            "a tried owner id is left out: {entry:?}"
        );
        ensure!(
            entry.next_owner_id != *id,
            "an owner id is used for two attempts: {entry:?}"
        );
    }
    let Some(session_resume::What::Hold(hold)) = &entry.what else {
        anyhow::bail!("it does not resume a hold: {entry:?}");
    };
    ensure!(
        hold.fencing_token == 7 && hold.hold_count == 1,
        "another hold: {entry:?}"
    );
    Ok(entry.next_owner_id.clone())
}

/// Names no tried owner ids.
pub(super) fn forgets_attempts() -> Wire {
    of_requests(|request| {
        if let Request::Open(open) = request {
            for entry in &mut open.resume {
                entry.tried_owner_ids.clear();
            }
        }
    })
}

/// Waits for the session of a client that knows two coordinators. Returns the one that has it first.
pub(super) async fn either(
    mut one: Scripted,
    mut other: Scripted,
) -> anyhow::Result<(Stream, Scripted, Scripted)> {
    let is_first = tokio::select! {
        stream = one.session(PROMPT) => (stream?, true),
        stream = other.session(PROMPT) => (stream?, false),
    };
    Ok(match is_first {
        (stream, true) => (stream, one, other),
        (stream, false) => (stream, other, one),
    })
}

/// Once a client has resumed on another stream, the one that it leaves has no say about the holds.
pub(super) async fn old_stream(world: World) -> anyhow::Result<()> {
    let driver = world.driver().await?;
    let (one, other) = (world.scripted().await, world.scripted().await);
    let ask =
        json!({ "as": "c1", "endpoints": [one.endpoint(), other.endpoint()], "ttl_ms": 20_000 });
    let connecting = driver.ask("connect", ask);
    let (mut old, _first, mut second) = either(one, other).await?;
    old.opens(opened(LONG)).await?;
    driver.served(connecting, PROMPT).await?;
    old.answer_heartbeats(Some(LONG));
    let held = hold(&driver, &mut old, "h1", "c1", "a", 7).await?;

    old.send(
        0,
        Response::Draining(SessionDraining {
            deadline: wire(Duration::from_secs(5)),
            keeps_serving: false,
        }),
    );
    let mut new = second.session(PROMPT).await?;
    let (id, open) = new.open().await?;
    let entry = open.resume.first().context("it resumes nothing")?;
    // Before the answer, the resume itself is no loss.
    old.lost("a", &held.owner_id, LostReason::Resumed);
    still_held(&driver).await?;
    new.resumes(id, vec![resumed(entry, 7)], LONG);
    // It leaves the old stream when it has heard that: nothing on it is a loss any more.
    old.expect("close", |request| match request {
        Request::Close(close) => Some(close),
        _ => None,
    })
    .await?;
    old.lost("a", &held.owner_id, LostReason::Deleted);
    still_held(&driver).await?;
    let events = driver.events("h1");
    ensure!(events.is_empty(), "lost by the old stream: {events:?}");
    driver.ask("release", json!({ "h": "h1" }));
    let release = new.release().await?;
    ensure!(
        release.owner_id == entry.next_owner_id,
        "another owner id: {release:?}"
    );
    Ok(())
}

async fn still_held(driver: &crate::driver::Driver) -> anyhow::Result<()> {
    let end = now() + 300_000_000;
    while now() < end {
        driver.held("h1", "lost by the old stream").await?;
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Has the old stream's word count for what was resumed.
pub(super) fn believes_old_streams() -> Wire {
    Box::new(|_, message| {
        let resumed = match response(&message) {
            Some(Response::Opened(opened)) => opened.resumed.first().cloned(),
            _ => None,
        };
        let lost = resumed.map(|resumed| {
            let lost = LostLock {
                name: resumed.name,
                owner_id: resumed.owner_id,
                reason: LostReason::Expired.into(),
            };
            Message::Response(SessionResponse {
                request_id: 0,
                response: Some(Response::Lost(SessionLost { locks: vec![lost] })),
            })
        });
        [message].into_iter().chain(lost).collect()
    })
}

/// A place in a queue that was granted in the meantime comes back as a hold.
pub(super) async fn place(world: World) -> anyhow::Result<()> {
    let (driver, mut scripted, mut stream) = begin(&world, LONG, settings()).await?;
    stream.answer_heartbeats(Some(LONG));
    let asked = driver.ask("acquire", json!({ "as": "h1", "on": "c1", "names": ["a"] }));
    let (id, _) = stream.acquire().await?;
    let ticket = fresh_owner_id();
    stream.send(
        id,
        Response::Queued(SessionQueued {
            position: 1,
            ticket: ticket.clone(),
        }),
    );
    // The library has read it when it answers what was sent after it.
    hold(&driver, &mut stream, "h2", "c1", "b", 3).await?;
    scripted.cut().await;

    let mut next = scripted.session(PROMPT).await?;
    let (id, open) = next.open().await?;
    let entry = open.resume.iter().find(|entry| entry.owner_id == ticket);
    let entry = entry.context("it does not resume its place")?;
    let is_wait = matches!(entry.what, Some(session_resume::What::Wait(_)));
    ensure!(is_wait, "it does not resume a place: {entry:?}");
    let all = open.resume.iter().map(|entry| resumed(entry, 9)).collect();
    next.resumes(id, all, LONG);
    let held = driver.served(asked, PROMPT).await?;
    ensure!(token(&held)? == 9, "another token: {held}");
    driver.held("h1", "not held").await?;
    driver.ask("release", json!({ "h": "h1" }));
    let release = next.release().await?;
    ensure!(
        release.owner_id == entry.next_owner_id,
        "another owner id: {release:?}"
    );
    Ok(())
}

/// Takes no place for a hold.
pub(super) fn waits_on() -> Wire {
    of_responses(|response| {
        if let Response::Opened(opened) = response {
            let places = opened.resumed.iter_mut();
            for resumed in places.filter(|resumed| resumed.name == "a") {
                resumed.what = Some(resumed_lock::What::Position(1));
            }
        }
    })
}

/// A resume of more than fits into a message comes in several; what is refused of it is lost, and the rest is held.
pub(super) async fn many(world: World) -> anyhow::Result<()> {
    const ACQUIRES: usize = 25;
    const NAMES: usize = 100;
    const MESSAGE: usize = 1 << 20;
    // So much takes a while on a busy machine.
    const LONGER: Duration = Duration::from_secs(120);
    let settings = json!({ "ttl_ms": 120_000, "grace_ms": 20_000 });
    let (driver, mut scripted, mut stream) = begin(&world, LONGER, settings).await?;
    stream.answer_heartbeats(Some(LONGER));
    let mut all = HashSet::new();
    for number in 0..ACQUIRES {
        let name = |place: usize| format!("{:0>500}", number * NAMES + place);
        let names: Vec<String> = (0..NAMES).map(name).collect();
        let ask = json!({ "as": format!("h{number}"), "on": "c1", "names": names });
        let asked = driver.ask("acquire", ask);
        let (id, acquire) = stream.acquire().await?;
        ensure!(acquire.names == names, "it asks for other names");
        stream.grant(id, locks(&names, 7), LONGER, 0);
        driver.served(asked, PROMPT).await?;
        all.extend(names);
    }
    scripted.cut().await;

    let mut next = scripted.session(PROMPT).await?;
    let mut entries = Vec::new();
    let id = loop {
        let (id, open) = next.open().await?;
        let length = open.encoded_len();
        ensure!(length <= MESSAGE, "an open of {length} bytes");
        entries.extend(open.resume);
        if !open.more {
            break id;
        }
    };
    let named: HashSet<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    ensure!(
        named == all && entries.len() == all.len(),
        "it resumes {} entries of {}",
        entries.len(),
        all.len()
    );
    // One of the second acquire is refused.
    let refused = format!("{:0>500}", NAMES + 7);
    let parts: Vec<_> = entries.chunks(1000).collect();
    for (place, part) in parts.iter().enumerate() {
        let (lost, taken): (Vec<_>, Vec<_>) = part.iter().partition(|entry| entry.name == refused);
        let taken = taken.iter().map(|entry| {
            let Some(session_resume::What::Hold(hold)) = entry.what else {
                return ResumedLock::default();
            };
            resumed(entry, hold.fencing_token)
        });
        let lost = lost.iter().map(|entry| LostLock {
            name: entry.name.clone(),
            owner_id: entry.next_owner_id.clone(),
            reason: LostReason::Deleted.into(),
        });
        next.send(
            id,
            Response::Opened(SessionOpened {
                resumed: taken.collect(),
                refused: lost.collect(),
                more: place + 1 < parts.len(),
                ..opened(LONGER)
            }),
        );
    }
    next.answer_heartbeats(Some(LONGER));
    let lost = driver.event("h1", "state", "lost", PROMPT).await?;
    ensure!(
        lost["reason"] == "deleted" && lost["name"] == *refused,
        "another loss: {lost}"
    );
    for number in (0..ACQUIRES).filter(|number| *number != 1) {
        let (state, _) = driver
            .watch(&format!("h{number}"), PROMPT, State::is_held)
            .await?;
        ensure!(
            state.is_held(),
            "what was taken over is not held: {state:?}"
        );
    }
    Ok(())
}

/// Overlooks what is refused.
pub(super) fn overlooks_refusals() -> Wire {
    of_responses(|response| {
        if let Response::Opened(opened) = response
            && let Some(refused) = opened.refused.pop()
        {
            let resume = SessionResume {
                name: refused.name,
                next_owner_id: refused.owner_id,
                ..SessionResume::default()
            };
            opened.resumed.push(resumed(&resume, 14));
        }
    })
}
