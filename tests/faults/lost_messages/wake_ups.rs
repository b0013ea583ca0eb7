//! Loss of wake-ups: each of a contended history once, all of them, one together with the call that makes up for it, and those
//! that come while the subscription is cut or silent.

use std::time::Duration;

use leasehold_tests::redis_proxy::Loss;

use crate::lost_messages::{
    REPLY_LATE,
    history::{Cast, ONE, TWO, crossings},
    runs::{play_all, play_in_turn, summarise},
    trouble::Trouble,
};

pub(crate) async fn each_wake_up_is_dropped(cast: Cast) {
    let crossings = crossings(cast);
    let one = crossings.iter().map(|client| Trouble::DropWakeUp(*client));
    let losses = [Loss::ReplyCut, REPLY_LATE];
    let with_the_next = crossings
        .iter()
        .flat_map(|client| losses.map(|loss| Trouble::DropWakeUpAndLose(*client, loss)));
    let all = [Trouble::None, Trouble::DropWakeUps];
    let troubles: Vec<_> = all.into_iter().chain(one).chain(with_the_next).collect();
    summarise(cast, &play_all(cast, troubles).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_coordinator_needs_no_wake_up() {
    for (_, played) in play_all(ONE, vec![Trouble::None, Trouble::DropWakeUps]).await {
        assert!(played.worst < Duration::from_millis(500), "{played:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wake_up_between_two_coordinators_is_dropped() {
    each_wake_up_is_dropped(TWO).await;
}

/// Cuts or silences the connection by which wake-ups come: right before each hand-off that needs it, and always.
pub(crate) async fn the_subscription_breaks(cast: Cast) {
    let before_each = crossings(cast)
        .into_iter()
        .flat_map(|client| [Trouble::CutBefore(client), Trouble::SilenceBefore(client)]);
    let always = [Trouble::CutAlways, Trouble::SilentAlways];
    let troubles: Vec<_> = always.into_iter().chain(before_each).collect();
    summarise(cast, &play_all(cast, troubles).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscription_of_the_only_coordinator_breaks() {
    the_subscription_breaks(ONE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscriptions_of_two_coordinators_break() {
    the_subscription_breaks(TWO).await;
}

/// Once the subscription is there again, so are wake-ups: nothing has to be found by a refresh.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_come_again_after_the_subscription_broke() {
    for broken in [Trouble::CutAlways, Trouble::SilentAlways] {
        // One site plays both.
        play_in_turn(TWO, vec![broken, Trouble::None]).await;
    }
}
