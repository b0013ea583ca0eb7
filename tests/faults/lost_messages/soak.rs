//! Soak tests, which `make test` leaves to `make soak`: the histories of [`replies`](crate::lost_messages::replies) and
//! [`wake_ups`](crate::lost_messages::wake_ups) with three coordinators.

use crate::lost_messages::{
    history::THREE,
    replies::each_call_is_lost,
    wake_ups::{each_wake_up_is_dropped, the_subscription_breaks},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_of_three_coordinators_is_lost_once() {
    each_call_is_lost(THREE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wake_up_between_three_coordinators_is_dropped() {
    each_wake_up_is_dropped(THREE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscriptions_of_three_coordinators_break() {
    the_subscription_breaks(THREE).await;
}
