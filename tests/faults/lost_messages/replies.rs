//! Loss of every script call of a contended history, and of every reply.

use leasehold_tests::redis_proxy::Loss;

use crate::lost_messages::{
    REFRESH, REPLY_LATE,
    history::{Cast, ONE, TWO},
    runs::{play_all, summarise},
    trouble::{Trouble, points},
};

const LOSSES: [Loss; 5] = [
    Loss::ReplyCut,
    Loss::ReplyHeld,
    REPLY_LATE,
    Loss::RequestCut,
    Loss::RequestLate,
];

pub(crate) async fn each_call_is_lost(cast: Cast) {
    let points = points(cast);
    // That these are all the calls is seen when nothing goes wrong; where that takes long, there are refreshes as well.
    let (_, undisturbed) = play_all(cast, vec![Trouble::None]).await[0];
    if undisturbed.took < REFRESH {
        assert_eq!(undisturbed.calls, points.len() as u64);
    } else {
        assert!(undisturbed.calls >= points.len() as u64, "{undisturbed:?}");
    }
    let mut troubles = Vec::new();
    for point in &points {
        troubles.extend(LOSSES.map(|loss| Trouble::Lose(*point, loss)));
        troubles.push(Trouble::LoseTwo(*point, Loss::ReplyCut));
    }
    summarise(cast, &play_all(cast, troubles).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_of_one_coordinator_is_lost_once() {
    each_call_is_lost(ONE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_of_two_coordinators_is_lost_once() {
    each_call_is_lost(TWO).await;
}
