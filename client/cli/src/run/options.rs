//! Options of `run`, and their help.

use std::{ffi::OsString, time::Duration};

use crate::args::duration;

pub(crate) const HELP: &str = "\
Several names are locked all together or not at all, in whatever order they are given, and the
command is stopped when one of them is lost.

The command finds the lock's name in LEASEHOLD_LOCK_NAME and the grant's fencing token in
LEASEHOLD_FENCING_TOKEN. With several names there are neither of the two. LEASEHOLD_LOCKS is always
there: a JSON object with the token of each name, such as {\"account/7\":41,\"account/9\":17}.

It also finds the TRACEPARENT that this was started with, or that of --traceparent.

Pass the token to whatever the lock protects, and let that refuse smaller ones. (With --shared and
--semaphore several hold the lock at a time, each with a token of its own: there, refuse only those
that are smaller than the last exclusive holder's.)

The command runs in a process group of its own. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on
to it. If the lease is not renewed, the group gets TERM while there is still time (a third of the
TTL, five seconds at most), and KILL before the lease runs out. If the connection breaks, it gets
TERM at once, and KILL within half of the lock-delay. If the lock was taken away (a force release),
it gets KILL at once, since the next holder may be at work already. If `leasehold run` itself is
killed, the command is killed with it, and the lock-delay keeps the next holder out until then.

With several coordinators (--endpoint), the lock moves to another one when its own goes away in
order or falls silent, and the command notices nothing. Nor does it when the only coordinator is
restarted in order, and is back before a third of the TTL is left.
With --grace the lock outlives a connection
that breaks: the command goes on while the lock is suspended, which nobody else can have meanwhile,
and gets TERM and KILL before the grace, or the lease, runs out, unless the lock is resumed by then.
(TERM comes when a third of the shorter of the two is left.) The next holder then also waits for the
grace if this process is killed.

While it waits, it tells on standard error who holds the lock and how far it is in the queue: in
place on a terminal, elsewhere in a line at the start and one when something changes. It also tells
when it has lost its coordinator, when it has one again, and when the coordinator goes away. --quiet
leaves that out.

With --wait, attempts to connect and to ask are repeated until the wait is over, if the store is out
of reach, say. A coordinator that stops answering during the wait has one second more. Without
--wait, a coordinator has to be there at the start, and a store that is away is waited for.

What leaves the process group (setsid, daemons) escapes all of this, and so does what the command
leaves running when it ends: the lock is released when the command itself has ended.

Examples:
  leasehold run nightly-report -- ./report.sh
  leasehold run --wait 10s account/7 account/9 -- ./transfer.sh
  leasehold run --shared catalogue -- ./export.sh      beside other exports, never beside an import
  leasehold run catalogue -- ./import.sh
  leasehold run --semaphore 3 gpu -- ./train.sh        three at a time

Exit codes:
  the command's own, which may be any of these as well, or 128 + n if it was ended by signal n
  1    something else went wrong
  64   the command line or the lock's name is wrong, or others use another --semaphore limit
  69   no coordinator could be reached, or it does not serve at present
  70   the lock was lost; the command was stopped
  75   the lock was not granted: busy, or not free within --wait
  77   the coordinator does not know who asks, or does not allow it; or the certificates don't fit
  126  the command could not be executed
  127  there is no such command";

/// What `run` is told.
#[derive(clap::Args, Debug)]
pub(crate) struct RunOptions {
    /// The lock's name, or several: 1 to 512 bytes of UTF-8 without control characters each
    #[arg(required = true, num_args = 1.., value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Hold the lock beside other --shared holders: readers, where those who don't say it are writers
    #[arg(long)]
    pub(crate) shared: bool,

    /// Hold permits of a semaphore that has this many: 1 to 1000000. All who use the name give the same limit
    #[arg(long, value_name = "LIMIT", conflicts_with = "shared", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) semaphore: Option<u32>,

    /// How many permits of the semaphore to hold: 1 to the limit
    #[arg(long, value_name = "NUMBER", requires = "semaphore", conflicts_with = "shared", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) permits: u32,

    /// How long the lock outlives the loss of contact, such as 10s or 2m [default: the coordinator's, 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock, from the attempt to connect on; 0 means not to wait [default: for as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,

    /// How long what it held stays closed if this process is killed or loses contact, for its command to be gone before
    /// the next holder starts
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub(crate) lock_delay: Duration,

    /// How long to keep the lock when the connection breaks, to resume it over another one: at most the TTL
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub(crate) grace: Duration,

    /// Attached to the lock for others to see
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) value: String,

    /// Who holds the lock, for others to see [default: this host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) client_name: Option<String>,

    /// Say nothing while waiting, nor when the coordinator goes away or is back: errors only
    #[arg(long)]
    pub(crate) quiet: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl RunOptions {
    /// What is wrong with the options taken together.
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
        if self.names.len() > 1 {
            return Err(
                "--semaphore takes one name: permits of several semaphores can't be had together"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
