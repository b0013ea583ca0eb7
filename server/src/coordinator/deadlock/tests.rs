//! The detector's loop over passes that a test makes up. Time is tokio's paused clock.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use leasehold_core::{
    deadlock::BlockedWait,
    id::{Actor, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, LockName},
    session::RegistryEvent,
    time::StoreTime,
    view::{HoldEdge, NameEdges, WaitEdge},
};
use tokio::sync::mpsc;

use super::{
    super::inbox::{Inbox, InboxEvent},
    *,
};

/// Who the passes are about: each holds the name of its own number, and waits for the other's.
const ACTORS: [u8; 2] = [1, 2];

fn id(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn name(number: u8) -> LockName {
    LockName::parse(&format!("name {number}")).unwrap()
}

fn wait(number: u8) -> BlockedWait {
    BlockedWait {
        session: SessionId::from_bytes([number; 16]),
        actor: Actor::new(1),
        ticket: id(number + 100),
        name: name(3 - number),
    }
}

/// What a pass reads of a name: its holder, if it is held, and who waits for it.
fn edges(number: u8, is_held: bool) -> NameEdges {
    let client_name = ClientName::parse("").unwrap();
    let holder = HoldEdge {
        owner: id(number),
        session: Some(SessionId::from_bytes([number; 16])),
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
        complete: true,
    }
}

/// Whether each of the names is seen held.
type Seen = [bool; 2];

/// A store that shows this in one pass after the other, and the last of it for ever.
struct Scripted {
    passes: VecDeque<Seen>,
    /// Told of each pass before it is made.
    passing: mpsc::UnboundedSender<Publication>,
    ended: Arc<Mutex<Vec<OwnerId>>>,
    omitted: Arc<Mutex<Vec<Omitted>>>,
}

impl Site for Scripted {
    async fn look(
        &mut self,
        mine: Publication,
        _lot: &RandomState,
        _omitted: &mut Omitted,
    ) -> Result<Pass, StoreError> {
        let seen = self.passes[0];
        if self.passes.len() > 1 {
            self.passes.pop_front();
        }
        let pass = Pass {
            blocked: mine.waits.clone(),
            omissions: mine.omissions.clone(),
            names: ACTORS
                .iter()
                .zip(seen)
                .map(|(number, is_held)| (name(*number), edges(*number, is_held)))
                .collect(),
        };
        self.passing.send(mine).unwrap();
        Ok(pass)
    }

    fn ended(&mut self, deadlock: &Deadlock) {
        self.ended.lock().unwrap().push(deadlock.victim.ticket);
    }

    fn bounded(&mut self, omitted: Omitted) {
        self.omitted.lock().unwrap().push(omitted);
    }
}

/// A detector of these waits, at a store that shows these passes.
struct Scene {
    waits: Vec<(BlockedHere, Arc<Inbox>)>,
    passing: mpsc::UnboundedReceiver<Publication>,
    ended: Arc<Mutex<Vec<OwnerId>>>,
    omitted: Arc<Mutex<Vec<Omitted>>>,
    detector: tokio::task::JoinHandle<()>,
}

impl Scene {
    fn of(waits: impl IntoIterator<Item = BlockedWait>, passes: &[Seen]) -> Self {
        let blocked = Blocked::default();
        let caller = Arc::from("caller");
        let waits = waits.into_iter().map(|wait| {
            let inbox = Arc::new(Inbox::default());
            (blocked.add(&caller, wait, Arc::clone(&inbox)), inbox)
        });
        let waits = waits.collect();
        let (sender, passing) = mpsc::unbounded_channel();
        let (ended, omitted) = <(Arc<_>, Arc<_>)>::default();
        let scripted = Scripted {
            passes: passes.iter().copied().collect(),
            passing: sender,
            ended: Arc::clone(&ended),
            omitted: Arc::clone(&omitted),
        };
        Self {
            waits,
            passing,
            ended,
            omitted,
            detector: tokio::spawn(detect(blocked, scripted)),
        }
    }

    /// Waits until so many passes were made; the deadlocks of all but the last one have ended by then. Returns what the last
    /// one published.
    async fn passes(&mut self, number: usize) -> Publication {
        let mut last = None;
        for _ in 0..number {
            last = self.passing.recv().await;
        }
        last.unwrap()
    }

    fn ended(&self) -> Vec<OwnerId> {
        self.ended.lock().unwrap().clone()
    }
}

/// The deadlock that a session has heard of, if it has.
fn deadlock(inbox: &Inbox) -> Option<Box<Deadlock>> {
    let mut events = Vec::new();
    inbox.take(&mut events);
    match events.pop()? {
        InboxEvent::Registry(_, RegistryEvent::Deadlocked(deadlock)) => Some(deadlock),
        _ => None,
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.detector.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_aborted_for_a_circle_that_no_two_passes_have_seen() {
    // Each actor releases its name and takes it again all the time. A pass that reads one name after the other can see both
    // held although they never were at once; the passes before and after it do not.
    let phantom = [[true, true], [true, false], [true, true], [false, true]];
    let mut scene = Scene::of(ACTORS.map(wait), &phantom.repeat(5));
    scene.passes(20).await;
    assert_eq!(scene.ended(), []);
    for (_, inbox) in &scene.waits {
        assert!(deadlock(inbox).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_younger_wait_of_a_circle_that_two_passes_have_seen_ends() {
    let mut scene = Scene::of(
        ACTORS.map(wait),
        &[[true, false], [true, true], [true, true]],
    );
    scene.passes(4).await;
    // The wait for name 2 is the younger one.
    assert_eq!(scene.ended(), [wait(1).ticket]);
    assert_eq!(deadlock(&scene.waits[0].1).unwrap().victim, wait(1));
    assert!(deadlock(&scene.waits[1].1).is_none());
    assert_eq!(*scene.omitted.lock().unwrap(), []);
}

/// So many waits of one actor, or of an actor each.
fn waits(session: u8, number: u8, is_one: bool) -> impl Iterator<Item = BlockedWait> {
    (0..number).map(move |number| BlockedWait {
        session: SessionId::from_bytes([session; 16]),
        actor: Actor::new(if is_one { 1 } else { u64::from(number) + 1 }),
        ticket: id(number),
        name: LockName::parse(&format!("{number:0512}")).unwrap(),
    })
}

#[tokio::test(start_paused = true)]
async fn an_actor_with_more_waits_than_fit_is_left_out_whole_and_its_session_is_named() {
    // Forty waits of 512 bytes each are more than a session may publish.
    let all = waits(7, 40, true).chain(waits(8, 40, false));
    let mut scene = Scene::of(all.chain([wait(1)]), &[[true, false]]);
    let published = scene.passes(2).await;
    let of = |session: u8| {
        let session = SessionId::from_bytes([session; 16]);
        let waits = published.waits.iter();
        waits.filter(move |wait| wait.session == session).count()
    };
    assert_eq!((of(7), of(1)), (0, 1));
    assert!(of(8) > 20 && of(8) < 40, "{}", of(8));
    // An actor that waits for one name alone hides no way on.
    let named: Vec<_> = published.omissions.sessions.iter().copied().collect();
    assert_eq!(named, [SessionId::from_bytes([7; 16])]);
    assert!(!published.omissions.anybody);
    let omitted = scene.omitted.lock().unwrap()[0];
    assert_eq!(omitted.session, 1 + 40 - of(8));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_changes_so_that_everybody_is_published_sooner_or_later() {
    let mut scene = Scene::of(waits(8, 60, false), &[[true, false]]);
    let mut never: std::collections::HashSet<_> =
        waits(8, 60, false).map(|wait| wait.ticket).collect();
    let mut passes = 0;
    let mut last = Publication::default();
    let mut changes = 0;
    while !never.is_empty() {
        let published = scene.passes(1).await;
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
