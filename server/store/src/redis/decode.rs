//! Script replies to answers.

use std::time::Duration;

use leasehold_core::{
    command::{Current, Executed, Former, Handed, Loss, Reply},
    id::{CoordinatorId, FencingToken, OwnerId, SessionId},
    name::{ClientName, Value as LockValue},
    time::StoreTime,
    view::{HoldView, HolderView, NameView, WaiterView},
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

type Decoded<T> = Result<T, Garbled>;

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
    let (reply, handed) = match item {
        Value::Int(number) => (short_answer(number)?, None),
        item => long_answer(Fields::of(item)?)?,
    };
    Ok(Executed { reply, at, handed })
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
        -6 => Reply::Lost(Loss::Deleted),
        -7 => Reply::Lost(Loss::Taken),
        -8 => Reply::Lost(Loss::Expired),
        -9 => Reply::ValueSet(true),
        -10 => Reply::ValueSet(false),
        _ => return Err(Garbled::Shape("unknown number")),
    })
}

fn long_answer(mut fields: Fields) -> Decoded<(Reply, Option<Handed>)> {
    let handed = fields.list()?.map(handed).transpose()?;
    let reply = match fields.int()? {
        1 => Reply::Queued {
            position: fields.count()?,
            expires_in: fields.expiry()?,
        },
        2 => Reply::Busy {
            holder: holder(&mut fields)?,
        },
        3 => Reply::Released {
            held: true,
            waited: false,
            closed_for: fields.non_zero()?,
        },
        4 => Reply::Refreshed {
            current: fields.list()?.map(current).transpose()?,
            expires_in: fields.expiry()?,
            attached: fields.flag()?,
        },
        5 => Reply::Forced {
            released: fields.flag()?,
            token: fields.token()?,
            former: fields.list()?.map(former).transpose()?,
        },
        6 => Reply::Seen(Box::new(seen(&mut fields)?)),
        _ => return Err(Garbled::Shape("unknown status")),
    };
    Ok((reply, handed))
}

fn handed(mut fields: Fields) -> Decoded<Handed> {
    Ok(Handed {
        owner: fields.owner()?,
        token: fields.token()?,
        coordinator: fields.coordinator()?,
        of_session: fields.flag()?,
    })
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

fn holder(fields: &mut Fields) -> Decoded<Option<HolderView>> {
    let Some(mut hold) = fields.list()? else {
        return Ok(None);
    };
    if hold.left() == 2 {
        hold.bytes()?;
        return Ok(Some(HolderView::Foreign {
            expires_in: hold.expiry()?,
        }));
    }
    Ok(Some(HolderView::Ours(Box::new(HoldView {
        session: hold.session()?,
        client_name: hold.client_name()?,
        coordinator: hold.coordinator()?,
        token: hold.token()?,
        acquired_at: StoreTime::from_micros(hold.int()?),
        expires_in: hold.expiry()?.unwrap_or_default(),
        lock_delay: hold.expiry()?.unwrap_or_default(),
        value: LockValue::parse(&hold.bytes()?).map_err(|_| Garbled::Shape("value"))?,
    }))))
}

fn seen(fields: &mut Fields) -> Decoded<NameView> {
    let holder = holder(fields)?;
    let closed_for = fields.non_zero()?;
    let token = Some(fields.token()?).filter(|token| token.get() != 0);
    let waiter_count = fields.count()?;
    let mut waiters = Vec::new();
    let mut list = fields.list()?.ok_or(Garbled::Shape("no waiters"))?;
    while list.left() > 0 {
        let mut waiter = list.list()?.ok_or(Garbled::Shape("no waiter"))?;
        waiters.push(WaiterView {
            coordinator: waiter.coordinator()?,
            since: StoreTime::from_micros(waiter.int()?),
            session: waiter.session()?,
            client_name: waiter.client_name()?,
        });
    }
    Ok(NameView {
        holder,
        closed_for,
        token,
        waiters,
        waiter_count,
    })
}

/// The elements of an array, one after the other.
struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    fn of(value: Value) -> Decoded<Self> {
        match value {
            Value::Array(items) => Ok(Self(items.into_iter())),
            _ => Err(Garbled::Shape("not an array")),
        }
    }

    fn left(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self) -> Decoded<Value> {
        self.0.next().ok_or(Garbled::Shape("too short"))
    }

    fn int(&mut self) -> Decoded<i64> {
        match self.next()? {
            Value::Int(int) => Ok(int),
            _ => Err(Garbled::Shape("not an integer")),
        }
    }

    fn bytes(&mut self) -> Decoded<Vec<u8>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(Garbled::Shape("not a string")),
        }
    }

    /// A nested array, or nothing where the script replied `false`.
    fn list(&mut self) -> Decoded<Option<Self>> {
        match self.next()? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            list => Self::of(list).map(Some),
        }
    }

    fn flag(&mut self) -> Decoded<bool> {
        Ok(self.int()? != 0)
    }

    fn count(&mut self) -> Decoded<u64> {
        u64::try_from(self.int()?).map_err(|_| Garbled::Shape("negative count"))
    }

    fn token(&mut self) -> Decoded<FencingToken> {
        self.int().map(FencingToken::new)
    }

    /// Milliseconds, nothing where there is no expiry.
    fn expiry(&mut self) -> Decoded<Option<Duration>> {
        Ok(u64::try_from(self.int()?).ok().map(Duration::from_millis))
    }

    /// Milliseconds, nothing where they are 0.
    fn non_zero(&mut self) -> Decoded<Option<Duration>> {
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
