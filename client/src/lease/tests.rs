use super::*;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn lease(deadline: Moment) -> Arc<Lease> {
    made(deadline, None)
}

fn bounded(deadline: Moment, ends_at: Moment) -> Arc<Lease> {
    made(deadline, Some(ends_at))
}

fn made(deadline: Moment, ends_at: Option<Moment>) -> Arc<Lease> {
    let token = FencingToken::from(1);
    Arc::new(Lease::new("a".into(), token, deadline, ends_at))
}

/// A hold that goes on for longer than a test.
fn lasting() -> Arc<Lease> {
    lease(Moment::now().after(Duration::from_secs(60)))
}

#[test]
fn a_hold_ends_at_its_deadline_and_a_late_extension_does_not_bring_it_back() {
    let lease = lease(at(100));
    assert_eq!(lease.alive(at(99)), Ok(at(100)));
    assert_eq!(lease.alive(at(100)), Err(LostReason::Expired));
    lease.extend(at(500));
    assert_eq!(lease.alive(at(101)), Err(LostReason::Expired));
    assert_eq!(lease.alive(at(0)), Err(LostReason::Expired));
}

#[test]
fn an_extension_never_shortens() {
    let lease = lease(at(100));
    lease.extend(at(50));
    assert_eq!(lease.alive(at(60)), Ok(at(100)));
    lease.extend(at(200));
    assert_eq!(lease.valid_for(at(150)), Duration::from_millis(50));
}

#[test]
fn the_first_reason_stays() {
    let lease = lease(at(100));
    assert_eq!(lease.end(at(10), LostReason::Forced), Ok(()));
    let ended = lease.end(at(20), LostReason::Released);
    assert_eq!(ended, Err(LostReason::Forced));
    assert_eq!(lease.alive(at(200)), Err(LostReason::Forced));
}

#[test]
fn ending_after_the_deadline_reports_the_deadline() {
    let lease = lease(at(100));
    let ended = lease.end(at(100), LostReason::Released);
    assert_eq!(ended, Err(LostReason::Expired));
}

#[test]
fn disowned_holds_are_lost_for_that_reason_unless_they_are_resumed() {
    let lease = lease(at(100));
    lease.suspend(at(10), None);
    assert_eq!(lease.state(at(99)), LockState::Suspended);
    // Whatever breaks after that is not the reason.
    lease.suspend(at(20), Some(at(90)));
    assert_eq!(lease.alive(at(89)), Ok(at(90)));
    lease.resume(at(30), at(200), None);
    assert_eq!(lease.state(at(100)), LockState::Held);
    lease.suspend(at(110), Some(at(120)));
    let broken = LockState::Lost(LostReason::SessionEnded);
    assert_eq!(lease.state(at(120)), broken);

    let lease = self::lease(at(100));
    lease.suspend(at(10), None);
    lease.suspend(at(20), Some(at(90)));
    let unknown = LockState::Lost(LostReason::Unauthenticated);
    assert_eq!(lease.state(at(90)), unknown);
}

#[test]
fn an_acknowledgement_does_not_make_a_suspended_hold_held() {
    for (until, reason) in [
        (Some(at(90)), LostReason::SessionEnded),
        (None, LostReason::Unauthenticated),
    ] {
        let lease = lease(at(90));
        lease.suspend(at(10), until);
        // An answer to a heartbeat of the stream that has ended.
        lease.extend(at(500));
        assert_eq!(lease.state(at(20)), LockState::Suspended);
        assert_eq!(lease.alive(at(89)), Ok(at(90)));
        assert_eq!(lease.state(at(90)), LockState::Lost(reason));
    }
}

#[tokio::test]
async fn everybody_who_waits_is_told() {
    let lease = lasting();
    let waiting: Vec<_> = (0..3)
        .map(|_| tokio::spawn(lease.clone().ended()))
        .collect();
    tokio::task::yield_now().await;
    lease.end(Moment::now(), LostReason::Taken).unwrap();
    for told in waiting {
        assert_eq!(told.await.unwrap(), LostReason::Taken);
    }
    assert_eq!(lease.ended().await, LostReason::Taken);
}

#[tokio::test]
async fn a_poll_after_the_deadline_says_lost_without_being_woken() {
    let lease = lease(Moment::now());
    assert_eq!(lease.ended().await, LostReason::Expired);
}

#[test]
fn a_bound_ends_a_hold_whatever_is_answered_and_says_so() {
    let lease = bounded(at(100), at(250));
    lease.extend(at(200));
    assert_eq!(lease.alive(at(150)), Ok(at(200)));
    lease.extend(at(300));
    assert_eq!(lease.alive(at(150)), Ok(at(250)));
    assert_eq!(lease.ends_in(at(150)), Some(Duration::from_millis(100)));
    assert_eq!(lease.alive(at(250)), Err(LostReason::MaxHold));
    assert_eq!(lease.ends_in(at(250)), Some(Duration::ZERO));
}

#[test]
fn a_lease_that_runs_out_before_its_bound_has_expired() {
    let lease = bounded(at(100), at(250));
    assert_eq!(lease.alive(at(100)), Err(LostReason::Expired));
}

#[test]
fn a_resume_never_moves_a_bound_back() {
    let lease = bounded(at(100), at(250));
    lease.suspend(at(10), Some(at(60)));
    lease.resume(at(20), at(400), Some(at(300)));
    assert_eq!(lease.alive(at(20)), Ok(at(250)));
    lease.resume(at(30), at(400), Some(at(200)));
    assert_eq!(lease.alive(at(30)), Ok(at(200)));
    // A coordinator that knows of no bound changes nothing.
    lease.resume(at(40), at(400), None);
    lease.suspend(at(50), Some(at(300)));
    assert_eq!(lease.state(at(199)), LockState::Suspended);
    assert_eq!(lease.alive(at(200)), Err(LostReason::MaxHold));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_bound_is_announced_ahead() {
    let now = Moment::now();
    let far = now.after(Duration::from_secs(3600));
    let unbounded = lease(far);
    let soon = bounded(far, now.after(Duration::from_secs(30)));
    tokio::select! {
        biased;
        () = unbounded.ends_soon(Duration::from_secs(7200)) => panic!("it has no end"),
        () = soon.clone().ends_soon(Duration::from_secs(20)) => panic!("10 s too early"),
        () = soon.clone().ends_soon(Duration::from_secs(30)) => {}
    }
    let lost = soon.clone().ends_soon(Duration::ZERO);
    soon.end(Moment::now(), LostReason::Forced).ok();
    lost.await;
}

fn request(lease: &Lease, reason: &str) {
    let asked = crate::proto::v1::SessionReleaseRequested {
        reason: reason.to_owned(),
        ..Default::default()
    };
    let now = Moment::now();
    lease.ask(now, ReleaseRequest::received(&asked, now));
}

#[tokio::test]
async fn a_request_to_release_is_told_to_everybody_who_waits_and_asks_later() {
    let lease = lasting();
    let waiting: Vec<_> = (0..3)
        .map(|_| tokio::spawn(lease.clone().asked()))
        .collect();
    tokio::task::yield_now().await;
    request(&lease, "first");
    for asked in waiting {
        assert_eq!(asked.await.unwrap().unwrap().reason(), "first");
    }
    request(&lease, "second");
    assert_eq!(lease.clone().asked().await.unwrap().reason(), "second");
    assert_eq!(lease.state(Moment::now()), LockState::Held);
}

#[tokio::test]
async fn nothing_is_asked_of_a_hold_that_has_ended() {
    let lease = lasting();
    let waiting = tokio::spawn(lease.clone().asked());
    tokio::task::yield_now().await;
    lease.end(Moment::now(), LostReason::Taken).unwrap();
    assert_eq!(waiting.await.unwrap(), None);
    request(&lease, "late");
    assert_eq!(lease.asked().await, None);
}
