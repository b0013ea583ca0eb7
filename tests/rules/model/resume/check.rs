//! Checks of each state, and what must follow from it without further messages.

use leasehold_core::id::OwnerId;

use super::{
    EXCLUSION, FORGOTTEN, FORMER, Resuming, SERVED, WAITS,
    state::{Content, Message, Other, State},
};
use crate::common::{FORGOTTEN_AFTER, holders, owner, view};

impl Resuming {
    /// Returns the present holder, and how long it has left.
    pub(super) fn present(&self, state: &State) -> Option<(OwnerId, String)> {
        let (owner, _) = holders(&state.lock, state.now()).pop()?;
        let view = view(&state.lock, state.now());
        Some((owner, format!("{:?}", view.holders)))
    }

    /// Checks that a command of one stream has changed nothing of another owner's hold. Only a resume may.
    pub(super) fn check_former(
        &self,
        state: &mut State,
        message: &Message,
        before: Option<(OwnerId, String)>,
    ) {
        let is_resume = matches!(message.content, Content::Resume(_));
        let is_another = |(owner, _): &(OwnerId, String)| *owner != self.owner(message.stream);
        if !is_resume && before.as_ref().is_some_and(is_another) && before != self.present(state) {
            state.broken = Some(FORMER);
        }
    }

    /// Checks that whoever believes in a hold has it.
    pub(super) fn check(&self, state: &mut State) {
        let holders = holders(&state.lock, state.now());
        let has = |owner: OwnerId| holders.iter().any(|(holder, _)| *holder == owner);
        let other_believes = matches!(state.other, Other::Holds { until } if state.elapsed < until);
        if state.believes() && !has(self.owner(state.client.confirmed))
            || other_believes && !has(owner(WAITS, 0))
        {
            state.broken = state.broken.or(Some(EXCLUSION));
        }
    }

    /// Carries on from a state without any message in flight, resume or renewal. Returns the property that is broken by then.
    pub(super) fn settle(&self, state: &State) -> Option<&'static str> {
        let mut state = state.clone();
        for _ in 0..2 * self.ttl + 2 {
            match state.other {
                Other::Handed => self.confirm(&mut state),
                Other::Holds { .. } => self.give_back(&mut state),
                Other::Waits | Other::Over => {}
            }
            self.tick(&mut state);
        }
        if state.other != Other::Over {
            return Some(SERVED);
        }
        let later = state.now().after(FORGOTTEN_AFTER);
        (!state.lock.is_forgotten(later)).then_some(FORGOTTEN)
    }
}
