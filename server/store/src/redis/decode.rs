//! Script replies to answers.

use std::time::Duration;

use leasehold_core::{
    command::{Current, Executed, Former, Handed, Loss, Reply},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    mode::{Mode, Permits},
    name::{ClientName, Value as LockValue},
    time::StoreTime,
    view::{HoldEdge, HoldView, HolderView, NameEdges, NameView, WaitEdge, WaiterView},
};
use redis::{ServerError, Value};

/// What was wrong with a reply.
#[derive(Debug)]
pub enum Garbled {
    /// It answers another command: the connection has lost count of its replies.
    Foreign,
    /// It is not what the script replies.
    Shape(&'static str),
}

pub(super) type Decoded<T> = Result<T, Garbled>;

/// What a call replied: the answer to each command, or the error of one that failed.
pub fn decode(
    value: Value,
    nonce: u64,
    commands: usize,
) -> Decoded<Vec<Result<Executed, ServerError>>> {
    let mut fields = Fields::of(value)?;
    if fields.int()? != i64::try_from(nonce).unwrap_or(-1) {
        return Err(Garbled::Foreign);
    }
    let at = StoreTime::from_micros(fields.int()?);
    if fields.left() != commands {
        return Err(Garbled::Shape("it does not answer every command"));
    }
    fields
        .0
        .map(|item| match item {
            Value::ServerError(error) => Ok(Err(error)),
            item => answer(item, at).map(Ok),
        })
        .collect()
}

fn answer(item: Value, at: StoreTime) -> Decoded<Executed> {
    let (reply, handed, more) = match item {
        Value::Int(number) => (short_answer(number)?, Vec::new(), false),
        item => {
            let mut fields = Fields::of(item)?;
            let (handed, more) = handed(&mut fields)?;
            (long_answer(fields)?, handed, more)
        }
    };
    Ok(Executed {
        reply,
        at,
        handed,
        more,
    })
}

/// The answers that are one number: see `lua/common.lua`.
fn short_answer(number: i64) -> Decoded<Reply> {
    let ended = |held, waited| Reply::Released {
        held,
        waited,
        closed_for: None,
    };
    Ok(match number {
        1.. => Reply::Granted {
            token: FencingToken::new(number),
        },
        -1 => Reply::Late,
        -2 => Reply::Renewed,
        -3 => ended(true, false),
        -4 => ended(false, false),
        -5 => ended(false, true),
        -8..=-6 => Reply::Lost(loss(number)?),
        -9 => Reply::Changed(true),
        -10 => Reply::Changed(false),
        -11 => Reply::Looked,
        -12 => Reply::Unheard,
        _ => return Err(Garbled::Shape("unknown number")),
    })
}

pub(super) fn loss(number: i64) -> Decoded<Loss> {
    Ok(match number {
        -6 => Loss::Deleted,
        -7 => Loss::Taken,
        -8 => Loss::Expired,
        _ => return Err(Garbled::Shape("unknown loss")),
    })
}

fn long_answer(mut fields: Fields) -> Decoded<Reply> {
    Ok(match fields.int()? {
        0 => short_answer(fields.int()?)?,
        1 => Reply::Queued {
            position: fields.count()?,
            expires_in: fields.expiry()?,
        },
        2 => Reply::Busy {
            holder: fields.list()?.map(holder).transpose()?,
        },
        3 => Reply::Released {
            held: true,
            waited: false,
            closed_for: fields.non_zero()?,
        },
        4 => Reply::Refreshed {
            current: fields.each(current)?,
            expires_in: fields.expiry()?,
            attached: fields.flag()?,
        },
        5 => {
            let (released, token) = (fields.flag()?, fields.token()?);
            let mut former = fields.each(former)?;
            former.sort_unstable_by_key(|former| former.owner);
            Reply::Forced {
                former,
                released,
                token,
            }
        }
        6 => Reply::Seen(Box::new(seen(&mut fields)?)),
        7 => Reply::OtherLimit {
            limit: fields.number()?,
        },
        8 => Reply::Edges(Box::new(NameEdges {
            complete: fields.flag()?,
            holders: fields.each(hold_edge)?,
            waiters: fields.each(wait_edge)?,
        })),
        _ => return Err(Garbled::Shape("unknown status")),
    })
}

/// The grants to waiters, and whether there could be more: see `lua/common.lua`.
fn handed(fields: &mut Fields) -> Decoded<(Vec<Handed>, bool)> {
    let Some(mut list) = fields.list()? else {
        return Ok((Vec::new(), false));
    };
    let mut handed = Vec::with_capacity(list.left() / 4);
    while list.left() > 1 {
        handed.push(Handed {
            owner: list.owner()?,
            token: list.token()?,
            coordinator: list.coordinator()?,
            of_session: list.flag()?,
        });
    }
    Ok((handed, list.left() > 0))
}

fn current(mut fields: Fields) -> Decoded<Current> {
    Ok(Current {
        owner: fields.owner()?,
        token: fields.token()?,
        of_session: fields.flag()?,
    })
}

fn former(mut fields: Fields) -> Decoded<Former> {
    Ok(Former {
        owner: fields.owner()?,
        coordinator: fields.coordinator()?,
    })
}

pub(super) fn holder(mut fields: Fields) -> Decoded<HolderView> {
    if fields.left() == 2 {
        fields.bytes()?;
        return Ok(HolderView::Foreign {
            expires_in: fields.expiry()?,
        });
    }
    let session = fields.session()?;
    let Extras { mode, actor, count } = fields.extras()?;
    Ok(HolderView::Ours(Box::new(HoldView {
        session,
        actor,
        client_name: fields.client_name()?,
        mode,
        count,
        coordinator: fields.coordinator()?,
        token: fields.token()?,
        acquired_at: fields.time()?,
        expires_in: fields.expiry()?.unwrap_or_default(),
        lock_delay: fields.expiry()?.unwrap_or_default(),
        value: LockValue::parse(&fields.bytes()?).map_err(|_| Garbled::Shape("value"))?,
    })))
}

pub(super) fn seen(fields: &mut Fields) -> Decoded<NameView> {
    Ok(NameView {
        holders: fields.each(holder)?,
        holder_count: fields.count()?,
        closed_for: fields.non_zero()?,
        limit: Some(fields.number()?).filter(|limit| *limit != 0),
        permits_taken: fields.count()?,
        token: Some(fields.token()?).filter(|token| token.get() != 0),
        waiter_count: fields.count()?,
        waiters: fields.each(waiter)?,
    })
}

pub(super) fn waiter(mut fields: Fields) -> Decoded<WaiterView> {
    let (coordinator, since) = (fields.coordinator()?, fields.time()?);
    let session = fields.session()?;
    let Extras { mode, actor, .. } = fields.extras()?;
    Ok(WaiterView {
        session,
        actor,
        client_name: fields.client_name()?,
        mode,
        coordinator,
        since,
    })
}

fn hold_edge(mut fields: Fields) -> Decoded<HoldEdge> {
    let (owner, session) = (fields.owner()?, fields.session()?);
    let Extras { mode, actor, .. } = fields.extras()?;
    Ok(HoldEdge {
        owner,
        session,
        actor,
        client_name: fields.client_name()?,
        mode,
    })
}

fn wait_edge(mut fields: Fields) -> Decoded<WaitEdge> {
    let owner = fields.owner()?;
    let waiter = waiter(fields)?;
    Ok(WaitEdge {
        owner,
        session: waiter.session,
        actor: waiter.actor,
        client_name: waiter.client_name,
        mode: waiter.mode,
        since: waiter.since,
    })
}

/// What most holds do without: see `lua/hold.lua`.
struct Extras {
    mode: Mode,
    actor: Actor,
    count: u32,
}

impl Extras {
    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self {
                mode: Mode::Exclusive,
                actor: Actor::NOBODY,
                count: 1,
            });
        }
        let (letter, bytes) = bytes.split_first()?;
        let (permits, bytes) = bytes.split_first_chunk()?;
        let (limit, bytes) = bytes.split_first_chunk()?;
        let (actor, bytes) = bytes.split_first_chunk()?;
        let mode = match letter {
            b'x' => Mode::Exclusive,
            b's' => Mode::Shared,
            b'p' => {
                let (permits, limit) = (u32::from_be_bytes(*permits), u32::from_be_bytes(*limit));
                Mode::Semaphore(Permits::new(permits, limit).ok()?)
            }
            _ => return None,
        };
        Some(Self {
            mode,
            actor: Actor::new(u64::from_be_bytes(*actor)),
            count: u32::from_be_bytes(bytes.try_into().ok()?),
        })
    }
}

/// The elements of an array, one after the other.
pub(super) struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    pub(super) fn of(value: Value) -> Decoded<Self> {
        match value {
            Value::Array(items) => Ok(Self(items.into_iter())),
            _ => Err(Garbled::Shape("not an array")),
        }
    }

    fn left(&self) -> usize {
        self.0.len()
    }

    pub(super) fn next(&mut self) -> Decoded<Value> {
        self.0.next().ok_or(Garbled::Shape("too short"))
    }

    pub(super) fn int(&mut self) -> Decoded<i64> {
        match self.next()? {
            Value::Int(int) => Ok(int),
            _ => Err(Garbled::Shape("not an integer")),
        }
    }

    pub(super) fn bytes(&mut self) -> Decoded<Vec<u8>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(Garbled::Shape("not a string")),
        }
    }

    /// A nested array, or nothing where the script replied `false`.
    pub(super) fn list(&mut self) -> Decoded<Option<Self>> {
        match self.next()? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            list => Self::of(list).map(Some),
        }
    }

    pub(super) fn nested(&mut self) -> Decoded<Self> {
        self.list()?.ok_or(Garbled::Shape("no array"))
    }

    /// What the elements of a nested array are.
    pub(super) fn each<T>(&mut self, element: impl Fn(Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let list = self.nested()?.0;
        list.map(|item| element(Self::of(item)?)).collect()
    }

    fn flag(&mut self) -> Decoded<bool> {
        Ok(self.int()? != 0)
    }

    pub(super) fn count(&mut self) -> Decoded<u64> {
        u64::try_from(self.int()?).map_err(|_| Garbled::Shape("negative count"))
    }

    fn number(&mut self) -> Decoded<u32> {
        u32::try_from(self.int()?).map_err(|_| Garbled::Shape("number out of range"))
    }

    pub(super) fn time(&mut self) -> Decoded<StoreTime> {
        self.int().map(StoreTime::from_micros)
    }

    fn extras(&mut self) -> Decoded<Extras> {
        Extras::parse(&self.bytes()?).ok_or(Garbled::Shape("extras"))
    }

    fn token(&mut self) -> Decoded<FencingToken> {
        self.int().map(FencingToken::new)
    }

    /// Milliseconds, nothing where there is no expiry.
    fn expiry(&mut self) -> Decoded<Option<Duration>> {
        Ok(u64::try_from(self.int()?).ok().map(Duration::from_millis))
    }

    /// Milliseconds, nothing where they are 0.
    pub(super) fn non_zero(&mut self) -> Decoded<Option<Duration>> {
        Ok(self.expiry()?.filter(|duration| !duration.is_zero()))
    }

    fn owner(&mut self) -> Decoded<OwnerId> {
        OwnerId::parse(&self.bytes()?).ok_or(Garbled::Shape("owner id"))
    }

    fn session(&mut self) -> Decoded<Option<SessionId>> {
        let bytes = self.bytes()?;
        match bytes.len() {
            0 => Ok(None),
            _ => SessionId::parse(&bytes)
                .map(Some)
                .ok_or(Garbled::Shape("session")),
        }
    }

    fn text(&mut self) -> Decoded<String> {
        String::from_utf8(self.bytes()?).map_err(|_| Garbled::Shape("not UTF-8"))
    }

    fn coordinator(&mut self) -> Decoded<CoordinatorId> {
        Ok(CoordinatorId::new(&self.text()?))
    }

    fn client_name(&mut self) -> Decoded<ClientName> {
        ClientName::parse(&self.text()?).map_err(|_| Garbled::Shape("client name"))
    }
}
