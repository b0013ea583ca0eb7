//! Rights of the store's user: tries each command that coordinators need, on keys that do not exist and in forms that change
//! nothing, and reads which of them the server refuses. To ask for the user's rules would take a right of its own.

use leasehold_core::name::LockName;
use redis::{Cmd, ServerError, Value};

use super::Examination;
use crate::{
    examine::facts::{Refusal, Trouble},
    redis::{
        keys::{Channels, Key, LockKeys},
        replies::each_error,
        status::{DownCause, Fault},
        url::{Kind, RedisTarget},
    },
};

/// Channel on which nobody listens.
pub(super) fn channel() -> String {
    "lh:wake:leasehold-doctor".to_owned()
}

/// Returns the channel that every feed on a database listens to.
pub(super) fn gate(target: &RedisTarget) -> String {
    let gate = Channels::of_database(target.database()).gate();
    String::from_utf8_lossy(&gate).into_owned()
}

/// Rules that one command takes.
pub(super) struct Rules {
    command: &'static str,
    keys: String,
    /// Whether coordinators can't serve without it.
    is_needed: bool,
}

/// Returns the commands to try, each with the rules that it takes.
pub(super) fn trials(target: &RedisTarget, examination: &Examination) -> Vec<(Rules, Cmd)> {
    let name = format!("leasehold-doctor:{:016x}", fastrand::u64(..));
    // It is a name.
    let Ok(name) = LockName::parse(&name) else {
        return Vec::new();
    };
    let keys = examination.keys.of(&name);
    let prefix = keys.lock().trim_end_matches(name.as_str());
    let (of_locks, ours) = (format!("~{prefix}*"), "~lh:*".to_owned());
    let mut trials = Vec::new();
    let mut add = |command: &'static str, keys: &str, is_needed, cmd: Cmd| {
        let keys = keys.to_owned();
        let rules = Rules {
            command,
            keys,
            is_needed,
        };
        trials.push((rules, cmd));
    };
    // No form of HSET changes nothing, so it is not tried: rules give the commands of hashes as a category.
    for (command, words) in [
        ("get", &[][..]),
        ("mget", &[]),
        ("getex", &[]),
        ("exists", &[]),
        ("pttl", &[]),
        ("del", &[]),
        ("unlink", &[]),
        ("pexpire", &["1"]),
        ("pexpireat", &["1"]),
        ("set", &["", "XX", "PX", "1"]),
    ] {
        add(
            command,
            &of_locks,
            true,
            on(&keys, Key::Lock, command, words),
        );
    }
    for (command, words) in [
        ("get", &[][..]),
        ("hget", &["f"]),
        ("hmget", &["f"]),
        ("hgetall", &[]),
        ("hdel", &["f"]),
        ("zadd", &["XX", "0", "m"]),
        ("zcard", &[]),
        ("zlexcount", &["-", "+"]),
        ("zrange", &["0", "0"]),
        ("zrevrange", &["0", "0"]),
        ("zrangebylex", &["-", "+"]),
        ("zrangebyscore", &["0", "0"]),
        ("zrem", &["m"]),
        ("zremrangebyrank", &["0", "0"]),
        ("zremrangebyscore", &["0", "0"]),
        ("zscore", &["m"]),
    ] {
        add(command, &ours, true, on(&keys, Key::Record, command, words));
    }
    let no_script = "0".repeat(40);
    for (command, words) in [
        ("script|load", &["return 0"][..]),
        ("evalsha", &[&no_script, "0"]),
        ("time", &[]),
        ("scan", &["0", "MATCH", keys.lock(), "COUNT", "1"]),
        ("publish", &[&channel(), ""]),
        ("pubsub", &["NUMSUB", &channel()]),
    ] {
        add(command, "", true, of(command, words));
    }
    for (command, words) in [
        ("info", &["server"][..]),
        ("role", &[]),
        ("config|get", &["maxmemory-policy"]),
        ("client|setname", &["leasehold"]),
    ] {
        add(command, "", false, of(command, words));
    }
    if examination.acknowledged {
        add("wait", "", true, of("wait", &["0", "1"]));
    }
    if target.kind() == Kind::Node {
        add("spublish", "", true, of("spublish", &[&channel(), ""]));
        // The last one, as it concerns the next.
        add("asking", "", true, of("asking", &[]));
    }
    trials
}

/// Returns a command on a key.
fn on(keys: &LockKeys, key: Key, command: &str, words: &[&str]) -> Cmd {
    let mut cmd = redis::cmd(&command.to_ascii_uppercase());
    keys.write(&mut cmd, key);
    cmd.arg(words);
    cmd
}

/// Returns a command without a key.
fn of(command: &str, words: &[&str]) -> Cmd {
    let mut parts = command.split('|');
    let mut cmd = redis::cmd(&parts.next().unwrap_or_default().to_ascii_uppercase());
    for part in parts {
        cmd.arg(part.to_ascii_uppercase());
    }
    cmd.arg(words);
    cmd
}

/// Returns the rules that the replies show to be missing.
pub(super) fn refused(rules: Vec<Rules>, replies: &[Value]) -> Vec<Refusal> {
    let refused = rules.iter().zip(replies).filter_map(|(rules, reply)| {
        let Value::ServerError(error) = reply else {
            return None;
        };
        let rule = missing(rules, error)?;
        Some(Refusal {
            rule,
            is_needed: rules.is_needed,
            // No rule helps.
            is_unknown: is_unknown(error),
        })
    });
    refused.collect()
}

/// Returns why the server refuses commands to any user, once for each kind.
pub(super) fn refuses(server: &str, replies: &[Value]) -> Vec<Trouble> {
    let mut all: Vec<Trouble> = Vec::new();
    each_error(replies, &mut |error| {
        let fault = Fault::answered(&server, error);
        if fault.cause.refuses_some() && all.iter().all(|it| it.cause != fault.cause) {
            all.push(fault.into());
        }
    });
    all
}

fn is_unknown(error: &ServerError) -> bool {
    DownCause::of(error.code(), error.details()) == DownCause::CommandMissing
}

/// Returns the rule that an error says is missing. Redis checks the command first, then its keys and channels.
fn missing(rules: &Rules, error: &ServerError) -> Option<String> {
    let details = error.details().unwrap_or_default();
    // Renamed, or newer than the server; sharded channels are an advantage, and no need.
    let is_unknown = is_unknown(error) && rules.command != "spublish";
    if error.code() != "NOPERM" && !is_unknown {
        return None;
    }
    // "… to run the 'get' command", "… to access a key", "one of the channels used as arguments".
    Some(if is_unknown {
        rules.command.replace('|', " ").to_ascii_uppercase()
    } else if details.contains("channel") {
        "&lh:*".to_owned()
    } else if details.contains("command") || rules.keys.is_empty() {
        format!("+{}", rules.command)
    } else {
        rules.keys.clone()
    })
}

/// Returns the rule that a subscription shows to be missing, or why it failed otherwise.
pub(super) fn unheard(
    listens: Result<(), Fault>,
    target: &RedisTarget,
) -> Result<Option<Refusal>, Fault> {
    let fault = match listens {
        Ok(()) => return Ok(None),
        Err(fault) => fault,
    };
    let is_unknown = fault.cause == DownCause::CommandMissing;
    if !is_unknown && fault.cause != DownCause::NotPermitted {
        return Err(fault);
    }
    let is_of_channel = fault.reason.contains("channel");
    let rule = match fault.reason.contains("PSUBSCRIBE") {
        true if is_unknown => "PSUBSCRIBE".to_owned(),
        true if is_of_channel => format!("&{}", gate(target)),
        true => "+psubscribe".to_owned(),
        false if is_unknown => "SUBSCRIBE".to_owned(),
        false if is_of_channel => "&lh:*".to_owned(),
        false => "+subscribe".to_owned(),
    };
    Ok(Some(Refusal {
        rule,
        is_needed: true,
        is_unknown,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(command: &'static str, keys: &str, reply: &str) -> Option<String> {
        let reply = redis::parse_redis_value(reply.as_bytes()).unwrap();
        let rules = Rules {
            command,
            keys: keys.to_owned(),
            is_needed: true,
        };
        let refused = refused(vec![rules], &[reply]);
        refused.into_iter().next().map(|refusal| refusal.rule)
    }

    #[test]
    fn refusals_name_the_missing_rule() {
        for (keys, expected, replies) in [
            // Redis 7, and 6.2.
            (
                "~l*",
                Some("+get"),
                &[
                    "-NOPERM User u has no permissions to run the 'get' command\r\n",
                    "-NOPERM this user has no permissions to run the 'get' command or its subcommand\r\n",
                ][..],
            ),
            (
                "~l*",
                Some("GET"),
                &["-ERR unknown command 'GET', with args beginning with: 'k'\r\n"],
            ),
            (
                "~l*",
                Some("~l*"),
                &[
                    "-NOPERM No permissions to access a key\r\n",
                    "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n",
                ],
            ),
            (
                "",
                Some("&lh:*"),
                &["-NOPERM No permissions to access a channel\r\n"],
            ),
            (
                "",
                None,
                &[
                    ":0\r\n",
                    "-NOSCRIPT No matching script. Please use EVAL.\r\n",
                ],
            ),
        ] {
            for reply in replies {
                assert_eq!(rule("get", keys, reply).as_deref(), expected, "{reply}");
            }
        }
    }
}
