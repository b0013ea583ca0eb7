//! Options of `bench`, and their help.

use std::{sync::Arc, time::Duration};

use crate::{duration::duration, show::text};

/// Most acquires at once: more would cost this process memory and show nothing more about the coordinator.
const MOST_AT_ONCE: u64 = 100_000;
/// Longest prefix, which leaves room for the rest of a name of at most 512 bytes.
const LONGEST_PREFIX: usize = 480;
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const ABOUT: &str = "\
Measure a deployment: how many locks a second, and how long each takes

Clients acquire a lock, hold it for --hold, release it, and begin again. Without --contended, every
client has its own names, and none waits for another. With --contended, all clients queue for one
name, which is handed from one to the next.";

pub(crate) const HELP: &str = "\
What is measured:
  acquire    from the request until the lock is held; with --contended that is mostly waiting
  hand-off   from one client's release until the next client's grant, as seen in this process,
             if that client was already waiting (--contended)
  release    from the request until the coordinator has confirmed it
  cycle      all of it, --hold included

Every client is one session of the Rust client: one lease stream on a connection of its own. The
figures include the client's own work, and all clients share this process and its processors: the
summary shows how much of them it used. A cycle counts if its release was confirmed within the
measured time.

Every grant is checked: no name may be held twice in this process, and the fencing tokens of a name
must rise. Otherwise the run ends at once. A lock that was force-released, or that the store lost,
can look like a violation too.

The names have a random prefix, so that the run touches no other locks. Do not set --names to a
prefix of an application: the locks are real, and the application would wait for them. Each name
leaves a record of its newest token in the store, which expires by itself.

INT (Ctrl-C), TERM and HUP end the run early: it releases its locks and prints what it measured.

Exit codes:
  0    done
  1    no cycle was completed, or another error
  64   invalid command line
  69   no coordinator is reachable, or it does not serve now
  76   exclusion or the order of fencing tokens was violated
  77   unknown identity, missing permission, or a TLS certificate that was not accepted
  128 + n if signal n interrupted it: 130 for Ctrl-C";

/// Options of `bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct BenchOptions {
    /// Number of clients, each with a session and a connection of its own: 1 to 10000
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,

    /// Number of acquires that each client has in flight: 1 to 1000, and at most 100000 over all clients
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) in_flight: u32,

    /// Prefix of the locks' names, which no application may use [default: bench/ and a random number]
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) names: Option<Arc<str>>,

    /// Have all clients contend for one lock, instead of locks of their own
    #[arg(long)]
    pub(crate) contended: bool,

    /// Time for which a client holds each lock: 0 to the duration
    #[arg(long, value_name = "DURATION", default_value = "0ms", value_parser = duration)]
    pub(crate) hold: Duration,

    /// Length of the measurement: 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = measured)]
    pub(crate) duration: Duration,

    /// Time to run before the measurement begins: 0 to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = warm_up)]
    pub(crate) warm_up: Duration,

    /// TTL of the sessions [default: the coordinator's, 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// Show no progress; none is shown if standard error is not a terminal
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl BenchOptions {
    /// Checks the options against one another.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.hold > self.duration {
            return Err(format!(
                "--hold is {}, which is longer than the --duration of {}",
                text::short(self.hold),
                text::short(self.duration)
            ));
        }
        let at_once = u64::from(self.clients) * u64::from(self.in_flight);
        if at_once > MOST_AT_ONCE {
            return Err(format!(
                "{} --clients with {} --in-flight each are {at_once} acquires at once: at most {MOST_AT_ONCE} are possible",
                self.clients, self.in_flight
            ));
        }
        Ok(())
    }
}

fn prefix(text: &str) -> Result<Arc<str>, String> {
    if text.is_empty() || text.len() > LONGEST_PREFIX || text.chars().any(char::is_control) {
        return Err(format!(
            "expected 1 to {LONGEST_PREFIX} bytes without control characters"
        ));
    }
    Ok(text.into())
}

fn measured(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_secs(1), "expected 1s to 1h")
}

fn warm_up(text: &str) -> Result<Duration, String> {
    between(text, Duration::ZERO, "expected 0 to 1h")
}

fn between(text: &str, least: Duration, explain: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration < least || duration > HOUR {
        return Err(explain.to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        options: BenchOptions,
    }

    fn read(line: &str) -> Result<BenchOptions, String> {
        let words = std::iter::once("bench").chain(line.split(' ').filter(|word| !word.is_empty()));
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.options.check()?;
        Ok(line.options)
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let options = read("").unwrap();
        assert_eq!((options.clients, options.in_flight), (16, 1));
        assert_eq!(options.duration, Duration::from_secs(10));
        assert_eq!(options.warm_up, Duration::from_secs(1));
        assert!(options.hold.is_zero() && !options.contended && options.names.is_none());
    }

    #[test]
    fn the_bounds_are_in_the_range_and_what_is_beyond_is_not() {
        for good in [
            "--clients 1",
            "--clients 10000 --in-flight 10",
            "--in-flight 1000",
            "--duration 1s --hold 1s",
            "--duration 1h",
            "--warm-up 0",
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
        for bad in [
            "--clients 0",
            "--clients 10001",
            "--in-flight 0",
            "--in-flight 1001",
            "--clients 1000 --in-flight 101",
            "--duration 999ms",
            "--duration 3601s",
            "--duration 1s --hold 1001ms",
            "--warm-up 61m",
            "--names=",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let told = read("--duration 1h --hold 2h").unwrap_err();
        assert_eq!(
            told,
            "--hold is 2h, which is longer than the --duration of 1h"
        );
        assert!(prefix(&"x".repeat(LONGEST_PREFIX + 1)).is_err());
        assert!(prefix("a\tb").is_err());
    }
}
