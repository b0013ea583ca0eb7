//! Acquires that are cancelled, time out or are cut off leave nothing behind, in Redis or in the coordinator.

use std::time::Duration;

use leasehold_client::{Client, Session};
use leasehold_proto::v1::AcquireRequest;
use leasehold_tests::{
    FaultProxy, RawSession, Site,
    proxy::Cut,
    raw::{PROMPT, wire},
    report,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Acquires of each kind of trouble.
const EACH: u32 = 250;
const NAMES: u32 = 24;
const SEED: u64 = 20_240_817;
/// Longer than the test: what is left to it counts as left.
const TTL: Duration = Duration::from_secs(300);
/// Unary grants whose answer was cut off may only end by their TTL.
const UNARY_TTL: Duration = Duration::from_secs(1);

/// Ways in which a session that has asked for locks ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Each acquire is cancelled or times out; then the session is closed, or this side of its stream.
    Cancelled,
    /// The stream is reset.
    Dropped,
    /// The connection is cut.
    Cut,
}

struct Trouble<'a> {
    site: &'a Site,
    random: StdRng,
}

impl<'a> Trouble<'a> {
    fn new(site: &'a Site, number: u64) -> Self {
        Self {
            site,
            random: StdRng::seed_from_u64(SEED + number),
        }
    }

    fn name(&mut self) -> String {
        format!("cleanup/{}", self.random.random_range(0..NAMES))
    }

    fn moment(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.random.random_range(0..most))
    }

    /// Opens one session after the other; what they are granted is released or left to their end.
    async fn sessions(mut self, end: End) {
        let mut asked = 0;
        while asked < EACH {
            let proxy = FaultProxy::before(&self.site.endpoint(0)).await;
            let mut session = match end {
                End::Cut => RawSession::open(&proxy.endpoint(), TTL).await,
                _ => RawSession::open_on(self.site.channel(0), TTL).await,
            };
            let count = self.random.random_range(1..12);
            asked += count;
            for _ in 0..count {
                let name = self.name();
                let wait = self.moment(4_000);
                match end {
                    End::Cancelled if self.random.random() => {
                        session.ask(&name, Some(wait)).await;
                    }
                    End::Cancelled => {
                        let id = session.ask(&name, None).await;
                        tokio::time::sleep(wait).await;
                        session.cancel(id).await;
                    }
                    _ => {
                        session.ask(&name, None).await;
                    }
                }
            }
            tokio::time::sleep(self.moment(5_000)).await;
            match end {
                End::Cancelled if self.random.random() => session.close().await,
                End::Cancelled => {
                    session.half_close();
                    session.end(PROMPT).await.ok();
                }
                End::Dropped => drop(session),
                End::Cut if self.random.random() => proxy.cut(Cut::Fin).await,
                End::Cut => proxy.cut(Cut::Rst).await,
            }
        }
    }

    /// Cancels unary calls. One that was granted in time is released by nobody, as by a caller that dies.
    async fn calls(mut self) {
        for _ in 0..EACH {
            let mut client = self.site.unary(0);
            let request = AcquireRequest {
                name: self.name(),
                ttl: wire(UNARY_TTL),
                wait: wire(self.moment(100_000)),
                ..AcquireRequest::default()
            };
            let moment = self.moment(5_000);
            let _ = tokio::time::timeout(moment, client.acquire(request)).await;
        }
    }

    /// Drops futures of the Rust client, or their guards.
    async fn futures(mut self, client: Session) {
        for _ in 0..EACH {
            let name = self.name();
            let moment = self.moment(5_000);
            let acquire = client.lock(name).into_future();
            if let Ok(guard) = tokio::time::timeout(moment, acquire).await {
                drop(guard);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_that_are_cancelled_timed_out_or_cut_off_leave_nothing() {
    let site = Site::redis(1).await;
    let tasks_before = site.metric(0, "leasehold_tasks").await;
    let client = Client::connect(site.endpoint(0)).await.unwrap();
    let session = client.session().ttl(TTL).open().await.unwrap();
    tokio::join!(
        Trouble::new(&site, 0).sessions(End::Cancelled),
        Trouble::new(&site, 1).sessions(End::Cancelled),
        Trouble::new(&site, 2).sessions(End::Dropped),
        Trouble::new(&site, 3).sessions(End::Cut),
        Trouble::new(&site, 4).calls(),
        Trouble::new(&site, 5).futures(session),
    );
    client.close().await;
    let [grants, handed] = [
        site.sum("leasehold_grants_total").await,
        site.sum("leasehold_handoffs_total").await,
    ];
    report(format!(
        "seed {SEED}: {grants} grants, {handed} of them hand-offs"
    ));
    assert!(handed > 0.0);
    leasehold_tests::wait::until("the coordinator's tasks to end", PROMPT, || async {
        let tasks = site.metric(0, "leasehold_tasks").await;
        if tasks <= tasks_before {
            Ok(())
        } else {
            Err(tasks)
        }
    })
    .await;
    site.nothing_is_left().await;
}
