//! Observers of elections.

use std::time::Duration;

use anyhow::ensure;
use leasehold_proto::v1::{Leader, ObserveRequest, ObserveResponse};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::scripts::{LONG, begin};
use crate::{
    driver::{Driver, PROMPT},
    mutant::{Lines, Way},
    scripted::Scripted,
    world::World,
};

/// An observer never goes back to an earlier term, and says when it may have missed one.
pub(super) async fn never_back(world: World) -> anyhow::Result<()> {
    let (driver, mut scripted, stream) = begin(&world, LONG, json!({})).await?;
    stream.answer_heartbeats(Some(LONG));
    driver
        .run(
            "observe",
            json!({ "as": "o1", "on": "c1", "election": "e" }),
        )
        .await?;
    let first = observed(&mut scripted).await?;
    first.say(10, false);
    first.say(5, false);
    first.say(12, true);
    seen(&driver, 12).await?;
    drop(first);
    let second = observed(&mut scripted).await?;
    second.say(11, false);
    second.say(13, false);
    seen(&driver, 13).await?;

    let told = told(&driver);
    let tokens: Vec<_> = told
        .iter()
        .map(|event| event["leader"]["token"].clone())
        .collect();
    ensure!(
        tokens == ["10", "12", "13"],
        "the observer goes back, or leaves out: {tokens:?}"
    );
    let skipped: Vec<_> = told.iter().map(|event| event["skipped"].clone()).collect();
    ensure!(
        skipped == [false, true, true],
        "it does not say what it may have missed: {skipped:?}"
    );
    Ok(())
}

/// An observer's call.
struct Observed(crate::scripted::Call);

impl Observed {
    fn say(&self, token: i64, skipped: bool) {
        let leader = Leader {
            fencing_token: token,
            value: b"v".to_vec(),
            ..Leader::default()
        };
        let told = ObserveResponse {
            leader: Some(leader),
            skipped,
        };
        // If the call has ended, the observer misses what it must see.
        self.0.responses.send(Ok(told.encode_to_vec())).ok();
    }
}

async fn observed(scripted: &mut Scripted) -> anyhow::Result<Observed> {
    let mut call = scripted.observer(PROMPT).await?;
    let asked = timeout(PROMPT, call.requests.message()).await??;
    let asked = ObserveRequest::decode(&*asked.unwrap_or_default())?;
    ensure!(
        asked.election == "e",
        "it observes something else: {asked:?}"
    );
    Ok(Observed(call))
}

/// Waits for the event of this token.
async fn seen(driver: &Driver, token: i64) -> anyhow::Result<()> {
    let token = token.to_string();
    let is_it = |line: &Value| line["ev"] == "leader" && line["leader"]["token"] == token;
    driver
        .find(
            &format!("leader {token}"),
            PROMPT + Duration::from_secs(5),
            is_it,
        )
        .await?;
    Ok(())
}

fn told(driver: &Driver) -> Vec<Value> {
    driver.lines(|line| line["ev"] == "leader" && line["o"] == "o1")
}

/// Goes back to an earlier term.
pub(super) fn goes_back() -> Lines {
    Box::new(|way, _, line| {
        let is_first = way == Way::ToRunner && line["leader"]["token"] == "10";
        let mut lines = vec![(way, line)];
        if is_first {
            let mut older = lines[0].1.clone();
            older["leader"]["token"] = json!("5");
            lines.push((way, older));
        }
        lines
    })
}
