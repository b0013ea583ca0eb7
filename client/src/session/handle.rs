//! Handle of a session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    bodies::{Bodies, Body},
    driver::{AcquireCommand, Status},
    messages::{Note, SessionInfo},
    spec::AcquireSpec,
};
use crate::{
    calls::Calls, candidacies::Candidacies, clock::Moment, error::AcquireError, guard::LockGuard,
};

/// Session, through which a client holds locks for as long as its stream lives.
///
/// Cheap to clone; all clones are the same session. It closes when its last clone, its last guard and its last pending
/// acquire are gone.
///
/// When its coordinator is about to go away, or falls silent, it moves to another one, and takes along what it holds and
/// waits for. When its coordinator stops before that, guards stay held until their own deadlines, and the session resumes them on
/// the first coordinator that it reaches. When its stream breaks, every lock of it is lost at once, or [suspended](crate::LockState::Suspended) if it
/// has a [grace](crate::SessionBuilder::disconnect_grace), and it reconnects by itself; acquires that were waiting go on waiting,
/// in their old place where that still stands. Locks are never re-taken by themselves.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let session = client.session().open().await?;
/// let guard = session.lock("orders/42").await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// session.close().await;
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Session(Arc<Handle>);

struct Handle {
    acquires: mpsc::Sender<AcquireCommand>,
    notes: mpsc::UnboundedSender<Note>,
    last_acquire: AtomicU64,
    status: watch::Receiver<Status>,
    /// The calls for requests about locks that need no hold.
    calls: Calls,
    candidacies: Candidacies,
    bodies: Bodies,
    default_wait: Option<Duration>,
    close_timeout: Duration,
}

impl Session {
    pub(super) fn new(
        acquires: mpsc::Sender<AcquireCommand>,
        notes: mpsc::UnboundedSender<Note>,
        status: watch::Receiver<Status>,
        calls: Calls,
        (default_wait, close_timeout): (Option<Duration>, Duration),
    ) -> Self {
        Self(Arc::new(Handle {
            acquires,
            notes,
            last_acquire: AtomicU64::new(0),
            status,
            calls,
            candidacies: Candidacies::default(),
            bodies: Bodies::default(),
            default_wait,
            close_timeout,
        }))
    }

    /// Returns the description of the session; none while there is no connection.
    pub fn info(&self) -> Option<SessionInfo> {
        self.0.status.borrow().info.clone()
    }

    /// Completes when the coordinator is about to go away, with the time left until it does. Completes with zero if the
    /// session has been closed. Nothing needs to be done about it: the session moves to another coordinator by itself, with
    /// all that it holds and waits for, and [`Session::info`] tells of the new one. If there is none, its guards stay held until
    /// their own deadlines, and it goes on when it reaches one, the same one after a restart included.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// tokio::select! {
    ///     left = session.draining() => println!("to be finished within {left:?}"),
    ///     () = async { /* work */ } => {}
    /// }
    /// # Ok(()) });
    /// ```
    pub fn draining(&self) -> impl Future<Output = Duration> + Send + use<> {
        let mut status = self.0.status.clone();
        async move {
            let until = match status.wait_for(|status| status.draining.is_some()).await {
                Ok(status) => status.draining,
                Err(_) => None,
            };
            until.map_or(Duration::ZERO, |until| until.since(Moment::now()))
        }
    }

    /// Returns the time left until the coordinator goes away, once it has said that it will; none before, and while there is no
    /// connection. See [`Session::draining`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// assert_eq!(client.default_session().drains_in(), None);
    /// # Ok(()) });
    /// ```
    pub fn drains_in(&self) -> Option<Duration> {
        let draining = self.0.status.borrow().draining;
        draining.map(|until| until.since(Moment::now()))
    }

    /// Closes the session: acquires fail from now on, those that wait too. What runs under its locks in
    /// [`LockRequest::with`](crate::LockRequest::with) and the like is dropped at the await where it stands; its locks are
    /// held until it is gone, or the [close time-out](crate::ClientBuilder::close_timeout) is over. Then guards are lost (with
    /// [`LostReason::SessionClosed`](crate::LostReason::SessionClosed)), and the coordinator releases everything and
    /// hands it to the next waiters. Returns when it has confirmed that, or after two seconds more.
    ///
    /// A guard that was acquired by itself is not waited for: end the work under it first. If this future is dropped, the session
    /// closes all the same.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let guard = session.lock("orders/42").await?;
    /// session.close().await;
    /// assert!(!guard.is_held());
    /// # Ok(()) });
    /// ```
    pub async fn close(&self) {
        let session = Arc::clone(&self.0);
        // A task of its own: the work that is dropped may be what closes the session.
        let closing = tokio::spawn(async move {
            let left = session.bodies.close(session.close_timeout).await;
            if left > 0 {
                tracing::warn!(
                    running = left,
                    "work still runs under locks of the session, which is closed after its close time-out"
                );
            }
            let (done, closed) = oneshot::channel();
            if session.notes.send(Note::Close(done)).is_ok() {
                // Never sent: the sender is dropped when the task ends.
                closed.await.ok();
            }
        });
        closing.await.ok();
    }

    /// Counts work under locks, which a close waits for.
    pub(crate) fn begin_body(&self) -> Body {
        self.0.bodies.begin()
    }

    /// Returns how long an acquire waits that says nothing of it; none if it has no bound.
    pub(crate) fn default_wait(&self) -> Option<Duration> {
        self.0.default_wait
    }

    pub(crate) fn itself(&self) -> &Self {
        self
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    /// Returns the elections for which it campaigns, or which it leads.
    pub(crate) fn candidacies(&self) -> &Candidacies {
        &self.0.candidacies
    }

    /// Returns one guard for each lock, in the order of the request.
    pub(crate) async fn acquire(
        &self,
        mut spec: AcquireSpec,
    ) -> Result<Vec<LockGuard>, AcquireError> {
        let locks = spec.locks.clone();
        // Before anything is noted: the session would send it on each stream, and lose all its locks with each.
        if let Some(source) = spec.fault() {
            let name = locks.label();
            return Err(AcquireError::Refused { name, source });
        }
        // Here, where the caller's span is the current one.
        let traces = &self.0.calls.settings().traces;
        spec.trace = spec.trace.or_else(|| traces.current());
        let (reply, answer) = oneshot::channel();
        let mut pending = PendingAcquire {
            id: self.0.last_acquire.fetch_add(1, Ordering::Relaxed) + 1,
            answer: Some(answer),
            notes: &self.0.notes,
        };
        let command = AcquireCommand {
            id: pending.id,
            spec,
            reply,
        };
        let answered = async {
            let sent = self.0.acquires.send(command).await;
            match (sent, &mut pending.answer) {
                (Ok(()), Some(answer)) => answer.await.ok(),
                _ => None,
            }
        };
        let answer = tokio::select! {
            biased;
            // It is cancelled, and what is granted meanwhile is given back.
            () = self.0.bodies.closing() => {
                let name = locks.label();
                return Err(AcquireError::SessionClosed { name });
            }
            answer = answered => answer,
        };
        // Answered, or nobody is there to be told: nothing is left to cancel.
        pending.answer = None;
        answer.unwrap_or_else(|| {
            let name = locks.label();
            Err(AcquireError::SessionClosed { name })
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("info", &self.info())
            .finish_non_exhaustive()
    }
}

/// An acquire whose caller may go away at any await.
struct PendingAcquire<'a> {
    id: u64,
    answer: Option<oneshot::Receiver<Result<Vec<LockGuard>, AcquireError>>>,
    notes: &'a mpsc::UnboundedSender<Note>,
}

impl Drop for PendingAcquire<'_> {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            // First the receiver, so that a command that is still in the queue is seen to have no caller. A guard that
            // is in it already gives its lock back as it drops.
            drop(answer);
            self.notes.send(Note::Cancel(self.id)).ok();
        }
    }
}
