//! Campaigning, and leading for as long as it lasts.

use std::{error::Error as StdError, fmt, future::Future, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{Leader, Leadership, LeadershipWatch, Observer};
use crate::{
    calls::Calls,
    clock::Moment,
    error::{AcquireError, Failure},
    lock::LockRequest,
    pauses::Pauses,
    session::Session,
    trace::TraceContext,
};

/// An election: of several candidates one leads, everybody can see who, and the next one leads as soon as it does not
/// any more. Made by [`Client::election`](crate::Client::election) and [`Session::election`]; cheap to clone.
///
/// It is the exclusive lock of its name: the leader is its holder, the candidates are its waiters, in order, and the value
/// is that of the hold. So whatever is said of a [`LockGuard`](crate::LockGuard) is true of a [`Leadership`].
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let election = client.election("scheduler");
/// let leadership = election.campaign("10.0.0.7:8080").await?;
/// println!("elected, with token {}", leadership.fencing_token());
/// leadership.resign().await?;
/// # Ok(()) });
/// ```
#[derive(Clone)]
#[must_use = "nothing is asked for before one of its methods is called"]
pub struct Election {
    request: LockRequest,
    name: Arc<str>,
    calls: Calls,
}

impl Election {
    pub(crate) fn new(session: &Session, name: Arc<str>) -> Self {
        Self {
            request: session.lock(name.clone()),
            name,
            calls: session.calls().clone(),
        }
    }

    /// The election's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long to wait to be elected, at most 24 h; zero means not to wait. Default: for as long as it takes, over
    /// reconnects too.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    /// use leasehold_client::AcquireError;
    ///
    /// let election = client.election("scheduler");
    /// let _leadership = election.campaign("first").await?;
    /// let error = election.wait(Duration::ZERO).campaign("second").await.unwrap_err();
    /// assert!(matches!(error, AcquireError::Busy { .. }));
    /// # Ok(()) });
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.request = self.request.wait(wait);
        self
    }

    /// How long nobody is elected after a leadership that ended uncleanly, that is in any way but by resigning: 0 to
    /// the maximum TTL. Default: 0. See [`LockRequest::lock_delay`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let election = client.election("scheduler").lock_delay(Duration::from_secs(10));
    /// let leadership = election.campaign("").await?;
    /// # Ok(()) });
    /// ```
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.request = self.request.lock_delay(lock_delay);
        self
    }

    /// The trace that a campaign is part of; see [`LockRequest::trace_context`].
    pub fn trace_context(mut self, context: TraceContext) -> Self {
        self.request = self.request.trace_context(context);
        self
    }

    /// Waits to be elected. The value, at most 4 KiB, is what observers are told of this leader: its address, perhaps.
    /// The future does not borrow the election.
    ///
    /// May be dropped at any point: the candidacy is then withdrawn, and an election that crossed that is given back at
    /// once.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let leadership = client.election("scheduler").campaign("10.0.0.7:8080").await?;
    /// assert!(leadership.is_leader());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] if it was not elected within the wait, [`AcquireError::Busy`] if the wait was zero;
    /// [`AcquireError::Refused`] if the coordinator could not serve the request; [`AcquireError::Unavailable`] if none
    /// answered within the wait. Without a wait, a lost connection is not an error: it campaigns again on the next one.
    pub fn campaign<V: Into<Vec<u8>>>(
        &self,
        value: V,
    ) -> impl Future<Output = Result<Leadership, AcquireError>> + Send + use<V> {
        let request = self.request.clone().value(value);
        async move { request.acquire().await.map(Leadership::new) }
    }

    /// Runs the work while this process leads, and for as long as that takes: when the leadership is lost, the work is
    /// dropped at the await where it stands, at the deadline itself, and this campaigns again and begins the work anew.
    /// When the work is done, it resigns and returns what the work returned. Work that blocks its thread can't be
    /// stopped, and should pass on the fencing token.
    ///
    /// A coordinator that goes away in order does not end the leadership where there is another one: it moves there, and the
    /// work goes on. So it does while the leadership is [suspended](crate::LockState::Suspended); if it ends then, it is
    /// waited for whether that is resumed.
    ///
    /// What was not done under the leadership from beginning to end does not count: if the work ends when the
    /// leadership has been lost already, it is begun anew after the next election.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let terms = client
    ///     .election("scheduler")
    ///     .run_while_leader("10.0.0.7:8080", |leadership| async move {
    ///         // Write with leadership.fencing_token(), and let the storage refuse smaller ones.
    ///         assert!(leadership.is_leader());
    ///         "done"
    ///     })
    ///     .await?;
    /// assert_eq!(terms, "done");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Election::campaign`], but that what may pass by itself is tried again for as long as it takes, with
    /// the client's pauses: no connection, a coordinator or a store that does not serve at present, one that has no room
    /// for it. The first such failure in a row is logged as a warning. With a wait, not to be elected in time is an
    /// error.
    pub fn run_while_leader<V, T, F, W>(
        &self,
        value: V,
        mut work: W,
    ) -> impl Future<Output = Result<T, AcquireError>> + use<V, T, F, W>
    where
        V: Into<Vec<u8>>,
        F: Future<Output = T>,
        W: FnMut(LeadershipWatch) -> F,
    {
        let election = self.clone();
        let value = value.into();
        async move {
            let mut pauses = Pauses::new(election.calls.settings());
            let mut fails = false;
            loop {
                let leadership = match election.campaign(value.clone()).await {
                    Ok(leadership) => leadership,
                    Err(error) if may_pass(&error) => {
                        report(&error, !fails);
                        fails = true;
                        let asked = error.failure().and_then(Failure::retry_after);
                        sleep(pauses.pause_as_asked(Moment::now(), asked)).await;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                pauses.opened(Moment::now());
                fails = false;
                let work = work(leadership.watch());
                match leadership.run(work).await {
                    Ok(done) => return Ok(done),
                    Err(error) => tracing::info!("campaigning again: {error}"),
                }
            }
        }
    }

    /// Who leads now; none while nobody does, also where nobody ever campaigned.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let election = client.election("scheduler");
    /// assert_eq!(election.leader().await?, None);
    /// let leadership = election.campaign("10.0.0.7:8080").await?;
    /// assert_eq!(election.leader().await?.expect("we lead").value, b"10.0.0.7:8080");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid, or if the coordinator can't be reached within ten seconds or can't serve the call.
    pub async fn leader(&self) -> Result<Option<Leader>, Failure> {
        Leader::of(&self.calls, &self.name).await
    }

    /// Tells who leads now, and then every change. Nothing is asked for before the first item is.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let election = client.election("scheduler");
    /// let mut observer = election.observe();
    /// assert_eq!(observer.next().await.expect("it goes on")?.leader, None);
    /// let _leadership = election.campaign("10.0.0.7:8080").await?;
    /// let leader = observer.next().await.expect("it goes on")?.leader;
    /// assert_eq!(leader.expect("somebody leads").value, b"10.0.0.7:8080");
    /// # Ok(()) });
    /// ```
    pub fn observe(&self) -> Observer {
        Observer::new(&self.calls, self.name.to_string())
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Whether there was nobody who could have answered. That somebody else leads is an answer.
fn may_pass(error: &AcquireError) -> bool {
    match error {
        AcquireError::Busy { .. } | AcquireError::TimedOut { .. } => false,
        error => error.is_retryable(),
    }
}

/// Logs why a campaign is tried again. Nobody else is told, and it may go on for ever: the first of a row is a warning.
fn report(error: &AcquireError, is_first: bool) {
    let error: &(dyn StdError + 'static) = error;
    if is_first {
        tracing::warn!(
            error,
            "a campaign failed, and is tried again until it does not"
        );
    } else {
        tracing::debug!(error, "a campaign failed again");
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    #[test]
    fn what_may_pass_is_that_nobody_could_answer() {
        let refused = |status: Status| AcquireError::refused("a".into(), status.into());
        let name = || "a".into();
        for (error, passes) in [
            (
                AcquireError::Unavailable {
                    name: name(),
                    source: None,
                },
                true,
            ),
            (refused(Status::unavailable("the store is away")), true),
            (refused(Status::resource_exhausted("too many")), true),
            (refused(Status::invalid_argument("bad name")), false),
            (refused(Status::permission_denied("no")), false),
            (
                AcquireError::Busy {
                    name: name(),
                    holder: None,
                },
                false,
            ),
            (
                AcquireError::TimedOut {
                    name: name(),
                    wait: Duration::from_secs(1),
                    holder: None,
                },
                false,
            ),
            (AcquireError::SessionClosed { name: name() }, false),
        ] {
            assert_eq!(may_pass(&error), passes, "{error:?}");
        }
    }
}
