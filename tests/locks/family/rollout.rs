//! A rollout that changes a semaphore's limit under load, from versions of a service that run side by side: each grant keeps to
//! the limit in force, the limit changes once for each version, and nobody starves.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_client::{Client, LockEventKind, LockWatchEvent, LockWatcher};
use leasehold_tests::{
    Site, report,
    site::{TTL, everywhere},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

const NAME: &str = "rollout";
const CLIENTS: usize = 6;
const TASKS: usize = 2;
const CYCLES: usize = 12;
/// More than any cycle of all tasks together takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The limit of each version: its revision is the version's number.
const LIMITS: [u32; 3] = [5, 8, 3];

/// Record of a watcher: the permits taken and the limit in force, in the order of the store.
struct Ledger {
    watcher: LockWatcher,
    taken: u32,
    limit: u32,
    most: u32,
    changes: Vec<(u32, u32)>,
    grants: usize,
}

impl Ledger {
    async fn open(site: &Site) -> Self {
        let client = Client::connect(site.endpoint(1)).await.unwrap();
        let mut watcher = client.admin().watch_locks(NAME);
        while watcher.next().await.unwrap().unwrap() != LockWatchEvent::Ready {}
        Self {
            watcher,
            taken: 0,
            limit: LIMITS[0],
            most: 0,
            changes: Vec::new(),
            grants: 0,
        }
    }

    /// Reads events until nobody holds anything any more, and checks each grant.
    async fn read(mut self) -> Self {
        loop {
            let event = match self.watcher.next().await.unwrap().unwrap() {
                LockWatchEvent::Event(event) => event,
                other => panic!("no event: {other:?}"),
            };
            let permits = || event.holder.as_ref().unwrap().permits.unwrap();
            match event.kind {
                LockEventKind::Granted => {
                    self.grants += 1;
                    self.taken += permits();
                    self.most = self.most.max(self.taken);
                    assert!(
                        self.taken <= self.limit,
                        "{} of {} after {event:?}",
                        self.taken,
                        self.limit
                    );
                }
                LockEventKind::Released => self.taken -= permits(),
                LockEventKind::LimitChanged => {
                    self.limit = event.limit.unwrap();
                    self.changes.push((self.limit, event.limit_revision));
                }
                LockEventKind::Queued => {}
                other => panic!("{other:?}: {event:?}"),
            }
            if event.holder_count == 0 && event.waiter_count == 0 && self.taken == 0 {
                return self;
            }
        }
    }
}

/// Runs load from these versions side by side. Each task takes what it can have under any limit of them.
async fn load(clients: &[Client], versions: &[usize], seed: u64) {
    let tasks = clients.iter().cycle().take(CLIENTS * TASKS);
    let smallest = versions.iter().map(|version| LIMITS[*version]).min();
    // Beside the one that is always held.
    let most = smallest.unwrap_or(2) - 1;
    let tasks = tasks.zip(versions.iter().cycle()).zip(0..);
    join_all(tasks.map(|((client, version), number)| async move {
        let mut random = StdRng::seed_from_u64(seed + number);
        let semaphore = client
            .semaphore(NAME, LIMITS[*version])
            .limit_revision(u32::try_from(*version).unwrap());
        for _ in 0..CYCLES {
            let permits = random.random_range(1..=most.min(3));
            let permit = semaphore.permits(permits).wait(PATIENCE).await.unwrap();
            assert_eq!(permit.permits(), permits);
            tokio::time::sleep(Duration::from_micros(random.random_range(0..3_000))).await;
            assert!(permit.is_held());
            permit.release().await.unwrap();
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_changes_once_for_each_version_while_the_former_ones_still_run() {
    everywhere(async |site| {
        let ledger = Ledger::open(site).await;
        let reading = tokio::spawn(ledger.read());
        let clients = (0..CLIENTS).map(|at| async move {
            let client = Client::builder().ttl(TTL);
            client.connect(site.endpoint(at)).await.unwrap()
        });
        let clients = join_all(clients).await;
        let seed = StdRng::from_os_rng().random_range(0..1_000_000);
        report(format!("rolled out with seed {seed}"));

        // Somebody always holds a permit, so that every change is one of a semaphore in use.
        let always = clients[0].semaphore(NAME, LIMITS[0]);
        let always = always.permits(1).await.unwrap();
        load(&clients, &[0], seed).await;
        load(&clients, &[0, 1], seed + 100).await;
        // Until here a version that knows nothing of revisions has got along with a greater limit, from here on with a smaller.
        load(&clients, &[1, 2, 0], seed + 200).await;
        let view = site.view(1, NAME).await;
        assert_eq!((view.limit, view.limit_revision), (LIMITS[2], 2));
        always.release().await.unwrap();

        let ledger = reading.await.unwrap();
        assert_eq!(ledger.changes, [(LIMITS[1], 1), (LIMITS[2], 2)]);
        assert_eq!(ledger.grants, 3 * CLIENTS * TASKS * CYCLES + 1);
        assert!(ledger.most > LIMITS[0], "{} at most", ledger.most);
    })
    .await;
}
