//! Orders of messages that a real coordinator sends only in rare moments.

use std::collections::HashSet;

use anyhow::{Context, ensure};
use leasehold_proto::v1::{
    AcquireOutcome, LostReason, SessionNotGranted, SessionValueSet, session_request::Request,
    session_response::Response,
};
use serde_json::json;
use tokio::time::{Duration, sleep};

use super::scripts::{LONG, begin, hold, hold_for};
use crate::{
    driver::{PROMPT, State, now, token},
    mutant::{Message, Wire, losing, request, response},
    scripted::{Heard, locks},
    world::World,
};

/// A grant that crosses its cancel is given back.
pub(super) async fn cancel_crosses(world: World) -> anyhow::Result<()> {
    let (driver, _scripted, mut stream) = begin(&world, LONG, json!({})).await?;
    stream.answer_heartbeats(Some(LONG));
    let asked = driver.ask("acquire", json!({ "as": "h1", "on": "c1", "names": ["a"] }));
    let (id, acquire) = stream.acquire().await?;
    driver.run("cancel", json!({ "of": asked })).await?;
    let (_, cancel) = stream.expect("cancel", of_kind!(Cancel)).await?;
    ensure!(
        cancel.acquire_request_id == id,
        "it cancels another acquire: {cancel:?}"
    );
    let granted = locks(&[acquire.name], 1);
    stream.grant(id, granted.clone(), LONG, 0);
    let release = stream.release().await?;
    ensure!(
        release.owner_id == granted[0].owner_id,
        "it releases something else: {release:?}"
    );
    driver.failed(asked, "cancelled", PROMPT).await?;
    Ok(())
}

/// Releases nothing.
pub(super) fn never_releases() -> Wire {
    losing(|message| matches!(request(message), Some(Request::Release(_))))
}

/// A client that closes says so, and goes on until it has its answer. The bare end of a stream is a loss.
pub(super) async fn ends(world: World) -> anyhow::Result<()> {
    let (driver, mut scripted, mut stream) = begin(&world, LONG, json!({})).await?;
    stream.answer_heartbeats(Some(LONG));
    hold(&driver, &mut stream, "h1", "c1", "a", 1).await?;
    sleep(Duration::from_millis(300)).await;
    let heard = stream.ready();
    ensure!(
        heard.is_empty(),
        "it does not leave its side open: {heard:?}"
    );
    stream.end(Ok(()));
    let (last, _) = driver.watch("h1", PROMPT, State::is_lost).await?;
    ensure!(
        last.reason == "session_ended",
        "a bare end is not the end of the session: {last:?}"
    );

    let mut again = scripted.session(PROMPT).await?;
    let open = again.opens(crate::scripted::opened(LONG)).await?;
    ensure!(open.resume.is_empty(), "it resumes what is lost: {open:?}");
    again.answer_heartbeats(Some(LONG));
    hold(&driver, &mut again, "h2", "c1", "b", 2).await?;
    let closing = driver.ask("close", json!({ "on": "c1" }));
    let (id, _) = again.expect("close", of_kind!(Close)).await?;
    let early = driver.line(|line| line["id"] == closing);
    ensure!(early.is_none(), "it closed without an answer: {early:?}");
    again.closed(id);
    again.end(Ok(()));
    driver.served(closing, PROMPT).await?;
    let state = driver.state("h2").await?;
    ensure!(
        state.reason == "session_closed",
        "held after a close: {state:?}"
    );
    let (_, end) = again.next(PROMPT).await?;
    ensure!(
        !matches!(end, Heard::Request(..)),
        "it asks after a close: {end:?}"
    );
    Ok(())
}

/// Leaves without a word.
pub(super) fn leaves_silently() -> Wire {
    losing(|message| matches!(request(message), Some(Request::Close(_))))
}

/// Many requests have an id each, and answers come in any order.
pub(super) async fn out_of_order(world: World) -> anyhow::Result<()> {
    const COUNT: i64 = 40;
    let (driver, _scripted, mut stream) = begin(&world, LONG, json!({})).await?;
    stream.answer_heartbeats(Some(LONG));
    let asked: Vec<u64> = (0..COUNT)
        .map(|number| {
            let (handle, name) = (format!("h{number}"), number.to_string());
            let ask = json!({ "as": handle, "on": "c1", "names": [name], "wait_ms": 5000 });
            driver.ask("acquire", ask)
        })
        .collect();
    let mut acquires = Vec::new();
    let mut ids = HashSet::new();
    for _ in 0..COUNT {
        let (id, acquire) = stream.acquire().await?;
        ensure!(id != 0, "a request without an id: {acquire:?}");
        ensure!(ids.insert(id), "two requests in flight have the id {id}");
        acquires.push((id, acquire.name));
    }
    for (id, name) in acquires.into_iter().rev() {
        let number: i64 = name.parse()?;
        if number % 2 == 0 {
            stream.grant(id, locks(&[name], 1000 + number), LONG, 0);
        } else {
            stream.send(
                id,
                Response::NotGranted(SessionNotGranted {
                    outcome: AcquireOutcome::TimedOut.into(),
                    holder: None,
                }),
            );
        }
    }
    for (number, asked) in (0..COUNT).zip(asked) {
        if number % 2 == 0 {
            let held = driver.served(asked, PROMPT).await?;
            let is_own =
                token(&held)? == 1000 + number && held["holds"][0]["name"] == *format!("{number}");
            ensure!(is_own, "the answer to another request: {held} for {number}");
        } else {
            driver.failed(asked, "timeout", PROMPT).await?;
        }
    }
    Ok(())
}

/// Gives two requests one id.
pub(super) fn reuses_ids() -> Wire {
    let mut acquires = 0;
    let mut first = 0;
    Box::new(move |_, mut message| {
        if let Message::Request(request) = &mut message
            && matches!(request.request, Some(Request::Acquire(_)))
        {
            acquires += 1;
            match acquires {
                1 => first = request.request_id,
                2 => request.request_id = first,
                _ => {}
            }
        }
        vec![message]
    })
}

/// What a newer coordinator may say does not disturb an older library.
pub(super) async fn unknown(world: World) -> anyhow::Result<()> {
    // Field 99, which no message has, with three bytes.
    const FIELD: [u8; 6] = [0x9a, 0x06, 3, 1, 2, 3];
    let (driver, _scripted, mut stream) = begin(&world, LONG, json!({})).await?;
    stream.answer_heartbeats(Some(LONG));
    let held = hold(&driver, &mut stream, "h1", "c1", "a", 1).await?;
    let other = hold(&driver, &mut stream, "h2", "c1", "b", 2).await?;

    stream.send_bytes(FIELD.to_vec());
    stream.send_bytes(Vec::new());
    let asked = driver.ask("acquire", json!({ "as": "h3", "on": "c1", "names": ["c"] }));
    let (id, acquire) = stream.acquire().await?;
    let granted = leasehold_proto::v1::SessionGranted {
        locks: locks(&[acquire.name], 3),
        valid_for: leasehold_tests::raw::wire(LONG),
        acked_heartbeat: stream.heartbeat().0,
        ..Default::default()
    };
    stream.send_with(id, Response::Granted(granted), &FIELD);
    driver.served(asked, PROMPT).await?;
    let ask = json!({ "as": "h4", "on": "c1", "names": ["d"], "wait_ms": 1000 });
    let asked = driver.ask("acquire", ask);
    let (id, _) = stream.acquire().await?;
    let refused = SessionNotGranted {
        outcome: 99,
        holder: None,
    };
    stream.send(id, Response::NotGranted(refused));
    let answer = driver.reply(asked, PROMPT).await?;
    ensure!(answer.is_err(), "an unknown outcome is a grant: {answer:?}");
    stream.lost("b", &other.owner_id, 99);
    driver.event("h2", "state", "lost", PROMPT).await?;

    driver.held("h1", "lost by an unknown message").await?;
    let asked = driver.ask("set_value", json!({ "h": "h1", "value": "v" }));
    let (id, set) = stream
        .expect("set_value", of_kind!(SetValue))
        // The loss of the stream may come after that of the hold.
        .await
        .context("the stream was lost by an unknown message")?;
    ensure!(set.owner_id == held.owner_id, "another hold: {set:?}");
    stream.send(id, Response::ValueSet(SessionValueSet { value_set: true }));
    driver.served(asked, PROMPT).await?;
    Ok(())
}

/// Ends its stream at a reason that it does not know.
pub(super) fn knows_all_reasons() -> Wire {
    Box::new(|_, message| match response(&message) {
        Some(Response::Lost(lost)) if LostReason::try_from(lost.locks[0].reason).is_err() => {
            vec![message, Message::End]
        }
        _ => vec![message],
    })
}

/// A client reads on, whatever comes and however much.
pub(super) async fn flood(world: World) -> anyhow::Result<()> {
    let valid = Duration::from_secs(10);
    let (driver, _scripted, mut stream) = begin(&world, LONG, json!({})).await?;
    let ask = json!({ "as": "h1", "on": "c1", "names": ["a"] });
    let held = hold_for(&driver, &mut stream, ask, 1, valid).await?;
    stream.answer_heartbeats(Some(valid));
    // What is not answered and not kept: requests to release, losses of what was never held, old acknowledgements.
    // More bytes than the client takes unread, and few enough for a slow language on a busy machine.
    let reason = "maintenance ".repeat(18);
    for _ in 0..250 {
        stream.ask_release(&held, &reason);
        stream.lost("nobody's", &[7; 16], LostReason::Expired);
        stream.ack(0, valid);
    }
    let last = stream.heartbeat().0;
    let end = now() + 12_000_000_000;
    while now() < end {
        driver.held("h1", "lost in a flood").await?;
        sleep(Duration::from_millis(20)).await;
    }
    let heard = stream.heartbeat().0;
    ensure!(heard > last + 10, "its heartbeats stopped: {last}, {heard}");
    let events = driver.events("h1");
    ensure!(events.is_empty(), "events of a hold that lasts: {events:?}");
    driver.ask("release", json!({ "h": "h1" }));
    stream.release().await?;
    Ok(())
}

/// Reads no more than so many messages.
pub(super) fn stops_reading() -> Wire {
    let mut left = 100;
    losing(move |message| {
        let is_response = matches!(message, Message::Response(_));
        let is_lost = is_response && left == 0;
        left -= i32::from(is_response && !is_lost);
        is_lost
    })
}
