//! Record that a master keeps of a grant, in the format of `lua/hold.lua`.

use std::time::Duration;

use leasehold_core::{
    id::{CoordinatorId, FencingToken, OwnerId},
    name::{ClientName, Value},
    time::StoreTime,
    view::{HoldEdge, HoldView},
};

use crate::redis::fields::{Extras, parse_sessions};

/// Record of a name: its newest token, and the grant, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The newest token.
    pub token: FencingToken,
    /// The grant, if any.
    pub grant: Option<Grant>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Its owner id.
    pub owner: OwnerId,
    /// The hold, without the time left, which only its key has.
    pub hold: HoldView,
}

impl Record {
    /// Parses a record; returns `None` if it is foreign.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (token, rest) = bytes.split_first_chunk()?;
        let (minted_at, rest) = rest.split_first_chunk()?;
        let token = FencingToken::new(i64::from_be_bytes(*token));
        let minted_at = StoreTime::from_micros(i64::from_be_bytes(*minted_at));
        let grant = match rest {
            [] => None,
            rest => Some(Grant::parse(token, minted_at, rest)?),
        };
        Some(Self { token, grant })
    }

    /// Returns the grant, if it is this owner's.
    pub fn of(&self, owner: &[u8]) -> Option<&Grant> {
        self.grant
            .as_ref()
            .filter(|grant| grant.owner.as_bytes() == owner)
    }
}

impl Grant {
    fn parse(token: FencingToken, minted_at: StoreTime, bytes: &[u8]) -> Option<Self> {
        let (owner, rest) = bytes.split_at_checked(16)?;
        let (_state, rest) = rest.split_first()?;
        let (delay, rest) = rest.split_first_chunk()?;
        let (coordinator, rest) = sized(rest)?;
        let (length, rest) = rest.split_first()?;
        let (session, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first()?;
        let (extras, rest) = rest.split_at_checked(usize::from(*length))?;
        let (client_name, value) = sized(rest)?;
        let Extras {
            mode,
            actor,
            count,
            max_hold,
        } = Extras::parse(extras)?;
        let (session, predecessors) = parse_sessions(session)?;
        let hold = HoldView {
            session,
            predecessors,
            actor,
            client_name: ClientName::parse(std::str::from_utf8(client_name).ok()?).ok()?,
            mode,
            count,
            coordinator: CoordinatorId::new(std::str::from_utf8(coordinator).ok()?),
            token,
            acquired_at: minted_at,
            expires_in: Duration::ZERO,
            lock_delay: Duration::from_millis(u64::from_be_bytes(*delay)),
            max_hold,
            value: Value::parse(value).ok()?,
        };
        let owner = OwnerId::parse(owner)?;
        Some(Self { owner, hold })
    }

    /// Returns its view, if its key has this much time left.
    pub fn view(&self, left: Duration) -> HoldView {
        HoldView {
            expires_in: left.saturating_sub(self.hold.lock_delay),
            ..self.hold.clone()
        }
    }

    /// Returns its edge for the detector of deadlocks.
    pub fn edge(&self) -> HoldEdge {
        HoldEdge {
            owner: self.owner,
            session: self.hold.session,
            actor: self.hold.actor,
            client_name: self.hold.client_name.clone(),
            mode: self.hold.mode,
        }
    }
}

/// Reads a field after its length in two bytes.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
