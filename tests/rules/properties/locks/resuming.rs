//! Properties of resumes: a hold or a waiter moves to another stream unchanged, and its old owner id is void.

use std::{collections::HashSet, time::Duration};

use leasehold_core::{
    command::{End, Loss, REFRESH_INTERVAL, Reply},
    id::{MOST_PREDECESSORS, Predecessors, SessionId},
    view::{HolderView, NameView},
};
use proptest::prelude::*;

use crate::locks::{
    config,
    history::{Deed, Owner, Resumption},
    model::Model,
    steps::{Ask, COORDINATORS, LONGEST, NAMES, a_mode, steps},
    world::{TOKEN_MEMORY, World, coordinator},
};

/// Returns whether the session that had it before a resume is the latest predecessor after it, unless the resume was repeated.
fn succeeds(resumption: Resumption, was: Option<SessionId>, predecessors: &Predecessors) -> bool {
    let next = resumption.next.session();
    let count = predecessors.iter().count();
    let is_first = || predecessors.iter().next() == was;
    count <= MOST_PREDECESSORS && (was.is_none_or(|was| was == next) || is_first())
}

proptest! {
    #![proptest_config(config())]

    /// A hold keeps its token, its mode and its value, a waiter its place, and nobody else is touched but whom a hand-off
    /// reaches. Who resumed it is seen from then on.
    #[test]
    fn only_the_stream_changes(steps in steps(160)) {
        let mut world = World::new();
        for step in &steps {
            let before: [_; NAMES] = std::array::from_fn(|name| world.view(name));
            let Some(event) = world.step(step) else { continue };
            let Deed::Resume(resumption) = event.deed else { continue };
            let before = &before[event.name];
            match &event.reply {
                Reply::Resumed { token, terms, .. } if before.holders.iter().any(|h| token_of(h) == token.get()) => {
                    prop_assert!(event.handed.is_empty(), "{event:#?}");
                    prop_assert_eq!(but_streams(&event.after), but_streams(before), "{:#?}", event);
                    let resumed = event.after.holders.iter().find(|h| token_of(h) == token.get());
                    let Some(HolderView::Ours(hold)) = resumed else { panic!("{event:#?}") };
                    prop_assert_eq!(hold.session, Some(resumption.next.session()));
                    let was = before.holders.iter().find(|h| token_of(h) == token.get());
                    let Some(HolderView::Ours(was)) = was else { panic!("{event:#?}") };
                    prop_assert!(succeeds(resumption, was.session, &terms.predecessors), "{event:#?}");
                    prop_assert_eq!(&hold.predecessors, &terms.predecessors);
                    prop_assert_eq!(&hold.coordinator, &coordinator(event.by));
                    prop_assert_eq!(hold.expires_in, world.asked[resumption.next.0].ask.ttl);
                }
                Reply::ResumedWait { position, waiter: resumed, .. } => {
                    let waits = |view: &NameView| view.waiters.iter().map(|w| (w.since, w.mode)).collect::<Vec<_>>();
                    let (was, mut is) = (waits(before), waits(&event.after));
                    let place = usize::try_from(*position).unwrap() - 1;
                    let waiter = &event.after.waiters[place];
                    prop_assert_eq!(waiter.session, Some(resumption.next.session()));
                    let waited = before.waiters.iter().find(|w| w.number == waiter.number).unwrap();
                    prop_assert!(succeeds(resumption, waited.session, &resumed.predecessors), "{event:#?}");
                    prop_assert_eq!(&waiter.predecessors, &resumed.predecessors);
                    // Those that are left are those that were, in their order.
                    for waiter in was.iter().rev() {
                        if is.last() == Some(waiter) {
                            is.pop();
                        }
                    }
                    prop_assert!(is.is_empty(), "{event:#?} after {before:#?}");
                }
                Reply::Lost(Loss::Expired) => {
                    prop_assert!(event.handed.is_empty(), "{event:#?}");
                    // What is left of it is in the way for its lock-delay, and says nothing of its client.
                    prop_assert_eq!(but_clients(&event.after), but_clients(before), "{:#?}", event);
                }
                Reply::Lost(_) | Reply::Late => {
                    prop_assert!(event.handed.is_empty(), "{event:#?}");
                    prop_assert_eq!(&event.after, before, "{:#?}", event);
                }
                _ => {}
            }
        }
    }

    /// While it is remembered, a replaced owner id can do nothing, whatever else happens; a caller that asks about it learns
    /// that it was resumed.
    #[test]
    fn a_replaced_owner_id_can_do_nothing(steps in steps(160)) {
        let mut world = World::new();
        let mut models = Model::of_all_names();
        let mut replaced: [HashSet<Owner>; NAMES] = Default::default();
        for step in &steps {
            let Some(event) = world.step(step) else { continue };
            models[event.name].enter(&event, &world.asked);
            if let (
                Deed::Resume(Resumption { next, .. }),
                Reply::Resumed { .. } | Reply::ResumedWait { .. },
            ) = (event.deed, &event.reply)
                && let Deed::Resume(resumption) = event.deed
            {
                replaced[event.name].extend(resumption.former().filter(|owner| *owner != next));
            }
            let model = &models[event.name];
            replaced[event.name].retain(|owner| model.ledger.is_replaced(*owner));
            // One that was named beside another by mistake goes on standing for something.
            let stands = |owner: &Owner| {
                model.ledger.get(*owner).is_some() || model.line.get(*owner).is_some()
            };
            let owners = replaced[event.name].iter().filter(|owner| !stands(owner));
            let owners: Vec<Owner> = owners.copied().collect();
            for owner in owners {
                let seen = world.view(event.name);
                let nothing = Reply::Released { held: false, waited: false, closed_for: None };
                for (deed, due) in [
                    (Deed::Renew(owner, LONGEST), Reply::Lost(Loss::Resumed)),
                    (Deed::Acquire(owner, true), Reply::Lost(Loss::Resumed)),
                    (Deed::Acquire(owner, false), Reply::Lost(Loss::Resumed)),
                    (Deed::SetValue(owner, 1), Reply::Changed(false)),
                    (Deed::SetCount(owner, 2), Reply::Changed(false)),
                    (Deed::Downgrade(owner), Reply::Changed(false)),
                    (Deed::Reduce(owner, 1), Reply::Changed(false)),
                    (Deed::Release(owner, End::Unclean), nothing.clone()),
                    (Deed::Release(owner, End::Clean), nothing),
                ] {
                    for by in 0..COORDINATORS {
                        let tried = world.deed(event.name, by, deed);
                        prop_assert_eq!(&tried.reply, &due, "{:?} after {:#?}", deed, event);
                        prop_assert_eq!(&tried.after, &seen, "{:?} after {:#?}", deed, event);
                        prop_assert!(tried.handed.is_empty());
                    }
                }
            }
        }
    }

    /// Whichever of the owner ids it is under, however often that is asked, and through whichever coordinators it went: there
    /// is one hold, under the last owner id that was answered or asked for.
    #[test]
    fn it_is_found_under_whatever_it_may_be(
        mode in a_mode(),
        by in prop::collection::vec(0..COORDINATORS, 1..6),
        answered in prop::collection::vec(any::<bool>(), 6),
    ) {
        let mut world = World::new();
        let first = world.ask(0, 0, Ask::waiting(mode));
        let Reply::Granted { token, .. } = first.reply else { panic!("{first:#?}") };
        let (mut confirmed, mut tried) = (Owner(0), None);
        for (by, answered) in by.into_iter().zip(answered) {
            let event = world.resume(0, by, LONGEST, confirmed, tried);
            let Reply::Resumed { token: now, .. } = event.reply else { panic!("{event:#?}") };
            prop_assert_eq!(now, token);
            prop_assert_eq!(event.after.holder_count, 1);
            let next = Owner(world.asked.len() - 1);
            // Where it was not, the next one is tried as well; two of them are as many as there are here.
            (confirmed, tried) = match answered || tried.is_some() {
                true => (next, None),
                false => (confirmed, Some(next)),
            };
        }
        let end = world.deed(0, 0, Deed::Release(tried.unwrap_or(confirmed), End::Clean));
        prop_assert!(matches!(end.reply, Reply::Released { held: true, .. }), "{end:#?}");
    }

    /// Waiters of a coordinator that died can be resumed for as long as they keep their places, and stand where they stood.
    #[test]
    fn places_are_resumed_from_a_dead_coordinator(
        mode in a_mode(),
        waiters in 1..6_usize,
        silent in 0..10_000_u64,
        which in 0..6_usize,
    ) {
        let mut world = World::new();
        world.ask(0, 2, Ask { ttl: LONGEST, ..Ask::waiting(leasehold_core::mode::Mode::Exclusive) });
        for _ in 0..waiters {
            world.ask(0, 0, Ask::waiting(mode));
        }
        let others = world.ask(0, 1, Ask::waiting(mode));
        prop_assert_eq!(others.after.waiter_count, waiters as u64 + 1);
        let mut left = silent;
        while left > 0 {
            let part = left.min(900);
            world.now = world.now.after(Duration::from_millis(part));
            world.deed(0, 1, Deed::Refresh(None));
            left -= part;
        }
        let place = which % waiters;
        let event = world.resume(0, 1, LONGEST, Owner(1 + place), None);
        let Reply::ResumedWait { position, .. } = event.reply else { panic!("{event:#?}") };
        prop_assert_eq!(position, place as u64 + 1);
        world.now = world.now.after(REFRESH_INTERVAL / 2);
        // The others are skipped, should their coordinator be dead by now.
        let freed = world.deed(0, 2, Deed::Release(Owner(0), End::Clean));
        if silent >= 2_000 {
            let next = Owner(world.asked.len() - 1);
            let first = freed.handed_to().first().copied();
            prop_assert_eq!(first, Some(next), "{:#?}", freed);
        }
    }

    /// A replaced owner id is remembered to the microsecond, and then forgotten.
    #[test]
    fn replaced_owner_ids_are_forgotten_in_time(mode in a_mode(), part in 0.0..1.0_f64) {
        let mut world = World::new();
        world.ask(0, 0, Ask::waiting(mode));
        world.resume(0, 1, LONGEST, Owner(0), None);
        let over = world.now.after(TOKEN_MEMORY);
        let moment = Duration::from_micros(1);
        world.now = world.now.after(TOKEN_MEMORY.mul_f64(part)).min(over.before(moment));
        let renew = Deed::Renew(Owner(0), LONGEST);
        prop_assert_eq!(world.deed(0, 0, renew).reply, Reply::Lost(Loss::Resumed));
        world.now = over;
        prop_assert_eq!(world.deed(0, 0, renew).reply, Reply::Lost(Loss::Deleted));
    }
}

fn token_of(holder: &HolderView) -> i64 {
    match holder {
        HolderView::Ours(hold) => hold.token.get(),
        HolderView::Foreign { .. } => 0,
    }
}

/// Returns the view without the client of a hold that has run out.
fn but_clients(view: &NameView) -> NameView {
    let mut view = view.clone();
    for holder in &mut view.holders {
        if let HolderView::Ours(hold) = holder
            && hold.expires_in.is_zero()
        {
            hold.client_name = leasehold_core::name::ClientName::default();
            hold.value = leasehold_core::name::Value::default();
        }
    }
    view
}

/// Returns the view without the fields that a resume changes, and without the order of holders, which depends on the times
/// left.
fn but_streams(view: &NameView) -> NameView {
    let mut view = view.clone();
    for holder in &mut view.holders {
        if let HolderView::Ours(hold) = holder {
            hold.session = None;
            hold.predecessors = Predecessors::default();
            hold.client_name = leasehold_core::name::ClientName::default();
            hold.coordinator = coordinator(0);
            hold.count = 1;
            hold.expires_in = Duration::ZERO;
            // Where it was unconfirmed, it had none yet.
            hold.lock_delay = Duration::ZERO;
        }
    }
    view.holders.sort_unstable_by_key(token_of);
    view
}
