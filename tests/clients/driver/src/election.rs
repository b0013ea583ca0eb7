//! Elections: candidacies, terms and observers.

use std::sync::Arc;

use leasehold_client::Election;
use serde_json::{Value, json};

use crate::{
    acquire, body,
    failure::Failed,
    hold::Guard,
    output::{answer, boot_ns, say},
    request::{Request, millis},
    world::{Shared, World},
};

fn election(world: &World, request: &Request) -> Result<Election, Failed> {
    let election = world.client(&request.on)?.election(&*request.election);
    Ok(match millis(request.wait_ms) {
        Some(wait) => election.wait(wait),
        None => election,
    })
}

/// Campaigns, and keeps the leadership.
pub(crate) async fn campaign(world: &Shared, request: Request) {
    let call = async {
        let value = request.value.clone().unwrap_or_default();
        let leadership = election(world, &request)?.campaign(value).await?;
        Ok(Guard::Leadership(leadership))
    };
    let done = world.cancellable(request.id, call).await;
    acquire::keep(world, request, done).await;
}

/// Leads again and again, with a body in each term.
pub(crate) async fn lead(world: &Shared, request: Request) {
    let call = async {
        let value = request.value.clone().unwrap_or_default();
        election(world, &request)?
            .run_while_leader(value, |leadership| {
                body::run(world, &request, vec![leadership.as_lock().clone()])
            })
            .await??;
        Ok(json!({}))
    };
    let done = world.cancellable(request.id, call).await;
    answer(request.id, done);
}

/// Begins to observe.
pub(crate) fn observe(world: &Shared, request: &Request) -> Result<Value, Failed> {
    let mut observer = election(world, request)?.observe();
    let (world, id, name) = (Arc::clone(world), request.id, request.name.clone());
    tokio::spawn(async move {
        let observing = async {
            while let Some(seen) = observer.next().await {
                let change = seen.map_err(|failure| Failed::from(&failure))?;
                let leader = change.leader.map(|leader| {
                    let token = leader.fencing_token.map(|token| token.to_string());
                    let value = String::from_utf8_lossy(&leader.value).into_owned();
                    json!({ "token": token, "value": value })
                });
                say(&json!({
                    "ev": "leader",
                    "o": name,
                    "leader": leader,
                    "skipped": change.skipped,
                    "boot_ns": boot_ns(),
                }));
            }
            Err::<(), _>(Failed::internal("the observer ended"))
        };
        // A cancelled observer has nothing more to say.
        let ended = world.cancellable(id, observing).await;
        if let Err(failed) = ended
            && !failed.is_cancelled()
        {
            say(&json!({ "ev": "observe_failed", "o": name, "err": failed.into_json() }));
        }
    });
    Ok(json!({}))
}
