//! Classification of a history's steps by the corner cases that they reach, for coverage.

use leasehold_core::{
    command::{Loss, One, Reply},
    mode::Mode,
};

use crate::locks::{
    history::{Asked, Deed, Event, Owner},
    hold::Grant,
    model::Model,
    modes::{chosen, go_together},
    steps::Step,
    world::World,
};

/// Returns the corners that are met by these steps, each as often as it is met.
pub(crate) fn corners(steps: &[Step]) -> Vec<&'static str> {
    let mut world = World::new();
    let mut models = Model::of_all_names();
    let mut met = Vec::new();
    // What is over since the last grant: a hold, a lock-delay.
    let mut over = models.each_ref().map(|_| (false, false));
    let mut had_token = over.map(|_| false);
    for step in steps {
        let Some(event) = world.step(step) else {
            continue;
        };
        let (model, over) = (&mut models[event.name], &mut over[event.name]);
        let (holds, ghosts) = (model.ledger.holds.len(), model.ledger.ghosts.len());
        let waiters = model.line.waiters.len();
        model.pass(event.at);
        over.0 |= model.ledger.holds.len() < holds;
        over.1 |= model.ledger.ghosts.len() < ghosts;
        met.extend((model.line.waiters.len() < waiters).then_some("lost a place"));

        let before = model.clone();
        let grants = model.enter(&event, &world.asked);
        if !grants.is_empty() {
            met.extend(over.0.then_some("granted after a hold ran out"));
            met.extend(over.1.then_some("granted after a lock-delay ran out"));
            *over = (false, false);
        }
        if let Deed::Acquire(owner, wait) = event.deed {
            let mode = world.asked[owner.0].ask.mode;
            met.extend(of_acquire(&event, (owner, mode, wait), &before, &grants));
        }
        met.extend(of_hold(&event, &before, &grants, &world.asked));
        met.extend(of_coordinator(&event, &before, model));
        met.extend(of_grants(&event, &before, &grants, &world.asked));
        let has_token = event.after.token.is_some();
        let ran_out = had_token[event.name] && !has_token;
        met.extend(ran_out.then_some("token record ran out"));
        had_token[event.name] = has_token;
    }
    met
}

/// Returns the name of the case by which an acquire was answered.
fn of_acquire(
    event: &Event,
    (owner, asked, wait): (Owner, Mode, bool),
    before: &Model,
    grants: &[Grant],
) -> Option<&'static str> {
    let waited = before.line.position(owner).is_some();
    let is_new = grants.iter().any(|grant| grant.hold.owner == owner);
    let is_held = |mode: Mode| before.ledger.holds.iter().any(|hold| hold.mode == mode);
    let ghosts: Vec<Mode> = before
        .ledger
        .ghosts
        .iter()
        .map(|ghost| ghost.mode)
        .collect();
    let mut holds: Vec<Mode> = before.ledger.holds.iter().map(|hold| hold.mode).collect();
    let limit = asked.limit();
    Some(match event.reply {
        Reply::Granted { .. } if !is_new => "told of a grant once more",
        Reply::Granted { .. } if waited && !wait => "granted its place without waiting on",
        Reply::Granted { .. } if wait && !before.line.waiters.is_empty() => {
            "granted from the queue in its own acquire"
        }
        Reply::OtherLimit { .. } if holds.iter().any(|mode| mode.limit().is_some()) => {
            "permits: another limit, of holders"
        }
        Reply::OtherLimit { .. } if ghosts.iter().any(|mode| mode.limit().is_some()) => {
            "permits: another limit, of ghosts"
        }
        Reply::OtherLimit { .. } => "permits: another limit, of waiters",
        Reply::Queued { .. } if waited => "told of a place once more",
        Reply::Queued { .. } if is_held(Mode::Shared) && before.ledger.fits(asked) => {
            "readers: behind a writer"
        }
        Reply::Queued { .. } if limit.is_some() && before.permits().1 == limit => {
            holds.push(asked);
            if before.ledger.fits(asked) {
                "permits: too many are wanted before"
            } else if go_together(&holds) {
                "permits: too many are taken by ghosts"
            } else {
                "permits: too many are taken"
            }
        }
        Reply::Busy { .. } if waited => "refused as busy, and waits on",
        Reply::Busy { .. } => "refused as busy",
        Reply::Late => "refused as late",
        _ => return None,
    })
}

/// Returns the name of the case that a command about a hold met.
fn of_hold(
    event: &Event,
    before: &Model,
    grants: &[Grant],
    asked: &[Asked],
) -> Option<&'static str> {
    let mode = |owner| before.ledger.get(owner).map(|hold| hold.mode);
    let is_ghost = |owner| {
        before
            .ledger
            .ghosts
            .iter()
            .any(|ghost| ghost.owner == owner)
    };
    Some(match (event.deed, &event.reply) {
        (Deed::Renew(owner, _), Reply::Renewed) if asked[owner.0].by != event.by => {
            "renewed elsewhere"
        }
        (Deed::Renew(owner, _), Reply::Lost(Loss::Taken)) if is_ghost(owner) => "lost: a ghost",
        (Deed::Renew(..), Reply::Lost(Loss::Resumed)) => "lost: resumed",
        (Deed::Acquire(..), Reply::Lost(Loss::Forced)) => "asked again, though ended by force",
        (Deed::Acquire(..), Reply::Lost(Loss::Expired)) => "asked again in the lock-delay",
        (Deed::Acquire(..), Reply::Lost(_)) => "asked again, though resumed",
        (Deed::Resume(resumption), reply) => {
            let known = |owner| before.ledger.get(owner).map(|hold| hold.coordinator);
            let next = known(resumption.next);
            let of = next.or_else(|| resumption.former().find_map(known));
            match reply {
                Reply::Resumed { .. } if !grants.is_empty() && of.is_none() => {
                    "place resumed, and granted"
                }
                Reply::Resumed { .. } if next.is_some() => "resumed once more",
                Reply::Resumed { .. } if of == Some(event.by) => "resumed here",
                Reply::Resumed { .. } => "resumed elsewhere",
                Reply::ResumedWait { .. } if before.line.get(resumption.next).is_some() => {
                    "place resumed once more"
                }
                Reply::ResumedWait { .. } => "place resumed",
                Reply::Lost(Loss::Resumed) => "not resumed: resumed",
                Reply::Lost(Loss::Forced) => "not resumed: ended by force",
                Reply::Lost(Loss::Expired) => "not resumed: expired",
                Reply::Lost(Loss::Deleted) => "not resumed: deleted",
                Reply::Lost(Loss::Taken) => "not resumed: taken",
                _ => return None,
            }
        }
        (_, Reply::Renewed) => "renewed",
        (_, Reply::Lost(Loss::Expired)) => "lost: expired",
        (_, Reply::Lost(Loss::Deleted)) => "lost: deleted",
        (_, Reply::Lost(Loss::Taken)) => "lost: taken",
        (
            Deed::Release(owner, _),
            Reply::Released {
                closed_for: Some(_),
                ..
            },
        ) => match mode(owner) {
            Some(Mode::Exclusive) => "released, and closed",
            _ => "released, and a ghost left",
        },
        (Deed::Release(..), Reply::Released { waited: true, .. }) if !grants.is_empty() => {
            "released by a waiter, and those behind let in"
        }
        (Deed::Release(..), Reply::Released { waited: true, .. }) => "released by a waiter",
        (Deed::Downgrade(owner), Reply::Changed(true)) => match mode(owner) {
            Some(Mode::Shared) => "downgraded, though shared",
            _ if grants.is_empty() => "downgraded",
            _ => "downgraded, and readers let in",
        },
        (Deed::Downgrade(owner), Reply::Changed(false)) if mode(owner).is_some() => {
            "not downgraded, of a semaphore"
        }
        (Deed::Reduce(owner, most), Reply::Changed(true)) => {
            match mode(owner).map_or(0, Mode::permits) <= most {
                true => "reduced, though it has no more",
                false if grants.is_empty() => "reduced",
                false => "reduced, and waiters let in",
            }
        }
        (Deed::Reduce(owner, _), Reply::Changed(false)) if mode(owner).is_some() => {
            "not reduced, of no semaphore"
        }
        (Deed::SetCount(..), Reply::Changed(true)) => "counted",
        (Deed::RequestRelease(_), Reply::Asked { holders }) => match holders.len() {
            0 => "nobody asked to release",
            1 => "asked to release",
            _ => "several asked to release",
        },
        _ => return None,
    })
}

/// Returns the name of the case that a refresh or a force release met.
fn of_coordinator(event: &Event, before: &Model, after: &Model) -> Option<&'static str> {
    let closed = before
        .ledger
        .ghosts
        .iter()
        .any(|ghost| ghost.mode == Mode::Exclusive);
    Some(match &event.reply {
        Reply::Refreshed { current, .. } => {
            let mut holds = current
                .iter()
                .filter_map(|c| after.ledger.get(Owner::of(&c.owner)));
            holds.find(|hold| hold.fresh && hold.mode != Mode::Exclusive)?;
            "told of a hand-off"
        }
        Reply::Forced {
            released: true,
            former,
            ..
        } => match (event.deed, former.len()) {
            (Deed::ForceOne(One::Waiter(_)), _) if !event.handed.is_empty() => {
                "a wait ended by force, and those behind let in"
            }
            (Deed::ForceOne(One::Waiter(_)), _) => "a wait ended by force",
            (Deed::ForceOne(_), _) if !after.ledger.holds.is_empty() && event.handed.is_empty() => {
                "one of several taken by force"
            }
            (Deed::ForceOne(_), _) => "the only one taken by force",
            (_, 0) if closed => "taken by force from a lock-delay",
            (_, 0) => "taken by force from ghosts alone",
            (_, 1) => "taken by force",
            _ => "taken by force from several",
        },
        _ => return None,
    })
}

/// Returns the cases that the grants met: the grantee, and the holders beside it.
fn of_grants(
    event: &Event,
    before: &Model,
    grants: &[Grant],
    asked: &[Asked],
) -> Vec<&'static str> {
    let mut met = Vec::new();
    let mut waited: Vec<Owner> = before
        .line
        .waiters
        .iter()
        .map(|waiter| waiter.owner)
        .collect();
    let mut last = None;
    for grant in grants {
        let owner = grant.hold.owner;
        let place = waited.iter().position(|waiter| *waiter == owner);
        met.push(match place {
            Some(0) if asked[owner.0].by == event.by => "granted to a waiter here",
            Some(0) => "granted to a waiter elsewhere",
            Some(_) => "granted past a waiter that is dead",
            None if waited.is_empty() => "granted at once",
            None => "granted past the queue, all dead",
        });
        waited.retain(|waiter| *waiter != owner);
        let [beside, together, ghost] = match grant.hold.mode {
            Mode::Exclusive => continue,
            Mode::Shared => [
                "readers: granted beside others",
                "readers: granted together",
                "readers: granted beside a ghost",
            ],
            Mode::Semaphore(_) => [
                "permits: granted beside others",
                "permits: granted together",
                "permits: granted beside a ghost",
            ],
        };
        met.extend((!grant.beside.is_empty()).then_some(beside));
        met.extend(chosen(grant.hold.mode).map(|permits| {
            match permits < asked[owner.0].ask.mode.permits() {
                true if place.is_some() => "permits: what is left, to a waiter",
                true => "permits: what is left, at once",
                false => "permits: all, though fewer would do",
            }
        }));
        met.extend((last == Some(beside)).then_some(together));
        met.extend((!before.ledger.ghosts.is_empty() && !grant.closed.is_empty()).then_some(ghost));
        last = Some(beside);
    }
    met
}
