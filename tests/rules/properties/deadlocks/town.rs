//! Small world of names, their holders and their queues.

use std::collections::HashMap;

use leasehold_core::{
    deadlock::{BlockedWait, Pass},
    id::{Actor, OwnerId, SessionId},
    mode::{Mode, Permits},
    name::{ClientName, LockName},
    time::StoreTime,
    view::{HoldEdge, NameEdges, WaitEdge},
};

pub(crate) const X: Mode = Mode::Exclusive;
pub(crate) const S: Mode = Mode::Shared;
/// The limit of all semaphores here.
pub(crate) const LIMIT: u32 = 3;

/// Names, by their numbers.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
pub(crate) const C: usize = 2;

pub(crate) fn permits(number: u32) -> Mode {
    Mode::Semaphore(Permits::new(number, LIMIT).unwrap())
}

/// Flow of a client. Session 0 is none, and actor 0 is no actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Who {
    pub(crate) session: u32,
    pub(crate) actor: u32,
}

/// Returns an actor with a session of its own.
pub(crate) const fn actor(number: u32) -> Who {
    Who {
        session: number,
        actor: number,
    }
}

/// Returns actor 0 of a session of its own.
pub(crate) const fn nobody(session: u32) -> Who {
    Who { session, actor: 0 }
}

/// A unary call.
pub(crate) const UNARY: Who = nobody(0);

impl Who {
    pub(crate) fn is_actor(self) -> bool {
        self.session != 0 && self.actor != 0
    }

    pub(crate) fn session(self) -> Option<SessionId> {
        (self.session != 0).then(|| SessionId::from_bytes(bytes(self.session)))
    }

    pub(crate) fn actor(self) -> Actor {
        Actor::new(self.actor.into())
    }

    pub(crate) fn of(session: Option<SessionId>, actor: Actor) -> Self {
        let session = session.map_or(0, |session| u128::from_be_bytes(*session.as_bytes()));
        Self {
            session: u32::try_from(session).unwrap(),
            actor: u32::try_from(actor.get()).unwrap(),
        }
    }
}

/// A hold or a place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Edge {
    pub(crate) who: Who,
    pub(crate) mode: Mode,
    /// Its owner id or ticket.
    pub(crate) id: u32,
    /// The time at which it joined the queue.
    pub(crate) since: u32,
}

/// One name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    pub(crate) holds: Vec<Edge>,
    pub(crate) queue: Vec<Edge>,
}

/// All names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Town {
    pub(crate) lines: Vec<Line>,
    last: u32,
}

impl Town {
    /// Makes an actor hold a name; returns the owner id.
    pub(crate) fn hold(&mut self, name: usize, who: Who, mode: Mode) -> u32 {
        let edge = self.edge(who, mode);
        self.line(name).holds.push(edge);
        edge.id
    }

    /// Makes an actor join a queue, later than all before; returns the ticket.
    pub(crate) fn wait(&mut self, name: usize, who: Who, mode: Mode) -> u32 {
        let edge = self.edge(who, mode);
        self.line(name).queue.push(edge);
        edge.id
    }

    fn edge(&mut self, who: Who, mode: Mode) -> Edge {
        self.last += 1;
        let (id, since) = (self.last, self.last);
        Edge {
            who,
            mode,
            id,
            since,
        }
    }

    /// Returns a number that is greater than all before.
    pub(crate) fn tick(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    pub(crate) fn line(&mut self, name: usize) -> &mut Line {
        if self.lines.len() <= name {
            self.lines.resize_with(name + 1, Line::default);
        }
        &mut self.lines[name]
    }

    /// Ends some holds and waits.
    pub(crate) fn end(&mut self, which: impl Fn(&Edge) -> bool) {
        for line in &mut self.lines {
            line.holds.retain(|edge| !which(edge));
            line.queue.retain(|edge| !which(edge));
        }
    }

    /// Grants whatever is to be granted, in queue order.
    pub(crate) fn hand_on(&mut self) -> Vec<Edge> {
        let mut granted = Vec::new();
        for line in &mut self.lines {
            while line.queue.first().is_some_and(|next| line.fits(next.mode)) {
                let next = line.queue.remove(0);
                line.holds.push(next);
                granted.push(next);
            }
        }
        granted
    }

    pub(crate) fn holds(&self) -> impl Iterator<Item = &Edge> {
        self.lines.iter().flat_map(|line| &line.holds)
    }

    pub(crate) fn waits(&self) -> impl Iterator<Item = &Edge> {
        self.lines.iter().flat_map(|line| &line.queue)
    }

    /// Returns whether a coordinator would publish the waits of these.
    pub(crate) fn is_blocked(&self, who: Who) -> bool {
        who.is_actor()
            && self.holds().any(|edge| edge.who == who)
            && self.waits().any(|edge| edge.who == who)
    }

    /// Returns the waits that coordinators publish.
    pub(crate) fn blocked(&self) -> Vec<BlockedWait> {
        let waits = self.lines.iter().enumerate();
        waits
            .flat_map(|(name, line)| line.queue.iter().map(move |edge| (name, edge)))
            .filter(|(_, edge)| self.is_blocked(edge.who))
            .map(|(name, edge)| blocked(edge, name))
            .collect()
    }

    pub(crate) fn edges(&self, name: usize) -> NameEdges {
        let line = self.lines.get(name).cloned().unwrap_or_default();
        NameEdges {
            holders: line.holds.iter().map(hold_edge).collect(),
            waiters: line.queue.iter().map(wait_edge).collect(),
            limit: line.holds.iter().find_map(|hold| hold.mode.limit()),
            complete: true,
        }
    }

    /// Returns a look at everything, with nothing happening meanwhile.
    pub(crate) fn pass(&self) -> Pass {
        let names = 0..self.lines.len();
        Pass {
            blocked: self.blocked(),
            names: names
                .map(|number| (name(number), self.edges(number)))
                .collect::<HashMap<_, _>>(),
            ..Pass::default()
        }
    }
}

impl Line {
    /// Returns whether there is room for one more. Not by the rules' own `Taken`, which the detector uses.
    pub(crate) fn fits(&self, mode: Mode) -> bool {
        let all = |kind: fn(Mode) -> bool| self.holds.iter().all(|hold| kind(hold.mode));
        match mode {
            Mode::Exclusive => self.holds.is_empty(),
            Mode::Shared => all(|mode| mode == S),
            Mode::Semaphore(more) => {
                let taken: u32 = self.holds.iter().map(|hold| hold.mode.permits()).sum();
                all(|mode| mode.limit().is_some()) && taken + more.number() <= LIMIT
            }
        }
    }
}

pub(crate) fn blocked(edge: &Edge, number: usize) -> BlockedWait {
    BlockedWait {
        session: edge.who.session().unwrap(),
        actor: edge.who.actor(),
        ticket: owner(edge.id),
        name: name(number),
    }
}

pub(crate) fn name(number: usize) -> LockName {
    const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
    let text = match LETTERS.get(number..=number) {
        Some(letter) => letter.into(),
        None => format!("name {number}"),
    };
    LockName::parse(&text).unwrap()
}

/// Returns the name of an actor's client.
fn client_name(who: Who) -> ClientName {
    ClientName::parse(&format!("client {}", who.session)).unwrap()
}

pub(crate) fn owner(id: u32) -> OwnerId {
    OwnerId::from_bytes(bytes(id))
}

fn bytes(number: u32) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

fn hold_edge(edge: &Edge) -> HoldEdge {
    HoldEdge {
        owner: owner(edge.id),
        session: edge.who.session(),
        client_name: client_name(edge.who),
        actor: edge.who.actor(),
        mode: edge.mode,
    }
}

fn wait_edge(edge: &Edge) -> WaitEdge {
    WaitEdge {
        owner: owner(edge.id),
        session: edge.who.session(),
        client_name: client_name(edge.who),
        actor: edge.who.actor(),
        mode: edge.mode,
        since: StoreTime::from_micros(edge.since.into()),
    }
}
