//! Streams on which only the coordinator speaks, and their end when the right to them ends.

use leasehold_proto::v1::{ObserveRequest, ObserveResponse, WatchLocksRequest, WatchLocksResponse};
use tonic::{Code, Streaming};

use super::site::{Caller, NOTICED, Site, missing, reason, table};

async fn watch(caller: &Caller, prefix: &str) -> Streaming<WatchLocksResponse> {
    let prefix = prefix.to_owned();
    let asked = caller.says(WatchLocksRequest { prefix });
    caller
        .admin()
        .watch_locks(asked)
        .await
        .unwrap()
        .into_inner()
}

async fn observe(caller: &Caller, election: &str) -> Streaming<ObserveResponse> {
    let election = election.to_owned();
    let asked = caller.says(ObserveRequest { election });
    caller
        .elections()
        .observe(asked)
        .await
        .unwrap()
        .into_inner()
}

async fn end<T>(stream: &mut Streaming<T>) -> tonic::Status {
    let read = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended without a reason"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(NOTICED, read)
        .await
        .expect("the stream ends")
}

#[tokio::test]
async fn a_stream_ends_with_its_permission() {
    let rules = |locks: &str, elections: &str| {
        table("token:a", "inspect", "locks", locks)
            + &table("token:a", "inspect", "elections", elections)
    };
    let mut site = Site::start(&rules("a/", "e"));
    let caller = site.newcomer("a").await;
    let (mut watched, mut narrow) = (watch(&caller, "a/").await, watch(&caller, "a/b/").await);
    let (mut observed, mut other) = (observe(&caller, "e").await, observe(&caller, "e/2").await);
    // A part of what is watched is not enough; a part of what is permitted is.
    site.permit(&rules("a/b/", "e/"));
    let on = |name: &str| ("inspect".to_owned(), name.to_owned());
    assert_eq!(missing(&end(&mut watched).await), on("a/"));
    assert_eq!(missing(&end(&mut observed).await), on("e"));
    assert!(narrow.message().await.unwrap().is_some());
    assert!(other.message().await.unwrap().is_some());
    site.remove("a");
    for refused in [end(&mut narrow).await, end(&mut other).await] {
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert_eq!(reason(&refused), "UNAUTHENTICATED");
    }
}
