//! Example of a web service whose replicas elect one for the work in the background, and all tell who that is.
//!
//! ```text
//! cargo run --example web_service -- http://127.0.0.1:7420 127.0.0.1:8080
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use leasehold_client::{Client, Election};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::sleep,
};

type BoxError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: web_service ENDPOINT ADDRESS";
    let endpoint = arguments.next().ok_or(usage)?;
    let listener = TcpListener::bind(arguments.next().ok_or(usage)?).await?;
    let address = listener.local_addr()?.to_string();
    println!("serving on {address}");

    let client = Client::connect(endpoint).await?;
    let election = client.election("mailer");
    let (stop, stopped) = watch::channel(());
    let worker = tokio::spawn(lead(election.clone(), address, stopped));
    let app = Router::new()
        .route("/leader", get(leader))
        .with_state(Arc::new(election));
    let mut terminated = signal(SignalKind::terminate())?;
    axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            terminated.recv().await;
        })
        .await?;

    // The worker ends between two pieces of its work and resigns, so that the next replica leads at once.
    drop(stop);
    worker.await??;
    client.close().await;
    Ok(())
}

/// Does the work whenever this replica is elected, until the service stops.
async fn lead(
    election: Election,
    address: String,
    mut stopped: watch::Receiver<()>,
) -> Result<(), BoxError> {
    loop {
        let leadership = tokio::select! {
            _ = stopped.changed() => return Ok(()),
            // The value tells the other replicas where the leader is.
            leadership = election.campaign(address.clone()) => leadership?,
        };
        println!("leading with token {}", leadership.fencing_token());
        tokio::select! {
            // Nobody else can lead before this completes.
            reason = leadership.lost() => println!("no longer the leader: {reason}"),
            () = send_mails(&mut stopped) => return Ok(leadership.resign().await?),
        }
    }
}

/// Sends what has to be sent, until the service stops. A mail server would refuse a fencing token smaller than the largest that
/// it has seen.
async fn send_mails(stopped: &mut watch::Receiver<()>) {
    // An error says that the sender is gone, as does a change.
    while stopped.has_changed().is_ok_and(|has_changed| !has_changed) {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Answers with the leader's address.
async fn leader(State(election): State<Arc<Election>>) -> (StatusCode, String) {
    match election.leader().await {
        Ok(Some(leader)) => (
            StatusCode::OK,
            String::from_utf8_lossy(&leader.value).into(),
        ),
        Ok(None) => (StatusCode::NOT_FOUND, "nobody leads".to_owned()),
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, failure.to_string()),
    }
}
