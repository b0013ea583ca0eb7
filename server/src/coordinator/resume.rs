//! Taking a hold, or a place in a queue, over from another stream, of this or another coordinator.
//!
//! The store changes the owner id. The new one is known here from before that is asked until it is settled, so that a grant
//! to it never arrives for an unknown id; whoever has the old one, here or elsewhere, is told that it has moved.

use leasehold_core::{
    command::{Acquire, Command, End, Loss, Op, Reply, Resume},
    id::Actor,
    mode::Mode,
    name::LockName,
};
use leasehold_store::{Stamped, StoreError, clock};
use tokio::time::Instant;

use super::{
    Coordinator,
    acquire::{InLine, Wait},
    hold::{Claim, Hold, OnDrop},
    unexpected,
};

/// What is to be taken over. Dropping it ends in the background what it may have come to, as if its client had died.
#[derive(Debug)]
pub struct Takeover {
    claim: Claim,
    resume: Resume,
    wait: Wait,
    /// Whether a command that was sent before may have been carried out.
    was_unanswered: bool,
}

/// What a takeover came to.
#[derive(Debug)]
pub enum TakenOver {
    /// A hold, or a place that had come to be one.
    Held {
        /// It.
        hold: Hold,
        /// How it is held.
        mode: Mode,
        /// Who holds it.
        actor: Actor,
    },
    /// A place in the queue.
    InLine {
        /// It.
        in_line: InLine,
        /// How the lock is to be held.
        mode: Mode,
        /// Who waits.
        actor: Actor,
    },
    /// There is nothing to take over, and why.
    Refused(Loss),
}

impl Coordinator {
    /// Begins to take something over; nothing is sent yet. A place is waited at as long as `wait` says. `None` if the owner
    /// id that it is to have was used here before.
    pub fn take_over(&self, name: LockName, resume: Resume, wait: Wait) -> Option<Takeover> {
        self.registry().claim(resume.next).then(|| Takeover {
            claim: Claim {
                coordinator: self.clone(),
                name,
                owner: resume.next,
                ttl: resume.ttl,
                // Not known yet: no longer than this.
                lock_delay: self.bounds().max,
                may_arrive_until: None,
                on_drop: OnDrop::Forget,
                place: None,
            },
            resume,
            wait,
            was_unanswered: false,
        })
    }
}

impl Takeover {
    /// The command that does it. The same again is answered in the same way.
    pub fn command(&mut self) -> Command {
        let claim = &mut self.claim;
        claim.on_drop = OnDrop::Release(End::Unclean);
        let patience = claim.coordinator.shared.store_timeout * 3;
        claim.may_arrive_until = Some(clock::now().after(patience));
        let op = Op::Resume(self.resume.clone());
        claim.coordinator.command(claim.name.clone(), op)
    }

    /// Takes the store's answer in; gives itself back if it has to be tried again.
    pub fn answered(
        mut self,
        result: Result<Stamped, StoreError>,
    ) -> Result<TakenOver, Box<(Self, StoreError)>> {
        let coordinator = self.claim.coordinator.clone();
        let stamped = match coordinator.outcome(&self.claim.name, result) {
            Ok(stamped) => stamped,
            // Somebody has overwritten the lock's key.
            Err(StoreError::WrongType { .. }) => return Ok(self.refused(Loss::Taken)),
            Err(error) => return Err(self.failed(error)),
        };
        match stamped.executed.reply {
            Reply::Resumed {
                token,
                mode,
                actor,
                lock_delay,
            } => {
                self.claim.lock_delay = lock_delay;
                let hold = self.moved().held(token, stamped.sent_at);
                Ok(TakenOver::Held { hold, mode, actor })
            }
            Reply::ResumedWait {
                acquire,
                position,
                expires_in,
            } => {
                self.claim.lock_delay = acquire.lock_delay;
                let until = match self.wait {
                    Wait::For(wait) => Some(Instant::now() + wait),
                    Wait::No | Wait::Forever => None,
                };
                let Acquire { mode, actor, .. } = *acquire;
                let mut claim = self.moved();
                claim.on_drop = OnDrop::Release(End::Clean);
                let in_line = InLine::new(claim, *acquire, (position, expires_in), until, None);
                Ok(TakenOver::InLine {
                    in_line,
                    mode,
                    actor,
                })
            }
            Reply::Lost(loss) => Ok(self.refused(loss)),
            _ => Err(self.failed(unexpected("resume"))),
        }
    }

    /// Whether it may have been carried out.
    pub fn may_be_ours(&self) -> bool {
        !matches!(self.claim.on_drop, OnDrop::Forget)
    }

    /// Leaves what it may have come to in the store until that expires, because this process ends.
    pub fn leave_to_expire(mut self) {
        self.claim.on_drop = OnDrop::Keep;
    }

    /// It is ours: whoever had it here is told that it has moved.
    fn moved(self) -> Claim {
        let Self {
            mut claim, resume, ..
        } = self;
        claim.may_arrive_until = None;
        claim.coordinator.metrics().resumed.inc();
        let registry = claim.coordinator.registry();
        for before in resume.from.iter().filter(|before| **before != resume.next) {
            registry.moved(&claim.name, before);
        }
        claim
    }

    fn refused(mut self, loss: Loss) -> TakenOver {
        self.claim.on_drop = OnDrop::Forget;
        TakenOver::Refused(loss)
    }

    fn failed(mut self, error: StoreError) -> Box<(Self, StoreError)> {
        self.was_unanswered |= !matches!(error, StoreError::Unavailable { .. });
        if !self.was_unanswered {
            self.claim.on_drop = OnDrop::Forget;
        }
        Box::new((self, error))
    }
}
