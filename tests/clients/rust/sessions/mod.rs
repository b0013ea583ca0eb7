//! Sessions against a real coordinator, over connections that break.

mod actors;
mod bounded;
mod breaks;
mod detached;
mod examples;
mod family;
mod life;
mod moving;
mod requests;
mod rolling;
mod unanswered;

use std::time::Duration;

use leasehold_client::Client;
use leasehold_tests::wait;

const LIMIT: Duration = Duration::from_secs(20);

/// Waits until the coordinator's only other session holds and waits for as many as said. The asking client's own
/// session is left out.
async fn counted(admin_client: &Client, holds: u32, waiters: u32) {
    let own = admin_client.default_session().info().unwrap().session_id;
    wait::until("the session's counts", LIMIT, || {
        let (admin, own) = (admin_client.admin(), own.clone());
        async move {
            let mut sessions = admin.list_sessions().await.unwrap();
            sessions.retain(|session| session.session_id != own);
            let counts: Vec<_> = sessions
                .iter()
                .map(|session| (session.hold_count, session.waiter_count))
                .collect();
            if counts == [(holds, waiters)] {
                Ok(())
            } else {
                Err(counts)
            }
        }
    })
    .await;
}

/// Waits until that many wait for a lock.
async fn waiters(client: &Client, name: &str, count: u64) {
    wait::until("the number of waiters", LIMIT, || async {
        match client.admin().get_lock(name).await.unwrap().waiter_count {
            waiters if waiters == count => Ok(()),
            waiters => Err(waiters),
        }
    })
    .await;
}
