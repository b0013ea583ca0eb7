//! Options of `run`, and their help.

use std::time::Duration;

use leasehold_client::LockSpec;

use crate::{command::LeaseOptions, duration::duration};

pub(crate) const HELP: &str = "\
Several names are locked together or not at all, in any order. The command is stopped when one of
them is lost.

The environment of the command has the lock's name in LEASEHOLD_LOCK_NAME and its fencing token in
LEASEHOLD_FENCING_TOKEN; with several names, neither is set. LEASEHOLD_LOCKS is always set: a JSON
object with the token of each name, such as {\"account/7\":41,\"account/9\":17}. With --semaphore,
LEASEHOLD_PERMITS is the number of permits held. TRACEPARENT is that of `leasehold run`, or that of
--traceparent.

Pass the token to the resource that the lock protects, which refuses smaller ones. (With --shared
and --semaphore, several clients hold the lock at a time, each with its own token: refuse only
tokens that are smaller than the last exclusive holder's.)

The command runs in a process group of its own. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on
to it; on Linux not those that process 1 or the parent of `leasehold run` sent all its processes, as
systemd does: the command has these already. If the lease is not renewed, the group gets TERM while
there is still time (a third of the TTL, five seconds at most), and KILL before the lease expires.
If the connection breaks, it gets TERM at once, and KILL within half of the lock-delay. If the lock
is taken away (a force-release), it gets KILL at once, because the next holder may already work. If
`leasehold run` itself is killed, the command is killed with it, and the lock-delay keeps the next
holder out until then.

If INT or QUIT, which keys send, ended the command or came before it ran, `leasehold run` dies of
the same signal, so that the key also ends a shell's loop of runs. Shells show 130 and 131 then.

On a terminal, the command has the foreground from the start if it reads from the terminal and
writes to it. Otherwise it gets it when it uses the terminal, such as for a password, so that a
pager behind a pipe keeps it until then. A command in the background that wants the terminal is
stopped; `leasehold run` reports that, and hands the terminal over once it is in the foreground. A
command that holds a lock can't be suspended (Ctrl-Z).

With several coordinators (--endpoint), the lock moves to another one when its coordinator shuts
down or stops answering, and the command goes on. It also goes on if the only coordinator restarts
in an orderly way and is back before a third of the TTL is left.

With --max-hold, the lock is held for that long at most, less 1 % for clocks that differ, however
healthy everything is. The command gets TERM when a tenth of that is left (200 ms at least, five
seconds at most), and KILL when a quarter of the tenth is left (500 ms at most), whatever the TTL
is. `leasehold run` exits with 70 then.

When an operator asks for the lock's release (`leasehold release NAME --ask`), `leasehold run`
reports it, and with --on-request sends that signal to the command's group, once. The command may
finish what it does and end, or go on; the lock is released when it ends.

With --grace, the lock outlives a broken connection: the command goes on while the lock is
suspended, and no other client can get it. Unless the lock is resumed, the command gets TERM and
KILL before the grace, or the lease, ends. (TERM comes when a third of the shorter of the two is
left.) If this process is killed, the next holder also waits for the grace.

While waiting, `leasehold run` reports the holder and the place in the queue on standard error: in
place on a terminal, otherwise a line at the start and on each change. It also reports when it loses
its coordinator, reaches one again, or the coordinator shuts down. --quiet suppresses these reports.

With --wait, attempts to connect and to acquire are repeated until the wait is over, for example
while the store is unreachable. A coordinator that stops answering during the wait gets one second
more. Without --wait, a coordinator must be reachable at startup; if its store is not, `leasehold
run` waits for the store.

Processes that leave the process group (setsid, daemons), or that the command leaves running when it
ends, are not stopped: the lock is released when the command itself has ended. Nor can an ordinary
user stop processes of others, such as what sudo runs. On Linux, a command that has such processes
gets TERM a second before KILL even if the lock is taken away, since sudo can pass TERM on; those
that go on without the lock are reported. Prefer `sudo leasehold run NAME -- COMMAND`.

Examples:
  leasehold run nightly-report -- ./report.sh
  leasehold run --wait 10s account/7 account/9 -- ./transfer.sh
  leasehold run --wait 0 --busy-exit 0 --quiet nightly-report -- ./report.sh    on every machine
  leasehold run --shared catalogue -- ./export.sh      beside other exports, never beside an import
  leasehold run catalogue -- ./import.sh
  leasehold run --semaphore 3 gpu -- ./train.sh        three at a time
  leasehold run --semaphore 8 --permits 8 --permits-at-least 2 gpu -- ./train.sh    with 2 to 8
  leasehold run --with-shared config account/7 -- ./debit.sh    reads one, writes the other
  leasehold run --on-request TERM batch -- ./batch.sh  ends when an operator asks for the lock

Exit codes:
  the command's own, which may equal one of these, or 128 + n if signal n ended it
  1    another error
  64   invalid command line or lock name, or another --semaphore limit is in force
  69   no coordinator is reachable, or it does not serve now
  70   the lock was lost; the command was stopped
  75   the lock was not granted: busy, or not free within --wait (or the code of --busy-exit)
  77   unknown identity, missing permission, or a TLS certificate that was not accepted
  126  the command could not be executed
  127  the command was not found";

/// Options of `run`.
#[derive(clap::Args, Debug)]
pub(crate) struct RunOptions {
    /// The lock's name, or several: 1 to 512 bytes of UTF-8 without control characters each
    #[arg(required = true, num_args = 1.., value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Share the lock with other --shared holders: these are readers, all other holders are writers
    #[arg(long)]
    pub(crate) shared: bool,

    /// Hold permits of a semaphore with this limit: 1 to 1000000. All users of the name give the same limit, or a revision
    #[arg(long, value_name = "LIMIT", conflicts_with = "shared", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) semaphore: Option<u32>,

    /// Number of the semaphore's permits to hold: 1 to the limit. At most, with --permits-at-least
    #[arg(long, value_name = "NUMBER", requires = "semaphore", conflicts_with = "shared", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) permits: u32,

    /// Accept fewer permits, at least this many: 1 to --permits. Holds as many as are free when its turn comes;
    /// LEASEHOLD_PERMITS says how many [default: all of --permits]
    #[arg(long, value_name = "NUMBER", requires = "semaphore", conflicts_with = "shared", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) permits_at_least: Option<u32>,

    /// Revision of the limit: 0 to 4294967295. A greater one than that in force replaces the limit at once, also while
    /// permits are held; an acquire with a smaller one uses that in force
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "semaphore",
        conflicts_with = "shared",
        default_value_t = 0
    )]
    pub(crate) limit_revision: u32,

    /// Hold this lock too, shared, together with the others or not at all. May be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) with_shared: Vec<String>,

    #[command(flatten)]
    pub(crate) lease: LeaseOptions,

    /// Longest time to wait for the lock, including the time to connect; 0 means do not wait [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// Longest time to hold the lock, from its grant: 1s to 365d. The command is stopped shortly before [default: no bound]
    #[arg(long, value_name = "DURATION", value_parser = max_hold)]
    pub(crate) max_hold: Option<Duration>,

    /// Value attached to the hold, for others to see
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) value: String,

    /// Exit code if the lock is busy, or not free within --wait: 0 to 255. 0 suits a job that runs on one of several machines
    /// [default: 75]
    #[arg(long, value_name = "CODE")]
    pub(crate) busy_exit: Option<u8>,

    /// Print errors only: no reports while waiting, or when the coordinator goes away or is back, and not that the lock is busy
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Parses a bound on the time held.
fn max_hold(text: &str) -> Result<Duration, String> {
    let bound = duration(text)?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(365 * 86_400);
    match allowed.contains(&bound) {
        true => Ok(bound),
        false => Err("expected 1s to 365d".to_owned()),
    }
}

impl RunOptions {
    /// Returns the names of all locks.
    pub(crate) fn all_names(&self) -> Vec<String> {
        self.names
            .iter()
            .chain(&self.with_shared)
            .cloned()
            .collect()
    }

    /// Returns the locks, each with its mode.
    pub(super) fn locks(&self) -> Vec<LockSpec> {
        let named = self.names.iter().map(|name| match self.semaphore {
            Some(limit) => {
                let permits = LockSpec::permits(name.as_str(), self.permits, limit)
                    .limit_revision(self.limit_revision);
                match self.permits_at_least {
                    Some(least) => permits.permits_at_least(least),
                    None => permits,
                }
            }
            None if self.shared => LockSpec::shared(name.as_str()),
            None => LockSpec::exclusive(name.as_str()),
        });
        let shared = self.with_shared.iter().map(String::as_str);
        named.chain(shared.map(LockSpec::shared)).collect()
    }

    /// Checks the options against one another.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(limit) = self.semaphore else {
            return Ok(());
        };
        if self.permits > limit {
            return Err(format!(
                "--permits is {}, which is more than the --semaphore limit of {limit}",
                self.permits
            ));
        }
        if let Some(least) = self.permits_at_least.filter(|least| *least > self.permits) {
            return Err(format!(
                "--permits-at-least is {least}, which is more than --permits, {}",
                self.permits
            ));
        }
        if self.names.len() > 1 {
            return Err(
                "--semaphore takes one name; share others beside it by --with-shared".to_owned(),
            );
        }
        Ok(())
    }
}
