//! Refusals of unknown callers, of missing permissions and over limits: told apart, and not taken for passing
//! trouble.

use std::time::{Duration, Instant};

use leasehold_client::{AcquireError, Client, ConnectError, LockState};
use leasehold_proto::v1::{AcquireRequest, lock_service_client::LockServiceClient};
use leasehold_tests::{certificates::replace, wait};
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{LIMIT, gate::Gate};

fn full(retry_after: Duration) -> Status {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(retry_after));
    let limit = [("limit".to_owned(), "1".to_owned())];
    details.set_error_info("TOO_MANY_SESSIONS", "leasehold", limit);
    Status::with_error_details(Code::ResourceExhausted, "it is full", details)
}

#[tokio::test]
async fn the_token_goes_with_calls_and_sessions() {
    let (gate, endpoint) = Gate::open().await;
    let client = Client::builder().bearer_token("lh_secret");
    assert!(!format!("{client:?}").contains("secret"));
    let client = client.connect(endpoint).await.unwrap();
    let mut stub = LockServiceClient::new(client.channel());
    stub.acquire(AcquireRequest::default()).await.unwrap();
    assert_eq!(gate.seen(), ["Bearer lh_secret", "Bearer lh_secret"]);
    assert!(!format!("{client:?}").contains("secret"));
}

#[tokio::test]
async fn a_session_that_is_refused_says_how() {
    let (gate, endpoint) = Gate::open().await;
    let connect = |status| {
        gate.refuse(Some(status));
        let endpoint = endpoint.clone();
        async move { Client::connect(endpoint).await.unwrap_err() }
    };
    let error = connect(Status::unauthenticated("who are you?")).await;
    assert!(
        matches!(error, ConnectError::Unauthenticated { .. }),
        "{error:?}"
    );
    assert!(!error.is_retryable());
    let error = connect(Status::permission_denied("not you")).await;
    assert!(
        matches!(error, ConnectError::PermissionDenied { .. }),
        "{error:?}"
    );
    assert!(!error.is_retryable());
    let hint = Duration::from_millis(2_500);
    let error = connect(full(hint)).await;
    assert!(error.is_retryable());
    let failure = error.failure().unwrap();
    assert_eq!(failure.metadata("limit"), Some("1"));
    let ConnectError::LimitReached { retry_after, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(retry_after, Some(hint));
}

#[tokio::test]
async fn an_acquire_that_is_refused_says_how() {
    let (_gate, endpoint) = Gate::open().await;
    let client = Client::connect(endpoint).await.unwrap();
    let error = client.lock("denied").await.unwrap_err();
    let AcquireError::PermissionDenied { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(source.metadata("permission"), Some("acquire"));
    assert!(!error.is_retryable());
    let error = client.lock("limited").await.unwrap_err();
    assert!(
        matches!(error, AcquireError::LimitReached { .. }),
        "{error:?}"
    );
    assert!(error.is_retryable());
    // Neither ends the session.
    let guard = client.lock("a").await.unwrap();
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_full_coordinator_is_asked_again_when_it_said() {
    let (gate, endpoint) = Gate::open().await;
    let client = Client::connect(endpoint).await.unwrap();
    let hint = Duration::from_secs(1);
    gate.refuse(Some(full(hint)));
    gate.disown();
    wait::until("another attempt", LIMIT, || async {
        match gate.seen().len() {
            2 => Ok(()),
            attempts => Err(attempts),
        }
    })
    .await;
    let refused = Instant::now();
    gate.refuse(None);
    // It waits, since the refusal is nothing that lasts.
    let acquired = timeout(LIMIT, client.lock("a")).await.unwrap();
    assert!(acquired.unwrap().is_held());
    // The refusal was a moment before it was seen here.
    assert!(refused.elapsed() > hint / 2, "{:?}", refused.elapsed());
    assert_eq!(gate.seen().len(), 3);
}

#[tokio::test]
async fn a_session_whose_identity_expires_goes_on_with_the_token_as_it_is_then() {
    let (gate, endpoint) = Gate::open().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    replace(&path, "first\n");
    gate.take("Bearer first");
    let client = Client::builder().bearer_token_file(&path);
    let client = client.connect(endpoint).await.unwrap();
    let guard = client.lock("a").await.unwrap();

    gate.take("Bearer second");
    replace(&path, "second\n");
    gate.disown();
    // Without a grace, and yet it is not lost: whoever disowns it keeps it for as long as was promised.
    wait::until("the session to be resumed", LIMIT, || async {
        match (gate.seen().last().map(String::as_str), guard.state()) {
            (Some("Bearer second"), LockState::Held) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(guard.fencing_token().get(), 42);
    guard.release().await.unwrap();

    // Once nobody knows the token, whoever waits is told, and does not wait for ever.
    gate.take("Bearer third");
    gate.disown();
    let waiting = timeout(LIMIT, client.lock("b")).await.unwrap();
    match waiting {
        Err(error) => assert!(
            matches!(error, AcquireError::Unauthenticated { .. }),
            "{error:?}"
        ),
        Ok(_) => panic!("it was granted"),
    }
}

#[tokio::test]
async fn a_token_that_is_replaced_in_time_costs_nothing() {
    let (gate, endpoint) = Gate::open().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    replace(&path, "first");
    let client = Client::builder().bearer_token_file(&path);
    let client = client.connect(endpoint).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    replace(&path, "second");
    wait::until("the session to come with the new one", LIMIT, || async {
        assert_eq!(guard.state(), LockState::Held);
        match gate.seen() {
            seen if seen == ["Bearer first", "Bearer second"] => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    guard.release().await.unwrap();
}
