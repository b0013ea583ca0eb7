mod scene;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use self::scene::*;
use super::*;
use crate::{
    command::ReleaseRequest,
    id::{FencingToken, ReleaseRequestId},
    mode::Limit,
    name::ReleaseReason,
};

#[test]
fn a_name_is_refreshed_every_second_for_the_oldest_that_waits() {
    let mut scene = Scene::with_waiters(3);
    scene.pass(REFRESH_INTERVAL - Duration::from_millis(1));
    assert_eq!(scene.ops(), []);
    // The first one has been told of its grant.
    scene.owners.insert(owner(1), false);
    scene.pass(Duration::from_millis(1));
    scene.answer(&refresh(Some(2)), Ok(refreshed(Vec::new(), true)));
    assert_eq!(scene.ops(), []);
    scene.leaves(2);
    scene.refresh(3, Vec::new(), true);
    assert_eq!(scene.told, []);
}

#[test]
fn a_name_is_refreshed_as_soon_as_what_is_in_its_way_has_expired() {
    let tenth = Duration::from_millis(100);
    let mut scene = Scene::new();
    scene.owners.insert(owner(1), true);
    scene.announce(acquire(1), Some(tenth));
    scene.pass(tenth);
    assert_eq!(scene.ops(), []);
    scene.pass(EXPIRY_SLACK);
    let expires_in = Some(tenth);
    let reply = Reply::Refreshed {
        current: Vec::new(),
        expires_in,
        attached: true,
    };
    scene.answer(&refresh(Some(1)), Ok(reply));
    scene.pass(tenth + EXPIRY_SLACK);
    scene.answer(&refresh(Some(1)), Ok(refreshed(Vec::new(), true)));
    // Whoever told of a later expiry was wrong, as far as anybody knows.
    for after in [tenth, Duration::from_secs(5)] {
        let name = lock();
        scene.handle(Input::Recheck { name, after });
    }
    scene.pass(tenth + EXPIRY_SLACK);
    assert_eq!(scene.ops(), [refresh(Some(1))]);
}

#[test]
fn nothing_is_due_once_the_last_waiter_has_left() {
    let mut scene = Scene::with_waiters(2);
    scene.leaves(1);
    assert_eq!(scene.names.len(), 1);
    scene.leaves(2);
    scene.leaves(2);
    assert!(scene.names.is_empty() && scene.names.next_timeout().is_none());
    let name = lock();
    scene.handle(Input::Recheck {
        name,
        after: Duration::ZERO,
    });
    assert!(scene.names.next_timeout().is_none());
}

#[test]
fn all_names_are_refreshed_when_the_store_is_back_or_messages_were_missed() {
    for input in [
        Input::StoreUp,
        Input::WakeUp(WakeUp::Missed { name: lock() }),
    ] {
        let mut scene = Scene::with_waiters(1);
        scene.handle(input);
        scene.pass(Duration::ZERO);
        assert_eq!(scene.ops(), [refresh(Some(1))]);
    }
}

#[test]
fn a_refresh_that_comes_due_during_another_follows_it_at_once() {
    let mut scene = Scene::with_waiters(1);
    scene.pass(REFRESH_INTERVAL);
    scene.handle(Input::StoreUp);
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), [refresh(Some(1))]);
    scene.answer(&refresh(Some(1)), Ok(refreshed(Vec::new(), true)));
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), [refresh(Some(1))]);
    scene.answer(&refresh(Some(1)), Ok(refreshed(Vec::new(), true)));
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), []);
}

#[test]
fn a_hand_off_from_elsewhere_is_told_once_it_is_confirmed() {
    let mut scene = Scene::with_waiters(2);
    scene.is_granted_elsewhere(2, true);
    assert_eq!(scene.told, []);
    // It counts from when its confirmation was sent.
    scene.pass(Duration::from_millis(10));
    scene.answer(&confirms(2), Ok(Reply::Renewed));
    assert_eq!(scene.told, [(owner(2), scene.granted())]);
    // The same message once more.
    scene.is_granted_elsewhere(2, true);
    assert_eq!(scene.ops(), []);
}

#[test]
fn a_hand_off_to_a_waiter_that_is_announced_later_is_confirmed_then() {
    let mut scene = Scene::new();
    scene.owners.insert(owner(1), true);
    scene.owners.insert(owner(2), true);
    scene.is_granted_elsewhere(1, true);
    scene.is_granted_elsewhere(2, true);
    assert_eq!(scene.ops(), []);
    scene.announce(acquire(1), None);
    assert_eq!(scene.ops(), [confirms(1)]);
    // Nothing is kept for one that has given up before it was announced.
    scene.owners.remove(&owner(2));
    scene.pass(REFRESH_INTERVAL);
    assert!(scene.names.early.is_empty());
}

#[test]
fn a_waiter_whose_claim_has_run_out_joins_the_queue_again() {
    let mut scene = Scene::with_waiters(1);
    scene.is_granted_elsewhere(1, true);
    scene.answer(&confirms(1), Ok(Reply::Lost(Loss::Expired)));
    scene.answer(&joins(1), Ok(queued()));
    assert_eq!((scene.told.len(), scene.discarded.len()), (0, 0));

    scene.is_granted_elsewhere(1, true);
    scene.owners.insert(owner(1), false);
    scene.answer(&confirms(1), Ok(Reply::Lost(Loss::Expired)));
    assert_eq!(scene.ops(), [], "it waits no more");
}

#[test]
fn a_grant_to_a_waiter_that_joins_again_counts_from_when_it_joined() {
    let mut scene = Scene::with_waiters(1);
    scene.is_granted_elsewhere(1, true);
    scene.answer(&confirms(1), Ok(Reply::Lost(Loss::Expired)));
    scene.pass(Duration::from_millis(10));
    scene.answer(&joins(1), Ok(granted()));
    assert_eq!(scene.told, [(owner(1), scene.granted())]);
}

#[test]
fn a_waiter_whose_grant_has_run_out_but_for_its_lock_delay_is_told_so() {
    let mut scene = Scene::with_waiters(2);
    scene.refresh(1, vec![current(1, true)], true);
    scene.answer(&confirms(1), Ok(Reply::Lost(Loss::Expired)));
    scene.answer(&joins(1), Ok(Reply::Lost(Loss::Expired)));
    let [(told, RegistryEvent::GrantFailed(StoreError::Unavailable { .. }))] = &scene.told[..]
    else {
        panic!("{:?}", scene.told);
    };
    assert_eq!((*told, scene.discarded.len()), (owner(1), 0));
    // It is not asked for again: its session releases it.
    scene.pass(REFRESH_INTERVAL);
    assert_eq!(scene.ops(), [refresh(Some(2))]);
}

#[test]
fn a_waiter_is_told_that_its_place_was_resumed_elsewhere() {
    let mut scene = Scene::with_waiters(2);
    scene.is_granted_elsewhere(1, true);
    scene.answer(&confirms(1), Ok(Reply::Lost(Loss::Resumed)));
    scene.is_granted_elsewhere(2, true);
    scene.answer(&confirms(2), Ok(Reply::Lost(Loss::Expired)));
    scene.answer(&joins(2), Ok(Reply::Lost(Loss::Resumed)));
    let (name, owner_of_hold) = (lock(), owner(3));
    scene.handle(Input::WakeUp(WakeUp::Resumed {
        name,
        owner: owner_of_hold,
    }));
    let moved = |number| (owner(number), RegistryEvent::Moved);
    assert_eq!(scene.told, [1, 2, 3].map(moved));
    assert_eq!(scene.discarded, []);
}

#[test]
fn a_holder_is_told_that_its_lock_was_taken_elsewhere() {
    let mut scene = Scene::new();
    let (name, owner) = (lock(), owner(1));
    scene.handle(Input::WakeUp(WakeUp::Forced { name, owner }));
    assert_eq!(scene.told, [(owner, RegistryEvent::Lost(Loss::Forced))]);
}

#[test]
fn a_waiter_is_told_that_an_operator_ended_its_wait_also_if_the_message_was_lost() {
    let mut scene = Scene::with_waiters(3);
    let (name, told) = (lock(), owner(1));
    let wake_up = WakeUp::ForcedWaiter { name, owner: told };
    scene.handle(Input::WakeUp(wake_up));
    let forced = |number| (owner(number), RegistryEvent::ForcedOut);
    assert_eq!(scene.told, [forced(1)]);
    scene.leaves(1);
    // One that is not the oldest: the refresh says that somebody is missing.
    scene.refresh(2, Vec::new(), false);
    assert_eq!(scene.ops(), [joins(2), joins(3)]);
    scene.answer(&joins(2), Ok(queued()));
    scene.answer(&joins(3), Ok(Reply::Lost(Loss::Forced)));
    assert_eq!(scene.told, [forced(1), forced(3)]);
    assert_eq!(scene.discarded, []);
}

#[test]
fn a_request_to_release_is_passed_on_and_asks_nothing_of_the_store() {
    let mut scene = Scene::with_waiters(1);
    let request = Arc::new(ReleaseRequest {
        id: ReleaseRequestId::new(7),
        reason: ReleaseReason::default(),
        within: None,
    });
    let wake_up = WakeUp::ReleaseRequested {
        name: lock(),
        owner: owner(9),
        token: FencingToken::new(3),
        request: Arc::clone(&request),
    };
    scene.handle(Input::WakeUp(wake_up));
    assert_eq!(scene.asked, [(owner(9), FencingToken::new(3), request)]);
    assert_eq!((scene.ops(), scene.told), (Vec::new(), Vec::new()));
}

#[test]
fn a_refresh_finds_the_grants_of_which_no_message_told() {
    let mut scene = Scene::with_waiters(2);
    scene.owners.insert(owner(3), false);
    scene.pass(REFRESH_INTERVAL);
    let all = vec![
        // A waiter, one that is known and waits no more, and grants that nobody here knows of.
        current(2, true),
        current(3, true),
        current(4, true),
        current(5, false),
    ];
    scene.answer(&refresh(Some(1)), Ok(refreshed(all, true)));
    assert_eq!(scene.discarded, [owner(4)]);
    scene.answer(&confirms(2), Ok(Reply::Renewed));
    assert_eq!(scene.told, [(owner(2), scene.granted())]);
    assert_eq!(scene.ops(), []);
}

#[test]
fn waiters_whose_queue_was_lost_join_it_again_in_their_order_once_grants_are_confirmed() {
    let mut scene = Scene::with_waiters(4);
    scene.refresh(1, vec![current(2, true)], false);
    scene.leaves(3);
    assert_eq!(scene.ops(), [confirms(2)]);
    scene.answer(&confirms(2), Ok(Reply::Renewed));
    assert_eq!(scene.ops(), [joins(1), joins(4)]);
    scene.answer(&joins(1), Ok(granted()));
    assert_eq!(scene.told[1], (owner(1), scene.granted()));
    // The refresh is not over before all have an answer.
    scene.pass(REFRESH_INTERVAL);
    assert_eq!(scene.ops(), [joins(4)]);
    scene.answer(&joins(4), Ok(queued()));
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), [refresh(Some(4))]);
}

#[test]
fn all_waiters_join_again_at_the_next_refresh_when_it_is_not_known_whether_one_did() {
    let confirmation_failed = |scene: &mut Scene| {
        scene.is_granted_elsewhere(2, true);
        scene.answer(&confirms(2), Err(down()));
    };
    let joining_failed = |scene: &mut Scene| {
        scene.refresh(1, Vec::new(), false);
        scene.answer(&joins(1), Ok(queued()));
        scene.answer(&joins(2), Err(lost()));
    };
    for failed in [confirmation_failed, joining_failed] {
        let mut scene = Scene::with_waiters(2);
        failed(&mut scene);
        // Still so after a refresh that fails.
        scene.pass(REFRESH_INTERVAL);
        scene.answer(&refresh(Some(1)), Err(down()));
        scene.refresh(1, Vec::new(), true);
        assert_eq!(scene.ops(), [joins(1), joins(2)]);
        for number in [1, 2] {
            scene.answer(&joins(number), Ok(queued()));
        }
        scene.refresh(1, Vec::new(), true);
        assert_eq!(scene.ops(), []);
    }
}

#[test]
fn a_name_is_refreshed_at_once_after_a_command_that_may_have_handed_it_on() {
    for (error, refreshes) in [(lost(), 1), (down(), 0)] {
        let mut scene = Scene::with_waiters(1);
        scene.pass(REFRESH_INTERVAL);
        scene.answer(&refresh(Some(1)), Err(error));
        scene.pass(EXPIRY_SLACK);
        assert_eq!(scene.ops().len(), refreshes);
    }
}

#[test]
fn a_grant_that_replicas_have_not_acknowledged_ends_the_wait() {
    let mut scene = Scene::with_waiters(2);
    scene.is_granted_elsewhere(1, true);
    scene.answer(&confirms(1), Err(not_replicated()));
    scene.refresh(2, Vec::new(), false);
    scene.answer(&joins(2), Err(not_replicated()));
    let failed = |number| (owner(number), RegistryEvent::GrantFailed(not_replicated()));
    assert_eq!(scene.told, [1, 2].map(failed));
    scene.pass(REFRESH_INTERVAL);
    scene.answer(&refresh(None), Ok(refreshed(Vec::new(), true)));
    assert_eq!(scene.ops(), [], "it is known what became of them");
}

#[test]
fn a_waiter_that_left_because_of_a_lowered_limit_is_told_of_it() {
    let limit = Limit {
        number: 3,
        revision: 2,
    };
    let mut scene = Scene::with_waiters(2);
    scene.refresh(1, Vec::new(), false);
    scene.answer(&joins(1), Ok(Reply::OtherLimit { limit }));
    scene.answer(&joins(2), Ok(queued()));
    assert_eq!(scene.told, [(owner(1), RegistryEvent::OtherLimit(limit))]);
    assert_eq!(scene.discarded, []);
    scene.pass(REFRESH_INTERVAL);
    assert_eq!(scene.ops(), [refresh(Some(2))]);
}

#[test]
fn what_joins_the_queue_after_it_gave_up_is_handed_on_unless_it_was_a_call() {
    for (of, discarded) in [(acquire(1), vec![owner(1)]), (call(1), Vec::new())] {
        for reply in [Ok(queued()), Ok(granted()), Err(not_replicated())] {
            let mut scene = Scene::new();
            scene.owners.insert(owner(1), true);
            scene.announce(of.clone(), None);
            scene.refresh(1, Vec::new(), false);
            scene.leaves(1);
            let joins = Op::Acquire(Acquire {
                again: true,
                ..of.clone()
            });
            scene.answer(&joins, reply);
            assert_eq!(scene.discarded, discarded);
        }
    }
}

#[test]
fn a_grant_to_nobody_is_looked_at_before_it_is_handed_on() {
    let mut scene = Scene::new();
    scene.is_granted_elsewhere(1, false);
    assert_eq!(scene.ops(), [], "a call renews its own hold");
    scene.is_granted_elsewhere(1, true);
    assert_eq!(scene.discarded, []);
    scene.answer(&refresh(None), Ok(refreshed(vec![current(1, true)], true)));
    assert_eq!(scene.discarded, [owner(1)]);
}

#[test]
fn a_look_disturbs_no_refresh() {
    let mut scene = Scene::with_waiters(1);
    scene.pass(REFRESH_INTERVAL);
    scene.handle(Input::Look { name: lock() });
    let (of_refresh, of_look) = (scene.sent.pop_front().unwrap(), scene.sent.clone());
    scene.answer(&refresh(None), Ok(refreshed(Vec::new(), false)));
    scene.handle(Input::StoreUp);
    scene.pass(Duration::ZERO);
    assert_eq!((of_look.len(), scene.ops().len()), (1, 0), "one at a time");
    scene.sent.push_back(of_refresh);
    scene.answer(&refresh(Some(1)), Ok(refreshed(Vec::new(), true)));
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), [refresh(Some(1))]);
}

#[test]
fn the_answer_to_a_refresh_of_former_waiters_ends_no_other() {
    let mut scene = Scene::with_waiters(1);
    scene.pass(REFRESH_INTERVAL);
    scene.leaves(1);
    scene.waits(2);
    scene.pass(REFRESH_INTERVAL);
    scene.answer(&refresh(Some(1)), Ok(refreshed(Vec::new(), false)));
    assert_eq!(scene.ops(), [refresh(Some(2))]);
    scene.answer(&refresh(Some(2)), Ok(refreshed(Vec::new(), true)));
    assert_eq!(scene.ops(), []);
    assert!(scene.names.sent.is_empty());
}

#[test]
fn an_answer_counts_once() {
    let mut scene = Scene::with_waiters(1);
    scene.pass(REFRESH_INTERVAL);
    let again = scene.sent[0].clone();
    scene.answer(&refresh(Some(1)), Ok(refreshed(Vec::new(), true)));
    scene.sent.push_back(again);
    let another = vec![current(2, true)];
    scene.answer(&refresh(Some(1)), Ok(refreshed(another, false)));
    assert_eq!(scene.ops(), []);
    assert_eq!(scene.discarded, []);
}

#[test]
fn names_that_differ_in_numbers_alone_have_the_same_hash() {
    let hash = |names: &ContendedNames| BuildHasherDefault::<DefaultHasher>::new().hash_one(names);
    let (fresh, mut used) = (Scene::with_waiters(1), Scene::with_waiters(1));
    used.leaves(1);
    used.waits(1);
    assert_ne!(fresh.names, used.names);
    assert_eq!(hash(&fresh.names), hash(&used.names));
    used.waits(2);
    assert_ne!(hash(&fresh.names), hash(&used.names));
}
