//! Moves from one stream to the next.

use super::{
    life::{draining, released},
    *,
};
use crate::lease::{LockState, LostReason};

/// Locks that an `open` resumes: the confirmed, tried and next owner ids of each.
pub(super) type Resumes = Vec<(Vec<u8>, Vec<Vec<u8>>, Vec<u8>)>;

impl Session {
    pub(super) fn holding(grace: u64) -> Self {
        let mut session = Self::with_grace(grace);
        session.reopen(0);
        session.acquire(0, 1, None);
        assert_eq!(session.grant(0, 2, 1, 1, 0), [Acquired(1)]);
        session
    }

    /// Connects a further stream. Returns the locks that it is asked to resume, if it is asked already.
    pub(super) fn connect(&mut self, now: u64) -> Option<Resumes> {
        self.stream = self.machine.connected(at(now), "http://test".into());
        self.asked()
    }

    pub(super) fn asked(&mut self) -> Option<Resumes> {
        let stream = self.stream;
        let mut outputs = std::iter::from_fn(|| self.machine.next_output());
        outputs.find_map(|output| match output {
            Output::Send(number, request) if number == stream => match request.request {
                Some(Request::Open(open)) => {
                    let ids = open.resume.into_iter();
                    let ids = ids.map(|id| (id.owner_id, id.tried_owner_ids, id.next_owner_id));
                    Some(ids.collect())
                }
                _ => None,
            },
            _ => None,
        })
    }

    pub(super) fn state(&self, now: u64) -> LockState {
        self.lease(0).state(at(now))
    }
}

pub(super) fn opened(resumed: &[&[u8]]) -> Response {
    let resumed = resumed.iter().map(|next| resumed_hold(next, None));
    opened_with(resumed.collect())
}

pub(super) fn heartbeat(acked_heartbeat: u64) -> Response {
    Response::Heartbeat(v1::SessionHeartbeatAck {
        acked_heartbeat,
        valid_for: wire_ms(9_900),
        next_within: None,
    })
}

#[test]
fn a_drain_is_left_with_what_is_held_when_what_was_asked_is_answered() {
    let mut session = Session::holding(0);
    let former = session.stream;
    session.acquire(10, 2, Some(0));
    assert!(!session.machine.wants_connection());
    session.message(20, 0, draining());
    assert!(session.machine.wants_connection());
    // The try is on its way: its answer is waited for.
    assert_eq!(session.connect(30), None);
    let busy = not_granted(v1::AcquireOutcome::Busy);
    assert!(!session.machine.wants_connection());
    session.say(40, former, 3, busy);
    assert!(matches!(
        session.machine.next_output(),
        Some(Output::Acquired(2, Err(_)))
    ));
    let resumes = session.asked().unwrap();
    let [(owner, tried, next)] = &resumes[..] else {
        panic!("{resumes:?}");
    };
    assert_eq!(owner.as_slice(), &[1][..]);
    assert_eq!(tried.len(), 0);
    assert_eq!(next.len(), 16);
    // From now on the former says nothing that counts.
    session.message_on(50, former, 0, heartbeat(0));
    let lost = lost(1, 1, v1::LostReason::Resumed);
    session.message_on(50, former, 0, lost);
    assert_eq!(session.state(60), LockState::Held);
    let seen = session.message(70, 1, opened(&[next]));
    assert_eq!(seen, [Close, Opened]);
    assert_eq!(session.held(9_939, 0), Ok(()));
    assert_eq!(session.held(9_940, 0), Err(LostReason::Expired));
}

#[test]
fn a_drain_waits_for_answers_for_a_while_only() {
    let mut session = Session::holding(0);
    session.acquire(10, 2, Some(0));
    session.message(20, 0, draining());
    assert_eq!(session.connect(30), None);
    session.machine.tick(at(1_029));
    assert_eq!(session.asked(), None);
    session.machine.tick(at(1_030));
    assert_eq!(session.asked().unwrap().len(), 1);
}

#[test]
fn silence_for_half_the_ttl_is_left_and_an_answer_in_time_is_heard() {
    let mut session = Session::holding(0);
    session.tick(INTERVAL);
    session.tick(4_999);
    assert!(!session.machine.wants_connection());
    session.tick(5_000);
    assert!(session.machine.wants_connection());
    assert_eq!(session.acquire(5_000, 2, None), []);
    // Nothing has moved yet.
    let asked_again = session.ack(5_010, 1, 9_900);
    assert!(!session.machine.wants_connection());
    assert_eq!(asked_again, [asked(4, 2, None)]);
}

#[test]
fn a_stream_that_declines_leaves_all_as_it_was() {
    let mut session = Session::holding(0);
    let former = session.stream;
    session.message(10, 0, draining());
    session.connect(20).unwrap();
    // Both wait for what becomes of the attempt.
    session.message_on(30, former, 0, heartbeat(0));
    assert_eq!(session.release(30, 0, Some(80)), []);
    session.machine.attempt_failed(at(40), Fate::Declined);
    assert_eq!(session.seen(), [Release(3, 1)]);
    let seen = session.message_on(50, former, 3, released(true));
    assert_eq!(seen, [Done(80), Close]);
}

#[test]
fn a_stream_that_did_not_open_in_time_may_take_what_it_was_asked_for_with_it() {
    let ends = [
        (0, Fate::Declined, LockState::Held),
        (0, Fate::Dropped, LockState::Lost(LostReason::SessionEnded)),
        (7_000, Fate::Dropped, LockState::Suspended),
    ];
    for (grace, fate, state) in ends {
        let mut session = Session::holding(grace);
        session.message(10, 0, draining());
        session.connect(20).unwrap();
        session.machine.attempt_failed(at(30), Fate::Kept);
        assert_eq!(session.state(30), LockState::Held);
        session.machine.overdue_ended(at(40), fate);
        assert_eq!(session.state(40), state, "{grace} {fate:?}");
    }
}

#[test]
fn tried_ids_are_named_to_the_next_coordinator_and_all_are_released() {
    let mut session = Session::holding(0);
    session.message(10, 0, draining());
    let first = session.connect(20).unwrap().remove(0).2;
    session.machine.attempt_failed(at(30), Fate::Kept);
    assert_eq!(session.state(30), LockState::Held);
    let (owner, tried, second) = session.connect(40).unwrap().remove(0);
    assert_eq!((owner, tried), (vec![1], vec![first.clone()]));
    session.machine.attempt_failed(at(50), Fate::Kept);
    session.release(60, 0, Some(80));
    assert_eq!(session.connect(70), Some(Vec::new()));
    session.say(80, session.stream, 1, opened(&[]));
    for (id, owner) in [(2, vec![1]), (3, first), (4, second)] {
        let asks = std::iter::from_fn(|| session.machine.next_output()).find_map(|output| {
            let Output::Send(_, request) = output else {
                return None;
            };
            match request.request {
                Some(Request::Release(release)) => Some((request.request_id, release.owner_id)),
                _ => None,
            }
        });
        assert_eq!(asks, Some((id, owner)));
        session.say(90, session.stream, id, released(id == 4));
    }
    assert_eq!(session.seen(), [Done(80)]);
}

#[test]
fn an_attempt_whose_end_the_coordinator_may_have_heard_counts_as_the_end_of_the_stream() {
    for (grace, state) in [
        (0, LockState::Lost(LostReason::SessionEnded)),
        (4_000, LockState::Suspended),
    ] {
        let mut session = Session::holding(grace);
        session.message(10, 0, draining());
        session.connect(20).unwrap();
        session.stream_ended(30);
        assert_eq!(session.state(30), state);
        assert!(session.machine.is_open());
    }
}

#[test]
fn a_grace_suspends_until_it_is_over_or_the_hold_is_resumed() {
    let mut session = Session::holding(4_000);
    session.stream_ended(1_000);
    assert_eq!(session.state(1_000), LockState::Suspended);
    assert_eq!(session.lease(0).valid_for(at(1_000)), Duration::ZERO);
    let next = session.connect(1_500).unwrap().remove(0).2;
    assert_eq!(session.message(1_600, 1, opened(&[&next])), [Opened]);
    assert_eq!(session.state(1_600), LockState::Held);
    assert_eq!(session.held(11_399, 0), Ok(()));

    session.stream_ended(2_000);
    session.tick(5_999);
    assert_eq!(session.state(5_999), LockState::Suspended);
    session.tick(6_000);
    assert_eq!(session.held(6_000, 0), Err(LostReason::SessionEnded));
    // It is not asked for any more.
    assert_eq!(session.connect(6_100), Some(Vec::new()));
}

#[test]
fn a_place_is_taken_along_and_asked_for_anew_if_it_is_refused() {
    let mut session = Session::open_at(0);
    session.acquire(0, 1, Some(5_000));
    session.message(10, 2, queued(&[9]));
    session.stream_ended(1_000);
    let (ticket, _, next) = session.connect(1_100).unwrap().remove(0);
    assert_eq!(ticket, [9]);
    assert_eq!(session.message(1_200, 1, opened_in_place(&next)), [Opened]);
    // Under the number that was told with it, and by its new ticket.
    session.stream_ended(1_300);
    assert_eq!(session.connect(1_400).unwrap().remove(0).0, next);
    let seen = session.message(1_500, 1, opened(&[]));
    assert_eq!(seen, [Opened, asked(3, 1, Some(3_500))]);
}

#[test]
fn a_place_with_the_same_number_on_both_streams_is_not_asked_for_anew() {
    for actor in [0, 7] {
        let mut session = Session::open_at(0);
        session.ask(0, 1, reentrant(&[1], actor));
        session.message(10, 2, queued(&[9]));
        // Every `open` is request 1, and the place 2.
        for start in [1_000, 2_000] {
            session.message(start, 0, draining());
            let next = session.connect(start + 100).unwrap().remove(0).2;
            let seen = session.message(start + 200, 1, opened_in_place(&next));
            assert_eq!(seen, [Close, Opened]);
        }
        assert_eq!(session.grant(3_000, 2, 1, 1, 0), [Acquired(1)]);
    }
}

#[test]
fn a_release_that_was_not_answered_is_counted_where_others_hold_on() {
    let mut session = Session::with_grace(4_000);
    session.reopen(0);
    session.ask(0, 1, reentrant(&[1], 7));
    session.grant_all(0, 2, &[(1, 1, 1)], 0);
    session.ask(0, 2, reentrant(&[1], 7));
    session.grant_all(0, 3, &[(1, 1, 2)], 0);
    session.release(10, 1, Some(80));
    session.stream_ended(20);
    assert_eq!(session.seen(), []);
    session.stream = session.machine.connected(at(30), "http://test".into());
    let Some(Output::Send(_, request)) = session.machine.next_output() else {
        panic!("expected an open");
    };
    let Some(Request::Open(open)) = request.request else {
        panic!("expected an open, got {request:?}");
    };
    let resume = &open.resume[0];
    let Some(v1::session_resume::What::Hold(hold)) = &resume.what else {
        panic!("expected a hold");
    };
    assert_eq!(hold.hold_count, 1);
    // It is done with that: nothing is released once more.
    let seen = session.message(40, 1, opened(&[&resume.next_owner_id]));
    assert_eq!(seen, [Opened, Done(80)]);
}

#[test]
fn a_release_that_the_end_of_the_former_stream_may_carry_out_is_not_taken_for_a_loss() {
    let mut session = Session::holding(0);
    session.acquire(10, 2, Some(0));
    session.message(20, 0, draining());
    // The answer to the try is waited for, and the release waits with it.
    assert_eq!(session.connect(30), None);
    assert_eq!(session.release(40, 0, Some(80)), []);
    session.machine.tick(at(1_030));
    assert_eq!(session.asked(), Some(Vec::new()));
    let seen = session.message(1_040, 1, opened(&[]));
    assert!(seen.contains(&Release(2, 1)), "{seen:?}");
    assert_eq!(session.message(1_050, 2, released(false)), [Done(80)]);
}
