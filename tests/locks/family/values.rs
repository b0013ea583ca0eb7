//! Values attached to holds, in every mode.

use leasehold_proto::v1::GrantedLock;
use leasehold_tests::{Site, raw::with_value, site::everywhere};

use crate::family::want::{Want, pairs};

/// Returns the values of a name's holders, as the coordinators show them: all the same.
async fn values(site: &Site, name: &str) -> Vec<String> {
    let mut shown = Vec::new();
    for at in 0..2 {
        let view = site.view(at, name).await;
        let mut values: Vec<_> = view
            .holders
            .into_iter()
            .map(|holder| String::from_utf8(holder.value).unwrap())
            .collect();
        values.sort();
        shown.push(values);
    }
    assert_eq!(shown[0], shown[1]);
    shown.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_set_at_the_acquire_and_changed_by_its_owner_alone_in_every_mode() {
    everywhere(async |site| {
        for pair in pairs("value") {
            let mut session = site.session(0).await;
            let mut other = site.session(1).await;
            let held = session.take(with_value("first", pair.held.acquire())).await;
            for lock in &held {
                assert_eq!(values(site, &lock.name).await, ["first"], "{}", pair.what);
                let wrong = GrantedLock {
                    owner_id: vec![7; 16],
                    ..lock.clone()
                };
                assert!(!other.set_value(&wrong, "a stranger's").await);
                assert!(!session.set_value(&wrong, "of no hold").await);
                assert_eq!(values(site, &lock.name).await, ["first"], "{}", pair.what);
                assert!(session.set_value(lock, "second").await);
                assert_eq!(values(site, &lock.name).await, ["second"], "{}", pair.what);
            }
            // Not by who held it before, neither beside a new holder nor on its own.
            for lock in &held {
                assert!(session.release(lock).await);
                assert!(!session.set_value(lock, "too late").await);
            }
            let next = other.take(with_value("next", pair.wanted.acquire())).await;
            for lock in &held {
                assert!(!session.set_value(lock, "too late").await, "{}", pair.what);
            }
            for lock in &next {
                assert_eq!(values(site, &lock.name).await, ["next"], "{}", pair.what);
            }
            other.close().await;
            for name in pair.wanted.names() {
                assert!(values(site, name).await.is_empty(), "{}", pair.what);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_holders_has_a_value_of_its_own_that_outlives_a_downgrade() {
    everywhere(async |site| {
        let (mut one, mut two) = (site.session(0).await, site.session(1).await);
        let (read, permits) = ("many/read".to_owned(), "many/permits".to_owned());
        for want in [Want::Shared(read), Want::Permits(permits, 1, 3)] {
            let name = want.names()[0].clone();
            let first = one.take_one(with_value("one", want.acquire())).await;
            let second = two.take_one(with_value("two", want.acquire())).await;
            assert_eq!(values(site, &name).await, ["one", "two"]);
            assert!(two.set_value(&second, "three").await);
            assert_eq!(values(site, &name).await, ["one", "three"]);
            // The longest that there may be, and none.
            let long = "v".repeat(4_096);
            assert!(one.set_value(&first, &long).await);
            assert_eq!(values(site, &name).await, ["three", &long]);
            assert!(two.set_value(&second, "").await);
            assert_eq!(values(site, &name).await, ["", &long]);
            assert!(one.release(&first).await);
            assert_eq!(values(site, &name).await, [""]);
            assert!(two.release(&second).await);
        }
        let written = Want::Exclusive("many/written".to_owned());
        let written = one.take_one(with_value("written", written.acquire())).await;
        assert!(one.downgrade(&written).await);
        assert_eq!(values(site, "many/written").await, ["written"]);
        assert!(one.set_value(&written, "read").await);
        assert_eq!(values(site, "many/written").await, ["read"]);
    })
    .await;
}
