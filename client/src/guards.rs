//! Guards of several locks that were granted together.

use std::{future::Future, pin::pin, slice, sync::Arc, vec};

use futures_util::future::{join_all, select_all};

use crate::{
    error::{HoldError, WithLockError},
    guard::{LockGuard, LockWatch},
    lease::LostReason,
    session::Body,
};

/// Guards of several locks that were granted together, in the order of their names. After the grant each is a lock of its
/// own, which can be released, or lost, alone.
///
/// Dropping this releases all of them in the background.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let guards = client.lock_all(["account/7", "account/9"]).await?;
/// for guard in &guards {
///     println!("{} is ours, with token {}", guard.name(), guard.fencing_token());
/// }
/// guards.release().await?;
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "the locks are released when their guards are dropped"]
pub struct LockGuards(Vec<LockGuard>);

impl LockGuards {
    pub(crate) fn new(guards: Vec<LockGuard>) -> Self {
        Self(guards)
    }

    /// Returns the guards, in the order of the names.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["b", "a"]).await?;
    /// assert_eq!(guards.guards()[0].name(), "b");
    /// # Ok(()) });
    /// ```
    pub fn guards(&self) -> &[LockGuard] {
        &self.0
    }

    /// Returns an iterator over the guards, in the order of the names.
    pub fn iter(&self) -> slice::Iter<'_, LockGuard> {
        self.0.iter()
    }

    /// Returns the guard of the lock of this name, if it is one of them.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["a", "b"]).await?;
    /// assert!(guards.get("b").is_some_and(|guard| guard.is_held()));
    /// assert!(guards.get("c").is_none());
    /// # Ok(()) });
    /// ```
    pub fn get(&self, name: &str) -> Option<&LockGuard> {
        self.0.iter().find(|guard| guard.name() == name)
    }

    /// Returns whether all of them are held; see [`LockGuard::is_held`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["a", "b"]).await?;
    /// assert!(guards.is_held());
    /// client.admin().force_release("b").await?;
    /// guards.lost().await;
    /// assert!(!guards.is_held());
    /// # Ok(()) });
    /// ```
    pub fn is_held(&self) -> bool {
        self.0.iter().all(LockGuard::is_held)
    }

    /// Completes when one of them is lost, with its name and the reason. The future borrows nothing, and any number of tasks
    /// may await one.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LostReason;
    ///
    /// let guards = client.lock_all(["a", "b"]).await?;
    /// client.admin().force_release("b").await?;
    /// let (name, reason) = guards.lost().await;
    /// assert_eq!((&*name, reason), ("b", LostReason::Forced));
    /// # Ok(()) });
    /// ```
    pub fn lost(&self) -> impl Future<Output = (Arc<str>, LostReason)> + Send + use<> {
        let watches = self.watches();
        async move {
            let (watch, reason) = first_lost(&watches).await;
            (watch.name().into(), reason)
        }
    }

    /// Releases all of them, as [`LockGuard::release`] does with one.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["a", "b"]).await?;
    /// guards.release().await?;
    /// assert!(client.lock("b").try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if one of them was lost before, or could not be released; the others are released all the same. Of several
    /// errors, returns that of the lock that was named first.
    pub async fn release(self) -> Result<(), HoldError> {
        let releases = self.0.into_iter().map(LockGuard::release);
        join_all(releases).await.into_iter().collect()
    }

    /// Returns the guards one by one, for locks that are to be released one after the other.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["a", "b"]).await?.into_guards();
    /// assert_eq!(guards.len(), 2);
    /// # Ok(()) });
    /// ```
    pub fn into_guards(self) -> Vec<LockGuard> {
        self.0
    }

    pub(crate) fn watches(&self) -> Vec<LockWatch> {
        self.0.iter().map(LockGuard::watch).collect()
    }

    /// Runs the work until it is done, one of the locks is lost, or the session is to be closed, then releases them.
    pub(crate) async fn run<T>(
        self,
        body: Body,
        work: impl Future<Output = T>,
    ) -> Result<T, Unprotected<T>> {
        let watches = self.watches();
        let outcome = {
            let work = pin!(work);
            tokio::select! {
                biased;
                lost = first_lost(&watches) => Err((lost, None)),
                () = body.closing() => Err(((&watches[0], LostReason::SessionClosed), None)),
                // Not made under all of them from beginning to end, if one was lost meanwhile.
                done = work => match first_settled_as_lost(&watches).await {
                    None => Ok(done),
                    Some(lost) => Err((lost, Some(done))),
                },
            }
        };
        match outcome {
            Ok(done) => {
                if let Err(error) = self.release().await {
                    tracing::debug!("the release after the work failed: {error}");
                }
                Ok(done)
            }
            Err(((watch, reason), done)) => Err(Unprotected {
                loss: WithLockError::Lost {
                    name: watch.name().into(),
                    token: watch.fencing_token(),
                    reason,
                },
                done,
            }),
        }
    }
}

/// End of work that did not run under its locks from beginning to end.
pub(crate) struct Unprotected<T> {
    /// The first loss.
    pub(crate) loss: WithLockError,
    /// The result of the work; none if the work was dropped.
    pub(crate) done: Option<T>,
}

impl IntoIterator for LockGuards {
    type Item = LockGuard;
    type IntoIter = vec::IntoIter<LockGuard>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a LockGuards {
    type Item = &'a LockGuard;
    type IntoIter = slice::Iter<'a, LockGuard>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns the first lock that is lost, or `None` if all are held. Waits until a suspended lock is held again or lost.
async fn first_settled_as_lost(watches: &[LockWatch]) -> Option<(&LockWatch, LostReason)> {
    for watch in watches {
        if let Err(reason) = watch.settled().await {
            return Some((watch, reason));
        }
    }
    None
}

/// Waits for the first loss. There is at least one lock: the client refuses a grant of none.
async fn first_lost(watches: &[LockWatch]) -> (&LockWatch, LostReason) {
    let ends = watches.iter().map(|watch| Box::pin(watch.lost()));
    let (reason, index, _) = select_all(ends).await;
    (&watches[index], reason)
}
