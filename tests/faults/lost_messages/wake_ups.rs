//! Loss of wake-ups: each of a contended history once, all of them, one together with the call that makes up for it, and those
//! that come while the subscription is cut or silent.

use leasehold_tests::redis_proxy::Loss;

use crate::lost_messages::{
    REPLY_LATE,
    history::crossings,
    runs::{play_all, play_in_turn},
    trouble::Trouble,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wake_up_between_two_coordinators_is_dropped() {
    let crossings = crossings();
    let one = crossings.iter().map(|client| Trouble::DropWakeUp(*client));
    let losses = [Loss::ReplyCut, REPLY_LATE];
    let with_the_next = crossings
        .iter()
        .flat_map(|client| losses.map(|loss| Trouble::DropWakeUpAndLose(*client, loss)));
    let all = [Trouble::None, Trouble::DropWakeUps];
    play_all(all.into_iter().chain(one).chain(with_the_next).collect()).await;
}

/// Cuts or silences the connection by which wake-ups come: right before each hand-off that needs it, and always.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_subscriptions_of_two_coordinators_break() {
    let before_each = crossings()
        .into_iter()
        .flat_map(|client| [Trouble::CutBefore(client), Trouble::SilenceBefore(client)]);
    let always = [Trouble::CutAlways, Trouble::SilentAlways];
    play_all(always.into_iter().chain(before_each).collect()).await;
}

/// Once the subscription is there again, so are wake-ups: nothing has to be found by a refresh.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_come_again_after_the_subscription_broke() {
    for broken in [Trouble::CutAlways, Trouble::SilentAlways] {
        // One site plays both.
        play_in_turn(vec![broken, Trouble::None]).await;
    }
}
