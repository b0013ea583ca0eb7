//! Observer that records the leaders.

use std::time::{Duration, Instant};

use anyhow::Context;
use leasehold_client::{FencingToken, Leader, Observer};
use tokio::{sync::watch, time::timeout};

use crate::show::Show;

/// Longest time until some instance leads.
const PATIENCE: Duration = Duration::from_secs(20);

/// Term of an elected instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// The instance that leads.
    pub(crate) instance: u32,
    /// Its fencing token.
    pub(crate) token: FencingToken,
    /// The time at which the observer learnt of it.
    pub(crate) since: Instant,
}

/// All that an observer saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The terms, in the order in which it learnt of them.
    pub(crate) terms: Vec<Term>,
    /// Set if it may have missed some, by the observer's own account.
    pub(crate) skipped: bool,
}

/// An observer of an election.
#[derive(Debug)]
pub(crate) struct Leaders {
    seen: watch::Receiver<Seen>,
}

impl Leaders {
    /// Follows an election from now on; each change is printed where there is something to print it on.
    pub(crate) fn observe(mut observer: Observer, show: Option<Show>) -> Self {
        let (sender, seen) = watch::channel(Seen::default());
        tokio::spawn(async move {
            while let Some(Ok(change)) = observer.next().await {
                let term = change.leader.as_ref().and_then(Term::now);
                if let Some(show) = show {
                    show.leader(term.as_ref());
                }
                sender.send_modify(|seen| {
                    seen.skipped |= change.skipped;
                    // The same leader may be told of again, after an interruption.
                    seen.terms.extend(term.filter(|term| {
                        let last = seen.terms.last();
                        last.is_none_or(|last| last.token != term.token)
                    }));
                });
            }
        });
        Self { seen }
    }

    /// Returns everything seen so far.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits for the first term.
    pub(crate) async fn first(&mut self) -> anyhow::Result<Term> {
        self.term(|_| true).await
    }

    /// Waits for the term that follows the one with this token.
    pub(crate) async fn after(&mut self, token: FencingToken) -> anyhow::Result<Term> {
        self.term(|term| term.token > token).await
    }

    /// Waits until it learns of the term with this token.
    pub(crate) async fn catch_up(&mut self, token: FencingToken) -> anyhow::Result<Term> {
        self.term(|term| term.token >= token).await
    }

    /// Returns the newest term.
    pub(crate) fn now(&self) -> anyhow::Result<Term> {
        let seen = self.seen.borrow();
        seen.terms.last().copied().context("nobody has led yet")
    }

    async fn term(&mut self, wanted: impl Fn(&Term) -> bool) -> anyhow::Result<Term> {
        let found = self.seen.wait_for(|seen| seen.terms.iter().any(&wanted));
        let seen = timeout(PATIENCE, found)
            .await
            .with_context(|| format!("nobody was elected within {PATIENCE:?}"))?
            .context("the election can't be observed")?;
        let term = seen.terms.iter().copied().find(&wanted);
        term.context("it was just seen")
    }
}

impl Term {
    /// Returns the term of a leader; none if a program that does not use Leasehold holds the lock.
    fn now(leader: &Leader) -> Option<Self> {
        Some(Self {
            // What an instance proclaims is its number.
            instance: String::from_utf8_lossy(&leader.value).parse().unwrap_or(0),
            token: leader.fencing_token?,
            since: Instant::now(),
        })
    }
}
