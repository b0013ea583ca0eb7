//! The work of the script in Redis: the statements that it executes, and its commands.
//!
//! Redis's Lua has no hooks. Before each statement of the script stands a call of a command that does nothing and that the script
//! does not use, and Redis counts the calls of each command.

use std::time::Duration;

use leasehold_core::command::{Command, Op};
use leasehold_store::redis::{encode::LockScript, keys::Keys};
use leasehold_tests::RedisServer;

use crate::{
    baseline::Cost,
    pieces::{self, CYCLES, IN_A_CALL, TTL, acquire, command, name, release},
};

/// The command that counts, and its name in Redis's counts.
const STATEMENT: (&str, &str) = ("redis.call('DBSIZE') ", "dbsize");
/// Waiters of a contended name.
const WAITERS: u32 = 3;

/// Redis, which executes the script and counts.
struct Counting {
    redis: RedisServer,
    connection: redis::Connection,
    keys: Keys,
    script: LockScript,
    counted: String,
}

impl Counting {
    fn start() -> Self {
        let redis = RedisServer::start();
        let script = LockScript::of_database(0);
        let counted = with_counts(&script.text());
        Self {
            connection: redis.connection(),
            redis,
            keys: Keys::new("lock:"),
            script,
            counted,
        }
    }

    /// Executes commands in one call.
    fn call(&mut self, commands: &[Command]) {
        let call = pieces::call(commands, &self.keys, 1, &self.script);
        let mut eval = redis::cmd("EVAL");
        eval.arg(&self.counted);
        // The hash is that of the script as it is.
        for argument in call.args_iter().skip(2) {
            match argument {
                redis::Arg::Simple(bytes) => eval.arg(bytes),
                other => unreachable!("{other:?}"),
            };
        }
        let replies: Vec<redis::Value> = eval.query(&mut self.connection).unwrap();
        assert_eq!(replies.len(), commands.len() + 2, "{replies:?}");
        assert!(!format!("{replies:?}").contains("Error"), "{replies:?}");
    }

    fn call_one(&mut self, op: Op) {
        self.call(&[command(name(0), op)]);
    }

    fn reset(&mut self) {
        redis::cmd("CONFIG")
            .arg("RESETSTAT")
            .exec(&mut self.connection)
            .unwrap();
    }

    /// Returns what was executed since the reset, for each of `cycles`.
    fn cost(self, cycles: u32) -> Cost {
        let stats: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut self.redis.connection())
            .unwrap();
        let counts = stats.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls: f64 = rest.split(',').next()?.parse().ok()?;
            // The calls themselves, and what the test asks.
            let is_own =
                ["eval", "info", "config|resetstat"].contains(&name) || name.starts_with("client|");
            let name = if name == STATEMENT.1 {
                "statements"
            } else {
                name
            };
            (!is_own).then(|| (name.to_owned(), calls))
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_by(|(left, _), (right, _)| left.cmp(right));
        Cost::new(counts).each_of(f64::from(cycles))
    }
}

/// Counts what `run` does, which was done once before, so that the record of the last hold is there.
fn cost_of(run: impl Fn(&mut Counting, u32)) -> Cost {
    let mut counting = Counting::start();
    run(&mut counting, 0);
    counting.reset();
    (1..=CYCLES).for_each(|number| run(&mut counting, number));
    counting.cost(CYCLES)
}

/// Measures an acquire and its release, each in a call of its own.
pub(crate) fn uncontended() -> Cost {
    cost_of(|counting, number| {
        counting.call_one(acquire(number));
        counting.call_one(release(number));
    })
}

/// Measures acquires and releases of many names in a call.
pub(crate) fn together() -> Cost {
    let batches = pieces::batches();
    let each = cost_of(|counting, _| batches.iter().for_each(|batch| counting.call(batch)));
    each.each_of(IN_A_CALL as f64)
}

/// Measures the renewal of one hold.
pub(crate) fn renewal() -> Cost {
    let mut counting = Counting::start();
    counting.call_one(acquire(0));
    counting.reset();
    for _ in 0..CYCLES {
        counting.call_one(Op::Renew {
            token: None,
            owner: pieces::owner(0),
            ttl: TTL + Duration::from_secs(1),
        });
    }
    counting.cost(CYCLES)
}

/// Measures a release that hands the lock on, and the acquire of a place at the end of the queue.
pub(crate) fn contended() -> Cost {
    let mut counting = Counting::start();
    for number in 0..=WAITERS {
        counting.call_one(acquire(number));
    }
    counting.reset();
    for number in 0..CYCLES {
        counting.call_one(release(number));
        counting.call_one(acquire(number + WAITERS + 1));
    }
    counting.cost(CYCLES)
}

/// Returns a script with the call that counts before each statement. What stands between brackets is part of a statement, and so
/// is a line that continues the one before.
fn with_counts(script: &str) -> String {
    const INSIDE: [&str; 9] = [
        "end", "else", "elseif", "until", "then", "and", "or", "not", "function",
    ];
    const GOES_ON: [&str; 4] = ["and", "or", "not", "in"];
    let mut text = String::new();
    let (mut depth, mut is_complete) = (0_i32, true);
    for line in script.lines() {
        let code = without_strings(line);
        let code = code.trim();
        let mut words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let first = words.next().unwrap_or_default();
        let is_function = INSIDE.contains(&first) || code.starts_with("local function");
        if depth == 0 && is_complete && !first.is_empty() && !is_function {
            text += STATEMENT.0;
        }
        text += line;
        text.push('\n');
        depth += code.matches(['(', '{', '[']).count() as i32;
        depth -= code.matches([')', '}', ']']).count() as i32;
        if !code.is_empty() {
            let last = code.rsplit(|letter: char| !letter.is_alphanumeric());
            let last = last.into_iter().next().unwrap_or_default();
            is_complete = !code.ends_with(['=', ',', '.', '+', '-', '*', '/', '<', '>'])
                && !GOES_ON.contains(&last);
        }
    }
    text
}

/// Returns a line of Lua without its comment and with empty strings.
fn without_strings(line: &str) -> String {
    let (mut code, mut open, mut last) = (String::new(), None, ' ');
    for letter in line.chars() {
        match open {
            Some(quote) if letter == quote => open = None,
            Some(_) => continue,
            None if letter == '-' && last == '-' => {
                code.pop();
                break;
            }
            None if letter == '\'' || letter == '"' => open = Some(letter),
            None => {}
        }
        code.push(letter);
        last = letter;
    }
    code
}

#[test]
fn statements_are_counted_where_they_begin() {
    let script = "-- A comment (\nlocal function f(a)\n  local b = {\n    c = 1, -- {\n  }\n  if a\n    and b then return ')' end\n  \
                  return a ..\n    b\nend\nf(1)\n";
    let counted = with_counts(script);
    let found: Vec<_> = counted
        .lines()
        .filter_map(|line| line.strip_prefix(STATEMENT.0))
        .map(str::trim)
        .collect();
    assert_eq!(found, ["local b = {", "if a", "return a ..", "f(1)"]);
}
