//! Options of `top`, and its help.

use super::locks::Sort;

pub(crate) const HELP: &str = "\
The upper part shows the coordinators of --endpoint, the middle the locks, the busiest first, and
the lower part what happens to them. GRANTS/S is the rate of the last seconds. `top` keeps at most
20 000 locks in mind: with more, name a prefix.

Keys:
  up, down, PgUp, PgDn, Home, End   choose a lock; Home follows the first again
  Enter                             open the lock: its holders and its queue; Esc goes back
  x                                 in an open lock: take it from the chosen holder by force, or end
                                    the chosen wait, after a question that names the client
  s                                 sort by waiters, rate, time held or name
  /                                 show only locks with a text in their name or holder; Esc ends it
  ?                                 show the keys
  q                                 quit

NO_COLOR turns colours off. Ctrl-C, INT and TERM end the command, which shells show as 130 and 143.
If its coordinator goes away, `top` shows what it knew and waits for another one; a coordinator must
be reachable at startup (otherwise 69). For scripts, use `leasehold watch` or `leasehold ls`.";

/// Options of `top`.
#[derive(clap::Args, Debug)]
pub(crate) struct TopOptions {
    /// Show only names with this prefix
    #[arg(default_value = "", hide_default_value = true)]
    pub(super) prefix: String,

    /// Order of the locks at the start
    #[arg(long, value_name = "ORDER", value_enum, default_value = "waiters")]
    pub(super) sort: Sort,
}
