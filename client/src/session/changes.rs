//! Changes of a hold by its guard.

use super::{machine::Machine, replies::ReplyId, stream::InFlight};
use crate::{
    clock::Moment,
    error::HoldFailure,
    lease::LostReason,
    proto::v1::{self, session_request::Request as Body},
    trace::TraceContext,
};

/// A change of a hold.
pub(crate) enum Change {
    /// The value attached to it.
    Value(Vec<u8>),
    /// From exclusive to shared.
    Downgrade,
}

/// A change of a hold, as its guard has asked for it.
pub(super) struct ChangeRequest {
    /// The guard's key.
    key: u64,
    change: Change,
    trace: Option<TraceContext>,
    pub(super) reply: ReplyId,
}

impl<A, H> Machine<A, H> {
    /// Handles the request of a guard to change its hold. `trace` is the context that the change is part of.
    pub(super) fn change(
        &mut self,
        now: Moment,
        key: u64,
        change: Change,
        trace: Option<TraceContext>,
        reply: H,
    ) {
        self.expire(now);
        let reply = self.replies.add(now, reply);
        let request = ChangeRequest {
            key,
            change,
            trace,
            reply,
        };
        self.send_change(now, request);
    }

    /// Asks for a change, now or on the next stream.
    pub(super) fn send_change(&mut self, now: Moment, request: ChangeRequest) {
        let takes_changes = self.takes_changes();
        match (self.holds.owned(request.key, now), &mut self.stream) {
            (Ok((name, owner_id)), Some(stream)) if takes_changes => {
                let name = name.to_string();
                let body = match &request.change {
                    Change::Value(value) => Body::SetValue(v1::SessionSetValue {
                        name,
                        owner_id,
                        value: value.clone(),
                    }),
                    Change::Downgrade => Body::Downgrade(v1::SessionDowngrade { name, owner_id }),
                };
                let trace = request.trace.clone();
                let output = stream.send(body, InFlight::Change(request), trace.as_ref());
                self.outputs.push_back(output);
            }
            // For the stream that takes it over, if there is one in time.
            (Ok(_), _) => self.unsent_changes.push(request),
            (Err(reason), _) => self.reply(Some(request.reply), Err(HoldFailure::Lost(reason))),
        }
    }

    pub(super) fn changed(&mut self, now: Moment, id: u64, changed: bool) {
        let Some(InFlight::Change(request)) = self.answered(id) else {
            return;
        };
        let result = match changed {
            true => Ok(()),
            false => Err(self.holds.gone(request.key, now, LostReason::Unknown)),
        };
        self.reply(Some(request.reply), result.map_err(HoldFailure::Lost));
    }
}
