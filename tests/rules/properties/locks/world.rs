//! Lock table that carries out steps, and records requests and replies.

use std::{collections::HashMap, time::Duration};

use leasehold_core::{
    command::{Caller, Command, Executed, One, Op, Reply},
    id::{CoordinatorId, FencingToken},
    name::LockName,
    table::LockTable,
    time::StoreTime,
    view::{HolderView, NameEdges, NameView},
    watch::Telling,
};

use crate::locks::{
    history::{Asked, Deed, Event, Handed, Owner, Resumption},
    operations::operation,
    steps::{Ask, COORDINATORS, LONGEST, Step, Who},
};

/// Time for which tokens are remembered: what a coordinator would ask for, given the longest TTL.
pub(crate) const TOKEN_MEMORY: Duration = LONGEST.saturating_mul(2);

/// Several names in a store, and the commands about them.
pub(crate) struct World {
    pub(crate) table: LockTable,
    pub(crate) now: StoreTime,
    pub(crate) asked: Vec<Asked>,
    pub(crate) token_memory: Duration,
    /// The number of commands that were carried out, views not counted.
    pub(crate) commands: usize,
    /// Given to the commands that are sent now.
    not_after: Option<StoreTime>,
    granted: HashMap<usize, Vec<Owner>>,
    ended: HashMap<usize, Vec<Owner>>,
    resumed: HashMap<usize, Vec<Resumption>>,
    floors: Option<[i64; COORDINATORS]>,
    /// The events of each name, in order, while anybody watches.
    told: Option<Vec<(LockName, Telling)>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            table: LockTable::default(),
            now: StoreTime::from_micros(1_700_000_000_000_000),
            asked: Vec::new(),
            token_memory: TOKEN_MEMORY,
            commands: 0,
            not_after: None,
            granted: HashMap::new(),
            ended: HashMap::new(),
            resumed: HashMap::new(),
            floors: None,
            told: None,
        }
    }

    /// Returns a world with a watcher.
    pub(crate) fn watched() -> Self {
        Self {
            told: Some(Vec::new()),
            ..Self::new()
        }
    }

    /// Returns the events since the last call.
    pub(crate) fn told(&mut self) -> Vec<(LockName, Telling)> {
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns a world in which each coordinator asks for tokens greater than all it has seen.
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
            Step::Floor { by, ahead } => {
                let floor = self.now.after(ahead).as_micros();
                let floors = self.floors.get_or_insert_default();
                floors[by] = floors[by].max(floor);
                None
            }
            Step::Remember(memory) => {
                self.token_memory = memory;
                None
            }
            Step::Acquire {
                name,
                by,
                ask,
                late,
            } => {
                if late {
                    return self.late(|world| Some(world.ask(name, by, ask)));
                }
                Some(self.ask(name, by, ask))
            }
            Step::AcquireAgain { name, who, turned } => {
                let owner = self.owner(name, who)?;
                let Asked { by, ask, .. } = self.asked[owner.0];
                Some(self.deed(name, by, Deed::Acquire(owner, ask.wait != turned)))
            }
            Step::Renew {
                name,
                who,
                ttl,
                elsewhere,
            } => {
                let owner = self.owner(name, who)?;
                let by = elsewhere.unwrap_or(self.asked[owner.0].by);
                Some(self.deed(name, by, Deed::Renew(owner, ttl)))
            }
            Step::Release { name, who, end } => self.about(name, who, |o| Deed::Release(o, end)),
            Step::Refresh { name, by, oldest } => {
                let oldest = oldest.and_then(|who| self.owner(name, who));
                Some(self.deed(name, by, Deed::Refresh(oldest)))
            }
            Step::Force { name, by } => Some(self.deed(name, by, Deed::Force)),
            Step::ForceOne {
                name,
                by,
                is_wait,
                which,
            } => {
                let one = self.one(name, is_wait, which)?;
                Some(self.deed(name, by, Deed::ForceOne(one)))
            }
            Step::RequestRelease { name, by, which } => {
                let only = match which.map(|which| self.one(name, false, which)) {
                    None => None,
                    Some(Some(One::Holder(token))) => Some(token),
                    Some(_) => return None,
                };
                Some(self.deed(name, by, Deed::RequestRelease(only)))
            }
            Step::Downgrade { name, who } => self.about(name, who, Deed::Downgrade),
            Step::Reduce { name, who, permits } => {
                self.about(name, who, |owner| Deed::Reduce(owner, permits))
            }
            Step::SetCount { name, who, count } => {
                self.about(name, who, |owner| Deed::SetCount(owner, count))
            }
            Step::SetValue { name, who, value } => {
                self.about(name, who, |owner| Deed::SetValue(owner, value))
            }
            Step::Resume {
                name,
                who,
                tried,
                by,
                ttl,
            } => {
                let from = self.owner(name, who)?;
                let tried = tried.and_then(|who| self.owner(name, who));
                Some(self.resume(name, by, ttl, from, tried))
            }
            Step::ResumeAgain { name, back } => {
                let resumption = *self.resumed.get(&name)?.iter().rev().nth(back)?;
                let by = self.asked[resumption.next.0].by;
                Some(self.deed(name, by, Deed::Resume(resumption)))
            }
        }
    }

    /// Does something whose commands arrive when their sender has given up.
    pub(crate) fn late<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.not_after = Some(self.now.before(Duration::from_micros(1)));
        let done = act(self);
        self.not_after = None;
        done
    }

    /// Asks for a lock under a fresh owner id at this moment.
    pub(crate) fn ask(&mut self, name: usize, by: usize, ask: Ask) -> Event {
        let owner = Owner(self.asked.len());
        let actor = owner.actor();
        self.asked.push(Asked {
            name,
            by,
            actor,
            ask,
        });
        self.deed(name, by, Deed::Acquire(owner, ask.wait))
    }

    /// Resumes, for a stream, the hold or place under one of these owner ids, and gives it a new one.
    pub(crate) fn resume(
        &mut self,
        name: usize,
        by: usize,
        ttl: Duration,
        from: Owner,
        tried: Option<Owner>,
    ) -> Event {
        let next = Owner(self.asked.len());
        let Asked { actor, ask, .. } = self.asked[from.0];
        // What it really takes over, its answer says.
        self.asked.push(Asked {
            name,
            by,
            actor,
            ask: Ask {
                ttl,
                unary: false,
                ..ask
            },
        });
        let resumption = Resumption { from, tried, next };
        self.resumed.entry(name).or_default().push(resumption);
        self.deed(name, by, Deed::Resume(resumption))
    }

    /// Carries a deed out at this moment.
    pub(crate) fn deed(&mut self, name: usize, by: usize, deed: Deed) -> Event {
        self.commands += 1;
        let op = self.op(deed);
        let Executed {
            reply,
            at,
            handed,
            more,
        } = self.send(name, by, &op);
        let handed: Vec<Handed> = handed
            .iter()
            .map(|handed| Handed {
                owner: Owner::of(&handed.owner),
                token: handed.token,
                permits: handed.permits.map(std::num::NonZeroU32::get),
                coordinator: handed.coordinator.as_str().parse().unwrap(),
                of_session: handed.of_session,
            })
            .collect();
        self.note(name, by, deed, &reply, &handed);
        Event {
            name,
            by,
            at,
            memory: self.token_memory,
            deed,
            reply,
            handed,
            more,
            after: self.view(name),
        }
    }

    /// Returns the operation of a deed.
    pub(crate) fn op(&self, deed: Deed) -> Op {
        operation(deed, &self.asked)
    }

    /// Returns a coordinator, as its commands name it.
    pub(crate) fn caller(&self, by: usize) -> Caller {
        Caller {
            coordinator: coordinator(by),
            floor: FencingToken::new(self.floors.map_or(0, |floors| floors[by])),
            token_memory: self.token_memory,
            not_after: self.not_after,
        }
    }

    /// Returns the view of a name at this moment.
    pub(crate) fn view(&mut self, name: usize) -> NameView {
        let op = Op::view(usize::MAX);
        match self.send(name, 0, &op).reply {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered by {other:?}"),
        }
    }

    /// Returns a holder or waiter as the view shows it. Looks at a copy, because a view drops what has expired, and the models
    /// only follow time by the events that they are given.
    fn one(&self, name: usize, is_wait: bool, which: usize) -> Option<One> {
        let mut copy = Self::new();
        (copy.table, copy.now) = (self.table.clone(), self.now);
        let view = copy.view(name);
        if is_wait {
            return Some(One::Waiter(view.waiters.get(which)?.number));
        }
        match view.holders.get(which)? {
            HolderView::Ours(hold) => Some(One::Holder(hold.token)),
            HolderView::Foreign { .. } => None,
        }
    }

    /// Returns the waits-for edges of a name at this moment.
    pub(crate) fn edges(&mut self, name: usize) -> NameEdges {
        match self.send(name, 0, &Op::Edges).reply {
            Reply::Edges(edges) => *edges,
            other => panic!("edges were answered by {other:?}"),
        }
    }

    fn about(&mut self, name: usize, who: Who, deed: impl FnOnce(Owner) -> Deed) -> Option<Event> {
        let owner = self.owner(name, who)?;
        Some(self.deed(name, self.asked[owner.0].by, deed(owner)))
    }

    pub(crate) fn owner(&self, name: usize, who: Who) -> Option<Owner> {
        match who {
            Who::Granted(back) => self.granted.get(&name)?.iter().rev().nth(back).copied(),
            Who::Ended(back) => self.ended.get(&name)?.iter().rev().nth(back).copied(),
            Who::Asked(back) => {
                let of_name = |(_, asked): &(usize, &Asked)| asked.name == name;
                let mut newest_first = self.asked.iter().enumerate().rev().filter(of_name);
                newest_first.nth(back).map(|(number, _)| Owner(number))
            }
        }
    }

    /// Notes who was granted what and who gave it up, and which tokens each coordinator has seen.
    fn note(&mut self, name: usize, by: usize, deed: Deed, reply: &Reply, handed: &[Handed]) {
        let granted = self.granted.entry(name).or_default();
        granted.extend(handed.iter().map(|handed| handed.owner));
        if let Reply::Granted { token, .. } = reply {
            let Deed::Acquire(owner, _) = deed else {
                panic!("{deed:?} was answered by a grant")
            };
            granted.push(owner);
            self.see(by, *token);
        }
        if let (Deed::Release(owner, _), Reply::Released { held: true, .. }) = (deed, reply) {
            self.ended.entry(name).or_default().push(owner);
        }
        if let Deed::Resume(Resumption { next, .. }) = deed {
            self.note_resumed(name, by, next, reply);
        }
        for handed in handed {
            self.see(by, handed.token);
            self.see(handed.coordinator, handed.token);
        }
        if let Reply::Forced { token, .. } = reply {
            self.see(by, *token);
        }
    }

    fn note_resumed(&mut self, name: usize, by: usize, next: Owner, reply: &Reply) {
        let asked = &mut self.asked[next.0];
        match reply {
            Reply::Resumed {
                token,
                mode,
                actor,
                terms,
            } => {
                (asked.ask.mode, asked.ask.lock_delay) = (*mode, terms.lock_delay);
                asked.actor = *actor;
                self.granted.entry(name).or_default().push(next);
                self.see(by, *token);
            }
            Reply::ResumedWait { waiter, .. } => {
                let acquire = &waiter.acquire;
                (asked.ask.mode, asked.ask.lock_delay) = (acquire.mode, acquire.lock_delay);
                asked.actor = acquire.actor;
            }
            _ => {}
        }
    }

    fn see(&mut self, coordinator: usize, token: FencingToken) {
        if let Some(floors) = &mut self.floors {
            floors[coordinator] = floors[coordinator].max(token.get() + 1);
        }
    }

    pub(crate) fn send(&mut self, name: usize, by: usize, op: &Op) -> Executed {
        let command = Command {
            name: name_of(name),
            caller: self.caller(by),
            op: op.clone(),
        };
        let Some(told) = &mut self.told else {
            return self.table.apply(&command, self.now);
        };
        let (executed, telling) = self.table.apply_and_tell(&command, self.now);
        if !telling.changes.is_empty() || telling.looked.is_some() {
            told.push((command.name, telling));
        }
        executed
    }
}

/// Returns a name.
pub(crate) fn name_of(number: usize) -> LockName {
    LockName::parse(&format!("name/{number}")).unwrap()
}

/// Returns a coordinator's id.
pub(crate) fn coordinator(number: usize) -> CoordinatorId {
    CoordinatorId::new(&number.to_string())
}
