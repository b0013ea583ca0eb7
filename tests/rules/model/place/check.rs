//! Checks of each state, and what must follow from it without further messages.

use leasehold_core::{
    command::{Op, Reply},
    id::OwnerId,
};

use super::{
    Content, FORGOTTEN, FORMER, MOVES, Message, ONCE, PLACE, Places, State, state::Stream,
};
use crate::common::{FORGOTTEN_AFTER, look, owner};

impl Places {
    /// Returns the owner ids that hold the lock or wait for it, in order.
    pub(super) fn present(&self, state: &State) -> Vec<OwnerId> {
        let Reply::Edges(edges) = look(&state.lock, &Op::Edges, state.now()) else {
            panic!("the store answers with edges");
        };
        let holders = edges.holders.iter().map(|hold| hold.owner);
        let waiters = edges.waiters.iter().map(|wait| wait.owner);
        holders.chain(waiters).collect()
    }

    /// Checks that a command of one stream has changed nothing while another ticket has the place. Only a resume may.
    pub(super) fn check_former(&self, state: &mut State, message: &Message, before: Vec<OwnerId>) {
        let is_resume = matches!(message.content, Content::Resume(_));
        let mut of_client = before.iter().filter(|owner| self.is_of_client(owner));
        let is_another = of_client.any(|owner| *owner != self.ticket(message.stream));
        if !is_resume && is_another && before != self.present(state) {
            state.broken = Some(FORMER);
        }
    }

    /// Checks that a client that believes in its place has it, or the lock.
    pub(super) fn check(&self, state: &mut State) {
        let present = self.present(state);
        let of_client = present.iter().filter(|owner| self.is_of_client(owner));
        if of_client.count() > 1 {
            state.broken = state.broken.or(Some(ONCE));
        }
        let client = &state.client;
        let known = state.streams[usize::from(client.confirmed)];
        let believes = client.stream == Some(client.confirmed)
            && !client.is_over
            && matches!(known, Stream::Waits | Stream::Holds);
        if believes && !present.contains(&self.ticket(client.confirmed)) {
            state.broken = state.broken.or(Some(PLACE));
        }
    }

    fn is_of_client(&self, of: &OwnerId) -> bool {
        (0..self.streams).any(|stream| owner(MOVES, stream) == *of)
    }

    /// Carries on from a state in which nothing is delivered any more. Returns the property that is broken by then.
    pub(super) fn settle(&self, state: &State) -> Option<&'static str> {
        let mut lock = state.lock.clone();
        let later = state.now().after(FORGOTTEN_AFTER);
        (!lock.is_forgotten(later)).then_some(FORGOTTEN)
    }
}
