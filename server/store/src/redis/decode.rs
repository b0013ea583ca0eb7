//! Decoder of script replies.

use std::num::NonZeroU32;

use leasehold_core::{
    command::{
        Acquire, Current, Executed, Handed, HoldAt, Loss, OwnerAt, Reply, ResumedTerms,
        ResumedWaiter,
    },
    id::{FencingToken, OwnerId},
    time::StoreTime,
    view::{HoldEdge, HoldView, HolderView, NameEdges, NameView, WaitEdge, WaiterView},
};
use redis::{ServerError, Value};

use super::fields::{Decoded, Extras, Fields, Garbled};

/// Decodes the reply to a call: the answer to each command, or the error of one that failed.
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
        .rest()
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
            (long_answer(fields, at)?, handed, more)
        }
    };
    Ok(Executed {
        reply,
        at,
        handed,
        more,
    })
}

/// Decodes the answers that are one number: see `lua/common.lua`.
fn short_answer(number: i64) -> Decoded<Reply> {
    let ended = |held, waited| Reply::Released {
        held,
        waited,
        closed_for: None,
    };
    Ok(match number {
        1.. => Reply::Granted {
            token: FencingToken::new(number),
            permits: None,
        },
        -1 => Reply::Late,
        -2 => Reply::Renewed,
        -3 => ended(true, false),
        -4 => ended(false, false),
        -5 => ended(false, true),
        -8..=-6 => Reply::Lost(loss(number)?),
        -13 => Reply::Lost(Loss::Resumed),
        -14 => Reply::Lost(Loss::Forced),
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

fn long_answer(mut fields: Fields, at: StoreTime) -> Decoded<Reply> {
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
            Reply::Forced {
                former: owners(&mut fields)?,
                released,
                token,
            }
        }
        6 => Reply::Seen(Box::new(seen(&mut fields)?)),
        7 => Reply::OtherLimit {
            limit: fields.limit()?,
        },
        8 => Reply::Edges(Box::new(NameEdges {
            complete: fields.flag()?,
            holders: fields.each(hold_edge)?,
            waiters: fields.each(|mut edge| Ok(wait_edge(edge.owner()?, waiter(edge)?)))?,
            limit: fields.optional_limit()?,
        })),
        9 => {
            let token = fields.token()?;
            let Extras {
                mode,
                actor,
                max_hold,
                ..
            } = fields.extras()?;
            let (lock_delay, granted_at) = (fields.time_left()?, fields.time()?);
            let (_, predecessors) = fields.sessions()?;
            Reply::Resumed {
                token,
                mode,
                actor,
                terms: Box::new(ResumedTerms {
                    lock_delay,
                    ends_in: max_hold.map(|max_hold| at.until(granted_at.after(max_hold))),
                    predecessors,
                }),
            }
        }
        10 => Reply::ResumedWait {
            waiter: Box::new(resumed_waiter(&mut fields)?),
            position: fields.count()?,
            expires_in: fields.expiry()?,
        },
        11 => Reply::Asked {
            holders: holds(&mut fields)?,
        },
        12 => Reply::Granted {
            token: fields.token()?,
            permits: Some(fields.number()?),
        },
        _ => return Err(Garbled::Shape("unknown status")),
    })
}

/// Decodes the grants to waiters, and whether there could be more: see `lua/common.lua`.
fn handed(fields: &mut Fields) -> Decoded<(Vec<Handed>, bool)> {
    let Some(mut list) = fields.list()? else {
        return Ok((Vec::new(), false));
    };
    let mut handed = Vec::with_capacity(list.left() / 5);
    while list.left() > 1 {
        handed.push(Handed {
            owner: list.owner()?,
            token: list.token()?,
            coordinator: list.coordinator()?,
            of_session: list.flag()?,
            permits: list.optional_number()?.and_then(NonZeroU32::new),
        });
    }
    Ok((handed, list.left() > 0))
}

/// Decodes a resumed waiter.
fn resumed_waiter(fields: &mut Fields) -> Decoded<ResumedWaiter> {
    let (owner, (session, predecessors)) = (fields.owner()?, fields.sessions()?);
    let Extras {
        mode,
        actor,
        max_hold,
        ..
    } = fields.extras()?;
    let acquire = Acquire {
        owner,
        session,
        actor,
        client_name: fields.client_name()?,
        mode,
        ttl: fields.time_left()?,
        lock_delay: fields.time_left()?,
        max_hold,
        value: fields.value()?,
        wait: true,
        again: false,
    };
    Ok(ResumedWaiter {
        acquire,
        predecessors,
    })
}

fn current(mut fields: Fields) -> Decoded<Current> {
    Ok(Current {
        owner: fields.owner()?,
        token: fields.token()?,
        of_session: fields.flag()?,
        permits: fields.optional_number()?,
    })
}

/// Decodes holders, and sorts them by owner id.
fn owners(fields: &mut Fields) -> Decoded<Vec<OwnerAt>> {
    let mut owners = fields.each(|mut holder| owner_at(&mut holder))?;
    owners.sort_unstable_by_key(|holder| holder.owner);
    Ok(owners)
}

/// Decodes holders and their tokens, and sorts them by owner id.
fn holds(fields: &mut Fields) -> Decoded<Vec<HoldAt>> {
    let mut holds = fields.each(|mut hold| {
        Ok(HoldAt {
            holder: owner_at(&mut hold)?,
            token: hold.token()?,
        })
    })?;
    holds.sort_unstable_by_key(|hold| hold.holder.owner);
    Ok(holds)
}

fn owner_at(fields: &mut Fields) -> Decoded<OwnerAt> {
    Ok(OwnerAt {
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
    let (session, predecessors) = fields.sessions()?;
    let Extras {
        mode,
        actor,
        count,
        max_hold,
    } = fields.extras()?;
    Ok(HolderView::Ours(Box::new(HoldView {
        session,
        predecessors,
        actor,
        client_name: fields.client_name()?,
        mode,
        count,
        coordinator: fields.coordinator()?,
        token: fields.token()?,
        acquired_at: fields.time()?,
        expires_in: fields.time_left()?,
        lock_delay: fields.time_left()?,
        max_hold,
        value: fields.value()?,
    })))
}

pub(super) fn seen(fields: &mut Fields) -> Decoded<NameView> {
    Ok(NameView {
        holders: fields.each(holder)?,
        holder_count: fields.count()?,
        closed_for: fields.non_zero()?,
        limit: fields.optional_limit()?,
        permits_taken: fields.count()?,
        token: Some(fields.token()?).filter(|token| token.get() != 0),
        waiter_count: fields.count()?,
        waiters: fields.each(waiter)?,
    })
}

pub(super) fn waiter(mut fields: Fields) -> Decoded<WaiterView> {
    let (coordinator, since) = (fields.coordinator()?, fields.time()?);
    let (session, predecessors) = fields.sessions()?;
    let Extras { mode, actor, .. } = fields.extras()?;
    Ok(WaiterView {
        session,
        predecessors,
        actor,
        client_name: fields.client_name()?,
        mode,
        coordinator,
        since,
        number: fields.waiter_number()?,
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

/// Returns the edge of a waiter for the detector of deadlocks.
pub(crate) fn wait_edge(owner: OwnerId, waiter: WaiterView) -> WaitEdge {
    WaitEdge {
        owner,
        session: waiter.session,
        actor: waiter.actor,
        client_name: waiter.client_name,
        mode: waiter.mode,
        since: waiter.since,
    }
}
