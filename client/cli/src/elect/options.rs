//! Options of `elect`, and their help.

use std::{ffi::OsString, time::Duration};

use crate::args::duration;

pub(crate) const HELP: &str = "\
Of all that campaign for a name, one leads at a time, and the command runs only there. When the
leadership is lost, the command is stopped, and this campaigns again and runs it anew once it is
elected again. When the command ends by itself, this resigns and ends with its exit code: let the
command run for as long as it is to lead.

An election is the exclusive lock of its name. The command finds the name in LEASEHOLD_ELECTION and
LEASEHOLD_LOCK_NAME, the leader's fencing token in LEASEHOLD_FENCING_TOKEN, and both in
LEASEHOLD_LOCKS, as JSON. Pass the token to whatever the leader writes to, and let that refuse
smaller ones.

The command is stopped as `leasehold run` does it (see there): TERM and then KILL before the lease
runs out or, if the connection breaks, within half of the lock-delay; KILL at once if the leadership
was taken away. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to the command; while there is
none, that is while others lead, they end this at once. After INT, TERM or QUIT it does not campaign
again.

With several coordinators (--endpoint), the leadership, or the place in line, moves to another one
when its own goes away in order or falls silent: nobody else is elected for that, and the command
notices nothing. With --grace the leadership outlives a connection that breaks, as `leasehold run`
does it with a lock.

A coordinator that goes away while this waits, or leads, is waited for: this says so once, and goes
on. Only at the start there has to be one.

Examples:
  leasehold elect scheduler --value \"$(hostname)\" -- ./scheduler.sh
  leasehold elect scheduler --once -- ./scheduler.sh     for a service manager to start again
  leasehold leader scheduler
  leasehold observe scheduler

Exit codes:
  the command's own, which may be any of these as well, or 128 + n if it was ended by signal n
  128 + n if signal n came while there was no command, or had been passed on when the leadership was
       lost
  1    something else went wrong
  64   the command line or the election's name is wrong
  69   no coordinator could be reached at the start, or it did not serve then
  70   the leadership was lost; the command was stopped (--once)
  77   the coordinator does not know who asks, or does not allow it; or the certificates don't fit
  126  the command could not be executed
  127  there is no such command";

/// What `elect` is told.
#[derive(clap::Args, Debug)]
pub(crate) struct ElectOptions {
    /// The election's name: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) name: String,

    /// What others are told of this leader, its address perhaps: at most 4 KiB
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) value: String,

    /// How long the leadership outlives the loss of contact, such as 10s or 2m [default: the coordinator's, 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// How long nobody is elected if this process is killed or loses contact, for its command to be gone before the next
    /// leader starts
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub(crate) lock_delay: Duration,

    /// How long to keep the leadership when the connection breaks, to resume it over another one: at most the TTL
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub(crate) grace: Duration,

    /// Who campaigns, for others to see [default: this host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) client_name: Option<String>,

    /// End when the leadership is lost, instead of campaigning again
    #[arg(long)]
    pub(crate) once: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
