//! Marks of sessions that operators have ended, on a majority of the masters. A mark that a majority has is seen by everybody who
//! asks a majority.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use leasehold_core::{ended::EndChange, failure::StoreError};

use super::{decide::majority, master::Master, round::Masters, standing::Standing};
use crate::{
    measure::Script,
    redis::{call::call, ended},
    store::EndedSessions,
};

impl Masters {
    /// Changes a mark and returns all: see [`LockStore::ended_sessions`](crate::LockStore::ended_sessions).
    pub(super) async fn ended_sessions(&self, change: Option<EndChange>) -> EndedSessions {
        let key = self.keys.ended_sessions();
        let asked = self.all.iter().map(|master| {
            let command = ended::command(&key, change.as_ref());
            async move {
                let reply = call(master.link(), Script::EndedSessions, command).await;
                (votes(master), reply.and_then(ended::decode))
            }
        });
        let (mut counted, mut all) = (0, BTreeMap::new());
        let (mut is_full, mut failure) = (false, None);
        for (votes, result) in join_all(asked).await {
            match result {
                Ok(Some(marks)) => {
                    counted += usize::from(votes);
                    for (mark, count) in marks {
                        let known = all.entry(mark).or_insert(count);
                        *known = count.max(*known);
                    }
                }
                Ok(None) => is_full |= votes,
                Err(error) => failure = Some(error),
            }
        }
        if counted >= majority(self.number()) {
            return Ok(Some(all.into_iter().collect()));
        }
        if is_full {
            return Ok(None);
        }
        let reason = match failure {
            Some(error) => format!("too few masters have answered: {error}"),
            None => "too few masters have a vote".to_owned(),
        };
        Err(StoreError::Unavailable { reason })
    }
}

fn votes(master: &Master) -> bool {
    master.membership().standing == Some(Standing::Votes)
}
