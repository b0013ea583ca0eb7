//! Pages of names: walks through one master after the other, and leaves out what an earlier one has too.

use leasehold_core::{failure::StoreError, name::Invalid};
use redis::Value;

use super::{decide::majority, master::Master, round::Masters};
use crate::{
    measure::Script,
    redis::call::{SCANS, call_all, scan_once},
    store::{Listed, Page, unanswered},
};

impl Masters {
    /// Lists locks, as [`LockStore::list`](crate::LockStore::list) says. A page token is the number of the master and its
    /// cursor.
    pub(super) async fn list(&self, prefix: &str, token: &str, size: usize) -> Listed {
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
                scan_once(master.link(), &self.keys, prefix, cursor, size).await
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
            let asked = call_all(earlier.link(), Script::Scan, asked.collect());
            let Ok(replies) = asked.await else {
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

fn parse(token: &str, masters: usize) -> Option<(usize, u64)> {
    if token.is_empty() {
        return Some((0, 0));
    }
    let (place, cursor) = token.split_once(':')?;
    let (place, cursor) = (place.parse().ok()?, cursor.parse().ok()?);
    (place < masters).then_some((place, cursor))
}
