//! Campaigns of an election, and work that runs while this process leads.

use std::{error::Error as StdError, fmt, future::Future, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{Leader, Leadership, LeadershipWatch, Observer};
use crate::{
    calls::Calls,
    candidacies::Candidacies,
    clock::Moment,
    error::{AcquireError, Failure},
    pauses::Pauses,
    request::LockRequest,
    session::Session,
    trace::TraceContext,
};

/// Election: one of several candidates leads, all can observe it, and the next one leads as soon as it ends. Made by
/// [`Client::election`](crate::Client::election) and [`Session::election`]. Cheap to clone.
///
/// An election is the exclusive lock of its name: the leader is the holder, the candidates are the waiters in order, and
/// the value is that of the hold. A [`Leadership`] promises what a [`LockGuard`](crate::LockGuard) promises.
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
    candidacies: Candidacies,
}

impl Election {
    pub(crate) fn new(session: &Session, name: Arc<str>) -> Self {
        Self {
            request: session.lock(name.clone()).without_bound(),
            name,
            calls: session.calls().clone(),
            candidacies: session.candidacies().clone(),
        }
    }

    /// Returns the election's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the time to wait to be elected: at most 24 h; zero means not to wait. Default: as long as it takes, over
    /// reconnects too.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    /// use leasehold_client::AcquireError;
    ///
    /// let _leadership = client.election("scheduler").campaign("first").await?;
    /// let other = client.session().open().await?;
    /// let second = other.election("scheduler").wait(Duration::ZERO).campaign("second");
    /// let error = second.await.unwrap_err();
    /// assert!(matches!(error, AcquireError::Busy { .. }));
    /// # Ok(()) });
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.request = self.request.wait(wait);
        self
    }

    /// Sets the time for which no candidate is elected after a leadership that ended uncleanly, that is in any way other than
    /// by resigning: 0 to the maximum TTL. Default: 0. See [`LockRequest::lock_delay`].
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

    /// Fails as soon as a coordinator can't serve a campaign; see [`LockRequest::without_retries`].
    pub fn without_retries(mut self) -> Self {
        self.request = self.request.without_retries();
        self
    }

    /// Makes a campaign a part of this trace; see [`LockRequest::trace_context`].
    pub fn trace_context(mut self, context: TraceContext) -> Self {
        self.request = self.request.trace_context(context);
        self
    }

    /// Waits to be elected. Observers see the value, at most 4 KiB: the leader's address, for example. The future does not
    /// borrow the election.
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
    /// [`AcquireError::AlreadyCandidate`] if this session campaigns for the election already, or leads it: it would wait behind
    /// itself. Use [`Leadership::proclaim`] to change the value, and another session for another candidate.
    /// [`AcquireError::TimedOut`] if it was not elected within the wait, [`AcquireError::Busy`] if the wait was zero;
    /// [`AcquireError::Refused`] if the coordinator could not serve the request; [`AcquireError::Unavailable`] if none
    /// answered within the wait. Without a wait, a lost connection is not an error: the session campaigns again on the next
    /// one.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point. That withdraws the candidacy; if it was elected meanwhile, it resigns at
    /// once.
    pub fn campaign<V: Into<Vec<u8>>>(
        &self,
        value: V,
    ) -> impl Future<Output = Result<Leadership, AcquireError>> + Send + use<V> {
        let request = self.request.clone().value(value);
        let (name, candidacies) = (self.name.clone(), self.candidacies.clone());
        async move {
            let candidacy = candidacies.begin(Moment::now(), name.clone());
            let candidacy = candidacy.ok_or(AcquireError::AlreadyCandidate { name })?;
            Ok(Leadership::new(request.await?, candidacy))
        }
    }

    /// Runs the work while this process leads, until the work is done. If the leadership is lost, the work is dropped at the
    /// await where it stands, at the deadline itself; then this campaigns again and begins the work anew. When the work is
    /// done, this resigns and returns the work's result. Work that blocks its thread can't be stopped, and should pass on
    /// the fencing token.
    ///
    /// If the coordinator drains and there is another one, the leadership moves there, and the work goes on. The work also
    /// goes on while the leadership is [suspended](crate::LockState::Suspended); if the work ends then, this waits until the
    /// session has resumed the leadership, or lost it.
    ///
    /// Work counts only if it ran under the leadership from beginning to end: if the leadership was lost before the work
    /// ended, this begins the work anew after the next election.
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
    /// As for [`Election::campaign`], except that this repeats a campaign after a failure that may pass, with the client's
    /// pauses, for as long as it takes: no connection, a coordinator or a store that does not serve at present, or a limit
    /// that is reached. The first such failure in a row is logged as a warning. If there is a wait, a campaign that was not
    /// elected in time is an error.
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
                let body = election.request.begin_body();
                let work = work(leadership.watch());
                match leadership.run(body, work).await {
                    Ok(done) => return Ok(done),
                    Err(error) => tracing::info!("campaigning again: {error}"),
                }
            }
        }
    }

    /// Returns the present leader; `None` while there is none, including before the first campaign.
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

    /// Observes the election: the observer yields the present leader, then every change. It sends nothing before it is
    /// polled.
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

/// Returns whether a campaign that failed with this error is worth repeating. Another leader is an answer, not a failure.
fn may_pass(error: &AcquireError) -> bool {
    match error {
        AcquireError::Busy { .. } | AcquireError::TimedOut { .. } => false,
        error => error.is_retryable(),
    }
}

/// Logs why a campaign is repeated: the first of a row as a warning, since no caller sees the error and it may go on for
/// ever.
fn report(error: &AcquireError, is_first: bool) {
    let error: &(dyn StdError + 'static) = error;
    if is_first {
        tracing::warn!(error, "campaign failed; repeating it until it succeeds");
    } else {
        tracing::debug!(error, "campaign failed again");
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    #[test]
    fn only_failures_without_an_answer_may_pass() {
        let refused =
            |status: Status| AcquireError::refused("a".into(), Failure::from_status(status));
        let (name, source, holder) = ("a".into(), None, None);
        let unavailable = AcquireError::Unavailable { name, source };
        let name = "a".into();
        let busy = AcquireError::Busy { name, holder };
        let (name, wait, holder) = ("a".into(), Duration::from_secs(1), None);
        let timed_out = AcquireError::TimedOut { name, wait, holder };
        let name = "a".into();
        for (error, passes) in [
            (unavailable, true),
            (refused(Status::unavailable("the store is away")), true),
            (refused(Status::resource_exhausted("too many")), true),
            (refused(Status::invalid_argument("bad name")), false),
            (refused(Status::permission_denied("no")), false),
            (busy, false),
            (timed_out, false),
            (AcquireError::SessionClosed { name }, false),
        ] {
            assert_eq!(may_pass(&error), passes, "{error:?}");
        }
    }
}
