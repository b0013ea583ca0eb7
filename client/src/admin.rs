//! Administration calls: listings, watches, force releases and checks of tokens.

use std::time::Duration;

use tonic::Request;

use crate::{
    builder::ClientBuilder,
    calls::{Calls, Repeats, limited},
    election::{Leader, Observer},
    endpoints::Endpoints,
    error::{ConnectError, Failure},
    proto::{
        FromWire,
        v1::{self, admin_service_client::AdminServiceClient},
    },
    settings::Settings,
    token::FencingToken,
    transport::Channel,
    view::{ForceReleased, LockPage, LockView, SessionEnded, SessionView, TokenCheck},
    watcher::LockWatcher,
};

/// Time-out of the end of a session: the coordinator looks at all locks.
const END_TIMEOUT: Duration = Duration::from_secs(120);

/// Looks inside a coordinator and steps in. Cheap to clone.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let _guard = client.lock("orders/42").await?;
/// let admin = client.admin();
/// let locks = admin.list_locks("orders/").await?;
/// assert_eq!(locks[0].name, "orders/42");
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Admin {
    calls: Calls,
}

impl Admin {
    pub(crate) fn new(calls: Calls) -> Self {
        Self { calls }
    }

    /// Makes an administration client without a session, for tools that only look. It connects when it is first used.
    /// Of several coordinators, at each address of a name, it asks one, and another if that one can't be reached, does not answer or is
    /// about to go away.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// # let endpoint = client.endpoint().to_owned();
    /// use leasehold_client::Admin;
    ///
    /// let admin = Admin::connect(endpoint)?;
    /// assert!(admin.list_locks("").await?.is_empty());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If an endpoint is not an `http://` or `https://` URL. With a bearer token, certificates and the like:
    /// [`ClientBuilder::admin`](crate::ClientBuilder::admin).
    pub fn connect(endpoints: impl Into<Endpoints>) -> Result<Self, ConnectError> {
        ClientBuilder::default().admin(endpoints)
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.calls.settings()
    }

    /// Returns the channel that is used at present, for generated stubs: it leads to one coordinator. See
    /// [`Client::channel`](crate::Client::channel).
    pub fn channel(&self) -> Channel {
        self.calls.channel()
    }

    /// Lists all locks whose names begin with `prefix`, without their waiters. The listing is a scan: it has no order,
    /// and a lock that comes or goes meanwhile may be listed, not listed, or listed twice.
    ///
    /// # Errors
    ///
    /// If no coordinator can be reached, or if it can't serve one of the calls.
    pub async fn list_locks(&self, prefix: &str) -> Result<Vec<LockView>, Failure> {
        let mut locks = Vec::new();
        let mut page_token = String::new();
        loop {
            // As many as the coordinator likes to give: it may be told to give no more than a few.
            let page = self.list_locks_page(prefix, 0, &page_token).await?;
            locks.extend(page.locks);
            match page.next_page_token {
                None => return Ok(locks),
                Some(token) => page_token = token,
            }
        }
    }

    /// Lists a page of the locks whose names begin with `prefix`: about `page_size` of them, 1 to 1000, or as many as the
    /// coordinator likes if that is 0. `page_token` is the [`next_page_token`](LockPage::next_page_token) of the page before,
    /// empty for the first page. A page may be short or empty and still have a next one.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let _guard = client.lock("orders/42").await?;
    /// let page = client.admin().list_locks_page("orders/", 100, "").await?;
    /// assert_eq!(page.locks.len(), 1);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the size or the token is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn list_locks_page(
        &self,
        prefix: &str,
        page_size: u16,
        page_token: &str,
    ) -> Result<LockPage, Failure> {
        let ask = |channel| {
            let request = limited(v1::ListLocksRequest {
                prefix: prefix.to_owned(),
                page_size: page_size.into(),
                page_token: page_token.to_owned(),
            });
            async move { stub(channel).list_locks(request).await }
        };
        let page = self.calls.call(Repeats::Freely, ask).await?.into_inner();
        Ok(LockPage {
            locks: Vec::from_wire(page.locks),
            next_page_token: Some(page.next_page_token).filter(|token| !token.is_empty()),
        })
    }

    /// Shows one lock: its mode, holders, newest token, TTL left, and waiters in order. At most 100 holders and 100
    /// waiters are shown, with their numbers. A free name is shown as free, not as an error.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").await?;
    /// let view = client.admin().get_lock("orders/42").await?;
    /// assert_eq!(view.fencing_token, Some(guard.fencing_token()));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn get_lock(&self, name: &str) -> Result<LockView, Failure> {
        let ask = |channel| {
            let name = name.to_owned();
            let request = limited(v1::GetLockRequest { name });
            async move { stub(channel).get_lock(request).await }
        };
        let answer = self.calls.call(Repeats::Freely, ask).await?;
        let view = answer.into_inner().lock.map(LockView::from_wire);
        view.ok_or_else(|| Failure::protocol("the coordinator answered without a lock"))
    }

    /// Lists the sessions of the coordinator that is asked, in the order of their ids.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let sessions = client.admin().list_sessions().await?;
    /// assert_eq!(sessions.len(), 1);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If no coordinator can be reached, or if it can't serve one of the calls.
    pub async fn list_sessions(&self) -> Result<Vec<SessionView>, Failure> {
        // All pages from the same one.
        let ask = |channel: Channel| async move {
            let mut sessions = Vec::new();
            let mut page_token = String::new();
            loop {
                let request = v1::ListSessionsRequest {
                    // As many as the coordinator likes to give: it may be told to give no more than a few.
                    page_size: 0,
                    page_token,
                };
                let answer = stub(channel.clone()).list_sessions(limited(request)).await;
                let page = answer?.into_inner();
                sessions.extend(Vec::<SessionView>::from_wire(page.sessions));
                if page.next_page_token.is_empty() {
                    return Ok(sessions);
                }
                page_token = page.next_page_token;
            }
        };
        self.calls.call(Repeats::Freely, ask).await
    }

    /// Takes a lock from all its holders: the coordinator notifies them, raises the token, and grants the lock to the
    /// next waiters.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").await?;
    /// let answer = client.admin().force_release("orders/42").await?;
    /// assert!(answer.released);
    /// assert!(answer.fencing_token > Some(guard.fencing_token()));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn force_release(&self, name: &str) -> Result<ForceReleased, Failure> {
        self.force(name, None).await
    }

    /// Takes a lock from the holder with this fencing token, as [`get_lock`](Self::get_lock) shows it, and from no other: the
    /// coordinator notifies that holder, raises the token above its own, and grants the lock to the next waiters.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let one = client.lock("catalogue").shared().await?;
    /// let other = client.lock("catalogue").shared().await?;
    /// let answer = client.admin().force_release_holder("catalogue", one.fencing_token()).await?;
    /// assert!(answer.released);
    /// assert_eq!(client.admin().get_lock("catalogue").await?.holder_count, 1);
    /// other.release().await?;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name or the token is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn force_release_holder(
        &self,
        name: &str,
        token: FencingToken,
    ) -> Result<ForceReleased, Failure> {
        let only = v1::force_release_request::Only::FencingToken(token.get());
        self.force(name, Some(only)).await
    }

    /// Ends the wait of the waiter with this number, as [`get_lock`](Self::get_lock) shows it. Its acquire fails with
    /// [`AcquireError::ForceReleased`](crate::AcquireError::ForceReleased).
    ///
    /// # Errors
    ///
    /// If the name or the number is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn force_release_waiter(
        &self,
        name: &str,
        number: u64,
    ) -> Result<ForceReleased, Failure> {
        let only = v1::force_release_request::Only::WaiterNumber(number);
        self.force(name, Some(only)).await
    }

    async fn force(
        &self,
        name: &str,
        only: Option<v1::force_release_request::Only>,
    ) -> Result<ForceReleased, Failure> {
        let ask = |channel| {
            let name = name.to_owned();
            let request = limited(v1::ForceReleaseRequest { name, only });
            async move { stub(channel).force_release(request).await }
        };
        let answer = self.calls.call(Repeats::Unsent, ask).await?;
        Ok(ForceReleased::from_wire(answer.into_inner()))
    }

    /// Ends a session, at whichever coordinator it is, by its id as [`list_sessions`](Self::list_sessions) and
    /// [`get_lock`](Self::get_lock) show it: takes all its locks by force, ends its waits and its stream, and tells its client,
    /// which may open another one. A session that has resumed some of its locks ends too. Takes about a second, and time in
    /// proportion to the number of locks.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LostReason;
    ///
    /// let guard = client.lock("orders/42").await?;
    /// let admin = client.admin();
    /// let sessions = admin.list_sessions().await?;
    /// let ended = admin.end_session(&sessions[0].session_id).await?;
    /// assert!(ended.ended);
    /// assert_eq!((ended.session_count, ended.hold_count), (1, 1));
    /// assert_eq!(guard.lost().await, LostReason::Forced);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the id is malformed, or if the coordinator can't be reached or can't serve the call. The session may yet end.
    pub async fn end_session(&self, session_id: &str) -> Result<SessionEnded, Failure> {
        let ask = |channel| {
            let session_id = session_id.to_owned();
            let mut request = Request::new(v1::EndSessionRequest { session_id });
            request.set_timeout(END_TIMEOUT);
            async move { stub(channel).end_session(request).await }
        };
        let calls = &self.calls;
        let answer = calls.call_within(END_TIMEOUT, Repeats::Freely, ask).await?;
        Ok(SessionEnded::from_wire(answer.into_inner()))
    }

    /// Checks whether a fencing token is still the newest of its name. Holders that share a lock have a token each, of
    /// which only one is the newest.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").await?;
    /// let answer = client.admin().check_token("orders/42", guard.fencing_token()).await?;
    /// assert!(answer.current);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn check_token(
        &self,
        name: &str,
        token: FencingToken,
    ) -> Result<TokenCheck, Failure> {
        let ask = |channel| {
            let request = limited(v1::CheckTokenRequest {
                name: name.to_owned(),
                fencing_token: token.get(),
            });
            async move { stub(channel).check_token(request).await }
        };
        let answer = self.calls.call(Repeats::Freely, ask).await?;
        Ok(TokenCheck::from_wire(answer.into_inner()))
    }

    /// Watches locks whose names begin with `prefix`, over all coordinators: the watcher yields a snapshot of the present
    /// locks, then every event. It sends nothing before it is polled.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::{LockEventKind, LockWatchEvent};
    ///
    /// let mut watcher = client.admin().watch_locks("orders/");
    /// while watcher.next().await.expect("the watcher goes on")? != LockWatchEvent::Ready {}
    /// let guard = client.lock("orders/42").await?;
    /// while let Some(item) = watcher.next().await {
    ///     if let LockWatchEvent::Event(event) = item? {
    ///         assert_eq!(event.kind, LockEventKind::Granted);
    ///         assert_eq!(event.fencing_token, Some(guard.fencing_token()));
    ///         break;
    ///     }
    /// }
    /// # Ok(()) });
    /// ```
    pub fn watch_locks(&self, prefix: impl Into<String>) -> LockWatcher {
        LockWatcher::new(&self.calls, prefix.into())
    }

    /// Returns the present leader of an election, as [`Election::leader`](crate::Election::leader) does; needs no session.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// assert_eq!(client.admin().leader("scheduler").await?, None);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn leader(&self, election: &str) -> Result<Option<Leader>, Failure> {
        Leader::of(&self.calls, election).await
    }

    /// Observes an election, as [`Election::observe`](crate::Election::observe) does; needs no session.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let mut observer = client.admin().observe("scheduler");
    /// let now = observer.next().await.expect("it goes on")?;
    /// assert_eq!(now.leader, None);
    /// # Ok(()) });
    /// ```
    pub fn observe(&self, election: impl Into<String>) -> Observer {
        Observer::new(&self.calls, election.into())
    }
}

impl ClientBuilder {
    /// Makes an administration client, which has no session; see [`Admin::connect`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// # let endpoint = client.endpoint().to_owned();
    /// use leasehold_client::Client;
    ///
    /// let admin = Client::builder().bearer_token("lh_ZXhhbXBsZQ").admin(endpoint)?;
    /// assert!(admin.list_locks("").await?.is_empty());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If an endpoint is not an `http://` or `https://` URL, or if certificates or the token can't be used.
    pub fn admin(self, endpoints: impl Into<Endpoints>) -> Result<Admin, ConnectError> {
        Ok(Admin::new(self.calls(endpoints.into())?))
    }
}

pub(crate) fn stub(channel: Channel) -> AdminServiceClient<Channel> {
    // A page of a thousand locks with values of 4 KiB is more than the default of 4 MiB.
    AdminServiceClient::new(channel).max_decoding_message_size(16 << 20)
}
