//! Bootstrap of a quorum: an operator declares that all masters start for the first time, so that they vote at once. No
//! coordinator declares this by itself: after an outage that emptied all masters, they would forget locks that clients hold.

use std::time::Duration;

use redis::Cmd;
use tokio::time::timeout;

use super::{
    script,
    standing::{Bootstrap, Candidate, bootstrap as decide},
};
use crate::{
    Status, StoreUrlError, TlsFiles,
    measure::{Meter, Script},
    redis::{
        call,
        errors::link_error,
        handshake::{ask_run, run_id},
        keys::Keys,
        link::{Link, LinkOptions},
        url::QuorumUrl,
    },
};

/// Time to reach each master, as a multiple of the time-out of a command.
const TO_CONNECT: u32 = 10;
/// Keys that one `SCAN` looks at.
const KEYS_AT_A_TIME: usize = 10_000;

/// Set of masters, and how to reach it.
#[derive(Clone, Debug)]
pub struct MasterSet {
    /// The store's URL, `redis+quorum://…`.
    pub url: String,
    /// Certificates, if the URL asks for TLS.
    pub tls: TlsFiles,
    /// The prefix of every lock's key.
    pub key_prefix: String,
    /// Time-out of a command.
    pub timeout: Duration,
}

/// Outcome of a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrapped {
    /// It marked all masters; their number.
    Marked(usize),
    /// All masters were marked already, and have not been restarted since: nothing was changed.
    Already,
}

/// Error of a bootstrap.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] StoreUrlError),
    /// A master can't be asked.
    #[error(
        "failed to reach {master}: {reason}; all masters must answer, as one that does not may know grants. Nothing was marked"
    )]
    Unreachable {
        /// Its address.
        master: String,
        /// The reason.
        reason: String,
    },
    /// A master knows grants.
    #[error(
        "refused: {master} knows grants of locks, so this is not the first start of this set, and nothing was marked. \
         Masters that were restarted get their votes back by themselves, four times max-ttl after coordinators reach them"
    )]
    KnowsGrants {
        /// Its address.
        master: String,
    },
    /// A master failed half-way.
    #[error("failed to mark {master}: {reason}; run the command again")]
    Unmarked {
        /// Its address.
        master: String,
        /// The reason.
        reason: String,
    },
}

/// Marks every master of a set as started for the first time, if none of them knows a grant of a lock. The mark is valid while the
/// server runs that it was written to: a restart ends it.
///
/// # Errors
///
/// If a master can't be reached, knows grants, or fails. Nothing is marked then, unless a master fails after others were marked;
/// the same call again marks the rest.
pub async fn bootstrap(set: MasterSet) -> Result<Bootstrapped, BootstrapError> {
    let MasterSet {
        url,
        tls,
        key_prefix,
        timeout,
    } = set;
    let target = QuorumUrl::parse(&url, tls)?;
    let keys = Keys::new(&key_prefix);
    let links: Vec<Link> = target
        .masters
        .into_iter()
        .map(|master| {
            let options = LinkOptions {
                connections: 1,
                command_timeout: timeout,
                scripts: script::texts(),
                ..LinkOptions::default()
            };
            Link::start(master, options)
        })
        .collect();
    let mut runs = Vec::with_capacity(links.len());
    let mut candidates = Vec::with_capacity(links.len());
    for link in &links {
        let asked = ask(link, &keys, timeout * TO_CONNECT).await;
        let (run, candidate) = asked.map_err(|reason| BootstrapError::Unreachable {
            master: link.to_string(),
            reason,
        })?;
        runs.push(run);
        candidates.push(candidate);
    }
    match decide(&candidates) {
        Bootstrap::Done => return Ok(Bootstrapped::Already),
        Bootstrap::Refused(place) => return Err(refused(&links[place])),
        Bootstrap::Declare => {}
    }
    for (link, run) in links.iter().zip(&runs) {
        let marked = stands(link, &keys, run, true).await;
        let marked = marked.map_err(|reason| BootstrapError::Unmarked {
            master: link.to_string(),
            reason,
        })?;
        if !marked.is_first {
            // Meanwhile, a coordinator has begun to count its votes.
            return Err(refused(link));
        }
    }
    Ok(Bootstrapped::Marked(links.len()))
}

fn refused(link: &Link) -> BootstrapError {
    BootstrapError::KnowsGrants {
        master: link.to_string(),
    }
}

/// Returns the run id of a master, and its state.
async fn ask(link: &Link, keys: &Keys, patience: Duration) -> Result<(String, Candidate), String> {
    let mut status = link.status();
    let is_up = timeout(patience, status.wait_for(Status::is_up)).await;
    if !matches!(is_up, Ok(Ok(_))) {
        return Err(match &*link.status().borrow() {
            Status::Down { reason, .. } => reason.to_string(),
            Status::Up { .. } => "it comes and goes".to_owned(),
        });
    }
    let asked = link.execute(0, vec![ask_run()]).await;
    let mut replies = asked.map_err(|error| link_error(&error).to_string())?;
    let info = replies.items.pop().and_then(Result::ok);
    let run = info.and_then(|info| run_id(&info));
    let run = run.ok_or("it does not tell its run_id")?;
    let mut candidate = stands(link, keys, &run, false).await?;
    candidate.knows_grants |= has_records(link, keys).await?;
    Ok((run, candidate))
}

/// Asks for the state of a master's run, and declares it a first start if `declare`.
async fn stands(link: &Link, keys: &Keys, run: &str, declare: bool) -> Result<Candidate, String> {
    let (served, is_first): (u8, u8) = call(link, script::bootstrap(keys, run, declare)).await?;
    Ok(Candidate {
        is_first: is_first != 0,
        knows_grants: served != 0,
    })
}

/// Returns whether a master has the token record of any lock: grants leave one, and so do coordinators that restore a hold on a
/// master that came back empty.
async fn has_records(link: &Link, keys: &Keys) -> Result<bool, String> {
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(keys.record_pattern());
        scan.arg("COUNT").arg(KEYS_AT_A_TIME);
        let (next, found): (u64, Vec<Vec<u8>>) = call(link, scan).await?;
        if !found.is_empty() {
            return Ok(true);
        }
        if next == 0 {
            return Ok(false);
        }
        cursor = next;
    }
}

async fn call<T: redis::FromRedisValue>(link: &Link, command: Cmd) -> Result<T, String> {
    // Nothing is measured here.
    let meter = Meter::default();
    let called = call::call((link, &meter), Script::Agree, command).await;
    called.map_err(|error| error.to_string())
}
