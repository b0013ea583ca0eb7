//! Views of locks, sessions and coordinators, as the administration calls return them.

mod event;
mod lock;
mod report;

pub use event::{LockEvent, LockEventKind, LockWatchEvent};
pub use lock::{Holder, LockMode, LockPage, LockView, Waiter};
pub use report::{
    CertificateView, CoordinatorView, ForceReleased, LimitView, PermissionView, SessionEnded,
    SessionView, StoreState, TokenCheck,
};

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::{
        lease::LostReason,
        proto::{FromWire, v1, wire},
    };

    #[test]
    fn a_value_that_the_wire_api_leaves_out_is_none() {
        let view = LockView::from_wire(v1::LockView::default());
        assert_eq!(view, LockView::default());
        let holder = Holder::from_wire(v1::Holder::default());
        assert_eq!(holder, Holder::default());
        let status = CoordinatorView::from_wire(v1::GetStatusResponse::default());
        assert_eq!(status, CoordinatorView::default());
        let item = LockWatchEvent::from_proto(v1::WatchLocksResponse::default());
        assert_eq!(item, None);
    }

    #[test]
    fn every_value_of_the_wire_api_is_shown() {
        let wire = v1::LockView {
            mode: v1::LockMode::Semaphore.into(),
            holders: vec![v1::Holder {
                fencing_token: 7,
                permits: 2,
                actor: 3,
                acquired_at: Some((SystemTime::UNIX_EPOCH + Duration::new(5, 6)).into()),
                ttl: Some(wire(Duration::from_millis(1_500))),
                ..Default::default()
            }],
            fencing_token: 9,
            limit: 4,
            ..Default::default()
        };
        let view = LockView::from_wire(wire);
        assert_eq!(view.mode, Some(LockMode::Semaphore));
        assert_eq!((view.limit, view.fencing_token), (Some(4), Some(9.into())));
        let holder = &view.holders[0];
        assert_eq!((holder.permits, holder.actor), (Some(2), Some(3)));
        assert_eq!(holder.fencing_token, Some(7.into()));
        assert_eq!(holder.ttl, Some(Duration::from_millis(1_500)));
        let acquired_at = SystemTime::UNIX_EPOCH + Duration::new(5, 6);
        assert_eq!(holder.acquired_at, Some(acquired_at));
    }

    #[test]
    fn an_event_has_a_reason_only_if_a_hold_was_lost() {
        let event = |kind: v1::LockEventKind, reason: v1::LostReason| {
            let event = v1::LockEvent {
                kind: kind.into(),
                reason: reason.into(),
                ..Default::default()
            };
            let response = v1::watch_locks_response::Response::Event(event);
            let response = Some(response);
            match LockWatchEvent::from_proto(v1::WatchLocksResponse { response }) {
                Some(LockWatchEvent::Event(event)) => (event.kind, event.reason),
                other => panic!("{other:?}"),
            }
        };
        let granted = event(v1::LockEventKind::Granted, v1::LostReason::Unspecified);
        assert_eq!(granted, (LockEventKind::Granted, None));
        let lost = event(v1::LockEventKind::Lost, v1::LostReason::Deleted);
        assert_eq!(lost, (LockEventKind::Lost, Some(LostReason::Deleted)));
    }
}
