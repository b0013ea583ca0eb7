//! Two of five masters in trouble at any time: killed, hung, back empty or back with old data.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use leasehold_tests::{Masters, RedisServer, masters::Snapshot};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::quorum::site::MAX_TTL;

/// For how long a master that comes back has no vote, and a while for coordinators to see that it has one again.
const ABSTENTION: Duration = Duration::from_millis(5500);

/// Faults of masters, each with the number of times that it occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    Killed,
    Hung,
    Empty,
    Old,
}

/// The masters, and which of them are in trouble.
pub(crate) struct Troubles {
    pub(crate) masters: Masters,
    random: StdRng,
    snapshots: Vec<Option<Snapshot>>,
    /// Two at a time.
    slots: [Slot; 2],
    pub(crate) made: BTreeMap<Trouble, u32>,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    /// Nothing until then.
    Quiet(Instant),
    /// This master is out until then.
    Out(usize, Trouble, Instant),
    /// This one is back, and has no vote until its server has run for long enough.
    Back(usize),
}

impl Troubles {
    pub(crate) fn new(masters: Masters, seed: u64) -> Self {
        let snapshots = masters.servers().iter().map(|_| None).collect();
        Self {
            masters,
            random: StdRng::seed_from_u64(seed),
            snapshots,
            slots: [Slot::Quiet(Instant::now()); 2],
            made: BTreeMap::new(),
        }
    }

    /// Makes trouble, and ends it, as is due. Blocks for as long as a server takes to start.
    pub(crate) fn step(&mut self) {
        for at in 0..self.slots.len() {
            let now = Instant::now();
            match self.slots[at] {
                Slot::Quiet(until) if until <= now => self.begin(at),
                Slot::Out(master, trouble, until) if until <= now => {
                    self.slots[at] = self.end(master, trouble);
                }
                Slot::Back(master) if uptime(self.masters.server(master)) >= ABSTENTION => {
                    self.slots[at] = self.quiet();
                }
                _ => {}
            }
        }
    }

    /// Has all of them answer.
    pub(crate) fn finish(&mut self) {
        for at in 0..self.slots.len() {
            if let Slot::Out(master, trouble, _) = self.slots[at] {
                self.slots[at] = self.end(master, trouble);
            }
        }
    }

    fn quiet(&mut self) -> Slot {
        let pause = Duration::from_millis(self.random.random_range(0..300));
        Slot::Quiet(Instant::now() + pause)
    }

    fn begin(&mut self, at: usize) {
        let busy = self.slots.map(|slot| match slot {
            Slot::Quiet(_) => None,
            Slot::Out(master, ..) | Slot::Back(master) => Some(master),
        });
        let number = self.masters.servers().len();
        let master = loop {
            let master = self.random.random_range(0..number);
            if !busy.contains(&Some(master)) {
                break master;
            }
        };
        // What it knows now is what it may come back with, some time.
        if self.random.random_bool(0.5) {
            self.snapshots[master] = Some(self.masters.save(master));
        }
        let trouble = match self.random.random_range(0..6) {
            0 => Trouble::Killed,
            1..=3 => Trouble::Hung,
            4 => Trouble::Empty,
            _ if self.snapshots[master].is_none() => Trouble::Empty,
            _ => Trouble::Old,
        };
        match trouble {
            Trouble::Hung => self.masters.pause(master),
            _ => self.masters.kill(master),
        }
        *self.made.entry(trouble).or_default() += 1;
        let most = u64::try_from(MAX_TTL.as_millis()).unwrap() * 2;
        let lasts = match trouble {
            Trouble::Killed | Trouble::Hung => self.random.random_range(1..most),
            // At once, so that what it has forgotten is still held.
            Trouble::Empty | Trouble::Old => 0,
        };
        let until = Instant::now() + Duration::from_millis(lasts);
        self.slots[at] = Slot::Out(master, trouble, until);
    }

    fn end(&mut self, master: usize, trouble: Trouble) -> Slot {
        match trouble {
            Trouble::Hung => {
                self.masters.resume(master);
                return self.quiet();
            }
            Trouble::Killed | Trouble::Empty => self.masters.restart_empty(master),
            Trouble::Old => match &self.snapshots[master] {
                Some(snapshot) => self.masters.restart_from(master, snapshot),
                None => self.masters.restart_empty(master),
            },
        }
        Slot::Back(master)
    }
}

fn uptime(server: &RedisServer) -> Duration {
    let info: String = redis::cmd("INFO")
        .arg("server")
        .query(&mut server.connection())
        .unwrap();
    let seconds = info
        .lines()
        .find_map(|line| line.strip_prefix("uptime_in_seconds:"));
    Duration::from_secs(seconds.unwrap().trim().parse().unwrap())
}
