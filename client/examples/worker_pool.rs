//! Example of workers on several machines that share a service which bears three requests at a time, and not one more.
//!
//! ```text
//! cargo run --example worker_pool -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    collections::VecDeque,
    error::Error,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use leasehold_client::Client;
use tokio::{task::JoinSet, time::sleep};

type BoxError = Box<dyn Error + Send + Sync>;

const AT_ONCE: u32 = 3;

/// The jobs, which a worker takes one by one.
type Jobs = Arc<Mutex<VecDeque<u32>>>;

/// Service that fails when it has too much to do.
#[derive(Default)]
struct Thumbnails {
    requests: AtomicU32,
    made: AtomicU32,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let endpoint = std::env::args()
        .nth(1)
        .ok_or("usage: worker_pool ENDPOINT")?;
    let jobs: Jobs = Arc::new(Mutex::new((1..=40).collect()));
    let service = Arc::new(Thumbnails::default());
    let mut workers = JoinSet::new();
    for machine in 1..=2 {
        let client = Client::builder()
            .client_name(format!("machine {machine}"))
            .connect(endpoint.as_str())
            .await?;
        // More workers than the service bears: what else they do needs no permit.
        for _ in 0..4 {
            workers.spawn(work(client.clone(), jobs.clone(), service.clone()));
        }
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    println!("made {} thumbnails", service.made.load(SeqCst));
    Ok(())
}

async fn work(client: Client, jobs: Jobs, service: Arc<Thumbnails>) -> Result<(), BoxError> {
    let permits = client.semaphore("thumbnails", AT_ONCE);
    loop {
        let job = jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some(job) = job else { return Ok(()) };
        // Stops at the next await if the permit is lost: somebody else may have it from then on.
        let made = permits
            .permits(1)
            .try_with(|_permit| service.make(job))
            .await;
        if let Err(error) = made {
            println!("picture {job} comes again: {error}");
            jobs.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_back(job);
        }
    }
}

impl Thumbnails {
    async fn make(&self, _picture: u32) -> Result<(), BoxError> {
        let requests = self.requests.fetch_add(1, SeqCst) + 1;
        assert!(requests <= AT_ONCE, "{requests} requests at once");
        sleep(Duration::from_millis(10)).await;
        self.requests.fetch_sub(1, SeqCst);
        self.made.fetch_add(1, SeqCst);
        Ok(())
    }
}
