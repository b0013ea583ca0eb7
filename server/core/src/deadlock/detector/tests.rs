//! Passes over edges that a test makes up, on virtual time.

use std::collections::{HashSet, VecDeque};

use super::*;
use crate::{
    deadlock::{BlockedWait, blocked::BlockedWaits, share},
    id::{Actor, OwnerId, SessionId},
    mode::Mode,
    name::ClientName,
    time::StoreTime,
    view::{HoldEdge, WaitEdge},
};

/// Actors of the passes: each holds the name of its own number, and waits for the other's.
const ACTORS: [u8; 2] = [1, 2];

fn id(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn session(number: u8) -> SessionId {
    SessionId::from_bytes([number; 16])
}

fn name(number: u8) -> LockName {
    LockName::parse(&format!("name {number}")).unwrap()
}

fn wait(number: u8) -> BlockedWait {
    BlockedWait {
        session: session(number),
        actor: Actor::new(1),
        ticket: id(number + 100),
        name: name(3 - number),
    }
}

/// Returns the edges of a name: its holder, if it is held, and its waiter.
fn edges(number: u8, is_held: bool) -> NameEdges {
    let client_name = ClientName::parse("").unwrap();
    let holder = HoldEdge {
        owner: id(number),
        session: Some(session(number)),
        actor: Actor::new(1),
        client_name: client_name.clone(),
        mode: Mode::Exclusive,
    };
    let waiter = wait(3 - number);
    NameEdges {
        holders: is_held.then_some(holder).into_iter().collect(),
        waiters: vec![WaitEdge {
            owner: waiter.ticket,
            session: Some(waiter.session),
            actor: waiter.actor,
            client_name,
            mode: Mode::Exclusive,
            since: StoreTime::from_micros(number.into()),
        }],
        limit: None,
        complete: true,
    }
}

/// Pass of the store: whether each of the names is seen held, or `None` if the store does not answer.
type Seen = Option<[bool; 2]>;

/// Pass of the detector.
struct Made {
    begun: Moment,
    published: Publication,
    report: Report,
}

/// Detector of a coordinator, at a store that shows these passes, and the last of them for ever.
struct Scene {
    detector: Detector,
    waits: BlockedWaits,
    passes: VecDeque<Seen>,
    now: Moment,
    /// Number for the next lot.
    seed: u64,
    /// Numbers of outputs that ask to wait until an actor waits, and to read.
    idled: usize,
    read: usize,
    ended: Vec<OwnerId>,
}

impl Scene {
    fn of(waits: impl IntoIterator<Item = BlockedWait>, passes: &[Seen]) -> Self {
        let mut scene = Self {
            detector: Detector::default(),
            waits: BlockedWaits::default(),
            passes: passes.iter().copied().collect(),
            now: Moment::from_micros(0),
            seed: 0,
            idled: 0,
            read: 0,
            ended: Vec::new(),
        };
        for wait in waits {
            scene.waits.add(&Arc::from("caller"), &wait, scene.now);
        }
        scene
    }

    fn handle(&mut self, input: Input) -> Output {
        let (waits, now) = (&self.waits, self.now);
        self.detector.handle(input, now, |lot| {
            let (chosen, omitted) = share::choose(waits.candidates(now), lot);
            (waits.publication(&chosen), omitted)
        })
    }

    /// Makes a pass, and ends its deadlocks. Returns `None` if nobody waits.
    fn pass(&mut self) -> Option<Made> {
        let seen = self.passes[0];
        if self.passes.len() > 1 {
            self.passes.pop_front();
        }
        let mut exchanged = None;
        self.seed += 1;
        let mut output = self.handle(Input::Ready(self.seed));
        loop {
            let input = match output {
                Output::Idle(time) => {
                    self.idled += 1;
                    if self.waits.is_empty() {
                        return None;
                    }
                    self.now = self.now.after(time);
                    Input::Rested
                }
                Output::Rest(time) => {
                    self.now = self.now.after(time);
                    Input::Rested
                }
                Output::Exchange(mine) => {
                    exchanged = Some((self.now, mine.clone()));
                    self.now = self.now.after(LOOK_EVERY / 2);
                    Input::Exchanged(seen.map(|_| vec![Arc::new(mine)]))
                }
                Output::Read(names) => {
                    self.read += 1;
                    let held = ACTORS.into_iter().zip(seen.unwrap());
                    let read = held.map(|(number, is_held)| (name(number), edges(number, is_held)));
                    Input::Read(read.filter(|(name, _)| names.contains(name)).collect())
                }
                Output::Report(report) => {
                    for deadlock in &report.deadlocks {
                        if self.waits.remove(&deadlock.victim) {
                            self.ended.push(deadlock.victim.ticket);
                        }
                    }
                    let (begun, published) = exchanged.unwrap();
                    return Some(Made {
                        begun,
                        published,
                        report,
                    });
                }
            };
            output = self.handle(input);
        }
    }

    fn passes(&mut self, number: usize) -> Vec<Made> {
        (0..number).map(|_| self.pass().unwrap()).collect()
    }
}

/// Returns the number of deadlocks that each pass found.
fn found(made: &[Made]) -> Vec<usize> {
    made.iter()
        .map(|made| made.report.deadlocks.len())
        .collect()
}

const BOTH: Seen = Some([true, true]);
const ONE: Seen = Some([true, false]);
const OTHER: Seen = Some([false, true]);

#[test]
fn nobody_is_aborted_for_a_circle_that_no_two_passes_have_seen() {
    // Each actor releases its name and takes it again all the time. A pass that reads one name after the other can see both
    // held although they never were at once; the passes before and after it do not.
    let phantom = [BOTH, ONE, BOTH, OTHER];
    let mut scene = Scene::of(ACTORS.map(wait), &phantom.repeat(5));
    for made in scene.passes(20) {
        assert_eq!(made.report.deadlocks, []);
    }
}

#[test]
fn the_younger_wait_of_a_circle_that_two_passes_have_seen_ends() {
    let mut scene = Scene::of(ACTORS.map(wait), &[ONE, BOTH, BOTH]);
    let made = scene.passes(4);
    // The wait for name 2 is the younger one.
    assert_eq!(scene.ended, [wait(1).ticket]);
    assert_eq!(found(&made), [0, 0, 1, 0]);
    assert_eq!(made[2].report.deadlocks[0].victim, wait(1));
    for Made { report, .. } in made {
        assert!(report.omitted == Omitted::default() && !report.warns);
    }
}

#[test]
fn two_passes_have_to_be_made_again_where_the_store_does_not_answer() {
    let mut scene = Scene::of(ACTORS.map(wait), &[BOTH, None, BOTH, BOTH]);
    let made = scene.passes(4);
    assert_eq!(found(&made), [0, 0, 0, 1]);
}

#[test]
fn passes_follow_each_other_while_an_actor_waits_and_the_last_one_publishes_nothing() {
    let mut scene = Scene::of([wait(1)], &[ONE]);
    for (number, made) in (1..).zip(scene.passes(3)) {
        let begun = Moment::from_micros(0).after(LOOK_EVERY * number);
        assert_eq!((made.begun, made.published.waits.len()), (begun, 1));
    }
    assert_eq!(scene.read, 3);
    scene.waits.remove(&wait(1));
    let last = scene.pass().unwrap().published;
    assert!(last.is_empty() && scene.read == 3);
    // Nobody waits, and the others know it.
    assert!(scene.pass().is_none() && scene.idled == 2);
    // Neither does a wait that is over at once cost a pass.
    scene.waits.add(&Arc::from("caller"), &wait(1), scene.now);
    let idle = scene.handle(Input::Ready(1));
    assert!(matches!(idle, Output::Idle(LOOK_EVERY)));
    scene.waits.remove(&wait(1));
    let idle = scene.handle(Input::Rested);
    assert!(matches!(idle, Output::Idle(LOOK_EVERY)));
}

/// Returns so many waits of one actor, or of an actor each.
fn waits(of: u8, number: u8, is_one: bool) -> impl Iterator<Item = BlockedWait> {
    (0..number).map(move |number| BlockedWait {
        session: session(of),
        actor: Actor::new(if is_one { 1 } else { u64::from(number) + 1 }),
        ticket: id(number),
        name: LockName::parse(&format!("{number:0512}")).unwrap(),
    })
}

#[test]
fn an_actor_with_more_waits_than_fit_is_left_out_whole_and_its_session_is_named() {
    // Forty waits of 512 bytes each are more than a session may publish.
    let all = waits(7, 40, true).chain(waits(8, 40, false));
    let mut scene = Scene::of(all.chain([wait(1)]), &[ONE]);
    let Made {
        published, report, ..
    } = scene.pass().unwrap();
    let of = |number: u8| {
        let waits = published.waits.iter();
        waits.filter(|wait| wait.session == session(number)).count()
    };
    assert_eq!((of(7), of(1)), (0, 1));
    assert!(of(8) > 20 && of(8) < 40, "{}", of(8));
    // An actor that waits for one name alone hides no way on.
    let named: Vec<_> = published.omissions.sessions.iter().copied().collect();
    assert_eq!(named, [session(7)]);
    assert!(!published.omissions.anybody);
    assert_eq!(report.omitted.session, 1 + 40 - of(8));
}

#[test]
fn what_is_left_out_changes_so_that_everybody_is_published_sooner_or_later() {
    let mut scene = Scene::of(waits(8, 60, false), &[ONE]);
    let mut never: HashSet<_> = waits(8, 60, false).map(|wait| wait.ticket).collect();
    let mut passes = 0;
    let mut last = Publication::default();
    let mut changes = 0;
    while !never.is_empty() {
        let published = scene.pass().unwrap().published;
        passes += 1;
        changes += u32::from(published != last);
        for wait in &published.waits {
            never.remove(&wait.ticket);
        }
        last = published;
        assert!(passes < 1000, "{} were never published", never.len());
    }
    // Two passes and more see the same, which is what it takes to find a deadlock.
    assert!(
        changes <= passes / PASSES_OF_A_LOT + 1,
        "{changes} changes in {passes} passes"
    );
}

#[test]
fn bounds_are_reported_each_time_and_warned_of_once_a_minute() {
    let mut scene = Scene::of(waits(8, 60, false), &[ONE]);
    let mut warned = Vec::new();
    for made in scene.passes(500) {
        assert!(made.report.omitted.session > 0);
        if made.report.warns {
            warned.push(made.begun);
        }
    }
    assert_eq!(warned.len(), 3, "{warned:?}");
    for both in warned.windows(2) {
        let between = both[0].until(both[1]);
        assert!(between >= WARN_EVERY && between < WARN_EVERY + LOOK_EVERY);
    }
}

#[test]
fn a_pass_begins_every_300_ms_unless_passes_take_more_than_two_thirds_of_that() {
    let millis = Duration::from_millis;
    for (pass, rested) in [
        (0, 300),
        (100, 200),
        (200, 100),
        (250, 125),
        (400, 200),
        (5_000, 300),
    ] {
        assert_eq!(rest(millis(pass)), millis(rested), "after {pass} ms");
    }
}
