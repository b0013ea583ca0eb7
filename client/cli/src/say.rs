//! Messages of the tool itself on standard error. They never block.

use std::{
    fmt::Display,
    io::{self, Write},
    os::fd::AsFd,
};

use rustix::event::{PollFd, PollFlags, Timespec};

/// Longest line, in bytes with its end: a pipe that is ready for writing takes this much without blocking.
const LONGEST: usize = libc::PIPE_BUF;
/// End of a line that was cut.
const CUT: &str = "…\n";

/// Prints a line, in the tool's name, unless that would block: a reader of standard error that has stopped or is gone must
/// not keep the tool from stopping a command in time, nor end the tool.
pub(crate) fn say(what: impl Display) {
    if poll(&io::stderr(), PollFlags::OUT).contains(PollFlags::OUT) {
        io::stderr().write_all(line(what).as_bytes()).ok();
    }
}

/// Returns the present state of a file: which of these flags apply, and whether there is an error.
pub(crate) fn poll(file: &impl AsFd, flags: PollFlags) -> PollFlags {
    let mut asked = [PollFd::new(file, flags)];
    let at_once = Timespec::default();
    match rustix::event::poll(&mut asked, Some(&at_once)) {
        Ok(_) => asked[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

fn line(what: impl Display) -> String {
    let mut line = format!("leasehold: {what}\n");
    if line.len() > LONGEST {
        let mut end = LONGEST - CUT.len();
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push_str(CUT);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_a_pipe_may_not_take_it_as_a_whole() {
        assert_eq!(line("it goes on"), "leasehold: it goes on\n");
        let room = LONGEST - "leasehold: \n".len();
        let longest = line("x".repeat(room));
        assert_eq!(longest.len(), LONGEST);
        assert!(longest.ends_with("x\n"));
        // Wherever the characters begin.
        for begin in ["", "x", "xx"] {
            let cut = line(format!("{begin}{}", "€".repeat(room)));
            assert!(cut.len() <= LONGEST && cut.len() > LONGEST - 4);
            assert!(cut.ends_with("€…\n"));
        }
    }
}
