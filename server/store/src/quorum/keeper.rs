//! The task behind each master: on every new connection, and now and then, asks which run of the server answers and for how
//! long that has been up, and keeps what the coordinators agree on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, Value};
use tokio::time::{sleep, timeout};

use super::{
    board::Board,
    list::call,
    master::Master,
    round::Masters,
    script,
    standing::{Agreement, Bootstrap, Introduction, Run, Standing, bootstrap},
};
use crate::{Status, clock, measure::Script, redis::errors::link_error};

/// How long to wait before a master that did not introduce itself is asked again.
const RETRY: Duration = Duration::from_millis(100);
/// A master is asked at least this often, and at most.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(30);
/// What somebody has to put right is looked at this often.
const MENDED: Duration = Duration::from_secs(1);

/// What the tasks share.
#[derive(Clone)]
pub(super) struct Keeper {
    pub(super) masters: Arc<Masters>,
    pub(super) board: Arc<Board>,
    /// Whether it is still to be decided if the masters are to be declared a first start: none begins to serve before that.
    pub(super) bootstrapping: Arc<AtomicBool>,
}

impl Keeper {
    /// Looks after a master for as long as its link is there.
    pub(super) async fn keep(self, master: Arc<Master>) {
        let mut status = master.link.status();
        loop {
            let current = status.borrow_and_update().clone();
            let pause = match current {
                Status::Down { reason, .. } => {
                    self.forget(&master, reason);
                    None
                }
                Status::Up { .. } => Some(match self.introduce(&master, false).await {
                    Ok(()) => self.next_look(&master),
                    Err(reason) => {
                        self.forget(&master, reason.into());
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

    fn forget(&self, master: &Master, trouble: Arc<str>) {
        let mut membership = master.membership();
        membership.connection = None;
        membership.standing = None;
        membership.trouble = Some(trouble);
    }

    fn next_look(&self, master: &Master) -> Duration {
        let usual = (self.masters.terms.hold / 4).clamp(OFTEN, SELDOM);
        match master.membership().standing {
            Some(Standing::Abstains { until }) => clock::now().until(until).min(usual).max(OFTEN),
            Some(Standing::Disagrees { .. } | Standing::NotDurable) => usual.min(MENDED),
            _ => usual,
        }
    }

    /// Has a master introduce itself, and agrees with it. With `declare`, it is declared to be a first start.
    async fn introduce(&self, master: &Master, declare: bool) -> Result<(), String> {
        let terms = &self.masters.terms;
        let before = {
            let membership = master.membership();
            membership.run.clone().zip(membership.heard_at)
        };
        let sent_at = clock::now();
        let mut asked = vec![redis::cmd("INFO"), redis::cmd("TIME")];
        asked[0].arg("server");
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
        let info = answers.next().flatten().ok_or_else(|| {
            format!(
                "{} does not tell which run of it answers: let the user of the store URL ask INFO",
                master.link
            )
        })?;
        if let Some(Ok((seconds, micros))) = answers
            .next()
            .flatten()
            .map(redis::from_redis_value::<(i64, i64)>)
        {
            let at = seconds.saturating_mul(1_000_000).saturating_add(micros);
            master.observe_time(leasehold_core::time::StoreTime::from_micros(at), sent_at);
        }
        let introduction = read(
            &info,
            answers.map(|reply| reply.and_then(setting)).collect(),
        )
        .ok_or_else(|| format!("{} tells neither run_id nor uptime", master.link))?;
        let run = Run::meet(
            &introduction,
            terms,
            before.as_ref().map(|(run, at)| (run, *at)),
            sent_at,
        );
        let first = declare.then(|| run.id().to_owned());
        let mut agreement = self.agree(master, false, first.as_deref()).await?;
        let standing =
            |agreement: &Agreement| run.standing(&introduction, agreement, terms, clock::now());
        let may_begin = declare || !self.bootstrapping.load(Ordering::Relaxed);
        if standing(&agreement) == Standing::Votes && !agreement.has_served && may_begin {
            // Before any of its votes is counted.
            agreement = self.agree(master, true, None).await?;
        }
        let mut standing = standing(&agreement);
        if standing == Standing::Votes && !agreement.has_served {
            standing = Standing::Abstains { until: sent_at };
        }
        let mut membership = master.membership();
        membership.connection = Some(replies.connection);
        membership.heard_at = Some(sent_at);
        membership.is_first = run.is_first(&agreement);
        membership.has_served = agreement.has_served;
        membership.run = Some(run);
        membership.standing = Some(standing);
        membership.trouble = None;
        Ok(())
    }

    async fn agree(
        &self,
        master: &Master,
        serves: bool,
        first: Option<&str>,
    ) -> Result<Agreement, String> {
        let terms = &self.masters.terms;
        let key = self.masters.keys.agreement();
        let command: Cmd = script::agree(&key, terms.hold_millis(), terms.hold * 4, serves, first);
        let replies = call(master, Script::Agree, vec![command]).await;
        let mut replies = replies.map_err(|error| error.to_string())?;
        let reply = replies.pop().unwrap_or(Value::Nil);
        let (hold, has_served, first): (u64, u8, String) = redis::from_redis_value(reply)
            .map_err(|_| format!("{} keeps something else under {key}", master.link))?;
        Ok(Agreement {
            hold,
            has_served: has_served != 0,
            first: Some(first).filter(|first| !first.is_empty()),
        })
    }

    /// Declares all masters to be a first start, once all of them are reached, unless one has served before.
    pub(super) async fn bootstrap(self) {
        self.decide_on_first_start().await;
        self.bootstrapping.store(false, Ordering::Relaxed);
    }

    async fn decide_on_first_start(&self) {
        loop {
            let known = self.masters.all.iter().map(|master| {
                let membership = master.membership();
                let is_known = membership.standing.is_some();
                is_known.then_some((membership.is_first, membership.has_served))
            });
            let known: Vec<_> = known.collect();
            let Some(decided) = bootstrap(&known) else {
                sleep(RETRY).await;
                continue;
            };
            match decided {
                Bootstrap::Done => return,
                Bootstrap::Declare => {
                    for master in &self.masters.all {
                        // One that does not answer is looked at again when it does.
                        let _ = self.introduce(master, true).await;
                    }
                }
                Bootstrap::Refused(place) => {
                    if let Some(master) = self.masters.all.get(place) {
                        self.board.refuse(format!(
                            "--quorum-bootstrap is for the first start of a set of masters, but {} has served locks \
                             before: start without it",
                            master.link
                        ));
                    }
                }
            }
            self.board.review(&self.masters);
            if matches!(decided, Bootstrap::Refused(_)) {
                return;
            }
        }
    }
}

fn read(info: &Value, settings: Vec<Option<String>>) -> Option<Introduction> {
    let Value::BulkString(info) = info else {
        return None;
    };
    let info = std::str::from_utf8(info).ok()?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let is_durable = match &settings[..] {
        [Some(append_only), Some(fsync)] => Some(append_only == "yes" && fsync == "always"),
        _ => None,
    };
    Some(Introduction {
        run: field("run_id:")?.to_owned(),
        uptime: Duration::from_secs(field("uptime_in_seconds:")?.parse().ok()?),
        is_durable,
    })
}

fn setting(reply: Value) -> Option<String> {
    let (_name, value): (String, String) = redis::from_redis_value(reply).ok()?;
    Some(value)
}
