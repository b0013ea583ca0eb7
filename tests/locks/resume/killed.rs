//! Coordinator that is killed: its clients go on elsewhere, with their holds and places.

use std::time::Duration;

use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, exclusive, resume_hold, resume_wait},
    site::TTL,
};

const WAIT: u64 = 1_000_000;
const WAITERS: u64 = 5;
/// Time without a refresh after which a coordinator's waiters are skipped.
const DEAD_AFTER: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn holds_and_places_are_resumed_after_their_coordinator_was_killed() {
    let mut site = Site::redis(2).await;
    let mut holder = site.session(1).await;
    let held = holder.take_one(exclusive("queue")).await;
    let (mut olds, mut tickets) = (Vec::new(), Vec::new());
    for _ in 0..WAITERS {
        let mut old = site.session(0).await;
        let id = old.ask_for(exclusive("queue")).await;
        tickets.push(old.ticket(id).await.ticket);
        olds.push(old);
    }
    let mine = olds[0].take_one(exclusive("held")).await;
    // Behind those of the killed one, whose places are kept for 10 s.
    let mut last = site.session(1).await;
    let behind = last.wait_for(exclusive("queue")).await;
    site.kill(0);
    // By Redis's clock, the killed one's last refresh is so long ago that its waiters are skipped. They keep their places
    // for 10 s, which leaves 8 s for the resumes.
    let killed = site.time().await;
    site.passed(killed, DEAD_AFTER).await;
    let mut news = Vec::new();
    // The last first: the place is not where it is resumed.
    for (number, ticket) in tickets.iter().enumerate().rev() {
        let mut resume = vec![resume_wait("queue", ticket, WAIT)];
        if number == 0 {
            resume.push(resume_hold(&mine));
        }
        let (mut new, resumed) = RawSession::resume(&site.endpoint(0), TTL, resume).await;
        new.keep_alive(TTL / 5);
        assert_eq!(resumed.refused, []);
        assert_eq!(
            resumed.places()["queue"],
            1 + u64::try_from(number).unwrap()
        );
        if number == 0 {
            let hold = &resumed.holds()["held"];
            assert_eq!(hold.fencing_token, mine.fencing_token);
            assert!(new.release(hold).await);
        }
        news.insert(0, new);
    }
    assert!(holder.release(&held).await);
    let mut token = held.fencing_token;
    for mut new in news {
        let granted = new.granted(WAIT, PROMPT).await;
        assert!(granted.lock.fencing_token > token);
        token = granted.lock.fencing_token;
        assert!(new.release(&granted.lock).await);
        new.close().await;
    }
    let granted = last.granted(behind, PROMPT).await;
    assert!(last.release(&granted.lock).await);
    last.close().await;
    holder.close().await;
    drop(olds);
    site.nothing_is_left().await;
}
