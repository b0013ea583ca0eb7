//! Task that carries out the releases that nobody waits for: the driver of their machine ([`leasehold_core::cleanup`]).

use std::sync::Arc;

use leasehold_core::{
    cleanup::{Cleanups, Output},
    command::Loss,
    session::{CommandId, LostWhy},
};
use leasehold_store::{Answer, Answers, clock};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Coordinator, handle::Tracking};
use crate::alarm::Alarm;

/// Carries them out until it is stopped.
pub(super) async fn run(
    coordinator: Coordinator,
    mut pending: mpsc::UnboundedReceiver<Tracking>,
    stop: CancellationToken,
) {
    let mut status = coordinator.store().status();
    let (answers, mut answered) = mpsc::unbounded_channel();
    let answers: Arc<dyn Answers> = Arc::new(answers);
    let mut cleanups = Cleanups::default();
    cleanups.on_store_up(status.borrow_and_update().is_up());
    let mut counted = coordinator.metrics().inflight_cleanups.track_none();
    let mut alarm = Alarm::new(clock::now());
    loop {
        alarm.set(cleanups.next_timeout(), clock::now());
        let mut arrived = None;
        tokio::select! {
            () = stop.cancelled() => return,
            Some((cleanup, tracked)) = pending.recv() => {
                cleanups.add(cleanup);
                arrived = Some(tracked);
            }
            Some((id, result)) = answered.recv() => {
                if result.is_err() {
                    coordinator.metrics().store_errors.inc();
                }
                cleanups.on_answer(CommandId::new(id), result, clock::now());
            }
            Ok(()) = status.changed() => {
                cleanups.on_store_up(status.borrow_and_update().is_up());
            }
            () = alarm.rings() => {}
        }
        cleanups.handle_timeout(clock::now());
        while let Some(output) = cleanups.poll_output() {
            match output {
                Output::Store { id, name, op } => {
                    let answer = Answer::numbered(id.get(), Arc::clone(&answers));
                    coordinator
                        .store()
                        .send(coordinator.command(name, op), answer);
                }
                Output::Lost(name, _) => coordinator.metrics().lost(&name, None, "expired"),
                Output::Moved(owner) => {
                    let audit = coordinator.audit();
                    audit.lost(&owner, LostWhy::Store(Loss::Resumed), false);
                }
                Output::Forget { owner, released_at } => {
                    coordinator.registry().forget(&owner);
                    coordinator.audit().released(&owner, released_at);
                }
                Output::Recheck(name, after) => coordinator.contention().recheck(&name, after),
                Output::Failed(name, error) => {
                    warn!(lock = %name, %error, "a release in the background failed and will be tried again");
                }
            }
        }
        counted.set(cleanups.len());
        drop(arrived);
    }
}
