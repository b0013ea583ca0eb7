//! Options of `elect`, and their help.

use std::net::SocketAddr;

use crate::command::LeaseOptions;

pub(crate) const HELP: &str = "\
One of all candidates for a name leads at a time, and the command runs only there. When the
leadership is lost, `leasehold elect` stops the command, campaigns again, and runs it again when
elected. When the command ends by itself, it resigns and exits with the command's exit code: let the
command run for as long as it should lead.

An election is the exclusive lock of its name. The environment of the command has the name in
LEASEHOLD_ELECTION and LEASEHOLD_LOCK_NAME, the leader's fencing token in LEASEHOLD_FENCING_TOKEN,
and both in LEASEHOLD_LOCKS, as JSON. Pass the token to every resource that the leader writes to,
which refuses smaller ones.

The command is stopped as by `leasehold run` (see there): with TERM and then KILL before the lease
expires or, if the connection breaks, within half of the lock-delay; with KILL at once if the
leadership is taken away. INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to the command; while no
command runs, they end `leasehold elect` at once. After INT, TERM or QUIT, it does not campaign
again. Keys and the terminal do what they do with `leasehold run`.

With --on-request, the command gets that signal when an operator asks for the leadership (`leasehold
release NAME --ask`). When it has ended, `leasehold elect` resigns, which lets the next candidate
lead, and campaigns again, behind those that wait; with --once, it exits with the command's exit
code.

With --ready-listen, a load balancer's health check finds the leader: it answers 200 only while the
command runs under a leadership that is held, and 503 while it is suspended.

With several coordinators (--endpoint), the leadership, or the place in the queue, moves to another
one when its coordinator shuts down or stops answering: no other candidate is elected, and the
command goes on. With --grace, the leadership outlives a broken connection, as a lock does with
`leasehold run`.

If the coordinator goes away while `leasehold elect` waits or leads, it reports this once and waits
for one. A coordinator must be reachable at startup.

Examples:
  leasehold elect scheduler --value \"$(hostname)\" -- ./scheduler.sh
  leasehold elect scheduler --once -- ./scheduler.sh     for a service manager to start again
  leasehold elect scheduler --on-request TERM -- ./scheduler.sh
  leasehold elect scheduler --ready-listen 0.0.0.0:8080 -- ./scheduler.sh
  leasehold leader scheduler
  leasehold observe scheduler

Exit codes:
  the command's own, which may equal one of these, or 128 + n if signal n ended it
  128 + n if signal n came while no command ran, or was passed on before the leadership was lost
  1    another error
  64   invalid command line or election name
  69   no coordinator was reachable at startup, or it did not serve
  70   the leadership was lost; the command was stopped (--once)
  77   unknown identity, missing permission, or a TLS certificate that was not accepted
  126  the command could not be executed
  127  the command was not found";

/// Options of `elect`.
#[derive(clap::Args, Debug)]
pub(crate) struct ElectOptions {
    /// The election's name: 1 to 512 bytes of UTF-8 without control characters
    pub(crate) name: String,

    /// Value for observers of the leader, such as its address: at most 4 KiB
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) value: String,

    #[command(flatten)]
    pub(crate) lease: LeaseOptions,

    /// Exit when the leadership is lost, instead of campaigning again
    #[arg(long)]
    pub(crate) once: bool,

    /// Address at which to answer HTTP requests: with 200 while this process leads, otherwise with 503. Port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) ready_listen: Option<SocketAddr>,
}

/// Parses an address to listen on.
fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an IP address and a port, such as 0.0.0.0:8080 or [::1]:0";
    text.parse().map_err(|_| expected.to_owned())
}
