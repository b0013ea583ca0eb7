//! Replies and messages of Redis, in the place of those of the scripts and of the commands that describe servers.
//!
//! A reply is read as the answer to a call of scripts, a description of a cluster, the marks of ended sessions, the blocked waits
//! of other coordinators and each answer of a quorum's master. What is refused is refused with words.

use arbitrary::{Arbitrary, Unstructured};
use leasehold_store::fuzzing::{
    read_cluster, read_published, read_record, read_reply, read_reply_of_quorum,
};
use redis::{Value, parse_redis_value};

/// Number that ties the replies to their call.
const NONCE: u64 = 1;

/// Reads one reply: bytes of Redis's protocol, or a tree that is shaped like an answer.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 8 {
        0 => read_published(rest),
        1 => read_record(rest),
        2 => {
            if let Ok(reply) = parse_redis_value(rest) {
                read(&reply, 1);
            }
        }
        3 => {
            let _ = cluster(&mut Unstructured::new(rest));
        }
        4 => {
            let _ = published(&mut Unstructured::new(rest));
        }
        _ => {
            let _ = shaped(&mut Unstructured::new(rest));
        }
    }
}

fn read(reply: &Value, commands: usize) {
    let refused = read_reply(reply, NONCE, commands);
    let by_quorum = read_reply_of_quorum(reply, NONCE);
    assert!(refused.iter().chain(&by_quorum).all(|why| !why.is_empty()));
}

fn shaped(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut reply = vec![Value::Int(1), number(u)?];
    match u.int_in_range(0..=3)? {
        // One of a quorum's master.
        0 => {
            reply.push(Value::Int(u.int_in_range(-1..=6)?));
            for _ in 0..u.int_in_range(0..=5)? {
                reply.push(part(u, 0)?);
            }
            read(&Value::Array(reply), 1);
        }
        // Marks and blocked waits.
        1 => {
            reply.truncate(1);
            for _ in 0..u.int_in_range(0..=3)? {
                let waits = match u.int_in_range(0..=2)? {
                    0 => Value::Nil,
                    1 => publication(u)?,
                    _ => number(u)?,
                };
                reply.push(list(vec![text(u)?, number(u)?, waits, number(u)?]));
            }
            read(&Value::Array(reply), 1);
        }
        _ => {
            let commands = u.int_in_range(0..=3)?;
            for _ in 0..commands {
                reply.push(answer(u)?);
            }
            read(&Value::Array(reply), commands);
        }
    }
    Ok(())
}

fn answer(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let status = u.int_in_range(-1..=13)?;
    if status < 0 {
        return Ok(Value::Int(u.int_in_range(-15..=3)?));
    }
    let handed = match u.int_in_range(0..=3)? {
        0 => list(parts(u, "ontnn")?),
        _ => Value::Nil,
    };
    let mut answer = vec![handed, Value::Int(status)];
    match status {
        0 | 3 => answer.push(number(u)?),
        2 => answer.push(holder(u)?),
        4 => {
            answer.push(list(vec![list(parts(u, "onnn")?)]));
            answer.extend(parts(u, "nn")?);
        }
        5 => {
            answer.extend(parts(u, "nn")?);
            answer.push(owners(u)?);
        }
        6 => answer.extend(seen(u)?),
        8 => {
            let hold = list(vec![list(parts(u, "oset")?)]);
            let wait = list(vec![list(parts(u, "otnsetn")?)]);
            answer.extend([number(u)?, hold, wait]);
            answer.extend(parts(u, "nn")?);
        }
        9 => answer.extend(parts(u, "nenns")?),
        10 => answer.extend(parts(u, "osetnntnn")?),
        11 => answer.push(owners(u)?),
        _ => answer.extend(parts(u, "nn")?),
    }
    // Rarely, something else stands in the place of one part.
    if u.ratio(1, 8)? {
        let at = u.choose_index(answer.len())?;
        answer[at] = any(u, 0)?;
    }
    Ok(Value::Array(answer))
}

fn seen(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<Value>> {
    let waiter = list(parts(u, WAITER)?);
    let mut seen = vec![list(vec![holder(u)?])];
    seen.extend(parts(u, "nnnnnnn")?);
    seen.push(list(vec![waiter]));
    Ok(seen)
}

const WAITER: &str = "tnsetn";

fn holder(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let is_foreign = u.ratio(1, 4)?;
    let shape = if is_foreign { "tn" } else { "settnnnnt" };
    Ok(list(parts(u, shape)?))
}

fn owners(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let pair = list(parts(u, "ot")?);
    Ok(list(vec![pair, list(parts(u, "ot")?)]))
}

/// Returns parts of a reply: owner ids, sessions, extras, texts and numbers, by their first letters.
fn parts(u: &mut Unstructured<'_>, shape: &str) -> arbitrary::Result<Vec<Value>> {
    let part = |letter| match letter {
        'o' => owner(u),
        's' => sessions(u),
        'e' => extras(u),
        't' => text(u),
        _ => number(u),
    };
    shape.chars().map(part).collect()
}

/// Something that scripts publish for watchers, as they encode it.
fn published(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let kinds = "granted, queued, withdrawn, released, expired, lost, forced holder, forced waiter, forced, \
                 value, downgraded, reduced, requested, resumed, limit";
    let kinds: Vec<_> = kinds.split(", ").collect();
    let mut changes = Vec::new();
    for _ in 0..u.int_in_range(0..=2)? {
        let subject = match u.int_in_range(0..=2)? {
            0 => list(parts(u, WAITER)?),
            1 => number(u)?,
            _ => holder(u)?,
        };
        changes.push(list(vec![
            bulk(u.choose(&kinds)?.as_bytes()),
            subject,
            number(u)?,
        ]));
    }
    let looked = if bool::arbitrary(u)? {
        list(seen(u)?)
    } else {
        Value::Nil
    };
    let message = vec![
        bulk(b"lock:a"),
        number(u)?,
        list(changes),
        number(u)?,
        looked,
    ];
    let mut bytes = Vec::new();
    write(&list(message), &mut bytes);
    read_published(&bytes);
    Ok(())
}

/// A description of a cluster by one of its nodes.
fn cluster(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut nodes = String::new();
    let mut slots = Vec::new();
    for node in ["a", "b"] {
        let flags = u.choose(&["myself,master", "master", "slave", ""])?;
        let epoch = u.choose(&[
            "0",
            "7",
            "18446744073709551615",
            "18446744073709551616",
            "x",
            "",
        ])?;
        nodes.push_str(&format!(
            "{node} 10.0.0.1:7000@17000 {flags} - 0 0 {epoch} connected 0-9\n"
        ));
        let host = match u.int_in_range(0..=4)? {
            0 => Value::Nil,
            1 => bulk(b"?"),
            2 => text(u)?,
            _ => bulk(b"10.0.0.1"),
        };
        let metadata = list(vec![bulk(b"ip"), any(u, 2)?]);
        let port = Value::Int(*u.choose(&[7000, 0, 65_535, 65_536, -1])?);
        let node = list(vec![host, port, bulk(node.as_bytes()), metadata]);
        let ends = [
            *u.choose(&[0, 16_383, 16_384, -1])?,
            *u.choose(&[9, 0, 16_383, 70_000])?,
        ];
        slots.push(list(vec![
            Value::Int(ends[0]),
            Value::Int(ends[1]),
            node.clone(),
            node,
        ]));
    }
    if u.ratio(1, 4)? {
        let at = u.choose_index(slots.len())?;
        slots[at] = any(u, 0)?;
    }
    let nodes = if u.ratio(1, 8)? {
        any(u, 0)?
    } else {
        bulk(nodes.as_bytes())
    };
    let why = read_cluster(&list(slots), &nodes);
    assert!(why.is_none_or(|why| !why.is_empty()));
    Ok(())
}

fn publication(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let mut bytes = vec![1, u.int_in_range(0..=1)?];
    let sessions = u.int_in_range(0..=2)?;
    bytes.extend([0, sessions]);
    bytes.extend([5; 16].repeat(usize::from(sessions)));
    for _ in 0..u.int_in_range(0..=2)? {
        bytes.extend(u.arbitrary::<[u8; 16]>()?);
        bytes.extend(u.arbitrary::<[u8; 8]>()?);
        bytes.extend([9; 16]);
        bytes.extend([0, u.int_in_range(0..=2)?]);
        bytes.extend(b"a");
    }
    Ok(Value::BulkString(bytes))
}

fn part(u: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Value> {
    match u.int_in_range(0..=8)? {
        0 => owner(u),
        1 => sessions(u),
        2 => extras(u),
        3 => text(u),
        4 => any(u, depth),
        5 => record(u),
        _ => number(u),
    }
}

fn record(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let mut bytes = Vec::new();
    bytes.extend(u.arbitrary::<i64>()?.to_be_bytes());
    bytes.extend(u.arbitrary::<i64>()?.to_be_bytes());
    if bool::arbitrary(u)? {
        bytes.extend([9; 16]);
        bytes.push(u.arbitrary()?);
        bytes.extend(u.arbitrary::<u64>()?.to_be_bytes());
        bytes.extend(b"\0\x02c0\x10");
        bytes.extend([5; 16]);
        let Value::BulkString(extras) = extras(u)? else {
            return Ok(Value::Nil);
        };
        bytes.push(u8::try_from(extras.len()).unwrap_or(u8::MAX));
        bytes.extend(extras);
        bytes.extend(b"\0\x02meva");
    }
    Ok(Value::BulkString(bytes))
}

fn number(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    Ok(Value::Int(match u.int_in_range(0..=5)? {
        0 => *u.choose(&[0, -1, i64::MIN, i64::MAX, 1 << 53, 1 << 32, 1 << 31])?,
        1 => i64::arbitrary(u)?,
        2 => 1_700_000_000_000_000 + i64::from(u32::arbitrary(u)?),
        _ => u.int_in_range(-14..=50)?,
    }))
}

fn owner(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => bulk(<&[u8]>::arbitrary(u)?),
        1 => Value::Nil,
        owner => bulk(&[owner; 16]),
    })
}

fn sessions(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => bulk(<&[u8]>::arbitrary(u)?),
        number => bulk(&[number; 16].repeat(usize::from(number - 1))),
    })
}

fn extras(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    if u.ratio(1, 3)? {
        return Ok(bulk(b""));
    }
    let mut bytes = vec![*u.choose(b"xspp?")?];
    let length = *u.choose(&[20, 28, 32, 36, 36, 1])?;
    bytes.extend(u.bytes(length)?);
    if bool::arbitrary(u)? && bytes.len() >= 9 {
        // Permits within their limit.
        bytes[1..9].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 5]);
    }
    Ok(Value::BulkString(bytes))
}

fn text(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    Ok(match u.int_in_range(0..=5)? {
        0 => bulk(<&[u8]>::arbitrary(u)?),
        1 => bulk(&[b'x'; 5_000]),
        _ => bulk(b"c0"),
    })
}

/// Returns any value, of few levels.
fn any(u: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Value> {
    Ok(match u.int_in_range(0..=if depth < 3 { 10 } else { 7 })? {
        0 => Value::Nil,
        1 => Value::Int(u.arbitrary()?),
        2 => bulk(<&[u8]>::arbitrary(u)?),
        3 => Value::SimpleString(<&str>::arbitrary(u)?.to_owned()),
        4 => Value::Okay,
        5 => Value::Double(u.arbitrary()?),
        6 => Value::Boolean(u.arbitrary()?),
        7 => {
            let codes = [
                "READONLY x",
                "OOM",
                "MOVED 1 h:1",
                "ASK",
                "WRONGTYPE",
                "NOSCRIPT",
                "ERR -READONLY y",
                "TRYAGAIN",
            ];
            let error = format!("-{} {}\r\n", u.choose(&codes)?, u8::arbitrary(u)?);
            parse_redis_value(error.as_bytes()).unwrap_or(Value::Nil)
        }
        8 => Value::Map(vec![(any(u, depth + 1)?, any(u, depth + 1)?)]),
        9 => Value::Set(vec![any(u, depth + 1)?]),
        _ => list(vec![any(u, depth + 1)?, any(u, depth + 1)?]),
    })
}

fn list(items: Vec<Value>) -> Value {
    Value::Array(items)
}

fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

/// Writes a value as Redis does.
fn write(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Int(number) => bytes.extend(format!(":{number}\r\n").into_bytes()),
        Value::BulkString(text) => {
            bytes.extend(format!("${}\r\n", text.len()).into_bytes());
            bytes.extend(text);
            bytes.extend(b"\r\n");
        }
        Value::Array(items) => {
            bytes.extend(format!("*{}\r\n", items.len()).into_bytes());
            for item in items {
                write(item, bytes);
            }
        }
        _ => bytes.extend(b"$-1\r\n"),
    }
}
