//! Slot of one connection in a link: senders take the live connection from it, a sender that finds the connection broken
//! reports it here, and the connection's own task fills the slot again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;

use super::{
    dial::RunId,
    status::{Board, Fault},
};

/// Number of unanswered commands in a row after which a connection is given up. One may be a slow command; replies come in
/// order, so a second one without a reply in between means that none comes through.
const UNANSWERED_LIMIT: u32 = 2;

/// Slot of one connection.
pub(super) struct Slot {
    index: usize,
    board: Arc<Board>,
    /// The live connection, or why there is none. The board learns of each change before the next one.
    current: watch::Sender<Result<Arc<Live>, Fault>>,
}

/// Id of one connection, unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(u64);

/// Connection in use.
pub(super) struct Live {
    pub(super) id: ConnectionId,
    pub(super) connection: MultiplexedConnection,
    /// The run of the server at its other end, if known.
    pub(super) run: Option<RunId>,
    unanswered: AtomicU32,
    heard: AtomicBool,
}

impl ConnectionId {
    /// Returns an id that no other connection has.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Slot {
    pub(super) fn new(index: usize, board: Arc<Board>, fault: Fault) -> Self {
        Self {
            index,
            board,
            current: watch::Sender::new(Err(fault)),
        }
    }

    /// Returns the live connection, or why there is none.
    pub(super) fn live(&self) -> Result<Arc<Live>, Fault> {
        self.current.borrow().clone()
    }

    /// Puts a new connection into use.
    pub(super) fn set_up(
        &self,
        connection: MultiplexedConnection,
        run: Option<RunId>,
    ) -> Arc<Live> {
        let live = Arc::new(Live {
            id: ConnectionId::next(),
            connection,
            run,
            unanswered: AtomicU32::new(0),
            heard: AtomicBool::new(true),
        });
        self.current.send_modify(|current| {
            *current = Ok(Arc::clone(&live));
            self.board.set_up(self.index);
        });
        live
    }

    /// Records why there is still no connection.
    pub(super) fn set_down(&self, fault: Fault) {
        self.current.send_modify(|current| {
            *current = Err(fault.clone());
            self.board.set_down(self.index, fault);
        });
    }

    /// Gives a connection up, unless that was done before: from now on its place is down, and its task redials.
    pub(super) fn give_up(&self, connection: ConnectionId, fault: Fault) {
        self.current.send_if_modified(|current| {
            let is_live = matches!(current, Ok(live) if live.id == connection);
            if is_live {
                *current = Err(fault.clone());
                self.board.set_down(self.index, fault);
            }
            is_live
        });
    }

    /// Waits until the live connection is given up, and returns why. Only the slot's own task puts a connection in.
    pub(super) async fn until_given_up(&self) -> Fault {
        let mut current = self.current.subscribe();
        loop {
            if let Err(fault) = &*current.borrow_and_update() {
                return fault.clone();
            }
            // The sender exists as long as this does.
            let _ = current.changed().await;
        }
    }
}

impl Live {
    /// Notes that a reply came.
    pub(super) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Notes that a command timed out, and returns whether to give the connection up.
    pub(super) fn unanswered(&self) -> bool {
        self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED_LIMIT
    }

    /// Returns whether a reply came since the last call of this.
    pub(super) fn take_heard(&self) -> bool {
        self.heard.swap(false, Ordering::Relaxed)
    }
}
