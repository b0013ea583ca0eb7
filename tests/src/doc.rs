//! Coordinator that the examples in documentation run against.

use std::error::Error;

use leasehold_client::Client;

use crate::Coordinator;

/// Runs an example with a client that is connected to a coordinator of its own.
///
/// ```
/// leasehold_tests::doc(async |client| {
///     let guard = client.lock("orders/42").await?;
///     assert!(guard.is_held());
///     Ok(())
/// });
/// ```
///
/// # Panics
///
/// If the example fails.
pub fn doc(example: impl AsyncFnOnce(Client) -> Result<(), Box<dyn Error>>) {
    let coordinator = Coordinator::in_process();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let client = Client::connect(coordinator.endpoint()).await;
        let client = client.expect("the coordinator accepts clients");
        if let Err(error) = example(client).await {
            panic!("the example failed: {error}");
        }
    });
}
