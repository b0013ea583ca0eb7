//! A hostile client's end of a stream, with the count of its answers.

use std::collections::BTreeMap;

use leasehold_proto::v1::{SessionResponse, session_response::Response};

use crate::world::NAMES;

/// A hostile client's end of a stream.
pub(super) struct Peer {
    pub(super) stream: usize,
    pub(super) sequence: u64,
    pub(super) is_gone: bool,
    /// How often each request id was used, and how often it was answered.
    pub(super) asked: BTreeMap<u64, (u64, u64)>,
    /// How often each was told its place.
    queued: BTreeMap<u64, u64>,
}

impl Peer {
    pub(super) fn new(stream: usize) -> Self {
        Self {
            stream,
            sequence: 0,
            is_gone: false,
            asked: BTreeMap::new(),
            queued: BTreeMap::new(),
        }
    }

    /// Takes in an answer, and what it tells of holds and places.
    ///
    /// # Panics
    ///
    /// If something was answered more often than it was asked.
    pub(super) fn hear(&mut self, answer: SessionResponse, known: &mut Vec<(String, Vec<u8>)>) {
        let id = answer.request_id;
        let response = answer.response.expect("each answer has a kind");
        match &response {
            Response::Lost(_) | Response::Draining(_) | Response::ReleaseRequested(_) => {
                return assert_eq!(id, 0, "{response:?} was not asked for");
            }
            Response::Granted(granted) => {
                let locks = granted.locks.iter();
                known.extend(locks.map(|lock| (lock.name.clone(), lock.owner_id.clone())));
            }
            Response::Opened(opened) => {
                let locks = opened.resumed.iter();
                known.extend(locks.map(|lock| (lock.name.clone(), lock.owner_id.clone())));
                if opened.more {
                    return;
                }
            }
            Response::Queued(queued) => {
                let told = self.queued.entry(id).or_default();
                *told += 1;
                let (asked, _) = self.asked.get(&id).copied().unwrap_or_default();
                assert!(*told <= asked, "{id} was told its place {told} times");
                // A place is known by its ticket alone.
                known.extend(
                    NAMES
                        .iter()
                        .take(1)
                        .map(|name| ((*name).to_owned(), queued.ticket.clone())),
                );
                return;
            }
            _ => {}
        }
        let (asked, answered) = self.asked.entry(id).or_default();
        *answered += 1;
        assert!(
            answered <= asked,
            "{id} was asked {asked} times and answered {answered} times, the last time with {response:?}"
        );
    }
}
