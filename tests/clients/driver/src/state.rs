//! State of a handle: of one hold, or of several that were acquired together.

use futures_util::future::select_all;
use leasehold_client::{LockState, LockWatch, LostReason};
use serde_json::{Value, json};

use crate::{
    failure::lost_reason,
    output::{boot_ns, say},
};

/// State of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Held,
    Suspended,
    Lost(LostReason),
    Released,
}

impl State {
    /// Asks the client's check of each hold. Returns the state, and the hold that decides it.
    fn of(watches: &[LockWatch]) -> (Self, Option<&LockWatch>) {
        let states = watches.iter().map(|watch| (watch.state(), watch));
        let mut whole = (Self::Held, None);
        for (state, watch) in states {
            let state = match state {
                LockState::Lost(LostReason::Released) => Self::Released,
                LockState::Lost(reason) => return (Self::Lost(reason), Some(watch)),
                LockState::Held => continue,
                _ => Self::Suspended,
            };
            whole = (state, Some(watch));
        }
        whole
    }

    fn fields(self) -> Value {
        match self {
            Self::Held => json!({ "state": "held" }),
            Self::Suspended => json!({ "state": "suspended" }),
            Self::Lost(reason) => json!({ "state": "lost", "reason": lost_reason(reason) }),
            Self::Released => json!({ "state": "released" }),
        }
    }
}

/// Returns the answer to a question for the state.
pub(crate) fn asked(watches: &[LockWatch]) -> Value {
    // Before the check: what is held now was held then.
    let stamp = boot_ns();
    let (state, _) = State::of(watches);
    let mut answer = state.fields();
    answer["boot_ns"] = json!(stamp);
    answer
}

/// Tells of every change of a handle, until its end.
pub(crate) async fn tell(handle: String, watches: Vec<LockWatch>) {
    let mut known = State::Held;
    loop {
        // From before the look, so that no change escapes.
        let changes = watches.iter().map(|watch| Box::pin(watch.changed()));
        let change = select_all(changes);
        let (state, watch) = State::of(&watches);
        if state == State::Released {
            return;
        }
        if state != known {
            known = state;
            let mut event = state.fields();
            event["ev"] = json!("state");
            event["h"] = json!(handle);
            event["boot_ns"] = json!(boot_ns());
            if let (State::Lost(_), Some(watch)) = (state, watch) {
                event["name"] = json!(watch.name());
            }
            say(&event);
        }
        if matches!(state, State::Lost(_)) {
            return;
        }
        change.await;
    }
}
