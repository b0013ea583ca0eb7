//! A lock in Redis beside one by the rules.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Executed, Op, Reply, Resume},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, Predecessors, SessionId},
    lock::LockState,
    mode::{Mode, Permits},
    name::{ClientName, LockName, Value},
    view::HolderView,
};
use leasehold_store::{Store, StoreError};
use leasehold_tests::RedisServer;

use crate::differential::{
    compare::{Comparison, compare},
    connect,
};

/// A lock in Redis, and by the rules.
pub(crate) struct Pair {
    store: Store,
    rules: LockState,
    name: LockName,
    /// Whether Redis may have no room for the sessions that something was resumed from.
    pub(crate) is_full: bool,
}

impl Pair {
    pub(crate) async fn new(redis: &RedisServer, name: &str) -> Self {
        Self {
            store: connect(redis).await,
            rules: LockState::default(),
            name: LockName::parse(name).unwrap(),
            is_full: false,
        }
    }

    /// Carries an operation out in both, and gives the answer on which they agree.
    pub(crate) async fn run(&mut self, coordinator: &str, op: Op) -> Reply {
        self.execute(coordinator, op).await.reply
    }

    /// Does the same, and returns all effects of the operation.
    pub(crate) async fn execute(&mut self, coordinator: &str, op: Op) -> Executed {
        self.try_run(coordinator, op).await.unwrap()
    }

    /// Does the same with an operation that Redis may refuse; then it is as if it had not been asked for.
    pub(crate) async fn try_run(
        &mut self,
        coordinator: &str,
        op: Op,
    ) -> Result<Executed, StoreError> {
        let command = self.command(coordinator, op);
        let mut got = self.store.execute(command.clone()).await?.executed;
        let Command { caller, op, .. } = command;
        let mut expected = self.rules.apply(&caller, &op, got.at);
        if self.is_full {
            forget_predecessors(&mut expected.reply);
            forget_predecessors(&mut got.reply);
        }
        match compare(&expected, &got) {
            // The lock's key outlasts the test; how long it has left is not what this is about.
            Comparison::Same | Comparison::Apart(..) => Ok(got),
            Comparison::Different(what) => panic!("{op:?} from {coordinator}: {what}"),
        }
    }

    /// Carries an operation out in Redis alone, where somebody did there what the rules know nothing of.
    pub(crate) async fn execute_in_redis(&mut self, coordinator: &str, op: Op) -> Reply {
        let command = self.command(coordinator, op);
        self.store.execute(command).await.unwrap().executed.reply
    }

    pub(crate) fn command(&self, coordinator: &str, op: Op) -> Command {
        let caller = Caller {
            coordinator: CoordinatorId::new(coordinator),
            floor: FencingToken::new(0),
            token_memory: Duration::from_secs(60),
            not_after: None,
        };
        Command {
            name: self.name.clone(),
            caller,
            op,
        }
    }
}

/// Returns a name for a lock in each mode, and the mode; of permits two of four.
pub(crate) fn modes() -> [(&'static str, Mode); 3] {
    let permits = Permits::new(2, 4).unwrap();
    [
        ("exclusive", Mode::Exclusive),
        ("shared", Mode::Shared),
        ("permits", Mode::Semaphore(permits)),
    ]
}

pub(crate) fn owner(number: u16) -> OwnerId {
    let mut bytes = [0x2d; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    OwnerId::from_bytes(bytes)
}

/// Waits for the lock, to have it for longer than any test takes.
pub(crate) fn acquire(number: u16, mode: Mode) -> Op {
    Op::Acquire(Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes(*owner(number).as_bytes())),
        actor: Actor::NOBODY,
        client_name: ClientName::default(),
        mode,
        value: Value::default(),
        ttl: Duration::from_secs(600),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    })
}

/// Returns a resume of a hold or place under one of these ids, for longer than any test takes.
pub(crate) fn resume(from: &[u16], next: u16) -> Op {
    Op::Resume(Resume {
        from: from.iter().map(|number| owner(*number)).collect(),
        next: owner(next),
        session: Some(SessionId::from_bytes(*owner(next).as_bytes())),
        client_name: ClientName::parse("heir").unwrap(),
        ttl: Duration::from_secs(500),
        count: 1,
    })
}

pub(crate) fn release(number: u16) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Clean,
    }
}

fn forget_predecessors(reply: &mut Reply) {
    match reply {
        Reply::Resumed { terms, .. } => terms.predecessors = Predecessors::default(),
        Reply::ResumedWait { waiter, .. } => waiter.predecessors = Predecessors::default(),
        Reply::Seen(view) => {
            for holder in &mut view.holders {
                if let HolderView::Ours(hold) = holder {
                    hold.predecessors = Predecessors::default();
                }
            }
            for waiter in &mut view.waiters {
                waiter.predecessors = Predecessors::default();
            }
        }
        _ => {}
    }
}
