//! Slot of one connection in a link: senders take the live connection from it, a sender that finds the connection broken
//! reports it here, and the connection's own task fills the slot again.

use std::{
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

use super::{
    handshake::RunId,
    status::{Board, Fault},
};

/// Number of unanswered commands in a row after which a connection is given up. One may be a slow command; replies come in
/// order, so a second one without a reply in between means that none comes through.
const UNANSWERED_LIMIT: u32 = 2;

/// Slot of one connection.
pub(super) struct Slot {
    index: usize,
    board: Arc<Board>,
    state: RwLock<State>,
    /// Wakes the connection's task after its connection was given up.
    given_up: Notify,
}

struct State {
    /// Counts the connections that this place has had.
    generation: u64,
    current: Result<Arc<Live>, Fault>,
}

/// Connection in use.
pub(super) struct Live {
    pub(super) generation: u64,
    pub(super) connection: MultiplexedConnection,
    /// The run of the server at its other end, if known.
    pub(super) run: Option<RunId>,
    unanswered: AtomicU32,
    heard: AtomicBool,
}

impl Slot {
    pub(super) fn new(index: usize, board: Arc<Board>, fault: Fault) -> Self {
        let state = RwLock::new(State {
            generation: 0,
            current: Err(fault),
        });
        Self {
            index,
            board,
            state,
            given_up: Notify::new(),
        }
    }

    /// Returns the live connection, or why there is none.
    pub(super) fn live(&self) -> Result<Arc<Live>, Fault> {
        self.state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .current
            .clone()
    }

    /// Puts a new connection into use.
    pub(super) fn set_up(
        &self,
        connection: MultiplexedConnection,
        run: Option<RunId>,
    ) -> Arc<Live> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.generation += 1;
        let live = Arc::new(Live {
            generation: state.generation,
            connection,
            run,
            unanswered: AtomicU32::new(0),
            heard: AtomicBool::new(true),
        });
        state.current = Ok(Arc::clone(&live));
        self.board.set_up(self.index);
        live
    }

    /// Records why there is still no connection.
    pub(super) fn set_down(&self, fault: Fault) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.current = Err(fault.clone());
        self.board.set_down(self.index, fault);
    }

    /// Gives a connection up, unless that was done before: from now on its place is down, and its task redials.
    pub(super) fn give_up(&self, generation: u64, fault: Fault) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(&state.current, Ok(live) if live.generation == generation) {
            state.current = Err(fault.clone());
            // Under the lock, so that the board learns of this before the next connection.
            self.board.set_down(self.index, fault);
            self.given_up.notify_one();
        }
    }

    /// Waits until this connection is given up, and returns why.
    pub(super) async fn until_given_up(&self, generation: u64) -> Fault {
        loop {
            match self.live() {
                Err(fault) => return fault,
                // Only this place's own task puts a connection in, so this cannot be a later one.
                Ok(live) => debug_assert_eq!(live.generation, generation),
            }
            // A permit may be left over from an earlier connection, hence the loop.
            self.given_up.notified().await;
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("index", &self.index)
            .finish_non_exhaustive()
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
