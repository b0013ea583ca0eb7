//! Messages that the masters' scripts publish to coordinators.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::mpsc;

use super::{decide::majority, waiting::Inner};
use crate::{redis::wake_up, store::WakeUp};

/// Most resumes whose messages are counted at the same time.
const MOST_COUNTED: usize = 4096;

/// Reads the messages of scripts: W with a lock that came free; F with an owner id and the lock that was taken from it; A with
/// an owner id, its token, what is asked of it, and the lock; M with an owner id and the lock that was resumed under another one.
pub(super) async fn read(
    inner: Arc<Inner>,
    mut messages: mpsc::Receiver<Vec<u8>>,
    wake_ups: mpsc::Sender<WakeUp>,
) {
    let mut moves = Moves {
        needed: majority(inner.masters.number()),
        told: HashMap::new(),
    };
    while let Some(message) = messages.recv().await {
        let wake_up = match message.split_first() {
            Some((b'W', key)) => {
                if let Some(name) = inner.masters.keys.name_of(key) {
                    inner.draw_lots(name);
                }
                None
            }
            Some((b'M', rest)) if !moves.are_certain(rest) => None,
            Some((b'A' | b'F' | b'M', _)) => wake_up::parse(&message, &inner.masters.keys),
            _ => None,
        };
        if let Some(wake_up) = wake_up {
            // Full or closed: the next renewal finds it.
            let _ = wake_ups.try_send(wake_up);
        }
    }
}

/// Number of masters that reported each resume. A resume at a minority has not happened: the hold may go on under the owner id
/// that it has here.
struct Moves {
    needed: usize,
    told: HashMap<Vec<u8>, usize>,
}

impl Moves {
    /// Counts one more master's report; returns whether a majority has reported it. Each master reports once.
    fn are_certain(&mut self, of: &[u8]) -> bool {
        if self.told.len() >= MOST_COUNTED && !self.told.contains_key(of) {
            // The next renewal finds a forgotten resume.
            self.told.clear();
        }
        let number = self.told.entry(of.to_vec()).or_default();
        *number += 1;
        *number == self.needed
    }
}
