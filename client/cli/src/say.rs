//! Messages of the tool itself on standard error. They never block.

use std::{
    fmt::Display,
    io::{self, Write},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest line, in bytes with its end: a pipe that is ready for writing takes this much without blocking.
const LONGEST: usize = libc::PIPE_BUF;
/// End of a line that was cut.
const CUT: &str = "…\n";

/// Prints a line, in the tool's name, unless that would block: a reader of standard error that has stopped or is gone must
/// not keep the tool from stopping a command in time, nor end the tool.
pub(crate) fn say(what: impl Display) {
    let stderr = io::stderr();
    let mut asked = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::OUT) {
        io::stderr().write_all(line(what).as_bytes()).ok();
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
