//! Acquire of a unary call: the driver of its machine ([`leasehold_core::session::Call`]).

use std::sync::Arc;

use leasehold_core::session::{Call, CallOutcome, CallRequest, Note, Output, Response};
use leasehold_store::clock;

use crate::{
    audit::Holder,
    coordinator::{
        Coordinator,
        executor::{Execution, Executor, with_context},
        inbox::InboxEvent,
    },
    telemetry::Metrics,
};

/// A call under way. Dropping it releases in the background what it came to, unless it has its outcome.
struct Driver<'a, F: FnOnce()> {
    call: Call,
    executor: Executor,
    metrics: &'a Metrics,
    /// Called when the lock is not free.
    queued: Option<F>,
}

/// Takes a lock, and waits for it as long as the request says; `queued` is called when it has to.
///
/// # Cancel safety
///
/// May be dropped at any point: what the store knows of it by then is released in the background.
pub(crate) async fn acquire(
    coordinator: &Coordinator,
    request: CallRequest,
    holder: Holder,
    queued: impl FnOnce(),
) -> CallOutcome {
    let store_timeout = coordinator.store_timeout();
    let mut driver = Driver {
        call: with_context(|context| Call::new(request, store_timeout, context)),
        executor: Executor::new(coordinator.clone(), None, holder),
        metrics: coordinator.metrics(),
        queued: Some(queued),
    };
    let inbox = Arc::clone(driver.executor.inbox());
    let mut events = Vec::new();
    loop {
        driver.carry_out();
        if let Some(outcome) = driver.call.take_outcome() {
            return outcome;
        }
        let due = driver.call.next_timeout();
        let timeout = async {
            match due {
                Some(due) => tokio::time::sleep(clock::now().until(due)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = inbox.arrived() => {
                inbox.take(&mut events);
                events.drain(..).for_each(|event| driver.on_event(event));
            }
            () = timeout => with_context(|context| driver.call.handle_timeout(context)),
        }
    }
}

impl<F: FnOnce()> Driver<'_, F> {
    fn on_event(&mut self, event: InboxEvent) {
        match event {
            InboxEvent::Answered(id, result) => {
                let result = self.executor.answered(id, result);
                with_context(|context| self.call.on_reply(id, result, context));
            }
            InboxEvent::Registry(owner, event) => {
                with_context(|context| self.call.on_event(owner, event, context));
            }
            // A call has no session, and holds nothing.
            InboxEvent::EndedByOperator(_) | InboxEvent::ReleaseRequested(..) => {}
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.call.poll_output() {
            match self.executor.execute(output) {
                Execution::NotSent(id, failure) => {
                    with_context(|context| self.call.on_reply(id, Err(failure), context));
                }
                Execution::Other(Output::Note(Note::Granted)) => {
                    self.metrics.grants.inc();
                }
                Execution::Other(Output::Send(_, Response::Queued { .. })) => {
                    if let Some(queued) = self.queued.take() {
                        queued();
                    }
                }
                Execution::Done | Execution::Other(_) => {}
            }
        }
        self.executor.carried_out();
    }
}

impl<F: FnOnce()> Drop for Driver<'_, F> {
    fn drop(&mut self) {
        with_context(|context| self.call.let_go(context));
        self.carry_out();
    }
}
