//! Deadlines: what acknowledgements make of them.

use std::time::Duration;

use anyhow::ensure;
use leasehold_proto::v1::{session_request::Request, session_response::Response};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    driver::{Driver, PROMPT, State, nanos, now},
    mutant::{Message, Wire, losing, response},
    scenarios::scripts::begin,
    scripted::{Stream, locks},
    world::World,
};

/// TTL of the scripted sessions: so long that no library leaves a coordinator for its silence.
const TTL: Duration = Duration::from_secs(20);

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Acquires a lock that is valid for 4 s since a heartbeat.
async fn hold_as_of(
    driver: &Driver,
    stream: &mut Stream,
    ask: Value,
    heartbeat: u64,
) -> anyhow::Result<()> {
    let asked = driver.ask("acquire", ask);
    let (id, acquire) = stream.acquire().await?;
    stream.grant(id, locks(&[acquire.name], 1), millis(4000), heartbeat);
    driver.served(asked, PROMPT).await?;
    Ok(())
}

/// An acknowledgement never moves a deadline back, be its heartbeat old or its validity short; one that nobody asked for moves it on.
pub(super) async fn only_lengthen(world: World) -> anyhow::Result<()> {
    let (driver, _scripted, mut stream) = begin(&world, TTL, json!({})).await?;
    let ask = json!({ "as": "h1", "on": "c1", "names": ["a"] });
    hold_as_of(&driver, &mut stream, ask, 0).await?;

    let (sequence, at) = stream.beats(6).await?;
    stream.ack(sequence, millis(5000));
    let (newer, _) = stream.beats(sequence + 2).await?;
    stream.ack(2, millis(20));
    stream.ack(newer, millis(20));
    let (last, held) = driver.watch("h1", PROMPT, State::is_lost).await?;
    let end = at + nanos(millis(5000));
    ensure!(last.is_lost(), "not lost: {last:?}");
    ensure!(
        held <= end,
        "held {} ms after its deadline",
        (held - end) / 1_000_000
    );
    let early = end.saturating_sub(last.at) / 1_000_000;
    ensure!(early < 300, "lost {early} ms before its deadline");
    Ok(())
}

/// Takes no acknowledgement.
pub(super) fn ignores_acks() -> Wire {
    losing(|message| matches!(response(message), Some(Response::Heartbeat(_))))
}

/// A deadline counts from when the acknowledged heartbeat was sent, however late its answer comes.
pub(super) async fn slow_acks(world: World) -> anyhow::Result<()> {
    let (driver, _scripted, mut stream) = begin(&world, TTL, json!({})).await?;
    let (_, opened_at) = stream.heartbeat();
    sleep(millis(800)).await;
    let ask = json!({ "as": "h1", "on": "c1", "names": ["a"] });
    hold_as_of(&driver, &mut stream, ask, 0).await?;
    let (_, held) = driver.watch("h1", PROMPT, State::is_lost).await?;
    let end = opened_at + nanos(millis(4000));
    ensure!(
        held <= end,
        "held {} ms after the grant's deadline",
        held.saturating_sub(end) / 1_000_000
    );

    let (newest, mut acked_at) = stream.heartbeat();
    let ask = json!({ "as": "h2", "on": "c1", "names": ["b"] });
    hold_as_of(&driver, &mut stream, ask, newest).await?;
    let mut acked = newest;
    let stop = now() + nanos(millis(5000));
    while now() < stop {
        driver
            .held("h2", "lost although its heartbeats are answered")
            .await?;
        let heard = stream.heartbeat_before(now() - nanos(millis(600)));
        if let Some((sequence, at)) = heard.filter(|(sequence, _)| *sequence > acked) {
            stream.ack(sequence, millis(4000));
            (acked, acked_at) = (sequence, at);
        }
        sleep(millis(20)).await;
    }
    let (last, held) = driver.watch("h2", PROMPT, State::is_lost).await?;
    let end = acked_at + nanos(millis(4000));
    ensure!(
        held <= end,
        "held {} ms after its deadline",
        held.saturating_sub(end) / 1_000_000
    );
    ensure!(
        last.reason == "expired",
        "lost for another reason: {last:?}"
    );
    Ok(())
}

/// Counts from the newest heartbeat, not from the one that was acknowledged.
pub(super) fn counts_from_receipt() -> Wire {
    let mut newest = 0;
    Box::new(move |_, mut message| {
        match &mut message {
            Message::Request(request) => {
                if let Some(Request::Heartbeat(heartbeat)) = &request.request {
                    newest = heartbeat.sequence;
                }
            }
            Message::Response(response) => match &mut response.response {
                Some(Response::Heartbeat(ack)) => ack.acked_heartbeat = newest,
                Some(Response::Granted(granted)) => granted.acked_heartbeat = newest,
                _ => {}
            },
            Message::End => {}
        }
        vec![message]
    })
}
