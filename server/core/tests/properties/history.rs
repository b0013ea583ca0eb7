//! Carries steps out on a lock table, and notes what was asked and answered.

use std::{collections::HashMap, time::Duration};

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Executed, Op, Reply},
    id::{CoordinatorId, FencingToken, OwnerId, SessionId},
    name::{ClientName, LockName, Value},
    table::LockTable,
    time::StoreTime,
    view::NameView,
};

use crate::steps::{Ask, COORDINATORS, LONGEST, Step, Who};

/// How long tokens are remembered: as a coordinator would ask for, given the longest TTL.
pub(crate) const TOKEN_MEMORY: Duration = LONGEST.saturating_mul(2);

/// An owner id, by the number of its acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner(pub(crate) usize);

impl Owner {
    fn id(self) -> OwnerId {
        OwnerId::from_bytes((self.0 as u128).to_be_bytes())
    }

    /// Each owner id has a session of its own, so that views tell them apart.
    fn session(self) -> SessionId {
        SessionId::from_bytes((self.0 as u128).to_be_bytes())
    }

    pub(crate) fn of(id: &OwnerId) -> Self {
        Self(usize::try_from(u128::from_be_bytes(*id.as_bytes())).unwrap())
    }

    fn of_session(id: Option<SessionId>) -> Self {
        Self(usize::try_from(u128::from_be_bytes(*id.unwrap().as_bytes())).unwrap())
    }
}

/// An acquire, once for all its repetitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) name: usize,
    pub(crate) by: usize,
    pub(crate) ask: Ask,
}

/// What was asked of a name, and by whom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Deed {
    Acquire(Owner),
    Renew(Owner, Duration),
    Release(Owner, End),
    Refresh,
    Force,
    SetValue(Owner),
}

/// A command that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: usize,
    pub(crate) by: usize,
    pub(crate) at: StoreTime,
    pub(crate) deed: Deed,
    pub(crate) reply: Reply,
    pub(crate) handed: Option<Handed>,
    pub(crate) after: NameView,
}

/// A grant to a waiter that came with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Handed {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) coordinator: usize,
}

impl Event {
    /// Whether nobody holds the name afterwards and no lock-delay keeps it closed.
    pub(crate) fn is_free(&self) -> bool {
        self.after.holder.is_none() && self.after.closed_for.is_none()
    }

    /// Who waits for the name afterwards, in order.
    pub(crate) fn waiters(&self) -> Vec<Owner> {
        let waiters = self.after.waiters.iter();
        waiters
            .map(|waiter| Owner::of_session(waiter.session))
            .collect()
    }
}

/// Several names in a store, and what was done to them.
pub(crate) struct World {
    pub(crate) table: LockTable,
    pub(crate) now: StoreTime,
    pub(crate) asked: Vec<Asked>,
    pub(crate) token_memory: Duration,
    /// Given to the commands that are sent now.
    not_after: Option<StoreTime>,
    granted: HashMap<usize, Owner>,
    floors: Option<[i64; COORDINATORS]>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            table: LockTable::default(),
            now: StoreTime::from_micros(1_700_000_000_000_000),
            asked: Vec::new(),
            token_memory: TOKEN_MEMORY,
            not_after: None,
            granted: HashMap::new(),
            floors: None,
        }
    }

    /// A world in which each coordinator asks for tokens greater than all it has seen.
    pub(crate) fn with_floors() -> Self {
        Self {
            floors: Some([0; COORDINATORS]),
            ..Self::new()
        }
    }

    /// Carries steps out, and gives what happened.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Vec<Event> {
        steps.iter().filter_map(|step| self.step(step)).collect()
    }

    /// Carries a step out; none if it only moved time, or if it was about an owner id and there is none yet.
    pub(crate) fn step(&mut self, step: &Step) -> Option<Event> {
        match *step {
            Step::Pause(pause) => {
                self.now = self.now.after(pause);
                None
            }
            Step::SetBack(back) => {
                self.now = self.now.before(back);
                None
            }
            Step::Acquire {
                name,
                by,
                ask,
                late,
            } => {
                let owner = Owner(self.asked.len());
                self.asked.push(Asked { name, by, ask });
                let op = self.acquire(owner);
                self.not_after = late.then(|| self.now.before(Duration::from_micros(1)));
                let event = self.carry_out(name, by, Deed::Acquire(owner), &op);
                self.not_after = None;
                Some(event)
            }
            Step::AcquireAgain { name, who } => {
                let owner = self.owner(name, who)?;
                Some(self.deed(name, self.asked[owner.0].by, Deed::Acquire(owner)))
            }
            Step::Renew { name, who, ttl } => self.about(name, who, |o| Deed::Renew(o, ttl)),
            Step::Release { name, who, end } => self.about(name, who, |o| Deed::Release(o, end)),
            Step::SetValue { name, who } => self.about(name, who, Deed::SetValue),
            Step::Refresh { name, by } => Some(self.deed(name, by, Deed::Refresh)),
            Step::Force { name, by } => Some(self.deed(name, by, Deed::Force)),
        }
    }

    /// Carries a deed out at this moment.
    pub(crate) fn deed(&mut self, name: usize, by: usize, deed: Deed) -> Event {
        let op = self.op(deed);
        self.carry_out(name, by, deed, &op)
    }

    /// The operation that a deed is.
    pub(crate) fn op(&self, deed: Deed) -> Op {
        match deed {
            Deed::Acquire(owner) => self.acquire(owner),
            Deed::Renew(owner, ttl) => Op::Renew {
                owner: owner.id(),
                ttl,
            },
            Deed::Release(owner, end) => Op::Release {
                owner: owner.id(),
                end,
            },
            Deed::Refresh => Op::Refresh { oldest: None },
            Deed::Force => Op::ForceRelease,
            Deed::SetValue(owner) => Op::SetValue {
                owner: owner.id(),
                value: Value::parse(b"new").unwrap(),
            },
        }
    }

    /// A coordinator, as its commands name it.
    pub(crate) fn caller(&self, by: usize) -> Caller {
        Caller {
            coordinator: CoordinatorId::new(&by.to_string()),
            floor: FencingToken::new(self.floors.map_or(0, |floors| floors[by])),
            token_memory: self.token_memory,
            not_after: self.not_after,
        }
    }

    /// What can be seen of a name at this moment.
    pub(crate) fn view(&mut self, name: usize) -> NameView {
        let op = Op::View {
            waiters: usize::MAX,
        };
        match self.send(name, 0, &op).reply {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered by {other:?}"),
        }
    }

    fn about(&mut self, name: usize, who: Who, deed: impl FnOnce(Owner) -> Deed) -> Option<Event> {
        let owner = self.owner(name, who)?;
        Some(self.deed(name, self.asked[owner.0].by, deed(owner)))
    }

    fn owner(&self, name: usize, who: Who) -> Option<Owner> {
        match who {
            Who::Granted => self.granted.get(&name).copied(),
            Who::Asked(back) => {
                let of_name = |(_, asked): &(usize, &Asked)| asked.name == name;
                let mut newest_first = self.asked.iter().enumerate().rev().filter(of_name);
                newest_first.nth(back).map(|(number, _)| Owner(number))
            }
        }
    }

    fn acquire(&self, owner: Owner) -> Op {
        let Ask {
            wait,
            ttl,
            lock_delay,
        } = self.asked[owner.0].ask;
        Op::Acquire(Acquire {
            owner: owner.id(),
            session: Some(owner.session()),
            client_name: ClientName::default(),
            value: Value::default(),
            ttl,
            lock_delay,
            wait,
        })
    }

    fn carry_out(&mut self, name: usize, by: usize, deed: Deed, op: &Op) -> Event {
        let Executed { reply, at, handed } = self.send(name, by, op);
        let handed = handed.map(|handed| Handed {
            owner: Owner::of(&handed.owner),
            token: handed.token,
            coordinator: handed.coordinator.as_str().parse().unwrap(),
        });
        if let Reply::Granted { token } = reply {
            let Deed::Acquire(owner) = deed else {
                panic!("{deed:?} was answered by a grant")
            };
            self.granted.insert(name, owner);
            self.see(by, token);
        }
        if let Some(handed) = handed {
            self.granted.insert(name, handed.owner);
            self.see(by, handed.token);
            self.see(handed.coordinator, handed.token);
        }
        if let Reply::Forced { token, .. } = reply {
            self.see(by, token);
        }
        Event {
            name,
            by,
            at,
            deed,
            reply,
            handed,
            after: self.view(name),
        }
    }

    fn see(&mut self, coordinator: usize, token: FencingToken) {
        if let Some(floors) = &mut self.floors {
            floors[coordinator] = floors[coordinator].max(token.get() + 1);
        }
    }

    fn send(&mut self, name: usize, by: usize, op: &Op) -> Executed {
        let command = Command {
            name: LockName::parse(&format!("name/{name}")).unwrap(),
            caller: self.caller(by),
            op: op.clone(),
        };
        self.table.apply(&command, self.now)
    }
}
