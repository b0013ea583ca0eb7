//! Requests of operators: thin helpers over the generated stubs.

use tonic::Status;

use crate::{
    calls::{Calls, Repeats, limited},
    election::{Leader, Observer},
    endpoints::Endpoints,
    error::{ConnectError, Failure},
    lease::FencingToken,
    proto::v1::{self, admin_service_client::AdminServiceClient},
    settings::Settings,
    transport::Channel,
    watcher::LockWatcher,
};

/// Looks inside a coordinator and steps in. Cheap to clone.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let _guard = client.lock("orders/42").acquire().await?;
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

    /// Without a session, for tools that only look. It connects when it is first used. Of several coordinators it asks
    /// one, and another when that can't be reached or is about to go away.
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
        crate::Client::builder().admin(endpoints)
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.calls.settings()
    }

    /// The channel that is used at present, for the generated stubs: to one coordinator.
    pub fn channel(&self) -> Channel {
        self.calls.channel()
    }

    /// All locks whose names begin with `prefix`, without their waiters: page after page, until there is no more. A
    /// scan: unordered, and what comes and goes meanwhile may be seen or not, or twice.
    ///
    /// # Errors
    ///
    /// If no coordinator can be reached, or if it can't serve one of the calls.
    pub async fn list_locks(&self, prefix: &str) -> Result<Vec<v1::LockView>, Failure> {
        let mut locks = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = v1::ListLocksRequest {
                prefix: prefix.to_owned(),
                // As many as the coordinator likes to give: it may be told to give no more than a few.
                page_size: 0,
                page_token,
            };
            let ask = |channel| {
                let request = limited(request.clone());
                async move { stub(channel).list_locks(request).await }
            };
            let page = self.calls.call(Repeats::Freely, ask).await?.into_inner();
            locks.extend(page.locks);
            if page.next_page_token.is_empty() {
                return Ok(locks);
            }
            page_token = page.next_page_token;
        }
    }

    /// One lock: how it is held and by whom, newest token, TTL left, waiters in order; at most 100 holders and 100
    /// waiters, with how many there are. A free name is shown as free.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let view = client.admin().get_lock("orders/42").await?;
    /// assert_eq!(view.fencing_token, guard.fencing_token().get());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn get_lock(&self, name: &str) -> Result<v1::LockView, Failure> {
        let ask = |channel| {
            let name = name.to_owned();
            let request = limited(v1::GetLockRequest { name });
            async move { stub(channel).get_lock(request).await }
        };
        let answer = self.calls.call(Repeats::Freely, ask).await?;
        answer.into_inner().lock.ok_or_else(|| {
            Failure::from(Status::internal("the coordinator answered without a lock"))
        })
    }

    /// All sessions of the coordinator that is asked.
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
    pub async fn list_sessions(&self) -> Result<Vec<v1::SessionView>, Failure> {
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
                sessions.extend(page.sessions);
                if page.next_page_token.is_empty() {
                    return Ok(sessions);
                }
                page_token = page.next_page_token;
            }
        };
        self.calls.call(Repeats::Freely, ask).await
    }

    /// Takes a lock from all its holders: they are told, the token is raised, the next waiters are granted.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let answer = client.admin().force_release("orders/42").await?;
    /// assert!(answer.released);
    /// assert!(answer.fencing_token > guard.fencing_token().get());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is invalid, or if the coordinator can't be reached or can't serve the call.
    pub async fn force_release(&self, name: &str) -> Result<v1::ForceReleaseResponse, Failure> {
        let ask = |channel| {
            let name = name.to_owned();
            let request = limited(v1::ForceReleaseRequest { name });
            async move { stub(channel).force_release(request).await }
        };
        let answer = self.calls.call(Repeats::Unsent, ask).await?;
        Ok(answer.into_inner())
    }

    /// Whether a fencing token is still the newest of its name. Of several who hold a lock together, it is one's alone.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
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
    ) -> Result<v1::CheckTokenResponse, Failure> {
        let ask = |channel| {
            let request = limited(v1::CheckTokenRequest {
                name: name.to_owned(),
                fencing_token: token.get(),
            });
            async move { stub(channel).check_token(request).await }
        };
        let answer = self.calls.call(Repeats::Freely, ask).await?;
        Ok(answer.into_inner())
    }

    /// Tells what happens to locks whose names begin with `prefix`, over all coordinators: first a snapshot of what
    /// there is, then every event. Nothing is asked for before the first item is.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::{LockNews, proto::v1::LockEventKind};
    ///
    /// let mut watcher = client.admin().watch_locks("orders/");
    /// while !matches!(watcher.next().await.expect("it goes on")?, LockNews::Ready) {}
    /// let guard = client.lock("orders/42").acquire().await?;
    /// while let Some(news) = watcher.next().await {
    ///     if let LockNews::Event(event) = news? {
    ///         assert_eq!(event.kind(), LockEventKind::Granted);
    ///         assert_eq!(event.fencing_token, guard.fencing_token().get());
    ///         break;
    ///     }
    /// }
    /// # Ok(()) });
    /// ```
    pub fn watch_locks(&self, prefix: impl Into<String>) -> LockWatcher {
        LockWatcher::new(&self.calls, prefix.into())
    }

    /// Who leads an election now; see [`Election::leader`](crate::Election::leader), which needs a session.
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

    /// Tells who leads an election, and every change; see [`Election::observe`](crate::Election::observe), which needs
    /// a session.
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

fn stub(channel: Channel) -> AdminServiceClient<Channel> {
    // A page of a thousand locks with values of 4 KiB is more than the default of 4 MiB.
    AdminServiceClient::new(channel).max_decoding_message_size(16 << 20)
}
