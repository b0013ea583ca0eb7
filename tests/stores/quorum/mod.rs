//! Locks over several independent masters: a majority decides, whatever the others do.

mod bootstrap_command;
mod commands;
mod ended;
mod first_start;
mod full;
mod half_resumed;
mod late;
mod late_grant;
mod late_replies;
mod offered;
mod raised;
mod resumed;
mod silence;
mod site;
mod strangers;
mod undone;
mod unknown;
