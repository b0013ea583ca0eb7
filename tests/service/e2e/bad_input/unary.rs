//! Unary calls.

use leasehold_proto::v1::{
    AcquireRequest, CheckTokenRequest, ForceReleaseRequest, GetLockRequest, ListLocksRequest,
    ListSessionsRequest, LockMode, RequestReleaseRequest, admin_service_client::AdminServiceClient,
    force_release_request::Only, lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator,
    raw::{acquire_request, connect, release_request, renew_request},
};
use tonic::transport::Channel;

use super::{
    Bystander, assert_invalid,
    values::{bad_acquires, bad_names, bad_ttls, seconds},
};

#[tokio::test]
async fn unary_acquires_out_of_bounds_are_refused_by_field() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut client = LockServiceClient::new(connect(&coordinator.endpoint()).await);
    for (what, field, request) in bad_acquires() {
        let status = client.acquire(request).await.expect_err(what);
        assert_invalid(&status, field, what);
    }
    // Permits count as one where they are unset, and all of them may be asked for.
    for (permits, limit) in [(0, 1), (1_000_000, 1_000_000)] {
        let mut request = acquire_request(&format!("{permits} of {limit}"));
        request.set_mode(LockMode::Semaphore);
        (request.permits, request.limit) = (permits, limit);
        is_taken_and_released(&mut client, request).await;
    }
    // Nothing was taken on the way, and the bounds themselves are fine.
    for ttl in [seconds(1, 0), seconds(3_600, 0), None] {
        let request = AcquireRequest {
            name: "€".repeat(170) + "12",
            ttl,
            wait: seconds(86_400, 0),
            value: vec![0; 4_096],
            client_name: "c".repeat(256),
            mode: LockMode::Exclusive.into(),
            lock_delay: seconds(3_600, 0),
            ..AcquireRequest::default()
        };
        is_taken_and_released(&mut client, request).await;
    }
    bystander.assert_undisturbed().await;
}

async fn is_taken_and_released(client: &mut LockServiceClient<Channel>, request: AcquireRequest) {
    let name = request.name.clone();
    let owner_id = client.acquire(request).await.unwrap().into_inner().owner_id;
    assert_eq!(owner_id.len(), 16);
    let released = client.release(release_request(&name, &owner_id)).await;
    assert!(released.unwrap().into_inner().released);
}

#[tokio::test]
async fn renewals_and_releases_out_of_bounds_are_refused_and_unknown_ids_are_answered() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut client = LockServiceClient::new(connect(&coordinator.endpoint()).await);
    let mut bad = Vec::new();
    for (what, name) in bad_names() {
        bad.push((what, "name", name, 16));
    }
    for (what, length) in [
        ("no owner id", 0),
        ("15 bytes", 15),
        ("17 bytes", 17),
        ("a MiB", 1 << 20),
    ] {
        bad.push((what, "owner_id", "bystander".to_owned(), length));
    }
    for (what, field, name, length) in bad {
        let owner_id = vec![7; length];
        let released = client.release(release_request(&name, &owner_id)).await;
        assert_invalid(&released.expect_err(what), field, what);
        let renewed = client.renew(renew_request(&name, &owner_id)).await;
        assert_invalid(&renewed.expect_err(what), field, what);
    }
    let owner_id = [7; 16];
    for (what, ttl) in bad_ttls() {
        let mut request = renew_request("bystander", &owner_id);
        request.ttl = ttl;
        assert_invalid(&client.renew(request).await.expect_err(what), "ttl", what);
    }
    for name in ["bystander", "free"] {
        let released = client.release(release_request(name, &owner_id)).await;
        assert!(!released.unwrap().into_inner().released);
        let renewed = client.renew(renew_request(name, &owner_id)).await;
        assert!(!renewed.unwrap().into_inner().renewed);
    }
    bystander.assert_undisturbed().await;
}

#[tokio::test]
async fn admin_requests_out_of_bounds_are_refused_by_field() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut admin = AdminServiceClient::new(connect(&coordinator.endpoint()).await);
    let force = |name: &str, only| ForceReleaseRequest {
        name: name.to_owned(),
        only,
    };
    let check = |name: &str, fencing_token| CheckTokenRequest {
        name: name.to_owned(),
        fencing_token,
    };
    for (what, name) in bad_names() {
        let refused = [
            admin.force_release(force(&name, None)).await.map(drop),
            admin.check_token(check(&name, 1)).await.map(drop),
            admin.get_lock(GetLockRequest { name }).await.map(drop),
        ];
        for refused in refused {
            assert_invalid(&refused.expect_err(what), "name", what);
        }
    }
    for token in [0, -1, i64::MIN] {
        let forced = force("bystander", Some(Only::FencingToken(token)));
        let refused = [
            admin.force_release(forced).await.map(drop),
            admin.check_token(check("bystander", token)).await.map(drop),
        ];
        for refused in refused {
            let what = "a token that is not positive";
            assert_invalid(&refused.expect_err(what), "fencing_token", what);
        }
    }
    let forced = force("bystander", Some(Only::WaiterNumber(0)));
    let what = "a number that is not positive";
    let status = admin.force_release(forced).await.expect_err(what);
    assert_invalid(&status, "waiter_number", what);
    let request_release = || RequestReleaseRequest {
        name: "bystander".to_owned(),
        ..RequestReleaseRequest::default()
    };
    type Spoil = fn(&mut RequestReleaseRequest);
    let bad: [(&str, Spoil); 8] = [
        ("name", |it| it.name = String::new()),
        ("fencing_token", |it| it.fencing_token = -1),
        ("fencing_token", |it| it.fencing_token = i64::MIN),
        ("reason", |it| it.reason = "r".repeat(257)),
        ("reason", |it| it.reason = "two\nlines".to_owned()),
        ("within", |it| it.within = seconds(0, 999_999_999)),
        ("within", |it| it.within = seconds(-1, 0)),
        ("within", |it| it.within = seconds(24 * 60 * 60, 1)),
    ];
    for (field, spoil) in bad {
        let mut request = request_release();
        spoil(&mut request);
        let status = admin.request_release(request).await.unwrap_err();
        assert_invalid(&status, field, "a request to release out of bounds");
    }
    // The longest that may be; it means nobody.
    let longest = RequestReleaseRequest {
        fencing_token: i64::MAX,
        reason: "ä".repeat(128),
        within: seconds(24 * 60 * 60, 0),
        ..request_release()
    };
    let asked = admin.request_release(longest).await.unwrap();
    assert_eq!(asked.into_inner().asked_count, 0);
    // Names nobody.
    for only in [Only::FencingToken(i64::MAX), Only::WaiterNumber(u64::MAX)] {
        let forced = admin
            .force_release(force("bystander", Some(only)))
            .await
            .unwrap();
        assert!(!forced.into_inner().released, "{only:?}");
    }
    for page_size in [-1, i32::MIN] {
        let request = ListLocksRequest {
            page_size,
            ..ListLocksRequest::default()
        };
        let status = admin.list_locks(request).await.unwrap_err();
        assert_invalid(&status, "page_size", "a page size out of bounds");
        let request = ListSessionsRequest {
            page_size,
            ..ListSessionsRequest::default()
        };
        let status = admin.list_sessions(request).await.unwrap_err();
        assert_invalid(&status, "page_size", "a page size out of bounds");
    }
    for page_token in ["no such page", "\u{0}", &"9".repeat(2_000)] {
        let request = ListSessionsRequest {
            page_token: page_token.to_owned(),
            ..ListSessionsRequest::default()
        };
        let status = admin.list_sessions(request).await.unwrap_err();
        assert_invalid(&status, "page_token", "a page token that is none");
    }
    let request = ListLocksRequest {
        prefix: "p".repeat(513),
        ..ListLocksRequest::default()
    };
    let status = admin.list_locks(request).await.unwrap_err();
    assert_invalid(&status, "prefix", "a prefix of 513 bytes");
    bystander.assert_undisturbed().await;
}
