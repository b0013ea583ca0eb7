//! Leader of an election, as others see it.

use std::time::SystemTime;

use crate::{
    calls::{Calls, Repeats, limited},
    error::Failure,
    lease::FencingToken,
    proto::v1::{self, election_service_client::ElectionServiceClient},
};

/// Who leads an election.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let election = client.election("scheduler");
/// let leadership = election.campaign("10.0.0.7:8080").await?;
/// let leader = election.leader().await?.expect("somebody leads");
/// assert_eq!(leader.value, b"10.0.0.7:8080");
/// assert_eq!(leader.fencing_token, leadership.fencing_token());
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// The fencing token of this leader's term: greater than those of all terms before. 0 where somebody who does not
    /// use Leasehold holds the lock of the election's name.
    pub fencing_token: FencingToken,
    /// What the leader proclaims, its address perhaps: at most 4 KiB.
    pub value: Vec<u8>,
    /// The name that the leader gave itself; empty if it gave none.
    pub client_name: String,
    /// The session that leads; empty for a holder by the unary calls.
    pub session_id: String,
    /// The coordinator through which it was elected or last confirmed.
    pub coordinator: String,
    /// When it was elected, by the store's clock; none where the store does not know.
    pub elected_at: Option<SystemTime>,
}

impl Leader {
    pub(super) fn from_proto(leader: v1::Leader) -> Self {
        Self {
            fencing_token: leader.fencing_token.into(),
            value: leader.value,
            client_name: leader.client_name,
            session_id: leader.session_id,
            coordinator: leader.coordinator,
            elected_at: leader
                .elected_at
                .and_then(|time| SystemTime::try_from(time).ok()),
        }
    }

    /// Asks who leads.
    pub(crate) async fn of(calls: &Calls, election: &str) -> Result<Option<Self>, Failure> {
        let ask = |channel| {
            let election = election.to_owned();
            let request = limited(v1::LeaderRequest { election });
            async move { ElectionServiceClient::new(channel).leader(request).await }
        };
        let answer = calls.call(Repeats::Freely, ask).await?;
        Ok(answer.into_inner().leader.map(Self::from_proto))
    }
}

/// Who leads from now on, as an [`Observer`](crate::Observer) tells it.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let mut observer = client.election("scheduler").observe();
/// let now = observer.next().await.expect("it goes on")?;
/// assert!(now.leader.is_none() && !now.skipped);
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LeaderChange {
    /// The leader; none while nobody leads.
    pub leader: Option<Leader>,
    /// There may have been other leaders, or values, since the change before: this observer was not read in time, or
    /// was without a connection, or the coordinator itself could not follow for a while.
    pub skipped: bool,
}
