//! Scene of the tests: contended names, what their coordinator knows, and a clock that only the test moves.

use super::super::*;
use crate::{
    command::{Executed, ReleaseRequest},
    id::{Actor, FencingToken, SessionId},
    mode::Mode,
    name::{ClientName, Value},
    time::StoreTime,
};

pub(super) const TTL: Duration = Duration::from_secs(9);
pub(super) const TOKEN: FencingToken = FencingToken::new(7);
/// Every acquire left its number of permits to the store, so that tests find where the number is lost.
pub(super) const PERMITS: Option<u32> = Some(3);

/// Contended names with what surrounds them.
pub(super) struct Scene {
    pub(super) names: ContendedNames,
    pub(super) now: Moment,
    /// The owner ids that the coordinator knows, and whether they wait.
    pub(super) owners: HashMap<OwnerId, bool>,
    /// Commands without an answer, in their order, and when they were sent.
    pub(super) sent: VecDeque<(CommandId, Op, Moment)>,
    /// When the command was sent that was answered last.
    answered: Moment,
    pub(super) told: Vec<(OwnerId, RegistryEvent)>,
    pub(super) asked: Vec<(OwnerId, FencingToken, Arc<ReleaseRequest>)>,
    pub(super) discarded: Vec<OwnerId>,
}

impl Owners for HashMap<OwnerId, bool> {
    fn knows(&self, owner: &OwnerId) -> bool {
        self.contains_key(owner)
    }

    fn waits(&self, owner: &OwnerId) -> bool {
        self.get(owner) == Some(&true)
    }
}

impl Scene {
    pub(super) fn new() -> Self {
        Self {
            names: ContendedNames::default(),
            now: Moment::from_micros(0),
            owners: HashMap::new(),
            sent: VecDeque::new(),
            answered: Moment::from_micros(0),
            told: Vec::new(),
            asked: Vec::new(),
            discarded: Vec::new(),
        }
    }

    /// Returns a scene in which so many waiters are announced, from 1 on.
    pub(super) fn with_waiters(number: u8) -> Self {
        let mut scene = Self::new();
        for waiter in 1..=number {
            scene.waits(waiter);
        }
        scene
    }

    pub(super) fn handle(&mut self, input: Input) {
        let context = Context {
            now: self.now,
            owners: &self.owners,
        };
        self.names.handle(input, context);
        self.drain();
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        let context = Context {
            now: self.now,
            owners: &self.owners,
        };
        self.names.handle_timeout(context);
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        while let Some(output) = self.names.poll_output() {
            match output {
                Output::Store { id, name, op } => {
                    assert_eq!(name, lock());
                    self.sent.push_back((id, op, self.now));
                }
                Output::Tell(owner, event) => {
                    if matches!(
                        event,
                        RegistryEvent::Granted { .. } | RegistryEvent::GrantFailed(_)
                    ) {
                        // As the registry does.
                        self.owners.entry(owner).and_modify(|waits| *waits = false);
                    }
                    self.told.push((owner, event));
                }
                Output::Ask(owner, token, request) => self.asked.push((owner, token, request)),
                Output::Discard(_, owner) => self.discarded.push(owner),
            }
        }
    }

    /// Registers and announces a waiter.
    pub(super) fn waits(&mut self, number: u8) {
        self.owners.insert(owner(number), true);
        self.announce(acquire(number), None);
    }

    pub(super) fn announce(&mut self, acquire: Acquire, expires_in: Option<Duration>) {
        self.handle(Input::Waits(TrackedWait {
            name: lock(),
            acquire: Arc::new(acquire),
            expires_in,
        }));
    }

    pub(super) fn leaves(&mut self, number: u8) {
        self.owners.remove(&owner(number));
        let (name, owner) = (lock(), owner(number));
        self.handle(Input::Gone { name, owner });
    }

    pub(super) fn is_granted_elsewhere(&mut self, number: u8, of_session: bool) {
        self.handle(Input::WakeUp(WakeUp::Granted {
            name: lock(),
            owner: owner(number),
            token: TOKEN,
            permits: PERMITS,
            of_session,
        }));
    }

    /// Answers the oldest command, which must be of this kind.
    pub(super) fn answer(&mut self, op: &Op, reply: Result<Reply, StoreError>) {
        let (id, sent, sent_at) = self.sent.pop_front().unwrap();
        assert_eq!(sent, *op);
        self.answered = sent_at;
        let result = reply.map(|reply| Stamped {
            executed: Executed {
                reply,
                at: StoreTime::from_micros(1),
                handed: Vec::new(),
                more: false,
            },
            sent_at,
        });
        self.handle(Input::Answered(id, result));
    }

    /// Begins a refresh for its oldest waiter, and answers it.
    pub(super) fn refresh(&mut self, oldest: u8, current: Vec<Current>, attached: bool) {
        self.pass(REFRESH_INTERVAL);
        self.answer(&refresh(Some(oldest)), Ok(refreshed(current, attached)));
    }

    /// Returns the operations that are sent.
    pub(super) fn ops(&self) -> Vec<Op> {
        self.sent.iter().map(|(_, op, _)| op.clone()).collect()
    }

    /// Returns the grant that the last answer made: it counts from when its command was sent.
    pub(super) fn granted(&self) -> RegistryEvent {
        RegistryEvent::Granted {
            token: TOKEN,
            permits: PERMITS,
            sent_at: self.answered,
        }
    }
}

pub(super) fn lock() -> LockName {
    LockName::parse("a").unwrap()
}

pub(super) fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

/// Returns an acquire of a session.
pub(super) fn acquire(number: u8) -> Acquire {
    Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes([number; 16])),
        actor: Actor::NOBODY,
        client_name: ClientName::parse("client").unwrap(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: TTL,
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    }
}

/// Returns an acquire of a unary call.
pub(super) fn call(number: u8) -> Acquire {
    Acquire {
        session: None,
        ..acquire(number)
    }
}

pub(super) fn joins(number: u8) -> Op {
    Op::Acquire(Acquire {
        again: true,
        ..acquire(number)
    })
}

pub(super) fn refresh(oldest: Option<u8>) -> Op {
    Op::Refresh {
        oldest: oldest.map(owner),
    }
}

pub(super) fn confirms(number: u8) -> Op {
    Op::Renew {
        owner: owner(number),
        token: Some(TOKEN),
        ttl: TTL,
    }
}

pub(super) fn refreshed(current: Vec<Current>, attached: bool) -> Reply {
    Reply::Refreshed {
        current,
        expires_in: None,
        attached,
    }
}

pub(super) fn current(number: u8, of_session: bool) -> Current {
    Current {
        owner: owner(number),
        token: TOKEN,
        permits: PERMITS,
        of_session,
    }
}

pub(super) fn granted() -> Reply {
    Reply::Granted {
        token: TOKEN,
        permits: PERMITS,
    }
}

pub(super) fn queued() -> Reply {
    Reply::Queued {
        position: 1,
        expires_in: None,
    }
}

pub(super) fn lost() -> StoreError {
    StoreError::Indeterminate {
        reason: "lost".to_owned(),
    }
}

pub(super) fn down() -> StoreError {
    StoreError::Unavailable {
        reason: "down".to_owned(),
    }
}

pub(super) fn not_replicated() -> StoreError {
    StoreError::NotReplicated {
        replicas: 1,
        timeout: Duration::from_secs(1),
    }
}
