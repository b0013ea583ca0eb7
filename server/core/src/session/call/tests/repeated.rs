//! Calls that are repeated: the attempts share a table of locks.

use super::*;
use crate::{mode::Permits, session::call::search::PAUSE};

const MARK: Option<Actor> = Some(Actor::new(77));

/// Attempts of calls, each with the owner ids that it draws: ten times its number, and those after it.
struct Attempts {
    scene: Scene,
    drawn: u8,
}

impl Attempts {
    /// A lock that is held by owner id 2, or free.
    fn new(is_held: bool) -> Self {
        let mut scene = Scene::new(Wait::No, is_held);
        scene.sent.clear();
        Self { scene, drawn: 0 }
    }

    /// A lock that the first attempt was granted, with its owner id and token.
    fn granted_first(mode: Mode, wait: Wait) -> (Self, OwnerId, FencingToken) {
        let mut attempts = Self::new(false);
        attempts.begin(1, mode, wait, MARK);
        attempts.answer_all();
        let (first, token) = attempts.granted();
        (attempts, first, token)
    }

    /// A lock that somebody else holds and the first attempt waits for.
    fn first_waits() -> Self {
        let mut attempts = Self::new(true);
        attempts.begin(1, Mode::Exclusive, Wait::Forever, MARK);
        attempts.answer_all();
        attempts
    }

    /// Begins an attempt, in place of the one that was under way, which is returned.
    fn begin(&mut self, number: u8, mode: Mode, wait: Wait, mark: Option<Actor>) -> Call {
        self.drawn = 10 * number;
        let now = self.scene.now;
        let context = &mut Context {
            now,
            fresh_owner: &mut || owner(10 * number),
        };
        let call = Call::new(request(mode, wait, mark), STORE_TIMEOUT, context);
        self.scene.done.clear();
        let before = std::mem::replace(&mut self.scene.call, call);
        self.scene.drain();
        before
    }

    fn with(&mut self, call: impl FnOnce(&mut Call, &mut Context<'_>)) {
        let drawn = &mut self.drawn;
        let context = &mut Context {
            now: self.scene.now,
            fresh_owner: &mut || {
                *drawn += 1;
                owner(*drawn)
            },
        };
        call(&mut self.scene.call, context);
        self.scene.drain();
    }

    /// Has the store answer each command of the attempt, and carry out what it cleans up.
    fn answer_all(&mut self) {
        while !self.scene.sent.is_empty() {
            self.answer();
        }
        for output in std::mem::take(&mut self.scene.done) {
            if let Output::Cleanup(cleanup) = output {
                self.release(cleanup.owner);
            }
        }
    }

    /// Has it answer one command; a look that leads to the pause, together with the look after that.
    fn answer(&mut self) {
        let (id, op) = self.scene.sent.remove(0);
        let stamped = self.scene.apply(op);
        self.with(|call, context| call.on_reply(id, Ok(stamped), context));
        let pause = self.scene.now.after(PAUSE);
        if self.scene.call.next_timeout() == Some(pause) {
            self.scene.now = pause;
            self.with(Call::handle_timeout);
            self.answer();
        }
    }

    /// Releases a hold, and returns whether there was one.
    fn release(&mut self, owner: OwnerId) -> bool {
        let end = End::Clean;
        let released = self.scene.apply(Op::Release { owner, end });
        matches!(released.executed.reply, Reply::Released { held: true, .. })
    }

    /// Returns the owner id and token that the attempt was granted.
    fn granted(&mut self) -> (OwnerId, FencingToken) {
        match self.scene.call.take_outcome() {
            Some(CallOutcome::Granted { owner, token, .. }) => (owner, token),
            other => panic!("{other:?}"),
        }
    }

    /// Returns how many hold the lock, and the names of those that wait.
    fn seen(&mut self) -> (u64, Vec<String>) {
        match self.scene.apply(Op::view(9)).executed.reply {
            Reply::Seen(view) => {
                let waiters = view.waiters.iter();
                let names = waiters.map(|waiter| waiter.client_name.as_str().to_owned());
                (view.holder_count, names.collect())
            }
            other => panic!("{other:?}"),
        }
    }
}

fn modes() -> [Mode; 3] {
    let permits = Permits::new(1, 3).unwrap();
    [Mode::Exclusive, Mode::Shared, Mode::Semaphore(permits)]
}

#[test]
fn a_repeated_request_has_the_grant_of_the_first() {
    for mode in modes() {
        for wait in [Wait::No, Wait::Forever, Wait::For(WAIT)] {
            let (mut attempts, first, token) = Attempts::granted_first(mode, wait);
            assert_eq!(first, owner(10));
            for number in 2..5 {
                attempts.begin(number, mode, wait, MARK);
                attempts.answer_all();
                assert_eq!(attempts.granted(), (owner(10 * number + 1), token));
                assert_eq!(attempts.seen(), (1, Vec::new()), "{mode:?}, {wait:?}");
            }
            // Nothing that an earlier attempt still does concerns it.
            assert!(!attempts.release(first));
            assert!(attempts.release(owner(41)));
        }
    }
}

#[test]
fn another_request_takes_nothing_over() {
    for mode in modes() {
        for mark in [None, Some(Actor::new(78))] {
            let (mut attempts, first, _) = Attempts::granted_first(mode, Wait::No);
            attempts.begin(2, mode, Wait::No, mark);
            attempts.answer_all();
            let outcome = attempts.scene.call.take_outcome();
            let is_shared = mode != Mode::Exclusive;
            let is_granted = matches!(outcome, Some(CallOutcome::Granted { .. }));
            assert_eq!(is_granted, is_shared);
            assert_eq!(attempts.seen().0, 1 + u64::from(is_shared));
            assert!(attempts.release(first));
        }
    }
}

#[test]
fn a_free_exclusive_lock_takes_no_second_command() {
    let mut attempts = Attempts::new(false);
    attempts.begin(1, Mode::Exclusive, Wait::Forever, MARK);
    attempts.answer();
    assert!(attempts.scene.sent.is_empty());
    assert_eq!(attempts.granted().0, owner(10));
}

#[test]
fn a_repeated_request_has_the_place_of_the_first() {
    let mut attempts = Attempts::first_waits();
    attempts.scene.apply(of_another(3, "next", true));
    let first = attempts.begin(2, Mode::Exclusive, Wait::Forever, MARK);
    attempts.answer();
    assert_eq!(attempts.seen().1, ["caller", "next", "caller"]);
    attempts.answer();
    attempts.answer();
    let moved = Output::TellMoved(owner(10));
    assert!(attempts.scene.done.contains(&moved));
    attempts.answer_all();
    assert_eq!(attempts.seen(), (1, vec!["caller".into(), "next".into()]));

    // The latest is granted what is handed to the place.
    let (token, sent_at) = (FencingToken::new(9), attempts.scene.now);
    let granted = RegistryEvent::Granted {
        token,
        permits: None,
        sent_at,
    };
    attempts.with(|call, context| call.on_event(owner(21), granted, context));
    assert_eq!(attempts.granted(), (owner(21), token));
    // The first hears that it was repeated.
    attempts.scene.call = first;
    attempts.with(|call, context| call.on_event(owner(10), RegistryEvent::Moved, context));
    let outcome = attempts.scene.call.take_outcome();
    assert_eq!(outcome, Some(CallOutcome::Refused(Refused::Repeated)));
}

#[test]
fn a_place_that_is_taken_over_is_left_at_the_callers_time() {
    let mut attempts = Attempts::first_waits();
    attempts.begin(2, Mode::Exclusive, Wait::For(WAIT), MARK);
    let due = attempts.scene.now.after(WAIT);
    attempts.answer_all();
    assert_eq!(attempts.scene.call.next_timeout(), Some(due));
    attempts.scene.now = due;
    attempts.with(Call::handle_timeout);
    attempts.answer_all();
    match attempts.scene.call.take_outcome() {
        Some(CallOutcome::NotGranted(why, _)) => assert_eq!(why, NotGranted::TimedOut),
        other => panic!("{other:?}"),
    }
    assert_eq!(attempts.seen(), (1, Vec::new()));
}

#[test]
fn what_happens_during_the_search_is_told_after_it() {
    let granted = |sent_at| RegistryEvent::Granted {
        token: FencingToken::new(9),
        permits: None,
        sent_at,
    };
    // Its own turn comes, and there is no earlier attempt.
    let mut attempts = Attempts::new(true);
    attempts.begin(2, Mode::Exclusive, Wait::Forever, MARK);
    attempts.answer();
    let event = granted(attempts.scene.now);
    attempts.with(|call, context| call.on_event(owner(20), event, context));
    assert_eq!(attempts.scene.call.take_outcome(), None);
    attempts.answer_all();
    assert_eq!(attempts.granted().0, owner(20));

    // The turn of the place comes while it is taken over.
    let mut attempts = Attempts::first_waits();
    attempts.begin(2, Mode::Exclusive, Wait::Forever, MARK);
    attempts.answer();
    attempts.answer();
    let event = granted(attempts.scene.now);
    attempts.with(|call, context| call.on_event(owner(21), event, context));
    assert_eq!(attempts.scene.call.take_outcome(), None);
    attempts.answer_all();
    assert_eq!(attempts.granted().0, owner(21));

    // It is repeated itself while it looks: it takes nothing from the later attempt.
    let mut attempts = Attempts::new(true);
    attempts.begin(2, Mode::Exclusive, Wait::Forever, MARK);
    attempts.answer();
    attempts.with(|call, context| call.on_event(owner(20), RegistryEvent::Moved, context));
    let outcome = attempts.scene.call.take_outcome();
    assert_eq!(outcome, Some(CallOutcome::Refused(Refused::Repeated)));
    attempts.answer_all();
    assert!(attempts.scene.sent.is_empty());
}

#[test]
fn one_that_is_given_up_leaves_what_it_takes_over() {
    for answers in 1..5 {
        let (mut attempts, first, _) = Attempts::granted_first(Mode::Shared, Wait::Forever);
        attempts.begin(2, Mode::Shared, Wait::Forever, MARK);
        for _ in 0..answers {
            attempts.answer();
        }
        // The fourth gives it its outcome: there is nobody else.
        assert_eq!(attempts.scene.sent.len(), usize::from(answers < 4));
        attempts.with(Call::let_go);
        attempts.answer_all();
        assert_eq!(attempts.seen().0, 1, "after {answers}");
        let is_moved = answers > 1;
        let held = if is_moved { owner(21) } else { first };
        assert!(attempts.release(held), "after {answers}");
    }
}

#[test]
fn what_the_store_does_not_say_fails_the_call() {
    let failure = || {
        CommandFailure::Store(StoreError::Indeterminate {
            reason: "?".to_owned(),
        })
    };
    for answers in 1..3 {
        let (mut attempts, ..) = Attempts::granted_first(Mode::Exclusive, Wait::Forever);
        attempts.begin(2, Mode::Exclusive, Wait::Forever, MARK);
        for _ in 0..answers {
            attempts.answer();
        }
        let (id, _) = attempts.scene.sent.remove(0);
        attempts.with(|call, context| call.on_reply(id, Err(failure()), context));
        let outcome = attempts.scene.call.take_outcome();
        assert!(matches!(
            outcome,
            Some(CallOutcome::Refused(Refused::Store(_)))
        ));
        attempts.answer_all();
        // Its own place is given up; the hold stays for the next attempt.
        assert_eq!(attempts.seen(), (1, Vec::new()));
    }
}

#[test]
fn what_ends_before_it_is_taken_over_is_waited_for_no_more() {
    let (mut attempts, first, _) = Attempts::granted_first(Mode::Exclusive, Wait::Forever);
    attempts.begin(2, Mode::Exclusive, Wait::Forever, MARK);
    attempts.answer();
    attempts.answer();
    // Handed to its own place.
    attempts.release(first);
    attempts.answer();
    assert_eq!(attempts.scene.call.take_outcome(), None);
    let forgotten = Output::Register(owner(21), Interest::Forgotten);
    assert!(attempts.scene.done.contains(&forgotten));
    assert_eq!(attempts.seen(), (1, Vec::new()));
}

/// The release of what an attempt came to that was given up may be on its way.
#[test]
fn of_several_that_share_the_lock_the_oldest_is_kept() {
    for mode in &modes()[1..] {
        let (mut attempts, _, token) = Attempts::granted_first(*mode, Wait::Forever);
        for number in 2..4 {
            attempts.scene.now = attempts.scene.now.after(Duration::from_millis(1));
            attempts.begin(number, *mode, Wait::Forever, MARK);
            attempts.answer();
            attempts.with(Call::let_go);
            attempts.scene.sent.clear();
        }
        assert!(attempts.seen().0 > 1);
        attempts.scene.now = attempts.scene.now.after(Duration::from_millis(1));
        attempts.begin(4, *mode, Wait::Forever, MARK);
        attempts.answer_all();
        let (owner, of) = attempts.granted();
        assert_eq!(of, token);
        assert_eq!(attempts.seen(), (1, Vec::new()), "{mode:?}");
        assert!(attempts.release(owner));
    }
}

/// Its client is found to be gone by then.
#[test]
fn nothing_is_taken_over_before_the_pause_is_over() {
    let (mut attempts, first, _) = Attempts::granted_first(Mode::Exclusive, Wait::No);
    attempts.begin(2, Mode::Exclusive, Wait::No, MARK);
    for _ in 0..2 {
        let (id, op) = attempts.scene.sent.remove(0);
        let stamped = attempts.scene.apply(op);
        attempts.with(|call, context| call.on_reply(id, Ok(stamped), context));
    }
    let due = attempts.scene.now.after(PAUSE);
    assert_eq!(attempts.scene.call.next_timeout(), Some(due));
    attempts.with(Call::handle_timeout);
    assert!(attempts.scene.sent.is_empty());
    // Its client has gone.
    attempts.with(Call::let_go);
    assert_eq!(attempts.scene.call.next_timeout(), None);
    attempts.scene.now = due;
    attempts.with(Call::handle_timeout);
    assert!(attempts.scene.sent.is_empty());
    assert!(attempts.release(first));
}
