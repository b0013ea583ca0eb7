//! A lock in Redis beside one by the rules.

use leasehold_core::{
    command::{Command, Executed, Op, Reply},
    id::Predecessors,
    lock::LockState,
    mode::{Mode, Permits},
    view::{HolderView, NameView},
};
use leasehold_store::{Store, StoreError};

use crate::{
    common,
    differential::{compare::compare, server::Server},
};

/// A lock in Redis, and by the rules.
pub(crate) struct Pair {
    store: Store,
    rules: LockState,
    name: String,
    /// Whether Redis may have no room for the sessions that something was resumed from.
    pub(crate) is_full: bool,
}

impl Pair {
    pub(crate) async fn new(server: &Server, name: &str) -> Self {
        Self {
            store: server.connect().await,
            rules: LockState::default(),
            name: name.to_owned(),
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
        if let Err(what) = compare(&expected, &got) {
            panic!("{op:?} from {coordinator}: {what}");
        }
        Ok(got)
    }

    /// Looks at the lock in both, with this many waiters.
    pub(crate) async fn view(&mut self, waiters: usize) -> NameView {
        match self.run("here", Op::view(waiters)).await {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered with {other:?}"),
        }
    }

    /// Carries an operation out in Redis alone, where somebody did there what the rules know nothing of.
    pub(crate) async fn execute_in_redis(&mut self, coordinator: &str, op: Op) -> Reply {
        let command = self.command(coordinator, op);
        self.store.execute(command).await.unwrap().executed.reply
    }

    pub(crate) fn command(&self, coordinator: &str, op: Op) -> Command {
        common::command(&self.name, coordinator, op)
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
