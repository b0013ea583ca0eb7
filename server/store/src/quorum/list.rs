//! Pages of names: walks through one master after the other, and leaves out what an earlier one has too.

use leasehold_core::failure::StoreError;
use leasehold_core::name::Invalid;
use redis::{Cmd, Value};

use super::{decide::majority, master::Master, round::Masters};
use crate::{
    clock,
    measure::Script,
    redis::errors::{call_error, link_error},
    store::{Page, unanswered},
};

/// Most `SCAN` calls for one page.
const SCANS: usize = 10;

impl Masters {
    /// See [`LockStore::list`](crate::LockStore::list). A page token is the number of the master and its cursor.
    pub(super) async fn list(
        &self,
        prefix: &str,
        token: &str,
        size: usize,
    ) -> Result<Result<Page, Invalid>, StoreError> {
        let Some((mut place, mut cursor)) = parse(token, self.number()) else {
            return Ok(Err(Invalid("must be what the page before gave".into())));
        };
        let reachable = self.all.iter().filter(|master| is_up(master)).count();
        if reachable < majority(self.number()) {
            return Err(StoreError::Unavailable {
                reason: format!("only {reachable} of {} masters are reached", self.number()),
            });
        }
        let mut names = Vec::new();
        for _ in 0..SCANS {
            let Some(master) = self.all.get(place) else {
                break;
            };
            let scanned = if is_up(master) {
                self.scan(master, prefix, cursor, size).await
            } else {
                Err(unanswered())
            };
            match scanned {
                Ok((next, keys)) => {
                    let keys = self.new_ones(place, keys).await;
                    names.extend(keys.iter().filter_map(|key| self.keys.name_of(key)));
                    cursor = next;
                }
                // Another master has the locks that a majority holds.
                Err(_) => cursor = 0,
            }
            if cursor == 0 {
                place += 1;
            }
            if names.len() >= size {
                break;
            }
        }
        let next = if place < self.number() {
            format!("{place}:{cursor}")
        } else {
            String::new()
        };
        Ok(Ok(Page { names, next }))
    }

    async fn scan(
        &self,
        master: &Master,
        prefix: &str,
        cursor: u64,
        size: usize,
    ) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(self.keys.pattern(prefix));
        scan.arg("COUNT").arg(size).arg("TYPE").arg("string");
        let reply = call(master, Script::Scan, vec![scan]).await?;
        let reply = reply.into_iter().next().ok_or_else(unanswered)?;
        redis::from_redis_value(reply).map_err(|error| StoreError::Garbled {
            reason: error.to_string(),
        })
    }

    /// Returns those of these keys that no earlier master has.
    async fn new_ones(&self, place: usize, mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        keys.retain(|key| self.keys.name_of(key).is_some());
        for earlier in self.all.iter().take(place) {
            if keys.is_empty() || !is_up(earlier) {
                continue;
            }
            let asked = keys.iter().map(|key| {
                let mut exists = redis::cmd("EXISTS");
                exists.arg(key);
                exists
            });
            let Ok(replies) = call(earlier, Script::Scan, asked.collect()).await else {
                continue;
            };
            let mut known = replies.into_iter().map(|reply| reply == Value::Int(1));
            keys.retain(|_| !known.next().unwrap_or(false));
        }
        keys
    }
}

fn is_up(master: &Master) -> bool {
    master.link.status().borrow().is_up()
}

/// Sends commands that belong to no lock, measured as `script`.
pub(super) async fn call(
    master: &Master,
    script: Script,
    commands: Vec<Cmd>,
) -> Result<Vec<Value>, StoreError> {
    let sent_at = clock::now();
    let result = match master.link.execute(0, commands).await {
        Ok(replies) => {
            master.meter.called(script, sent_at.until(clock::now()));
            let replies = replies.items.into_iter();
            replies
                .map(|reply| reply.map_err(|error| call_error(&error)))
                .collect()
        }
        Err(error) => Err(link_error(&error)),
    };
    result.inspect_err(|error| master.meter.failed(script, error))
}

fn parse(token: &str, masters: usize) -> Option<(usize, u64)> {
    if token.is_empty() {
        return Some((0, 0));
    }
    let (place, cursor) = token.split_once(':')?;
    let (place, cursor) = (place.parse().ok()?, cursor.parse().ok()?);
    (place < masters).then_some((place, cursor))
}
