//! Example of a barrier: three participants begin their work when all of them have arrived.
//!
//! ```text
//! cargo run --example barrier -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_client::{Admin, Client, LockGuard, LockView, LockWatchEvent, Session};
use tokio::task::JoinSet;

type Failed = Box<dyn Error + Send + Sync>;

/// Each round has a name of its own.
const BARRIER: &str = "barrier/import/1";
const PARTICIPANTS: usize = 3;
/// The value of a participant that has seen all of them.
const PASSED: &[u8] = b"passed";

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let endpoint = std::env::args().nth(1).ok_or("usage: barrier ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let arrived = Arc::<AtomicUsize>::default();

    // Leaves a hold, as a participant does whose coordinator was killed. It arrives again, and counts once.
    let left = client
        .detached_lock(BARRIER)
        .shared()
        .value("participant-1");
    left.ttl(Duration::from_secs(1)).acquire().await?;

    let mut tasks = JoinSet::new();
    for number in 1..=PARTICIPANTS {
        // Each would be a process of its own.
        let session = client.session().open().await?;
        let (admin, arrived) = (client.admin(), Arc::clone(&arrived));
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(20) * u32::try_from(number)?).await;
            println!("participant {number} arrives");
            arrived.fetch_add(1, Ordering::Relaxed);
            let place = meet(&session, &admin, &format!("participant-{number}")).await?;
            assert_eq!(arrived.load(Ordering::Relaxed), PARTICIPANTS);
            println!("participant {number} works");
            leave(place, &admin).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    println!("all have met");

    client.close().await;
    Ok(())
}

/// Arrives, and returns when all have arrived. A participant whose place is lost arrives again.
async fn meet(session: &Session, admin: &Admin, name: &str) -> Result<LockGuard, Failed> {
    loop {
        let place = session.lock(BARRIER).shared().value(name).await?;
        tokio::select! {
            seen = until(admin, all_are_here) => seen?,
            _ = place.lost() => continue,
        }
        // A participant that looks late sees this, even when others have left.
        if place.set_value(PASSED).await.is_ok() {
            return Ok(place);
        }
    }
}

/// Returns whether all participants have arrived. One that lost its place and arrived again counts once, though the store may
/// still show its former place.
fn all_are_here(lock: &LockView) -> bool {
    let values: BTreeSet<_> = lock.holders.iter().map(|holder| &*holder.value).collect();
    values.len() >= PARTICIPANTS || values.contains(PASSED)
}

/// Leaves when all that are still here have passed.
async fn leave(place: LockGuard, admin: &Admin) -> Result<(), Failed> {
    let all_have_passed =
        |lock: &LockView| lock.holders.iter().all(|holder| holder.value == PASSED);
    tokio::select! {
        seen = until(admin, all_have_passed) => seen?,
        _ = place.lost() => return Ok(()),
    }
    Ok(place.release().await?)
}

/// Waits until the barrier looks like this.
async fn until(admin: &Admin, wanted: impl Fn(&LockView) -> bool) -> Result<(), Failed> {
    let mut watcher = admin.watch_locks(BARRIER);
    while let Some(news) = watcher.next().await {
        // Any news, a gap too, is a reason to look: what counts is the lock itself.
        let is_of_another = match news? {
            LockWatchEvent::Lock(lock) => lock.name != BARRIER,
            LockWatchEvent::Event(event) => event.name != BARRIER,
            _ => false,
        };
        if !is_of_another && wanted(&admin.get_lock(BARRIER).await?) {
            return Ok(());
        }
    }
    Err("the watch has ended".into())
}
