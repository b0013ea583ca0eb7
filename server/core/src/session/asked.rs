//! Requests of operators to release holds: the last one for each hold. It waits while the client does not read, so that however
//! often an operator asks, at most one request for each hold waits.

use std::{collections::BTreeMap, sync::Arc};

use crate::{command::ReleaseRequest, id::OwnerId, time::Moment};

/// The last request for each hold that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Asked(BTreeMap<OwnerId, Request>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) request: Arc<ReleaseRequest>,
    /// Time at which it came: its time to release the hold runs from here.
    pub(super) came_at: Moment,
    is_told: bool,
}

impl Asked {
    /// Notes a request for a hold. The same one may come several times.
    pub(super) fn insert(&mut self, owner: OwnerId, request: Arc<ReleaseRequest>, now: Moment) {
        let last = self.0.get(&owner);
        if last.is_none_or(|last| last.request.id != request.id) {
            let request = Request {
                request,
                came_at: now,
                is_told: false,
            };
            self.0.insert(owner, request);
        }
    }

    /// Returns the requests that were not returned before.
    pub(super) fn untold(&mut self) -> impl Iterator<Item = (OwnerId, &Request)> {
        let requests = self.0.iter_mut();
        requests.filter_map(|(owner, request)| {
            let was_told = std::mem::replace(&mut request.is_told, true);
            (!was_told).then_some((*owner, &*request))
        })
    }

    /// Forgets the request for a hold that has ended.
    pub(super) fn forget(&mut self, owner: &OwnerId) {
        self.0.remove(owner);
    }
}
