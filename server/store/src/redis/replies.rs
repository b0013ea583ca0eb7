//! Replies that concern a whole batch: an emptied script cache, or a server that must not be used any more.

use redis::{ErrorKind, RedisResult, ServerError, ServerErrorKind, Value};

use super::status::DownCause;

/// Turns a reply into a result. Only the reply itself becomes an `Err`: an error inside an array is a script's answer
/// for one of its items, and stays where it is.
pub(super) fn into_result(reply: Value) -> RedisResult<Value> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

/// Returns whether the server does not know the script, so that it certainly did not run.
pub(super) fn is_missing_script(result: &RedisResult<Value>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
}

/// Passes every error reply to a function, errors inside arrays included.
pub(super) fn each_error(replies: &[Value], look: &mut impl FnMut(&ServerError)) {
    for reply in replies {
        match reply {
            Value::ServerError(error) => look(error),
            Value::Array(items) => each_error(items, look),
            _ => {}
        }
    }
}

/// Returns what an error reply says about the server as a whole, if it can't be used at all. The server sent it *instead of*
/// executing the command.
pub(super) fn unfit(error: &ServerError) -> Option<DownCause> {
    Some(DownCause::of(error.code(), error.details())).filter(|cause| cause.is_unfit())
}

/// Returns whether an error sends the command elsewhere or has it sent again, which is no refusal.
pub(super) fn is_redirection(error: &ServerError) -> bool {
    matches!(error.code(), "NOSCRIPT" | "MOVED" | "ASK" | "TRYAGAIN") || met_moving_key(error)
}

/// Returns whether a script met a key of a slot that is moving to another node. The error has no code of its own, and Valkey words it
/// differently.
pub(super) fn met_moving_key(error: &ServerError) -> bool {
    error.details().is_some_and(|details| {
        details.contains("non local key") || details.contains("during rehashing of the slot")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Value {
        redis::parse_redis_value(text.as_bytes()).unwrap()
    }

    fn unfit_server(replies: &[Value]) -> Option<DownCause> {
        let mut found = None;
        each_error(replies, &mut |error| found = found.or(unfit(error)));
        found
    }

    #[test]
    fn unfit_servers_are_found_wherever_they_say_so() {
        for text in [
            "-READONLY You can't write against a read only replica.\r\n",
            "-MASTERDOWN Link with MASTER is down\r\n",
            "*2\r\n:1\r\n*1\r\n-READONLY You can't write\r\n",
            // Redis 6.2, without and with pcall.
            "-ERR Error running script (call to f_1): @user_script:1: -READONLY You can't\r\n",
            "*1\r\n-@user_script: 1: -READONLY You can't write\r\n",
        ] {
            let replies = [Value::Okay, reply(text)];
            assert_eq!(unfit_server(&replies), Some(DownCause::NotMaster), "{text}");
        }
        let loading = [reply("-LOADING Redis is loading the dataset in memory\r\n")];
        assert_eq!(unfit_server(&loading), Some(DownCause::Loading));
    }

    #[test]
    fn errors_of_one_command_are_no_reason_to_leave() {
        for text in [
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "-NOSCRIPT No matching script\r\n",
            "-OOM command not allowed when used memory > 'maxmemory'\r\n",
            "*1\r\n-ERR no\r\n",
            "$8\r\nREADONLY\r\n",
        ] {
            assert!(unfit_server(&[reply(text)]).is_none(), "{text}");
        }
    }
}
