//! Observer of an election.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;

use super::{Leader, LeaderChange};
use crate::{
    calls::Calls,
    error::Failure,
    feed::{Feed, News},
    proto::{
        FromWire,
        v1::{self, election_service_client::ElectionServiceClient},
    },
    token::FencingToken,
};

/// Stream of an election's leaders: first the present one, then every change, including to no leader. Made by
/// [`Election::observe`](crate::Election::observe).
///
/// An observer never yields the same term with the same value twice in a row, and never a leader with a smaller fencing
/// token than an earlier one. All observers see the leaders in the same order. An observer that is not read in time yields
/// the newest state, and says that it skipped others. A leader that is resumed on another session stays in its term, which is
/// no change: a new [`Leader::session_id`](crate::Leader::session_id) or `coordinator` shows with the next change.
///
/// If the connection breaks or the coordinator goes away, the observer asks again, with the client's pauses, for as long as
/// it takes; the next change then says that it may have skipped some. Another coordinator may be a moment behind the one
/// before it: its value of the same term may be an older one for a moment.
///
/// An error ends the stream: the name is invalid, the coordinator refuses to be observed, or does not know how. Dropping
/// the observer ends the call.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let election = client.election("scheduler");
/// let _leadership = election.campaign("10.0.0.7:8080").await?;
/// let mut observer = election.observe();
/// while let Some(change) = observer.next().await {
///     match change?.leader {
///         Some(leader) => println!("{} leads", String::from_utf8_lossy(&leader.value)),
///         None => println!("nobody leads"),
///     }
/// #   break;
/// }
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "nothing is asked for before it is polled"]
pub struct Observer {
    feed: Feed<v1::ObserveResponse>,
    view: View,
}

impl Observer {
    pub(crate) fn new(calls: &Calls, election: String) -> Self {
        let feed = Feed::new(calls, move |channel| {
            let election = election.clone();
            let mut stub = ElectionServiceClient::new(channel);
            async move { stub.observe(v1::ObserveRequest { election }).await }
        });
        let view = View::default();
        Self { feed, view }
    }

    /// Waits for the next change; the first one is the present leader. Returns none after an error.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped and `next` called again without missing a change.
    pub async fn next(&mut self) -> Option<Result<LeaderChange, Failure>> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    /// Returns why no change comes at present, while the observer tries to reach a coordinator: the last change may be out
    /// of date. None while there is a connection, and before the first attempt has failed. Polling the observer brings this
    /// up to date.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use leasehold_client::Admin;
    ///
    /// let mut observer = Admin::connect("http://127.0.0.1:1")?.observe("scheduler");
    /// let nothing = tokio::time::timeout(Duration::from_millis(100), observer.next());
    /// assert!(nothing.await.is_err());
    /// assert!(observer.interruption().is_some());
    /// # Ok(()) }
    /// ```
    pub fn interruption(&self) -> Option<&Failure> {
        self.feed.interruption()
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LeaderChange, Failure>>> {
        loop {
            match ready!(self.feed.poll_news(cx)) {
                Some(News::Message(told)) => {
                    if let Some(change) = self.view.told(told) {
                        return Poll::Ready(Some(Ok(change)));
                    }
                }
                Some(News::Broken(_)) => self.view.interrupted(),
                Some(News::Refused(failure)) => return Poll::Ready(Some(Err(failure))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for Observer {
    type Item = Result<LeaderChange, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_change(cx)
    }
}

/// State of an observer: its last change, and what the next one must say.
#[derive(Default, Debug)]
struct View {
    /// The leader of the last change; none before the first.
    last: Option<Option<Leader>>,
    /// The largest token so far.
    newest: Option<FencingToken>,
    /// Whether a change may have been missed since the last one.
    skipped: bool,
}

impl View {
    /// Notes that changes may be missed from now on.
    fn interrupted(&mut self) {
        // A change before the first is not missed.
        self.skipped = self.last.is_some();
    }

    fn told(&mut self, told: v1::ObserveResponse) -> Option<LeaderChange> {
        self.skipped |= told.skipped;
        let leader = told.leader.map(Leader::from_wire);
        let token = leader.as_ref().and_then(|leader| leader.fencing_token);
        // A coordinator that is behind the one before it: it will catch up.
        let is_past = token.is_some() && token < self.newest;
        let is_known = self
            .last
            .as_ref()
            .is_some_and(|last| is_same(last.as_ref(), leader.as_ref()));
        if is_past || is_known {
            return None;
        }
        self.newest = self.newest.max(token);
        self.last = Some(leader.clone());
        let skipped = std::mem::take(&mut self.skipped);
        Some(LeaderChange { leader, skipped })
    }
}

/// Returns whether two leaders are the same, in the same term and with the same value. A leader that was resumed has another
/// session, perhaps at another coordinator, which is no change.
fn is_same(one: Option<&Leader>, other: Option<&Leader>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => {
            one.fencing_token == other.fencing_token && one.value == other.value
        }
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(token: i64, value: &str) -> v1::ObserveResponse {
        v1::ObserveResponse {
            leader: Some(v1::Leader {
                fencing_token: token,
                value: value.into(),
                ..Default::default()
            }),
            skipped: false,
        }
    }

    fn nobody() -> v1::ObserveResponse {
        v1::ObserveResponse::default()
    }

    /// Returns the token, 0 for no leader, and whether something was skipped.
    fn told(view: &mut View, response: v1::ObserveResponse) -> Option<(i64, bool)> {
        view.told(response).map(|change| {
            let token = change.leader.and_then(|leader| leader.fencing_token);
            let token = token.map_or(0, FencingToken::get);
            (token, change.skipped)
        })
    }

    #[test]
    fn changes_are_told_and_what_is_the_same_is_not() {
        let mut view = View::default();
        assert_eq!(told(&mut view, nobody()), Some((0, false)));
        assert_eq!(told(&mut view, nobody()), None);
        assert_eq!(told(&mut view, leads(5, "a")), Some((5, false)));
        assert_eq!(told(&mut view, leads(5, "a")), None);
        assert_eq!(told(&mut view, leads(5, "b")), Some((5, false)));
        assert_eq!(told(&mut view, nobody()), Some((0, false)));
        assert_eq!(told(&mut view, leads(6, "a")), Some((6, false)));
    }

    #[test]
    fn a_leader_that_was_resumed_elsewhere_is_the_same() {
        let mut view = View::default();
        assert_eq!(told(&mut view, leads(5, "a")), Some((5, false)));
        view.interrupted();
        let mut resumed = leads(5, "a");
        if let Some(leader) = &mut resumed.leader {
            leader.session_id = "another".to_owned();
            leader.coordinator = "another".to_owned();
        }
        assert_eq!(told(&mut view, resumed), None);
        assert_eq!(told(&mut view, leads(5, "b")), Some((5, true)));
    }

    #[test]
    fn nothing_is_told_of_a_leader_before_the_last() {
        let mut view = View::default();
        told(&mut view, leads(5, "a"));
        view.interrupted();
        assert_eq!(told(&mut view, leads(4, "z")), None);
        // Nor once nobody leads.
        assert_eq!(told(&mut view, nobody()), Some((0, true)));
        assert_eq!(told(&mut view, leads(4, "z")), None);
        assert_eq!(told(&mut view, leads(7, "a")), Some((7, false)));
        // A foreign holder has no token.
        assert_eq!(told(&mut view, leads(0, "")), Some((0, false)));
        assert_eq!(told(&mut view, leads(6, "z")), None);
    }

    #[test]
    fn after_an_interruption_the_next_change_says_that_some_may_be_missing() {
        let mut view = View::default();
        view.interrupted();
        assert_eq!(told(&mut view, leads(5, "a")), Some((5, false)));
        view.interrupted();
        assert_eq!(told(&mut view, leads(6, "a")), Some((6, true)));
        assert_eq!(told(&mut view, nobody()), Some((0, false)));
        // What looks as before is not told again, and may hide what was in between.
        view.interrupted();
        assert_eq!(told(&mut view, nobody()), None);
        assert_eq!(told(&mut view, leads(9, "a")), Some((9, true)));
        assert_eq!(told(&mut view, leads(9, "b")), Some((9, false)));
    }

    #[test]
    fn changes_that_the_coordinator_skipped_are_passed_on() {
        let mut view = View::default();
        told(&mut view, leads(5, "a"));
        let mut skipping = leads(5, "a");
        skipping.skipped = true;
        assert_eq!(told(&mut view, skipping), None);
        assert_eq!(told(&mut view, leads(6, "a")), Some((6, true)));
    }
}
