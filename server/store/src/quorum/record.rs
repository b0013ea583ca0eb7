//! Record that a master keeps of a grant, in the format of `lua/hold.lua`.

use std::time::Duration;

use leasehold_core::{
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, Value},
    time::StoreTime,
    view::{HoldEdge, HoldView},
};

use crate::redis::fields::Extras;

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
    /// Time for which the name stays closed after an unclean end.
    pub lock_delay: Duration,
    /// The client's flow that holds it.
    pub actor: Actor,
    /// Mode in which it is held.
    pub mode: Mode,
    minted_at: StoreTime,
    coordinator: CoordinatorId,
    session: Option<SessionId>,
    count: u32,
    client_name: ClientName,
    value: Value,
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
            rest => Some(Grant::parse(minted_at, rest)?),
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
    fn parse(minted_at: StoreTime, bytes: &[u8]) -> Option<Self> {
        let (owner, rest) = bytes.split_at_checked(16)?;
        let (_state, rest) = rest.split_first()?;
        let (delay, rest) = rest.split_first_chunk()?;
        let (coordinator, rest) = sized(rest)?;
        let (length, rest) = rest.split_first()?;
        let (session, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first()?;
        let (extras, rest) = rest.split_at_checked(usize::from(*length))?;
        let (client_name, value) = sized(rest)?;
        let Extras { mode, actor, count } = Extras::parse(extras)?;
        Some(Self {
            owner: OwnerId::parse(owner)?,
            minted_at,
            lock_delay: Duration::from_millis(u64::from_be_bytes(*delay)),
            coordinator: CoordinatorId::new(std::str::from_utf8(coordinator).ok()?),
            session: match session {
                [] => None,
                session => Some(SessionId::parse(session)?),
            },
            actor,
            mode,
            count,
            client_name: ClientName::parse(std::str::from_utf8(client_name).ok()?).ok()?,
            value: Value::parse(value).ok()?,
        })
    }

    /// Returns its view, if its key has this much time left.
    pub fn view(&self, token: FencingToken, left: Duration) -> HoldView {
        HoldView {
            session: self.session,
            actor: self.actor,
            client_name: self.client_name.clone(),
            mode: self.mode,
            count: self.count,
            coordinator: self.coordinator.clone(),
            token,
            acquired_at: self.minted_at,
            expires_in: left.saturating_sub(self.lock_delay),
            lock_delay: self.lock_delay,
            value: self.value.clone(),
        }
    }

    /// Returns its edge for the detector of deadlocks.
    pub fn edge(&self) -> HoldEdge {
        HoldEdge {
            owner: self.owner,
            session: self.session,
            actor: self.actor,
            client_name: self.client_name.clone(),
            mode: self.mode,
        }
    }
}

/// Reads a field after its length in two bytes.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
