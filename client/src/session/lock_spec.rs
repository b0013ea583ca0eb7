//! Specification of one lock of an acquire: its name, and the mode in which to hold it.

use std::sync::Arc;

use crate::proto::v1;

/// Lock of several that are requested together, with a mode of its own; see
/// [`Client::lock_all`](crate::Client::lock_all). Anything that can be an `Arc<str>`, such as a string, converts into the
/// specification of an exclusive lock of that name.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::LockSpec;
///
/// // Read the configuration, write the account.
/// let guards = client
///     .lock_all([LockSpec::shared("configuration"), LockSpec::exclusive("account/7")])
///     .await?;
/// assert_eq!(guards.guards()[1].name(), "account/7");
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSpec {
    pub(crate) name: Arc<str>,
    pub(crate) mode: Mode,
}

/// Mode in which to hold a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    Semaphore {
        permits: u32,
        /// The fewest permits to be content with; none for all.
        at_least: Option<u32>,
        limit: u32,
        revision: u32,
    },
}

impl LockSpec {
    /// Specifies an exclusive hold.
    ///
    /// ```
    /// use leasehold_client::LockSpec;
    ///
    /// let spec: LockSpec = "account/7".into();
    /// assert_eq!(spec, LockSpec::exclusive("account/7"));
    /// ```
    pub fn exclusive(name: impl Into<Arc<str>>) -> Self {
        Self::new(name.into(), Mode::Exclusive)
    }

    /// Specifies a shared hold; see [`LockRequest::shared`](crate::LockRequest::shared).
    ///
    /// ```
    /// use leasehold_client::LockSpec;
    ///
    /// assert_eq!(LockSpec::shared("configuration").name(), "configuration");
    /// ```
    pub fn shared(name: impl Into<Arc<str>>) -> Self {
        Self::new(name.into(), Mode::Shared)
    }

    /// Specifies permits of a semaphore with this limit; see [`Client::semaphore`](crate::Client::semaphore).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LockSpec;
    ///
    /// let specs = [LockSpec::permits("gpu", 1, 4), LockSpec::shared("training-data")];
    /// let guards = client.lock_all(specs).await?;
    /// # Ok(()) });
    /// ```
    pub fn permits(name: impl Into<Arc<str>>, permits: u32, limit: u32) -> Self {
        let mode = Mode::Semaphore {
            permits,
            at_least: None,
            limit,
            revision: 0,
        };
        Self::new(name.into(), mode)
    }

    /// Accepts fewer permits of a semaphore, at least this many: 1 to the number asked for. It is granted as many as are free when
    /// its turn comes; [`LockGuard::permits`](crate::LockGuard::permits) says how many. See
    /// [`Semaphore::permits_between`](crate::Semaphore::permits_between). It changes nothing in other modes. Default: all of them.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LockSpec;
    ///
    /// let _busy = client.semaphore("gpu", 4).permits(1).await?;
    /// let gpus = LockSpec::permits("gpu", 4, 4).permits_at_least(2);
    /// let guards = client.lock_all([gpus, LockSpec::shared("training-data")]).await?;
    /// assert_eq!(guards.guards()[0].permits(), Some(3));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn permits_at_least(mut self, least: u32) -> Self {
        if let Mode::Semaphore { at_least, .. } = &mut self.mode {
            *at_least = Some(least);
        }
        self
    }

    /// Sets the revision of the decision for a semaphore's limit; see
    /// [`Semaphore::limit_revision`](crate::Semaphore::limit_revision). It changes nothing in other modes. Default: 0.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LockSpec;
    ///
    /// let gpu = LockSpec::permits("gpu", 1, 8).limit_revision(2);
    /// let guards = client.lock_all([gpu, LockSpec::shared("training-data")]).await?;
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn limit_revision(mut self, of_limit: u32) -> Self {
        if let Mode::Semaphore { revision, .. } = &mut self.mode {
            *revision = of_limit;
        }
        self
    }

    pub(crate) fn new(name: Arc<str>, mode: Mode) -> Self {
        Self { name, mode }
    }

    /// Returns the lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the message that asks for it among others.
    pub(super) fn message(&self) -> v1::LockSpec {
        v1::LockSpec {
            name: self.name.to_string(),
            ..self.mode.wire()
        }
    }
}

impl<N: Into<Arc<str>>> From<N> for LockSpec {
    fn from(name: N) -> Self {
        Self::exclusive(name)
    }
}

impl Mode {
    /// Returns the field that is 0 although the wire has another meaning for that, if there is one.
    pub(crate) fn zero(self) -> Option<&'static str> {
        match self {
            Self::Semaphore { permits: 0, .. } => Some("permits"),
            Self::Semaphore {
                at_least: Some(0), ..
            } => Some("permits_at_least"),
            _ => None,
        }
    }

    /// Returns how many permits it asks for, at most; none in modes without permits.
    pub(crate) fn permits(self) -> Option<u32> {
        match self {
            Self::Semaphore { permits, .. } => Some(permits),
            Self::Exclusive | Self::Shared => None,
        }
    }

    /// Returns it as a lock without a name for the wire.
    pub(super) fn wire(self) -> v1::LockSpec {
        let mut lock = v1::LockSpec::default();
        match self {
            Self::Exclusive => lock.set_mode(v1::LockMode::Exclusive),
            Self::Shared => lock.set_mode(v1::LockMode::Shared),
            Self::Semaphore {
                permits,
                at_least,
                limit,
                revision,
            } => {
                lock.set_mode(v1::LockMode::Semaphore);
                (lock.permits, lock.limit) = (permits, limit);
                lock.limit_revision = revision;
                lock.permits_at_least = at_least.unwrap_or(0);
            }
        }
        lock
    }
}
