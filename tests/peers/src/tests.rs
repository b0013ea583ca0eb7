//! Test that the driver notices rivals that are no locks, however fast they are.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use crate::{Grant, Rival, Session, cycles, handoff};

/// Grants everything at once.
#[derive(Clone)]
struct NoLock {
    tokens: Option<Arc<AtomicI64>>,
    step: i64,
}

impl Rival for NoLock {
    type Session = Self;

    const QUEUES: bool = false;

    fn version(&self) -> &str {
        "0"
    }

    fn settings(&self) -> String {
        String::new()
    }

    async fn session(&self) -> anyhow::Result<Self> {
        Ok(self.clone())
    }

    async fn known(&self) -> anyhow::Result<u64> {
        Ok(0)
    }
}

impl Session for NoLock {
    type Hold = ();

    async fn acquire(&mut self, _: &str) -> anyhow::Result<Grant<()>> {
        tokio::task::yield_now().await;
        let token = self.tokens.as_ref();
        let token = token.map(|tokens| tokens.fetch_add(self.step, Ordering::SeqCst));
        Ok(Grant { hold: (), token })
    }

    async fn release(&mut self, (): ()) -> anyhow::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn two_holders_at_once_are_noticed() {
    let rival = NoLock {
        tokens: None,
        step: 0,
    };
    let run = handoff::run(&rival, 2, Duration::from_millis(1)).await;
    let error = run.err().map(|error| error.to_string());
    assert_eq!(
        error.as_deref(),
        Some("a name was granted while somebody held it")
    );
}

#[tokio::test]
async fn tokens_that_do_not_rise_are_noticed() {
    let rival = NoLock {
        tokens: Some(Arc::new(AtomicI64::new(7))),
        step: 0,
    };
    let run = cycles::run(&rival, 1, 1).await;
    let error = run.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("token 7 was granted after 7"));
}

/// With one client it is as good as a lock; the figures are then the driver's own speed.
#[tokio::test]
async fn cycles_that_end_within_the_time_are_counted() -> anyhow::Result<()> {
    let rival = NoLock {
        tokens: Some(Arc::new(AtomicI64::new(1))),
        step: 1,
    };
    let run = handoff::run(&rival, 1, Duration::from_millis(100)).await?;
    // 5 s of holds of 100 ms, the first of which follows no release.
    assert!((30..50).contains(&run.gaps.count()), "{run:?}");
    assert!(run.mean_hold >= Duration::from_millis(100));
    assert!(run.worst_wait < Duration::from_secs(1));
    Ok(())
}
