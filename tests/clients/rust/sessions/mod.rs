//! Sessions against a real coordinator, over connections that break.

mod closing;
mod detached;
mod examples;
mod family;
mod life;
mod moving;
mod recipes;
mod requests;
mod unanswered;

use leasehold_client::Client;
use leasehold_tests::wait;

use crate::LIMIT;

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
