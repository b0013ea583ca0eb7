//! Keeper of one master: a task that asks, on every new connection and regularly, which run of the server answers, and keeps
//! the coordinators' agreement on that run.

use std::{sync::Arc, time::Duration};

use redis::Value;
use tokio::time::timeout;

use super::{
    master::Master,
    script,
    standing::{Agreement, Introduction, Run, Standing},
    waiting::Inner,
};
use crate::{
    Status, clock,
    measure::Script,
    redis::{
        call::call,
        errors::link_error,
        handshake::{ask_run, config_value, run_id},
    },
};

/// Pause before a master that did not introduce itself is asked again.
const RETRY: Duration = Duration::from_millis(100);
/// Shortest and longest interval between questions to a master.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(30);
/// A master is asked this often at least while it has no vote: an operator may mend what is wrong, or declare a first start, and
/// other coordinators may know its run for longer.
const WITHOUT_VOTE: Duration = Duration::from_secs(1);

impl Inner {
    /// Keeps a master for as long as its link exists.
    pub(super) async fn keep(self: Arc<Self>, master: Arc<Master>) {
        let mut status = master.link.status();
        loop {
            let current = status.borrow_and_update().clone();
            let pause = match current {
                Status::Down { reason, .. } => {
                    forget(&master, reason);
                    None
                }
                Status::Up { .. } => Some(match self.introduce(&master).await {
                    Ok(()) => self.next_look(&master),
                    Err(reason) => {
                        forget(&master, reason.into());
                        RETRY
                    }
                }),
            };
            self.board.review(&self.masters);
            let changed = match pause {
                Some(pause) => timeout(pause, status.changed()).await.unwrap_or(Ok(())),
                None => status.changed().await,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    fn next_look(&self, master: &Master) -> Duration {
        let usual = (self.masters.terms.hold / 4).clamp(OFTEN, SELDOM);
        match master.membership().standing {
            Some(Standing::Abstains { until }) => {
                let left = clock::now().until(until);
                left.min(usual).min(WITHOUT_VOTE).max(OFTEN)
            }
            Some(Standing::Disagrees { .. } | Standing::NotDurable) => usual.min(WITHOUT_VOTE),
            _ => usual,
        }
    }

    /// Asks a master for its run, and updates the agreement.
    async fn introduce(&self, master: &Master) -> Result<(), String> {
        let terms = &self.masters.terms;
        let before = master.membership().run.clone();
        let sent_at = clock::now();
        let mut asked = vec![redis::cmd("TIME"), ask_run()];
        if terms.durable {
            for parameter in ["appendonly", "appendfsync"] {
                let mut config = redis::cmd("CONFIG");
                config.arg("GET").arg(parameter);
                asked.push(config);
            }
        }
        let replies = master.link.execute(0, asked).await;
        let replies = replies.map_err(|error| link_error(&error).to_string())?;
        let mut answers = replies.items.into_iter().map(Result::ok);
        if let Some(time) = answers.next().flatten() {
            master.clock.observe_reply(time, sent_at, clock::now());
        }
        let run = answers.next().flatten().and_then(|info| run_id(&info));
        let run = run.ok_or_else(|| {
            format!(
                "{} does not tell which run of it answers: let the user of the store URL ask INFO",
                master.link
            )
        })?;
        let settings: Vec<_> = answers.map(|reply| reply.and_then(config_value)).collect();
        let introduction = Introduction {
            run,
            is_durable: match &settings[..] {
                [Some(append_only), Some(fsync)] => Some(append_only == "yes" && fsync == "always"),
                _ => None,
            },
        };
        // From when it has answered: it surely ran then.
        let mut run = Run::meet(&introduction, before.as_ref(), clock::now());
        let mut agreement = self.agree(master, &mut run, false).await?;
        let standing = |run: &Run, agreement: &Agreement| {
            run.standing(&introduction, agreement, terms, clock::now())
        };
        if standing(&run, &agreement) == Standing::Votes && !agreement.has_served {
            // Before any of its votes is counted.
            agreement = self.agree(master, &mut run, true).await?;
        }
        let mut standing = standing(&run, &agreement);
        if standing == Standing::Votes && !agreement.has_served {
            standing = Standing::Abstains { until: sent_at };
        }
        let mut membership = master.membership();
        membership.connection = Some(replies.connection);
        membership.run = Some(run);
        membership.standing = Some(standing);
        membership.trouble = None;
        Ok(())
    }

    async fn agree(
        &self,
        master: &Master,
        run: &mut Run,
        serves: bool,
    ) -> Result<Agreement, String> {
        let terms = &self.masters.terms;
        let keys = &self.masters.keys;
        let hold = (terms.hold_millis(), terms.hold * 4);
        let age = run.age(clock::now());
        let command = script::agree(keys, hold, serves, (run.id(), age));
        let reply: Result<Value, _> = call(master.link(), Script::Agree, command).await;
        let reply = reply.map_err(|error| error.to_string())?;
        let (hold, has_served, seen, is_first, has_voted): (u64, u8, u64, u8, u8) =
            redis::from_redis_value(reply).map_err(|_| {
                let (agreement, mark) = (keys.agreement(), keys.mark());
                format!(
                    "{} keeps something else under {agreement} or {mark}",
                    master.link
                )
            })?;
        let seen = Duration::from_millis(seen);
        run.learn(seen, clock::now());
        Ok(Agreement {
            hold,
            has_served: has_served != 0,
            seen,
            is_first: is_first != 0,
            has_voted: has_voted != 0,
        })
    }
}

fn forget(master: &Master, trouble: Arc<str>) {
    let mut membership = master.membership();
    membership.connection = None;
    membership.standing = None;
    membership.trouble = Some(trouble);
}
