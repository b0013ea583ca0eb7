//! Coordinators on several independent masters. The suite of conformance has all that they offer.

use leasehold_tests::{Coordinator, CoordinatorProcess, Masters, RawSession};
use tonic::Code;

use crate::quorum::site::{MAX_TTL, PROMPT};

/// Returns a coordinator process on them.
pub(crate) fn start(masters: &Masters) -> CoordinatorProcess {
    let options = Coordinator::process().store(format!("redis+quorum://{}", masters.hosts()));
    let options = options.arguments(["--store-timeout=200ms", "--min-ttl=500ms"]);
    let max = format!("{}ms", MAX_TTL.as_millis());
    options
        .arguments([format!("--max-ttl={max}"), format!("--default-ttl={max}")])
        .start()
}

/// Returns a session that sends heartbeats by itself.
pub(crate) async fn session(coordinator: &CoordinatorProcess) -> RawSession {
    let mut session = RawSession::open(&coordinator.endpoint(), MAX_TTL).await;
    session.keep_alive(MAX_TTL / 5);
    session
}

#[tokio::test]
async fn without_a_majority_clients_hear_unavailable_and_why() {
    let mut masters = Masters::start(5).bootstrapped();
    let coordinator = start(&masters);
    let mut session = session(&coordinator).await;
    for place in [0, 2, 4] {
        masters.kill(place);
    }
    let id = session.ask("x", None).await;
    let failure = session.refusal(id, PROMPT).await;
    assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
    assert_eq!(failure.reason, "STORE_UNAVAILABLE");
    assert!(failure.message.contains("and 3 are needed"), "{failure:?}");
}
