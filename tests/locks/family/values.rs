//! Values attached to holds, in every mode.

use leasehold_tests::{
    Site,
    raw::{exclusive, semaphore, shared, with_value},
    site::everywhere,
};

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
async fn each_of_many_holders_has_a_value_of_its_own_that_outlives_a_downgrade() {
    everywhere(async |site| {
        let (mut one, mut two) = (site.session(0).await, site.session(1).await);
        for acquire in [shared("many/read"), semaphore("many/permits", 1, 3)] {
            let name = acquire.name.clone();
            let first = one.take_one(with_value("one", acquire.clone())).await;
            let second = two.take_one(with_value("two", acquire)).await;
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
        let written = with_value("written", exclusive("many/written"));
        let written = one.take_one(written).await;
        assert!(one.downgrade(&written).await);
        assert_eq!(values(site, "many/written").await, ["written"]);
        assert!(one.set_value(&written, "read").await);
        assert_eq!(values(site, "many/written").await, ["read"]);
    })
    .await;
}
