//! Leader of an election, as others see it.

use std::time::SystemTime;

use crate::{
    calls::{Calls, Repeats, limited},
    error::Failure,
    proto::{
        FromWire, from_message,
        v1::{self, election_service_client::ElectionServiceClient},
    },
    token::FencingToken,
};

/// Leader of an election.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let election = client.election("scheduler");
/// let leadership = election.campaign("10.0.0.7:8080").await?;
/// let leader = election.leader().await?.expect("somebody leads");
/// assert_eq!(leader.value, b"10.0.0.7:8080");
/// assert_eq!(leader.fencing_token, Some(leadership.fencing_token()));
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// The fencing token of this leader's term: greater than those of all terms before. None if a program that does not
    /// use Leasehold holds the lock of the election's name.
    pub fencing_token: Option<FencingToken>,
    /// The value that the leader proclaims, for example its address: at most 4 KiB.
    pub value: Vec<u8>,
    /// The name that the leader gave itself, at most 256 bytes; empty if it gave none.
    pub client_name: String,
    /// The session that leads; empty for a holder by the unary calls.
    pub session_id: String,
    /// The coordinator through which it was elected or last confirmed.
    pub coordinator: String,
    /// Time of the leader's election, by the store's clock; none if the store does not know.
    pub elected_at: Option<SystemTime>,
}

impl Leader {
    /// Asks a coordinator who leads.
    pub(crate) async fn of(calls: &Calls, election: &str) -> Result<Option<Self>, Failure> {
        let ask = |channel| {
            let election = election.to_owned();
            let request = limited(v1::LeaderRequest { election });
            async move { ElectionServiceClient::new(channel).leader(request).await }
        };
        let answer = calls.call(Repeats::Freely, ask).await?;
        Ok(answer.into_inner().leader.map(Self::from_wire))
    }
}

from_message!(Leader => Leader {
    fencing_token, value, client_name, session_id, coordinator, elected_at,
});

/// Change of an election's leader, as an [`Observer`](crate::Observer) yields it.
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
    /// The leader; `None` while there is none.
    pub leader: Option<Leader>,
    /// Whether there may have been other leaders, or values, since the change before: the program did not read this
    /// observer in time, the observer had no connection, or the coordinator could not follow for a while.
    pub skipped: bool,
}
