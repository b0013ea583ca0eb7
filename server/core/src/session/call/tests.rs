use super::*;
use crate::{
    command::{Caller, Command, End, Loss, Op, Reply},
    failure::StoreError,
    id::{CoordinatorId, SessionId},
    session::{Interest, Response, WaitEnd},
    table::LockTable,
    time::StoreTime,
};

const STORE_TIMEOUT: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(9);
const WAIT: Duration = Duration::from_secs(3);

fn name() -> LockName {
    LockName::parse("a").unwrap()
}

fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn request(mode: Mode, wait: Wait, mark: Option<Actor>) -> CallRequest {
    CallRequest {
        name: name(),
        mode,
        wait,
        client_name: ClientName::parse("caller").unwrap(),
        value: Value::default(),
        ttl: TTL,
        lock_delay: Duration::ZERO,
        max_hold: None,
        mark,
    }
}

/// Acquire of somebody else.
fn of_another(number: u8, name: &str, wait: bool) -> Op {
    Op::Acquire(crate::command::Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes([number; 16])),
        actor: Actor::NOBODY,
        client_name: ClientName::parse(name).unwrap(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: 10 * TTL,
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait,
        again: false,
    })
}

/// A call, a table of locks that somebody else uses too, and a clock that only the test moves.
struct Scene {
    call: Call,
    table: LockTable,
    now: Moment,
    /// Commands without an answer.
    sent: Vec<(CommandId, Op)>,
    /// What was done otherwise.
    done: Vec<Output>,
}

impl Scene {
    /// A call under owner id 1 that waits like this for a lock that owner id 2 holds, or that is free.
    fn new(wait: Wait, is_held: bool) -> Self {
        let now = Moment::from_micros(1_000_000);
        let request = request(Mode::Exclusive, wait, None);
        let context = &mut Context {
            now,
            fresh_owner: &mut || owner(1),
        };
        let mut scene = Self {
            call: Call::new(request, STORE_TIMEOUT, context),
            table: LockTable::default(),
            now,
            sent: Vec::new(),
            done: Vec::new(),
        };
        if is_held {
            scene.apply(of_another(2, "holder", false));
        }
        scene.drain();
        scene
    }

    fn with(&mut self, call: impl FnOnce(&mut Call, &mut Context<'_>)) {
        let context = &mut Context {
            now: self.now,
            fresh_owner: &mut || panic!("it has its owner id"),
        };
        call(&mut self.call, context);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.call.poll_output() {
            match output {
                Output::Store { id, op, .. } => self.sent.push((id, op)),
                other => self.done.push(other),
            }
        }
    }

    fn apply(&mut self, op: Op) -> Stamped {
        let caller = Caller {
            coordinator: CoordinatorId::new("here"),
            floor: FencingToken::new(0),
            token_memory: Duration::from_secs(3600),
            not_after: None,
        };
        let command = Command {
            name: name(),
            caller,
            op,
        };
        let micros = i64::try_from(self.now.as_micros()).unwrap();
        Stamped {
            executed: self.table.apply(&command, StoreTime::from_micros(micros)),
            sent_at: self.now,
        }
    }

    /// A call that waits like this, and is known to.
    fn waiting(wait: Wait) -> Self {
        let mut scene = Self::new(wait, true);
        scene.answer();
        scene
    }

    /// A call that leaves the queue because its time is over.
    fn leaving() -> Self {
        let mut scene = Self::waiting(Wait::For(WAIT));
        scene.now = scene.now.after(WAIT);
        scene.with(Call::handle_timeout);
        scene
    }

    /// Has the store carry the command out that is under way, and answer it.
    fn answer(&mut self) {
        let (id, op) = self.sent.pop().unwrap();
        let stamped = self.apply(op);
        self.with(|call, context| call.on_reply(id, Ok(stamped), context));
    }

    fn fail(&mut self, failure: CommandFailure) {
        let (id, _) = self.sent.pop().unwrap();
        self.with(|call, context| call.on_reply(id, Err(failure), context));
    }

    fn event(&mut self, event: RegistryEvent) {
        self.with(|call, context| call.on_event(owner(1), event, context));
    }

    /// Returns how its owner id was registered, one after the other.
    fn registered(&self) -> Vec<Interest> {
        let registered = self.done.iter().filter_map(|output| match output {
            Output::Register(of, interest) => {
                assert_eq!(*of, owner(1));
                Some(*interest)
            }
            _ => None,
        });
        registered.collect()
    }

    /// Returns whether its owner id is released in the background, and until when its acquire may arrive.
    fn cleaned_up(&self) -> Option<Option<Moment>> {
        self.done.iter().find_map(|output| match output {
            Output::Cleanup(cleanup) => {
                assert_eq!((cleanup.owner, cleanup.end), (owner(1), End::Clean));
                Some(cleanup.may_arrive_until)
            }
            _ => None,
        })
    }

    fn waits(&self) -> Option<WaitEnd> {
        self.done.iter().find_map(|output| match output {
            Output::UntrackWait(_, end) => Some(*end),
            _ => None,
        })
    }
}

#[test]
fn a_free_lock_is_granted_and_its_callers_from_then_on() {
    let mut scene = Scene::new(Wait::No, false);
    assert!(scene.call.take_outcome().is_none());
    scene.answer();
    let outcome = scene.call.take_outcome().unwrap();
    let sent_at = scene.now;
    match outcome {
        CallOutcome::Granted {
            owner: of,
            sent_at: at,
            ..
        } => assert_eq!((of, at), (owner(1), sent_at)),
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.registered(), [Interest::Waits, Interest::Forgotten]);
    // It is not taken back.
    scene.with(Call::let_go);
    assert_eq!(scene.cleaned_up(), None);
}

#[test]
fn one_that_does_not_wait_is_told_who_holds_the_lock() {
    let mut scene = Scene::new(Wait::No, true);
    scene.answer();
    let outcome = scene.call.take_outcome().unwrap();
    assert!(
        matches!(outcome, CallOutcome::NotGranted(NotGranted::Busy, Some(_))),
        "{outcome:?}"
    );
    assert_eq!(scene.registered(), [Interest::Waits, Interest::Forgotten]);
}

#[test]
fn one_that_waits_is_granted_what_is_handed_to_it() {
    let mut scene = Scene::waiting(Wait::Forever);
    let queued = scene
        .done
        .iter()
        .any(|output| matches!(output, Output::Send(_, Response::Queued { .. })));
    assert!(queued && scene.call.take_outcome().is_none());
    assert_eq!(scene.call.next_timeout(), None);
    let (token, sent_at) = (FencingToken::new(7), scene.now);
    scene.event(RegistryEvent::Granted {
        token,
        permits: None,
        sent_at,
    });
    let granted = CallOutcome::Granted {
        owner: owner(1),
        token,
        permits: 0,
        sent_at,
    };
    assert_eq!(scene.call.take_outcome(), Some(granted));
    assert_eq!(scene.waits(), Some(WaitEnd::Granted));
}

#[test]
fn one_that_has_waited_for_long_enough_leaves_the_queue_and_is_told_who_holds_the_lock() {
    let mut scene = Scene::new(Wait::For(WAIT), true);
    let began = scene.now;
    scene.answer();
    let due = scene.call.next_timeout().unwrap();
    assert_eq!(due, began.after(WAIT));
    scene.now = due;
    scene.with(Call::handle_timeout);
    // It leaves, and looks.
    scene.answer();
    assert!(scene.call.take_outcome().is_none());
    scene.answer();
    match scene.call.take_outcome() {
        Some(CallOutcome::NotGranted(NotGranted::TimedOut, Some(HolderView::Ours(holder)))) => {
            assert_eq!(holder.client_name.as_str(), "holder");
        }
        other => panic!("{other:?}"),
    }
    let seen = scene.apply(Op::view(0));
    assert!(matches!(seen.executed.reply, Reply::Seen(view) if view.waiter_count == 0));
}

#[test]
fn one_that_is_given_up_is_released_in_the_background_wherever_it_is() {
    let mut sent = Scene::new(Wait::Forever, true);
    sent.with(Call::let_go);
    let arrives = sent.now.after(STORE_TIMEOUT * 3);
    assert_eq!(sent.cleaned_up(), Some(Some(arrives)));
    let mut waits = Scene::waiting(Wait::Forever);
    waits.with(Call::let_go);
    assert_eq!(waits.cleaned_up(), Some(None));
    assert_eq!(waits.waits(), Some(WaitEnd::Cancelled));
    let mut leaves = Scene::leaving();
    leaves.with(Call::let_go);
    assert_eq!(leaves.cleaned_up(), Some(None));
    // One that has left, and only looks, has nothing to release.
    let mut looks = Scene::leaving();
    looks.answer();
    assert_eq!(looks.registered().last(), Some(&Interest::Forgotten));
    let done = looks.done.len();
    looks.with(Call::let_go);
    looks.answer();
    assert_eq!(looks.done.len(), done);
    assert_eq!(looks.call.take_outcome(), None);
}

#[test]
fn one_whose_place_somebody_has_resumed_fails_and_releases_nothing() {
    let mut scene = Scene::waiting(Wait::Forever);
    scene.event(RegistryEvent::Moved);
    let refused = CallOutcome::Refused(Refused::Repeated);
    assert_eq!(scene.call.take_outcome(), Some(refused));
    assert_eq!(scene.waits(), Some(WaitEnd::Moved));
    assert_eq!(scene.registered(), [Interest::Waits, Interest::Forgotten]);
    assert_eq!(scene.cleaned_up(), None);
}

#[test]
fn a_loss_and_a_timer_that_fires_early_are_no_news_to_one_that_waits() {
    let mut scene = Scene::new(Wait::For(WAIT), true);
    scene.with(Call::handle_timeout);
    scene.answer();
    let before = scene.call.clone();
    scene.event(RegistryEvent::Lost(Loss::Forced));
    scene.with(Call::handle_timeout);
    assert_eq!((scene.call == before, scene.sent.len()), (true, 0));
}

#[test]
fn nothing_follows_the_outcome() {
    let mut scene = Scene::new(Wait::For(WAIT), false);
    scene.answer();
    assert!(scene.call.take_outcome().is_some());
    let done = scene.done.len();
    scene.now = scene.now.after(WAIT);
    scene.with(Call::handle_timeout);
    scene.event(RegistryEvent::Moved);
    assert_eq!((scene.done.len(), scene.sent.len()), (done, 0));
    assert_eq!(scene.call.take_outcome(), None);
}

#[test]
fn one_that_fails_is_released_unless_it_was_never_sent() {
    let reason = || "?".to_owned();
    let [unsent, lost, garbled] = [
        StoreError::Unavailable { reason: reason() },
        StoreError::Indeterminate { reason: reason() },
        StoreError::Garbled { reason: reason() },
    ]
    .map(CommandFailure::Store);
    for (failure, is_released) in [
        (CommandFailure::TooManyWaiters, false),
        (unsent, false),
        (lost, true),
        (garbled, true),
    ] {
        let mut scene = Scene::new(Wait::Forever, true);
        scene.fail(failure.clone());
        let outcome = scene.call.take_outcome().unwrap();
        assert!(matches!(outcome, CallOutcome::Refused(_)), "{outcome:?}");
        assert_eq!(scene.cleaned_up().is_some(), is_released, "{failure:?}");
    }
}

mod repeated;
