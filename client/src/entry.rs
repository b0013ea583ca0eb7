//! Methods by which clients and sessions begin requests for locks, permits and leaderships.

use std::sync::Arc;

use crate::{
    actor::Actor,
    client::Client,
    election::Election,
    error::WithLockError,
    guard::LockWatch,
    request::{LockAllRequest, LockRequest},
    semaphore::Semaphore,
    session::{LockSpec, Session},
};

/// Implements the methods for a type whose method `$session` returns its session.
macro_rules! entry_methods {
    ($type:ident: $on:literal, $session:ident) => {
        impl $type {
            #[doc = concat!("Requests the lock of this name on ", $on, ": 1 to 512 bytes of UTF-8 without control characters,")]
            /// matched whole.
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// let guard = client.lock("orders/42").await?;
            /// # Ok(()) });
            /// ```
            pub fn lock(&self, name: impl Into<Arc<str>>) -> LockRequest {
                LockRequest::one(self.$session().clone(), name.into())
            }

            #[doc = concat!("Returns the semaphore of this name with `limit` permits: 1 to 1000000. It belongs to ", $on, ".")]
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// let permits = client.semaphore("downloads", 3).permits(2).await?;
            /// # Ok(()) });
            /// ```
            pub fn semaphore(&self, name: impl Into<Arc<str>>, limit: u32) -> Semaphore {
                Semaphore::new(self.$session().clone(), name.into(), limit)
            }

            #[doc = concat!("Requests several locks on ", $on, ": 1 to 64 of different names, all together or none.")]
            /// Each is a name, for an exclusive hold, or a [`LockSpec`], for a mode of its own.
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// let guards = client.lock_all(["account/7", "account/9"]).await?;
            /// # Ok(()) });
            /// ```
            pub fn lock_all(&self, locks: impl IntoIterator<Item: Into<LockSpec>>) -> LockAllRequest {
                let locks = locks.into_iter().map(Into::into).collect();
                LockAllRequest::all(self.$session().clone(), locks)
            }

            #[doc = concat!("Returns the election of this name, with ", $on, " for its campaigns. The name has 1 to 512 bytes of")]
            /// UTF-8 without control characters, and is matched whole. The election is the exclusive lock of its name.
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// let leadership = client.election("scheduler").campaign("10.0.0.7:8080").await?;
            /// println!("leading, with token {}", leadership.fencing_token());
            /// # Ok(()) });
            /// ```
            pub fn election(&self, name: impl Into<Arc<str>>) -> Election {
                Election::new(self.$session(), name.into())
            }

            /// Makes a new actor, different from all others, for one of the flows inside this client: a task or a thread.
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// let me = client.actor();
            /// assert_ne!(me, client.actor());
            /// let guard = client.lock("orders/42").actor(me).await?;
            /// # Ok(()) });
            /// ```
            pub fn actor(&self) -> Actor {
                Actor::new()
            }

            #[doc = concat!("Runs work while holding a lock of ", $on, "; see [`LockRequest::with`].")]
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// let sold = client
            ///     .with_lock("stock/apples", |lock| async move {
            ///         println!("selling with token {}", lock.fencing_token());
            ///         3
            ///     })
            ///     .await?;
            /// assert_eq!(sold, 3);
            /// # Ok(()) });
            /// ```
            ///
            /// # Errors
            ///
            /// As for [`LockRequest::with`].
            pub async fn with_lock<T, F>(
                &self,
                name: impl Into<Arc<str>>,
                work: impl FnOnce(LockWatch) -> F,
            ) -> Result<T, WithLockError>
            where
                F: Future<Output = T>,
            {
                self.lock(name).with(work).await
            }

            #[doc = concat!("Runs work that can fail while holding a lock of ", $on, "; see [`LockRequest::try_with`].")]
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// use std::error::Error;
            ///
            /// let sold = client
            ///     .try_with_lock("stock/apples", |_lock| async {
            ///         Ok::<u32, Box<dyn Error>>("3".parse()?)
            ///     })
            ///     .await?;
            /// assert_eq!(sold, 3);
            /// # Ok(()) });
            /// ```
            ///
            /// # Errors
            ///
            /// As for [`LockRequest::try_with`].
            pub async fn try_with_lock<T, E, F>(
                &self,
                name: impl Into<Arc<str>>,
                work: impl FnOnce(LockWatch) -> F,
            ) -> Result<T, E>
            where
                E: From<WithLockError>,
                F: Future<Output = Result<T, E>>,
            {
                self.lock(name).try_with(work).await
            }
        }
    };
}

entry_methods!(Client: "the default session", default_session);
entry_methods!(Session: "this session", itself);
