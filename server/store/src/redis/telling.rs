//! Decoder of the messages that scripts publish about changes: see `lua/watch.lua`.

use leasehold_core::{
    view::{HoldView, HolderView},
    watch::{Change, Telling},
};
use redis::Value;
use tracing::warn;

use super::{
    decode::{holder, loss, seen, waiter},
    fields::{Decoded, Fields, Garbled},
    keys::{Channels, Keys},
};
use crate::feed::{Subject, Told};

/// Returns the lock key at the beginning of a message.
pub(super) fn lock_of(payload: &[u8]) -> Option<&[u8]> {
    let rest = payload.strip_prefix(b"*5\r\n$");
    let rest = rest.or_else(|| payload.strip_prefix(b"*6\r\n$"))?;
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    let length: usize = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    rest.get(end + 2..)?.get(..length)
}

/// Returns whether a message, from the channel of a slot, is for one feed alone, and if so whether that has this channel.
pub(super) fn is_for_feed(payload: &[u8], channel: &[u8]) -> Option<bool> {
    let end = [b"\r\n", channel, b"\r\n"].concat();
    payload
        .starts_with(b"*6\r\n")
        .then(|| payload.ends_with(&end))
}

/// Returns the subject of a channel, if it is one of a subject.
pub(super) fn subject(channel: &[u8], channels: &Channels, keys: &Keys) -> Option<Subject> {
    if channel == channels.everything() {
        return Some(Subject::Everything);
    }
    keys.name_of(channels.lock_of(channel)?).map(Subject::Name)
}

/// Reads a message; `None` if it is of another application's lock in the same database, or not in the format of this version.
pub(super) fn read(payload: &[u8], subject: Option<Subject>, keys: &Keys) -> Option<Told> {
    decode(payload, subject, keys).unwrap_or_else(|_| {
        warn!("something was published that does not tell of locks as this version does");
        None
    })
}

fn decode(payload: &[u8], subject: Option<Subject>, keys: &Keys) -> Decoded<Option<Told>> {
    let value = redis::parse_redis_value(payload).map_err(|_| Garbled::Shape("not RESP"))?;
    let mut fields = Fields::of(value)?;
    let Some(name) = keys.name_of(&fields.bytes()?) else {
        return Ok(None);
    };
    Ok(Some(Told {
        subject,
        name,
        at: fields.time()?,
        telling: Telling {
            changes: fields.each(change)?,
            waiter_count: optional_count(&mut fields)?,
            looked: match fields.list()? {
                Some(mut looked) => Some(Box::new(seen(&mut looked)?)),
                None => None,
            },
        },
    }))
}

fn change(mut fields: Fields) -> Decoded<Change> {
    Ok(match &fields.bytes()?[..] {
        b"granted" => Change::Granted(hold(&mut fields)?),
        b"queued" => Change::Queued {
            waiter: Box::new(waiter(fields.nested()?)?),
            position: fields.count()?,
        },
        b"withdrawn" => Change::Withdrawn(Box::new(waiter(fields.nested()?)?)),
        b"released" => Change::Released {
            hold: optional_hold(&mut fields)?,
            closed_for: fields.non_zero()?,
        },
        b"expired" => Change::Expired(hold(&mut fields)?),
        b"lost" => Change::Lost {
            hold: optional_hold(&mut fields)?,
            loss: loss(fields.int()?)?,
        },
        b"forced holder" => Change::ForcedHolder(hold(&mut fields)?),
        b"forced waiter" => Change::ForcedWaiter(Box::new(waiter(fields.nested()?)?)),
        b"forced" => Change::Forced(optional_hold(&mut fields)?),
        b"value" => Change::ValueChanged(hold(&mut fields)?),
        b"downgraded" => Change::Downgraded(hold(&mut fields)?),
        b"reduced" => Change::Reduced {
            hold: hold(&mut fields)?,
            by: fields.number()?,
        },
        b"requested" => Change::ReleaseRequested(hold(&mut fields)?),
        b"resumed" => Change::Resumed(hold(&mut fields)?),
        b"shortened" => Change::Shortened(hold(&mut fields)?),
        b"limit" => Change::LimitChanged(fields.limit()?),
        b"doubtful" => Change::Doubtful,
        _ => return Err(Garbled::Shape("unknown change")),
    })
}

/// Reads a count; `None` if the script said `false`.
fn optional_count(fields: &mut Fields) -> Decoded<Option<u64>> {
    match fields.next()? {
        Value::Nil => Ok(None),
        Value::Int(count) => u64::try_from(count)
            .map(Some)
            .map_err(|_| Garbled::Shape("negative count")),
        _ => Err(Garbled::Shape("not an integer")),
    }
}

fn hold(fields: &mut Fields) -> Decoded<Box<HoldView>> {
    optional_hold(fields)?.ok_or(Garbled::Shape("no hold"))
}

fn optional_hold(fields: &mut Fields) -> Decoded<Option<Box<HoldView>>> {
    match fields.list()?.map(holder).transpose()? {
        None => Ok(None),
        Some(HolderView::Ours(hold)) => Ok(Some(hold)),
        Some(HolderView::Foreign { .. }) => Err(Garbled::Shape("a foreign hold")),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_for_feed, lock_of};

    #[test]
    fn a_message_for_one_feed_names_it_at_its_end() {
        let look = b"*6\r\n$4\r\nlock\r\n:1\r\n*0\r\n:0\r\n*0\r\n$6\r\nlh:a:1\r\n";
        assert_eq!(is_for_feed(look, b"lh:a:1"), Some(true));
        assert_eq!(is_for_feed(look, b"lh:a:2"), Some(false));
        assert_eq!(is_for_feed(look, b"a:1"), Some(false));
        assert_eq!(lock_of(look), Some(&b"lock"[..]));
        assert_eq!(is_for_feed(b"*5\r\n$4\r\nlock\r\n", b"lh:a:1"), None);
    }

    #[test]
    fn the_lock_of_a_message_is_found_without_reading_it() {
        let message = b"*5\r\n$4\r\nl\r\nk\r\n:1\r\n";
        assert_eq!(lock_of(message), Some(&b"l\r\nk"[..]));
        for broken in [
            &b""[..],
            b"*5\r\n$9\r\nl",
            b"*5\r\n$x\r\nl",
            b"*5\r\n$1",
            b"*5\r\n$1\r",
            b"*4\r\n$1\r\nl",
        ] {
            assert_eq!(lock_of(broken), None, "{broken:?}");
        }
    }
}
