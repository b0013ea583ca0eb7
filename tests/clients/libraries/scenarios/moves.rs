//! Moves whose answer does not come in time: a coordinator may have taken the holds over, and the client does not know. Whatever ends
//! them then is believed, on whichever stream it is said.

use std::rc::Rc;

use anyhow::{Context, ensure};
use leasehold_proto::v1::{
    GrantedLock, LostReason, SessionDraining, SessionResume, session_response::Response,
};
use leasehold_tests::raw::wire;
use serde_json::json;
use tokio::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{
    resumes::{either, resumed},
    scripts::{LONG, hold},
};
use crate::{
    driver::{Driver, PROMPT, State, nanos, now},
    mutant::{Message, Wire, losing, response},
    scripted::{Scripted, Stream, opened},
    world::World,
};

/// Time for a client to act on what it hears, on a busy machine. By its own deadline it would hold for [`LONG`].
const SOON: Duration = Duration::from_secs(5);

/// A client whose coordinator drains, and whose attempt to move was not answered.
struct Unanswered {
    driver: Rc<Driver>,
    handle: &'static str,
    held: GrantedLock,
    /// The coordinator that it tries.
    second: Scripted,
    old: Stream,
    attempt: Stream,
    request_id: u64,
    entry: SessionResume,
    /// The next attempt.
    _next: (Stream, Scripted),
}

impl Unanswered {
    async fn start(
        world: &World,
        driver: &Rc<Driver>,
        handle: &'static str,
    ) -> anyhow::Result<Self> {
        let (one, other) = (world.scripted().await, world.scripted().await);
        let client = format!("c-{handle}");
        let ask = json!({
            "as": client,
            "endpoints": [one.endpoint(), other.endpoint()],
            "ttl_ms": 20_000,
            "connect_timeout_ms": 2_000,
        });
        let connecting = driver.ask("connect", ask);
        let (mut old, mut first, mut second) = either(one, other).await?;
        old.opens(opened(LONG)).await?;
        driver.served(connecting, PROMPT).await?;
        old.answer_heartbeats(Some(LONG));
        let held = hold(driver, &mut old, handle, &client, "a", 7).await?;
        let deadline = wire(LONG);
        old.send(
            0,
            Response::Draining(SessionDraining {
                deadline,
                keeps_serving: false,
            }),
        );
        let mut attempt = second.session(PROMPT).await?;
        let (request_id, open) = attempt.open().await?;
        let entry = open.resume.first().context("it resumes nothing")?.clone();
        // It waits no longer.
        let next = tokio::select! {
            next = second.session(PROMPT) => next,
            next = first.session(PROMPT) => next,
        };
        driver.held(handle, "lost by an attempt").await?;
        Ok(Self {
            driver: Rc::clone(driver),
            handle,
            held,
            second,
            old,
            attempt,
            request_id,
            entry,
            _next: (next?, first),
        })
    }

    /// Answers the attempt after all.
    fn answer(&self) {
        let resumed = vec![resumed(&self.entry, 7)];
        self.attempt.resumes(self.request_id, resumed, LONG);
    }

    /// Checks that the client's hold ends now.
    async fn ends(&self, because: &str) -> anyhow::Result<()> {
        let at = now();
        let watched = self.driver.watch(self.handle, PROMPT, State::is_lost);
        let (state, held) = watched.await?;
        let late = held.saturating_sub(at);
        ensure!(
            state.is_lost() && late <= nanos(SOON),
            "held {} ms after {because}: {state:?}",
            late / 1_000_000
        );
        Ok(())
    }
}

/// The connection of an attempt that was not answered is reset: its coordinator has given back what it took over.
pub(super) async fn attempt_ends(world: World) -> anyhow::Result<()> {
    let driver = world.driver().await?;
    let moving = Unanswered::start(&world, &driver, "h1").await?;
    moving.second.cut().await;
    moving.ends("the end of an attempt").await
}

/// Hears of no end of a stream.
pub(super) fn overlooks_ends() -> Wire {
    losing(|message| matches!(message, Message::End))
}

/// The old coordinator and the tried one say that the hold is over.
pub(super) async fn words(world: World) -> anyhow::Result<()> {
    let driver = world.driver().await?;
    let told = Unanswered::start(&world, &driver, "h1").await?;
    told.old.lost("a", &told.held.owner_id, LostReason::Forced);
    told.ends("the old stream's word").await?;

    let late = Unanswered::start(&world, &driver, "h2").await?;
    late.answer();
    let owner_id = &late.entry.next_owner_id;
    late.attempt.lost("a", owner_id, LostReason::Forced);
    late.ends("the word of a late stream").await?;

    let ended = Unanswered::start(&world, &driver, "h3").await?;
    ended.answer();
    let why = ErrorDetails::with_error_info("SESSION_ENDED", "leasehold", []);
    let why = Status::with_error_details(Code::Aborted, "an operator has ended it", why);
    ended.attempt.end(Err(why));
    ended.ends("the end of its session").await
}

/// Believes no word that ends a hold.
pub(super) fn overlooks_losses() -> Wire {
    losing(|message| matches!(response(message), Some(Response::Lost(_))))
}
