//! What a guard may change about its hold while that goes on.

use super::{
    machine::{Machine, Output},
    stream::InFlight,
};
use crate::{
    clock::Moment,
    error::HoldFailure,
    lease::LostReason,
    proto::v1::{self, session_request::Request as Body},
};

/// A change of a hold.
pub(crate) enum Change {
    /// The value attached to it.
    Value(Vec<u8>),
    /// From exclusive to shared.
    Downgrade,
}

impl<A, H> Machine<A, H> {
    pub(super) fn change(&mut self, now: Moment, key: u64, change: Change, reply: H) {
        self.expire(now);
        match (self.holds.owned(key, now), &mut self.stream) {
            (Ok(owned), Some(stream)) => {
                let (name, owner_id) = (owned.name.to_string(), owned.owner_id);
                let body = match change {
                    Change::Value(value) => Body::SetValue(v1::SessionSetValue {
                        name,
                        owner_id,
                        value,
                    }),
                    Change::Downgrade => Body::Downgrade(v1::SessionDowngrade { name, owner_id }),
                };
                let request = stream.request(body, InFlight::Change { key, reply });
                self.outputs.push_back(Output::Send(request));
            }
            (Ok(_), None) => self.hold_failed(Some(reply), HoldFailure::Unconfirmed),
            (Err(reason), _) => self.hold_failed(Some(reply), HoldFailure::Lost(reason)),
        }
    }

    pub(super) fn changed(&mut self, now: Moment, id: u64, changed: bool) {
        let Some(InFlight::Change { key, reply }) = self.answered(id) else {
            return;
        };
        if changed {
            self.outputs.push_back(Output::HoldDone(reply, Ok(())));
        } else {
            let reason = self.holds.gone(key, now, LostReason::Unknown);
            self.hold_failed(Some(reply), HoldFailure::Lost(reason));
        }
    }
}
