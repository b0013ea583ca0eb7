//! Crowds: more grants than one command makes, more holders than one answer shows or one look reads.

use std::time::Duration;

use leasehold_core::{
    command::{CURRENT_AT_ONCE, End, GRANTS_AT_ONCE, Reply},
    mode::Mode,
    view::{EDGES, HOLDERS_SHOWN},
};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, TestCaseResult},
};

use crate::locks::{
    config,
    history::{Deed, Event, Owner},
    model::Model,
    steps::{Ask, COORDINATORS, LONGEST, permits},
    world::World,
};

/// TTL of a hold that should run out. Coordinators that gave a sign before it are still alive when it does.
const A_SECOND: Duration = Duration::from_secs(1);

/// Event that lets a crowd in.
#[derive(Clone, Copy, Debug)]
enum Opening {
    /// Whom it waits for releases.
    Release,
    /// Whom it waits for shares with it.
    Downgrade,
    /// An operator steps in.
    Force,
    /// Whom it waits for runs out, and a coordinator looks.
    Refresh,
    /// The same, and one more joins it.
    Join,
    /// The same, and one more asks who does not want to wait.
    Ask,
    /// Whom it waits behind gives up.
    Cancel,
}

impl Opening {
    /// Returns whether whom it waits for runs out.
    fn by_time(self) -> bool {
        matches!(self, Self::Refresh | Self::Join | Self::Ask)
    }
}

/// A crowd that waits for one name, numbered from `first`, and one behind it that wants the name alone.
struct Crowd {
    world: World,
    model: Model,
    /// The coordinators at which they wait, in turn.
    coordinators: usize,
    first: usize,
    mode: Mode,
}

impl Crowd {
    /// Gathers a crowd that this opening lets in.
    fn gather(
        size: usize,
        mode: Mode,
        coordinators: usize,
        opening: Opening,
    ) -> Result<Self, TestCaseError> {
        let mut crowd = Self {
            world: World::new(),
            model: Model::default(),
            coordinators,
            first: 1,
            mode,
        };
        let ttl = if opening.by_time() { A_SECOND } else { LONGEST };
        if matches!(opening, Opening::Cancel) {
            crowd.ask(Ask::waiting(mode))?;
            crowd.first = 2;
        }
        let alone = Ask {
            ttl,
            ..Ask::waiting(Mode::Exclusive)
        };
        crowd.ask(alone)?;
        for _ in 0..size {
            let event = crowd.ask(Ask::waiting(mode))?;
            prop_assert!(matches!(event.reply, Reply::Queued { .. }), "{event:#?}");
        }
        if !matches!(opening, Opening::Join) {
            crowd.ask(Ask::waiting(Mode::Exclusive))?;
        }
        Ok(crowd)
    }

    fn open(&mut self, opening: Opening) -> Result<Event, TestCaseError> {
        let alone = Owner(self.first - 1);
        if opening.by_time() {
            self.world.now = self.world.now.after(A_SECOND);
        }
        match opening {
            Opening::Release | Opening::Cancel => self.deed(0, Deed::Release(alone, End::Clean)),
            Opening::Downgrade => self.deed(0, Deed::Downgrade(alone)),
            Opening::Force => self.deed(0, Deed::Force),
            Opening::Refresh => self.deed(0, Deed::Refresh(None)),
            Opening::Join => self.ask(Ask::waiting(self.mode)),
            Opening::Ask => self.ask(Ask {
                wait: false,
                ..Ask::waiting(self.mode)
            }),
        }
    }

    fn ask(&mut self, ask: Ask) -> Result<Event, TestCaseError> {
        let by = self.world.asked.len() % self.coordinators;
        let event = self.world.ask(0, by, ask);
        self.enter(&event)?;
        Ok(event)
    }

    fn deed(&mut self, by: usize, deed: Deed) -> Result<Event, TestCaseError> {
        let event = self.world.deed(0, by, deed);
        self.enter(&event)?;
        Ok(event)
    }

    fn enter(&mut self, event: &Event) -> TestCaseResult {
        self.model.enter(event, &self.world.asked);
        let (line, ledger) = (&self.model.line, &self.model.ledger);
        prop_assert!(line.complaints.is_empty(), "{:#?}", line.complaints);
        prop_assert!(
            ledger.contradictions.is_empty(),
            "{:#?}",
            ledger.contradictions
        );
        let view = self
            .model
            .view(&self.world.asked, event.after.token, event.at);
        prop_assert_eq!(&event.after, &view);
        prop_assert_eq!(event.more, self.model.next_fits(event.at));
        Ok(())
    }
}

/// Sizes about those that matter, and any.
fn size() -> impl Strategy<Value = usize> {
    let step = GRANTS_AT_ONCE;
    let corners = vec![step - 1, step, step + 1, 150, 2 * step, 2 * step + 1];
    prop_oneof![2 => select(corners), 1 => 1..3 * step]
}

fn opening() -> impl Strategy<Value = Opening> {
    use Opening::{Ask, Cancel, Downgrade, Force, Join, Refresh, Release};
    select(vec![Release, Downgrade, Force, Refresh, Join, Ask, Cancel])
}

/// Returns a configuration with few cases, because crowds are large.
fn a_few() -> Config {
    let config = config();
    Config {
        cases: config.cases / 4,
        ..config
    }
}

proptest! {
    #![proptest_config(a_few())]

    /// A crowd comes in a hundred at a time, in order, with one refresh for each hundred after the first, and whoever is
    /// behind it stays there.
    #[test]
    fn a_crowd_comes_in_by_the_hundred(size in size(), semaphore in any::<bool>(), opening in opening()) {
        // Only readers come in beside one that shares.
        let beside = matches!(opening, Opening::Downgrade);
        let mode = if semaphore && !beside { permits(1, 1_000) } else { Mode::Shared };
        let mut crowd = Crowd::gather(size, mode, COORDINATORS, opening)?;
        let size = size + usize::from(matches!(opening, Opening::Join));
        let event = crowd.open(opening)?;
        let mut came = event.handed_to();
        if matches!(opening, Opening::Join) && size <= GRANTS_AT_ONCE {
            prop_assert!(matches!(event.reply, Reply::Granted { .. }), "{event:#?}");
            came.push(Owner(crowd.first + size - 1));
        }
        prop_assert_eq!(came.len(), size.min(GRANTS_AT_ONCE));
        let mut more = event.more;
        for hundred in 1..size.div_ceil(GRANTS_AT_ONCE) {
            prop_assert!(more, "{} are in of {}", came.len(), size);
            let event = crowd.deed(hundred % COORDINATORS, Deed::Refresh(None))?;
            came.extend(event.handed_to());
            more = event.more;
        }
        prop_assert!(!more);
        let all: Vec<_> = (crowd.first..crowd.first + size).map(Owner).collect();
        prop_assert_eq!(came, all);
        let behind = usize::from(!matches!(opening, Opening::Join));
        prop_assert_eq!(crowd.model.line.waiters.len(), behind);
        let seen = crowd.world.view(0);
        prop_assert_eq!(seen.holder_count, crowd.model.holders().len() as u64);
        prop_assert_eq!(seen.holders.len(), HOLDERS_SHOWN.min(crowd.model.holders().len()));
    }

    /// A coordinator that missed all of it is told a hundred at a time, the oldest first, as it renews them.
    #[test]
    fn a_crowd_is_told_by_the_hundred(size in size(), coordinators in 1..=COORDINATORS) {
        let mut crowd = Crowd::gather(size, Mode::Shared, coordinators, Opening::Release)?;
        let mut more = crowd.open(Opening::Release)?.more;
        while more {
            more = crowd.deed(0, Deed::Refresh(None))?.more;
        }
        for by in 0..coordinators {
            let mine = (crowd.first..crowd.first + size).filter(|number| number % coordinators == by);
            let mine: Vec<_> = mine.map(Owner).collect();
            for told in mine.chunks(CURRENT_AT_ONCE).chain([&[][..]]) {
                let event = crowd.deed(by, Deed::Refresh(None))?;
                let Reply::Refreshed { current, .. } = event.reply else { panic!("{event:?}") };
                let current: Vec<_> = current.iter().map(|current| Owner::of(&current.owner)).collect();
                prop_assert_eq!(&current[..], told);
                for owner in told {
                    let event = crowd.deed(by, Deed::Renew(*owner, LONGEST))?;
                    prop_assert_eq!(event.reply, Reply::Renewed);
                }
            }
        }
    }
}

/// The detector of deadlocks is told so where there are too many holders for it, and of the first waiters alone.
#[test]
fn edges_are_bounded() {
    let mut world = World::new();
    let mut model = Model::default();
    for number in 0..=EDGES {
        let event = world.ask(0, 0, Ask::waiting(Mode::Shared));
        model.enter(&event, &world.asked);
        let edges = world.edges(0);
        assert_eq!(edges.complete, number < EDGES);
        assert_eq!(
            edges.holders.len(),
            if number < EDGES { number + 1 } else { 0 }
        );
    }
    for number in 0..=EDGES {
        let event = world.ask(0, 0, Ask::waiting(Mode::Exclusive));
        model.enter(&event, &world.asked);
        assert_eq!(world.edges(0).waiters.len(), EDGES.min(number + 1));
    }
    assert_eq!(world.edges(0), model.edges(&world.asked, world.now));
    world.deed(0, 0, Deed::Release(Owner(0), End::Clean));
    assert!(world.edges(0).complete);
}
