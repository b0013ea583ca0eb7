//! Call that asks the holders of a lock to release it.

use std::time::Duration;

use crate::{
    admin::{Admin, stub},
    calls::{Calls, Repeats, limited},
    error::Failure,
    proto::{v1, wire},
    token::FencingToken,
};

/// Request to the holders of a lock to release it, made by [`Admin::request_release`]. Nothing is sent before
/// [`send`](Self::send).
#[derive(Clone)]
#[must_use = "a request does nothing before it is sent"]
pub struct RequestRelease {
    calls: Calls,
    request: v1::RequestReleaseRequest,
}

impl Admin {
    /// Asks the holders of a lock to release it. Each session that holds it receives a [`ReleaseRequest`](crate::ReleaseRequest) and decides itself;
    /// the lock is unchanged.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let leadership = client.election("scheduler").campaign("").await?;
    /// let request = client.admin().request_release("scheduler");
    /// let asked = request.reason("this node goes away").within(Duration::from_secs(30)).send().await?;
    /// assert_eq!(asked, 1);
    /// let request = leadership.release_requested().await.expect("it leads");
    /// println!("asked to resign: {}", request.reason());
    /// leadership.resign().await?;
    /// # Ok(()) });
    /// ```
    pub fn request_release(&self, name: &str) -> RequestRelease {
        RequestRelease {
            calls: self.calls().clone(),
            request: v1::RequestReleaseRequest {
                name: name.to_owned(),
                ..v1::RequestReleaseRequest::default()
            },
        }
    }
}

impl RequestRelease {
    /// Asks only the holder with this fencing token, as [`Admin::get_lock`] shows it. Default: every holder.
    pub fn holder(mut self, token: FencingToken) -> Self {
        self.request.fencing_token = token.get();
        self
    }

    /// Sets the reason, for the holders: at most 256 bytes without control characters. Default: empty.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.request.reason = reason.into();
        self
    }

    /// Sets the time that the holders have: 1 s to 24 h. They are told; nobody enforces it. Default: none.
    pub fn within(mut self, within: Duration) -> Self {
        self.request.within = Some(wire(within));
        self
    }

    /// Sends it. Returns how many holds it was sent to: those of sessions. A client whose stream is broken, or just moving to
    /// another coordinator, may not hear of it.
    ///
    /// # Errors
    ///
    /// If the name or another field is invalid, or if the coordinator can't be reached or can't serve the call. The holders may
    /// yet hear of it.
    pub async fn send(self) -> Result<u32, Failure> {
        let Self { calls, request } = self;
        let ask = |channel| {
            let request = limited(request.clone());
            async move { stub(channel).request_release(request).await }
        };
        let answer = calls.call(Repeats::Freely, ask).await?;
        Ok(answer.into_inner().asked_count)
    }
}
