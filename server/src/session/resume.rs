//! Resume of another stream's holds and waits, before the session says that it is open.
//!
//! Until then the client may believe in its old stream, and in whatever an unanswered attempt like this one has come to: it
//! tries another coordinator next. So what is not known to be ours is left alone until its time is over.

use leasehold_core::{
    command::{Loss, Resume},
    id::OwnerId,
    lease::heartbeat_interval,
    name::LockName,
    time::Moment,
};
use leasehold_proto::v1::{
    LostLock, ResumedHold, ResumedLock, SessionOpened, resumed_lock, session_response::Response,
};
use leasehold_store::{LockStore, StoreError, clock};

use super::{
    acquires::{Acquiring, Stage, Wanted},
    counts::Count,
    ending::LONGEST_REST,
    outbox::Outbox,
    renewal::RETRY,
    task::{Opened, Session, Shutdown},
    wire::Wire,
};
use crate::{
    convert,
    coordinator::{
        Coordinator,
        acquire::{InLine, Wait},
        resume::{TakenOver, Takeover},
    },
    limits::Account,
    status::{Reason, Refusal},
};

/// So many are asked of the store at a time: a session that takes thousands over leaves room for others in between.
const SLICE: usize = 256;

/// Something that a client wants to take over.
#[derive(Debug)]
pub struct Resumption {
    /// The lock.
    pub name: LockName,
    /// The owner ids that it may have: the one that was confirmed last, then those of attempts that were not answered.
    pub from: Vec<OwnerId>,
    /// The owner id that it is to have.
    pub next: OwnerId,
    /// What it is.
    pub what: What,
}

/// What a client believes that it takes over.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A hold.
    Hold {
        /// How many times it is held.
        count: u32,
    },
    /// A place in a queue, or what has become of it.
    Wait {
        /// The request id under which its outcome is told.
        request_id: u64,
        /// For how long it goes on waiting.
        wait: Wait,
    },
}

/// All that a session is to take over.
pub(super) struct Resuming {
    coordinator: Coordinator,
    open: Vec<(Resumption, Takeover)>,
    settled: Vec<(Resumption, TakenOver)>,
}

/// Takes over what a session is to have when it opens; `None` if it does not: its client was told why.
pub(super) async fn before_it_opens<W: Wire>(
    coordinator: &Coordinator,
    mut opened: Opened,
    outbox: &mut Outbox<W>,
    shutdown: &Shutdown,
) -> Option<(Opened, Resuming)> {
    let resumptions = std::mem::take(&mut opened.resume);
    let mut resuming = Resuming {
        coordinator: coordinator.clone(),
        open: Vec::with_capacity(resumptions.len()),
        settled: Vec::new(),
    };
    let mut outcome = resuming.register(&opened, resumptions);
    if outcome.is_ok() {
        outcome = resuming.carry_out(&opened.account, shutdown).await;
    }
    let Err(why) = outcome else {
        return Some((opened, resuming));
    };
    // The client may resume elsewhere what this may have come to: that is left until a hold of it is over, and ended then.
    let until = clock::now().after(opened.lease.ttl());
    outbox.fail(why.into());
    // It is no session.
    drop(opened);
    outbox.flush().await;
    outbox.close();
    resuming.linger(until, shutdown).await;
    None
}

impl Resuming {
    /// Has the owner ids that are to be ours known here; nothing is sent yet.
    fn register(&mut self, opened: &Opened, resumptions: Vec<Resumption>) -> Result<(), Refusal> {
        for (number, resumption) in resumptions.into_iter().enumerate() {
            let (count, wait) = match resumption.what {
                What::Hold { count, .. } => (count, Wait::Forever),
                What::Wait { wait, .. } => (1, wait),
            };
            let resume = Resume {
                from: resumption.from.clone(),
                next: resumption.next,
                session: opened.id,
                client_name: opened.client_name.clone(),
                ttl: opened.lease.ttl(),
                count,
            };
            let name = resumption.name.clone();
            let Some(takeover) = self.coordinator.take_over(name, resume, wait) else {
                // None of it is asked for.
                self.open.clear();
                return Err(Refusal::field(
                    &format!("open.resume[{number}].next_owner_id"),
                    "must be made for this stream; it was used here before",
                ));
            };
            self.open.push((resumption, takeover));
        }
        Ok(())
    }

    /// Carries all resumes out, a slice at a time, and retries for a while those that the store did not answer. Each entry
    /// counts as one request of the caller, whatever becomes of it, and none is refused for that: the requests after the
    /// `open` wait instead.
    async fn carry_out(&mut self, account: &Account, shutdown: &Shutdown) -> Result<(), Refusal> {
        let patience = self.coordinator.store_timeout() * 2;
        let mut give_up_at = clock::now().after(patience);
        let entries = u32::try_from(self.open.len()).unwrap_or(u32::MAX);
        self.coordinator.limits().owe(account, entries);
        while !self.open.is_empty() {
            let slice = self.open.iter_mut().take(SLICE);
            let commands: Vec<_> = slice.map(|(_, takeover)| takeover.command()).collect();
            let asked = commands.len();
            let results = tokio::select! {
                biased;
                () = shutdown.stopping.cancelled() => return Err(stopping()),
                results = self.coordinator.store().execute_all(commands) => results,
            };
            let rest = self.open.split_off(asked);
            let slice = std::mem::replace(&mut self.open, rest);
            let mut failed = None;
            for ((resumption, takeover), result) in slice.into_iter().zip(results) {
                match takeover.answered(result) {
                    Ok(taken_over) => {
                        self.settled.push((resumption, taken_over));
                    }
                    Err(open) => {
                        let (takeover, error) = *open;
                        self.open.push((resumption, takeover));
                        failed = Some(error);
                    }
                }
            }
            let Some(error) = failed else {
                give_up_at = clock::now().after(patience);
                continue;
            };
            if give_up_at <= clock::now() || !error.is_retryable() {
                return Err(unanswered(error));
            }
            tokio::select! {
                biased;
                () = shutdown.stopping.cancelled() => return Err(stopping()),
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        Ok(())
    }

    async fn linger(self, until: Moment, shutdown: &Shutdown) {
        loop {
            let rest = clock::now().until(until);
            if rest.is_zero() || !self.may_have_any() {
                return;
            }
            tokio::select! {
                biased;
                () = shutdown.stopping.cancelled() => return self.abandon(),
                () = tokio::time::sleep(rest.min(LONGEST_REST)) => {}
            }
        }
    }

    fn may_have_any(&self) -> bool {
        let mut settled = self.settled.iter();
        self.open.iter().any(|(_, takeover)| takeover.may_be_ours())
            || settled.any(|(_, taken_over)| !matches!(taken_over, TakenOver::Refused(_)))
    }

    /// Leaves what it may have come to in the store until it expires.
    fn abandon(self) {
        for (_, takeover) in self.open {
            takeover.leave_to_expire();
        }
        for (_, taken_over) in self.settled {
            match taken_over {
                TakenOver::Held { hold, .. } => hold.leave_to_expire(),
                TakenOver::InLine { in_line, .. } => in_line.leave_place(),
                TakenOver::Refused(_) => {}
            }
        }
    }
}

impl<W: Wire> Session<W> {
    /// The session is open, with what it took over, and without what it may not have.
    pub(super) fn opens(
        &mut self,
        request_id: u64,
        resuming: Option<Resuming>,
        denied: Vec<LostLock>,
    ) {
        let (mut resumed, mut refused) = (Vec::new(), denied);
        let mut waits = Vec::new();
        for (resumption, taken_over) in resuming.into_iter().flat_map(|all| all.settled) {
            match (taken_over, resumption.what) {
                (TakenOver::Refused(loss), _) => refused.push(refusal(&resumption, loss)),
                // The client believed that it holds what it waits for: it does not, and waits no more.
                (TakenOver::InLine { .. }, What::Hold { .. }) => {
                    refused.push(refusal(&resumption, Loss::Deleted));
                }
                (TakenOver::Held { hold, mode, actor }, what) => {
                    let count = match what {
                        What::Hold { count, .. } => count,
                        What::Wait { .. } => 1,
                    };
                    let told = resumed_lock::What::Hold(ResumedHold {
                        fencing_token: hold.token().get(),
                        hold_count: count,
                    });
                    resumed.push(resumed_lock(&resumption, told));
                    self.hold(hold, actor, mode, Count::of(count));
                }
                (
                    TakenOver::InLine {
                        in_line,
                        mode,
                        actor,
                    },
                    What::Wait { request_id, .. },
                ) => {
                    let told = resumed_lock::What::Position(in_line.position());
                    resumed.push(resumed_lock(&resumption, told));
                    let name = resumption.name.clone();
                    let names = if actor.is_nobody() {
                        Vec::new()
                    } else {
                        vec![resumption.name]
                    };
                    let wanted = Wanted {
                        actor,
                        mode,
                        name,
                        names,
                        again: Vec::new(),
                    };
                    waits.push((request_id, wanted, in_line));
                }
            }
        }
        self.say_opened(request_id, resumed, refused);
        // After the holds: an actor may hold something while it waits.
        for (request_id, wanted, in_line) in waits {
            self.wait_again(request_id, wanted, in_line);
        }
    }

    fn wait_again(&mut self, request_id: u64, wanted: Wanted, mut in_line: InLine) {
        if self.actors.holds_any(wanted.actor) {
            in_line.holding(self.account.caller(), self.id, wanted.actor);
        }
        for name in &wanted.names {
            self.actors.ask(wanted.actor, name.clone());
        }
        self.asked_locks += wanted.locks();
        in_line.resumable(&self.places);
        let stage = Stage::InLine(Some(self.wait_in_line(request_id, in_line)));
        self.acquiring
            .insert(request_id, Acquiring::new(stage, wanted));
        self.count();
    }

    fn say_opened(&mut self, request_id: u64, resumed: Vec<ResumedLock>, refused: Vec<LostLock>) {
        let ttl = self.lease.ttl();
        let standing = self.standing();
        let valid_for = standing
            .and_then(|standing| self.lease.promise(self.lease.heard_at(), Some(standing)))
            .map(convert::wire_duration);
        let opened = SessionOpened {
            session_id: self.id.to_string(),
            ttl: Some(convert::wire_duration(ttl)),
            heartbeat_interval: Some(convert::wire_duration(heartbeat_interval(ttl))),
            coordinator: self.coordinator.id().to_string(),
            valid_for,
            ..SessionOpened::default()
        };
        for opened in convert::opened_messages(opened, resumed, refused) {
            self.outbox.send(request_id, Response::Opened(opened));
        }
    }
}

/// What ends the stream where some of it was sent: always a reason that says so, since whoever reads one that is given before
/// anything is done takes its locks for untouched.
fn unanswered(error: StoreError) -> Refusal {
    match error {
        StoreError::Unavailable { .. } | StoreError::Indeterminate { .. } => error.into(),
        error => StoreError::Indeterminate {
            reason: error.to_string(),
        }
        .into(),
    }
}

fn stopping() -> Refusal {
    Refusal::new(
        Reason::StoreIndeterminate,
        "the coordinator has stopped; open the session elsewhere, and resume there what this one may have taken over",
    )
}

fn refusal(resumption: &Resumption, loss: Loss) -> LostLock {
    convert::lost_lock(&resumption.name, &resumption.next, loss)
}

fn resumed_lock(resumption: &Resumption, what: resumed_lock::What) -> ResumedLock {
    ResumedLock {
        name: resumption.name.as_str().to_owned(),
        owner_id: resumption.next.as_bytes().to_vec(),
        what: Some(what),
    }
}
