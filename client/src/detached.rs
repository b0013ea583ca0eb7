//! Locks without a session, by the unary calls: holds that must outlive the process.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    calls::{CALL_TIMEOUT, Calls, LONGEST_CALL, Repeats, limited},
    client::Client,
    clock::Moment,
    error::{AcquireError, Failure, HoldError},
    lease::LostReason,
    proto::{
        FromWire, duration,
        v1::{self, lock_service_client::LockServiceClient},
        wire,
    },
    token::FencingToken,
    transport::Channel,
    view::Holder,
};

/// Bytes of an owner id.
const OWNER_ID: usize = 16;

/// Request for a lock without a session, made by [`Client::detached_lock`]. Nothing is sent before [`acquire`](Self::acquire).
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use std::time::Duration;
///
/// let lock = client
///     .detached_lock("cron/nightly")
///     .ttl(Duration::from_secs(600))
///     .acquire()
///     .await?;
/// println!("ours for {:?}, with token {}", lock.valid_for(), lock.fencing_token());
/// lock.release().await?;
/// # Ok(()) });
/// ```
#[derive(Clone)]
#[must_use = "a request sends nothing before it is acquired"]
pub struct DetachedRequest {
    calls: Calls,
    name: Arc<str>,
    request: v1::AcquireRequest,
    permits_at_least: Option<u32>,
    wait: Duration,
}

impl Client {
    /// Requests a lock of this name that no session holds: nobody renews it but [`DetachedLock::renew`], and it outlives this
    /// process until its TTL has passed. Use it for a hold that must survive a restart, or that another process ends. For
    /// anything else [`Client::lock`] is safer: its locks end with the process and last for as long as the work.
    pub fn detached_lock(&self, name: impl Into<Arc<str>>) -> DetachedRequest {
        let name = name.into();
        DetachedRequest {
            calls: self.calls().clone(),
            request: v1::AcquireRequest {
                name: name.to_string(),
                client_name: self.client_name(),
                ..v1::AcquireRequest::default()
            },
            name,
            permits_at_least: None,
            wait: Duration::ZERO,
        }
    }

    /// Takes up a detached lock by the owner id that its grant gave, perhaps to another process. Asks nobody: the lock counts
    /// as not held before [`DetachedLock::renew`] has found that it is.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let granted = client.detached_lock("migration").acquire().await?;
    /// let (token, owner_id) = (granted.fencing_token(), granted.owner_id());
    ///
    /// // In another process.
    /// let mut lock = client.attach_detached_lock("migration", token, owner_id);
    /// assert!(!lock.is_held());
    /// lock.renew().await?;
    /// assert!(lock.is_held());
    /// lock.release().await?;
    /// # Ok(()) });
    /// ```
    pub fn attach_detached_lock(
        &self,
        name: impl Into<Arc<str>>,
        token: FencingToken,
        owner_id: [u8; 16],
    ) -> DetachedLock {
        DetachedLock {
            calls: self.calls().clone(),
            name: name.into(),
            owner_id,
            token,
            permits: None,
            ttl: None,
            held_until: Moment::now(),
        }
    }
}

impl DetachedRequest {
    /// Sets the time for which the lock is held unless it is renewed: 1 s to 1 h unless the coordinator is configured
    /// otherwise. Renewals last as long. Default: the coordinator's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request.ttl = Some(wire(ttl));
        self
    }

    /// Sets the time to wait: at most 24 h. Default: not to wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Attaches a value for others to see: at most 4 KiB. Default: empty.
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.request.value = value.into();
        self
    }

    /// Sets the name of the holder, for operators: at most 256 bytes. Default: the client's.
    pub fn client_name(mut self, client_name: impl Into<String>) -> Self {
        self.request.client_name = client_name.into();
        self
    }

    /// Sets the time for which the name stays closed if the TTL passes before a release: 0 to the maximum TTL. Default: 0.
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.request.lock_delay = Some(wire(lock_delay));
        self
    }

    /// Asks for a shared hold; see [`LockRequest::shared`](crate::LockRequest::shared). Default: exclusive.
    pub fn shared(mut self) -> Self {
        self.request.set_mode(v1::LockMode::Shared);
        self
    }

    /// Asks for permits of a semaphore with this limit: 1 to 1000000, and 1 to the limit. Default: exclusive.
    pub fn permits(mut self, permits: u32, limit: u32) -> Self {
        self.request.set_mode(v1::LockMode::Semaphore);
        (self.request.permits, self.request.limit) = (permits, limit);
        self
    }

    /// Sets the revision of the decision for a semaphore's limit; see
    /// [`Semaphore::limit_revision`](crate::Semaphore::limit_revision). The coordinator refuses it in other modes. Default: 0.
    pub fn limit_revision(mut self, revision: u32) -> Self {
        self.request.limit_revision = revision;
        self
    }

    /// Accepts fewer permits, at least this many: 1 to the number asked for. The lock is granted as many as are free when its turn
    /// comes; [`DetachedLock::permits`] says how many. Default: all of them.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let _three = client.detached_lock("mirrors").permits(3, 4).acquire().await?;
    /// let rest = client.detached_lock("mirrors").permits(4, 4).permits_at_least(1);
    /// assert_eq!(rest.acquire().await?.permits(), Some(1));
    /// # Ok(()) });
    /// ```
    pub fn permits_at_least(mut self, least: u32) -> Self {
        self.permits_at_least = Some(least);
        self
    }

    /// Acquires the lock. If it waited for long, this also renews the hold once: the TTL counts from the grant, and nothing but the
    /// answer to a new request says how much of it is left. If that fails, the lock is returned all the same, and
    /// [`is_held`](DetachedLock::is_held) says that it may be lost.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`] or [`AcquireError::TimedOut`] if it is not free, [`AcquireError::Unavailable`] if no coordinator
    /// answered, [`AcquireError::Refused`] or a narrower variant if it could not serve the request. If the connection broke
    /// after the request was sent, the lock may be held, by an owner id that nobody knows, until its TTL has passed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the coordinator gives up the wait. A grant that crosses it is held until its TTL has passed.
    pub async fn acquire(self) -> Result<DetachedLock, AcquireError> {
        let Self {
            calls,
            name,
            mut request,
            permits_at_least,
            wait,
        } = self;
        let is_semaphore = request.mode() == v1::LockMode::Semaphore;
        let zero = [
            ("permits", is_semaphore && request.permits == 0),
            ("permits_at_least", permits_at_least == Some(0)),
        ];
        // The coordinator would take 0 for the default.
        if let Some((field, _)) = zero.iter().find(|(_, is_zero)| *is_zero) {
            let source = Failure::invalid_field(field, "must be at least 1");
            return Err(AcquireError::Refused { name, source });
        }
        request.permits_at_least = permits_at_least.unwrap_or(0);
        // Coordinators that name no number grant all that was asked for.
        let all = is_semaphore.then_some(request.permits);
        request.wait = Some(wire(wait));
        let ttl = request.ttl;
        let limit = CALL_TIMEOUT.saturating_add(wait).min(LONGEST_CALL);
        let ask = |channel: Channel| {
            let mut asked = limited(request.clone());
            asked.set_timeout(limit);
            async move {
                // Before it is sent: the hold never counts for longer than in the store.
                let sent_at = Moment::now();
                let answer = stub(channel).acquire(asked).await?;
                Ok((sent_at, answer.into_inner()))
            }
        };
        let answered = calls.call_within(limit, Repeats::Unsent, ask).await;
        let (sent_at, answer) = answered.map_err(|failure| match failure.is_transport() {
            true => AcquireError::unconnected(name.clone(), None),
            false => AcquireError::refused(name.clone(), failure),
        })?;
        let holder =
            |answer: v1::AcquireResponse| answer.holder.map(Holder::from_wire).map(Box::new);
        match answer.outcome() {
            v1::AcquireOutcome::Granted => {
                let Ok(owner_id) = <[u8; OWNER_ID]>::try_from(&answer.owner_id[..]) else {
                    let source = Failure::protocol("the coordinator granted without an owner id");
                    return Err(AcquireError::Refused { name, source });
                };
                let lasts = duration(answer.ttl).unwrap_or_default();
                let mut lock = DetachedLock {
                    calls,
                    name,
                    owner_id,
                    token: FencingToken::from(answer.fencing_token),
                    permits: all.map(|all| match answer.permits {
                        0 => all,
                        granted => granted,
                    }),
                    ttl,
                    held_until: sent_at.after(lasts),
                };
                if lock.valid_for() < lasts / 2 {
                    // It waited. The TTL counts from the grant, and only the answer to a new request says how much is left of it.
                    // Without one, the lock shows by itself that it may be lost.
                    let _ = lock.renew().await;
                }
                Ok(lock)
            }
            v1::AcquireOutcome::Busy => Err(AcquireError::Busy {
                name,
                holder: holder(answer),
            }),
            v1::AcquireOutcome::TimedOut => Err(AcquireError::TimedOut {
                name,
                wait,
                holder: holder(answer),
            }),
            other => {
                let other = other.as_str_name();
                let source = Failure::protocol(format!("the coordinator answered {other}"));
                Err(AcquireError::Refused { name, source })
            }
        }
    }
}

impl fmt::Debug for DetachedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedRequest")
            .field("name", &self.name)
            .field("mode", &self.request.mode())
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

/// Lock that no session holds. Dropping this releases nothing: the hold lasts until it is released or its TTL has passed.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let lock = client.detached_lock("cron/nightly").acquire().await?;
/// drop(lock);
/// let error = client.detached_lock("cron/nightly").acquire().await.unwrap_err();
/// assert!(matches!(error, leasehold_client::AcquireError::Busy { .. }));
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct DetachedLock {
    calls: Calls,
    name: Arc<str>,
    owner_id: [u8; OWNER_ID],
    token: FencingToken,
    permits: Option<u32>,
    /// The TTL that was asked for.
    ttl: Option<prost_types::Duration>,
    held_until: Moment,
}

impl DetachedLock {
    /// Returns the lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fencing token; see [`LockGuard::fencing_token`](crate::LockGuard::fencing_token).
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns how many permits of a semaphore were granted; none for other locks, and for a lock that was taken up by its owner
    /// id ([`Client::attach_detached_lock`]).
    pub fn permits(&self) -> Option<u32> {
        self.permits
    }

    /// Returns the owner id: the right to renew and to release the lock, for another process
    /// ([`Client::attach_detached_lock`]). Secret: keep it out of logs.
    pub fn owner_id(&self) -> [u8; 16] {
        self.owner_id
    }

    /// Returns whether the lock is held, by this process's own clock. Reads only the clock: a force release shows at the next
    /// renewal.
    pub fn is_held(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// Returns the time left until the lock may be another client's; zero once that has passed.
    pub fn valid_for(&self) -> Duration {
        self.held_until.since(Moment::now())
    }

    /// Changes the TTL of renewals from here on. Default: that of the request, or the coordinator's.
    pub fn set_ttl(&mut self, ttl: Duration) {
        self.ttl = Some(wire(ttl));
    }

    /// Extends the hold to a full TTL from now.
    ///
    /// # Errors
    ///
    /// [`HoldError::Lost`] if the lock was lost: it expired, was force-released or deleted. [`HoldError::Refused`] if no
    /// coordinator could renew it; it then lasts for as long as before, and perhaps longer.
    pub async fn renew(&mut self) -> Result<(), HoldError> {
        let request = v1::RenewRequest {
            name: self.name.to_string(),
            owner_id: self.owner_id.to_vec(),
            ttl: self.ttl,
        };
        let ask = |channel: Channel| {
            let request = limited(request.clone());
            async move {
                let sent_at = Moment::now();
                let answer = stub(channel).renew(request).await?;
                Ok((sent_at, answer.into_inner()))
            }
        };
        // Renewing twice does no more than once.
        let answered = self.calls.call(Repeats::Freely, ask).await;
        let (sent_at, answer) = answered.map_err(|source| self.refused(source))?;
        if !answer.renewed {
            self.held_until = Moment::now();
            return Err(HoldError::Lost {
                name: self.name.clone(),
                reason: LostReason::Unknown,
            });
        }
        let lasts = duration(answer.ttl).unwrap_or_default();
        self.held_until = sent_at.after(lasts);
        Ok(())
    }

    /// Releases the lock and hands it to the next waiter.
    ///
    /// # Errors
    ///
    /// [`HoldError::Lost`] if there was nothing to release. [`HoldError::Refused`] if no coordinator could release it; call it
    /// again, or the lock ends with its TTL.
    pub async fn release(&self) -> Result<(), HoldError> {
        let request = v1::ReleaseRequest {
            name: self.name.to_string(),
            owner_id: self.owner_id.to_vec(),
        };
        let ask = |channel: Channel| {
            let request = limited(request.clone());
            async move { stub(channel).release(request).await }
        };
        // If it is repeated, it finds nothing to release: sent once, the answer is certain.
        let answered = self.calls.call(Repeats::Unsent, ask).await;
        let answer = answered.map_err(|source| self.refused(source))?;
        if answer.into_inner().released {
            return Ok(());
        }
        Err(HoldError::Lost {
            name: self.name.clone(),
            reason: LostReason::Unknown,
        })
    }

    fn refused(&self, source: Failure) -> HoldError {
        let name = self.name.clone();
        HoldError::Refused { name, source }
    }
}

impl fmt::Debug for DetachedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedLock")
            .field("name", &self.name)
            .field("fencing_token", &self.token.get())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}

fn stub(channel: Channel) -> LockServiceClient<Channel> {
    LockServiceClient::new(channel)
}
