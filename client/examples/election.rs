//! Example of an election: campaigns, observes the leader, resigns, and runs work for as long as it leads.
//!
//! ```text
//! cargo run --example election -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use leasehold_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1).ok_or("usage: election ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let election = client.election("scheduler");

    // The value is for observers: the leader's address, for example.
    let leadership = election.campaign("10.0.0.7:8080").await?;
    println!("leading with token {}", leadership.fencing_token());
    let mut observer = election.observe();
    if let Some(change) = observer.next().await {
        match change?.leader {
            Some(leader) => println!("{} leads", String::from_utf8_lossy(&leader.value)),
            None => println!("nobody leads"),
        }
    }
    leadership.resign().await?;

    // Campaigns again and begins the work anew whenever the leadership is lost.
    let jobs = election
        .run_while_leader("10.0.0.7:8080", |leadership| async move {
            println!("leading again with token {}", leadership.fencing_token());
            3
        })
        .await?;
    println!("ran {jobs} jobs and resigned");

    client.close().await;
    Ok(())
}
