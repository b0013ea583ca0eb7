//! Changes of a hold by its guard.

use super::{
    machine::{Machine, Output},
    replies::ReplyId,
    stream::{InFlight, traceparent},
};
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
        self.send_change(now, key, change, trace, reply);
    }

    /// Asks for a change, now or on the next stream.
    pub(super) fn send_change(
        &mut self,
        now: Moment,
        key: u64,
        change: Change,
        trace: Option<TraceContext>,
        reply: ReplyId,
    ) {
        let takes_changes = self.takes_changes();
        match (self.holds.owned(key, now), &mut self.stream) {
            (Ok((name, owner_id)), Some(stream)) if takes_changes => {
                let name = name.to_string();
                let body = match &change {
                    Change::Value(value) => Body::SetValue(v1::SessionSetValue {
                        name,
                        owner_id,
                        value: value.clone(),
                    }),
                    Change::Downgrade => Body::Downgrade(v1::SessionDowngrade { name, owner_id }),
                };
                let number = stream.number;
                let traceparent = traceparent(trace.as_ref());
                let expects = InFlight::Change {
                    key,
                    change,
                    trace,
                    reply,
                };
                let mut request = stream.request(body, expects);
                request.traceparent = traceparent;
                self.outputs.push_back(Output::Send(number, request));
            }
            // For the stream that takes it over, if there is one in time.
            (Ok(_), _) => self.unsent_changes.push((key, change, trace, reply)),
            (Err(reason), _) => self.hold_failed(Some(reply), HoldFailure::Lost(reason)),
        }
    }

    pub(super) fn changed(&mut self, now: Moment, id: u64, changed: bool) {
        let Some(InFlight::Change { key, reply, .. }) = self.answered(id) else {
            return;
        };
        if changed {
            self.hold_done(Some(reply));
        } else {
            let reason = self.holds.gone(key, now, LostReason::Unknown);
            self.hold_failed(Some(reply), HoldFailure::Lost(reason));
        }
    }
}
