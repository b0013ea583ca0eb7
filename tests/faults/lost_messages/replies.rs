//! Loss of every script call of a contended history, and of every reply.

use leasehold_tests::redis_proxy::Loss;

use crate::lost_messages::{
    REFRESH, REPLY_LATE,
    runs::play_all,
    trouble::{Trouble, points},
};

pub(crate) const LOSSES: [Loss; 5] = [
    Loss::ReplyCut,
    Loss::ReplyHeld,
    REPLY_LATE,
    Loss::RequestCut,
    Loss::RequestLate,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_of_two_coordinators_is_lost_once() {
    let points = points();
    // That these are all the calls is seen when nothing goes wrong; where that takes long, there are refreshes as well.
    let undisturbed = play_all(vec![Trouble::None]).await[0];
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
    play_all(troubles).await;
}
