//! Comparison of every reply and view with the model's, in all details that follow from the grants.

use std::{cell::Cell, time::Duration};

use leasehold_core::{
    command::{Acquire, HoldAt, Loss, Op, OwnerAt, Reply},
    id::{FencingToken, Predecessors},
    time::StoreTime,
    view::{HolderView, NameView},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseResult, TestRunner},
};

use crate::locks::{
    config,
    history::{Asked, Deed, Event},
    hold::{Grant, Hold},
    model::Model,
    steps::{Step, steps, steps_with_floors_and_memories},
    world::{World, coordinator},
};

/// Histories whose answers are compared, and the commands that each has at least, on average.
const HISTORIES: u32 = 512;
const COMMANDS: usize = 50;

/// Record of a name's tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    newest: Option<(FencingToken, StoreTime)>,
}

impl Record {
    /// Enters an event. A grant, a force release, and any question about a hold renew the memory of the newest token: for the
    /// memory after its own time, or after now if that is later.
    fn enter(&mut self, event: &Event, grants: &[Grant]) {
        self.newest.take_if(|(_, until)| *until <= event.at);
        let until = |token: FencingToken| {
            let latest = event.at.max(StoreTime::from_micros(token.get()));
            latest.after(event.memory)
        };
        match (event.deed, &event.reply) {
            (Deed::Renew(..), Reply::Renewed | Reply::Lost(Loss::Expired))
            | (Deed::Resume(_), Reply::Resumed { .. }) => {
                self.newest = self.newest.map(|(token, _)| (token, until(token)));
            }
            (
                Deed::Force,
                Reply::Forced {
                    released: true,
                    token,
                    ..
                },
            ) => self.newest = Some((*token, until(*token))),
            (Deed::ForceOne(_), Reply::Forced { token, .. })
                if grants.is_empty() && self.token().is_none_or(|newest| newest < *token) =>
            {
                let minted = token.get() > 0;
                self.newest = minted.then(|| (*token, until(*token)));
            }
            _ => {}
        }
        if let Some(grant) = grants.last() {
            self.newest = Some((grant.hold.token, until(grant.hold.token)));
        }
    }

    fn token(&self) -> Option<FencingToken> {
        self.newest.map(|(token, _)| token)
    }
}

/// Every answer, view and set of edges over many histories of all modes.
#[test]
fn every_answer_and_view_is_right() {
    let config = config();
    let cases = config.cases.max(HISTORIES);
    let mut runner = TestRunner::new(Config { cases, ..config });
    let commands = Cell::new(0);
    let result = runner.run(&steps(160), |steps| {
        let mut world = World::new();
        let result = compare(&mut world, &steps);
        commands.set(commands.get() + world.commands);
        result
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let commands = commands.get();
    eprintln!("compared the answers to {commands} commands");
    assert!(
        commands >= cases as usize * COMMANDS,
        "only {commands} commands in {cases} histories"
    );
}

/// The same where floors run ahead of the clock and memories are short.
#[test]
fn every_answer_and_view_is_right_under_floors_and_short_memories() {
    let steps = steps_with_floors_and_memories(160, Duration::from_secs(1000), false);
    let result = TestRunner::new(config()).run(&steps, |steps| compare(&mut World::new(), &steps));
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn compare(world: &mut World, steps: &[Step]) -> TestCaseResult {
    let mut models = Model::of_all_names();
    let mut records = models.each_ref().map(|_| Record::default());
    for step in steps {
        let Some(event) = world.step(step) else {
            continue;
        };
        let (model, record) = (&mut models[event.name], &mut records[event.name]);
        model.pass(event.at);
        let before = model.clone();
        let grants = model.enter(&event, &world.asked);
        record.enter(&event, &grants);
        if let (Deed::Resume(resumption), Reply::ResumedWait { waiter, .. }) =
            (event.deed, &event.reply)
        {
            let Op::Acquire(due) = world.op(Deed::Acquire(resumption.next, true)) else {
                panic!("it is an acquire")
            };
            prop_assert_eq!(
                &waiter.acquire,
                &Acquire {
                    again: false,
                    ..due
                },
                "{:#?}",
                event
            );
        }
        compare_answer(&event, &before, model, record, &world.asked)?;
        let view = model.view(&world.asked, record.token(), event.at);
        prop_assert_eq!(&but_predecessors(&event.after), &view, "after {:#?}", event);
        let edges = world.edges(event.name);
        let due = model.edges(&world.asked, event.at);
        prop_assert_eq!(edges, due, "after {:#?}", event);
    }
    Ok(())
}

/// Compares the answer's reports of other holds, and the grants with their recipients.
fn compare_answer(
    event: &Event,
    before: &Model,
    after: &Model,
    record: &Record,
    asked: &[Asked],
) -> TestCaseResult {
    match &event.reply {
        Reply::Busy { holder } => {
            prop_assert_eq!(holder.as_ref(), event.after.holders.first(), "{:#?}", event);
        }
        Reply::Queued { expires_in, .. } | Reply::ResumedWait { expires_in, .. } => {
            prop_assert_eq!(*expires_in, after.expires_in(event.at), "{:#?}", event);
        }
        Reply::Refreshed {
            expires_in,
            attached,
            ..
        } => {
            prop_assert_eq!(*expires_in, after.expires_in(event.at), "{:#?}", event);
            let has_lost = before.line.has_lost.contains(&event.by);
            if let Deed::Refresh(Some(oldest)) = event.deed {
                let holds = after.ledger.get(oldest).is_some();
                let waits = after.line.position(oldest).is_some();
                prop_assert_eq!(*attached, !has_lost && (holds || waits), "{:#?}", event);
            } else {
                prop_assert_eq!(*attached, !has_lost, "{:#?}", event);
            }
        }
        Reply::Forced { token, .. } if matches!(event.deed, Deed::ForceOne(_)) => {
            prop_assert_eq!(*token, record.token().unwrap_or_default(), "{:#?}", event);
        }
        Reply::Forced {
            former,
            released,
            token,
        } => {
            let mut holds = before.ledger.holds.clone();
            holds.sort_unstable_by_key(|hold| hold.owner);
            let due = holds.iter().map(|hold| OwnerAt {
                owner: hold.owner.id(),
                coordinator: coordinator(hold.coordinator),
            });
            prop_assert_eq!(former, &due.collect::<Vec<_>>(), "{:#?}", event);
            let nothing = holds.is_empty() && before.ledger.ghosts.is_empty();
            prop_assert_eq!(*released, !nothing, "{:#?}", event);
            prop_assert_eq!(*token, record.token().unwrap_or_default(), "{:#?}", event);
        }
        Reply::Asked { holders } => {
            let Deed::RequestRelease(only) = event.deed else {
                panic!("{event:#?}")
            };
            // Who is not on a session can't be told. The view after it shows that it changes nothing.
            let is_asked = |hold: &&Hold| {
                !asked[hold.owner.0].ask.unary && only.is_none_or(|token| hold.token == token)
            };
            let mut due: Vec<_> = before.ledger.holds.iter().filter(is_asked).collect();
            due.sort_unstable_by_key(|hold| hold.owner);
            let due = due.iter().map(|hold| HoldAt {
                holder: OwnerAt {
                    owner: hold.owner.id(),
                    coordinator: coordinator(hold.coordinator),
                },
                token: hold.token,
            });
            prop_assert_eq!(holders, &due.collect::<Vec<_>>(), "{:#?}", event);
            prop_assert!(event.handed.is_empty() && !event.more, "{:#?}", event);
        }
        _ => {}
    }
    for handed in &event.handed {
        let unary = asked[handed.owner.0].ask.unary;
        prop_assert_eq!(handed.of_session, !unary, "{:#?}", event);
    }
    Ok(())
}

/// Returns a view without the sessions that something was resumed from: `resuming` sees to those.
fn but_predecessors(view: &NameView) -> NameView {
    let mut view = view.clone();
    for holder in &mut view.holders {
        if let HolderView::Ours(hold) = holder {
            hold.predecessors = Predecessors::default();
        }
    }
    for waiter in &mut view.waiters {
        waiter.predecessors = Predecessors::default();
    }
    view
}
