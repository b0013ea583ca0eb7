//! History of leaders, from the candidates' answers, compared with the observers' messages.

use leasehold_proto::v1::{
    LockEvent, LockEventKind, WatchLocksRequest, admin_service_client::AdminServiceClient,
    watch_locks_response::Response,
};
use leasehold_tests::raw::Seen;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Channel;

/// The leaders, in order: the terms, and the values that they proclaimed.
#[derive(Debug, Default)]
pub(crate) struct History {
    terms: Vec<(i64, Vec<u8>)>,
}

impl History {
    /// Notes that a candidate was elected.
    pub(crate) fn elected(&mut self, token: i64, value: impl Into<Vec<u8>>) {
        if let Some((last, _)) = self.terms.last() {
            assert!(token > *last, "{token} was told after {last}");
        }
        self.terms.push((token, value.into()));
    }

    /// Returns the last leader's token.
    pub(crate) fn last_token(&self) -> i64 {
        self.terms.last().expect("somebody led").0
    }

    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Checks that an observer that was there from before the first leader saw every leader in order, each with its value,
    /// except those that it says it skipped. Returns the number of the skipped.
    pub(crate) fn was_seen_by(&self, who: &str, log: &[Seen]) -> usize {
        let mut terms = self.terms.iter();
        let (mut skipped, mut last) = (0, None);
        for seen in log {
            let Some(leader) = &seen.leader else { continue };
            if last == Some(leader.fencing_token) {
                // Another value, or nobody in between: not of a term that is over.
                continue;
            }
            last = Some(leader.fencing_token);
            let mut missed = 0;
            loop {
                match terms.next() {
                    Some((token, value)) if *token == leader.fencing_token => {
                        assert_eq!(*value, leader.value, "{who} saw another value of {token}");
                        break;
                    }
                    Some(_) => missed += 1,
                    None => panic!("{who} saw {seen:?}, in the wrong place or never elected"),
                }
            }
            assert!(
                missed == 0 || seen.skipped,
                "{who} missed {missed} and does not say so: {seen:?}"
            );
            skipped += missed;
        }
        let unseen = terms.count();
        assert_eq!(unseen, 0, "{who} did not see the last ones");
        skipped
    }
}

/// Watcher of the lock of an election, from before its first leader.
pub(crate) struct Watcher {
    events: mpsc::UnboundedReceiver<LockEvent>,
    _task: AbortOnDropHandle<()>,
}

impl Watcher {
    /// Watches from when this returns.
    pub(crate) async fn watch(channel: Channel, election: &str) -> Self {
        let prefix = election.to_owned();
        let mut admin = AdminServiceClient::new(channel);
        let mut told = admin
            .watch_locks(WatchLocksRequest { prefix })
            .await
            .unwrap()
            .into_inner();
        let first = told.message().await.unwrap().unwrap().response;
        let ready = matches!(first, Some(Response::Ready(_)));
        assert!(ready, "there was something: {first:?}");
        let (tell, events) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok(Some(message)) = told.message().await {
                match message.response {
                    Some(Response::Event(event)) => {
                        // Nobody reads any more where this is being dropped.
                        let _ = tell.send(event);
                    }
                    _ => return,
                }
            }
        });
        Self {
            events,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Reads up to when the last of the history was elected: nobody was while another led, and nobody else.
    pub(crate) async fn saw(&mut self, history: &History) {
        let mut granted = Vec::new();
        let mut leading = None;
        while granted.last() != Some(&history.last_token()) {
            let event = self.events.recv().await.expect("it missed nothing");
            let token = event.fencing_token;
            match event.kind() {
                LockEventKind::Granted => {
                    assert_eq!(leading, None, "{token} was elected while another led");
                    assert_eq!(event.holder_count, 1, "{event:?}");
                    leading = Some(token);
                    granted.push(token);
                }
                LockEventKind::Queued | LockEventKind::Withdrawn | LockEventKind::ValueChanged => {}
                _ => assert_eq!(leading.take(), Some(token), "{event:?}"),
            }
        }
        let told: Vec<i64> = history.terms.iter().map(|(token, _)| *token).collect();
        assert_eq!(granted, told);
    }
}
