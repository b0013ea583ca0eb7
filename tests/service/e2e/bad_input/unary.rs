//! Unary calls.

use leasehold_proto::v1::{
    AcquireRequest, CheckTokenRequest, ForceReleaseRequest, GetLockRequest, ListLocksRequest,
    ListSessionsRequest, LockMode, ReleaseRequest, RenewRequest, RequestReleaseRequest,
    admin_service_client::AdminServiceClient, force_release_request::Only,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{Coordinator, raw::connect};

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
        let name = format!("{permits} of {limit}");
        let request = AcquireRequest {
            name: name.clone(),
            mode: LockMode::Semaphore.into(),
            permits,
            limit,
            ..AcquireRequest::default()
        };
        let owner_id = client.acquire(request).await.unwrap().into_inner().owner_id;
        let released = client.release(ReleaseRequest { name, owner_id });
        assert!(released.await.unwrap().into_inner().released);
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
        let name = request.name.clone();
        let owner_id = client.acquire(request).await.unwrap().into_inner().owner_id;
        assert_eq!(owner_id.len(), 16);
        let released = client
            .release(ReleaseRequest { name, owner_id })
            .await
            .unwrap();
        assert!(released.into_inner().released);
    }
    bystander.assert_undisturbed().await;
}

#[tokio::test]
async fn renewals_and_releases_out_of_bounds_are_refused_and_unknown_ids_are_answered() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut client = LockServiceClient::new(connect(&coordinator.endpoint()).await);
    let owner_id = vec![7; 16];
    for (what, name) in bad_names() {
        let request = ReleaseRequest {
            name: name.clone(),
            owner_id: owner_id.clone(),
        };
        assert_invalid(
            &client.release(request).await.expect_err(what),
            "name",
            what,
        );
        let request = RenewRequest {
            name,
            owner_id: owner_id.clone(),
            ttl: None,
        };
        assert_invalid(&client.renew(request).await.expect_err(what), "name", what);
    }
    for (what, length) in [
        ("no owner id", 0),
        ("15 bytes", 15),
        ("17 bytes", 17),
        ("a MiB", 1 << 20),
    ] {
        let (name, owner_id) = ("bystander".to_owned(), vec![7; length]);
        let request = ReleaseRequest {
            name: name.clone(),
            owner_id: owner_id.clone(),
        };
        assert_invalid(
            &client.release(request).await.expect_err(what),
            "owner_id",
            what,
        );
        let request = RenewRequest {
            name,
            owner_id,
            ttl: None,
        };
        assert_invalid(
            &client.renew(request).await.expect_err(what),
            "owner_id",
            what,
        );
    }
    for (what, ttl) in bad_ttls() {
        let request = RenewRequest {
            name: "bystander".to_owned(),
            owner_id: owner_id.clone(),
            ttl,
        };
        assert_invalid(&client.renew(request).await.expect_err(what), "ttl", what);
    }
    for name in ["bystander", "free"] {
        let request = ReleaseRequest {
            name: name.to_owned(),
            owner_id: owner_id.clone(),
        };
        assert!(!client.release(request).await.unwrap().into_inner().released);
        let request = RenewRequest {
            name: name.to_owned(),
            owner_id: owner_id.clone(),
            ttl: None,
        };
        assert!(!client.renew(request).await.unwrap().into_inner().renewed);
    }
    bystander.assert_undisturbed().await;
}

#[tokio::test]
async fn admin_requests_out_of_bounds_are_refused_by_field() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut admin = AdminServiceClient::new(connect(&coordinator.endpoint()).await);
    for (what, name) in bad_names() {
        let request = GetLockRequest { name: name.clone() };
        assert_invalid(
            &admin.get_lock(request).await.expect_err(what),
            "name",
            what,
        );
        let request = ForceReleaseRequest {
            name: name.clone(),
            only: None,
        };
        assert_invalid(
            &admin.force_release(request).await.expect_err(what),
            "name",
            what,
        );
        let request = CheckTokenRequest {
            name,
            fencing_token: 1,
        };
        assert_invalid(
            &admin.check_token(request).await.expect_err(what),
            "name",
            what,
        );
    }
    for fencing_token in [0, -1, i64::MIN] {
        let request = CheckTokenRequest {
            name: "bystander".to_owned(),
            fencing_token,
        };
        let status = admin.check_token(request).await.unwrap_err();
        assert_invalid(&status, "fencing_token", "a token that is not positive");
        let request = ForceReleaseRequest {
            name: "bystander".to_owned(),
            only: Some(Only::FencingToken(fencing_token)),
        };
        let status = admin.force_release(request).await.unwrap_err();
        assert_invalid(&status, "fencing_token", "a token that is not positive");
    }
    let request = |only| ForceReleaseRequest {
        name: "bystander".to_owned(),
        only: Some(only),
    };
    let status = admin.force_release(request(Only::WaiterNumber(0))).await;
    assert_invalid(
        &status.unwrap_err(),
        "waiter_number",
        "a number that is not positive",
    );
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
    for only in [
        Only::FencingToken(1),
        Only::FencingToken(i64::MAX),
        Only::WaiterNumber(1),
        Only::WaiterNumber(u64::MAX),
    ] {
        let forced = admin.force_release(request(only)).await.unwrap();
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
