//! Scenes of the events that a watcher receives.

use std::time::Duration;

use leasehold_core::{
    command::{End, Op, Reply},
    id::FeedId,
    mode::{Mode, Permits},
    view::HoldView,
    watch::{Event, EventKind},
};

use crate::locks::{
    history::{Deed, Owner},
    steps::{Ask, LONGEST, permits},
    watching::{Watched, hold_of},
    world::name_of,
};

fn kinds(events: &[Event]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn waits_hand_offs_and_withdrawals_are_reported() {
    let mut watched = Watched::new();
    let world = &mut watched.world;
    world.ask(0, 0, Ask::waiting(Mode::Exclusive));
    world.ask(0, 1, Ask::waiting(Mode::Exclusive));
    world.ask(0, 2, Ask::waiting(Mode::Exclusive));
    world.deed(0, 2, Deed::Release(Owner(2), End::Clean));
    world.deed(0, 1, Deed::SetValue(Owner(0), 7));
    world.deed(0, 0, Deed::Release(Owner(0), End::Clean));
    world.deed(0, 0, Deed::Downgrade(Owner(1)));
    world.deed(0, 0, Deed::Force);
    watched.take_in();
    use EventKind::{Downgraded, Forced, Granted, Queued, Released, ValueChanged, Withdrawn};
    let expected = [
        Granted,
        Queued,
        Queued,
        Withdrawn,
        ValueChanged,
        Released,
        Granted,
        Downgraded,
        Forced,
    ];
    assert_eq!(kinds(&watched.events), expected);
    let (second, position) = watched.events[2].waiter.as_ref().unwrap();
    assert_eq!((second.client_name.as_str(), *position), ("2", Some(2)));
    let waiting: Vec<u64> = watched
        .events
        .iter()
        .map(|event| event.after.waiter_count)
        .collect();
    assert_eq!(waiting, [0, 1, 2, 1, 1, 0, 0, 0, 0]);
    assert_eq!(hold_of(&watched.events[4]).value.as_bytes(), [0; 7]);
}

#[test]
fn a_resume_is_no_event_and_is_known_all_the_same() {
    let mut watched = Watched::new();
    let world = &mut watched.world;
    world.ask(0, 0, Ask::waiting(Mode::Exclusive));
    world.ask(0, 0, Ask::waiting(Mode::Exclusive));
    world.resume(0, 1, LONGEST * 2, Owner(0), None);
    world.resume(0, 1, LONGEST, Owner(1), None);
    watched.take_in();
    use EventKind::{Granted, Queued, Released};
    assert_eq!(kinds(&watched.events), [Granted, Queued]);
    let resumed = |hold: &HoldView, owner: Owner| {
        (hold.session, hold.coordinator.as_str()) == (Some(owner.session()), "1")
    };
    let leader = watched.mirror.leader(&name_of(0)).unwrap();
    assert!(resumed(&leader.0, Owner(2)));
    // It lasts for as long as it was resumed for.
    watched.pause(LONGEST + Duration::from_secs(1));
    assert_eq!(watched.of(0).holder_count, 1);
    let world = &mut watched.world;
    world.deed(0, 1, Deed::Refresh(None));
    world.ask(0, 1, Ask::waiting(Mode::Exclusive));
    world.deed(0, 1, Deed::Release(Owner(2), End::Clean));
    watched.take_in();
    assert_eq!(
        kinds(&watched.events),
        [Granted, Queued, Queued, Released, Granted]
    );
    assert!(resumed(hold_of(&watched.events[3]), Owner(2)));
}

#[test]
fn a_hold_that_runs_out_with_nobody_there_is_found_by_a_look() {
    let mut watched = Watched::new();
    let ask = Ask {
        ttl: Duration::from_secs(1),
        lock_delay: Duration::from_secs(2),
        ..Ask::waiting(Mode::Exclusive)
    };
    watched.world.ask(0, 0, ask);
    watched.take_in();
    let over = watched.world.now.after(ask.ttl);
    watched.pause(Duration::from_millis(500));
    assert_eq!(kinds(&watched.events), [EventKind::Granted]);
    watched.pause(Duration::from_millis(510));
    assert_eq!(
        kinds(&watched.events),
        [EventKind::Granted, EventKind::Expired]
    );
    assert!(watched.events[1].at >= over);
    assert_eq!(
        watched.mirror.leader(&name_of(0)),
        None,
        "though its lock-delay runs"
    );
    assert!(watched.of(0).closed_for.is_some());
    watched.pause(Duration::from_millis(2020));
    assert_eq!(watched.events.len(), 2);
    assert!(watched.mirror.is_empty());
}

#[test]
fn of_several_that_run_out_each_is_told() {
    let mut watched = Watched::new();
    for seconds in [1, 2, 3] {
        let ttl = Duration::from_secs(seconds);
        watched.world.ask(
            0,
            0,
            Ask {
                ttl,
                ..Ask::waiting(permits(1, 3))
            },
        );
    }
    watched.take_in();
    assert_eq!(watched.of(0).permits_taken, 3);
    for left in [2, 1] {
        watched.pause(Duration::from_millis(1005));
        assert_eq!(watched.of(0).permits_taken, left);
    }
    watched.pause(Duration::from_millis(1005));
    assert!(watched.mirror.is_empty());
    let ended: Vec<&str> = watched.events[3..]
        .iter()
        .map(|event| hold_of(event).client_name.as_str())
        .collect();
    assert_eq!(ended, ["0", "1", "2"]);
}

#[test]
fn permits_given_back_and_another_limit_are_told_and_known() {
    let mut watched = Watched::new();
    let revised = |number, limit| {
        let permits = Permits::new(number, limit).unwrap();
        Mode::Semaphore(permits.of_revision(1))
    };
    watched.world.ask(0, 0, Ask::waiting(permits(3, 3)));
    watched.world.ask(0, 1, Ask::waiting(permits(1, 3)));
    watched.world.deed(0, 0, Deed::Reduce(Owner(0), 1));
    watched.world.deed(0, 0, Deed::Reduce(Owner(0), 2));
    watched.world.ask(0, 0, Ask::waiting(revised(1, 5)));
    watched.world.ask(0, 0, Ask::waiting(revised(3, 5)));
    watched.take_in();
    use EventKind::{Granted, LimitChanged, PermitsReduced, Queued};
    assert_eq!(
        kinds(&watched.events),
        [
            Granted,
            Queued,
            PermitsReduced,
            Granted,
            LimitChanged,
            Granted,
            Queued
        ]
    );
    assert_eq!(hold_of(&watched.events[2]).mode.permits(), 1);
    let limit = watched.events[4].limit.unwrap();
    assert_eq!((limit.number, limit.revision), (5, 1));
    let (known, seen) = (watched.of(0), watched.world.view(0));
    assert_eq!((known.permits_taken, known.limit), (3, Some(limit)));
    assert_eq!((seen.permits_taken, seen.limit), (3, Some(limit)));
}

#[test]
fn a_hold_renewed_for_less_by_a_unary_caller_is_missed_within_a_second() {
    let mut watched = Watched::new();
    let ask = Ask {
        unary: true,
        ..Ask::waiting(Mode::Exclusive)
    };
    watched.world.ask(0, 0, ask);
    watched
        .world
        .deed(0, 0, Deed::Renew(Owner(0), Duration::from_secs(2)));
    watched.take_in();
    for _ in 0..30 {
        watched.pause(Duration::from_millis(100));
    }
    assert_eq!(
        kinds(&watched.events),
        [EventKind::Granted, EventKind::Expired]
    );
}

/// A release that comes late may hand the lock on, which is not reported.
#[test]
fn a_grant_that_was_not_reported_is_found_by_a_look_also_after_a_change_of_its_hold() {
    let mut watched = Watched::new();
    let world = &mut watched.world;
    world.ask(0, 0, Ask::waiting(Mode::Exclusive));
    world.told();
    world.deed(0, 0, Deed::SetValue(Owner(0), 7));
    watched.take_in();
    assert_eq!(kinds(&watched.events), []);
    watched.pause(Duration::from_millis(5));
    use EventKind::{Granted, Released};
    assert_eq!(kinds(&watched.events), [Granted]);
    assert_eq!(hold_of(&watched.events[0]).value.as_bytes(), [0; 7]);
    let end = Deed::Release(Owner(0), End::Clean);
    watched.world.deed(0, 0, end);
    watched.take_in();
    assert_eq!(kinds(&watched.events), [Granted, Released]);
}

#[test]
fn the_end_of_a_hold_of_which_watchers_have_not_heard_is_no_event() {
    let mut watched = Watched::new();
    for number in 0..3 {
        watched.world.ask(0, 0, Ask::waiting(Mode::Exclusive));
        watched.world.told();
        let end = match number {
            0 => Deed::Release(Owner(number), End::Clean),
            1 => Deed::Release(Owner(number), End::Unclean),
            _ => Deed::Force,
        };
        watched.world.deed(0, 0, end);
        watched.take_in();
    }
    assert_eq!(kinds(&watched.events), []);
}

/// A session without a stream has its holds end with its grace.
#[test]
fn a_hold_that_a_session_has_end_earlier_is_missed_at_once() {
    let mut watched = Watched::new();
    for (name, mode) in [Mode::Exclusive, Mode::Shared].into_iter().enumerate() {
        watched.world.ask(name, 0, Ask::waiting(mode));
    }
    watched.pause(Duration::from_secs(4));
    for name in 0..2 {
        let renew = Deed::Renew(Owner(name), Duration::from_secs(2));
        watched.world.deed(name, 0, renew);
    }
    watched.take_in();
    watched.pause(Duration::from_millis(1_900));
    use EventKind::{Expired, Granted};
    assert_eq!(kinds(&watched.events), [Granted, Granted]);
    watched.pause(Duration::from_millis(110));
    assert_eq!(kinds(&watched.events), [Granted, Granted, Expired, Expired]);
    assert_eq!(watched.looks, 2);
}

/// A look shows the hundred that end first: of the others it is not to be looked for again and again.
#[test]
fn more_holders_than_are_shown_are_not_looked_at_all_the_time() {
    const READERS: usize = 150;
    let mut watched = Watched::new();
    for _ in 0..READERS {
        watched.world.ask(0, 0, Ask::waiting(Mode::Shared));
    }
    watched.take_in();
    for second in 1..60 {
        if second % 7 == 0 {
            for reader in 0..READERS {
                // One after the other, as sessions do.
                watched
                    .world
                    .deed(0, 0, Deed::Renew(Owner(reader), LONGEST));
                watched.pause(Duration::from_millis(3));
            }
        }
        for _ in 0..10 {
            watched.pause(Duration::from_millis(100));
        }
    }
    assert!(watched.looks < 120, "{} looks in a minute", watched.looks);
    assert_eq!(kinds(&watched.events), vec![EventKind::Granted; READERS]);
    assert_eq!(watched.of(0).holder_count, READERS as u64);
}

/// A look that is lost is made again.
#[test]
fn a_lost_look_is_made_again() {
    let mut watched = Watched::new();
    let ttl = Duration::from_secs(1);
    watched.world.ask(
        0,
        0,
        Ask {
            ttl,
            ..Ask::waiting(Mode::Exclusive)
        },
    );
    watched.take_in();
    watched.world.now = watched.world.now.after(Duration::from_secs(2));
    assert_eq!(watched.mirror.due(watched.here(), 10).len(), 1);
    // Nothing comes of it.
    assert!(watched.mirror.due(watched.here(), 10).is_empty());
    watched.pause(Duration::from_secs(6));
    assert_eq!(
        kinds(&watched.events),
        [EventKind::Granted, EventKind::Expired]
    );
    assert!(watched.mirror.is_empty());
    assert_eq!(watched.mirror.next_due(), None);
}

/// A master that stood still and was replaced carries out, when it goes on, what was sent to it before: on a state of long ago.
#[test]
fn what_a_replaced_master_does_late_is_no_event() {
    let mut watched = Watched::new();
    let waiting = Ask::waiting(Mode::Exclusive);
    watched.world.ask(0, 0, waiting);
    watched.world.ask(0, 1, waiting);
    let replaced = watched.world.table.clone();
    watched
        .world
        .deed(0, 0, Deed::Release(Owner(0), End::Clean));
    watched.take_in();
    use EventKind::{Granted, Queued, Released};
    let told = [Granted, Queued, Released, Granted];
    assert_eq!(kinds(&watched.events), told);

    let living = std::mem::replace(&mut watched.world.table, replaced);
    let feed = FeedId::new(1);
    watched.world.late(|world| {
        let looked = world.send(0, 0, &Op::Look { feed }).reply;
        assert_eq!(looked, Reply::Late);
        world.deed(0, 0, Deed::Release(Owner(0), End::Clean));
    });
    watched.take_in();
    watched.world.table = living;
    watched.pause(Duration::ZERO);
    assert_eq!((kinds(&watched.events), watched.looks), (told.to_vec(), 1));
    assert_eq!(hold_of(&watched.events[3]).client_name.as_str(), "1");
    assert_eq!(watched.of(0).holder_count, 1);
}

#[test]
fn a_release_that_comes_late_is_found_by_a_look() {
    let mut watched = Watched::new();
    watched.world.ask(0, 0, Ask::waiting(Mode::Exclusive));
    watched
        .world
        .late(|world| world.deed(0, 0, Deed::Release(Owner(0), End::Clean)));
    watched.take_in();
    assert_eq!(kinds(&watched.events), [EventKind::Granted]);
    watched.pause(Duration::ZERO);
    assert_eq!(
        kinds(&watched.events),
        [EventKind::Granted, EventKind::Released]
    );
    assert!(watched.mirror.is_empty());
}
