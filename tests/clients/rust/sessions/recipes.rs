//! The recipes of `docs/recipes.md` that need more than a coordinator.

use std::{error::Error, process::Command};

use leasehold_client::Client;
use leasehold_tests::{ChildProcess, binaries};
use rustix::process::Signal;

use crate::{LIMIT, coordinator_and_client, waiters};

type Outcome = Result<(), Box<dyn Error>>;

// recipe: unit-test
#[tokio::test]
async fn the_queue_has_one_consumer() -> Outcome {
    // With the crate leasehold-server as a dev-dependency: the coordinator is in this process.
    let coordinator = leasehold_server::testing::Coordinator::start().await?;
    let client = Client::connect(coordinator.endpoint()).await?;
    let consumer = client.lock("queue").await?;
    let other = client.session().open().await?;
    assert!(other.lock("queue").try_acquire().await?.is_none());
    // A loss on demand.
    client.admin().force_release("queue").await?;
    consumer.lost().await;
    assert!(other.lock("queue").try_acquire().await?.is_some());
    Ok(())
}
// end recipe

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_to_stop_gives_its_lock_to_the_next() -> Outcome {
    let (coordinator, next) = coordinator_and_client().await;
    let mut command = Command::new(binaries::example("recipes"));
    command.args([&coordinator.endpoint(), "serve"]);
    let mut serving = ChildProcess::spawn("recipes", command);
    leasehold_tests::wait::until("the lock to be held", LIMIT, async || {
        match next.admin().get_lock("queue").await?.holders.len() {
            1 => Ok(()),
            holders => Err(format!("{holders} holders").into()) as Outcome,
        }
    })
    .await;
    let waiting = tokio::spawn(next.lock("queue").into_future());
    waiters(&next, "queue", 1).await;
    serving.signal(Signal::TERM);
    assert!(serving.wait(LIMIT).await.success());
    drop(tokio::time::timeout(LIMIT, waiting).await???);
    Ok(())
}
